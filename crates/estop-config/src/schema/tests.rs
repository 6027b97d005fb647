//! The schema says what the types take: the same keys, the same words, the same bounds.
#![expect(clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Value, json};

use super::super::shape::FileIn;
use super::super::tree::path_text;
use super::super::typed::{TypeMismatch, Why};
use super::super::{Env, parse_serve, yaml};
use super::schema;

/// One key of the file: the way to it, and what the schema says.
struct Place {
    path: Vec<String>,
    schema: Value,
}

/// Every key of the file, sections too. A name that people choose is `some`.
fn places() -> Vec<Place> {
    let mut places = vec![Place { path: Vec::new(), schema: schema() }];
    let mut next = 0;
    while next < places.len() {
        let Place { path, schema } = &places[next];
        let below = |key: &str, schema: &Value| {
            let path = path.iter().cloned().chain([key.to_owned()]).collect();
            Place { path, schema: schema.clone() }
        };
        let mut found = Vec::new();
        if let Some(Value::Object(properties)) = schema.get("properties") {
            found.extend(properties.iter().map(|(key, schema)| below(key, schema)));
        }
        match schema.get("additionalProperties") {
            Some(Value::Bool(false)) | None => {}
            Some(of) => found.push(below("some", of.get("anyOf").map_or(of, |cases| &cases[0]))),
        }
        places.append(&mut found);
        next += 1;
    }
    places
}

/// A file with this value at this place, and beside it what its section cannot be without.
fn file(path: &[String], value: &Value) -> String {
    let mut schema = &schema();
    let mut needed = Vec::new();
    for key in path {
        needed.push(schema.get("required").cloned().unwrap_or_else(|| json!([])));
        schema = schema["properties"].get(key).unwrap_or(&schema["additionalProperties"]);
    }
    let mut file = value.clone();
    for (key, needed) in path.iter().zip(needed).rev() {
        let mut section = json!({});
        for other in needed.as_array().expect("a list of keys") {
            let other = other.as_str().expect("a key");
            section[other] = match other {
                "type" => json!("slack"),
                "url" => json!("https://example.com"),
                "input" | "output" => json!(1),
                unknown => panic!("say here what `{unknown}` may be"),
            };
        }
        section[key.as_str()] = file;
        file = section;
    }
    file.to_string()
}

fn typed(text: &str) -> Result<FileIn, TypeMismatch> {
    FileIn::deserialize(&yaml::tree(text, "estop.yaml").expect("JSON is YAML"))
}

#[test]
fn ob_3_the_schema_has_the_keys_of_the_file_and_a_sentence_for_each() {
    let mut sections = 0;
    for Place { path, schema } in places() {
        if !path.is_empty() {
            let named_by_people = path.last().is_some_and(|key| key == "some");
            let said = schema["description"].as_str().is_some_and(|about| about.ends_with(['.', '|']));
            let grouped = schema.get("properties").is_some();
            assert!(said || named_by_people || grouped, "{path:?} has no description");
        }
        let Some(Value::Object(properties)) = schema.get("properties") else { continue };
        sections += 1;
        let text = file(&path, &json!({"no such key": 1}));
        match typed(&text).map_err(|refusal| refusal.why) {
            Err(Why::UnknownKey { known, .. }) => {
                let known: BTreeSet<&str> = known.iter().copied().collect();
                let in_schema: BTreeSet<&str> = properties.keys().map(String::as_str).collect();
                assert_eq!(in_schema, known, "the keys of {path:?}");
            }
            // Names of targets are words, not keys of a type.
            Err(Why::UnknownWord { known, .. }) if path == ["log", "targets"] => {
                assert_eq!(properties.len(), known.len());
            }
            other => panic!("{path:?}: {:?}", other.err()),
        }
    }
    assert!(sections > 35, "only {sections} sections were looked at");
}

/// Values the schema allows, and some it does not.
fn samples(schema: &Value) -> (Vec<Value>, Vec<Value>) {
    for of_several in ["anyOf", "oneOf"] {
        if let Some(Value::Array(cases)) = schema.get(of_several) {
            let good = cases.iter().flat_map(|case| samples(case).0).collect();
            return (good, samples(&cases[0]).1.into_iter().filter(|bad| !bad.is_string()).collect());
        }
    }
    if let Some(word) = schema.get("const") {
        return (vec![word.clone()], vec![]);
    }
    if let Some(Value::Array(words)) = schema.get("enum") {
        return (words.clone(), vec![json!("no-such-word"), json!({})]);
    }
    let bound = |key: &str| schema.get(key).cloned().into_iter();
    let bounds: Vec<Value> = bound("minimum").chain(bound("maximum")).collect();
    let beyond = bounds.iter().zip([-1.0, 1.0]).map(|(bound, step)| {
        let bound = bound.as_f64().expect("a number");
        let fraction = schema["type"] == "number" && bound.fract() != 0.0;
        let value = bound + step * if fraction { bound.min(0.0001) } else { 1.0 };
        if value.fract() == 0.0 { json!(value as i64) } else { json!(value) }
    });
    let kind = if schema["type"] == json!(["integer", "string"]) {
        Some("number or text")
    } else {
        schema["type"].as_str()
    };
    match kind {
        Some("number or text") => {
            let off = schema["pattern"]
                .as_str()
                .is_some_and(|pattern| pattern.contains("off"))
                .then(|| json!("off"));
            (
                bounds.iter().cloned().chain(off).collect(),
                beyond.chain([json!(1.5), json!("16MB"), json!({})]).collect(),
            )
        }
        Some("boolean") => (vec![json!(true), json!(false)], vec![json!("maybe"), json!(3), json!({})]),
        Some("integer") => (bounds.clone(), beyond.chain([json!(1.5), json!("many")]).collect()),
        Some("number") => (bounds.clone(), beyond.chain([json!("many"), json!([])]).collect()),
        Some("array") => (vec![], vec![json!("one"), json!({})]),
        Some("string") if schema.get("pattern").is_none() => (vec![json!("x")], vec![json!({}), json!([])]),
        Some("string") => (vec![], vec![json!({}), json!([])]),
        _ => (vec![], vec![]),
    }
}

#[test]
fn ob_3_the_types_take_what_the_schema_allows_and_nothing_beyond_its_bounds() {
    let env: Env = [("HOME", "/home/me")].into_iter().collect();
    let mut looked_at = (0, 0);
    for Place { path, schema } in places().iter().filter(|place| place.schema.get("properties").is_none()) {
        let (good, bad) = samples(schema);
        for value in good {
            let text = file(path, &value);
            // Whether values fit together is seen later.
            if let Err(refusal) = typed(&text) {
                panic!("{text} is refused: {refusal}");
            }
            looked_at.0 += 1;
        }
        for value in bad {
            let text = file(path, &value);
            let refused_by_type = typed(&text).err().map(|refusal| path_text(&refusal.path));
            let key = path.last().expect("no whole file");
            let refused = refused_by_type
                .or_else(|| parse_serve(&text, "estop.yaml", &env).err().map(|problem| problem.to_string()));
            assert!(refused.is_some_and(|refused| refused.contains(key.as_str())), "{text} is taken");
            looked_at.1 += 1;
        }
    }
    assert!(looked_at.0 > 300 && looked_at.1 > 400, "only {looked_at:?} values were looked at");
}

/// Sections that the schema lets stand empty may stand so.
#[test]
fn ob_3_a_section_without_a_value_is_taken() {
    for Place { path, schema } in places() {
        if schema["type"] == json!(["object", "null"]) && !path.is_empty() {
            let text = file(&path, &Value::Null);
            assert!(typed(&text).is_ok(), "{text}");
        }
    }
}
