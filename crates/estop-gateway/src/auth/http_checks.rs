//! What is refused before anything is looked at: requests that two readers could understand in two ways.
//!
//! hyper refuses most of them by itself; this is the rest (`docs/decisions/0008`). Nothing that is refused here
//! reaches an upstream, and the connection is closed after it.

use std::net::IpAddr;

use http::header::{HOST, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, Method, Version};

/// Why a request is refused at sight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadHead {
    /// HTTP status.
    pub status: u16,
    /// For machines.
    pub code: &'static str,
    /// For people.
    pub message: &'static str,
}

const fn bad(message: &'static str) -> BadHead {
    BadHead { status: 400, code: "bad_request", message }
}

/// Looks at the head alone. `loopback`: the listener is reachable from this machine only.
pub(crate) fn validate_head(head: &Parts, loopback: bool) -> Result<(), BadHead> {
    let headers = &head.headers;
    if headers.contains_key(UPGRADE) && is_websocket(headers) {
        return Err(BadHead {
            status: 426,
            code: "websocket_not_supported",
            message: "estop does not relay WebSockets: use HTTP (POST) instead.",
        });
    }
    if matches!(head.method, Method::CONNECT | Method::TRACE) {
        let message = "This method is not forwarded: use the provider's own API calls.";
        return Err(BadHead { status: 405, code: "method_not_allowed", message });
    }
    if head.version < Version::HTTP_2 {
        if head.uri.authority().is_some() || head.uri.scheme().is_some() {
            return Err(bad(
                "The request line must name a path, not a whole URL: estop is not a forward proxy.",
            ));
        }
        if !transfer_encoding_is_clear(headers) {
            return Err(bad("Transfer-Encoding must be `chunked` alone."));
        }
    }
    let host = host_of(head)?;
    if loopback && !is_loopback_name(host) {
        return Err(BadHead {
            status: 421,
            code: "wrong_host",
            message: "The Host header does not name this machine. estop listens on loopback only: \
                use http://127.0.0.1 or http://localhost.",
        });
    }
    Ok(())
}

fn is_websocket(headers: &HeaderMap) -> bool {
    let says = |value: &http::HeaderValue| {
        value.to_str().is_ok_and(|text| text.split(',').any(|t| t.trim().eq_ignore_ascii_case("websocket")))
    };
    headers.get_all(UPGRADE).iter().any(says)
}

fn transfer_encoding_is_clear(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(TRANSFER_ENCODING).iter();
    match (values.next(), values.next()) {
        (None, _) => true,
        (Some(only), None) => only.as_bytes().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => false,
    }
}

/// The host the client asked for, without its port. Exactly one, and nothing in it that is not a host.
fn host_of(head: &Parts) -> Result<&str, BadHead> {
    let headers = &head.headers;
    let mut hosts = headers.get_all(HOST).iter();
    let named = match (hosts.next(), hosts.next()) {
        (Some(host), None) => {
            Some(host.to_str().map_err(|_| bad("The Host header has characters that no host has."))?)
        }
        (None, _) => None,
        (Some(_), Some(_)) => return Err(bad("There is more than one Host header: send one.")),
    };
    let authority = head.uri.authority().map(http::uri::Authority::as_str);
    let host = match (named, authority) {
        (Some(named), Some(authority)) if !named.eq_ignore_ascii_case(authority) => {
            return Err(bad("The Host header and :authority differ: send the same in both, or only one."));
        }
        (Some(host), _) | (None, Some(host)) => host,
        (None, None) => return Err(bad("The Host header is missing.")),
    };
    if let Some(name) = plain_host(host) {
        return Ok(name);
    }
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':' | b'[' | b']');
    if host.is_empty() || !host.bytes().all(fits) {
        return Err(bad("The Host header has characters that no host has."));
    }
    let authority: http::uri::Authority =
        host.parse().map_err(|_| bad("The Host header is not a host with an optional port."))?;
    let port_is_good = match host.strip_prefix(authority.host()) {
        Some("") => true,
        Some(port) => {
            port.strip_prefix(':').is_some_and(|port| port.is_empty() || port.parse::<u16>().is_ok())
        }
        None => false,
    };
    if !port_is_good {
        return Err(bad("The port in the Host header is not a number up to 65535."));
    }
    let name = host.get(..authority.host().len()).unwrap_or(host);
    Ok(name.trim_matches(['[', ']']))
}

/// The name in `name` or `name:port`, as nearly all are: letters, digits, dots and dashes. Anything else is looked at
/// with more care.
fn plain_host(host: &str) -> Option<&str> {
    let (name, port) = host.split_once(':').unwrap_or((host, "0"));
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-');
    let is_name = !name.is_empty() && name.bytes().all(is_plain);
    let is_port = port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok();
    (is_name && is_port).then_some(name)
}

fn is_loopback_name(host: &str) -> bool {
    if matches!(host, "127.0.0.1" | "localhost") {
        return true;
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    if name.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback()) {
        return true;
    }
    let last = name.rsplit('.').next().unwrap_or(name);
    last.eq_ignore_ascii_case("localhost")
}
