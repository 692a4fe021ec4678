//! The CPU backend: planner, arena, thread team and kernels.

pub mod ceilings;
pub mod gemm;
pub mod isa;
pub mod lanes;
pub mod narrow;
pub mod team;
pub mod then;

mod context;
mod kernels;
mod plan;

pub use plan::{Cpu, Precision};
