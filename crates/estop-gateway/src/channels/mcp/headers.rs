//! What headers say about a message, where somebody could believe them instead of the message.

use estop_wire::mcp::Message;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::exchange::rejection::Rejection;

const MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");
const MCP_NAME: HeaderName = HeaderName::from_static("mcp-name");
const TOOLS_CALL: &str = "tools/call";

/// What cannot be read is not let through.
pub(super) fn refuse_other_charset(headers: &HeaderMap) -> Result<(), Rejection> {
    // A server that decodes what the header says would read another message than we do.
    let kinds: Vec<&HeaderValue> = headers.get_all(CONTENT_TYPE).iter().collect();
    if kinds.len() > 1 || !kinds.iter().all(|kind| is_utf8(kind)) {
        let message =
            "The body must be UTF-8: send one content-type, application/json, without another charset.";
        return Err(Rejection::bad(415, "charset", message).closing());
    }
    Ok(())
}

/// Whether a content type says no charset, or UTF-8.
fn is_utf8(kind: &HeaderValue) -> bool {
    let Ok(kind) = kind.to_str() else { return false };
    let lower = kind.to_ascii_lowercase();
    // However it is written: quoted, with blanks, twice.
    lower.split("charset").skip(1).all(|rest| {
        let value = rest.trim_start_matches([' ', '\t', '=', '"', '\'']);
        ["utf-8", "utf8"].iter().any(|name| {
            value.strip_prefix(name).is_some_and(|end| {
                end.trim_start_matches(['"', '\'', ' ', '\t']).chars().next().is_none_or(|c| c == ';')
            })
        })
    })
}

/// Since 2026-07-28 method and name stand in headers too, for those who route by them. A server that believed another
/// header than the message would run a call that nobody was asked about.
pub(super) fn agree(headers: &HeaderMap, message: Option<&Message<'_>>) -> Result<(), Rejection> {
    let disagree = || {
        let message =
            "The header mcp-method or mcp-name says something else than the message: send the same in both.";
        Err(Rejection::bad(400, "bad_header", message).closing())
    };
    let mut calls = message.iter().flat_map(|message| message.calls());
    let (first, second) = (calls.next(), calls.next());
    for said in headers.get_all(MCP_METHOD) {
        let says_call = said.to_str().is_ok_and(|method| method.trim().eq_ignore_ascii_case(TOOLS_CALL));
        if says_call != first.is_some() {
            return disagree();
        }
    }
    let Some(call) = first else { return Ok(()) };
    for said in headers.get_all(MCP_NAME) {
        if second.is_some() || !names(said, &call.name) {
            return disagree();
        }
    }
    Ok(())
}

/// Whether a header names this tool, plainly or in the encoding for names that no header can hold.
fn names(said: &HeaderValue, name: &str) -> bool {
    let said = said.as_bytes().trim_ascii();
    if said == name.as_bytes() {
        return true;
    }
    let encoded = said.strip_prefix(b"=?base64?").and_then(|rest| rest.strip_suffix(b"?="));
    encoded.and_then(base64).is_some_and(|decoded| decoded == name.as_bytes())
}

fn base64(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(u32::from(byte - b'A')),
        b'a'..=b'z' => Some(u32::from(byte - b'a') + 26),
        b'0'..=b'9' => Some(u32::from(byte - b'0') + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let end = text.iter().position(|byte| *byte == b'=').unwrap_or(text.len());
    let mut out = Vec::new();
    for four in text.get(..end)?.chunks(4) {
        let bits = four.iter().try_fold(0, |bits, byte| Some(bits << 6 | digit(*byte)?))?;
        let bits = bits << (6 * (4 - four.len()));
        let [_, one, two, three] = bits.to_be_bytes();
        out.extend([one, two, three].into_iter().take(four.len().saturating_sub(1)));
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tl_3_names_that_no_header_can_hold_are_decoded() {
        let value = |text: &str| HeaderValue::from_str(text).expect("a header");
        assert!(names(&value("add"), "add"));
        assert!(names(&value("=?base64?YWRk?="), "add"));
        assert!(names(&value("=?base64?w7w=?="), "ü"));
        assert!(names(&value("=?base64?YWRkcw==?="), "adds"));
        assert!(!names(&value("=?base64?YWRk?="), "sub"));
        assert!(!names(&value("Add"), "add"));
    }

    #[test]
    fn tl_3_a_body_in_another_charset_is_not_read_as_ours() {
        let is_read = |kind: &'static str| is_utf8(&HeaderValue::from_static(kind));
        for kind in
            ["application/json", "application/json; charset=utf-8", "application/json;Charset=\"UTF-8\"; a=b"]
        {
            assert!(is_read(kind), "{kind}");
        }
        for kind in [
            "application/json; charset=utf-7",
            "application/json; charset=\"utf-7-imap\"",
            "application/json; charset=utf-8; charset=utf-7",
            "application/json; charset = utf-16",
            "application/json; charset=utf-8x",
            "application/json; charset",
        ] {
            assert!(!is_read(kind), "{kind}");
        }
    }
}
