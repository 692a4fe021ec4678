//! Models that are fetched: which files, in which layout, through redirects, resumed, tried again.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use glassformer_hub::{Event, Hub, Settings};

use crate::common::server::{Reply, Request, Server};
use crate::common::site::{COMMIT, Site, hash, weights};
use crate::common::{name, offline, open, settings, tree};

fn hub(site: Site) -> (Server, Settings) {
    let server = Server::new(move |request| site.answer(request));
    let settings = settings(&server.url);
    (server, settings)
}

#[test]
fn only_the_files_that_are_needed_are_fetched_in_the_layout_of_the_tools() {
    let site = Site::new();
    let (server, settings) = hub(site.clone());
    let path = open(&Hub::new(settings.clone()), "org/name").unwrap();
    assert_eq!(path, settings.cache.join(format!("models--org--name/snapshots/{COMMIT}")));
    assert_eq!(tree(&path), ["config.json", "model.safetensors", "tokenizer.json"]);
    for file in ["config.json", "model.safetensors", "tokenizer.json"] {
        let bytes = site.get(file).unwrap();
        assert_eq!(fs::read(path.join(file)).unwrap(), bytes);
        let link = fs::read_link(path.join(file)).unwrap();
        assert_eq!(link.to_str().unwrap(), format!("../../blobs/{}", hash(bytes)));
    }
    assert_eq!(fs::read_to_string(path.join("../../refs/main")).unwrap(), COMMIT);
    assert_eq!(server.count("README") + server.count("pytorch") + server.count("onnx"), 0);
    assert!(!tree(&settings.cache).iter().any(|path| path.ends_with(".incomplete")));
}

#[test]
fn what_is_in_the_cache_needs_no_network() {
    let (server, settings) = hub(Site::new());
    let hub = Hub::new(settings.clone());
    let path = open(&hub, "org/name").unwrap();
    let asked = server.log().len();
    assert_eq!(open(&hub, "org/name").unwrap(), path);
    assert_eq!(open(&offline(&settings), "org/name").unwrap(), path);
    assert_eq!(hub.find(&name("org/name")).unwrap(), path);
    assert_eq!(server.log().len(), asked);
}

#[test]
fn a_revision_is_its_own_ref_and_a_commit_none() {
    let (_server, settings) = hub(Site::new());
    let hub = Hub::new(settings.clone());
    let path = open(&hub, "org/name@refs/pr/1").unwrap();
    assert_eq!(open(&hub, &format!("org/name@{COMMIT}")).unwrap(), path);
    let refs = tree(&settings.cache.join("models--org--name/refs"));
    assert_eq!(refs, ["refs/pr/1"]);
}

#[test]
fn a_gguf_file_is_fetched_alone() {
    let files =
        vec![("config.json", b"{}".to_vec()), ("m-q4.gguf", weights(2000)), ("m-q8.gguf", weights(4000))];
    let (server, settings) = hub(Site::with(files));
    let hub = Hub::new(settings.clone());
    let path = open(&hub, "org/name:m-q4.gguf").unwrap();
    assert!(path.ends_with(format!("snapshots/{COMMIT}/m-q4.gguf")));
    assert_eq!(fs::metadata(&path).unwrap().len(), 2000);
    assert_eq!(server.count("q8") + server.count("config"), 0);
    assert_eq!(open(&offline(&settings), "org/name:Q4").unwrap(), path);
    let error = open(&offline(&settings), "org/name:m-q8.gguf").unwrap_err();
    assert!(error.contains("m-q8.gguf is missing, and HF_HUB_OFFLINE is set"), "{error}");
    let error = open(&hub, "org/name").unwrap_err();
    assert!(
        error.contains("holds 2 GGUF files; name one: org/name:m-q4.gguf, org/name:m-q8.gguf"),
        "{error}"
    );
}

#[test]
fn shards_and_modules_are_fetched_after_what_names_them() {
    let index =
        br#"{"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}"#;
    let modules = br#"[{"path":""},{"path":"1_Pooling"}]"#;
    let files = vec![
        ("config.json", b"{}".to_vec()),
        ("modules.json", modules.to_vec()),
        ("1_Pooling/config.json", b"{ }".to_vec()),
        ("2_Other/config.json", b"{  }".to_vec()),
        ("model.safetensors.index.json", index.to_vec()),
        ("model-00001-of-00002.safetensors", weights(2000)),
        ("model-00002-of-00002.safetensors", weights(3000)),
        ("tf_model.h5", weights(4000)),
    ];
    let (server, settings) = hub(Site::with(files));
    let path = open(&Hub::new(settings), "org/name").unwrap();
    let found = tree(&path);
    assert_eq!(found.len(), 6, "{found:?}");
    assert_eq!(server.count("tf_model") + server.count("2_Other"), 0);
    let link = fs::read_link(path.join("1_Pooling/config.json")).unwrap();
    assert!(link.starts_with("../../../blobs"), "{link:?}");
    assert_eq!(fs::read(path.join("1_Pooling/config.json")).unwrap(), b"{ }");
}

#[test]
fn the_token_goes_to_the_hub_and_not_where_it_redirects() {
    let site = Site::new();
    let store = {
        let site = site.clone();
        Server::new(move |request| site.store(request))
    };
    let site = Site { elsewhere: Some(store.url.clone()), ..site };
    let (server, settings) = hub(site);
    let token = Settings::read(&|name| match name {
        "HOME" => Some("/u".into()),
        "HF_TOKEN" => Some("hf_mine".into()),
        _ => None,
    });
    open(&Hub::new(Settings { token: token.unwrap().token, ..settings }), "org/name").unwrap();
    let authorized = |request: &Request| request.headers.get("authorization").cloned();
    assert!(server.log().iter().all(|request| authorized(request).as_deref() == Some("Bearer hf_mine")));
    let asked = store.log();
    assert_eq!(asked.len(), 2); // the tokenizer and the weights
    assert!(asked.iter().all(|request| authorized(request).is_none()), "{asked:?}");
}

#[test]
fn a_connection_that_breaks_is_resumed_where_it_broke() {
    let site = Site::new();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = asked.clone();
    let server = Server::new(move |request| {
        let reply = site.answer(request);
        if request.path == "/cache/model.safetensors" {
            seen.lock().unwrap().push(request.from());
            // Twice it breaks, after 100,000 bytes each time.
            let cut = (seen.lock().unwrap().len() < 3).then_some(100_000);
            return Reply { cut, ..reply };
        }
        reply
    });
    let retries = AtomicUsize::new(0);
    let hub = Hub::new(settings(&server.url));
    let bytes = Mutex::new(0);
    let path = hub.open(&name("org/name"), &|event| match event {
        Event::Retry { .. } => drop(retries.fetch_add(1, Ordering::Relaxed)),
        Event::Bytes(count) => *bytes.lock().unwrap() += count,
        Event::Lost(count) => *bytes.lock().unwrap() -= count,
        _ => {}
    });
    assert_eq!(fs::read(path.unwrap().join("model.safetensors")).unwrap(), weights(300_000));
    assert_eq!(*asked.lock().unwrap(), [None, Some(100_000), Some(200_000)]);
    assert_eq!(retries.into_inner(), 2);
    let config = Site::new().get("config.json").unwrap().len() as u64;
    assert_eq!(bytes.into_inner().unwrap(), 300_000 + 5000 + config);
}

#[test]
fn what_an_earlier_run_left_is_gone_on_with() {
    let (server, settings) = hub(Site::new());
    let bytes = weights(300_000);
    let blobs = settings.cache.join("models--org--name/blobs");
    fs::create_dir_all(&blobs).unwrap();
    fs::write(blobs.join(format!("{}.incomplete", hash(&bytes))), &bytes[..123_456]).unwrap();
    let path = open(&Hub::new(settings), "org/name").unwrap();
    assert_eq!(fs::read(path.join("model.safetensors")).unwrap(), bytes);
    let asked: Vec<_> =
        server.log().into_iter().filter(|request| request.path.contains("cache/model.s")).collect();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].from(), Some(123_456));
}

#[test]
fn what_an_earlier_run_left_wrong_is_thrown_away_and_fetched_anew() {
    let (_server, settings) = hub(Site::new());
    let bytes = weights(300_000);
    let incomplete = settings.cache.join(format!("models--org--name/blobs/{}.incomplete", hash(&bytes)));
    fs::create_dir_all(incomplete.parent().unwrap()).unwrap();
    for left in [vec![7; 1000], vec![7; 300_000], vec![7; 300_001]] {
        fs::write(&incomplete, &left).unwrap();
        let restarts = AtomicUsize::new(0);
        let hub = Hub::new(settings.clone());
        let path = hub.open(&name("org/name"), &|event| {
            if let Event::Restart { path } = event {
                assert_eq!(path, "model.safetensors");
                restarts.fetch_add(1, Ordering::Relaxed);
            }
        });
        assert_eq!(fs::read(path.unwrap().join("model.safetensors")).unwrap(), bytes);
        assert_eq!(restarts.into_inner(), usize::from(left.len() <= bytes.len()));
        fs::remove_file(settings.cache.join(format!("models--org--name/blobs/{}", hash(&bytes)))).unwrap();
    }
}

#[test]
fn a_server_without_ranges_sends_all_again() {
    let site = Site::new();
    let count = AtomicUsize::new(0);
    let server = Server::new(move |request| {
        if request.path == "/cache/model.safetensors" {
            let first = count.fetch_add(1, Ordering::Relaxed) == 0;
            return Reply { cut: first.then_some(1000), ..Reply::new(200).body(weights(300_000)) };
        }
        site.answer(request)
    });
    let path = open(&Hub::new(settings(&server.url)), "org/name").unwrap();
    assert_eq!(fs::read(path.join("model.safetensors")).unwrap(), weights(300_000));
}

#[test]
fn a_hub_that_asks_for_patience_gets_it() {
    let site = Site::new();
    let count = AtomicUsize::new(0);
    let server = Server::new(move |request| match count.fetch_add(1, Ordering::Relaxed) {
        0 => Reply::new(429).with("Retry-After", "1"),
        1 => Reply::new(503),
        2 => Reply::new(429).with("RateLimit", "\"api\";r=0;t=1"),
        _ => site.answer(request),
    });
    let waits = Mutex::new(Vec::new());
    let watch = |event: Event<'_>| {
        if let Event::Retry { wait, .. } = event {
            waits.lock().unwrap().push(wait);
        }
    };
    let settings = settings(&server.url);
    Hub::new(settings.clone()).open(&name("org/name"), &watch).unwrap();
    let (second, own) = (Duration::from_secs(1), settings.patience.first);
    assert_eq!(*waits.lock().unwrap(), [second, 2 * own, second]);
    assert_eq!(server.count("/revision/"), 4);
}

#[test]
fn a_listing_without_hashes_is_completed_by_what_each_file_says() {
    let site = Site::new();
    let plain =
        r#"{"sha":"COMMIT","siblings":[{"rfilename":"config.json"},{"rfilename":"model.safetensors"}]}"#;
    let plain = plain.replace("COMMIT", COMMIT);
    let server = Server::new(move |request| {
        if request.path.contains("/revision/") {
            Reply::new(200).body(plain.clone())
        } else {
            site.answer(request)
        }
    });
    let path = open(&Hub::new(settings(&server.url)), "org/name").unwrap();
    assert_eq!(fs::read(path.join("model.safetensors")).unwrap(), weights(300_000));
    assert!(server.log().iter().any(|request| request.method == "HEAD"));
}

#[test]
fn an_update_fetches_what_changed_and_moves_the_ref() {
    let state = Arc::new(Mutex::new(Site::new()));
    let shown = state.clone();
    let server = Server::new(move |request| shown.lock().unwrap().answer(request));
    let hub = Hub::new(settings(&server.url));
    let old = open(&hub, "org/name").unwrap();
    let newer = "f".repeat(40);
    {
        let mut site = state.lock().unwrap();
        site.commit.clone_from(&newer);
        site.files[1].1 = b"{\"model_type\":\"gpt2\"}".to_vec();
    }
    assert_eq!(open(&hub, "org/name").unwrap(), old, "what is there is used as it is");
    let pulled = hub.pull(&name("org/name"), &|_| ()).unwrap();
    assert_eq!((pulled.commit.as_str(), server.count("cache/model.safetensors")), (newer.as_str(), 1));
    assert_eq!(fs::read_to_string(pulled.path.join("config.json")).unwrap(), "{\"model_type\":\"gpt2\"}");
    assert_eq!(open(&hub, "org/name").unwrap(), pulled.path);
    let again = hub.pull(&name("org/name"), &|_| ()).unwrap();
    assert_eq!((again.files, again.bytes), (0, 0));
}
