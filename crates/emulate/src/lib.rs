//! Carries out instructions that this machine lacks, so that kernels for other processors are tested on it: AMX, AVX-512 BF16 and
//! AVX-VNNI, on Linux and any processor that has AVX-512 and can be asked to trap CPUID. Slow, and for tests alone: no other crate
//! depends on it.
//!
//! It is a library that is loaded before a program which knows nothing of it:
//!
//! ```console
//! $ cargo build --release -p glassformer-emulate
//! $ LD_PRELOAD=target/release/libglassformer_emulate.so target/release/glassformer -v bench --model FOLDER --dtype int8
//! ```
//!
//! Three things make the program believe ([`begin`]): CPUID traps, and the answer is told with more in it (`asked`); the
//! system's "no" to whoever asks for tile registers becomes a "yes"; and what the processor then refuses as unknown is read (`decode`),
//! carried out by loops over numbers (`carry`), and stepped over. Vector registers are those that the system saved for the
//! signal, and puts back (`state`); tile registers belong to a thread here (`tiles`).
//!
//! `GLASSFORMER_EMULATE=amx,avx-vnni` says what is pretended; without it, tiles alone, and what belongs to them.
//!
//! What it does not show: speed, and what a real processor does where its maker's manual leaves room.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod asked;
mod carry;
mod decode;
mod numbers;
mod start;
mod state;
mod tiles;

pub use start::begin;
