//! The choice of instructions.

use super::*;

#[test]
fn each_instruction_set_has_its_best_instructions() {
    for isa in Isa::available() {
        let dot = Dot::best(isa);
        assert!(dot.is_available() && dot.isa() <= isa);
        assert!(Dot::available().into_iter().filter(|other| other.isa() <= isa).all(|other| other <= dot));
    }
}
