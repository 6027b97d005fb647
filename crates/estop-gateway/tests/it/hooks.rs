//! Hooks, answered (TL-1): who is refused what, in which words, and what the core is told of it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::common::http::post_with;
use crate::common::{House, wait};
use estop_core::event::EventKind;
use estop_core::operator::{HookCall, HookFault, HookReply};
use estop_core::run::{RunState, RunView};
use estop_core::system::button::Press;
use estop_core::system::{Channel, Channels, KillReason};
use estop_wire::hooks::{HookClient, HookEvent};
use serde_json::{Value, json};

/// Limits hold for sessions of people, too.
const ENFORCED: &str = r#"{"policy": {"guards": {"breaker": "enforce"}}}"#;

/// A hook in our own form.
fn ours(house: &House, event: &str, body: &Value) -> Value {
    let reply = of(house, "generic", event, body);
    assert_eq!(reply.fault, None, "{body}");
    serde_json::from_str(&reply.stdout).unwrap()
}

fn of(house: &House, client: &str, event: &str, body: &Value) -> HookReply {
    let body = body.to_string();
    house.engine().hook(HookCall { client, event, body: body.as_bytes(), ..HookCall::default() })
}

fn tool(house: &House, agent: &str, run: &str) -> Value {
    ours(house, "pre-tool-use", &json!({"agent": agent, "run": run, "tool": "Read"}))
}

fn tell(house: &House, agent: &str, what: EventKind) {
    let agent = house.engine().agent(agent).unwrap();
    house.engine().apply(&agent, None, what);
}

fn run(house: &House, agent: &str, name: &str) -> RunView {
    let agent = house.engine().agent(agent).unwrap();
    let views = agent.lock_state().state.run_views();
    views.into_iter().find(|view| view.name.as_deref() == Some(name)).unwrap()
}

fn text<'a>(answer: &'a Value, key: &str) -> &'a str {
    answer[key].as_str().unwrap_or_default()
}

#[test]
fn tl_1_a_deactivated_agent_gets_no_tool_and_its_run_ends() {
    let house = House::new();
    let allowed = json!({"permission": "allow", "reason": null, "context": null, "end": false});
    assert_eq!(tool(&house, "a", "r"), allowed);
    tell(&house, "a", EventKind::AgentDeactivated { by: "ann".into() });
    let refused = tool(&house, "a", "r");
    assert_eq!((&refused["permission"], &refused["end"]), (&json!("deny"), &json!(true)));
    assert!(text(&refused, "reason").contains("a person deactivated it"), "{refused}");
    assert!(text(&refused, "reason").contains("they must review what it did and reactivate it"), "{refused}");
    let after = json!({"agent": "a", "run": "r", "tool": "Read", "result": "x"});
    assert_eq!(ours(&house, "post-tool-use", &after)["end"], json!(true), "told at the first chance");
    for event in ["prompt-submit", "session-start"] {
        assert_eq!(ours(&house, event, &json!({"agent": "a", "run": "r"}))["permission"], "deny", "{event}");
    }
    assert_eq!(tool(&house, "neighbour", "r"), allowed);
    tell(&house, "a", EventKind::AgentActivated { by: "ann".into() });
    assert_eq!(tool(&house, "a", "r"), allowed);

    tell(&house, "a", EventKind::AgentPaused { by: "ann".into() });
    let paused = tool(&house, "a", "r");
    assert_eq!(
        (&paused["permission"], &paused["end"]),
        (&json!("deny"), &json!(false)),
        "it can go on later"
    );
}

#[test]
fn ks_1_the_button_refuses_tools_by_channel() {
    let house = House::new();
    let press = Press::new(KillReason::Manual, "ann", "test");
    let tools = Channels::NONE.with(Channel::Tools);
    house.engine().kill(Press { channels: tools, ..press.clone() });
    let refused = tool(&house, "a", "r");
    assert_eq!((&refused["permission"], &refused["end"]), (&json!("deny"), &json!(true)));
    assert!(text(&refused, "reason").contains("An admin must clear it"), "{refused}");
    let prompt = json!({"agent": "a", "run": "r", "prompt": "hello"});
    assert_eq!(ours(&house, "prompt-submit", &prompt)["permission"], "allow", "words are another channel");
    house.engine().kill(press);
    let refused = ours(&house, "prompt-submit", &prompt);
    assert!(text(&refused, "reason").contains("The emergency stop is pressed."), "{refused}");
}

#[test]
fn cb_2_the_160th_call_warns_and_the_200th_is_denied() {
    let house = House::new();
    for n in 1..=199 {
        let answer = tool(&house, "a", "r");
        assert_eq!(answer["permission"], "allow", "call {n}");
        match n {
            159 => assert_eq!(answer["context"], Value::Null),
            160 => assert_eq!(
                answer["context"],
                "⚠️ Approaching limit: max tool calls at 160/200 (80%). Plan to wrap up soon."
            ),
            _ => {}
        }
    }
    let sums_up = "CIRCUIT BREAKER: max tool calls (200/200). Summarize your progress and call report_complete or report_blocked.";
    let denied = tool(&house, "a", "r");
    let expected = json!({"permission": "deny", "reason": sums_up, "context": sums_up, "end": false});
    assert_eq!(denied, expected);
    let again = tool(&house, "a", "r");
    let seed = "CIRCUIT BREAKER TRIPPED. Please summarize your progress immediately.";
    assert_eq!(again["context"], seed);
    assert_eq!(again["reason"], format!("{seed} Reached: max tool calls (200/200)."));
    let report = json!({"agent": "a", "run": "r", "tool": "report_blocked", "call": "1"});
    assert_eq!(ours(&house, "pre-tool-use", &report)["permission"], "allow", "it may say so");
    assert_eq!(run(&house, "a", "r").tool_calls, 200, "199 and the report");
    assert_eq!(tool(&house, "a", "fresh")["permission"], "allow", "a fresh run starts anew");
}

/// A test run in the form of a client that has no ids, and its end.
fn gemini(house: &House, event: &str, command: &str, result: &str) -> HookReply {
    let mut body = json!({"session_id": "s", "hook_event_name": event, "tool_name": "run_shell_command",
        "tool_input": {"command": command}});
    if event == "AfterTool" {
        body["tool_response"] = json!({"llmContent": result, "returnDisplay": "x"});
    }
    of(house, "gemini-cli", event, &body)
}

#[test]
fn cb_4_the_fifth_test_run_is_denied_and_a_pass_starts_anew() {
    let house = House::with_policy(ENFORCED);
    let test = |event: &str, n: i32, code: i32| {
        let body = json!({"agent": "a", "run": "r", "tool": "bash", "args": {"command": "cargo test"},
            "call": n.to_string(), "exit_code": code, "result": "…"});
        ours(&house, event, &body)
    };
    let mut calls = 0;
    let mut cycle = |code: i32| {
        calls += 1;
        let permission = test("pre-tool-use", calls, code)["permission"].clone();
        test("post-tool-use", calls, code);
        permission
    };
    for _ in 0..3 {
        assert_eq!(cycle(1), "allow");
    }
    assert_eq!(cycle(0), "allow", "the fourth passes");
    // The one after a pass begins no cycle.
    for _ in 0..5 {
        assert_eq!(cycle(101), "allow");
    }
    assert_eq!(cycle(1), "deny", "the fifth cycle");

    // The same without ids, by what the client says of the exit code.
    for _ in 0..4 {
        assert_eq!(gemini(&house, "BeforeTool", "npm test", "").exit_code, 0);
        gemini(&house, "AfterTool", "npm test", "Output: 1 failed\nExit Code: 1");
    }
    assert_eq!(gemini(&house, "BeforeTool", "npm test", "").exit_code, 2);
}

#[test]
fn cb_3_prompts_are_turns_and_are_refused_at_the_limit() {
    let house = House::with_policy(r#"{"circuit_breakers": {"defaults": {"max_turns": 3}}}"#);
    let prompt = || ours(&house, "prompt-submit", &json!({"agent": "a", "run": "r", "prompt": "go on"}));
    assert_eq!(
        (prompt()["permission"].clone(), prompt()["permission"].clone()),
        ("allow".into(), "allow".into())
    );
    let refused = prompt();
    assert!(text(&refused, "reason").contains("max conversation turns (3/3)"), "{refused}");
    assert_eq!(run(&house, "a", "r").turns, 2);
}

#[test]
fn tl_1_a_model_that_ignores_refusals_is_stopped_before_the_model() {
    let house = House::with_policy(r#"{"circuit_breakers": {"defaults": {"max_tool_calls": 2}}}"#);
    assert_eq!(tool(&house, "a", "r")["permission"], "allow");
    let ask = |n: i32| {
        let body = format!(
            r#"{{"model":"m","messages":[{{"role":"user","content":"go"}},{{"role":"assistant","content":"step {n}"}},{{"role":"user","content":"more {n}"}}]}}"#
        );
        let reply =
            post_with(house.address(), "/agents/a/openai/v1/chat/completions", "x-estop-run: r\r\n", &body);
        reply.header("x-estop-reason").map(str::to_owned)
    };
    assert_eq!(ask(0), None);
    let mut further = 0;
    let reason = loop {
        assert_eq!(tool(&house, "a", "r")["permission"], "deny", "tools stay refused");
        match ask(further + 1) {
            Some(reason) => break reason,
            None => further += 1,
        }
        assert!(further <= 3, "it goes on and on");
    };
    assert_eq!((reason.as_str(), further), ("circuit_breaker", 3), "three to sum up, no more");
    assert_eq!(house.model.requests(), 4);
}

#[test]
fn tl_1_a_session_of_hooks_is_the_run_of_its_requests() {
    let house = House::with_policy(
        r#"{"policy": {"guards": {"breaker": "enforce"}}, "circuit_breakers": {"defaults": {"max_tool_calls": 1}}}"#,
    );
    let body = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"go"}]}"#;
    let ask = |session: &str| {
        let header = format!("x-claude-code-session-id: {session}\r\n");
        let reply = post_with(house.address(), "/anthropic/v1/messages", &header, body);
        reply.header("x-estop-reason").map(str::to_owned)
    };
    let said =
        json!({"session_id": "s1", "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}});
    assert_eq!(ask("s1"), None, "no hook yet: the implicit run");
    assert_eq!(of(&house, "claude-code", "PreToolUse", &said).exit_code, 2, "the first call is one too many");
    let refused = (0..5).find(|_| ask("s1").is_some());
    assert_eq!(refused, Some(3), "three requests to sum up");
    assert_eq!(ask("s2"), None, "another session goes on");

    let turn = |event: &str| {
        of(&house, "claude-code", event, &json!({"session_id": "s3", "hook_event_name": event}))
    };
    turn("SessionStart");
    turn("Stop");
    assert_eq!(ask("s3"), None);
    let state = || run(&house, "default", "claude-code-s3").state;
    wait("it waits for a person again", || (state() == RunState::Sleeping).then_some(()));
    turn("SessionEnd");
    assert_eq!((ask("s3"), state()), (None, RunState::Completed), "over, but not refused");
}

#[test]
fn cb_2_a_warning_the_client_drops_waits_for_the_next_event() {
    let house = House::with_policy(r#"{"circuit_breakers": {"defaults": {"max_tool_calls": 10}}}"#);
    for n in 1..=7 {
        assert_eq!(gemini(&house, "BeforeTool", &format!("cat {n}"), "").stdout, "");
        assert!(!gemini(&house, "AfterTool", &format!("cat {n}"), "x").stdout.contains("⚠️ Approaching"));
    }
    let before = gemini(&house, "BeforeTool", "cat 8", "");
    assert!(!before.stdout.contains("⚠️ Approaching"), "{}: it would be dropped", before.stdout);
    let after: Value = serde_json::from_str(&gemini(&house, "AfterTool", "cat 8", "x").stdout).unwrap();
    assert_eq!(
        after["hookSpecificOutput"]["additionalContext"],
        "⚠️ Approaching limit: max tool calls at 8/10 (80%). Plan to wrap up soon."
    );
    let other = json!({"session_id": "another", "hook_event_name": "AfterTool", "tool_name": "x", "tool_input": {},
        "tool_response": {"llmContent": "x"}});
    gemini(&house, "BeforeTool", "cat 9", "");
    assert!(
        !of(&house, "gemini-cli", "AfterTool", &other).stdout.contains("⚠️ Approaching"),
        "another run's"
    );
    assert!(gemini(&house, "AfterTool", "cat 9", "x").stdout.contains("9/10"));
    assert!(!gemini(&house, "AfterTool", "cat 9", "x").stdout.contains("⚠️ Approaching"), "said once");
}

#[test]
fn id_7_a_session_is_a_run_that_sleeps_wakes_and_completes() {
    let house = House::new();
    let said =
        |event: &str| ours(&house, event, &json!({"session": "s1", "tool": "Read", "last_words": "done"}));
    let state = || {
        let view = run(&house, "default", "generic-s1");
        (view.state, view.attended, view.tool_calls)
    };
    said("session-start");
    assert_eq!(state(), (RunState::Active, true, 0));
    said("prompt-submit");
    said("pre-tool-use");
    said("subagent-end");
    assert_eq!(state(), (RunState::Active, true, 1), "a sub-agent's end is not the end");
    said("turn-end");
    said("turn-end");
    assert_eq!(state().0, RunState::Sleeping, "it waits for a person");
    said("session-start");
    assert_eq!(state(), (RunState::Sleeping, true, 1), "resumed, not begun anew");
    said("pre-tool-use");
    assert_eq!(state(), (RunState::Active, true, 2));
    said("session-end");
    said("session-end");
    said("post-tool-use");
    assert_eq!(state().0, RunState::Completed);
    said("prompt-submit");
    assert_eq!(state(), (RunState::Active, true, 0), "the same session again is a fresh run");
}

#[test]
fn id_7_a_supervised_run_is_ended_by_its_supervisor() {
    let house = House::new();
    let said = |event: &str, body: Value| {
        let body = body.to_string();
        let call = HookCall {
            client: "generic",
            event,
            body: body.as_bytes(),
            agent: Some("a"),
            run: Some("task"),
            bound: true,
            supervised: true,
            branch: Some("fix/7"),
            ..HookCall::default()
        };
        house.engine().hook(call)
    };
    assert_eq!(said("pre-tool-use", json!({"session": "s", "tool": "x", "run": "other"})).exit_code, 0);
    // CB-8: an escalation of it names them, though its supervisor knew neither.
    let place = house.engine().last_output.place_of("a", Some("task"));
    assert_eq!((place.session.as_deref(), place.branch.as_deref()), (Some("s"), Some("fix/7")));
    said("session-end", json!({"session": "s"}));
    let view = run(&house, "a", "task");
    assert_eq!((view.state, view.tool_calls, view.attended), (RunState::Active, 1, false));
    let by_key = HookCall {
        client: "generic",
        event: "session-start",
        body: br#"{"session": "s"}"#,
        agent: Some("a"),
        bound: true,
        ..HookCall::default()
    };
    assert_eq!(house.engine().hook(by_key).exit_code, 0);
    assert!(!run(&house, "a", "generic-s").attended, "an agent does not vouch for a person");
    let foreign = said("pre-tool-use", json!({"agent": "b", "tool": "x"}));
    assert!(matches!(foreign.fault, Some(HookFault::NotYours(_))), "{foreign:?}");
    assert_eq!((foreign.exit_code, house.engine().known_agent("b").is_none()), (2, true));
}

#[test]
fn cb_6_last_words_and_reports_are_kept_for_whoever_is_called() {
    let house = House::with_policy(r#"{"circuit_breakers": {"defaults": {"max_tool_calls": 1}}}"#);
    let kept = || house.engine().last_output.of("a", Some("r"));
    assert_eq!(tool(&house, "a", "r")["permission"], "deny");
    let said = json!({"agent": "a", "run": "r", "last_words": "Two of three tests pass."});
    ours(&house, "subagent-end", &json!({"agent": "a", "run": "r", "last_words": "not mine"}));
    ours(&house, "turn-end", &said);
    assert_eq!(kept().as_deref(), Some("Two of three tests pass."));
    let view = run(&house, "a", "r");
    assert_eq!((view.state, view.tripped), (RunState::Active, true), "its time to sum up goes on");
    let report = |event: &str| {
        let args = json!({"summary": "The parser is missing."});
        let body = json!({"agent": "a", "run": "r", "tool": "report_blocked", "call": "1", "args": args, "result": "ok"});
        ours(&house, event, &body)
    };
    assert_eq!(report("pre-tool-use")["permission"], "allow");
    let ended = report("post-tool-use");
    assert_eq!(kept().as_deref(), Some("The parser is missing."));
    assert_eq!(run(&house, "a", "r").state, RunState::Escalated, "it reported");
    assert_eq!(ended["end"], json!(true), "{ended}");
    let refused = tool(&house, "a", "r");
    assert_eq!(refused["end"], json!(true));
    assert!(text(&refused, "reason").contains("escalated to a human: max tool calls (1/1)"), "{refused}");
    let begun = ours(&house, "session-start", &json!({"agent": "a", "run": "r"}));
    assert_eq!(begun["permission"], "deny", "escalated is for good");
}

#[test]
fn tl_1_what_cannot_be_read_or_has_no_name_or_room_is_refused() {
    let house = House::build("{}", |settings| settings.limits.agents = 2);
    for client in HookClient::ALL {
        let (name, _) = client.events().iter().find(|(_, event)| *event == HookEvent::ToolRequested).unwrap();
        let reply = house.engine().hook(HookCall {
            client: client.name(),
            event: name,
            body: b"{\"tool\": ",
            ..HookCall::default()
        });
        assert!(matches!(reply.fault, Some(HookFault::Unread { .. })), "{client:?}: {reply:?}");
        let refuses =
            reply.exit_code == 2 || reply.stdout.contains("cancel") || reply.stdout.contains("deny");
        assert!(refuses, "{client:?}: {reply:?}");
    }
    for agent in ["estop-canary", "system", "", "a b", ".hidden"] {
        let reply = of(&house, "generic", "pre-tool-use", &json!({"agent": agent, "tool": "x"}));
        assert_eq!(reply.exit_code, 2, "{agent}");
        assert!(
            matches!(&reply.fault, Some(HookFault::Unread { field, .. }) if field == "agent"),
            "{reply:?}"
        );
    }
    let fields = [
        (json!({"run": "a b", "tool": "x"}), "run"),
        (json!({"args": {}}), "tool"),
        (json!({"tool": 7}), "tool"),
        (json!({"tool": "x", "session": {}}), "session"),
        (json!([]), ""),
    ];
    for (body, named) in fields {
        let reply = of(&house, "generic", "pre-tool-use", &body);
        assert!(matches!(&reply.fault, Some(HookFault::Unread { field, .. }) if field == named), "{reply:?}");
    }
    let unknown = of(&house, "no-such", "PreToolUse", &json!({}));
    assert!(matches!(unknown.fault, Some(HookFault::UnknownClient(_))) && unknown.exit_code == 2);
    // `default` has its place already; one more has room.
    assert_eq!(tool(&house, "one", "r")["permission"], "allow");
    let refused = tool(&house, "two", "r");
    assert!(text(&refused, "reason").contains("too many agents"), "{refused}");
}

#[test]
fn tl_1_what_cannot_be_written_down_is_refused() {
    let house = House::new();
    assert_eq!(tool(&house, "a", "r")["permission"], "allow");
    house.queue.fail();
    let refused = tool(&house, "a", "r");
    assert!(text(&refused, "reason").contains("cannot write its journal"), "{refused}");
}

#[test]
fn ld_6_a_loop_of_tools_ends_the_run_where_it_is_seen() {
    let house = House::with_policy(r#"{"policy": {"kill_switch_enabled": true}}"#);
    let step = |event: &str, n: usize| {
        let body = json!({"session_id": "s", "hook_event_name": event, "tool_name": "Bash",
            "tool_input": {"command": "make status"}, "tool_use_id": format!("t{n}"), "tool_response": {"stdout": "busy"}});
        of(&house, "claude-code", event, &body)
    };
    let ended = (0..9).find(|n| {
        assert_eq!(step("PreToolUse", *n).exit_code, 0, "call {n}");
        step("PostToolUse", *n).stdout.contains(r#""continue":false"#)
    });
    assert_eq!(ended, Some(4), "at the fifth result");
    let refused = step("PreToolUse", 10);
    assert!(refused.exit_code == 2 && refused.stdout.contains(r#""continue":false"#), "{refused:?}");
}

/// One recorded payload of a real client.
struct Sample {
    event: String,
    stdin: Value,
}

fn samples(client: HookClient) -> Vec<Sample> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../estop-wire/tests/hooks");
    let text = std::fs::read_to_string(folder.join(format!("{}.json", client.name()))).unwrap();
    let list: Vec<Value> = serde_json::from_str(&text).unwrap();
    let sample = |said: Value| Sample { event: text_of(&said["event"]), stdin: said["stdin"].clone() };
    list.into_iter().map(sample).collect()
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn is_before_tool(client: HookClient, event: &str) -> bool {
    client.events().contains(&(event, HookEvent::ToolRequested))
        // Copilot's second form.
        || (client == HookClient::Copilot && event == "PreToolUse")
}

#[test]
fn tl_1_recorded_payloads_of_every_client_pass_and_are_refused_in_its_own_words() {
    for client in HookClient::ALL {
        let house = House::new();
        let say = |sample: &Sample| of(&house, client.name(), &sample.event, &sample.stdin);
        let samples = samples(client);
        for sample in &samples {
            let reply = say(sample);
            assert_eq!((reply.exit_code, &reply.fault), (0, &None), "{client:?} {}: {reply:?}", sample.event);
        }
        let agents = ["default", "builder"].into_iter().filter_map(|name| house.engine().known_agent(name));
        let calls: u32 =
            agents.flat_map(|agent| agent.lock_state().state.run_views()).map(|view| view.tool_calls).sum();
        let before = samples.iter().filter(|sample| is_before_tool(client, &sample.event)).count();
        assert!(calls > 0 && calls as usize <= before, "{client:?}: {calls} calls of {before}");

        tell(&house, "default", EventKind::AgentDeactivated { by: "ann".into() });
        tell(&house, "builder", EventKind::AgentDeactivated { by: "ann".into() });
        for sample in samples.iter().filter(|sample| is_before_tool(client, &sample.event)) {
            let reply = say(sample);
            let refuses = match client {
                // It obeys JSON alone; with an exit code the tool would run.
                HookClient::Cline => reply.stdout.contains(r#""cancel":true"#) && reply.exit_code == 0,
                HookClient::Cursor => reply.stdout.contains(r#""permission":"deny""#) && reply.exit_code == 0,
                HookClient::ClaudeCode
                | HookClient::Codex
                | HookClient::GeminiCli
                | HookClient::Copilot
                | HookClient::Qwen
                | HookClient::Opencode
                | HookClient::OpenClaw
                | HookClient::Generic => reply.stdout.contains("deny") && reply.exit_code == 2,
            };
            assert!(refuses, "{client:?} {}: {reply:?}", sample.event);
            let said = format!("{}{}", reply.stdout, reply.stderr);
            for wanted in ["a person deactivated it", "they must review what it did and reactivate it"] {
                assert!(said.contains(wanted), "{client:?} {}: {reply:?}", sample.event);
            }
            assert!(!said.contains("estop agents"), "no command a model could run: {said}");
        }
    }
}
