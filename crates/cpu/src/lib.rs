//! The CPU backend: planner, arena, thread team and kernels.

pub mod team;
