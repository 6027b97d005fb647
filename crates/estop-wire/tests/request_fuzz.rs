//! No body makes a reader panic, and none is read in two ways.

use std::fs;
use std::path::Path;

use estop_wire::protocol::{Family, Protocol, recognise};
use estop_wire::request::read;
use proptest::prelude::*;

/// Reads a body as each protocol; what comes out must be usable, what does not must be told in a sentence.
fn read_as_all(body: &[u8]) {
    for protocol in Protocol::all() {
        match read(protocol, body) {
            Ok(request) => {
                assert!(serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok());
                assert_eq!(request.text(Some("run")).steps.len(), request.steps.len());
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

fn goldens() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/request");
    let mut paths: Vec<_> =
        fs::read_dir(folder).expect("the folder is there").map(|file| file.expect("a file").path()).collect();
    paths.sort();
    let bodies = paths.iter().filter(|path| path.extension().is_some_and(|ending| ending == "json"));
    bodies.map(|path| fs::read(path).expect("a body")).collect()
}

/// What a hostile client would put in the place of something.
const INSERTS: &[&str] = &[
    "null",
    "true",
    "-1",
    "1e999",
    "\"\"",
    "\"\\ud83d\"",
    "[]",
    "{}",
    "[[]]",
    "[{}]",
    "\"role\":\"tool\",",
    ",",
    "}",
    "]",
    "{\"type\":\"tool_result\",\"content\":[]},",
    "\u{feff}",
    "\u{0}",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn id_5_arbitrary_bytes_make_no_reader_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
        read_as_all(&body);
    }

    #[test]
    fn id_5_damaged_requests_make_no_reader_panic(
        which: prop::sample::Index, at: prop::sample::Index, length in 0usize..20, insert in prop::sample::select(INSERTS),
    ) {
        let goldens = goldens();
        let body = which.get(&goldens);
        let at = at.index(body.len());
        let end = (at + length).min(body.len());
        read_as_all(&[&body[..at], insert.as_bytes(), &body[end..]].concat());
        read_as_all(&body[..at]);
    }

    /// A value of one type in the place of another, wherever a value stands.
    #[test]
    fn id_5_values_of_other_types_make_no_reader_panic(
        which: prop::sample::Index, at: prop::sample::Index, insert in prop::sample::select(&INSERTS[..10]),
    ) {
        let goldens = goldens();
        let body: &Vec<u8> = which.get(&goldens);
        let mut value: serde_json::Value = serde_json::from_slice(body).expect("JSON");
        let insert = serde_json::from_str(insert).unwrap_or(serde_json::Value::Null);
        let mut at = at.index(places(&mut value));
        replace(&mut value, &mut at, &insert);
        read_as_all(&serde_json::to_vec(&value).expect("JSON"));
    }

    #[test]
    fn id_5_no_path_makes_the_recognition_panic(method in "(POST|GET|.{0,8})", path in "(/|%|:|\\.|[a-zA-Z0-9]|.){0,60}") {
        for family in Family::ALL {
            let call = recognise(family, &method, &path);
            prop_assert!(method.eq_ignore_ascii_case("POST") || call.protocol == Protocol::Other(family));
        }
    }
}

/// How many values there are, this one included.
fn places(value: &mut serde_json::Value) -> usize {
    1 + children(value).into_iter().map(places).sum::<usize>()
}

/// Puts `insert` in the place of the value number `at`.
fn replace(value: &mut serde_json::Value, at: &mut usize, insert: &serde_json::Value) {
    if *at == 0 {
        *value = insert.clone();
    }
    *at = at.wrapping_sub(1);
    children(value).into_iter().for_each(|child| replace(child, at, insert));
}

fn children(value: &mut serde_json::Value) -> Vec<&mut serde_json::Value> {
    match value {
        serde_json::Value::Array(items) => items.iter_mut().collect(),
        serde_json::Value::Object(fields) => fields.values_mut().collect(),
        serde_json::Value::Null
        | serde_json::Value::Bool(_)
        | serde_json::Value::Number(_)
        | serde_json::Value::String(_) => Vec::new(),
    }
}
