//! The configuration as JSON schema, for editors: which keys there are, what each may hold, and a sentence about it.
//!
//! The types decide what is taken; a test compares every key and every bound here with them. Where a value is a text of its own
//! kind (a size, an address, a URL), the schema says how it may begin and the types say the rest.

use estop_core::policy_file::sections_schema;
use serde_json::{Map, Value, json};

use super::log::LogTarget;

#[cfg(test)]
mod tests;

/// The schema of the file of `estop serve`.
pub fn schema() -> Value {
    let zone = text("IANA name of a time zone, such as Europe/Berlin. Default: UTC.");
    let mut file = section(
        "The configuration of estop. Everything is optional.",
        &json!({
            "include": texts("Further files with agents: YAML files, or folders of them, as seen from this file's folder."),
            "listen": listen(),
            "data_dir": path("Where estop keeps everything. Default: $XDG_STATE_HOME/estop or ~/.local/state/estop."),
            "tls": section("TLS of the data port: both files or neither.", &json!({
                "cert": path("Certificate chain, PEM."),
                "key": path("Its key, PEM."),
            })),
            "behind_tls_proxy": flag("A proxy before estop speaks TLS. Default: false."),
            "providers": by_name("Where requests go, by name. Presets such as openai and anthropic need no entry.", &provider()),
            "relays": by_name("Messages between an app and a platform, under the same stop.", &relay()),
            "mcp": section("MCP servers behind the gate.", &json!({"servers": by_name("By name, as in /mcp/NAME.", &mcp_server())})),
            "require_keys": flag("Refuse requests without a valid estop key. Default: false."),
            "unknown_agents": one_of(&["allow", "deny"], "Requests as an agent that nobody named. Default: deny once any agent has a key, else allow."),
            "limits": limits(),
            "retention": retention(),
            "prooftest": section("Proof tests of the emergency stop.", &json!({
                "every_days": days("After how many days one is due. Default: 30."),
            })),
            "on_stuck_worker": one_of(&["alert", "kill"], "When a part of estop has not run for 5 s: tell people (alert, default), or press the red button too (kill)."),
            "log": log(),
            "opentelemetry": opentelemetry(),
            "prices": prices(),
            "triggers": triggers(),
            "alerts": alerts(),
        }),
    );
    file["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    file["title"] = "estop.yaml".into();
    for (key, mut sections) in sections_schema(&zone) {
        for_editors(&mut sections);
        file["properties"][key] = sections;
    }
    let agent = section(
        "One agent: what differs from the rules of all.",
        &json!({
            "role": text("Its role, which picks its circuit breakers: pm, pr-review, security-review, or your own."),
            "key_env": variable("The variable that holds this agent's estop key, of at least 16 characters."),
            "policy": file["properties"]["policy"],
        }),
    );
    file["properties"]["agents"] = by_name("Agents by name.", &agent);
    for (key, about) in [
        ("policy", "How all agents are judged."),
        ("circuit_breakers", "Limits of a run, by role."),
        ("gate", "The safety gate's numbers, for all agents."),
        ("watchdog", "The runaway watchdog, for all agents."),
        ("budget", "What all agents together may spend."),
    ] {
        file["properties"][key]["description"] = about.into();
    }
    file
}

/// In the file a section may be empty; and editors divide in binary fractions, in which 20 is no multiple of 0.000001.
fn for_editors(schema: &mut Value) {
    match schema {
        Value::Object(keys) => {
            keys.remove("multipleOf");
            if keys.get("type").is_some_and(|kind| kind == "object") && keys.contains_key("properties") {
                keys.insert("type".to_owned(), json!(["object", "null"]));
            }
            keys.values_mut().for_each(for_editors);
        }
        Value::Array(items) => items.iter_mut().for_each(for_editors),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// An object of these keys and no others. It may be left empty.
fn section(about: &str, properties: &Value) -> Value {
    json!({"type": ["object", "null"], "additionalProperties": false, "description": about, "properties": properties})
}

/// The same; without a value it is a mistake.
fn filled_section(about: &str, properties: &Value) -> Value {
    let mut section = section(about, properties);
    section["type"] = "object".into();
    section
}

/// An object of any names.
fn by_name(about: &str, of: &Value) -> Value {
    json!({"type": ["object", "null"], "additionalProperties": of, "description": about})
}

fn flag(about: &str) -> Value {
    json!({"type": "boolean", "description": about})
}

fn text(about: &str) -> Value {
    json!({"type": "string", "minLength": 1, "description": about})
}

fn texts(about: &str) -> Value {
    json!({"type": "array", "items": {"type": "string", "minLength": 1}, "description": about})
}

fn path(about: &str) -> Value {
    text(about)
}

fn url(about: &str) -> Value {
    json!({"type": "string", "pattern": "^https?://[^/]", "description": about})
}

/// Never the secret itself.
fn variable(about: &str) -> Value {
    json!({"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$", "description": about})
}

fn one_of(words: &[&str], about: &str) -> Value {
    json!({"enum": words, "description": about})
}

fn number(min: u64, max: u64, about: &str) -> Value {
    json!({"type": "integer", "minimum": min, "maximum": max, "description": about})
}

fn count(about: &str) -> Value {
    number(1, 1_000_000, about)
}

fn tokens(about: &str) -> Value {
    number(1, estop_core::prices::MODEL_TOKENS_MAX.into(), about)
}

fn seconds(about: &str) -> Value {
    json!({"type": "number", "minimum": 0.001, "maximum": 86_400, "description": about})
}

/// A whole number, or a text of this form.
fn number_or(min: u64, max: u64, pattern: &str, about: &str) -> Value {
    json!({"type": ["integer", "string"], "minimum": min, "maximum": max, "pattern": pattern, "description": about})
}

/// Bytes as a number, or with a unit.
fn size(min: u64, max: u64, about: &str) -> Value {
    number_or(min, max, "^[0-9]+ *(KiB|MiB|GiB|TiB)$", about)
}

fn days(about: &str) -> Value {
    number_or(1, 36_500, "^off$", &format!("{about} `off`: never."))
}

fn rate(about: &str) -> Value {
    json!({"type": "number", "minimum": 0, "maximum": 100_000, "description": format!("Dollars for a million {about}.")})
}

fn listen() -> Value {
    let address = |about: &str| json!({"type": "string", "pattern": ":[0-9]{1,5}$", "description": about});
    section(
        "Addresses: IP and port, or localhost and port.",
        &json!({
            "data": address("Where agents connect. Default: 127.0.0.1:4100."),
            "admin": address("API and dashboard. Default: 127.0.0.1:4101."),
            "allowed_origins": {
                "type": "array",
                "maxItems": 64,
                "items": {"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9+.-]*://[^/*]+$"},
                "description": "Web apps whose pages may use the data port, such as http://localhost:3000.",
            },
        }),
    )
}

fn provider() -> Value {
    section(
        "Only what differs from the preset of this name.",
        &json!({
            "base_url": url("To which the client's path is appended."),
            "protocol": one_of(&["openai", "anthropic", "gemini", "ollama"], "What it speaks. Default: the preset's, else openai."),
            "api_key_env": variable("The variable that holds the key. Without a key here, the client's own is passed on."),
            "api_key_file": path("The file that holds the key, such as /run/secrets/openai."),
            "auth": one_of(&["bearer", "x-api-key", "x-goog-api-key", "api-key", "none"], "The header the key is sent in. Default: by protocol."),
            "ca_file": path("Certificate authorities to trust instead of the usual ones, PEM."),
            "allow_plain_http": flag("http to another machine is meant: keys and prompts travel in clear. Default: false."),
            "prices": text("Whose prices it has: a provider of the price table, or free."),
        }),
    )
}

fn relay() -> Value {
    section(
        "One relay; one of in and out is needed.",
        &json!({
            "kind": one_of(&["telegram", "slack", "discord", "generic"], "The platform. Default: generic."),
            "in": url("The app."),
            "out": url("The platform. Default: by kind."),
            "agent": text("Whose messages they are. Default: the relay's name."),
            "secret_path_env": variable("The variable that holds what must follow /relay/NAME/in/, 16 characters or more."),
            "secret_path_file": path("The file that holds it."),
            "concurrency": count("Messages in progress at once, each way. Default: 100."),
            "allow_plain_http": flag("http to another machine is meant. Default: false."),
        }),
    )
}

fn mcp_server() -> Value {
    let mut server = filled_section(
        "One MCP server by streamable HTTP.",
        &json!({
            "url": url("Its endpoint; a slash at its end counts."),
            "agent": text("Who calls, if neither path, key nor header says. Default: default."),
            "allow_plain_http": flag("http to another machine is meant. Default: false."),
        }),
    );
    server["required"] = json!(["url"]);
    server
}

fn limits() -> Value {
    const TEBIBYTE: u64 = 1 << 40;
    let bytes = |about: &str| size(1, TEBIBYTE, about);
    section(
        "What estop itself takes in. Limits of a run are policy.limits.",
        &json!({
            "body_bytes": bytes("Body of a request that is inspected. Default: 16MiB."),
            "upload_bytes": bytes("Body of any other request, such as a file upload. Default: 512MiB."),
            "memory_bytes": bytes("Bodies of all requests held at once; at least body_bytes. Default: 1GiB."),
            "output_reserve": tokens("Tokens a budget reserves for an answer of a model whose maximum nobody knows. Default: 131072."),
            "header_bytes": size(8 << 10, 16 << 20, "All headers of a request. Default: 64KiB."),
            "headers": number(1, 32_768, "Headers of a request. Default: 100."),
            "connections": count("Open connections of clients. Default: 10000."),
            "streams_per_agent": count("Requests of one agent in progress. Default: 256."),
            "agents": count("Agents held in memory. Default: 10000."),
            "agent_idle_s": seconds("How long an agent must have been idle before its place may go to another. Default: 3600."),
            "agent_names": count("Names of agents there may ever be; at least agents. Default: 200000."),
            "header_timeout_s": seconds("Until all headers of a request are there. Default: 10."),
            "body_idle_timeout_s": seconds("Between two pieces of a request's body. Default: 30."),
            "connect_timeout_s": seconds("Until a connection to a provider stands. Default: 10."),
            "first_byte_timeout_s": seconds("Until an answer begins. Default: 600."),
            "stream_idle_timeout_s": seconds("Between two pieces of an answer. Default: 300."),
            "client_write_timeout_s": seconds("How long a client may not take what is sent to it. Default: 60."),
            "drain_s": {
                "type": "number",
                "minimum": 0,
                "maximum": 86_400,
                "description": "How long answers in progress may go on once estop is told to end. Default: 8.",
            },
        }),
    )
}

fn retention() -> Value {
    section(
        "How long things are kept.",
        &json!({
            "journal_days": days("Sealed segments of the journal. Default: 90."),
            "journal_bytes": number_or(16 << 20, 1 << 40, "^([0-9]+ *(KiB|MiB|GiB|TiB)|off)$", "The oldest sealed segments beyond this size go. Default: 16GiB. `off`: never."),
            "events_days": days("Events people look for. Default: 400."),
            "cases_days": days("Incidents and escalations that are resolved. Default: 400."),
            "evidence_days": days("The steps kept with incidents. Default: 30."),
            "runs_days": days("Runs that ended. Default: 400."),
            "spend_days": days("What was spent, by day. Default: 800."),
            "alerts_days": days("Alerts that were delivered or given up. Default: 30."),
            "access_days": days("Tokens and keys that were revoked or expired. Default: 400."),
        }),
    )
}

fn log() -> Value {
    let levels = ["off", "error", "warn", "info", "debug", "trace"];
    let target =
        |target: LogTarget| (target.name().to_owned(), one_of(&levels, "The least level of this target."));
    let targets: Map<String, Value> = LogTarget::ALL.into_iter().map(target).collect();
    section(
        "What the daemon writes on its standard error.",
        &json!({
            "format": one_of(&["auto", "text", "json"], "auto (default): text on a terminal, JSON elsewhere."),
            "level": one_of(&levels, "The least level that is logged. Default: info."),
            "targets": section("Levels of single targets.", &Value::Object(targets)),
            "requests": share("Which requests have a line of their own: off (default), all, or a share such as 1/100."),
        }),
    )
}

fn share(about: &str) -> Value {
    json!({"type": "string", "pattern": "^(off|all|1/[1-9][0-9]{0,6})$", "description": about})
}

fn opentelemetry() -> Value {
    section(
        "Spans of requests, sent to a collector by OTLP over HTTP.",
        &json!({
            "endpoint": url("The collector, such as http://127.0.0.1:4318."),
            "spans": share("Which requests become spans: all (default), a share such as 1/100, or off."),
            "headers_env": by_name("Headers sent to the collector, with the variables that hold their values.", &variable("The variable that holds the header's value.")),
            "ca_file": path("PEM file with the authority that signed the collector's certificate."),
        }),
    )
}

fn prices() -> Value {
    let mut model = filled_section(
        "What one model costs.",
        &json!({
            "input": rate("tokens sent"),
            "output": rate("tokens received"),
            "cache_read": rate("tokens read from a cache. Default: as input"),
            "cache_write": rate("tokens written to a cache. Default: as input"),
            "cache_write_1h": rate("tokens written to a cache for an hour. Default: as cache_write"),
            "reasoning": rate("tokens spent on reasoning. Default: as output"),
            "max_output": tokens("Tokens of one answer at most."),
            "max_input": tokens("Tokens that can be sent at most."),
            "reasons": flag("It may write tokens that are billed and never shown. Default: false."),
        }),
    );
    model["required"] = json!(["input", "output"]);
    section(
        "What models cost, where it differs from the built-in table.",
        &json!({
            "file": path("A table of your own, JSON, in place of the built-in one."),
            "models": by_name("By model, or by provider/model.", &model),
        }),
    )
}

fn triggers() -> Value {
    let on_lost = one_of(
        &["alarm", "kill"],
        "When it is lost: tell people (alarm, default) or press the red button (kill).",
    );
    section(
        "What presses the red button besides people. Read at a start.",
        &json!({
            "file": path("The file that presses when it is made, touched or written; off: none. Default: KILL in the data directory."),
            "gpio": filled_section("A button on a GPIO line.", &json!({
                "chip": path("The chip's device. Default: /dev/gpiochip0."),
                "line": number(0, 65_535, "The line's number on it. Default: 17."),
                "normally_closed": flag("The rising edge presses, so a cut wire does too. Default: false."),
                "debounce_ms": number(0, 1_000, "How long the line must be calm, in milliseconds. Default: 100."),
                "on_lost": on_lost,
            })),
            "button": filled_section("A USB button, a pedal or a key: device or name, and key.", &json!({
                "device": path("Its path, best one of /dev/input/by-id/."),
                "name": {"type": "string", "description": "Its name as evtest shows it."},
                "key": {
                    "type": ["integer", "string"],
                    "minimum": 0,
                    "maximum": 767,
                    "description": "KEY_STOP or another name, its number, or any.",
                },
                "grab": flag("Its events come to estop alone. Default: true."),
                "on_lost": on_lost,
            })),
            "heartbeat": filled_section("Press unless somebody asks not to.", &json!({
                "within_s": seconds("Press after so many seconds without POST /api/emergency/heartbeat."),
            })),
        }),
    )
}

fn alerts() -> Value {
    section(
        "Who is told of stops, budgets and the red button, and how.",
        &json!({
            "dashboard": url("Where people see the dashboard; messages link there."),
            "timezone": text("How times are written: IANA name. Default: UTC."),
            "agent_down_after_s": by_name(
                "Agents that should call: after so many seconds of silence they are told as down.",
                &number(60, 2_592_000, "Seconds."),
            ),
            "channels": by_name("Where people are told, by name.", &channel()),
            "rules": by_name("Who is told of what; none: everything to every channel.", &alert_rule()),
        }),
    )
}

fn channel() -> Value {
    let kinds = ["webhook", "slack", "discord", "teams", "telegram", "ntfy", "pagerduty", "email", "github"];
    let mut channel = filled_section(
        "One channel. Which keys it needs depends on its type.",
        &json!({
            "type": one_of(&kinds, "What it is."),
            "url": url("Where to, or the service's API."),
            "url_env": variable("The variable that holds the URL, where it is a secret."),
            "secret_env": {
                "type": "array",
                "items": variable("A variable with a whsec_ secret."),
                "description": "webhook: variables with whsec_ secrets; two while one is replaced.",
            },
            "token_env": variable("telegram, ntfy, github: the variable with the token; pagerduty: with the integration key."),
            "chat": text("telegram: a number in quotes, or @name."),
            "topic": text("ntfy: the topic."),
            "repository": text("github: owner/name."),
            "host": text("email: the server."),
            "port": number(0, 65_535, "email: its port. Default: 587, or 465 with tls: implicit."),
            "tls": one_of(&["implicit", "starttls", "none"], "email: how it is spoken to. Default: starttls."),
            "user": text("email: who logs in."),
            "password_env": variable("email: the variable with the password."),
            "from": text("email: who writes."),
            "to": texts("email: who is written to."),
            "allow_private": flag("Addresses of private networks may be reached. Default: false."),
            "allow_loopback": flag("This machine may be reached. Default: false."),
            "ca_file": path("Authorities to trust instead of the usual ones, PEM."),
            "timeout_s": number(1, 60, "How long a try may take. Default: 10."),
        }),
    );
    channel["required"] = json!(["type"]);
    channel
}

fn alert_rule() -> Value {
    let types: Vec<&str> = estop_notify::AlertType::ALL.iter().map(|alert| alert.name()).collect();
    let percent = json!({"type": "integer", "minimum": 1, "maximum": 100});
    section(
        "One rule; what is left out means all.",
        &json!({
            "types": {"type": "array", "items": {"enum": types}, "description": "Of which types. Default: all but checkpoint."},
            "agents": texts("Of which agents. Default: all, and what concerns the whole system."),
            "channels": texts("To which channels. Default: all."),
            "repeat_every_s": number(60, 604_800, "The same thing is told again after so many seconds at the earliest. Default: 900."),
            "reminders": number(0, 100, "How often a thing that lasts is told again. Default: 3."),
            "recovery": flag("Whether its end is told. Default: true."),
            "budget_percent": {"type": "array", "items": percent, "description": "Which shares of a budget. Default: 50, 80, 95 and 100."},
        }),
    )
}
