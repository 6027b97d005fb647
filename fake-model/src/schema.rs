//! Values that satisfy a JSON schema, as small as can be: arguments of tool calls, structured answers.

use serde_json::{Map, Value, json};

use crate::ask::list;

/// What shell tools are asked to run.
pub(crate) const COMMAND: &str = "echo estop-tool-ok";

/// Deeper schemas are cut off: a schema can contain itself.
const DEPTH_MAX: usize = 12;

/// A value of this schema. `name` is the field it is for, which tells what would make sense.
pub(crate) fn fill(schema: &Value, name: &str) -> Value {
    fill_in(schema, schema, name, DEPTH_MAX)
}

fn fill_in(root: &Value, schema: &Value, name: &str, depth: usize) -> Value {
    let Some(depth) = depth.checked_sub(1) else { return Value::Null };
    if let Some(target) = schema["$ref"].as_str() {
        let target = target.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return target.map_or(Value::Null, |target| fill_in(root, target, name, depth));
    }
    if !schema["const"].is_null() {
        return schema["const"].clone();
    }
    let choices = list(&schema["enum"]);
    // Gemini CLI asks who speaks next: a model that answers "model" would never stop.
    if let Some(choice) = choices.iter().find(|choice| **choice == "user").or(choices.first()) {
        return choice.clone();
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        let parts = list(&schema[key]);
        if let Some(part) = parts.iter().find(|part| kind(part) != "null") {
            return fill_in(root, part, name, depth);
        }
    }
    match kind(schema).as_str() {
        "string" => json!(word(name)),
        "integer" | "number" => number(schema),
        "boolean" => json!(false),
        "null" => Value::Null,
        "array" => array(root, schema, name, depth),
        _ => object(root, schema, depth),
    }
}

/// The first type that is not null, in lower case (Gemini writes `STRING`).
fn kind(schema: &Value) -> String {
    let types = &schema["type"];
    let first = list(types).iter().filter_map(Value::as_str).find(|kind| *kind != "null");
    types.as_str().or(first).unwrap_or("object").to_lowercase()
}

fn is_command(name: &str) -> bool {
    ["command", "cmd", "commands", "script", "argv"].contains(&name)
}

fn word(name: &str) -> &'static str {
    match name {
        _ if is_command(name) => COMMAND,
        "path" | "dir" | "directory" | "cwd" | "workdir" | "working_directory" => ".",
        "file_path" | "filename" | "file" => "estop-tool-ok.txt",
        "url" | "uri" => "http://127.0.0.1/",
        _ => "estop-tool-ok",
    }
}

fn number(schema: &Value) -> Value {
    match &schema["minimum"] {
        Value::Number(least) => json!(least),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => json!(1),
    }
}

fn array(root: &Value, schema: &Value, name: &str, depth: usize) -> Value {
    let items = &schema["items"];
    if is_command(name) && kind(items) == "string" {
        return if name == "commands" { json!([COMMAND]) } else { json!(["bash", "-lc", COMMAND]) };
    }
    let least = usize::from(is_command(name)).max(least_items(schema));
    Value::Array((0..least).map(|_| fill_in(root, items, name, depth)).collect())
}

fn least_items(schema: &Value) -> usize {
    let least = schema["minItems"].as_u64().or_else(|| schema["minItems"].as_str()?.parse().ok());
    // A schema that wants a thousand items is not worth a thousand items.
    least.map_or(0, |least| usize::try_from(least.min(8)).unwrap_or(8))
}

/// Required fields, and a command even if it is optional.
fn object(root: &Value, schema: &Value, depth: usize) -> Value {
    let required: Vec<&str> = list(&schema["required"]).iter().filter_map(Value::as_str).collect();
    let Some(properties) = schema["properties"].as_object() else { return json!({}) };
    let has_command = required.iter().any(|name| is_command(name));
    let wanted = |name: &str| required.contains(&name) || (!has_command && is_command(name));
    let field =
        |(name, schema): (&String, &Value)| (name.clone(), fill_in(root, schema, name.as_str(), depth));
    Value::Object(properties.iter().filter(|(name, _)| wanted(name)).map(field).collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_fields_get_values_of_their_types() {
        let schema = json!({"type": "object", "required": ["command", "n", "kind", "deep", "list"], "properties": {
            "command": {"type": "string"}, "n": {"type": ["null", "integer"], "minimum": 3},
            "kind": {"enum": ["a", "b"]}, "optional": {"type": "string"},
            "deep": {"$ref": "#/$defs/deep"}, "list": {"type": "ARRAY", "minItems": "1", "items": {"type": "STRING"}}},
            "$defs": {"deep": {"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}}}});
        let filled = fill(&schema, "");
        let expected = json!({"command": COMMAND, "n": 3, "kind": "a", "deep": {"ok": false}, "list": ["estop-tool-ok"]});
        assert_eq!(filled, expected);
    }

    #[test]
    fn a_command_in_words_is_a_shell_line() {
        let schema = json!({"type": "object", "properties": {"command": {"type": "array", "items": {"type": "string"}}}});
        assert_eq!(fill(&schema, ""), json!({"command": ["bash", "-lc", COMMAND]}));
    }

    #[test]
    fn a_schema_that_contains_itself_ends() {
        let schema = json!({"$ref": "#"});
        assert_eq!(fill(&schema, ""), Value::Null);
    }
}
