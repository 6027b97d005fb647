//! Heads: a request's, written; an answer's, read, and what it says about the body behind it (RFC 9112 §6.3).

use std::mem::MaybeUninit;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Version, response};
use hyper::ext::ReasonPhrase;

use super::Malformed;
use crate::header_line;
use crate::upload::Outgoing;
use crate::upstream::Ready;

/// Header lines of an answer that are taken. Providers send some 40.
const LINES_MAX: usize = 256;

/// How a request's body is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sends {
    /// There is none.
    Nothing,
    /// So many bytes.
    Length(u64),
    /// As many as come.
    Chunks,
}

/// Writes a request's head: its lines as they are, the provider's host, and how its body is sent.
pub(super) fn write(request: &Outgoing, ready: &Ready, sends: Sends, to: &mut Vec<u8>) {
    to.extend_from_slice(request.parts.method.as_str().as_bytes());
    to.push(b' ');
    to.extend_from_slice(request.target().as_bytes());
    to.extend_from_slice(b" HTTP/1.1\r\n");
    let (mut has_host, mut has_length) = (false, false);
    for (name, value) in &request.parts.headers {
        if *name == HOST {
            if !has_host {
                header_line::write(to, b"host", ready.host.as_bytes());
            }
            has_host = true;
            continue;
        }
        has_length |= *name == CONTENT_LENGTH;
        header_line::write(to, name.as_str().as_bytes(), value.as_bytes());
    }
    if !has_host {
        header_line::write(to, b"host", ready.host.as_bytes());
    }
    match sends {
        Sends::Length(length) if !has_length => {
            header_line::write(to, b"content-length", length.to_string().as_bytes());
        }
        Sends::Chunks => header_line::write(to, b"transfer-encoding", b"chunked"),
        Sends::Length(_) | Sends::Nothing => {}
    }
    to.extend_from_slice(b"\r\n");
}

/// The head of an answer.
#[derive(Debug)]
pub(super) struct Head {
    pub parts: response::Parts,
    /// How long the body behind it is.
    pub follows: Follows,
    /// The connection can serve somebody else afterwards, says the provider.
    pub keep_alive: bool,
    /// Bytes of the head.
    pub length: usize,
}

/// How long a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follows {
    /// So many bytes.
    Length(u64),
    /// Until the last chunk.
    Chunks,
    /// Until the provider closes the connection.
    UntilClose,
}

/// Reads the head of an answer to a request of this method; `None` if there is more to come.
pub(super) fn read(bytes: &Bytes, method: &Method) -> Result<Option<Head>, Malformed> {
    let mut lines = [const { MaybeUninit::uninit() }; LINES_MAX];
    let mut found = httparse::Response::new(&mut []);
    let parsed =
        httparse::ParserConfig::default().parse_response_with_uninit_headers(&mut found, bytes, &mut lines);
    let length = match parsed {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(Malformed::from(error)),
    };
    let status = found.code.and_then(|code| StatusCode::from_u16(code).ok());
    let status = status.ok_or(Malformed("the status is none"))?;
    let version = if found.version == Some(0) { Version::HTTP_10 } else { Version::HTTP_11 };
    let mut headers = HeaderMap::with_capacity(found.headers.len());
    // Read as they come: looking them up afterwards costs more.
    let mut said = Said::default();
    for line in &*found.headers {
        let name = HeaderName::from_bytes(line.name.as_bytes());
        let name = name.map_err(|_| Malformed("the name of a header is malformed"))?;
        said.note(&name, line.value)?;
        let value = HeaderValue::from_maybe_shared(bytes.slice_ref(line.value));
        headers.append(name, value.map_err(|_| Malformed("the value of a header is malformed"))?);
    }
    let follows = said.follows(method, status, version)?;
    let keep_alive = said.keeps_alive(version);
    let mut parts = Response::new(()).into_parts().0;
    // A reason of the provider's own is passed on.
    if let Some(reason) = found.reason.filter(|reason| Some(*reason) != status.canonical_reason())
        && let Ok(reason) = ReasonPhrase::try_from(reason.as_bytes())
    {
        parts.extensions.insert(reason);
    }
    (parts.status, parts.version, parts.headers) = (status, version, headers);
    Ok(Some(Head { parts, follows, keep_alive, length }))
}

impl From<httparse::Error> for Malformed {
    fn from(error: httparse::Error) -> Malformed {
        Malformed(match error {
            httparse::Error::HeaderName => "the name of a header is malformed",
            httparse::Error::HeaderValue => "the value of a header is malformed",
            httparse::Error::NewLine => "the end of a line is malformed",
            httparse::Error::Status => "the status line is malformed",
            httparse::Error::TooManyHeaders => "it has too many headers",
            httparse::Error::Version => "it does not begin with a version of HTTP/1",
            httparse::Error::Token => "a token is malformed",
        })
    }
}

/// What the headers say about the body and the connection.
#[derive(Default)]
struct Said {
    /// The last transfer-encoding is chunked; `None` without any.
    chunked: Option<bool>,
    length: Option<u64>,
    closes: bool,
    stays: bool,
}

impl Said {
    fn note(&mut self, name: &HeaderName, value: &[u8]) -> Result<(), Malformed> {
        let parts = || value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        if *name == CONTENT_LENGTH {
            return parts().try_for_each(|digits| self.note_length(digits));
        }
        if *name == TRANSFER_ENCODING {
            self.chunked =
                Some(parts().next_back().is_some_and(|last| last.eq_ignore_ascii_case(b"chunked")));
        } else if *name == CONNECTION {
            self.closes |= parts().any(|option| option.eq_ignore_ascii_case(b"close"));
            self.stays |= parts().any(|option| option.eq_ignore_ascii_case(b"keep-alive"));
        }
        Ok(())
    }

    /// Said several times, it must be the same.
    fn note_length(&mut self, digits: &[u8]) -> Result<(), Malformed> {
        // A number may begin with a sign; a length may not.
        let is_number = digits.iter().all(u8::is_ascii_digit);
        let length =
            std::str::from_utf8(digits).ok().filter(|_| is_number).and_then(|text| text.parse().ok());
        let length = length.ok_or(Malformed("the content-length is malformed"))?;
        match self.length.replace(length) {
            Some(before) if before != length => Err(Malformed("there are two content-lengths")),
            Some(_) | None => Ok(()),
        }
    }

    /// Two words about the length of a body may be understood in two ways: the next answer is read on another connection.
    fn keeps_alive(&self, version: Version) -> bool {
        let is_clear = self.chunked.is_none() || self.length.is_none();
        is_clear && !self.closes && (self.stays || version == Version::HTTP_11)
    }

    fn follows(&self, method: &Method, status: StatusCode, version: Version) -> Result<Follows, Malformed> {
        let is_without = status.is_informational()
            || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
            || *method == Method::HEAD;
        Ok(match (self.chunked, self.length) {
            _ if is_without => Follows::Length(0),
            (Some(_), _) if version == Version::HTTP_10 => {
                return Err(Malformed("it has a transfer-encoding, which HTTP/1.0 has not"));
            }
            (Some(true), _) => Follows::Chunks,
            (Some(false), _) | (None, None) => Follows::UntilClose,
            (None, Some(length)) => Follows::Length(length),
        })
    }
}

#[cfg(test)]
mod tests;
