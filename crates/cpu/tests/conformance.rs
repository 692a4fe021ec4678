//! The suite that every backend passes, on the CPU: as it is, and behind memory that the host cannot see.

use std::sync::Arc;

use glassformer_conformance::{Opaque, check, operations_agree};
use glassformer_cpu::Cpu;
use glassformer_graph::{Backend, Capacity, Constants, Error, Graph, Node, Reference, Runner};

#[test]
fn the_cpu_conforms_and_lacks_nothing() {
    let report = check(&Cpu::new(2).sharing_everything(), 12).unwrap_or_else(|why| panic!("{why}"));
    assert!(report.unsupported.is_empty() && report.checked > 300, "{report:?}");
}

/// A device's memory is read by explicit calls alone: whoever looks into it directly finds nothing.
#[test]
fn memory_that_the_host_cannot_see_changes_nothing() {
    let cpu = Opaque::over(Arc::new(Cpu::new(1)));
    let report = check(&cpu, 4).unwrap_or_else(|why| panic!("{why}"));
    assert!(report.unsupported.is_empty() && report.checked > 100, "{report:?}");
    // The reference keeps stored keys in f32 and all else in f64: its steps are not the whole bit by bit.
    let reference = Opaque::over(Arc::new(Reference));
    let report = operations_agree(&reference).unwrap_or_else(|why| panic!("{why}"));
    assert!(report.unsupported.is_empty() && report.checked > 100, "{report:?}");
}

/// A backend that does not have an operation yet.
struct Without(Cpu, &'static str);

impl Backend for Without {
    fn prepare(
        &self,
        graph: &Arc<Graph>,
        weights: &dyn Constants,
        capacity: &Capacity,
    ) -> Result<Box<dyn Runner>, Error> {
        match graph.nodes().iter().find(|node| node.op.name() == self.1) {
            Some(Node { name, .. }) => Err(Error::Unsupported {
                node: name.clone(),
                op: self.1,
                why: "it is not written yet".to_owned(),
            }),
            None => self.0.prepare(graph, weights, capacity),
        }
    }
}

#[test]
fn what_a_backend_lacks_is_listed() {
    let report = operations_agree(&Without(Cpu::new(1), "norm")).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(report.unsupported.into_iter().collect::<Vec<_>>(), ["norm"]);
}
