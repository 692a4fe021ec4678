//! Listings and caches that lie. Nothing is written outside the cache, nothing absurd is begun, nothing panics.

use std::fs;

use glassformer_hub::{Hub, Settings};

use crate::common::server::{Reply, Server};
use crate::common::site::{COMMIT, Site, weights};
use crate::common::{folder, name, offline, open, settings, tree};

/// The error of a hub with this listing.
fn listed(files: &str) -> (String, Settings) {
    let listing = format!(r#"{{"sha":"{COMMIT}","siblings":[{files}]}}"#);
    let site = Site::new();
    let server = Server::new(move |request| {
        if request.path.contains("/revision/") {
            Reply::new(200).body(listing.clone())
        } else {
            site.answer(request)
        }
    });
    let settings = settings(&server.url);
    let error = open(&Hub::new(settings.clone()), "org/name").unwrap_err();
    (error, settings)
}

#[test]
fn files_that_lead_out_are_refused() {
    for path in ["../../../evil.gguf", "/tmp/evil.gguf", "a/../../evil.gguf"] {
        let (error, settings) = listed(&format!(r#"{{"rfilename":"{path}","size":3}}"#));
        assert!(error.contains("leads out of its folder"), "{error}");
        assert!(tree(&settings.cache).is_empty());
    }
}

#[test]
fn absurd_sizes_are_refused_before_anything_is_fetched() {
    let file = |size: &str| {
        format!(
            r#"{{"rfilename":"model.safetensors","size":{size},"lfs":{{"sha256":"{}"}}}}"#,
            "a".repeat(64)
        )
    };
    for size in ["18446744073709551615", "99999999999999999999999", "-5", "1e99"] {
        let (error, _) = listed(&file(size));
        assert!(error.contains("of org/name is refused"), "{error}");
    }
    // What could be, but not on this disk: 16 TiB.
    let (error, settings) = listed(&file("17592186044416"));
    assert!(
        error.contains("17.6 TB are needed for org/name") && error.contains("glassformer remove"),
        "{error}"
    );
    assert!(tree(&settings.cache).is_empty());
}

#[test]
fn what_is_no_listing_is_refused() {
    for body in ["", "<html>login first</html>", "[]", "{}", r#"{"sha":"../../x","siblings":[]}"#] {
        let server = Server::new(move |_| Reply::new(200).body(body));
        let error = open(&Hub::new(settings(&server.url)), "org/name").unwrap_err();
        assert!(error.contains("is refused") && error.contains("check HF_ENDPOINT"), "{body}: {error}");
    }
}

#[test]
fn an_index_that_names_files_elsewhere_is_refused() {
    let index = br#"{"weight_map":{"a":"../../../../evil"}}"#.to_vec();
    let site = Site::with(vec![("model.safetensors.index.json", index)]);
    let server = Server::new(move |request| site.answer(request));
    let error = open(&Hub::new(settings(&server.url)), "org/name").unwrap_err();
    assert!(error.contains("model.safetensors.index.json") && error.contains("leads out"), "{error}");
}

#[test]
fn a_hub_that_tells_no_hash_is_refused() {
    let site = Site::new();
    let server = Server::new(move |request| {
        if request.path.contains("/revision/") {
            let listing = format!(r#"{{"sha":"{COMMIT}","siblings":[{{"rfilename":"model.safetensors"}}]}}"#);
            return Reply::new(200).body(listing);
        }
        Reply::bytes(request, site.get("model.safetensors").unwrap()).with("ETag", "\"../../../evil\"")
    });
    let error = open(&Hub::new(settings(&server.url)), "org/name").unwrap_err();
    assert!(error.contains("neither a hash nor a size of model.safetensors"), "{error}");
}

#[test]
fn a_cache_that_was_tampered_with_leads_nowhere() {
    let settings = settings("http://127.0.0.1:9");
    let repo = settings.cache.join("models--org--name");
    fs::create_dir_all(repo.join("refs")).unwrap();
    fs::create_dir_all(repo.join("snapshots")).unwrap();
    for text in ["../../../../etc", "/etc", "", "main", &"9".repeat(5000)] {
        fs::write(repo.join("refs/main"), text).unwrap();
        let error = open(&offline(&settings), "org/name").unwrap_err();
        assert!(error.contains("is not in"), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn removing_follows_no_link_out_of_the_cache() {
    let site = Site::new();
    let server = Server::new(move |request| site.answer(request));
    let settings = settings(&server.url);
    let hub = Hub::new(settings.clone());
    let path = open(&hub, "org/name").unwrap();
    let outside = folder();
    fs::create_dir_all(outside.join("blobs")).unwrap();
    fs::write(outside.join("blobs/precious"), weights(10)).unwrap();
    std::os::unix::fs::symlink(outside.join("blobs/precious"), path.join("vocab.txt")).unwrap();
    std::os::unix::fs::symlink(&outside, path.join("1_Pooling")).unwrap();
    let other = settings.cache.join("models--org--name/snapshots").join("e".repeat(40));
    fs::create_dir_all(other).unwrap();
    hub.removal(&name(&format!("org/name@{COMMIT}"))).unwrap().carry_out().unwrap();
    assert!(!path.exists());
    hub.removal(&name("org/name")).unwrap().carry_out().unwrap();
    assert_eq!(fs::read(outside.join("blobs/precious")).unwrap(), weights(10));
}
