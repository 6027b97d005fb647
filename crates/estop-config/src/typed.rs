//! A tree to any type.

use serde::de::value::{BorrowedStrDeserializer, StrDeserializer};
use serde::de::{DeserializeSeed, Deserializer, Expected, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::forward_to_deserialize_any;

use super::tree::{Key, Node, Scalar, Step, Value, ValueSource};

/// Why a tree is not what a type wants.
#[derive(Clone, Debug)]
pub(super) struct TypeMismatch {
    pub(super) why: Why,
    /// The way to what was refused.
    pub(super) path: Vec<Step>,
    /// What stands there: where, and how it is shown (`None` = nothing).
    pub(super) at: Option<Box<(ValueSource, Option<String>)>>,
}

#[derive(Clone, Debug)]
pub(super) enum Why {
    UnknownKey {
        key: String,
        known: &'static [&'static str],
    },
    UnknownWord {
        word: String,
        known: &'static [&'static str],
    },
    /// It must be this.
    MustBe(String),
    MissingKey(&'static str),
    /// Variables set keys below it, but it is no section.
    NoSection,
    Other(String),
}

impl TypeMismatch {
    fn new(why: Why) -> TypeMismatch {
        TypeMismatch { why, path: Vec::new(), at: None }
    }

    fn must_be(what: &str) -> TypeMismatch {
        TypeMismatch::new(Why::MustBe(what.to_owned()))
    }

    /// It is about this value, if about no value inside.
    fn on(mut self, node: &Node) -> TypeMismatch {
        if self.at.is_none() {
            self.at = Some(Box::new((node.place, node.found())));
        }
        self
    }

    fn below(mut self, step: Step) -> TypeMismatch {
        self.path.insert(0, step);
        self
    }
}

impl std::fmt::Display for TypeMismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.why)
    }
}

impl std::error::Error for TypeMismatch {}

impl serde::de::Error for TypeMismatch {
    fn custom<T: std::fmt::Display>(message: T) -> TypeMismatch {
        TypeMismatch::new(Why::Other(message.to_string()))
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> TypeMismatch {
        TypeMismatch::must_be(&expected.to_string())
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> TypeMismatch {
        TypeMismatch::must_be(&expected.to_string())
    }

    fn invalid_length(_: usize, expected: &dyn Expected) -> TypeMismatch {
        TypeMismatch::must_be(&expected.to_string())
    }

    fn unknown_variant(word: &str, known: &'static [&'static str]) -> TypeMismatch {
        TypeMismatch::new(Why::UnknownWord { word: word.to_owned(), known })
    }

    fn unknown_field(key: &str, known: &'static [&'static str]) -> TypeMismatch {
        TypeMismatch::new(Why::UnknownKey { key: key.to_owned(), known })
    }

    fn missing_field(key: &'static str) -> TypeMismatch {
        TypeMismatch::new(Why::MissingKey(key))
    }
}

impl Node {
    /// A scalar as a text.
    fn text(&self) -> Result<&str, TypeMismatch> {
        match &self.value {
            Value::Scalar(Scalar::Text(text)) => Ok(text),
            Value::Scalar(_) | Value::Variable(_) => Ok(&self.written),
            Value::Nothing | Value::List(_) | Value::Mapping(_) => Err(self.must_be("a single value")),
        }
    }

    fn must_be(&self, what: &str) -> TypeMismatch {
        // A mapping that is there for variables only.
        let is_made = matches!((&self.value, self.place), (Value::Mapping(_), ValueSource::SectionFor(_)));
        if is_made { TypeMismatch::new(Why::NoSection) } else { TypeMismatch::must_be(what) }
    }

    fn any<'de, V: Visitor<'de>>(&'de self, visitor: V) -> Result<V::Value, TypeMismatch> {
        match &self.value {
            Value::Nothing => visitor.visit_unit(),
            Value::Scalar(Scalar::Bool(value)) => visitor.visit_bool(*value),
            Value::Scalar(Scalar::Unsigned(number)) => visitor.visit_u64(*number),
            Value::Scalar(Scalar::Signed(number)) => visitor.visit_i64(*number),
            Value::Scalar(Scalar::Float(number)) => visitor.visit_f64(*number),
            Value::Scalar(Scalar::Text(text)) => visitor.visit_borrowed_str(text),
            Value::List(items) => visitor.visit_seq(Items { items, next: 0 }),
            Value::Mapping(entries) => visitor.visit_map(Entries { entries, value: None }),
            Value::Variable(node) => node.any(visitor),
        }
    }

    fn list<'de, V: Visitor<'de>>(&'de self, visitor: V) -> Result<V::Value, TypeMismatch> {
        match &self.value {
            Value::List(items) => visitor.visit_seq(Items { items, next: 0 }),
            Value::Variable(node) => node.list(visitor),
            Value::Nothing | Value::Scalar(_) | Value::Mapping(_) => Err(self.must_be("a list (`[a, b]`)")),
        }
    }

    fn mapping<'de, V: Visitor<'de>>(&'de self, visitor: V) -> Result<V::Value, TypeMismatch> {
        match &self.value {
            Value::Mapping(entries) => visitor.visit_map(Entries { entries, value: None }),
            Value::Nothing => visitor.visit_map(Entries { entries: &[], value: None }),
            Value::Variable(node) => node.mapping(visitor),
            Value::Scalar(_) | Value::List(_) => Err(self.must_be("a mapping (`key: value`)")),
        }
    }

    /// What it says, if that is a scalar: of a variable, as YAML.
    fn scalar(&self) -> Option<&Scalar> {
        match &self.value {
            Value::Scalar(scalar) => Some(scalar),
            Value::Variable(node) => node.scalar(),
            Value::Nothing | Value::List(_) | Value::Mapping(_) => None,
        }
    }
}

/// Every refusal says where.
impl<'de> Deserializer<'de> for &'de Node {
    type Error = TypeMismatch;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeMismatch> {
        self.any(visitor).map_err(|error| error.on(self))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeMismatch> {
        match self.scalar() {
            Some(Scalar::Bool(value)) => visitor.visit_bool(*value),
            _ => Err(self.must_be("true or false")),
        }
        .map_err(|error| error.on(self))
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeMismatch> {
        match self.scalar() {
            Some(Scalar::Unsigned(number)) => visitor.visit_u64(*number),
            Some(Scalar::Signed(number)) => visitor.visit_i64(*number),
            _ => Err(self.must_be("a whole number")),
        }
        .map_err(|error| error.on(self))
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeMismatch> {
        self.text().and_then(|text| visitor.visit_borrowed_str(text)).map_err(|error| error.on(self))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeMismatch> {
        if matches!(self.value, Value::Nothing) {
            return visitor.visit_none().map_err(|error: TypeMismatch| error.on(self));
        }
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, TypeMismatch> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeMismatch> {
        self.list(visitor).map_err(|error| error.on(self))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeMismatch> {
        self.mapping(visitor).map_err(|error| error.on(self))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TypeMismatch> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TypeMismatch> {
        let read = |text| BorrowedStrDeserializer::new(text).deserialize_enum(name, words, visitor);
        self.text().and_then(read).map_err(|error| error.on(self))
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeMismatch> {
        self.deserialize_str(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeMismatch> {
        visitor.visit_unit()
    }

    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeMismatch> {
        self.deserialize_u64(visitor)
    }

    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeMismatch> {
        self.deserialize_u64(visitor)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeMismatch> {
        self.deserialize_u64(visitor)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeMismatch> {
        self.deserialize_u64(visitor)
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i128 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct identifier
    }
}

struct Items<'de> {
    items: &'de [Node],
    next: usize,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = TypeMismatch;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, TypeMismatch> {
        let Some(item) = self.items.get(self.next) else { return Ok(None) };
        let at = self.next;
        self.next += 1;
        seed.deserialize(item).map(Some).map_err(|error| error.on(item).below(Step::Item(at)))
    }
}

struct Entries<'de> {
    entries: &'de [(Key, Node)],
    /// The value of the key that was read last.
    value: Option<&'de (Key, Node)>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = TypeMismatch;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, TypeMismatch> {
        let Some((entry, entries)) = self.entries.split_first() else { return Ok(None) };
        (self.entries, self.value) = (entries, Some(entry));
        let key = &entry.0;
        seed.deserialize(StrDeserializer::new(&key.name)).map(Some).map_err(|mut error: TypeMismatch| {
            error.at.get_or_insert_with(|| Box::new((key.place, None)));
            error
        })
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, TypeMismatch> {
        let Some((key, node)) = self.value.take() else {
            return Err(TypeMismatch::new(Why::Other("a value was asked for before its key".to_owned())));
        };
        seed.deserialize(node).map_err(|error| error.on(node).below(Step::Key(key.name.clone())))
    }
}
