//! Encryption without a C compiler, certificates of one's own, and proxies.
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use glassformer_hub::{Hub, Proxies, Settings};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::common::server::{Reply, Request, Server, serve};
use crate::common::site::{Site, weights};
use crate::common::{open, settings};

fn certificate(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hub/certificates").join(name)
}

/// A server that speaks https, and its address.
fn encrypted(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> String {
    let chain = vec![CertificateDer::from_pem_file(certificate("server.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(certificate("server-key.pem")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls_graviola::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let (config, answer) = (Arc::new(config), Arc::new(answer));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (config, answer) = (config.clone(), answer.clone());
            thread::spawn(move || {
                let connection = ServerConnection::new(config).unwrap();
                let mut stream = StreamOwned::new(connection, stream);
                let _ = serve(&mut stream, &*answer, &Mutex::default());
                stream.conn.send_close_notify();
                let _ = stream.flush();
            });
        }
    });
    url
}

fn trusting(url: &str) -> Settings {
    Settings { certificates: Some(certificate("authority.pem")), ..settings(url) }
}

#[test]
fn https_works_with_certificates_of_ones_own() {
    let site = Site::new();
    let url = encrypted(move |request| site.answer(request));
    let path = open(&Hub::new(trusting(&url)), "org/name").unwrap();
    assert_eq!(fs::read(path.join("model.safetensors")).unwrap(), weights(300_000));
}

#[test]
fn a_certificate_that_nobody_vouches_for_is_refused_with_what_to_do() {
    let site = Site::new();
    let url = encrypted(move |request| site.answer(request));
    let error = open(&Hub::new(settings(&url)), "org/name").unwrap_err();
    assert!(error.contains("cannot reach https://localhost") && error.contains("SSL_CERT_FILE"), "{error}");
    assert!(error.to_lowercase().contains("certificate"), "{error}");
}

#[test]
fn certificates_that_cannot_be_read_are_named() {
    for (file, why) in [("/none/ca.pem", "/none/ca.pem"), (file!(), "certificates in PEM")] {
        let certificates = Some(PathBuf::from(file));
        let settings = Settings { certificates, ..settings("https://localhost:1") };
        let error = open(&Hub::new(settings), "org/name").unwrap_err();
        assert!(error.contains(why) && error.contains("SSL_CERT_FILE"), "{error}");
    }
}

#[test]
fn a_redirect_away_from_encryption_is_refused() {
    let plain = Server::new(|_| Reply::new(200));
    let to = plain.url.clone();
    let url = encrypted(move |_| Reply::new(302).with("Location", to.as_str()));
    let error = open(&Hub::new(trusting(&url)), "org/name").unwrap_err();
    assert!(error.contains("away from encryption"), "{error}");
    assert!(plain.log().is_empty());
}

/// A proxy that connects to wherever it is told, and says where that was.
fn proxy() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let log = Arc::new(Mutex::new(Vec::new()));
    let heard = log.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let heard = heard.clone();
            thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut first = String::new();
                reader.read_line(&mut first).unwrap();
                let mut line = String::new();
                while line != "\r\n" {
                    line.clear();
                    reader.read_line(&mut line).unwrap();
                }
                let target = first.split_whitespace().nth(1).unwrap().to_owned();
                heard.lock().unwrap().push(target.clone());
                // Whatever the name, the servers of these tests are here.
                let port = target.rsplit(':').next().unwrap();
                let there = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
                (&stream).write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
                let (mut from, mut to) = (there.try_clone().unwrap(), stream.try_clone().unwrap());
                thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
                let _ = std::io::copy(&mut reader, &mut &there);
            });
        }
    });
    (url, log)
}

fn proxies(url: &str, direct: &str) -> Proxies {
    let read = |name: &str| match name {
        "https_proxy" | "http_proxy" => Some(url.to_owned()),
        "NO_PROXY" => Some(direct.to_owned()),
        _ => None,
    };
    Proxies::read(&read).unwrap()
}

#[test]
fn proxies_are_gone_through_but_for_hosts_without() {
    let site = Site::new();
    let url = encrypted(move |request| site.answer(request));
    for (direct, used) in [("", true), ("other.example", true), ("localhost", false)] {
        let (proxy, log) = proxy();
        let settings = Settings { proxies: proxies(&proxy, direct), ..trusting(&url) };
        open(&Hub::new(settings), "org/name").unwrap();
        let heard = log.lock().unwrap();
        assert_eq!(!heard.is_empty(), used, "{direct}: {heard:?}");
        assert!(heard.iter().all(|target| url.ends_with(target)), "{heard:?}");
    }
}

#[test]
fn a_proxy_that_is_not_there_is_a_matter_of_the_network() {
    let settings = Settings { proxies: proxies("http://127.0.0.1:1", ""), ..trusting("https://localhost:2") };
    let error = open(&Hub::new(settings), "org/name").unwrap_err();
    assert!(error.contains("HTTPS_PROXY"), "{error}");
}
