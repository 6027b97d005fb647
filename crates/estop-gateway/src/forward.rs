//! Headers on their way: what belongs to one connection, or to estop, stays behind (ID-3, ID-6).

use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderName, TRANSFER_ENCODING};
use http::uri::PathAndQuery;
use http::{HeaderMap, Uri};

use crate::identity::{CREDENTIAL_HEADERS, KeyIn};
use crate::upstream::Ready;

/// Whether a header is about one connection (RFC 9110 §7.6.1), or ours. `connection` itself names more.
fn stays_behind(name: &str) -> bool {
    matches!(
        name,
        "connection"
            | "keep-alive"
            | "proxy-connection"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
    ) || name.starts_with(OURS)
}

/// Ours: never forwarded, never believed when an upstream sends them.
const OURS: &str = "x-estop-";

/// The headers to send upstream: the client's, without hop-by-hop ones and estop's own, for the provider's host, with
/// the provider's key where estop holds it.
pub(crate) fn request_headers(mut headers: HeaderMap, ready: &Ready, key_in: &KeyIn) -> HeaderMap {
    strip(&mut headers);
    headers.remove(EXPECT);
    // hyper writes it from the body it really sends.
    headers.remove(CONTENT_LENGTH);
    for name in &key_in.headers {
        headers.remove(name);
    }
    if let Some((name, value)) = &ready.key {
        for credential in CREDENTIAL_HEADERS {
            headers.remove(credential);
        }
        headers.insert(name.clone(), value.clone());
    }
    // The Host header is the provider's, written when the connection is known.
    headers.remove(HOST);
    headers
}

/// The headers to send to the client.
pub(crate) fn response_headers(mut headers: HeaderMap) -> HeaderMap {
    // Beside chunks a length means nothing (RFC 9112 §6.3); passed on, it would cut the body or make the client wait.
    if headers.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
    }
    strip(&mut headers);
    headers
}

fn strip(headers: &mut HeaderMap) {
    if headers.contains_key(CONNECTION) {
        let named: Vec<HeaderName> = headers
            .get_all(CONNECTION)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .filter_map(|name| name.trim().parse().ok())
            .collect();
        for name in named {
            headers.remove(name);
        }
    }
    // Most requests have one or two of them: looking at each header once is cheaper than asking for all that there are.
    let stay: Vec<HeaderName> = headers.keys().filter(|name| stays_behind(name.as_str())).cloned().collect();
    for name in stay {
        headers.remove(name);
    }
}

/// Where to send it: the provider's base path, the client's path and query as they were sent. A key that was given
/// to estop, or that estop replaces, is taken out of the query.
pub(crate) fn target(ready: &Ready, path: &str, query: Option<&str>, key_in: &KeyIn) -> Option<Uri> {
    let mut target = String::with_capacity(ready.provider.base_path.len() + path.len() + 64);
    target.push_str(&ready.provider.base_path);
    target.push_str(path);
    if target.is_empty() {
        target.push('/');
    }
    let hide_key = key_in.query || ready.key.is_some();
    let kept = |pair: &&str| !(hide_key && pair.starts_with("key="));
    match query {
        Some(query) if hide_key => {
            let pairs: Vec<&str> = query.split('&').filter(kept).collect();
            if !pairs.is_empty() {
                target.push('?');
                target.push_str(&pairs.join("&"));
            }
        }
        Some(query) => {
            target.push('?');
            target.push_str(query);
        }
        None => {}
    }
    let path: PathAndQuery = target.parse().ok()?;
    Some(Uri::from(path))
}
