//! Keys that open the server: hashed, and compared in constant time.

use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::App;
use crate::fault::Fault;

/// The keys that are accepted; without any, everybody is.
#[derive(Clone, Default)]
pub struct Keys {
    hashes: Vec<[u8; 32]>,
}

/// Who asks: requests of different callers take turns, and share nothing that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Who(pub u64);

impl Keys {
    /// These keys; blank ones are none.
    pub fn new<'k>(keys: impl IntoIterator<Item = &'k str>) -> Self {
        let keys = keys.into_iter().map(str::trim).filter(|key| !key.is_empty());
        Self { hashes: keys.map(hash).collect() }
    }

    /// The keys of a file: one on each line, but for lines that begin with `#`.
    pub fn read(text: &str) -> Self {
        Self::new(text.lines().filter(|line| !line.trim_start().starts_with('#')))
    }

    /// These keys and those.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.hashes.extend(others.hashes);
        self
    }

    /// Whether everybody is accepted.
    pub fn is_open(&self) -> bool {
        self.hashes.is_empty()
    }

    /// Who has this key. All keys are looked at, so that the time says nothing of which is right.
    fn owner(&self, key: &str) -> Option<Who> {
        let given = hash(key);
        let mut found = None;
        for hash in &self.hashes {
            if bool::from(hash.ct_eq(&given)) {
                found = Some(Who(u64::from_le_bytes(given[..8].try_into().unwrap_or_default())));
            }
        }
        found
    }
}

fn hash(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

/// Lets in who has a key, and says who that is.
pub async fn check(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let who = if app.keys().is_open() {
        Some(Who::default())
    } else {
        let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let key = header.and_then(|header| {
            let (scheme, key) = header.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
        });
        key.and_then(|key| app.keys().owner(key))
    };
    let Some(who) = who else { return Fault::no_key().into_response() };
    request.extensions_mut().insert(who);
    next.run(request).await
}
