//! The steps before a stop that hooks and the gate before MCP servers saw (EV-1): all of them, and exactly those marked that the
//! engine found to repeat each other.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::common::House;
use crate::common::http::post_with;
use crate::common::raw::Raw;
use estop_core::agent::standing::Standing;
use estop_core::event::EventKind;
use estop_core::operator::{HookCall, IncidentSteps, KeptStep, StepEnd};
use estop_core::policy::EvidenceMode;
use estop_core::policy_file::PolicyFileIn;
use estop_gateway::settings::{Auth, McpServer, Provider};
use estop_gateway::{Recorded, StopPoint};
use estop_wire::mask::Masker;
use estop_wire::protocol::Family;
use serde_json::{Value, json};

/// A hook of agent `a` in run `r`; whether it was allowed.
fn hook(house: &House, event: &str, body: &Value) -> bool {
    let mut whole = json!({"agent": "a", "run": "r"});
    whole.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
    let body = whole.to_string();
    let call = HookCall { client: "generic", event, body: body.as_bytes(), ..HookCall::default() };
    let reply = house.engine().hook(call);
    assert_eq!(reply.fault, None, "{body}");
    serde_json::from_str::<Value>(&reply.stdout).unwrap()["permission"] == "allow"
}

fn asks(house: &House, tool: &str, call: &str, args: &Value) -> bool {
    hook(house, "pre-tool-use", &json!({"tool": tool, "call": call, "args": args}))
}

fn ended(house: &House, tool: &str, call: &str, result: &str) -> bool {
    hook(house, "post-tool-use", &json!({"tool": tool, "call": call, "result": result}))
}

/// What is shown of the first stop.
fn evidence(house: &House) -> IncidentSteps {
    let found = house.find(|record| match record {
        Recorded::Agent { agent, now, event, decision }
            if matches!(event.what, EventKind::ToolRequested(_) | EventKind::ToolFinished(_))
                && (decision.deactivated().is_some() || decision.paused().is_some()) =>
        {
            Some((agent.clone(), *now, event.clone(), (**decision).clone()))
        }
        Recorded::Agent { .. } | Recorded::System { .. } => None,
    });
    let (agent, now, event, decision) = found.expect("nobody was stopped");
    let most = EvidenceMode::Redacted;
    let stop = StopPoint { agent: &agent, at: now.mono, event: &event, decision: &decision, most };
    house.engine().step_log.before(&stop, &Masker::new([7; 32])).expect("no steps")
}

fn set_policy(house: &House, policy: &Value) {
    let rules = json!({ "policy": policy }).to_string();
    let file: PolicyFileIn = serde_json::from_str(&rules).unwrap();
    house.engine().rulebook.replace(file.check(&|_| None).unwrap(), Default::default());
    house.engine().apply_rules("test");
}

/// Tool and arguments of each step, and whether it counts.
fn marked(steps: &IncidentSteps) -> Vec<(String, bool)> {
    let of = |step: &KeptStep| (format!("{} {}", step.did[0].tool, step.did[0].args.text), step.counts.step);
    steps.steps.iter().map(of).collect()
}

#[test]
fn ev_1_of_hooks_exactly_the_steps_that_repeat_each_other_are_marked() {
    let house = House::with_policy(r#"{"policy": {"kill_switch_enabled": true, "exempt_tools": ["poll"]}}"#);
    for n in 0..3 {
        let call = format!("read-{n}");
        assert!(asks(&house, "Read", &call, &json!({"path": format!("{n}.rs")})));
        assert!(ended(&house, "Read", &call, &format!("content {n}")));
    }
    // Asked for first, ended last before the loop: of this order the engine judges them.
    assert!(asks(&house, "Grep", "late", &json!({"for": "late"})));
    assert!(asks(&house, "Grep", "soon", &json!({"for": "soon"})));
    assert!(ended(&house, "Grep", "soon", "found soon"));
    assert!(ended(&house, "Grep", "late", "found late"));
    let agent = house.engine().agent("a").unwrap();
    let is_stopped = (0..10).any(|n| {
        // Neither a tool that is exempt nor a call that is refused shifts the marks.
        let (poll, weather) = (format!("poll-{n}"), format!("weather-{n}"));
        assert!(asks(&house, "poll", &poll, &json!({})));
        assert!(ended(&house, "poll", &poll, "not yet"));
        if n == 2 {
            house.engine().apply(&agent, None, EventKind::AgentPaused { by: "ann".into() });
            assert!(!asks(&house, "weather", "refused", &json!({"city": "Rome"})));
            house.engine().apply(&agent, None, EventKind::AgentResumed { by: "ann".into() });
        }
        assert!(asks(&house, "weather", &weather, &json!({"city": "Berlin"})), "{n}");
        ended(&house, "weather", &weather, "rain");
        agent.lock_state().state.standing() != Standing::Active
    });
    assert!(is_stopped, "the loop was not stopped");
    let steps = evidence(&house);
    for (step, counts) in marked(&steps) {
        assert_eq!(counts, step.starts_with("weather"), "{step}: {:?}", marked(&steps));
    }
    assert_eq!(marked(&steps).iter().filter(|(_, counts)| *counts).count(), 5, "{:?}", marked(&steps));
    let last = steps.steps.last().unwrap();
    assert_eq!(
        last.did[0].args.text, r#"{"city":"Berlin"}"#,
        "what was asked, though its end did not say it"
    );
    assert_eq!((last.did[0].result.as_ref().unwrap().text.as_str(), last.end), ("rain", StepEnd::Ok));
    assert!(!format!("{steps:?}").contains("Rome"), "what was refused and stopped nobody is not kept");
}

#[test]
fn ev_1_the_call_of_a_hook_by_which_an_agent_is_stopped_is_shown_as_refused() {
    let house = House::with_policy(r#"{"policy": {"guards": {"health": "shadow"}}}"#);
    for n in 0..60 {
        let call = format!("c{n}");
        assert!(asks(&house, "shell", &call, &json!({"command": format!("make part-{n}")})));
        let body = json!({"tool": "shell", "call": call, "result": format!("error: {n}"), "failed": true});
        hook(&house, "post-tool-use", &body);
    }
    // Its health is gone, and from here on that counts: the next call is the one that stops it.
    set_policy(&house, &json!({"guards": {"health": "enforce"}}));
    assert!(!asks(&house, "shell", "last", &json!({"command": "make last"})));
    let steps = evidence(&house);
    let last = steps.steps.last().unwrap();
    assert!(last.did[0].args.text.contains("make last"), "{:?}", marked(&steps));
    assert_eq!(last.end, StepEnd::Refused, "{:?}", marked(&steps));
    assert_eq!(steps.steps.iter().filter(|step| step.end == StepEnd::Refused).count(), 1);
    assert_eq!(steps.steps.len(), 21, "the newest steps and the call that was refused");
}

#[test]
fn ev_1_switching_evidence_off_forgets_what_is_in_memory() {
    let house = House::with_policy(r#"{"policy": {"kill_switch_enabled": true}}"#);
    for n in 0..3 {
        let call = format!("c{n}");
        assert!(asks(&house, "weather", &call, &json!({"city": "canary-city"})));
        assert!(ended(&house, "weather", &call, "rain"));
    }
    set_policy(&house, &json!({"kill_switch_enabled": true, "evidence": "off"}));
    set_policy(&house, &json!({"kill_switch_enabled": true}));
    for n in 3..20 {
        let call = format!("c{n}");
        if asks(&house, "weather", &call, &json!({"city": "Berlin"})) {
            ended(&house, "weather", &call, "rain");
        }
    }
    let steps = evidence(&house);
    assert!(!steps.steps.is_empty() && !format!("{steps:?}").contains("canary-city"), "{steps:?}");
}

#[test]
fn ev_1_calls_at_the_gate_before_mcp_servers_are_steps_and_the_one_that_stops_is_refused() {
    const CALL: &str =
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2}}}"#;
    let body =
        r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"no disk"}],"isError":true}}"#;
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let server = Raw::saying(answer);
    let house = House::build(r#"{"policy": {"guards": {"health": "shadow"}}}"#, |settings| {
        let target = Provider {
            family: Family::OpenAi,
            tls: false,
            host: "127.0.0.1".into(),
            port: server.port(),
            base_path: "/mcp".into(),
            auth: Auth::None,
            key: None,
            ca: None,
        };
        let server = McpServer { agent: Some("a".into()), target, ends_with_slash: false };
        settings.mcp.insert("fs".into(), server);
    });
    let calls = || {
        let accept = "accept: application/json, text/event-stream\r\n";
        post_with(house.address(), "/mcp/fs", accept, CALL).text()
    };
    for _ in 0..60 {
        assert!(calls().contains("no disk"));
    }
    let finished = |record: &Recorded| matches!(record, Recorded::Agent { event, .. } if matches!(event.what, EventKind::ToolFinished(_)));
    assert!(house.find_all(60, finished), "each end is told");
    set_policy(&house, &json!({"guards": {"health": "enforce"}}));
    assert!(!calls().contains("no disk"), "it is refused");
    let steps = evidence(&house);
    let last = steps.steps.last().unwrap();
    assert_eq!((&*last.did[0].tool, last.did[0].args.text.as_str()), ("mcp__fs__add", r#"{"a":1,"b":2}"#));
    assert_eq!((last.end, last.did[0].result.is_none()), (StepEnd::Refused, true));
    let before = &steps.steps[steps.steps.len() - 2];
    assert_eq!(before.did[0].args.text, r#"{"a":1,"b":2}"#, "what was asked, though its end does not say it");
    assert_eq!(before.did[0].result.as_ref().unwrap().text, "no disk");
}
