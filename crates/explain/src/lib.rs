//! Showing a run: every number from the input words to the output word.
