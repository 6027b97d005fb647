//! One field of a tool's arguments: the command of a shell, the words of a report. Everything else is passed over.

use std::borrow::Cow;
use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use crate::steps;

/// Texts of a list that are kept; the rest is passed over. Chosen: the words of the longest command line anyone types by
/// far.
pub const WORDS_MAX: usize = 4_096;
/// Bytes of them that are kept, as much as is read of a command that is one text.
pub const WORDS_BYTES_MAX: usize = 256 * 1024;

/// What a field holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given<'a> {
    /// A text.
    Text(Cow<'a, str>),
    /// The texts of a list; an object with a `command` counts as that (Cline: `{"command": …, "args": […]}`). At most
    /// [`WORDS_MAX`] and [`WORDS_BYTES_MAX`] of them.
    Texts(Vec<String>),
    /// Anything else.
    Other,
}

/// The first of `keys` that arguments have, and what it holds: `Err` if they are not a JSON object, `Ok(None)` if they have
/// none of the keys.
pub fn first_of<'a>(
    args: &'a str,
    keys: &[&'static str],
) -> Result<Option<(&'static str, Given<'a>)>, NotAnObject> {
    steps::add(args.len());
    let mut reader = serde_json::Deserializer::from_str(args);
    let found = Fields(keys).deserialize(&mut reader).map_err(|_| NotAnObject)?;
    reader.end().map_err(|_| NotAnObject)?;
    Ok(found.and_then(|(at, given)| Some((*keys.get(at)?, given))))
}

/// The arguments are not a JSON object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnObject;

struct Fields<'k>(&'k [&'static str]);

impl<'de> DeserializeSeed<'de> for Fields<'_> {
    type Value = Option<(usize, Given<'de>)>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = Option<(usize, Given<'de>)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found: Option<(usize, Given<'de>)> = None;
        while let Some(key) = map.next_key::<Key<'de>>()? {
            let at = self.0.iter().position(|known| *known == key.0);
            match at.filter(|at| found.as_ref().is_none_or(|(best, _)| at <= best)) {
                Some(at) => found = Some((at, map.next_value()?)),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }
}

/// A key, borrowed where escapes allow it.
#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for Given<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Value)
    }
}

struct Value;

impl<'de> Visitor<'de> for Value {
    type Value = Given<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Given::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Given::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let (mut texts, mut bytes) = (Vec::new(), 0);
        while let Some(Item(text)) = list.next_element::<Item<'de>>()? {
            let Some(text) = text else { continue };
            if texts.len() < WORDS_MAX && bytes + text.len() <= WORDS_BYTES_MAX {
                bytes += text.len();
                texts.push(text.into_owned());
            }
        }
        Ok(Given::Texts(texts))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Given::Other)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Given::Other)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Given::Other)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Given::Other)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Given::Other)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Given::Other)
    }
}

/// An element of a list: its text, or that of its `command`.
struct Item<'a>(Option<Cow<'a, str>>);

impl<'de> Deserialize<'de> for Item<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ItemVisitor)
    }
}

struct ItemVisitor;

impl<'de> Visitor<'de> for ItemVisitor {
    type Value = Item<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Item(Some(Cow::Borrowed(text))))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Item(Some(Cow::Owned(text.to_owned()))))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        Ok(Item(match Fields(&["command"]).visit_map(map)? {
            Some((_, Given::Text(text))) => Some(text),
            Some((_, Given::Texts(_) | Given::Other)) | None => None,
        }))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Item(None))
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Item(None))
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Item(None))
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Item(None))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Item(None))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Item(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cb_4_the_first_key_that_is_there_counts() {
        let keys = ["command", "cmd"];
        let text = |text: &'static str| Given::Text(Cow::Borrowed(text));
        let found = |args| first_of(args, &keys).expect("an object");
        assert_eq!(
            found(r#"{"cmd":"a","x":[{"command":"no"}],"command":"b"}"#),
            Some(("command", text("b")))
        );
        assert_eq!(found(r#"{"command":"b","cmd":"a"}"#), Some(("command", text("b"))));
        assert_eq!(found(r#"{"cmd":"a\n"}"#), Some(("cmd", text("a\n"))));
        assert_eq!(found(r#"{"command":null,"cmd":"a"}"#), Some(("command", Given::Other)));
        assert_eq!(found(r#"{"command":{"command":"a"}}"#), Some(("command", Given::Other)));
        let list = Given::Texts(vec!["bash".into(), "ls".into()]);
        assert_eq!(
            found(r#"{"cmd":["bash",7,null,["x"],{"command":"ls","args":[]},{}]}"#),
            Some(("cmd", list))
        );
        assert_eq!(found("{}"), None);
        for args in ["", "ls", "[]", "\"x\"", "{} {}"] {
            assert_eq!(first_of(args, &keys), Err(NotAnObject), "{args}");
        }
    }

    #[test]
    fn se_1_the_words_of_a_list_are_bounded() {
        let kept = |args: &str| match first_of(args, &["command"]).expect("an object") {
            Some((_, Given::Texts(texts))) => texts,
            Some((_, Given::Text(_) | Given::Other)) | None => Vec::new(),
        };
        assert_eq!(kept(&format!(r#"{{"command":["a"{}]}}"#, r#","""#.repeat(100_000))).len(), WORDS_MAX);
        let long = format!(r#","{}""#, "x".repeat(1_000)).repeat(1_000);
        let bytes: usize = kept(&format!(r#"{{"command":["a"{long}]}}"#)).iter().map(String::len).sum();
        assert!(bytes <= WORDS_BYTES_MAX);
    }
}
