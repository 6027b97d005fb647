//! Lays variables over a file while it is read, so that both have one shape and are checked by the same types.
//!
//! The file is read alone first; what goes wrong here is the fault of a variable.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::{BorrowedStrDeserializer, StrDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_saphyr::{Error, with_deserializer_from_str_with_options as read_yaml};

use super::explain;
use super::overrides::{Override, is_meant};
use super::place::Step;
use super::problem::Problem;
use super::yaml_options::options;

/// Reads `text`, which is known to be readable, with `overrides` in place of what it says.
pub(super) fn read<T: DeserializeOwned>(text: &str, overrides: &[Override]) -> Result<T, Problem> {
    let mut layer = Layer::default();
    for variable in overrides {
        layer.add(&variable.keys, variable);
    }
    let blame = Blame::default();
    let mut path = Vec::new();
    let read = read_yaml(text, options(), |yaml| {
        serde_path_to_error::deserialize(Laid { over: yaml, layer: &layer, blame: &blame }).map_err(|error| {
            path = error.path().iter().map(Step::from).collect();
            blame.keep(error.into_inner())
        })
    });
    read.map_err(|error| {
        let error = blame.error.take().unwrap_or(error);
        match blame.variable.get() {
            Some(variable) => explain::override_error(&error, &path, variable),
            None => explain::yaml_error(&error, &path, text, "the environment"),
        }
    })
}

/// Which variable is being read, and what was wrong with its value.
#[derive(Default)]
struct Blame<'de> {
    variable: Cell<Option<&'de Override>>,
    error: RefCell<Option<Error>>,
}

impl Blame<'_> {
    /// Keeps the error, which says more than one that passed through other types.
    fn keep<E: serde::de::Error>(&self, error: Error) -> E {
        let passed_on = E::custom(&error);
        self.error.borrow_mut().get_or_insert(error);
        passed_on
    }
}

/// Variables as a tree of keys.
#[derive(Default)]
struct Layer<'de> {
    value: Option<&'de Override>,
    below: BTreeMap<&'de str, Layer<'de>>,
}

impl<'de> Layer<'de> {
    fn add(&mut self, keys: &'de [String], variable: &'de Override) {
        match keys {
            [] => self.value = Some(variable),
            [key, keys @ ..] => self.below.entry(key).or_default().add(keys, variable),
        }
    }

    /// A variable to name when something is wrong with this key.
    fn first(&self) -> Option<&'de Override> {
        self.value.or_else(|| self.below.values().find_map(Layer::first))
    }
}

/// Something that has variables laid over it: a value, its reader, the entries of a mapping.
struct Laid<'a, 'de, T> {
    over: T,
    layer: &'a Layer<'de>,
    blame: &'a Blame<'de>,
}

impl<'a, 'de, T> Laid<'a, 'de, T> {
    /// The same variables over something else; gives back what they lay over.
    fn on<U>(self, other: U) -> (T, Laid<'a, 'de, U>) {
        (self.over, Laid { over: other, layer: self.layer, blame: self.blame })
    }
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Laid<'_, 'de, D> {
    type Error = D::Error;

    /// There are keys below this value, but it is no section.
    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, D::Error> {
        let variable = self.layer.below.values().find_map(Layer::first);
        self.blame.variable.set(variable);
        let keys = variable.map_or_else(Vec::new, |variable| variable.keys.clone());
        let (key, parents) = keys.split_last().map_or(("", &keys[..]), |(key, parents)| (key, parents));
        Err(D::Error::custom(format!("unknown key `{key}`: {} is a single value", parents.join("."))))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        let (value, visitor) = self.on(visitor);
        value.deserialize_map(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let (value, visitor) = self.on(visitor);
        value.deserialize_struct(name, fields, visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        let (value, visitor) = self.on(visitor);
        value.deserialize_option(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct enum identifier ignored_any
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Laid<'_, 'de, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.over.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        let added = self.layer.below.keys().copied().collect();
        let (visitor, map) = self.on(map);
        visitor.visit_map(Entries { map, added, next: Next::InFile(None), file_is_read: false })
    }

    fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        let (visitor, value) = self.on(value);
        visitor.visit_some(value)
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<V::Value, E> {
        let blame = self.blame;
        // An empty section; the variables fill it.
        read_yaml("{}", options(), |yaml| self.visit_some(yaml)).map_err(|error| blame.keep(error))
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.visit_none()
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Laid<'_, 'de, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<S::Value, D::Error> {
        let (seed, value) = self.on(value);
        seed.deserialize(value)
    }
}

/// The entries of a mapping: the file's, then those only variables have.
struct Entries<'a, 'de, A> {
    map: Laid<'a, 'de, A>,
    /// Keys of variables that the file has not named so far.
    added: Vec<&'de str>,
    next: Next<'a, 'de>,
    file_is_read: bool,
}

/// Where the next value comes from.
#[derive(Clone, Copy)]
enum Next<'a, 'de> {
    InFile(Option<&'a Layer<'de>>),
    Added(&'a Layer<'de>),
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Entries<'_, 'de, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let below = &self.map.layer.below;
        if !self.file_is_read {
            if let Some(name) = self.map.over.next_key::<String>()? {
                self.added.retain(|key| !is_meant(key, &name));
                let layer = below.iter().find(|(key, _)| is_meant(key, &name)).map(|(_, layer)| layer);
                self.next = Next::InFile(layer);
                return seed.deserialize(StrDeserializer::new(&name)).map(Some);
            }
            self.file_is_read = true;
        }
        let Some((key, layer)) = self.added.pop().and_then(|key| below.get_key_value(key)) else {
            return Ok(None);
        };
        self.next = Next::Added(layer);
        self.map.blame.variable.set(layer.first());
        seed.deserialize(StrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        let blame = self.map.blame;
        let (layer, is_in_file) = match self.next {
            Next::InFile(None) => return self.map.over.next_value_seed(seed),
            Next::InFile(Some(layer)) => (layer, true),
            Next::Added(layer) => (layer, false),
        };
        let laid = Laid { over: seed, layer, blame };
        match layer.value {
            Some(variable) => {
                if is_in_file {
                    self.map.over.next_value::<IgnoredAny>()?;
                }
                blame.variable.set(Some(variable));
                let value = VariableText(&variable.value);
                if layer.below.is_empty() { laid.over.deserialize(value) } else { laid.deserialize(value) }
                    .map_err(|error| blame.keep(error))
            }
            None if is_in_file => self.map.over.next_value_seed(laid),
            None => {
                read_yaml("{}", options(), |yaml| laid.deserialize(yaml)).map_err(|error| blame.keep(error))
            }
        }
    }
}

/// A variable's value: as it is where a text is asked for, else as YAML. So `[::1]:4100` needs no quotes.
struct VariableText<'de>(&'de str);

impl<'de> Deserializer<'de> for VariableText<'de> {
    type Error = Error;

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_borrowed_str(self.0)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_borrowed_str(self.0)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        BorrowedStrDeserializer::new(self.0).deserialize_enum(name, variants, visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        read_yaml(self.0, options(), |yaml| yaml.deserialize_any(visitor))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        read_yaml(self.0, options(), |yaml| yaml.deserialize_bool(visitor))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        read_yaml(self.0, options(), |yaml| yaml.deserialize_seq(visitor))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        read_yaml(self.0, options(), |yaml| yaml.deserialize_map(visitor))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        read_yaml(self.0, options(), |yaml| yaml.deserialize_struct(name, fields, visitor))
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct newtype_struct
        tuple tuple_struct identifier ignored_any
    }
}
