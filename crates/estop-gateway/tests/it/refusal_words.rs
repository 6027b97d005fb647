//! What an agent and its user read of each refusal, in each error format (AN-1): what happened, to which agent, and what a
//! person does next. A model reads it too: nothing in it is a command that lets the agent go on.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use estop_core::event::EventKind;
use estop_core::operator::HookCall;
use estop_core::system::KillReason;
use estop_core::system::button::{Press, Unlock};
use estop_gateway::settings::{Auth, McpServer, Provider, Relay};
use estop_wire::protocol::Family;
use serde_json::Value;

use crate::common::http::{Reply, post, post_with};
use crate::common::{DIALECTS, House};

/// A refusal, how it comes about, and what its text must say.
struct Case {
    name: &'static str,
    policy: &'static str,
    /// Done to the agent or the system before it asks.
    before: fn(&House, &str),
    says: &'static [&'static str],
    /// Tools and messages are refused by it, too.
    everywhere: bool,
    /// `x-estop-reason`, as the policy's documents name it.
    code: &'static str,
    /// Whether it ends by itself: 429 with `Retry-After`, and everything else without.
    waits: bool,
    /// There is an incident that its user can read: of the agent, or of everything.
    incident: Option<&'static str>,
}

fn apply(house: &House, agent: &str, what: EventKind) {
    let agent = house.engine().agent(agent).unwrap();
    house.engine().apply(&agent, None, what);
}

fn kill(house: &House, _: &str) {
    house.engine().kill(Press::new(KillReason::Manual, "ann", "test"));
}

const CASES: [Case; 11] = [
    Case {
        name: "deactivated",
        policy: "{}",
        before: |house, agent| apply(house, agent, EventKind::AgentDeactivated { by: "ann".into() }),
        says: &["a person deactivated it", "{agent}", "review what", "reactivate it"],
        everywhere: true,
        code: "agent_inactive",
        waits: false,
        incident: None,
    },
    Case {
        name: "paused",
        policy: "{}",
        before: |house, agent| apply(house, agent, EventKind::AgentPaused { by: "ann".into() }),
        says: &["paused by a person"],
        everywhere: true,
        code: "agent_paused",
        waits: true,
        incident: None,
    },
    Case {
        name: "emergency stop",
        policy: "{}",
        before: kill,
        says: &["The emergency stop is pressed.", "An admin must clear it"],
        everywhere: true,
        code: "system",
        waits: false,
        incident: Some("system-"),
    },
    Case {
        name: "safe mode",
        policy: "{}",
        before: |house, agent| {
            kill(house, agent);
            let epoch = house.engine().latch.view().epoch;
            house.engine().restart(Unlock { by: "ann".into(), epoch, note: None }).unwrap();
        },
        says: &["safe mode"],
        everywhere: true,
        code: "system",
        waits: false,
        incident: None,
    },
    Case {
        name: "model",
        policy: r#"{"policy": {"models": {"allow": ["only-this-one"]}}}"#,
        before: |_, _| {},
        says: &["policy of agent {agent} allows", "a person can change the policy"],
        everywhere: false,
        code: "model_not_allowed",
        waits: false,
        incident: None,
    },
    Case {
        name: "budget",
        policy: r#"{"policy": {"budget": {"tokens_per_day": 1}}}"#,
        // A request that fits no budget at all runs alone; the next one is refused.
        before: ask_once,
        says: &["tokens_per_day", "A person can raise the budget of agent {agent}"],
        everywhere: false,
        code: "budget",
        waits: false,
        incident: None,
    },
    Case {
        name: "loop",
        policy: r#"{"policy": {"kill_switch_enabled": true}}"#,
        before: |house, agent| repeat(house, agent, "Is it done yet?"),
        says: &["This agent is inactive", "review what agent {agent} did", "reactivate it"],
        everywhere: true,
        code: "kill_switch",
        waits: false,
        incident: Some("{agent}-"),
    },
    Case {
        name: "hours",
        // Two days of the week before and after today: whatever midnight passes, it is neither.
        policy: HOURS,
        before: |_, _| {},
        says: &["hours", "Try again within the allowed hours."],
        everywhere: false,
        code: "hours",
        waits: false,
        incident: None,
    },
    Case {
        name: "rate",
        policy: r#"{"policy": {"rate_limit": {"requests_per_minute": 1}}}"#,
        before: ask_once,
        says: &["requests"],
        everywhere: false,
        code: "rate_limit",
        waits: true,
        incident: None,
    },
    Case {
        name: "run limit",
        policy: r#"{"policy": {"limits": {"max_turns": 1}}}"#,
        // It may sum up in three requests, which pass.
        before: |house, agent| {
            let chat = &DIALECTS[0];
            (0..6).for_each(|_| {
                drop(post(house.address(), &chat.path(agent, false), &chat.body("hello", false)));
            });
        },
        says: &["max conversation turns"],
        everywhere: false,
        code: "circuit_breaker",
        waits: false,
        incident: None,
    },
    Case {
        name: "gate",
        policy: r#"{"gate": {"max_tokens_per_minute": 1}, "policy": {"guards": {"gate": "enforce"}}}"#,
        before: ask_once,
        says: &["token"],
        everywhere: false,
        code: "gate_token_budget_exceeded",
        waits: true,
        incident: None,
    },
];

const HOURS: &str = r#"{"policy": {"allowed_hours": {"days": ["DAY"], "from": "00:00", "to": "24:00"}}}"#;

/// The policy of a case: hours are those of another day.
fn policy(case: &Case) -> String {
    let days = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() / 86_400;
    // The first day of the epoch was a Thursday; this one is three days away.
    let far = ["thu", "fri", "sat", "sun", "mon", "tue", "wed"][(days as usize + 3) % 7];
    case.policy.replace("DAY", far)
}

/// Asks once, which passes.
fn ask_once(house: &House, agent: &str) {
    let chat = &DIALECTS[0];
    let path = chat.path(agent, false);
    assert_eq!(post(house.address(), &path, &chat.body("hello", false)).status, 200);
}

/// Asks the same until the agent is stopped.
fn repeat(house: &House, agent: &str, what: &str) {
    let chat = &DIALECTS[0];
    let path = chat.path(agent, false);
    let is_stopped = (0..20).any(|_| post(house.address(), &path, &chat.body(what, false)).status != 200);
    assert!(is_stopped, "the loop was not stopped");
}

/// Every text in a document.
fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(all) => all.iter().for_each(|value| texts(value, found)),
        Value::Object(all) => all.values().for_each(|value| texts(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The sentence of a refusal, wherever its format has it.
fn sentence(document: &str) -> String {
    let mut found = Vec::new();
    texts(&serde_json::from_str(document).unwrap_or_else(|_| panic!("no JSON: {document}")), &mut found);
    found.into_iter().find(|text| text.contains("Stopped by estop")).unwrap_or_else(|| panic!("{document}"))
}

fn check(case: &Case, format: &str, agent: &str, text: &str) {
    let place = format!("{} as {format}: {text}", case.name);
    for wanted in case.says {
        assert!(text.contains(&wanted.replace("{agent}", agent)), "without {wanted:?}: {place}");
    }
    assert!(text.starts_with("Stopped by estop: ") && text.ends_with('.'), "{place}");
    for command in [
        "estop agents",
        "estop emergency",
        "estop runs",
        "estop budgets",
        "estop policy",
        "estop incidents",
        "--on",
        "{agent}",
    ] {
        assert!(!text.contains(command), "it names {command}: {place}");
    }
    assert!(!text.contains("  ") && !text.contains(".."), "{place}");
    match case.incident {
        Some(begins) => {
            let id = incident_in(text).unwrap_or_else(|| panic!("it names no incident: {place}"));
            let number =
                id.strip_prefix(&begins.replace("{agent}", agent)).and_then(|seq| seq.parse::<u64>().ok());
            assert!(number.is_some_and(|number| number > 0), "{id}: {place}");
            assert!(text.contains(&format!("/incidents/{id} on the dashboard")), "{place}");
            assert!(text.contains(&format!("/incidents/{id} ")), "{place}");
        }
        None => assert!(!text.contains("incident"), "{place}"),
    }
}

/// The id after the word incident.
fn incident_in(text: &str) -> Option<&str> {
    text.split("incident ").nth(1)?.split_whitespace().next()
}

/// What programs read: the code, whether to wait, and the incident, in headers of every format.
fn check_head(case: &Case, format: &str, reply: &Reply, text: Option<&str>) {
    let place = format!("{} as {format}: {reply:?}", case.name);
    assert_eq!(reply.header("x-estop-reason"), Some(case.code), "{place}");
    assert_eq!(
        (reply.status == 429, reply.header("retry-after").is_some()),
        (case.waits, case.waits),
        "{place}"
    );
    let id = reply.header("x-estop-incident");
    assert_eq!(id.is_some(), case.incident.is_some(), "{place}");
    if let (Some(id), Some(text)) = (id, text) {
        assert_eq!(incident_in(text), Some(id), "{place}");
    }
}

/// Where each format has its sentence and its code, as its clients look for them.
fn check_shape(case: &Case, format: &str, body: &str) {
    let body: Value = serde_json::from_str(body).unwrap();
    let says = |text: &Value| text.as_str().is_some_and(|text| text.starts_with("Stopped by estop: "));
    let error = &body["error"];
    let is_shaped = match format {
        "openai_chat" | "openai_responses" | "openai_completions" => {
            let kind = if case.waits { "rate_limit_error" } else { "invalid_request_error" };
            says(&error["message"]) && error["code"] == case.code && error["type"] == kind
        }
        "anthropic" => {
            let kind = if case.waits { "rate_limit_error" } else { "permission_error" };
            body["type"] == "error" && says(&error["message"]) && error["type"] == kind
        }
        "gemini" => {
            let status = if case.waits { "RESOURCE_EXHAUSTED" } else { "PERMISSION_DENIED" };
            says(&error["message"]) && error["status"] == status && error["details"][0]["reason"] == case.code
        }
        "ollama_chat" | "ollama_generate" => says(error),
        other => panic!("no shape is known of {other}"),
    };
    assert!(is_shaped, "{} as {format}: {body}", case.name);
}

#[test]
fn an_1_every_refusal_says_what_happened_and_what_a_person_does_next_in_every_model_format() {
    for case in CASES {
        let house = House::with_policy(&policy(&case));
        for dialect in &DIALECTS {
            let agent = format!("a-{}", dialect.name.replace(' ', "-"));
            (case.before)(&house, &agent);
            let forwarded = house.model.requests();
            for stream in [false, true] {
                let reply =
                    post(house.address(), &dialect.path(&agent, stream), &dialect.body("hello", stream));
                let text = reply.text();
                if case.name == "safe mode" {
                    // An answer with the one sentence that people's checks wait for.
                    assert_eq!(reply.header("x-estop-reason"), Some("system"), "{}: {reply:?}", dialect.name);
                    assert!(
                        text.contains("System is in safe mode. LLM is disabled."),
                        "{}: {text}",
                        dialect.name
                    );
                    continue;
                }
                assert!((400..500).contains(&reply.status), "{}, {}: {reply:?}", case.name, dialect.name);
                let said = sentence(&text);
                check(&case, dialect.name, &agent, &said);
                check_head(&case, dialect.name, &reply, Some(&said));
                check_shape(&case, dialect.name, &text);
            }
            assert_eq!(house.model.requests(), forwarded, "{}: it reached the provider", case.name);
        }
    }
}

#[test]
fn tl_3_ks_10_mcp_and_relay_say_it_in_their_own_form() {
    let target = || Provider {
        family: Family::OpenAi,
        tls: false,
        host: "127.0.0.1".into(),
        port: 1,
        base_path: "/".into(),
        auth: Auth::None,
        key: None,
        ca: None,
    };
    for case in CASES.iter().filter(|case| case.everywhere) {
        let house = House::build(&policy(case), |settings| {
            let server = McpServer { agent: Some("coder".into()), target: target(), ends_with_slash: false };
            settings.mcp.insert("fs".into(), server);
            let relay = Relay {
                agent: "coder".into(),
                into: None,
                out: Some(target()),
                secret: None,
                concurrency: 1,
            };
            settings.relays.insert("support".into(), relay);
        });
        (case.before)(&house, "coder");
        let call = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add","arguments":{}}}"#;
        let accept = "accept: application/json, text/event-stream\r\n";
        let reply = post_with(house.address(), "/agents/coder/mcp/fs", accept, call);
        let said = reply.text();
        assert!(
            said.contains("Stopped by estop: ") && !said.contains("estop agents"),
            "{}: {said}",
            case.name
        );
        assert_eq!(said.contains("the dashboard"), case.incident.is_some(), "{}: {said}", case.name);

        let reply = post(house.address(), "/relay/support/out/x", "{}");
        assert_eq!(reply.header("x-estop-incident").is_some(), case.incident.is_some(), "{reply:?}");
        let said: Value = serde_json::from_str(&reply.text()).unwrap();
        assert_eq!(said["status"], "blocked", "{}: {said}", case.name);
        match said["message"].as_str() {
            Some(text) => check(case, "relay", "coder", text),
            // A pressed button is answered in exactly the words that people's checks wait for.
            None => assert_eq!(said["reason"], "system_shutdown", "{}: {said}", case.name),
        }
    }
}

#[test]
fn an_1_ev_3_hooks_name_the_incident_and_so_do_refusals_after_it_until_the_agent_is_reactivated() {
    let house = House::with_policy(r#"{"policy": {"kill_switch_enabled": true}}"#);
    let body = r#"{"agent": "coder", "run": "r", "tool": "Read"}"#;
    let asked = || {
        let call = HookCall {
            client: "generic",
            event: "pre-tool-use",
            body: body.as_bytes(),
            ..HookCall::default()
        };
        let answer: Value = serde_json::from_str(&house.engine().hook(call).stdout).unwrap();
        (answer["permission"] == "deny", answer["reason"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(asked(), (false, String::new()));
    repeat(&house, "coder", "Is it done yet?");
    let (is_denied, first) = asked();
    let id = incident_in(&first).unwrap_or_else(|| panic!("it names no incident: {first}")).to_owned();
    assert!(is_denied && id.starts_with("coder-"), "{first}");
    assert!(
        first.contains(&format!("/incidents/{id} on the dashboard")) && !first.contains("estop agents"),
        "{first}"
    );
    assert_eq!(incident_in(&asked().1), Some(&*id), "the same, however often it asks");
    apply(&house, "coder", EventKind::AgentActivated { by: "ann".into() });
    assert!(!asked().0);
    apply(&house, "coder", EventKind::AgentDeactivated { by: "ann".into() });
    let (is_denied, by_hand) = asked();
    assert!(is_denied && incident_in(&by_hand).is_none(), "a person's stop is no incident: {by_hand}");
}
