//! The JSON schema of rules, as the API publishes it.

use estop_core::policy_file::rules_schema;
use serde_json::{Value, json};

/// The shape of the file's `policy:`.
pub(crate) fn policy_schema() -> Value {
    rules_schema(&json!({"$ref": "#/components/schemas/TimeZone"}))
}

/// The same for a change: everything may be null.
pub(crate) fn change_schema() -> Value {
    let mut change = policy_schema();
    or_null(&mut change);
    // Given both by their names, null among them, the two names of the switch need not agree.
    if let Some(Value::Array(cases)) = change.get_mut("anyOf") {
        cases.push(json!({"properties": {"kill_switch_enabled": {"const": null}}}));
        cases.push(json!({"properties": {"guards": {"properties": {"loop": {"const": null}}}}}));
    }
    change
}

fn or_null(schema: &mut Value) {
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for property in properties.values_mut() {
        or_null(property);
        *property = json!({"anyOf": [property.take(), {"type": "null"}]});
    }
}

/// Names of time zones.
pub(crate) fn zone_schema() -> Value {
    let database = jiff::tz::TimeZoneDatabase::bundled();
    let names: Vec<String> = database.available().map(|name| name.as_str().to_owned()).collect();
    json!({"type": "string", "description": "IANA name of a time zone.", "enum": names})
}
