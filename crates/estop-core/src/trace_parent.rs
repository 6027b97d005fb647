//! The trace a request belongs to: `traceparent` of W3C Trace Context. Nothing is judged by it; spans are put under it.

use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::hex;

/// Characters of `traceparent` in version 00; later versions may have more after them.
const LENGTH: usize = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01".len();
const SAMPLED: u8 = 1;

/// Where a request stands in its client's trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    trace: [u8; 16],
    span: [u8; 8],
    /// Whether the client records this trace.
    pub is_sampled: bool,
}

impl TraceParent {
    /// Reads the header's value; `None` if it is none.
    pub fn parse(value: &[u8]) -> Option<TraceParent> {
        let (head, rest) = value.split_at_checked(LENGTH)?;
        let [version, trace, span, flags] = parts(head)?;
        let [version] = hex::decode::<1>(version)?;
        let is_known = version == 0 && rest.is_empty();
        let is_later = (1..0xff).contains(&version) && rest.first().is_none_or(|byte| *byte == b'-');
        let (trace, span) = (hex::decode::<16>(trace)?, hex::decode::<8>(span)?);
        let [flags] = hex::decode::<1>(flags)?;
        let is_one = (is_known || is_later) && trace != [0; 16] && span != [0; 8];
        is_one.then_some(TraceParent { trace, span, is_sampled: flags & SAMPLED != 0 })
    }

    /// The id of the trace: 32 hex digits.
    pub fn trace_id(&self) -> String {
        digits(&self.trace)
    }

    /// The id of the client's span: 16 hex digits.
    pub fn span_id(&self) -> String {
        digits(&self.span)
    }
}

fn parts(head: &[u8]) -> Option<[&[u8]; 4]> {
    let mut parts = head.split(|byte| *byte == b'-');
    let four = [parts.next()?, parts.next()?, parts.next()?, parts.next()?];
    parts.next().is_none().then_some(four)
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace_id(), self.span_id(), u8::from(self.is_sampled))
    }
}

impl Serialize for TraceParent {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TraceParent {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<TraceParent, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(d)?;
        TraceParent::parse(text.as_bytes()).ok_or_else(|| D::Error::custom("no traceparent"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "b7ad6b7169203331";

    #[test]
    fn ob_2_a_traceparent_is_read_as_its_standard_says() {
        for (value, is_sampled) in [
            (format!("00-{TRACE}-{SPAN}-01"), true),
            (format!("00-{TRACE}-{SPAN}-00"), false),
            (format!("00-{TRACE}-{SPAN}-fe"), false),
            (format!("01-{TRACE}-{SPAN}-01"), true),
            (format!("cc-{TRACE}-{SPAN}-01-what-comes-later"), true),
        ] {
            let parent = TraceParent::parse(value.as_bytes()).expect(&value);
            assert_eq!((parent.trace_id(), parent.span_id()), (TRACE.to_owned(), SPAN.to_owned()));
            assert_eq!(parent.is_sampled, is_sampled, "{value}");
            assert_eq!(TraceParent::parse(parent.to_string().as_bytes()), Some(parent));
        }
    }

    #[test]
    fn ob_2_what_is_no_traceparent_is_none() {
        let zeros = "0".repeat(32);
        for value in [
            String::new(),
            "00".to_owned(),
            format!("00-{TRACE}-{SPAN}-1"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("00-{TRACE}-{SPAN}-01 "),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("01-{TRACE}-{SPAN}-01x"),
            format!("00-{zeros}-{SPAN}-01"),
            format!("00-{TRACE}-{}-01", &zeros[..16]),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{SPAN}-{TRACE}-01"),
            "-".repeat(LENGTH),
        ] {
            assert_eq!(TraceParent::parse(value.as_bytes()), None, "{value}");
        }
    }
}
