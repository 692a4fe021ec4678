//! What a hub refuses, and what people are told to do about it.

use std::path::Path;

use glassformer_hub::{Hub, Settings};

use crate::common::server::{Reply, Server};
use crate::common::site::{COMMIT, Site};
use crate::common::{name, offline, open, settings, tree};

/// The error of a hub that answers everything with `reply`.
fn told(reply: Reply, token: Option<&str>) -> String {
    let server = Server::new(move |_| reply.clone());
    let token = token.map(|token| {
        let settings = Settings::read(&|name| match name {
            "HOME" => Some("/u".into()),
            "HF_TOKEN" => Some(token.into()),
            _ => None,
        });
        settings.unwrap().token.unwrap()
    });
    let error = open(&Hub::new(Settings { token, ..settings(&server.url) }), "org/name").unwrap_err();
    error.replace(&server.url, "HUB")
}

#[test]
fn a_gated_model_says_where_its_licence_is_accepted() {
    let reply = || Reply::new(401).with("X-Error-Code", "GatedRepo");
    assert_eq!(
        told(reply(), None),
        "org/name is gated: its licence must be accepted first; accept it at HUB/org/name, \
         then set HF_TOKEN to a token of that account"
    );
    let error = told(Reply::new(403).with("X-Error-Code", "GatedRepo"), Some("hf_mine"));
    assert!(
        error.ends_with("accept it at HUB/org/name, with the account that HF_TOKEN belongs to"),
        "{error}"
    );
}

#[test]
fn a_model_that_is_not_there_or_private_says_so() {
    let error = told(Reply::new(401).with("X-Error-Code", "RepoNotFound"), None);
    assert_eq!(
        error,
        "HUB has no model org/name; check the spelling, or set HF_TOKEN if the model is private"
    );
    assert!(told(Reply::new(404), None).contains("has no model org/name"));
    let error = told(Reply::new(404), Some("hf_mine"));
    assert!(error.contains("whether HF_TOKEN may see the model"), "{error}");
}

#[test]
fn a_wrong_token_is_named_and_not_shown() {
    let message = "Invalid credentials in Authorization header";
    let error = told(Reply::new(401).with("X-Error-Message", message), Some("hf_mine"));
    assert!(
        error.contains("refuses the token: Invalid credentials") && error.contains("HUB/settings/tokens"),
        "{error}"
    );
    assert!(!error.contains("hf_mine"));
}

#[test]
fn revisions_and_files_that_are_not_there_are_named() {
    let site = Site::new();
    let server = Server::new(move |request| site.answer(request));
    let hub = Hub::new(settings(&server.url));
    let error = open(&hub, "org/name@v9").unwrap_err();
    assert!(error.contains("org/name has no revision v9; see"), "{error}");
    let error = open(&hub, "org/name:q4.gguf").unwrap_err();
    assert!(error.contains("org/name has no file q4.gguf; it holds no GGUF file"), "{error}");
    let error = open(&hub, "org/nane").unwrap_err();
    assert!(error.contains("has no model org/nane"), "{error}");
}

#[test]
fn names_that_are_near_are_offered() {
    let site = Site::new();
    let server = Server::new(move |request| site.answer(request));
    let settings = settings(&server.url);
    open(&Hub::new(settings.clone()), "org/name").unwrap();
    let online = open(&Hub::new(settings.clone()), "org/nane").unwrap_err();
    assert!(online.ends_with("has no model org/nane; did you mean org/name?"), "{online}");
    let error = open(&offline(&settings), "org/nane").unwrap_err();
    assert!(error.contains("HF_HUB_OFFLINE is set; did you mean org/name?"), "{error}");
    let error = open(&offline(&settings), "other/thing").unwrap_err();
    assert!(error.contains("run `glassformer pull other/thing`"), "{error}");
    let error = offline(&settings).find(&name("name")).unwrap_err().to_string();
    assert!(error.contains("did you mean org/name?"), "{error}");
}

#[test]
fn patience_ends() {
    let error = told(Reply::new(429).with("Retry-After", "3600"), None);
    assert!(
        error.contains("answers too many requests, try again in 3600 s; wait so long, or set HF_TOKEN"),
        "{error}"
    );
    let error = told(Reply::new(502), None);
    assert!(error.contains("answers 502; try again later"), "{error}");
    let error = told(Reply::new(418).with("X-Error-Message", "I am a teapot"), None);
    assert!(error.contains("answers 418: I am a teapot; "), "{error}");
}

#[test]
fn a_hub_that_is_not_there_is_a_matter_of_the_network() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = open(&Hub::new(settings(&format!("http://127.0.0.1:{port}"))), "org/name").unwrap_err();
    assert!(error.contains("cannot reach http://127.0.0.1") && error.contains("HF_HUB_OFFLINE=1"), "{error}");
}

#[test]
fn a_wrong_hash_is_thrown_away_and_said() {
    let site = Site::new();
    let server = Server::new(move |request| {
        let mut reply = site.answer(request);
        if request.path == "/cache/model.safetensors" {
            reply.body[1000] ^= 1;
        }
        reply
    });
    let settings = settings(&server.url);
    let error = open(&Hub::new(settings.clone()), "org/name").unwrap_err();
    assert!(
        error.contains("model.safetensors of org/name has the hash") && error.contains("was thrown away"),
        "{error}"
    );
    assert_eq!(server.count("cache/model.safetensors"), 1);
    let left = tree(&settings.cache);
    assert!(
        !left.iter().any(|path| path.contains("incomplete") || path.contains("model.safetensors")),
        "{left:?}"
    );
    // Nothing of it counts as a model.
    let error = open(&offline(&settings), "org/name").unwrap_err();
    assert!(error.contains("is not in"), "{error}");
}

#[test]
fn a_file_of_another_length_is_refused() {
    let site = Site::new();
    let server = Server::new(move |request| match request.path.as_str() {
        "/cache/model.safetensors" => Reply::new(200).body(vec![1; 299_999]),
        _ => site.answer(request),
    });
    let error = open(&Hub::new(settings(&server.url)), "org/name").unwrap_err();
    assert!(error.contains("has 299999 bytes instead of 300000"), "{error}");
}

#[test]
fn a_connection_that_always_breaks_ends_and_keeps_what_came() {
    let site = Site::new();
    let server = Server::new(move |request| {
        let cut = (request.path == "/cache/model.safetensors").then_some(10_000);
        Reply { cut, ..site.answer(request) }
    });
    let settings = settings(&server.url);
    let error = open(&Hub::new(settings.clone()), "org/name").unwrap_err();
    assert!(
        error.contains("breaks off after 40000 of 300000 bytes") && error.contains("it goes on from there"),
        "{error}"
    );
    let left = tree(&settings.cache);
    let incomplete = left.iter().find(|path| path.ends_with(".incomplete")).unwrap();
    assert_eq!(std::fs::metadata(settings.cache.join(incomplete)).unwrap().len(), 40_000);
}

#[test]
fn redirects_in_circles_and_to_other_protocols_end() {
    let error = told(Reply::new(302).with("Location", "/again"), None);
    assert!(error.contains("redirects more than 10 times"), "{error}");
    for location in ["file:///etc/passwd", "gopher://x/y", "http://"] {
        let error = told(Reply::new(302).with("Location", location), None);
        assert!(error.contains("redirects to no address"), "{error}");
    }
}

#[test]
fn a_cache_that_cannot_be_written_is_named() {
    let site = Site::new();
    let server = Server::new(move |request| site.answer(request));
    let settings = settings(&server.url);
    let cache = settings.cache.join("file");
    std::fs::write(&cache, "no folder").unwrap();
    let error = open(&Hub::new(Settings { cache: cache.clone(), ..settings }), "org/name").unwrap_err();
    assert!(error.contains(cache.to_str().unwrap()) && error.contains("HF_HUB_CACHE"), "{error}");
    assert!(Path::new(&cache).is_file() && COMMIT.len() == 40);
}
