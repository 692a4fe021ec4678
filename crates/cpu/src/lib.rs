//! The CPU backend: planner, arena, thread team and kernels.

pub mod ceilings;
pub mod epilogue;
pub mod gemm;
pub mod isa;
pub mod lanes;
pub mod lowp;
pub mod team;

mod context;
mod kernels;
mod pages;
mod plan;
mod tuning;

pub use plan::Cpu;
