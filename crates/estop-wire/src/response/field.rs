//! Values as they come from outside: read if they have the type we expect, left out if not.
//!
//! A provider that sends a number for a text must not hide the rest of its answer. A key that comes twice is an
//! error all the same.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::builder::ResponseBuilder;

/// For each type named: a value of it means nothing.
macro_rules! nothing_for {
    ($($kind:ident)*) => { $(nothing_for!(@ $kind);)* };
    (@ bool) => { fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> { Ok(Default::default()) } };
    (@ i64) => { fn visit_i64<E: Error>(self, _: i64) -> Result<Self::Value, E> { Ok(Default::default()) } };
    (@ u64) => { fn visit_u64<E: Error>(self, _: u64) -> Result<Self::Value, E> { Ok(Default::default()) } };
    (@ f64) => { fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> { Ok(Default::default()) } };
    (@ str) => { fn visit_str<E: Error>(self, _: &str) -> Result<Self::Value, E> { Ok(Default::default()) } };
    (@ null) => { fn visit_unit<E: Error>(self) -> Result<Self::Value, E> { Ok(Default::default()) } };
    (@ seq) => {
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok(Default::default())
        }
    };
    (@ map) => {
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(Default::default())
        }
    };
    (@ expecting) => {
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str("any value") }
    };
}

/// A text, borrowed where escapes allow it; empty if it is anything else.
#[derive(Debug, Default)]
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl std::ops::Deref for Text<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Text<'de>;
            nothing_for!(expecting bool i64 u64 f64 null seq map);
            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        from.deserialize_any(V)
    }
}

/// A count of something. Negative, endless and absurd numbers are not counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count(pub(super) Option<u64>);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Count;
            nothing_for!(expecting bool str null seq map);
            fn visit_u64<E: Error>(self, n: u64) -> Result<Count, E> {
                Ok(Count(Some(n)))
            }
            fn visit_i64<E: Error>(self, n: i64) -> Result<Count, E> {
                Ok(Count(u64::try_from(n).ok()))
            }
            fn visit_f64<E: Error>(self, n: f64) -> Result<Count, E> {
                /// Whole numbers are exact in a float up to here.
                const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
                Ok(Count((0.0..=EXACT_MAX).contains(&n).then_some(n as u64)))
            }
        }
        from.deserialize_any(V)
    }
}

/// Whether something is said: an object, a text that is not empty, or `true`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Said(pub(super) bool);

impl<'de> Deserialize<'de> for Said {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Said;
            nothing_for!(expecting i64 u64 f64 null seq);
            fn visit_bool<E: Error>(self, yes: bool) -> Result<Said, E> {
                Ok(Said(yes))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Said, E> {
                Ok(Said(!text.is_empty()))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Said, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Said(true))
            }
        }
        from.deserialize_any(V)
    }
}

/// An object, or `None` if it is anything else.
#[derive(Debug)]
pub(crate) struct Maybe<T>(pub(crate) Option<T>);

impl<T> Default for Maybe<T> {
    fn default() -> Self {
        Maybe(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Maybe<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct V<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for V<T> {
            type Value = Maybe<T>;
            nothing_for!(expecting bool i64 u64 f64 str null seq);
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Maybe<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(|value| Maybe(Some(value)))
            }
        }
        from.deserialize_any(V(PhantomData))
    }
}

/// A list of objects, read when it is told; empty if it is anything else.
///
/// It is read element by element and never held as a whole: `{}` in a body has three bytes, and what is read of it has
/// hundreds (SE-1).
#[derive(Debug)]
pub(super) struct Each<'a, T> {
    /// The list as JSON, whose grammar was checked; `None` if there is none.
    json: Option<&'a str>,
    of: PhantomData<T>,
}

impl<T> Default for Each<'_, T> {
    fn default() -> Self {
        Each { json: None, of: PhantomData }
    }
}

impl<'de: 'a, 'a, T> Deserialize<'de> for Each<'a, T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let json = <&'de RawValue>::deserialize(from)?.get();
        Ok(Each { json: Some(json).filter(|json| json.starts_with('[')), of: PhantomData })
    }
}

impl<'a, T: Deserialize<'a>> Each<'a, T> {
    /// Hands on each object of the list, one at a time. What follows an object that cannot be read is missed.
    pub(super) fn record(
        self,
        builder: &mut ResponseBuilder,
        mut record: impl FnMut(T, &mut ResponseBuilder),
    ) {
        let Some(json) = self.json else { return };
        let read = each_element(json, |Maybe(item)| item.into_iter().for_each(|item| record(item, builder)));
        if read.is_err() {
            builder.miss();
        }
    }
}

/// Reads a list and hands on each element, one at a time: the list is never held as a whole. Those before one that cannot
/// be read have been handed on.
pub(crate) fn each_element<'a, T: Deserialize<'a>>(
    json: &'a str,
    each: impl FnMut(T),
) -> Result<(), serde_json::Error> {
    estop_core::steps::add(json.len());
    let mut reader = serde_json::Deserializer::from_str(json);
    reader.deserialize_seq(Elements(each, PhantomData))?;
    reader.end()
}

struct Elements<F, T>(F, PhantomData<T>);

impl<'de, F: FnMut(T), T: Deserialize<'de>> Visitor<'de> for Elements<F, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        while let Some(item) = seq.next_element()? {
            (self.0)(item);
        }
        Ok(())
    }
}

/// Content that is a text or a list of parts.
#[derive(Debug)]
pub(super) enum Content<'a, P> {
    Text(Cow<'a, str>),
    Parts(Each<'a, P>),
}

impl<P> Default for Content<'_, P> {
    fn default() -> Self {
        Content::Text(Cow::Borrowed(""))
    }
}

impl<'de: 'a, 'a, P> Deserialize<'de> for Content<'a, P> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let json = <&'de RawValue>::deserialize(from)?.get();
        match json.as_bytes().first() {
            Some(b'"') => {
                estop_core::steps::add(json.len());
                let text = serde_json::from_str::<Text<'_>>(json).map_err(D::Error::custom)?;
                Ok(Content::Text(text.0))
            }
            Some(b'[') => Ok(Content::Parts(Each { json: Some(json), of: PhantomData })),
            Some(_) | None => Ok(Content::default()),
        }
    }
}

/// Arguments of a tool where they are JSON text in a string; some servers send the JSON itself. No tree of it is built.
#[derive(Debug, Default)]
pub(super) struct ArgsText<'a>(pub(super) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for ArgsText<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let json = <&'de RawValue>::deserialize(from)?.get();
        match json.as_bytes().first() {
            Some(b'"') => {
                estop_core::steps::add(json.len());
                serde_json::from_str::<Text<'_>>(json).map(|text| ArgsText(text.0)).map_err(D::Error::custom)
            }
            Some(b'{') => Ok(ArgsText(compact(json))),
            Some(_) | None => Ok(ArgsText::default()),
        }
    }
}

/// Arguments of a tool that may be JSON text in a string or the JSON itself. Both become JSON text; white space
/// around JSON's own marks is left out, so that an indented answer counts and reads like any other.
pub(super) fn args(raw: Option<&RawValue>) -> Cow<'_, str> {
    let Some(json) = raw.map(RawValue::get) else { return Cow::Borrowed("") };
    if !json.starts_with('"') {
        return compact(json);
    }
    estop_core::steps::add(json.len());
    // A raw value has been parsed once: this cannot fail for a string.
    serde_json::from_str::<Text<'_>>(json).map(|text| text.0).unwrap_or_default()
}

fn compact(json: &str) -> Cow<'_, str> {
    let mut out = String::new();
    // What is already copied, or need not be.
    let mut from = 0;
    let (mut in_text, mut escaped) = (false, false);
    estop_core::steps::add(json.len());
    for (at, byte) in json.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_text,
            b'"' => in_text = !in_text,
            b' ' | b'\t' | b'\r' | b'\n' if !in_text => {
                out.push_str(&json[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    if from == 0 {
        return Cow::Borrowed(json);
    }
    out.push_str(&json[from..]);
    Cow::Owned(out)
}
