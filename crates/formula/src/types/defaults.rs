//! What holds where a formula says nothing.

pub(super) fn yes() -> bool {
    true
}
