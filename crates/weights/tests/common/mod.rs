//! Folders and files for the tests.
#![allow(dead_code, reason = "not every test file uses all of these")]

pub mod build;
pub mod fuzz;
pub mod mutate;
pub mod watch;

use std::fs;
use std::path::{Path, PathBuf};

/// An empty folder of this name for one test, under the build's own folder for such things.
pub fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).expect("the folder of an earlier run can be removed");
    }
    fs::create_dir_all(&folder).expect("the test folder can be made");
    folder
}

/// The bytes of a safetensors file with this header and this many bytes of data: 0, 1, 2 …
pub fn file(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend((0..data).map(|n| n as u8));
    bytes
}

/// A file or folder of `fixtures/weights`.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/weights").join(name)
}
