//! Where a message goes: a URL, taken apart and checked once. Its path and query may be a secret (Slack, Discord, Teams)
//! and are never shown.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::Uri;
use secrecy::{ExposeSecret, SecretString};

/// Ports that browsers refuse to speak HTTP to (Fetch Standard, "bad port"): other protocols live there.
const BAD_PORTS: &[u16] = &[
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103,
    104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514,
    515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723,
    2049, 3659, 4045, 4190, 5060, 5061, 6000, 6379, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
];

/// Why a URL is refused. It never shows the URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// It is no URL.
    #[error("it is not a URL like https://hooks.example.com/path; write other scripts in punycode (xn--…)")]
    Unreadable,
    /// The scheme is another one.
    #[error(
        "it must begin with https:// (http:// only to this machine or a private network that is allowed)"
    )]
    Scheme,
    /// It has a name or password in it.
    #[error("it must not have a user or password in it")]
    UserInfo,
    /// The host is a number in disguise.
    #[error(
        "its host looks like a number; write an address as four numbers from 0 to 255 without leading zeros"
    )]
    OddHost,
    /// Another protocol lives at its port.
    #[error("another protocol than HTTP lives at its port")]
    BadPort,
    /// The secret cannot stand in a header or URL.
    #[error("it has characters that cannot stand in a request; check it for spaces and line ends")]
    OddText,
}

/// Where a message goes.
#[derive(Clone)]
pub struct Endpoint {
    pub(super) tls: bool,
    pub(super) host: String,
    pub(super) port: u16,
    /// Path and query; perhaps a secret.
    path: SecretString,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown())
    }
}

impl Endpoint {
    /// Takes a URL apart.
    pub fn parse(url: &str) -> Result<Endpoint, EndpointError> {
        let uri: Uri = url.trim().parse().map_err(|_| EndpointError::Unreadable)?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            Some(_) => return Err(EndpointError::Scheme),
            None => return Err(EndpointError::Unreadable),
        };
        let authority = uri.authority().ok_or(EndpointError::Unreadable)?;
        if authority.as_str().contains('@') {
            return Err(EndpointError::UserInfo);
        }
        let host = host(authority.host())?;
        let port = match authority.as_str().rsplit_once(':') {
            Some((_, digits)) if !digits.ends_with(']') => {
                digits.parse().map_err(|_| EndpointError::Unreadable)?
            }
            Some(_) | None => {
                if tls {
                    443
                } else {
                    80
                }
            }
        };
        if BAD_PORTS.contains(&port) {
            return Err(EndpointError::BadPort);
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Endpoint { tls, host, port, path: path.into() })
    }

    /// The same place, another path below it. Both are known to be fit for a URL.
    pub(crate) fn below(&self, path: &str) -> Endpoint {
        let base = self.path.expose_secret().trim_end_matches('/');
        Endpoint { path: format!("{base}{path}").into(), ..self.clone() }
    }

    /// What may be shown of it.
    pub(crate) fn shown(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}", self.authority())
    }

    /// Host and port as the Host header has them.
    pub(super) fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let usual = if self.tls { 443 } else { 80 };
        if self.port == usual { host } else { format!("{host}:{}", self.port) }
    }

    pub(crate) fn path(&self) -> &str {
        self.path.expose_secret()
    }
}

/// A host name or address in its one usual form.
pub(crate) fn host(text: &str) -> Result<String, EndpointError> {
    if let Some(v6) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let address: Ipv6Addr = v6.parse().map_err(|_| EndpointError::OddHost)?;
        return Ok(address.to_string());
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(address.to_string());
    }
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let is_label = |label: &str| {
        let fits = (1..=63).contains(&label.len());
        fits && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    if name.is_empty() || name.len() > 253 || !name.split('.').all(is_label) {
        return Err(EndpointError::Unreadable);
    }
    // `2130706433`, `0x7f.1`, `0177.0.0.1`: resolvers read them as addresses, people do not.
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_hex = last.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
    if is_hex || last.bytes().all(|b| b.is_ascii_digit()) {
        return Err(EndpointError::OddHost);
    }
    debug_assert!(name.parse::<Ipv4Addr>().is_err(), "addresses were taken above");
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn al_1_urls_that_mean_something_else_are_refused() {
        let wrong = [
            ("ftp://example.com/", EndpointError::Scheme),
            ("file:///etc/passwd", EndpointError::Unreadable),
            ("//example.com/x", EndpointError::Unreadable),
            ("https://user:pw@example.com/", EndpointError::UserInfo),
            ("https://example.com@169.254.169.254/", EndpointError::UserInfo),
            ("http://2130706433/", EndpointError::OddHost),
            ("http://0x7f000001/", EndpointError::OddHost),
            ("http://0177.0.0.1/", EndpointError::OddHost),
            ("http://127.1/", EndpointError::OddHost),
            ("http://127.0.0.1.:80/", EndpointError::OddHost),
            ("https://example.com:22/", EndpointError::BadPort),
            ("https://example.com:6379/", EndpointError::BadPort),
            ("https://exa mple.com/", EndpointError::Unreadable),
            ("https://example.com/a\r\nX: y", EndpointError::Unreadable),
            ("https://ⓔxample.com/", EndpointError::Unreadable),
            ("https://[::1%25eth0]/", EndpointError::OddHost),
        ];
        for (url, error) in wrong {
            match Endpoint::parse(url) {
                Ok(endpoint) => unreachable!("{url} was taken as {endpoint:?}"),
                Err(found) if found == error => {}
                // The URL parser may refuse before we look at the host.
                Err(found) => assert_eq!(found, EndpointError::Unreadable, "{url}"),
            }
        }
    }

    #[test]
    fn al_1_a_url_is_never_shown_with_its_path() {
        let endpoint =
            Endpoint::parse("https://hooks.slack.com:443/services/T0/B0/sekret?x=1").expect("a URL");
        assert_eq!(format!("{endpoint:?}"), "https://hooks.slack.com");
        assert_eq!((endpoint.port, endpoint.path()), (443, "/services/T0/B0/sekret?x=1"));
        let v6 = Endpoint::parse("http://[2606:4700:0:0::1]:8080").expect("a URL");
        assert_eq!((v6.authority().as_str(), v6.path()), ("[2606:4700::1]:8080", "/"));
        assert_eq!(Endpoint::parse("https://example.com/api/").expect("a URL").below("/x").path(), "/api/x");
    }
}
