//! What keys of a policy may hold, as JSON schema. A test of the API sends what it allows and what it does not.

use serde_json::{Value, json};

use crate::guard::Guard;

/// An object of these keys and no others.
pub(super) fn section(properties: Value) -> Value {
    let mut section = json!({"type": "object", "additionalProperties": false});
    section["properties"] = properties;
    section
}

/// `true` or `false`.
pub(super) fn flag() -> Value {
    json!({"type": "boolean"})
}

/// A list of names of tools.
pub(super) fn names() -> Value {
    let name = json!({"type": "string", "minLength": 1, "maxLength": 128});
    json!({"type": "array", "items": name, "maxItems": 100})
}

/// A list of patterns of models.
pub(super) fn models() -> Value {
    let name = json!({"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]+$"});
    json!({"type": "array", "maxItems": 100, "items": name, "description": "Names of models; * stands for any run of characters."})
}

fn paths() -> Value {
    let path = json!({"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^/[!-~]*$"});
    let about = "Paths that may be asked under a cap though nobody knows what they cost; * stands for any run of characters.";
    json!({"type": "array", "maxItems": 100, "items": path, "description": about})
}

/// The core looks through no more.
const RUNNERS_MAX: u32 = 100;

/// Commands that run tests.
pub(super) fn runners() -> Value {
    json!({"type": "array", "items": {"type": "string", "pattern": "\\S"}, "maxItems": RUNNERS_MAX})
}

/// A whole number from 1.
pub(super) fn count(max: u64) -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": max})
}

/// A number of tokens.
pub(super) fn tokens() -> Value {
    count(1_000_000_000_000_000)
}

/// Spending caps.
pub(super) fn budget(zone: &Value) -> Value {
    let usd = json!({"type": "number", "minimum": 0.000001, "maximum": 100_000_000, "multipleOf": 0.000001});
    section(json!({
        "usd_per_day": usd, "usd_per_month": usd, "usd_per_run": usd,
        "tokens_per_day": tokens(), "tokens_per_month": tokens(), "tokens_per_run": tokens(),
        "timezone": zone,
        "unpriced": {"enum": ["deny_under_cap", "count", "deny"]},
        "paths": section(json!({"allow": paths()})),
    }))
}

/// When work is allowed.
pub(super) fn hours(zone: &Value) -> Value {
    section(json!({
        "days": {
            "type": "array",
            "minItems": 1,
            "items": {"enum": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]},
        },
        "from": {"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"},
        "to": {"type": "string", "pattern": "^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$"},
        "timezone": zone,
    }))
}

/// The mode of each guard.
pub(super) fn guards() -> Value {
    let mode = json!({"enum": ["enforce", "shadow", "off"]});
    section(Guard::SWITCHES.into_iter().map(|guard| (guard.name(), mode.clone())).collect())
}

/// Circuit-breaker limits.
pub(super) fn limits() -> Value {
    let limit = json!({"oneOf": [count(u32::MAX.into()), {"const": "off"}]});
    section(json!({
        "max_iterations": limit, "max_tool_calls": limit, "max_turns": limit, "max_active_duration": limit,
        "max_sleep_duration": limit,
        "warning_threshold": {"type": "number", "minimum": 0.0001, "maximum": 1, "multipleOf": 0.0001},
    }))
}

/// `kill_switch_enabled` and `guards.loop` are the same switch: given both, they agree.
pub(super) fn one_switch() -> Value {
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
