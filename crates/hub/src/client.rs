//! Requests to a hub: redirects, the token, retries. The token goes to the hub itself and to nobody else.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use ureq::http::{HeaderMap, Response};
use ureq::{Agent, Body, BodyReader, ProxyProtocol};

use crate::ask::{Ask, Method};
use crate::status::{self, Verdict};
use crate::url::{self, Origin};
use crate::{Error, Event, Settings, Watch, tls};

const MOST_REDIRECTS: usize = 10;

/// The longest answer that is read into memory.
const LONGEST_ANSWER: u64 = 64 << 20;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(15);

/// What came back.
pub struct Answer {
    pub status: u16,
    pub facts: Facts,
    headers: HeaderMap,
    body: Body,
}

/// What a hub says of a file, on the way to it.
#[derive(Default)]
pub struct Facts {
    pub etag: Option<String>,
    pub size: Option<u64>,
}

impl Facts {
    /// Learns from the headers of the hub itself. Where a redirect leads, other tags are in use.
    fn learn(&mut self, headers: &HeaderMap) {
        let tag =
            |name| text(headers, name).map(|tag| tag.trim_start_matches("W/").trim_matches('"').to_owned());
        if let Some(linked) = tag("x-linked-etag") {
            self.etag = Some(linked);
        }
        self.etag = self.etag.take().or_else(|| tag("etag"));
        self.size = self.size.or_else(|| text(headers, "x-linked-size")?.parse().ok());
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

impl Answer {
    /// The length of what follows.
    pub fn length(&self) -> Option<u64> {
        text(&self.headers, "content-length")?.parse().ok()
    }

    /// The first byte and the length of the whole, where a part was sent.
    pub fn range(&self) -> Option<(u64, Option<u64>)> {
        let (range, whole) = text(&self.headers, "content-range")?.strip_prefix("bytes ")?.split_once('/')?;
        let (start, _) = range.split_once('-')?;
        Some((start.parse().ok()?, whole.parse().ok()))
    }

    /// What follows, as it comes.
    pub fn reader(self) -> BodyReader<'static> {
        self.body.into_with_config().limit(u64::MAX).reader()
    }

    /// All that follows.
    pub fn bytes(self) -> io::Result<Vec<u8>> {
        self.body.into_with_config().limit(LONGEST_ANSWER).read_to_vec().map_err(|error| match error {
            ureq::Error::Io(error) => error,
            error => io::Error::other(error),
        })
    }
}

/// Why nothing came back, and whether it may be otherwise the next time.
struct Failed {
    error: Error,
    again: Again,
}

#[derive(PartialEq, Eq)]
enum Again {
    Worth,
    Pointless,
}

/// Who asks a hub.
pub struct Client {
    settings: Settings,
    home: Option<Origin>,
    /// Connections with and without encryption, with and without a proxy. Reading certificates takes a while, so they wait for their use.
    agents: Mutex<HashMap<(bool, bool), Agent>>,
}

impl Client {
    pub fn new(settings: Settings) -> Self {
        Self { home: Origin::of(&settings.endpoint), settings, agents: Mutex::default() }
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Asks until there is an answer worth reading, as often as patience lasts.
    pub fn ask(&self, ask: &Ask<'_>, watch: &Watch<'_>) -> Result<Answer, Error> {
        let patience = self.settings.patience;
        let mut tries = 0;
        loop {
            let (error, wait) = match self.send(ask) {
                Ok(answer) if [200, 206, 416].contains(&answer.status) => return Ok(answer),
                Ok(answer) => match status::judge(ask, &self.settings, answer.status, &answer.headers) {
                    Verdict::Final(error) => return Err(error),
                    Verdict::Again { error, wait } => (error, wait),
                },
                Err(Failed { error, again: Again::Pointless }) => return Err(error),
                Err(Failed { error, again: Again::Worth }) => (error, None),
            };
            tries += 1;
            if tries >= patience.attempts || wait.is_some_and(|wait| wait > patience.longest) {
                return Err(error);
            }
            self.pause(tries, wait, &reason(&error), watch);
        }
    }

    /// Waits before the next try, and says so.
    pub fn pause(&self, tries: u32, asked: Option<Duration>, why: &str, watch: &Watch<'_>) {
        let patience = self.settings.patience;
        let doubled = patience.first.saturating_mul(1 << tries.saturating_sub(1).min(16));
        let wait = asked.unwrap_or(doubled).min(patience.longest);
        watch(Event::Retry { why, wait });
        sleep(wait);
    }

    /// Asks once, and goes where redirects lead.
    fn send(&self, ask: &Ask<'_>) -> Result<Answer, Failed> {
        let mut url = ask.url.clone();
        let mut facts = Facts::default();
        for _ in 0..=MOST_REDIRECTS {
            let pointless = |error| Failed { error, again: Again::Pointless };
            let unreachable = |why: &str| Error::Unreachable {
                url: url::shown(&url).to_owned(),
                why: why.to_owned(),
                hint: "check HF_ENDPOINT".to_owned(),
            };
            let origin = Origin::of(&url).ok_or_else(|| pointless(unreachable("it is no address")))?;
            let is_home = self.home.as_ref() == Some(&origin);
            if self.home.as_ref().is_some_and(Origin::is_encrypted) && !origin.is_encrypted() {
                return Err(pointless(unreachable("a redirect leads there, away from encryption")));
            }
            let response = self.agent(&origin).map_err(pointless).and_then(|agent| {
                let token =
                    self.settings.token.as_ref().filter(|_| is_home).map(crate::settings::Token::header);
                call(&agent, ask, &url, token).map_err(|error| failed(&url, &error))
            })?;
            if is_home {
                facts.learn(response.headers());
            }
            let status = response.status().as_u16();
            if !matches!(status, 301 | 302 | 303 | 307 | 308) {
                let (parts, body) = response.into_parts();
                return Ok(Answer { status, facts, headers: parts.headers, body });
            }
            let next = text(response.headers(), "location").and_then(|location| url::join(&url, location));
            url = next.ok_or_else(|| pointless(unreachable("it redirects to no address")))?;
        }
        Err(Failed {
            error: Error::Unreachable {
                url: url::shown(&ask.url).to_owned(),
                why: format!("it redirects more than {MOST_REDIRECTS} times"),
                hint: "check HF_ENDPOINT".to_owned(),
            },
            again: Again::Pointless,
        })
    }

    /// What holds the connections to `origin`.
    fn agent(&self, origin: &Origin) -> Result<Agent, Error> {
        let proxy = self.settings.proxies.towards(origin);
        let key = (origin.is_encrypted(), proxy.is_some());
        let mut agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(agent) = agents.get(&key) {
            return Ok(agent.clone());
        }
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(proxy.cloned())
            .user_agent(concat!("glassformer/", env!("CARGO_PKG_VERSION")))
            .accept_encoding("identity")
            .timeout_connect(Some(CONNECT))
            .timeout_recv_response(Some(self.settings.timeout))
            .timeout_per_read(Some(self.settings.timeout));
        if origin.is_encrypted() || proxy.is_some_and(|proxy| proxy.protocol() == ProxyProtocol::Https) {
            config = config.tls_config(tls::config(self.settings.certificates.as_deref())?);
        }
        let agent = config.build().new_agent();
        agents.insert(key, agent.clone());
        Ok(agent)
    }
}

fn call(
    agent: &Agent,
    ask: &Ask<'_>,
    url: &str,
    token: Option<String>,
) -> Result<Response<Body>, ureq::Error> {
    let mut request = match ask.method {
        Method::Get => agent.get(url),
        Method::Head => agent.head(url),
    };
    if let Some(token) = token {
        request = request.header("Authorization", token);
    }
    if ask.from > 0 {
        request = request.header("Range", format!("bytes={}-", ask.from));
    }
    request.call()
}

/// What a user can do about a connection that did not come about, and whether to try again.
fn failed(url: &str, error: &ureq::Error) -> Failed {
    use ureq::Error as Ureq;
    const NETWORK: &str =
        "check the network and HTTPS_PROXY, or use what the cache has with HF_HUB_OFFLINE=1";
    const TRUST: &str = "if a company's proxy reads along, set SSL_CERT_FILE to its certificates";
    let (again, hint) = match error {
        Ureq::HostNotFound | Ureq::ConnectionFailed | Ureq::InvalidProxyUrl | Ureq::ConnectProxyFailed(_) => {
            (Again::Pointless, NETWORK)
        }
        Ureq::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => (Again::Pointless, NETWORK),
        Ureq::Io(error) => match error.kind() {
            ErrorKind::ConnectionRefused | ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable => {
                (Again::Pointless, NETWORK)
            }
            // Wrong certificates come as invalid data from within a handshake.
            ErrorKind::InvalidData => (Again::Pointless, TRUST),
            _ => (Again::Worth, NETWORK),
        },
        Ureq::Rustls(_) | Ureq::Tls(_) => (Again::Pointless, TRUST),
        Ureq::Timeout(_) | Ureq::Protocol(_) => (Again::Worth, NETWORK),
        _ => (Again::Pointless, NETWORK),
    };
    let why = error.to_string();
    let why = why.strip_prefix("io: ").unwrap_or(&why).to_owned();
    Failed {
        error: Error::Unreachable { url: url::shown(url).to_owned(), why, hint: hint.to_owned() },
        again,
    }
}

/// An error without what to do about it: nothing is to be done yet.
pub fn reason(error: &Error) -> String {
    let text = error.to_string();
    text.rsplit_once("; ").map_or(text.clone(), |(what, _)| what.to_owned())
}
