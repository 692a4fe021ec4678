//! Named tensors from and to files that are not trusted.
