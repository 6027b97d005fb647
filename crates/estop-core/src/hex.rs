//! The one way hashes are written: fixed-width lower-case hex, refused in any other form, so that a
//! record has exactly one spelling.

use serde::de::{Error, Visitor};

/// The 16 digits of a 64-bit value.
pub fn encode64(value: u64) -> [u8; 16] {
    const ONES: u64 = u64::MAX / 255;
    // Eight digits at once: each half byte becomes a byte of its own, and gets what makes it a digit or a letter.
    let eight = |half: u64| {
        let spread = (half << 16 | half) & 0x0000_ffff_0000_ffff;
        let spread = (spread << 8 | spread) & 0x00ff_00ff_00ff_00ff;
        let spread = (spread << 4 | spread) & 0x0f0f_0f0f_0f0f_0f0f;
        let letters = (spread + 6 * ONES) >> 4 & ONES;
        let digits = spread + u64::from(b'0') * ONES + u64::from(b'a' - b'0' - 10) * letters;
        digits.to_be_bytes()
    };
    let mut out = [0; 16];
    out[..8].copy_from_slice(&eight(value >> 32));
    out[8..].copy_from_slice(&eight(value & 0xffff_ffff));
    out
}

/// Writes two digits for each byte; `out` is twice as long as `bytes`.
#[inline]
pub fn encode_into(bytes: &[u8], out: &mut [u8]) {
    // Arithmetic and no table: the compiler makes many digits at once of it.
    let digit = |value: u8| value + if value < 10 { b'0' } else { b'a' - 10 };
    for (byte, pair) in bytes.iter().zip(out.as_chunks_mut::<2>().0) {
        *pair = [digit(byte >> 4), digit(byte & 15)];
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
    /// Checked for UTF-8 by words; elsewhere it would be byte by byte.
    #[repr(align(8))]
    struct Aligned([u8; 16]);
    let digits = Aligned(encode64(value));
    s.serialize_str(std::str::from_utf8(&digits.0).unwrap_or_default())
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn tw_7_hex_is_what_the_standard_library_writes(value in any::<u64>(), bytes in any::<[u8; 32]>()) {
            prop_assert_eq!(encode64(value).to_vec(), format!("{value:016x}").into_bytes());
            let mut digits = [0; 64];
            encode_into(&bytes, &mut digits);
            let slow: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            prop_assert_eq!(digits.to_vec(), slow.into_bytes());
        }
    }
}
