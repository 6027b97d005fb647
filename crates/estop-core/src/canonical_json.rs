//! Writes the journal's types as JSON: the same bytes as `serde_json`, in half the time.
//!
//! Names of fields and variants are ours and need no escaping; `serde_json` looks at each of their bytes all the same, and a
//! record has dozens. Nor does it look at digits that `hex` wrote. What this does not know (floats, keys that are neither texts nor numbers) it leaves to `serde_json`.

mod open;

use serde::{Serialize, ser};

use crate::fingerprint::simhash::eight;
use open::Open;

/// Appends a value. Serialising our own types into memory cannot fail: all keys of maps are texts or numbers.
pub(crate) fn write<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    let before = out.len();
    if value.serialize(Writer { out }).is_err() {
        out.truncate(before);
        let is_written = serde_json::to_writer(&mut *out, value).is_ok();
        debug_assert!(is_written, "journal types serialise into memory");
        // Nothing is read as nothing; half of it might be taken for something.
        out.truncate(if is_written { out.len() } else { before });
    }
}

/// This writer does not know how.
#[derive(Debug, thiserror::Error)]
#[error("left to serde_json")]
struct Unknown;

impl ser::Error for Unknown {
    fn custom<T: std::fmt::Display>(_: T) -> Unknown {
        Unknown
    }
}

struct Writer<'o> {
    out: &'o mut Vec<u8>,
}

impl Writer<'_> {
    /// A text that needs no escaping, in quotes.
    #[inline]
    fn name(&mut self, name: &str) {
        debug_assert!(is_plain(name.as_bytes()), "{name} needs escaping");
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.push(b'"');
    }

    /// `"name":` in one piece: where the name is known, so is its length, and no call copies it.
    #[inline(always)]
    fn key(&mut self, name: &'static str) {
        let mut piece = [b'"'; 32];
        let Some(room) = piece.get_mut(1..=name.len()).filter(|_| name.len() + 3 <= 32) else {
            self.name(name);
            return self.out.push(b':');
        };
        debug_assert!(is_plain(name.as_bytes()), "{name} needs escaping");
        room.copy_from_slice(name.as_bytes());
        piece[name.len() + 2] = b':';
        self.out.extend_from_slice(&piece[..name.len() + 3]);
    }

    /// A text of 4 to 16 bytes in quotes, as most texts of a record are: its first and its last bytes together are all of
    /// it. Pieces of a known length are copied without a call, then cut. `false` for any other.
    #[inline]
    fn short(&mut self, text: &[u8]) -> bool {
        let mut quoted = [b'"'; 18];
        let length = text.len();
        match (
            text.first_chunk::<8>(),
            text.last_chunk::<8>(),
            text.first_chunk::<4>(),
            text.last_chunk::<4>(),
        ) {
            (Some(first), Some(last), ..) if length <= 16 => {
                quoted[1..9].copy_from_slice(first);
                quoted[length - 7..=length].copy_from_slice(last);
            }
            (None, None, Some(first), Some(last)) => {
                quoted[1..5].copy_from_slice(first);
                quoted[length - 3..=length].copy_from_slice(last);
            }
            _ => return false,
        }
        let end = self.out.len() + length + 2;
        self.out.extend_from_slice(&quoted);
        self.out.truncate(end);
        true
    }

    /// `{"name":`
    #[inline(always)]
    fn variant(&mut self, name: &'static str) {
        self.out.push(b'{');
        self.key(name);
    }

    #[inline]
    fn number(&mut self, number: u64) {
        // Three times as fast as `write!`, and into a vector it cannot fail.
        let _ = serde_json::to_writer(&mut *self.out, &number);
    }
}

/// Whether a text stands in JSON as it is.
fn is_plain(text: &[u8]) -> bool {
    let plain = |bytes: &[u8; 8]| eight::escaped_in_json(u64::from_le_bytes(*bytes)) == 0;
    match (text.last_chunk(), text.first_chunk::<4>(), text.last_chunk::<4>()) {
        // The last eight may be among the others too.
        (Some(last), ..) => plain(last) && text.as_chunks().0.iter().all(plain),
        (None, Some([a, b, c, d]), Some([e, f, g, h])) => plain(&[*a, *b, *c, *d, *e, *f, *g, *h]),
        _ => text.iter().all(|b| *b >= 0x20 && *b != b'"' && *b != b'\\'),
    }
}

macro_rules! numbers {
    ($($method:ident $type:ty),*) => {
        $(fn $method(mut self, v: $type) -> Result<(), Unknown> {
            self.number(u64::from(v));
            Ok(())
        })*
    };
}

macro_rules! signed_numbers {
    ($($method:ident $type:ty),*) => {
        $(fn $method(mut self, v: $type) -> Result<(), Unknown> {
            if v < 0 {
                self.out.push(b'-');
            }
            self.number(u64::from(v.unsigned_abs()));
            Ok(())
        })*
    };
}

macro_rules! unknown {
    ($($method:ident $type:ty),*) => {
        $(fn $method(self, _: $type) -> Result<(), Unknown> {
            Err(Unknown)
        })*
    };
}

impl<'o> ser::Serializer for Writer<'o> {
    type Ok = ();
    type Error = Unknown;
    type SerializeSeq = Open<'o>;
    type SerializeTuple = Open<'o>;
    type SerializeTupleStruct = Open<'o>;
    type SerializeTupleVariant = Open<'o>;
    type SerializeMap = Open<'o>;
    type SerializeStruct = Open<'o>;
    type SerializeStructVariant = Open<'o>;

    numbers!(serialize_u8 u8, serialize_u16 u16, serialize_u32 u32, serialize_u64 u64);
    signed_numbers!(serialize_i8 i8, serialize_i16 i16, serialize_i32 i32, serialize_i64 i64);
    unknown!(serialize_f32 f32, serialize_f64 f64, serialize_char char);

    /// What it is asked for by those who write digits: they need neither be read as text nor escaped.
    fn is_human_readable(&self) -> bool {
        false
    }

    fn serialize_bytes(mut self, digits: &[u8]) -> Result<(), Unknown> {
        debug_assert!(digits.iter().all(u8::is_ascii_hexdigit), "only `hex` writes bytes");
        if !self.short(digits) {
            return Err(Unknown);
        }
        Ok(())
    }

    fn serialize_u128(mut self, v: u128) -> Result<(), Unknown> {
        match u64::try_from(v) {
            Ok(v) => self.number(v),
            Err(_) => serde_json::to_writer(self.out, &v).map_err(|_| Unknown)?,
        }
        Ok(())
    }

    fn serialize_bool(self, v: bool) -> Result<(), Unknown> {
        self.out.extend_from_slice(if v { b"true" } else { b"false" });
        Ok(())
    }

    fn serialize_str(mut self, v: &str) -> Result<(), Unknown> {
        if is_plain(v.as_bytes()) {
            if !self.short(v.as_bytes()) {
                self.name(v);
            }
            return Ok(());
        }
        serde_json::to_writer(self.out, v).map_err(|_| Unknown)
    }

    fn serialize_none(self) -> Result<(), Unknown> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Unknown> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Unknown> {
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Unknown> {
        self.serialize_unit()
    }

    #[inline(always)]
    fn serialize_unit_variant(
        mut self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), Unknown> {
        self.name(variant);
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Unknown> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        mut self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Unknown> {
        self.variant(variant);
        value.serialize(Writer { out: self.out })?;
        self.out.push(b'}');
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Open<'o>, Unknown> {
        Ok(Open::begin(self.out, b'[', b']'))
    }

    fn serialize_tuple(self, _: usize) -> Result<Open<'o>, Unknown> {
        Ok(Open::begin(self.out, b'[', b']'))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Open<'o>, Unknown> {
        Ok(Open::begin(self.out, b'[', b']'))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Open<'o>, Unknown> {
        Ok(Open::variant(self, variant, b'[', b']'))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Open<'o>, Unknown> {
        Ok(Open::begin(self.out, b'{', b'}'))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Open<'o>, Unknown> {
        Ok(Open::begin(self.out, b'{', b'}'))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Open<'o>, Unknown> {
        Ok(Open::variant(self, variant, b'{', b'}'))
    }
}

#[cfg(test)]
mod tests;
