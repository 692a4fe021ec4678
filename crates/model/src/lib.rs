//! Lowering a formula into graphs, and binding weights to them.
