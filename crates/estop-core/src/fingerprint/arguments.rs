//! The arguments of a tool call, which are JSON as a rule: compared by value, and searched for one field. Read in one pass,
//! and no tree of them is ever built: the memory it takes does not grow with the number of values in them (SE-1).

mod field;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::ids::Hash64;
use crate::steps;

pub use field::{Given, WORDS_BYTES_MAX, WORDS_MAX, first_of};

/// A hash of a JSON document by its value: the order of keys and white space do not matter. `None` if it is not JSON, or
/// nested deeper than 128 levels.
///
/// A key that comes twice counts twice. What the model says about its own command does not count: the same command is the same
/// whatever it is said to be for.
pub(crate) fn value_hash(json: &str) -> Option<Hash64> {
    steps::add(json.len());
    let mut reader = serde_json::Deserializer::from_str(json);
    let hash = WHOLE.deserialize(&mut reader).ok()?;
    reader.end().ok()?;
    Some(Hash64(hash))
}

/// What a hash is of; keeps values of different types apart.
#[derive(Clone, Copy)]
enum Kind {
    Null,
    Bool,
    Unsigned,
    Signed,
    Float,
    Text,
    List,
    Object,
    Pair,
}

fn hash(kind: Kind, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, kind as u64)
}

fn both(kind: Kind, first: u64, second: u64) -> u64 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&first.to_le_bytes());
    bytes[8..].copy_from_slice(&second.to_le_bytes());
    hash(kind, &bytes)
}

/// Fields in which a model says what its command is for.
const REMARKS: [&str; 5] = ["description", "explanation", "justification", "reason", "thought"];
const COMMANDS: [&str; 2] = ["command", "cmd"];

/// Any value, as its hash.
#[derive(Clone, Copy)]
struct Node {
    /// It is the arguments as a whole.
    is_whole: bool,
}

const WHOLE: Node = Node { is_whole: true };
const PART: Node = Node { is_whole: false };

impl<'de> DeserializeSeed<'de> for Node {
    type Value = u64;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<u64, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E: Error>(self) -> Result<u64, E> {
        Ok(hash(Kind::Null, &[]))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<u64, E> {
        Ok(hash(Kind::Bool, &[u8::from(value)]))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<u64, E> {
        Ok(hash(Kind::Unsigned, &value.to_le_bytes()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<u64, E> {
        Ok(hash(Kind::Signed, &value.to_le_bytes()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<u64, E> {
        Ok(hash(Kind::Float, &value.to_bits().to_le_bytes()))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
        Ok(hash(Kind::Text, text.as_bytes()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<u64, A::Error> {
        let (mut all, mut len) = (0, 0);
        while let Some(item) = list.next_element_seed(PART)? {
            steps::add(1);
            all = both(Kind::List, all, item);
            len += 1;
        }
        Ok(both(Kind::List, all, len))
    }

    /// The sum of all pairs is the same in any order, and needs no sorting.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<u64, A::Error> {
        let (mut pairs, mut remarks, mut is_command) = (Pairs::default(), Pairs::default(), false);
        while let Some(key) = map.next_key_seed(PART)? {
            steps::add(1);
            let value = map.next_value_seed(PART)?;
            let is_one_of =
                |names: &[&str]| names.iter().any(|name| hash(Kind::Text, name.as_bytes()) == key);
            is_command |= self.is_whole && is_one_of(&COMMANDS);
            let of = if self.is_whole && is_one_of(&REMARKS) { &mut remarks } else { &mut pairs };
            of.add(both(Kind::Pair, key, value));
        }
        if !is_command {
            pairs = Pairs { sum: pairs.sum.wrapping_add(remarks.sum), len: pairs.len + remarks.len };
        }
        Ok(both(Kind::Object, pairs.sum, pairs.len))
    }
}

/// The pairs of an object.
#[derive(Default)]
struct Pairs {
    sum: u64,
    len: u64,
}

impl Pairs {
    fn add(&mut self, pair: u64) {
        self.sum = self.sum.wrapping_add(pair);
        self.len += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fp_4_a_value_has_one_hash_however_it_is_written() {
        let same = [
            (r#"{"a":1,"b":[true,null,"x\n"]}"#, "{ \"b\" : [true , null, \"\\u0078\\u000a\"],\n\"a\":1 }"),
            ("[]", " [ ] "),
            ("-7", "-7 "),
            ("1.50", "1.5"),
        ];
        for (one, other) in same {
            assert!(value_hash(one).is_some(), "{one}");
            assert_eq!(value_hash(one), value_hash(other), "{one}");
        }
        let all_differ = [
            "null",
            "false",
            "true",
            "0",
            "1",
            "-1",
            "1.0",
            "\"\"",
            "\"1\"",
            "\"null\"",
            "[]",
            "{}",
            "[[]]",
            "[0]",
            "[0,0]",
            "[null]",
            "[[0],1]",
            "[0,[1]]",
            "[0,1]",
            "[1,0]",
            r#"{"a":0}"#,
            r#"{"b":0}"#,
            r#"{"a":1}"#,
            r#"{"a":{"b":0}}"#,
            r#"{"a":0,"b":1}"#,
            r#"{"a":1,"b":0}"#,
            r#"{"a":[]}"#,
            r#"[{"a":0},{"b":1}]"#,
            r#"{"a":0,"a":0}"#,
            r#"["a",0]"#,
        ];
        let mut hashes: Vec<u64> = all_differ.iter().map(|json| value_hash(json).expect("JSON").0).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), all_differ.len());
    }

    #[test]
    fn fp_4_the_same_command_is_the_same_whatever_it_is_said_to_be_for() {
        let bash = |description: &str| format!(r#"{{"command": "ls", "description": "{description}"}}"#);
        assert_eq!(value_hash(&bash("List files")), value_hash(r#"{"command": "ls"}"#));
        let task = |description: &str| format!(r#"{{"project": "a", "description": "{description}"}}"#);
        assert_ne!(
            value_hash(&task("Paint it")),
            value_hash(&task("Sell it")),
            "this is what the call is about"
        );
        assert_ne!(
            value_hash(r#"{"command": {"cmd": 1, "reason": 1}}"#),
            value_hash(r#"{"command": {"cmd": 1, "reason": 2}}"#)
        );
    }

    #[test]
    fn fp_4_what_is_not_json_has_no_value() {
        let deep = "[".repeat(200) + &"]".repeat(200);
        for text in ["", "ls -l", "{", "{}{}", "[1,]", "1e999", deep.as_str()] {
            assert_eq!(value_hash(text), None, "{text}");
        }
    }
}
