//! A list or an object that is being written.

use serde::{Serialize, ser};

use super::{Unknown, Writer};

/// A list or an object that is being written.
pub(super) struct Open<'o> {
    out: &'o mut Vec<u8>,
    /// How it ends.
    close: u8,
    /// It is the content of a variant, and a brace follows its end.
    in_variant: bool,
    first: bool,
}

impl<'o> Open<'o> {
    #[inline]
    pub(super) fn begin(out: &'o mut Vec<u8>, open: u8, close: u8) -> Open<'o> {
        out.push(open);
        Open { out, close, in_variant: false, first: true }
    }

    /// `{"variant":` and what opens its content.
    #[inline(always)]
    pub(super) fn variant(mut writer: Writer<'o>, name: &'static str, open: u8, close: u8) -> Open<'o> {
        writer.variant(name);
        Open { in_variant: true, ..Open::begin(writer.out, open, close) }
    }

    #[inline]
    fn comma(&mut self) {
        if !std::mem::replace(&mut self.first, false) {
            self.out.push(b',');
        }
    }

    #[inline]
    fn close(self) {
        self.out.push(self.close);
        if self.in_variant {
            self.out.push(b'}');
        }
    }
}

macro_rules! lists {
    ($($trait:ident $method:ident),*) => {
        $(impl ser::$trait for Open<'_> {
            type Ok = ();
            type Error = Unknown;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unknown> {
                self.comma();
                value.serialize(Writer { out: self.out })
            }

            fn end(self) -> Result<(), Unknown> {
                self.close();
                Ok(())
            }
        })*
    };
}

lists!(
    SerializeSeq serialize_element,
    SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field
);

macro_rules! objects {
    ($($trait:ident),*) => {
        $(impl ser::$trait for Open<'_> {
            type Ok = ();
            type Error = Unknown;

            // Where a name is written its length is known: no call to copy a few bytes.
            #[inline(always)]
            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), Unknown> {
                self.comma();
                Writer { out: self.out }.key(name);
                value.serialize(Writer { out: self.out })
            }

            fn end(self) -> Result<(), Unknown> {
                self.close();
                Ok(())
            }
        })*
    };
}

objects!(SerializeStruct, SerializeStructVariant);

impl ser::SerializeMap for Open<'_> {
    type Ok = ();
    type Error = Unknown;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Unknown> {
        self.comma();
        let at = self.out.len();
        key.serialize(Writer { out: self.out })?;
        match self.out.get(at) {
            Some(b'"') => {}
            // A number: keys are texts.
            Some(b'-' | b'0'..=b'9') => {
                self.out.insert(at, b'"');
                self.out.push(b'"');
            }
            _ => return Err(Unknown),
        }
        self.out.push(b':');
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unknown> {
        value.serialize(Writer { out: self.out })
    }

    fn end(self) -> Result<(), Unknown> {
        self.close();
        Ok(())
    }
}
