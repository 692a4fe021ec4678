//! Which connections go through a proxy.

use ureq::Proxy;

use crate::Error;
use crate::url::Origin;

/// The proxies of the environment, and who is reached without them.
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    http: Option<Proxy>,
    https: Option<Proxy>,
    /// Hosts, and ends of hosts, that are reached directly.
    direct: Vec<String>,
}

impl Proxies {
    /// Reads the environment that `variable` tells of; small letters win, as everywhere.
    ///
    /// # Errors
    /// If a proxy is no address.
    pub fn read(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let either = |small: &'static str, large: &'static str| {
            variable(small)
                .map(|value| (small, value))
                .or_else(|| variable(large).map(|value| (large, value)))
        };
        let proxy = |small, large| match either(small, large).or_else(|| either("all_proxy", "ALL_PROXY")) {
            None => Ok(None),
            Some((variable, value)) => Proxy::new(&value).map(Some).map_err(|error| Error::Setting {
                variable,
                value: without_password(&value),
                why: format!("it is no proxy: {error}"),
                want: "an address such as http://proxy.example:8080",
            }),
        };
        let direct = either("no_proxy", "NO_PROXY").map(|(_, list)| list).unwrap_or_default();
        let direct = direct.split([',', ' ']).map(|host| host.trim().to_ascii_lowercase());
        Ok(Self {
            http: proxy("http_proxy", "HTTP_PROXY")?,
            https: proxy("https_proxy", "HTTPS_PROXY")?,
            direct: direct.filter(|host| !host.is_empty()).collect(),
        })
    }

    /// The proxy on the way to `origin`.
    pub(crate) fn towards(&self, origin: &Origin) -> Option<&Proxy> {
        if self.direct.iter().any(|entry| covers(entry, origin.host())) {
            return None;
        }
        if origin.is_encrypted() { self.https.as_ref() } else { self.http.as_ref() }
    }
}

/// Whether an entry of `NO_PROXY` means `host`: `*`, the host itself, or a domain that it is in.
fn covers(entry: &str, host: &str) -> bool {
    let bare = entry.strip_prefix('*').unwrap_or(entry);
    let bare = bare.strip_prefix('.').unwrap_or(bare);
    // A port behind the entry narrows it; the host is what counts here.
    let bare = match bare.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') && port.bytes().all(|c| c.is_ascii_digit()) => name,
        _ => bare,
    };
    entry == "*" || host == bare || (!bare.is_empty() && host.ends_with(&format!(".{bare}")))
}

/// A proxy's address may hold a password, which nobody should see.
fn without_password(value: &str) -> String {
    match value.rsplit_once('@') {
        Some((_, host)) => format!("…@{host}"),
        None => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(variables: &[(&str, &str)], url: &str) -> Option<String> {
        let proxies = Proxies::read(&|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        });
        proxies.unwrap().towards(&Origin::of(url).unwrap()).map(|proxy| proxy.host().to_owned())
    }

    #[test]
    fn each_scheme_has_its_proxy() {
        let both = [("HTTPS_PROXY", "http://s.example:1"), ("http_proxy", "http://p.example:2")];
        assert_eq!(way(&both, "https://hub.example").as_deref(), Some("s.example"));
        assert_eq!(way(&both, "http://hub.example").as_deref(), Some("p.example"));
        assert_eq!(way(&both[..1], "http://hub.example"), None);
        assert_eq!(
            way(&[("ALL_PROXY", "http://a.example")], "https://hub.example").as_deref(),
            Some("a.example")
        );
    }

    #[test]
    fn hosts_without_a_proxy_are_reached_directly() {
        for (list, host, direct) in [
            ("hub.example", "hub.example", true),
            ("hub.example", "cdn.hub.example", true),
            (".hub.example", "cdn.hub.example", true),
            ("*.hub.example, other", "other", true),
            ("hub.example:443", "hub.example", true),
            ("*", "x", true),
            ("ub.example", "hub.example", false),
            ("", "hub.example", false),
        ] {
            let variables = [("https_proxy", "http://p.example"), ("NO_PROXY", list)];
            assert_eq!(way(&variables, &format!("https://{host}")).is_none(), direct, "{list} {host}");
        }
    }

    #[test]
    fn a_proxy_that_is_no_address_is_refused_without_its_password() {
        let error = Proxies::read(&|name| (name == "https_proxy").then(|| "gopher://me:secret@p".to_owned()));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("https_proxy") && !error.contains("secret"), "{error}");
    }
}
