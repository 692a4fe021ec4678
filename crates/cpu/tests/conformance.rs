//! The suite that every backend passes, on the CPU: as it is, and behind memory that the host cannot see.

use std::sync::Arc;

use glassformer_conformance::{Opaque, check};
use glassformer_cpu::Cpu;
use glassformer_graph::Reference;

#[test]
fn the_cpu_conforms_and_lacks_nothing() {
    let report = check(&Cpu::new(2).sharing_everything(), 12).unwrap_or_else(|why| panic!("{why}"));
    assert!(report.unsupported.is_empty() && report.checked > 300, "{report:?}");
}

/// A device's memory is read by explicit calls alone: whoever looks into it directly finds nothing.
#[test]
fn memory_that_the_host_cannot_see_changes_nothing() {
    for inner in [Arc::new(Cpu::new(1)) as Arc<dyn glassformer_graph::Backend>, Arc::new(Reference)] {
        let report = check(&Opaque::over(inner), 4).unwrap_or_else(|why| panic!("{why}"));
        assert!(report.unsupported.is_empty() && report.checked > 250, "{report:?}");
    }
}
