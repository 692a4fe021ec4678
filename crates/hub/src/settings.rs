//! What the environment says: where the cache is, which hub, who asks, and how.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{Error, Proxies, url};

/// The hub where none is named.
const ENDPOINT: &str = "https://huggingface.co";

/// The longest file that is read as a token.
const LONGEST_TOKEN: u64 = 4096;

/// Where the cache is, which hub is asked, and how. The variables are those of Hugging Face's own tools.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder with a `models--org--name` for each model: `HF_HUB_CACHE`, or `hub` in `HF_HOME`.
    pub cache: PathBuf,
    /// The hub, without a slash at its end: `HF_ENDPOINT`.
    pub endpoint: String,
    /// Who asks: `HF_TOKEN`, or the file that `hf auth login` writes.
    pub token: Option<Token>,
    /// Whether the hub may be asked: `HF_HUB_OFFLINE`.
    pub network: Network,
    /// Through whom it is asked: `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`.
    pub proxies: Proxies,
    /// Certificates to trust instead of the machine's: `SSL_CERT_FILE`, `REQUESTS_CA_BUNDLE` or `CURL_CA_BUNDLE`.
    pub certificates: Option<PathBuf>,
    /// How long a silent connection is waited for: `HF_HUB_DOWNLOAD_TIMEOUT`.
    pub timeout: Duration,
    /// How often something is tried again.
    pub patience: Patience,
}

/// Whether the hub may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// It may.
    Online,
    /// Only the cache counts.
    Offline,
}

/// How often something is tried again, and after how long.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// How often in all, without progress between.
    pub attempts: u32,
    /// The wait after the first failure. It doubles each time.
    pub first: Duration,
    /// The longest wait, also where the hub asks for one.
    pub longest: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { attempts: 5, first: Duration::from_secs(1), longest: Duration::from_secs(300) }
    }
}

/// A secret: it is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// The token in `text`, with the blanks around it taken away; nothing where nothing is left, or what no header may hold.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        let plain = !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic());
        plain.then(|| Self(text.to_owned()))
    }

    /// What is sent to the hub, and to nobody else.
    pub(crate) fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Settings {
    /// Reads the environment.
    ///
    /// # Errors
    /// If a variable says something that cannot be.
    pub fn from_env() -> Result<Self, Error> {
        Self::read(&|name| std::env::var_os(name))
    }

    /// Reads an environment that `variable` tells of.
    ///
    /// # Errors
    /// If a variable says something that cannot be.
    pub fn read(variable: &dyn Fn(&str) -> Option<OsString>) -> Result<Self, Error> {
        let raw = |name: &str| variable(name).filter(|value| !value.is_empty());
        let text = |name: &str| raw(name).map(|value| value.to_string_lossy().into_owned());
        let user = raw("HOME").or_else(|| raw("USERPROFILE")).map(PathBuf::from);
        let path = |name: &str| raw(name).map(|value| expand(Path::new(&value), user.as_deref()));
        let base = path("XDG_CACHE_HOME").or_else(|| Some(user.as_ref()?.join(".cache")));
        let home = path("HF_HOME").or_else(|| Some(base?.join("huggingface")));
        let cache = path("HF_HUB_CACHE")
            .or_else(|| path("HUGGINGFACE_HUB_CACHE"))
            .or_else(|| Some(home.as_ref()?.join("hub")))
            .ok_or_else(|| Error::Setting {
                variable: "HF_HOME",
                value: String::new(),
                why: "neither it nor HOME says where models are kept".to_owned(),
                want: "a folder",
            })?;
        let endpoint = text("HF_ENDPOINT").unwrap_or_else(|| ENDPOINT.to_owned());
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        url::check(&endpoint).map_err(|why| Error::Setting {
            variable: "HF_ENDPOINT",
            value: endpoint.clone(),
            why,
            want: "an address such as https://huggingface.co",
        })?;
        let is_set = |name: &str| text(name).is_some_and(|value| is_true(&value));
        let offline = is_set("HF_HUB_OFFLINE") || is_set("TRANSFORMERS_OFFLINE");
        let file = path("HF_TOKEN_PATH").or_else(|| Some(home?.join("token")));
        let token = match text("HF_TOKEN").or_else(|| text("HUGGING_FACE_HUB_TOKEN")) {
            Some(token) => Token::new(&token),
            None if is_set("HF_HUB_DISABLE_IMPLICIT_TOKEN") => None,
            None => file.and_then(|file| stored(&file)),
        };
        let certificates = ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"];
        let timeout = match text("HF_HUB_DOWNLOAD_TIMEOUT") {
            None => 30,
            Some(value) => value.parse().ok().filter(|seconds| *seconds > 0).ok_or(Error::Setting {
                variable: "HF_HUB_DOWNLOAD_TIMEOUT",
                value,
                why: "it is no number of seconds".to_owned(),
                want: "a whole number above 0",
            })?,
        };
        Ok(Self {
            cache,
            endpoint,
            token,
            network: if offline { Network::Offline } else { Network::Online },
            proxies: Proxies::read(&text)?,
            certificates: certificates.into_iter().find_map(path),
            timeout: Duration::from_secs(timeout),
            patience: Patience::default(),
        })
    }
}

/// What the tools of the hub take for yes.
fn is_true(value: &str) -> bool {
    ["1", "ON", "YES", "TRUE"].contains(&value.to_uppercase().as_str())
}

/// `~` at the start is the user's folder.
fn expand(path: &Path, user: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), user) {
        (Ok(rest), Some(user)) => user.join(rest),
        _ => path.to_path_buf(),
    }
}

/// The token in a file, if there is one.
fn stored(file: &Path) -> Option<Token> {
    let length = fs::metadata(file).ok()?.len();
    if length > LONGEST_TOKEN {
        return None;
    }
    Token::new(&fs::read_to_string(file).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Settings, Error> {
        Settings::read(&|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        })
    }

    fn cache(variables: &[(&str, &str)]) -> PathBuf {
        read(variables).unwrap().cache
    }

    #[test]
    fn the_cache_is_where_the_tools_of_the_hub_have_it() {
        assert_eq!(cache(&[("HOME", "/u")]), Path::new("/u/.cache/huggingface/hub"));
        assert_eq!(cache(&[("HOME", "/u"), ("XDG_CACHE_HOME", "/c")]), Path::new("/c/huggingface/hub"));
        assert_eq!(cache(&[("HOME", "/u"), ("HF_HOME", "~/hf")]), Path::new("/u/hf/hub"));
        assert_eq!(cache(&[("HOME", "/u"), ("HF_HOME", "/h"), ("HF_HUB_CACHE", "/d")]), Path::new("/d"));
        assert_eq!(cache(&[("HF_HOME", "/h"), ("HUGGINGFACE_HUB_CACHE", "/old")]), Path::new("/old"));
        assert!(read(&[]).unwrap_err().to_string().contains("HF_HOME"));
    }

    #[test]
    fn offline_is_what_the_tools_take_for_yes() {
        for (value, network) in [
            ("1", Network::Offline),
            ("true", Network::Offline),
            ("0", Network::Online),
            ("", Network::Online),
        ] {
            assert_eq!(
                read(&[("HOME", "/u"), ("HF_HUB_OFFLINE", value)]).unwrap().network,
                network,
                "{value}"
            );
        }
    }

    #[test]
    fn a_token_is_never_printed_and_holds_nothing_that_breaks_a_header() {
        let settings = read(&[("HOME", "/u"), ("HF_TOKEN", " hf_secret\n")]).unwrap();
        assert_eq!(settings.token.as_ref().unwrap().header(), "Bearer hf_secret");
        assert!(!format!("{settings:?}").contains("secret"));
        assert_eq!(Token::new("a\r\nHost: x"), None);
        assert_eq!(Token::new("  "), None);
    }

    #[test]
    fn an_endpoint_that_is_no_address_is_refused() {
        assert_eq!(
            read(&[("HOME", "/u"), ("HF_ENDPOINT", "https://hf.example/")]).unwrap().endpoint,
            "https://hf.example"
        );
        for wrong in ["hf.example", "ftp://hf.example", "https://", "https://a b"] {
            let error = read(&[("HOME", "/u"), ("HF_ENDPOINT", wrong)]).unwrap_err().to_string();
            assert!(error.contains("HF_ENDPOINT") && error.contains("; "), "{error}");
        }
    }
}
