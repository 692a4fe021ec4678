//! A model, a hub that has it, and an empty cache.

pub mod server;
pub mod site;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use glassformer_hub::{Hub, Name, Network, Patience, Proxies, Settings};

/// An empty folder that no other test has.
pub fn folder() -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("hub-{}-{number}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

/// Settings with an empty cache, and little patience.
pub fn settings(endpoint: &str) -> Settings {
    Settings {
        cache: folder(),
        endpoint: endpoint.to_owned(),
        token: None,
        network: Network::Online,
        proxies: Proxies::default(),
        certificates: None,
        timeout: Duration::from_secs(60),
        patience: Patience { attempts: 4, first: Duration::from_millis(5), longest: Duration::from_secs(2) },
    }
}

/// The same settings, without a network.
pub fn offline(settings: &Settings) -> Hub {
    Hub::new(Settings { network: Network::Offline, ..settings.clone() })
}

pub fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// Opens a model and does not look on.
pub fn open(hub: &Hub, text: &str) -> Result<PathBuf, String> {
    hub.open(&name(text), &|_| ()).map_err(|error| error.to_string())
}

/// All paths below a folder, sorted.
pub fn tree(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![folder.to_path_buf()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            if entry.file_type().unwrap().is_dir() {
                left.push(entry.path());
            } else {
                found.push(entry.path().strip_prefix(folder).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}
