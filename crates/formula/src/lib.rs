//! What a Transformer is, as data: the operators of the formula, checked, printed, read and written.
