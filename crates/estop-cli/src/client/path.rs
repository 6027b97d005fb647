//! Paths and queries of the admin API, with everything outside encoded: a name never becomes a path of its own.

use std::fmt::Write;

/// `/api/` and the segments, each encoded.
///
/// ```
/// assert_eq!(estop_cli::client::path(&["agents", "a/b c", "activate"]), "/api/agents/a%2Fb%20c/activate");
/// ```
pub fn path(segments: &[&str]) -> String {
    let mut out = "/api".to_owned();
    for segment in segments {
        out.push('/');
        encode(segment, &mut out);
    }
    out
}

/// The path with the pairs that have a value.
///
/// ```
/// let query = [("agent", Some("a&b".to_owned())), ("type", None), ("limit", Some("5".to_owned()))];
/// assert_eq!(estop_cli::client::with_query("/api/events", &query), "/api/events?agent=a%26b&limit=5");
/// ```
pub fn with_query(path: &str, pairs: &[(&str, Option<String>)]) -> String {
    let mut out = path.to_owned();
    let mut separator = '?';
    for (key, value) in pairs {
        let Some(value) = value else { continue };
        out.push(separator);
        separator = '&';
        encode(key, &mut out);
        out.push('=');
        encode(value, &mut out);
    }
    out
}

/// What RFC 3986 leaves unreserved stays. A segment of dots only would be read as a step, so its dots go too.
fn encode(text: &str, out: &mut String) {
    let is_step = matches!(text, "." | "..");
    for byte in text.bytes() {
        let stays =
            byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~') || (byte == b'.' && !is_step);
        if stays {
            out.push(char::from(byte));
        } else {
            // Writing into a string does not fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
}
