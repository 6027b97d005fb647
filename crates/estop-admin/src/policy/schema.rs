//! The JSON schema of rules, beside the core's reader (`policy_file/shape.rs`). A test sends what it allows and what
//! it does not.

use estop_core::guard::Guard;
use serde_json::{Value, json};

/// The shape of the file's `policy:`.
pub(crate) fn policy_schema() -> Value {
    let name = json!({"type": "string", "minLength": 1, "maxLength": 128});
    let names = json!({"type": "array", "items": name, "maxItems": 100});
    let flag = json!({"type": "boolean"});
    let mut rules = section(json!({
        "preset": {"enum": ["watch", "strict"]},
        "kill_switch_enabled": {"type": "boolean", "description": "The same switch as guards.loop."},
        "kill_switch_window_size": {"type": "integer", "minimum": 5, "maximum": 100},
        "kill_switch_threshold": {"type": "number", "minimum": 1, "maximum": 50},
        "exempt_tools": names,
        "loop_rules": section(json!({
            "back_to_back": flag,
            "within_window": flag,
            "unbroken": flag,
            "nothing_new": flag,
            "nudge": flag,
        })),
        "loop_score": {"enum": ["novelty", "literal"]},
        "profile": {"enum": ["coding", "interactive", "batch", "ops"]},
        "budget": budget(),
        "allowed_hours": section(json!({
            "days": {
                "type": "array",
                "minItems": 1,
                "items": {"enum": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]},
            },
            "from": {"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"},
            "to": {"type": "string", "pattern": "^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$"},
            "timezone": zone(),
        })),
        "rate_limit": section(json!({"requests_per_minute": count(1_000_000_000), "tokens_per_minute": tokens()})),
        "models": section(json!({"allow": models(), "deny": models()})),
        "block_response": {"enum": ["error", "message"]},
        "guards": guards(),
        "wrap_up_tools": names,
        "test_runners": {"type": "array", "items": {"type": "string", "pattern": "\\S"}, "maxItems": RUNNERS_MAX},
        "limits": limits(),
    }));
    rules["anyOf"] = one_switch();
    rules
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

/// The core looks through no more.
const RUNNERS_MAX: u32 = 100;

/// Names of time zones.
pub(crate) fn zone_schema() -> Value {
    let database = jiff::tz::TimeZoneDatabase::bundled();
    let names: Vec<String> = database.available().map(|name| name.as_str().to_owned()).collect();
    json!({"type": "string", "description": "IANA name of a time zone.", "enum": names})
}

fn zone() -> Value {
    json!({"$ref": "#/components/schemas/TimeZone"})
}

/// `kill_switch_enabled` and `guards.loop` are the same switch: given both, they agree.
fn one_switch() -> Value {
    let both = |enabled: bool, modes: Value| {
        let guards = json!({"properties": {"loop": {"enum": modes}}, "required": ["loop"]});
        json!({
            "properties": {"kill_switch_enabled": {"const": enabled}, "guards": guards},
            "required": ["kill_switch_enabled", "guards"],
        })
    };
    json!([
        {"not": {"required": ["kill_switch_enabled"]}},
        {"not": {"required": ["guards"]}},
        {"properties": {"guards": {"not": {"required": ["loop"]}}}},
        both(true, json!(["enforce"])),
        both(false, json!(["shadow", "off"])),
    ])
}

fn section(properties: Value) -> Value {
    let mut section = json!({"type": "object", "additionalProperties": false});
    section["properties"] = properties;
    section
}

fn models() -> Value {
    let name = json!({"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]+$"});
    json!({"type": "array", "maxItems": 100, "items": name, "description": "Names of models; * stands for any run of characters."})
}

fn paths() -> Value {
    let path = json!({"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^/[!-~]*$"});
    let about = "Paths that may be asked under a cap though nobody knows what they cost; * stands for any run of characters.";
    json!({"type": "array", "maxItems": 100, "items": path, "description": about})
}

fn count(max: u64) -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": max})
}

fn tokens() -> Value {
    count(1_000_000_000_000_000)
}

fn budget() -> Value {
    let usd = json!({"type": "number", "minimum": 0.000001, "maximum": 100_000_000, "multipleOf": 0.000001});
    section(json!({
        "usd_per_day": usd, "usd_per_month": usd, "usd_per_run": usd,
        "tokens_per_day": tokens(), "tokens_per_month": tokens(), "tokens_per_run": tokens(),
        "timezone": zone(),
        "unpriced": {"enum": ["deny_under_cap", "count", "deny"]},
        "paths": section(json!({"allow": paths()})),
    }))
}

fn guards() -> Value {
    let mode = json!({"enum": ["enforce", "shadow", "off"]});
    section(Guard::SWITCHES.into_iter().map(|guard| (guard.name(), mode.clone())).collect())
}

fn limits() -> Value {
    let limit = json!({"oneOf": [count(u32::MAX.into()), {"const": "off"}]});
    section(json!({
        "max_iterations": limit, "max_tool_calls": limit, "max_turns": limit, "max_active_duration": limit,
        "max_sleep_duration": limit,
        "warning_threshold": {"type": "number", "minimum": 0.0001, "maximum": 1, "multipleOf": 0.0001},
    }))
}
