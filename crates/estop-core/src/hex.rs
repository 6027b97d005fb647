//! The one way hashes are written: fixed-width lower-case hex, refused in any other form, so that a
//! record has exactly one spelling.

use serde::de::{Error, Visitor};

/// The 16 digits of a 64-bit value.
pub fn encode64(value: u64) -> [u8; 16] {
    let mut out = [0; 16];
    encode_into(&value.to_be_bytes(), &mut out);
    out
}

/// Writes two digits for each byte; `out` is twice as long as `bytes`.
pub fn encode_into(bytes: &[u8], out: &mut [u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (byte, pair) in bytes.iter().zip(out.chunks_exact_mut(2)) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
}

/// Reads exactly `N` bytes from `2 × N` lower-case digits.
pub fn decode<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    if digits.len() != 2 * N {
        return None;
    }
    let mut out = [0; N];
    for (byte, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(out)
}

fn digit(c: u8) -> Option<u8> {
    match c {
        b'0'..=b'9' => Some(c - b'0'),
        b'a'..=b'f' => Some(c - b'a' + 10),
        _ => None,
    }
}

pub(crate) fn serialize<S: serde::Serializer>(value: u64, s: S) -> Result<S::Ok, S::Error> {
    let digits = encode64(value);
    s.serialize_str(std::str::from_utf8(&digits).unwrap_or_default())
}

pub(crate) fn deserialize<'de, D: serde::Deserializer<'de>>(d: D) -> Result<u64, D::Error> {
    struct Digits;
    impl Visitor<'_> for Digits {
        type Value = u64;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("16 lower-case hex digits")
        }
        fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
            decode::<8>(text.as_bytes())
                .map(u64::from_be_bytes)
                .ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
        }
    }
    d.deserialize_str(Digits)
}
