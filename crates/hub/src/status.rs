//! What an answer that is none means: the hub's codes, in words that say what to do.

use std::time::Duration;

use ureq::http::HeaderMap;

use crate::ask::Ask;
use crate::listing::clip;
use crate::{Error, Settings, url};

/// What to make of a status.
pub enum Verdict {
    /// It will not change.
    Final(Error),
    /// It may, after `wait` if the hub says so. If not, it was `error`.
    Again { error: Error, wait: Option<Duration> },
}

/// What the status of an answer means.
pub fn judge(ask: &Ask<'_>, settings: &Settings, status: u16, headers: &HeaderMap) -> Verdict {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let said = header("x-error-message").map(clip).unwrap_or_default();
    let answer = || Error::Answer {
        url: url::shown(&ask.url).to_owned(),
        status,
        why: if said.is_empty() { String::new() } else { format!(": {said}") },
    };
    let endpoint = settings.endpoint.clone();
    let name = ask.name.id().to_owned();
    let gated = || Error::Gated {
        name: name.clone(),
        endpoint: endpoint.clone(),
        then: match settings.token {
            None => "then set HF_TOKEN to a token of that account",
            Some(_) => "with the account that HF_TOKEN belongs to",
        },
    };
    let no_model = || Error::NoModel {
        name: name.clone(),
        endpoint: endpoint.clone(),
        hint: missing(settings).to_owned(),
    };
    Verdict::Final(match (status, header("x-error-code")) {
        (_, Some("GatedRepo")) => gated(),
        (_, Some("RevisionNotFound")) => {
            Error::NoRevision { name, revision: ask.name.revision().to_owned(), endpoint }
        }
        (_, Some("EntryNotFound")) => no_file(ask),
        (_, Some("RepoNotFound")) => no_model(),
        (401, _) if said.contains("Invalid") => Error::Token { endpoint, why: said },
        // Who is not logged in is not told whether a model is private or not there.
        (401, _) if settings.token.is_none() => no_model(),
        (401, _) => Error::Token { endpoint, why: if said.is_empty() { "401".to_owned() } else { said } },
        (403, _) if said.contains("restricted") || said.contains("gated") => gated(),
        (404, _) if ask.file.is_some() => no_file(ask),
        (404, _) => no_model(),
        (429, _) => {
            let wait = header("retry-after")
                .and_then(|text| text.trim().parse().ok())
                .or_else(|| reset(header("ratelimit")?));
            let wait = wait.map(Duration::from_secs);
            let url = url::shown(&ask.url).to_owned();
            let error = Error::Busy { url, wait: wait.unwrap_or(settings.patience.longest) };
            return Verdict::Again { error, wait };
        }
        (408 | 500 | 502 | 503 | 504, _) => return Verdict::Again { error: answer(), wait: None },
        _ => answer(),
    })
}

/// Seconds until more is allowed, of a header such as `"api";r=0;t=55`.
fn reset(text: &str) -> Option<u64> {
    text.split(';').find_map(|part| part.trim().strip_prefix("t=")?.parse().ok())
}

fn missing(settings: &Settings) -> &'static str {
    match settings.token {
        None => "check the spelling, or set HF_TOKEN if the model is private",
        Some(_) => "check the spelling, and whether HF_TOKEN may see the model if it is private",
    }
}

fn no_file(ask: &Ask<'_>) -> Error {
    Error::NoFile {
        name: ask.name.id().to_owned(),
        file: ask.file.unwrap_or_default().to_owned(),
        hint: "it was listed a moment ago: try again".to_owned(),
    }
}
