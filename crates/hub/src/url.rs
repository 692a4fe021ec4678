//! As much of addresses as a client needs: whose they are, where a redirect leads, how a path is written in one.

use std::fmt::Write;

use ureq::http::Uri;

/// Demands an address of http or https with a host.
pub fn check(url: &str) -> Result<(), String> {
    let uri: Uri = url.parse().map_err(|error| format!("it is no address: {error}"))?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http" | "https"), Some(host)) if !host.is_empty() => Ok(()),
        _ => Err("it is no address of http or https".to_owned()),
    }
}

/// Whose an address is: scheme, host and port. Secrets go to one origin only.
#[derive(Debug, PartialEq, Eq)]
pub struct Origin {
    scheme: String,
    host: String,
    port: u16,
}

impl Origin {
    /// The origin of `url`, if it is an address of http or https.
    pub fn of(url: &str) -> Option<Self> {
        let uri: Uri = url.parse().ok()?;
        let scheme = uri.scheme_str()?.to_ascii_lowercase();
        let usual = match scheme.as_str() {
            "http" => 80,
            "https" => 443,
            _ => return None,
        };
        let host = uri.host().filter(|host| !host.is_empty())?.to_ascii_lowercase();
        Some(Self { scheme, host, port: uri.port_u16().unwrap_or(usual) })
    }

    /// Whether what goes there is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.scheme == "https"
    }

    /// The host, in small letters.
    pub fn host(&self) -> &str {
        &self.host
    }
}

/// Where a redirect from `base` to `location` leads. Nothing where that is no address of http or https.
pub fn join(base: &str, location: &str) -> Option<String> {
    let (scheme, rest) = base.split_once("://")?;
    let host = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    let location = location.split('#').next().unwrap_or_default();
    let joined = if location.contains("://") && !location.starts_with('/') {
        location.to_owned()
    } else if let Some(other) = location.strip_prefix("//") {
        format!("{scheme}://{other}")
    } else if location.starts_with('/') {
        format!("{scheme}://{host}{location}")
    } else {
        let path = rest[host.len()..].split(['?', '#']).next().unwrap_or_default();
        let folder = path.rfind('/').map_or("/", |end| &path[..=end]);
        format!("{scheme}://{host}{folder}{location}")
    };
    check(&joined).ok().map(|()| joined)
}

/// An address as it is shown: what stands behind a question mark may be a key.
pub fn shown(url: &str) -> &str {
    url.split('?').next().unwrap_or(url)
}

/// A path within an address. Slashes stay.
pub fn escape(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte) {
            escaped.push(byte.into());
        } else {
            let _ = write!(escaped, "%{byte:02X}"); // a string takes everything
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_lead_where_browsers_go() {
        let base = "https://hub.example:8443/org/name/resolve/main/a.bin?x=1";
        let cases = [
            ("https://cdn.example/b?key=2", "https://cdn.example/b?key=2"),
            ("//cdn.example/b", "https://cdn.example/b"),
            ("/api/b", "https://hub.example:8443/api/b"),
            ("b.bin#top", "https://hub.example:8443/org/name/resolve/main/b.bin"),
        ];
        for (location, want) in cases {
            assert_eq!(join(base, location).as_deref(), Some(want));
        }
        for wrong in ["file:///etc/passwd", "ftp://x/y", "https://", "/a b"] {
            assert_eq!(join(base, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let same = |a: &str, b: &str| Origin::of(a).unwrap() == Origin::of(b).unwrap();
        assert!(same("https://A.example/x", "https://a.example:443/y"));
        assert!(!same("https://a.example", "http://a.example"));
        assert!(!same("https://a.example", "https://a.example:8443"));
        assert!(!same("https://a.example", "https://a.example.evil.example"));
        assert!(same("https://user@a.example", "https://a.example"));
    }

    #[test]
    fn paths_are_escaped_but_for_slashes() {
        assert_eq!(escape("1_Pooling/a b#c?%.json"), "1_Pooling/a%20b%23c%3F%25.json");
        assert_eq!(shown("https://cdn.example/b?Signature=secret"), "https://cdn.example/b");
    }
}
