//! Where a user's files lie, as the XDG Base Directory Specification says.

use std::env::var_os;
use std::path::PathBuf;

/// The folder of what is kept from run to run.
pub fn state() -> Option<PathBuf> {
    ours("XDG_STATE_HOME", ".local/state")
}

/// The folder of configurations.
pub fn config() -> Option<PathBuf> {
    ours("XDG_CONFIG_HOME", ".config")
}

/// The user's own folder.
pub fn home() -> Option<PathBuf> {
    let name = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
    var_os(name).map(PathBuf::from).filter(|home| home.is_absolute())
}

/// Ours in the folder that a variable names, or else in the one that is usual. Paths that are not absolute do not count.
fn ours(variable: &str, usual: &str) -> Option<PathBuf> {
    let named = var_os(variable).map(PathBuf::from).filter(|folder| folder.is_absolute());
    Some(named.or_else(|| Some(home()?.join(usual)))?.join("glassformer"))
}
