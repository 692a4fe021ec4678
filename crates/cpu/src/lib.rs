//! The CPU backend: planner, arena, thread team and kernels.
#![allow(clippy::inline_always)] // the first rule of `lanes`
#![allow(clippy::wildcard_imports)] // intrinsics carry their origin in their names
#![allow(clippy::needless_range_loop)] // kernels count rows and registers, and several arrays have the same index
#![allow(clippy::cast_ptr_alignment)] // packed numbers begin on cache lines, and so does each of their parts
#![allow(clippy::extra_unused_type_parameters)] // `L` gives plain loops its instructions: the compiler finds the vectors

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
