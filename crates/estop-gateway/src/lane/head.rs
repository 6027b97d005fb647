//! Which requests are usual: whose head leaves no question open.

use std::mem::MaybeUninit;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};

/// A usual head is no longer.
pub(super) const BYTES_MAX: usize = 16 << 10;
/// A usual head has no more lines.
pub(super) const LINES_MAX: usize = 64;
/// How a usual request begins.
const START: &[u8] = b"POST /";

/// What the beginning of a request is.
pub(super) enum Head {
    /// A usual head, so many bytes long, and as many of a body behind it.
    Usual { head: Box<Parts>, bytes: usize, body: u64 },
    /// There is more to come.
    Unfinished,
    /// Anything else.
    Unusual,
}

/// Reads a head of at most so many bytes and lines.
pub(super) fn read(came: &Bytes, bytes_max: usize, lines_max: usize) -> Head {
    if !came.starts_with(START) {
        return if START.starts_with(came) { Head::Unfinished } else { Head::Unusual };
    }
    let mut lines = [const { MaybeUninit::uninit() }; LINES_MAX];
    let mut found = httparse::Request::new(&mut []);
    let parsed =
        httparse::ParserConfig::default().parse_request_with_uninit_headers(&mut found, came, &mut lines);
    match parsed {
        Ok(httparse::Status::Complete(bytes)) if bytes <= bytes_max && found.headers.len() <= lines_max => {
            take(came, &found, bytes).unwrap_or(Head::Unusual)
        }
        Ok(httparse::Status::Partial) if came.len() < bytes_max => Head::Unfinished,
        Ok(_) | Err(_) => Head::Unusual,
    }
}

fn take(came: &Bytes, found: &httparse::Request<'_, '_>, bytes: usize) -> Option<Head> {
    if found.version != Some(1) || found.method != Some("POST") {
        return None;
    }
    let uri = Uri::from_maybe_shared(came.slice_ref(found.path?.as_bytes())).ok()?;
    let mut headers = HeaderMap::with_capacity(found.headers.len());
    let mut body = None;
    for line in &*found.headers {
        let name = HeaderName::from_bytes(line.name.as_bytes()).ok()?;
        if name == CONTENT_LENGTH {
            let is_second = body.replace(length(line.value)?).is_some();
            if is_second {
                return None;
            }
        } else if !is_usual(&name, line.value) {
            return None;
        }
        headers.append(name, HeaderValue::from_maybe_shared(came.slice_ref(line.value)).ok()?);
    }
    let body = body?;
    let mut head = Box::new(Request::new(()).into_parts().0);
    (head.method, head.uri, head.headers) = (Method::POST, uri, headers);
    Some(Head::Usual { head, bytes, body })
}

/// A length in digits alone. hyper takes the same for it, up to numbers that no body has.
fn length(value: &[u8]) -> Option<u64> {
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let length: u64 = std::str::from_utf8(value).ok().filter(|_| is_number)?.parse().ok()?;
    i64::try_from(length).is_ok().then_some(length)
}

/// Whether a header leaves the framing of the request and the life of the connection as they are.
fn is_usual(name: &HeaderName, value: &[u8]) -> bool {
    match *name {
        TRANSFER_ENCODING | EXPECT | UPGRADE => false,
        CONNECTION => value.eq_ignore_ascii_case(b"keep-alive"),
        _ => true,
    }
}

#[cfg(test)]
mod tests;
