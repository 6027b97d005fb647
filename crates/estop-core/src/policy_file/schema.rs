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
pub(super) fn flag(about: &str) -> Value {
    json!({"type": "boolean", "description": about})
}

/// One of some words.
pub(super) fn one_of(words: &[&str], about: &str) -> Value {
    json!({"enum": words, "description": about})
}

/// Where an agent starts.
pub(super) fn preset() -> Value {
    one_of(
        &["watch", "strict"],
        "Where every agent starts: watch (default: loops are noticed and told) or strict (they are stopped).",
    )
}

fn list(item: &Value, about: &str) -> Value {
    json!({"type": "array", "maxItems": 100, "items": item, "description": about})
}

/// A list of names of tools.
pub(super) fn names(about: &str) -> Value {
    list(&json!({"type": "string", "minLength": 1, "maxLength": 128}), about)
}

/// A list of patterns of models.
pub(super) fn models(about: &str) -> Value {
    let about = format!("{about} * stands for any run of characters.");
    list(&json!({"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]+$"}), &about)
}

fn paths() -> Value {
    let about = "Paths that may be asked under a cap though nobody knows what they cost; * stands for any run of characters.";
    list(&json!({"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^/[!-~]*$"}), about)
}

/// Commands that run tests.
pub(super) fn runners() -> Value {
    list(
        &json!({"type": "string", "pattern": "\\S"}),
        "Commands that run tests, beside the known ones, for max_iterations.",
    )
}

/// A whole number.
pub(super) fn number(min: u64, max: u64, about: &str) -> Value {
    json!({"type": "integer", "minimum": min, "maximum": max, "description": about})
}

/// Something counted each minute.
pub(super) fn per_minute(about: &str) -> Value {
    number(1, 1_000_000_000, about)
}

/// A number of tokens.
pub(super) fn tokens(about: &str) -> Value {
    number(1, 1_000_000_000_000_000, about)
}

fn usd(about: &str) -> Value {
    json!({
        "type": "number",
        "minimum": 0.000001,
        "maximum": 100_000_000,
        "multipleOf": 0.000001,
        "description": about,
    })
}

/// Spending caps of one agent.
pub(super) fn budget(zone: &Value) -> Value {
    let mut budget = fleet_budget(zone);
    budget["properties"]["usd_per_run"] = usd("Dollars one run may spend.");
    budget["properties"]["tokens_per_run"] = tokens("Tokens one run may use, in and out.");
    budget["properties"]["unpriced"] = one_of(
        &["deny_under_cap", "count", "deny"],
        "A model without a price: refused where dollars are capped (deny_under_cap, default), always (deny) or never (count).",
    );
    budget["properties"]["paths"] = section(json!({"allow": paths()}));
    budget
}

/// Spending caps of all agents together.
pub(super) fn fleet_budget(zone: &Value) -> Value {
    section(json!({
        "usd_per_day": usd("Dollars a day."),
        "usd_per_month": usd("Dollars a month."),
        "tokens_per_day": tokens("Tokens a day, in and out."),
        "tokens_per_month": tokens("Tokens a month, in and out."),
        "timezone": zone,
    }))
}

/// When work is allowed.
pub(super) fn hours(zone: &Value) -> Value {
    section(json!({
        "days": {
            "type": "array",
            "minItems": 1,
            "items": {"enum": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]},
            "description": "Days on which a span begins. Default: all.",
        },
        "from": {
            "type": "string",
            "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$",
            "description": "First allowed minute, \"HH:MM\".",
        },
        "to": {
            "type": "string",
            "pattern": "^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$",
            "description": "First minute that is not allowed any more, \"HH:MM\"; before `from` it is one of the next day.",
        },
        "timezone": zone,
    }))
}

/// The mode of each guard.
pub(super) fn guards() -> Value {
    let mode = |guard: Guard| {
        let label = guard.info().switch.as_ref().map_or(guard.name(), |switch| switch.label);
        let about = format!("{label}: enforce (it stops), shadow (it only tells) or off.");
        (guard.name(), one_of(&["enforce", "shadow", "off"], &about))
    };
    section(Guard::SWITCHES.into_iter().map(mode).collect())
}

/// Circuit-breaker limits.
pub(super) fn limits() -> Value {
    let limit = |about: &str| json!({"oneOf": [{"type": "integer", "minimum": 1, "maximum": u32::MAX}, {"const": "off"}], "description": about});
    section(json!({
        "max_iterations": limit("Test-then-fix cycles of a run, or off. Default: 5."),
        "max_tool_calls": limit("Tool calls of a run, or off. Default: 200."),
        "max_turns": limit("Requests of a run that a person's text started, or off. Default: 50."),
        "max_active_duration": limit("Seconds a run may be active, or off. Default: 7200."),
        "max_sleep_duration": limit("Seconds a run may sleep, or off. Default: 86400."),
        "warning_threshold": {
            "type": "number",
            "minimum": 0.0001,
            "maximum": 1,
            "multipleOf": 0.0001,
            "description": "Share of a limit at which the agent is warned. Default: 0.80.",
        },
    }))
}

/// Limits of a run, by role.
pub(super) fn circuit_breakers() -> Value {
    let roles = json!({
        "type": "object",
        "additionalProperties": {"anyOf": [limits(), {"type": "null"}]},
        "description": "Limits by the role of a run: pm, pr-review, security-review, or a name of your own.",
    });
    section(json!({"defaults": limits(), "roles": roles}))
}

/// A share of one, in thousandths.
fn share(min: f64, max: f64, about: &str) -> Value {
    json!({"type": "number", "minimum": min, "maximum": max, "multipleOf": 0.001, "description": about})
}

/// The safety gate.
pub(super) fn gate() -> Value {
    section(json!({
        "max_tokens_per_minute": per_minute("Reaching it vetoes. Default: 50000."),
        "token_warning_threshold": per_minute("Warn from here. Default: 40000."),
        "max_tool_calls_per_minute": per_minute("Reaching it vetoes. Default: 60."),
        "tool_call_warning_threshold": per_minute("Warn from here. Default: 45."),
        "loop_similarity_threshold": share(0.001, 0.999, "Outputs more alike than this are the same. Default: 0.9."),
        "loop_window_size": number(2, 20, "How many in a row. Default: 5."),
        "tempo_compression_ratio": share(0.001, 0.999, "Intervals shrunk below this share are a runaway. Default: 0.3."),
        "cooldown_duration_ms": number(1, 86_400_000, "Wait after a veto, in milliseconds. Default: 60000."),
        "soft_suspend_threshold": share(0.001, 1.0, "Health below this pauses the agent. Default: 0.6."),
        "hard_stop_threshold": share(0.0, 1.0, "Health below this switches the agent off. Default: 0.3."),
        "recovery_rate": share(0.0, 1.0, "Health regained each minute. Default: 0.01."),
        "recovery_cap": share(0.001, 1.0, "Health is regained up to this. Default: 0.8."),
    }))
}

pub(super) fn watchdog() -> Value {
    section(json!({
        "max_calls_per_minute": per_minute("More forwarded model calls in any 60 seconds is a runaway. Default: 100."),
        "scope": one_of(
            &["agent", "system", "off"],
            "What it stops: that agent, the whole system, or nothing. Default: agent in watch, system in strict.",
        ),
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
