//! Models, one program for all tests.

mod attention;
mod identities;
mod random;
