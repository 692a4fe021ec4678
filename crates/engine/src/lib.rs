//! Sessions and generation: the loops around a plan.
