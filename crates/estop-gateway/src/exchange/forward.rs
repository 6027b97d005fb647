//! Headers on their way: what belongs to one connection, or to estop, stays behind (ID-3, ID-6).

use http::header::{CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, HeaderName, TRANSFER_ENCODING};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Uri};

use crate::auth::identity::{CREDENTIAL_HEADERS, KeyIn, OURS};
use crate::upstream::ProviderTarget;

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

/// The headers to send upstream: the client's, without hop-by-hop ones and estop's own, for the provider's host, with
/// the provider's key where estop holds it.
pub(crate) fn request_headers(
    headers: &mut HeaderMap,
    length: Option<u64>,
    ready: &ProviderTarget,
    key_in: &KeyIn,
) {
    let says_length = length.is_some_and(|length| says_length(headers, length));
    strip(headers, |name| {
        // Unless it is right already, the length of the body that is really sent is written. The Host header becomes
        // the provider's when the connection is known.
        *name == EXPECT
            || *name == CONTENT_LENGTH && !says_length
            || key_in.headers.contains(name)
            || ready.key.is_some() && CREDENTIAL_HEADERS.contains(&name.as_str())
    });
    drop_own_cookies(headers);
    if let Some((name, value)) = &ready.key {
        headers.insert(name.clone(), value.clone());
    }
}

/// The cookies of the dashboard's sessions: browsers send them to every port of a host.
const OWN_COOKIES: [&str; 2] = ["estop", "__Host-estop"];

/// Takes the dashboard's cookies out and leaves others as they are.
fn drop_own_cookies(headers: &mut HeaderMap) {
    let is_own = |pair: &&[u8]| {
        let name = pair.split(|b| *b == b'=').next().unwrap_or_default().trim_ascii();
        OWN_COOKIES.iter().any(|own| own.as_bytes() == name)
    };
    let pairs = |value: &HeaderValue| value.as_bytes().split(|b| *b == b';').any(|pair| is_own(&pair));
    if !headers.get_all(COOKIE).iter().any(pairs) {
        return;
    }
    let others: Vec<Vec<u8>> = headers
        .get_all(COOKIE)
        .iter()
        .map(|value| {
            let others = value.as_bytes().split(|b| *b == b';').filter(|pair| !is_own(pair));
            others.map(<[u8]>::trim_ascii).collect::<Vec<_>>().join(&b"; "[..])
        })
        .filter(|value| !value.is_empty())
        .collect();
    headers.remove(COOKIE);
    for value in others {
        if let Ok(value) = HeaderValue::from_bytes(&value) {
            headers.append(COOKIE, value);
        }
    }
}

/// Whether the headers give this length, once and in the usual spelling.
fn says_length(headers: &HeaderMap, length: u64) -> bool {
    let mut values = headers.get_all(CONTENT_LENGTH).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return false };
    let digits = value.as_bytes();
    let is_usual = matches!(digits, [b'0'] | [b'1'..=b'9', ..]) && digits.iter().all(u8::is_ascii_digit);
    is_usual && std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()) == Some(length)
}

/// The headers to send to the client.
pub(crate) fn response_headers(headers: &mut HeaderMap) {
    // Beside chunks a length means nothing (RFC 9112 §6.3); passed on, it would cut the body or make the client wait.
    let chunked = headers.contains_key(TRANSFER_ENCODING);
    strip(headers, |name| chunked && *name == CONTENT_LENGTH);
    one_length(headers);
}

/// Writes a length once and in the usual spelling, however often and however the provider wrote it (RFC 9110 §8.6: `5, 5`,
/// `0005`). Lengths that differ were refused where the head was read; what is left of them is taken out.
fn one_length(headers: &mut HeaderMap) {
    let mut values = headers.get_all(CONTENT_LENGTH).iter();
    let Some(first) = values.next() else { return };
    let is_usual =
        |digits: &[u8]| matches!(digits, [b'0'] | [b'1'..=b'9', ..]) && digits.iter().all(u8::is_ascii_digit);
    if values.next().is_none() && is_usual(first.as_bytes()) {
        return;
    }
    let one = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<u64>().ok())?;
    let all = headers.get_all(CONTENT_LENGTH).iter().flat_map(|value| {
        value.to_str().unwrap_or("-").split(',').map(|text| one(text.trim_matches([' ', '\t'])))
    });
    let mut all = all.collect::<Option<Vec<u64>>>().unwrap_or_default();
    all.dedup();
    headers.remove(CONTENT_LENGTH);
    if let [length] = all.as_slice() {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(*length));
    }
}

/// Takes out what stays behind, what `connection` names, and what `also` says.
fn strip(headers: &mut HeaderMap, also: impl Fn(&HeaderName) -> bool) {
    if !is_keep_alive(headers) {
        remove_named_by_connection(headers);
    }
    // Few headers stay, mostly one: looking again after each is cheaper than asking for all that could be there.
    let stays = |name: &&HeaderName| stays_behind(name.as_str()) || also(name);
    while let Some(name) = headers.keys().find(stays).cloned() {
        headers.remove(name);
    }
}

/// Whether `connection` is not there, or names nothing but `keep-alive`, as it mostly does.
fn is_keep_alive(headers: &HeaderMap) -> bool {
    headers.get_all(CONNECTION).iter().all(|value| value.as_bytes().eq_ignore_ascii_case(b"keep-alive"))
}

fn remove_named_by_connection(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        // Most often it is `keep-alive`, which goes anyway.
        .filter(|name| !stays_behind(name))
        .filter_map(|name| name.parse().ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
}

/// The longest target that is sent: what `http` takes.
const TARGET_MAX: usize = u16::MAX as usize - 1;

/// Where to send it: the provider's base path, the client's path and query as they were sent. A key that was given
/// to estop, or that estop replaces, is taken out of the query. `None` if it is longer than any server takes.
pub(crate) fn target(
    ready: &ProviderTarget,
    path: &str,
    query: Option<&str>,
    key_in: &KeyIn,
) -> Option<String> {
    let length = ready.provider.base_path.len() + path.len() + query.map_or(0, |query| query.len() + 1);
    let mut target = String::with_capacity(length.max(1));
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
    // Each of its parts was read as part of a target before.
    (target.len() <= TARGET_MAX).then_some(target)
}

/// The same as a URI.
pub(crate) fn uri(target: String) -> Option<Uri> {
    PathAndQuery::try_from(target).ok().map(Uri::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn se_2_the_dashboards_cookies_go_to_no_provider() {
        for (sent, passed) in [
            (&["estop=1"][..], &[][..]),
            (&["a=1; estop=2;__Host-estop=3 ; b=4"], &["a=1; b=4"]),
            (&["a=1;b=2", " estop = 3"], &["a=1; b=2"]),
            (&["estop2=1; my-estop=2"], &["estop2=1; my-estop=2"]),
        ] {
            let mut headers = HeaderMap::new();
            for value in sent {
                headers.append(COOKIE, HeaderValue::from_static(value));
            }
            drop_own_cookies(&mut headers);
            let values: Vec<&HeaderValue> = headers.get_all(COOKIE).iter().collect();
            assert_eq!(values, passed, "{sent:?}");
        }
    }

    #[test]
    fn st_3_one_length_in_one_spelling_is_passed_on() {
        for (said, passed) in [
            (&["5"][..], Some("5")),
            (&["0"], Some("0")),
            (&["0005"], Some("5")),
            (&["00"], Some("0")),
            (&["5, 5"], Some("5")),
            (&["5", "5"], Some("5")),
            (&["5,\t05", "5"], Some("5")),
            (&["5", "6"], None),
            (&["+5"], None),
            (&["5,"], None),
            (&[], None),
        ] {
            let mut headers = HeaderMap::new();
            for value in said {
                headers.append(CONTENT_LENGTH, HeaderValue::from_static(value));
            }
            response_headers(&mut headers);
            let values: Vec<&HeaderValue> = headers.get_all(CONTENT_LENGTH).iter().collect();
            assert_eq!(values, passed.into_iter().collect::<Vec<_>>(), "{said:?}");
        }
    }
}
