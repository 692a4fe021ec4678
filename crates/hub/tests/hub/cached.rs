//! The cache that other tools fill too: what they left is used, what is in it is listed, and taken out again.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use glassformer_hub::{Event, Hub, Settings};

use crate::common::server::Server;
use crate::common::site::{COMMIT, Site, hash};
use crate::common::{name, offline, open, settings, tree};

/// Lays files into a cache as another tool does: links to blobs, and a ref, and nothing else.
#[cfg(unix)]
fn lay(cache: &Path, site: &Site, files: &[&str]) -> PathBuf {
    let repo = cache.join("models--org--name");
    let snapshot = repo.join("snapshots").join(&site.commit);
    for folder in [&snapshot, &repo.join("refs"), &repo.join("blobs")] {
        fs::create_dir_all(folder).unwrap();
    }
    fs::write(repo.join("refs/main"), &site.commit).unwrap();
    for file in files {
        let bytes = site.get(file).unwrap();
        fs::write(repo.join("blobs").join(hash(bytes)), bytes).unwrap();
        std::os::unix::fs::symlink(format!("../../blobs/{}", hash(bytes)), snapshot.join(file)).unwrap();
    }
    snapshot
}

#[cfg(unix)]
#[test]
fn what_another_tool_fetched_is_used_and_completed_once() {
    let site = Site::new();
    let shown = site.clone();
    let server = Server::new(move |request| shown.answer(request));
    let settings = settings(&server.url);
    let path = lay(&settings.cache, &site, &["config.json", "model.safetensors"]);
    assert_eq!(open(&offline(&settings), "org/name").unwrap(), path, "enough to try");
    let hub = Hub::new(settings.clone());
    assert_eq!(open(&hub, "org/name").unwrap(), path);
    assert_eq!(tree(&path), ["config.json", "model.safetensors", "tokenizer.json"]);
    assert_eq!((server.count("/revision/"), server.count("model.safetensors")), (1, 0));
    assert_eq!(open(&hub, "org/name").unwrap(), path);
    assert_eq!(server.count("/revision/"), 1, "once it is known to be whole, nobody is asked");
}

#[cfg(unix)]
#[test]
fn a_hub_that_cannot_be_reached_does_not_keep_what_is_there_from_running() {
    let site = Site::new();
    let settings = settings("http://127.0.0.1:1");
    let path = lay(&settings.cache, &site, &["config.json", "model.safetensors"]);
    let said = Mutex::new(String::new());
    let opened = Hub::new(settings).open(&name("org/name"), &|event| {
        if let Event::Unchecked { name, why } = event {
            *said.lock().unwrap() = format!("{name}: {why}");
        }
    });
    assert_eq!(opened.unwrap(), path);
    assert!(said.into_inner().unwrap().contains("org/name: cannot reach http://127.0.0.1:1"));
}

#[cfg(unix)]
#[test]
fn what_another_tool_left_in_part_is_fetched() {
    let site = Site::new();
    let shown = site.clone();
    let server = Server::new(move |request| shown.answer(request));
    let settings = settings(&server.url);
    lay(&settings.cache, &site, &["tokenizer.json"]);
    assert!(open(&offline(&settings), "org/name").unwrap_err().contains("is not in"));
    let path = open(&Hub::new(settings), "org/name").unwrap();
    assert_eq!(tree(&path).len(), 3);
    assert_eq!(server.count("tokenizer.json"), 0);
}

#[test]
fn a_blob_that_went_missing_is_fetched_again() {
    let site = Site::new();
    let shown = site.clone();
    let server = Server::new(move |request| shown.answer(request));
    let settings = settings(&server.url);
    let path = open(&Hub::new(settings.clone()), "org/name").unwrap();
    let blob =
        settings.cache.join("models--org--name/blobs").join(hash(site.get("model.safetensors").unwrap()));
    fs::remove_file(&blob).unwrap();
    let error = open(&offline(&settings), "org/name").unwrap_err();
    assert!(error.contains("model.safetensors is missing"), "{error}");
    assert_eq!(open(&Hub::new(settings.clone()), "org/name").unwrap(), path);
    fs::write(&blob, "cut").unwrap();
    open(&Hub::new(settings), "org/name").unwrap();
    assert_eq!(fs::read(blob).unwrap(), site.get("model.safetensors").unwrap());
}

/// A cache with two revisions of a model that share their weights.
fn two(settings: &Settings, server: &Arc<Mutex<Site>>) -> Hub {
    let hub = Hub::new(settings.clone());
    open(&hub, &format!("org/name@{COMMIT}")).unwrap();
    {
        let mut site = server.lock().unwrap();
        site.commit = "f".repeat(40);
        site.files[1].1 = b"{}".to_vec();
    }
    open(&hub, "org/name").unwrap();
    hub
}

#[test]
fn the_cache_is_listed_with_each_byte_once() {
    let state = Arc::new(Mutex::new(Site::new()));
    let shown = state.clone();
    let server = Server::new(move |request| shown.lock().unwrap().answer(request));
    let settings = settings(&server.url);
    let hub = two(&settings, &state);
    let blobs = settings.cache.join("models--org--name/blobs");
    fs::write(blobs.join("x.incomplete"), [0; 77]).unwrap();
    fs::create_dir_all(settings.cache.join("datasets--org--data/snapshots")).unwrap();
    fs::create_dir_all(settings.cache.join("models--..--x/snapshots")).unwrap();
    let list = hub.list();
    assert_eq!(list.len(), 1);
    let model = &list[0];
    let old = Site::new().get("config.json").unwrap().len() as u64;
    assert_eq!((model.name.as_str(), model.incomplete), ("org/name", 77));
    assert_eq!(model.size, 300_000 + 5000 + old + 2 + 77);
    assert_eq!(model.revisions.len(), 2);
    let first = &model.revisions[0];
    assert_eq!((first.refs.as_slice(), first.size), (["main".to_owned()].as_slice(), 305_002));
    let files: Vec<&str> = first.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(files, ["config.json", "model.safetensors", "tokenizer.json"]);
    assert!(model.revisions[1].refs.is_empty());
}

#[test]
fn removing_a_revision_leaves_what_others_share() {
    let state = Arc::new(Mutex::new(Site::new()));
    let shown = state.clone();
    let server = Server::new(move |request| shown.lock().unwrap().answer(request));
    let settings = settings(&server.url);
    let hub = two(&settings, &state);
    let removal = hub.removal(&name("org/name@main")).unwrap();
    assert_eq!((removal.name.as_str(), removal.bytes), ("org/name@main", 2));
    removal.carry_out().unwrap();
    let path = open(&offline(&settings), &format!("org/name@{COMMIT}")).unwrap();
    assert_eq!(
        fs::read(path.join("model.safetensors")).unwrap(),
        Site::new().get("model.safetensors").unwrap()
    );
    let left = tree(&settings.cache.join("models--org--name"));
    assert!(!left.iter().any(|path| path.contains("refs") || path.contains("ffff")), "{left:?}");
    let error = hub.removal(&name("org/name@main")).unwrap_err().to_string();
    assert!(error.contains("there are 0123456789"), "{error}");
    hub.removal(&name(&format!("org/name@{COMMIT}"))).unwrap().carry_out().unwrap();
    assert!(!settings.cache.join("models--org--name").exists());
    assert!(hub.list().is_empty());
}

#[test]
fn removing_what_is_not_there_or_one_file_is_an_error() {
    let site = Site::new();
    let server = Server::new(move |request| site.answer(request));
    let hub = Hub::new(settings(&server.url));
    open(&hub, "org/name").unwrap();
    let error = |text: &str| hub.removal(&name(text)).unwrap_err().to_string();
    assert!(error("org/nam").contains("did you mean org/name?"));
    assert!(error("other/thing").contains("see `glassformer list`"));
    assert!(error("org/name:x.gguf").contains("in whole"));
}

#[test]
fn events_tell_how_much_there_is_to_do() {
    let site = Site::new();
    let server = Server::new(move |request| site.answer(request));
    let (planned, files) = (Mutex::new(0), AtomicUsize::new(0));
    let config = Site::new().get("config.json").unwrap().len() as u64;
    let hub = Hub::new(settings(&server.url));
    hub.open(&name("org/name"), &|event| match event {
        Event::Plan { files, bytes } => *planned.lock().unwrap() = bytes + files as u64,
        Event::File { .. } => drop(files.fetch_add(1, Ordering::Relaxed)),
        _ => {}
    })
    .unwrap();
    assert_eq!(planned.into_inner().unwrap(), 305_000 + config + 3);
    assert_eq!(files.into_inner(), 3);
}
