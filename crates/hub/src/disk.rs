//! How much room a disk has.

use std::path::Path;

/// Bytes that may still be written in the folder `path`, where the system tells.
#[cfg(unix)]
pub fn room(path: &Path) -> Option<u64> {
    let system = rustix::fs::statvfs(path).ok()?;
    Some(system.f_bavail.saturating_mul(system.f_frsize))
}

/// Bytes that may still be written in the folder `path`, where the system tells.
#[cfg(not(unix))]
pub fn room(_: &Path) -> Option<u64> {
    None
}

/// Bytes as people read them.
pub fn bytes(count: u64) -> String {
    let units = ["kB", "MB", "GB", "TB", "PB", "EB"];
    let mut value = count as f64 / 1e3;
    let mut unit = 0;
    while value >= 999.95 && unit + 1 < units.len() {
        value /= 1e3;
        unit += 1;
    }
    if count < 1000 { format!("{count} bytes") } else { format!("{value:.1} {}", units[unit]) }
}
