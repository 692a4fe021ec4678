//! What the tests of the CPU backend share.
#![allow(dead_code)] // each test uses a part of it

use glassformer_cpu::Cpu;
use glassformer_cpu::isa::Isa;

/// Every instruction set of this machine, with 1, 2 and 5 threads.
pub fn backends() -> Vec<(String, Cpu)> {
    let with = |isa: Isa| {
        [1, 2, 5].map(|threads| {
            (format!("{isa}, {threads} threads"), Cpu::with_isa(threads, isa).sharing_everything())
        })
    };
    Isa::available().into_iter().flat_map(with).collect()
}
