//! What an agent and its user read of each refusal, in each error format (AN-1): what happened, to which agent, and what a
//! person does next. A model reads it too: nothing in it is a command that lets the agent go on.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use estop_core::event::EventKind;
use estop_core::system::KillReason;
use estop_core::system::button::{Press, Unlock};
use estop_gateway::settings::{Auth, McpServer, Provider, Relay};
use estop_wire::protocol::Family;
use serde_json::Value;

use crate::common::http::{post, post_with};
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
}

fn apply(house: &House, agent: &str, what: EventKind) {
    let agent = house.engine().agent(agent).unwrap();
    house.engine().apply(&agent, None, what);
}

fn kill(house: &House, _: &str) {
    house.engine().kill(Press::new(KillReason::Manual, "ann", "test"));
}

const CASES: [Case; 6] = [
    Case {
        name: "deactivated",
        policy: "{}",
        before: |house, agent| apply(house, agent, EventKind::AgentDeactivated { by: "ann".into() }),
        says: &["a person deactivated it", "{agent}", "review what", "reactivate it"],
        everywhere: true,
    },
    Case {
        name: "paused",
        policy: "{}",
        before: |house, agent| apply(house, agent, EventKind::AgentPaused { by: "ann".into() }),
        says: &["paused by a person"],
        everywhere: true,
    },
    Case {
        name: "emergency stop",
        policy: "{}",
        before: kill,
        says: &["The emergency stop is pressed.", "An admin must clear it"],
        everywhere: true,
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
    },
    Case {
        name: "model",
        policy: r#"{"policy": {"models": {"allow": ["only-this-one"]}}}"#,
        before: |_, _| {},
        says: &["policy of agent {agent} allows", "a person can change the policy"],
        everywhere: false,
    },
    Case {
        name: "budget",
        policy: r#"{"policy": {"budget": {"tokens_per_day": 1}}}"#,
        // A request that fits no budget at all runs alone; the next one is refused.
        before: |house, agent| {
            let chat = &DIALECTS[0];
            let path = chat.path(agent, false);
            assert_eq!(post(house.address(), &path, &chat.body("hello", false)).status, 200);
        },
        says: &["tokens_per_day", "A person can raise the budget of agent {agent}"],
        everywhere: false,
    },
];

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
    for command in
        ["estop agents", "estop emergency", "estop runs", "estop budgets", "estop policy", "--on", "{agent}"]
    {
        assert!(!text.contains(command), "it names {command}: {place}");
    }
    assert!(!text.contains("  ") && !text.contains(".."), "{place}");
}

#[test]
fn an_1_every_refusal_says_what_happened_and_what_a_person_does_next_in_every_model_format() {
    for case in CASES {
        let house = House::with_policy(case.policy);
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
                check(&case, dialect.name, &agent, &sentence(&text));
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
        let house = House::build(case.policy, |settings| {
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

        let reply = post(house.address(), "/relay/support/out/x", "{}");
        let said: Value = serde_json::from_str(&reply.text()).unwrap();
        assert_eq!(said["status"], "blocked", "{}: {said}", case.name);
        match said["message"].as_str() {
            Some(text) => check(case, "relay", "coder", text),
            // A pressed button is answered in exactly the words that people's checks wait for.
            None => assert_eq!(said["reason"], "system_shutdown", "{}: {said}", case.name),
        }
    }
}
