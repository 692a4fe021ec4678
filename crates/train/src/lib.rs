//! Losses, optimisers and the training loop, on the same graph that runs.
