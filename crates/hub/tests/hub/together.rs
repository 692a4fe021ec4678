//! Several at once: each byte is fetched by one of them.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use glassformer_hub::{Event, Hub};

use crate::common::server::Server;
use crate::common::site::{Site, weights};
use crate::common::{name, settings};

/// Locks of files hold between descriptors, so threads with a hub each stand for processes.
#[test]
fn two_who_want_the_same_fetch_it_once() {
    let site = Site::new();
    let waited = Arc::new(AtomicUsize::new(0));
    let waiting = waited.clone();
    let server = Server::new(move |request| {
        // Only when all others wait does the file come.
        while request.path == "/cache/model.safetensors" && waiting.load(Ordering::Relaxed) < 3 {
            thread::sleep(Duration::from_millis(1));
        }
        site.answer(request)
    });
    let settings = settings(&server.url);
    let all: Vec<_> = (0..4)
        .map(|_| {
            let (settings, waited) = (settings.clone(), waited.clone());
            thread::spawn(move || {
                let opened = Hub::new(settings).open(&name("org/name"), &|event| {
                    if let Event::Waiting { path: "model.safetensors" } = event {
                        waited.fetch_add(1, Ordering::Relaxed);
                    }
                });
                fs::read(opened.unwrap().join("model.safetensors")).unwrap()
            })
        })
        .collect();
    for one in all {
        assert_eq!(one.join().unwrap(), weights(300_000));
    }
    assert_eq!(server.count("cache/model.safetensors"), 1);
    assert_eq!(waited.load(Ordering::Relaxed), 3);
}
