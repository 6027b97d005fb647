//! The URL a provider is reached at: checked once, so that a request can be joined to it without a second look.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::de::{Deserialize, Deserializer};

use super::values::{Reading, from_text};

/// `http` or `https`, a host, and a path without a slash at its end. Invariant: the path is empty or begins with
/// `/`, and has no `.`, `..` or empty segment, encoded or not; the host is lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl {
    is_https: bool,
    host: String,
    port: u16,
    path: String,
}

impl BaseUrl {
    /// Whether the connection is encrypted.
    pub fn is_https(&self) -> bool {
        self.is_https
    }

    /// A name or an address; an IPv6 address has no brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, also where the URL leaves it out.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Empty, or `/v1` and the like: a request's own path is appended to it.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// As in a `Host` header: the port only where it is not the scheme's own.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let own = if self.is_https { 443 } else { 80 };
        if self.port == own { host } else { format!("{host}:{}", self.port) }
    }

    /// Whether what is sent there stays on this machine.
    pub fn is_loopback(&self) -> bool {
        match self.host.parse::<IpAddr>() {
            Ok(address) => address.is_loopback(),
            Err(_) => self.host == "localhost",
        }
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_https { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

impl Reading for BaseUrl {
    fn read(text: &str) -> Result<BaseUrl, &'static str> {
        const A_URL: &str = "an http or https URL with a host, such as https://api.openai.com";
        let (scheme, rest) = text.split_once("://").ok_or(A_URL)?;
        let is_https = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(A_URL),
        };
        if rest.contains('?') {
            return Err("a URL without a query (`?`)");
        }
        if rest.contains('#') {
            return Err("a URL without a fragment (`#`)");
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(
                "a URL without a user name or password (a key goes into api_key_env or api_key_file)",
            );
        }
        let (host, port) = host_and_port(authority)?;
        let port = port.unwrap_or(if is_https { 443 } else { 80 });
        Ok(BaseUrl { is_https, host, port, path: checked_path(path)?.to_owned() })
    }
}

impl<'de> Deserialize<'de> for BaseUrl {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<BaseUrl, D::Error> {
        from_text(d)
    }
}

fn host_and_port(authority: &str) -> Result<(String, Option<u16>), &'static str> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']').ok_or("a URL with a closed bracket (`]`)")?;
            let address: Ipv6Addr = address.parse().map_err(|_| "a URL with an IPv6 address in brackets")?;
            (address.to_string(), port)
        }
        None => {
            let (name, port) = authority.split_at(authority.find(':').unwrap_or(authority.len()));
            (checked_host(name)?, port)
        }
    };
    if port.is_empty() {
        return Ok((host, None));
    }
    let digits = port.strip_prefix(':').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let port = digits.and_then(|digits| digits.parse().ok()).filter(|port| *port > 0);
    Ok((host, Some(port.ok_or("a URL with a port from 1 to 65535")?)))
}

fn checked_host(name: &str) -> Result<String, &'static str> {
    if name.is_empty() {
        return Err("a URL with a host, such as https://api.openai.com");
    }
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    let labels = name.strip_suffix('.').unwrap_or(name);
    if name.len() > 253 || !labels.split('.').all(is_label) {
        return Err(
            "a URL whose host is a name of ASCII letters, digits, `-`, `_` and `.`, or an IP address",
        );
    }
    // `127.1` and `0x7f.1` are addresses to some resolvers and names to others.
    let last = labels.rsplit('.').next().unwrap_or(labels);
    let reads_as_number = last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x");
    if reads_as_number && labels.parse::<Ipv4Addr>().is_err() {
        return Err("a URL whose host is a name or a whole IPv4 address, such as 127.0.0.1");
    }
    Ok(labels.to_ascii_lowercase())
}

/// The path without its last slash.
fn checked_path(path: &str) -> Result<&str, &'static str> {
    let path = path.strip_suffix('/').unwrap_or(path);
    if !path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/%".contains(&byte)) {
        return Err("a URL whose path has only ASCII letters, digits and -._~!$&'()*+,;=:@%");
    }
    let mut escapes = path.split('%').skip(1);
    if !escapes.all(|after| after.len() >= 2 && after.bytes().take(2).all(|byte| byte.is_ascii_hexdigit())) {
        return Err("a URL whose `%` are each followed by two hexadecimal digits");
    }
    let lower = path.to_ascii_lowercase();
    if lower.contains("%2f") || lower.contains("%5c") {
        return Err("a URL without an encoded slash or backslash");
    }
    let is_step = |segment: &str| matches!(segment.replace("%2e", ".").as_str(), "" | "." | "..");
    if lower.split('/').skip(1).any(is_step) {
        return Err("a URL whose path has no empty part, no `.` and no `..`");
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_4_a_base_url_is_split_and_written_alike() {
        for (text, expected) in [
            ("https://api.openai.com", "https://api.openai.com"),
            ("https://api.openai.com/", "https://api.openai.com"),
            ("HTTPS://API.OpenAI.com:443/v1/", "https://api.openai.com/v1"),
            ("http://127.0.0.1:11434", "http://127.0.0.1:11434"),
            ("http://localhost", "http://localhost"),
            ("http://[::1]:8080/x", "http://[::1]:8080/x"),
            ("https://[0:0:0:0:0:0:0:1]", "https://[::1]"),
            ("https://example.com./a%20b", "https://example.com/a%20b"),
            ("https://my_host-1.internal:8443", "https://my_host-1.internal:8443"),
        ] {
            assert_eq!(BaseUrl::read(text).map(|url| url.to_string()).as_deref(), Ok(expected), "{text}");
        }
        let url = BaseUrl::read("http://[::1]:8080/x").expect("is valid");
        assert_eq!((url.host(), url.port(), url.path(), url.is_https()), ("::1", 8080, "/x", false));
        assert!(url.is_loopback());
    }

    #[test]
    fn id_4_what_is_no_base_url_is_refused() {
        for refused in [
            "",
            "api.openai.com",
            "ftp://x",
            "https://",
            "https:///v1",
            "https://:443",
            "https://u:p@host",
            "https://host?key=1",
            "https://host#x",
            "https://host:0",
            "https://host:65536",
            "https://host:+1",
            "https://host:",
            "https://[::1",
            "https://[::1]x",
            "https://[fe80::1%25eth0]",
            "https://ho st",
            "https://b\u{fc}cher.de",
            "https://127.1",
            "https://0x7f000001",
            "https://a..b",
            "https://host/a/../b",
            "https://host/a/%2E%2e/b",
            "https://host/.",
            "https://host/a//b",
            "https://host//",
            "https://host/a\\b",
            "https://host/a%2fb",
            "https://host/%4",
            "https://host/\r\nx",
        ] {
            assert!(BaseUrl::read(refused).is_err(), "{refused}");
        }
    }
}
