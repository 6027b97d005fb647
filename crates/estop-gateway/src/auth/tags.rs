//! What a run is for, as clients say it in headers (PO-6): `x-estop-issue` and `x-estop-labels`. Bounded, because it is
//! written down with the request; never forwarded.

use estop_core::ids::Name;
use estop_core::tags::Tags;
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};

/// Names the issue.
const ISSUE_HEADER: HeaderName = HeaderName::from_static(ISSUE);
/// Carries labels: `key=value,key2=value2`.
const LABELS_HEADER: HeaderName = HeaderName::from_static(LABELS);
const ISSUE: &str = "x-estop-issue";
const LABELS: &str = "x-estop-labels";
/// Chosen: the URL of an issue fits.
const ISSUE_BYTES_MAX: usize = 256;
/// Chosen: spend has one sum for each combination; a dozen dimensions are plenty.
const LABELS_MAX: usize = 16;
const KEY_BYTES_MAX: usize = 64;
const VALUE_BYTES_MAX: usize = 128;

/// A header that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadTags {
    /// Its name.
    pub(crate) header: &'static str,
    /// What it must be.
    pub(crate) must: &'static str,
}

/// What the headers say; `None` if they say nothing.
pub(crate) fn read(headers: &HeaderMap) -> Result<Option<Box<Tags>>, BadTags> {
    let issue = once(headers, &ISSUE_HEADER).map_err(|Twice| bad_issue())?;
    let labels = once(headers, &LABELS_HEADER).map_err(|Twice| bad_labels())?;
    if issue.is_none() && labels.is_none() {
        return Ok(None);
    }
    let mut tags = Tags::default();
    if let Some(value) = issue {
        tags.issue = Some(text(value.as_bytes(), ISSUE_BYTES_MAX).ok_or(bad_issue())?);
    }
    if let Some(value) = labels {
        for pair in value.as_bytes().split(|byte| *byte == b',') {
            let (key, value) = label(pair.trim_ascii()).ok_or(bad_labels())?;
            if tags.labels.insert(key, value).is_some() || tags.labels.len() > LABELS_MAX {
                return Err(bad_labels());
            }
        }
    }
    Ok(Some(Box::new(tags)))
}

fn bad_issue() -> BadTags {
    BadTags {
        header: ISSUE,
        must: "be sent once, with 1 to 256 printable ASCII characters, as `acme/shop#7`",
    }
}

fn bad_labels() -> BadTags {
    BadTags {
        header: LABELS,
        must: "be sent once, as `key=value,key2=value2`: at most 16 labels, each key once with 1 to 64 letters, digits, `.`, `_`, `-` or `/`, each value with 1 to 128 printable ASCII characters without `,` and `=`",
    }
}

struct Twice;

fn once<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h HeaderValue>, Twice> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() { Err(Twice) } else { Ok(first) }
}

fn label(pair: &[u8]) -> Option<(Name, Name)> {
    let at = pair.iter().position(|byte| *byte == b'=')?;
    let (key, value) = (pair.get(..at)?, pair.get(at + 1..)?);
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'/');
    let key = text(key, KEY_BYTES_MAX).filter(|key| key.as_bytes().iter().all(fits))?;
    let value = text(value, VALUE_BYTES_MAX).filter(|value| !value.contains('='))?;
    Some((key, value))
}

/// Printable ASCII, not only spaces.
fn text(bytes: &[u8], max: usize) -> Option<Name> {
    let bytes = bytes.trim_ascii();
    let fits =
        (1..=max).contains(&bytes.len()) && bytes.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ');
    let text = std::str::from_utf8(bytes).ok()?;
    fits.then(|| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(headers: &[(&'static str, &[u8])]) -> Result<Option<Box<Tags>>, &'static str> {
        let value = |bytes| HeaderValue::from_bytes(bytes).expect("a header's value");
        let all = headers.iter().map(|(name, bytes)| (HeaderName::from_static(name), value(bytes)));
        let mut map = HeaderMap::new();
        for (name, value) in all {
            map.append(name, value);
        }
        read(&map).map_err(|bad| bad.header)
    }

    #[test]
    fn po_6_headers_name_issue_and_labels() {
        assert_eq!(of(&[]), Ok(None));
        let tags = of(&[("x-estop-issue", b"acme/shop#7"), ("x-estop-labels", b"team=red, prio/x=2 b")]);
        let tags = tags.expect("good headers").expect("tags");
        assert_eq!(tags.issue.as_deref(), Some("acme/shop#7"));
        let labels: Vec<(&str, &str)> = tags.labels.iter().map(|(key, value)| (&**key, &**value)).collect();
        assert_eq!(labels, [("prio/x", "2 b"), ("team", "red")]);
    }

    #[test]
    fn po_6_bad_headers_are_named() {
        let long = format!("k={}", "v".repeat(129));
        let many: Vec<String> = (0..17).map(|n| format!("k{n}=v")).collect();
        let many = many.join(",");
        let bad: [&[u8]; 12] = [
            b"",
            b"team",
            b"=red",
            b"team=",
            b"team=red,",
            b"team=a=b",
            b"te am=red",
            b"team=r\xc3\xa9d",
            b"a=1,a=2",
            b"team=\t",
            long.as_bytes(),
            many.as_bytes(),
        ];
        for labels in bad {
            assert_eq!(of(&[("x-estop-labels", labels)]), Err("x-estop-labels"), "{labels:?}");
        }
        for issue in [b"".as_slice(), &[b'x'; 257], b"caf\xc3\xa9"] {
            assert_eq!(of(&[("x-estop-issue", issue)]), Err("x-estop-issue"), "{issue:?}");
        }
        let twice: [(&'static str, &[u8]); 2] = [("x-estop-issue", b"1"), ("x-estop-issue", b"2")];
        assert_eq!(of(&twice), Err("x-estop-issue"));
    }
}
