//! An agent that loops is stopped in the proxy, alone, with evidence; one that works is not (LD-3, LD-4, LD-6).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::common::http::{Reply, Wire, post, post_with};
use crate::common::{DIALECTS, House, PATIENCE};
use estop_core::decision::Effect;
use estop_core::event::EventKind;
use estop_fake_model::script::{Delay, Hold, Match, Reply as Said, Rule};
use estop_gateway::Recorded;

const ENFORCED: &str = r#"{"policy": {"kill_switch_enabled": true}}"#;

fn is_refused(reply: &Reply) -> bool {
    reply.header("x-estop-reason").is_some()
}

#[test]
fn ld_3_a_loop_is_stopped_alone_in_every_protocol() {
    for dialect in &DIALECTS {
        let house = House::with_policy(ENFORCED);
        let ask = |agent: &str| {
            post(house.address(), &dialect.path(agent, true), &dialect.body("Is it done yet?", true))
        };
        let mut forwarded = 0;
        let refused = loop {
            let reply = ask("looper");
            if is_refused(&reply) {
                break reply;
            }
            forwarded += 1;
            assert!(forwarded < 20, "{}: never stopped", dialect.name);
        };
        assert_eq!(house.model.requests(), forwarded, "{}: the refused one was forwarded", dialect.name);
        assert_eq!(refused.header("x-estop-reason"), Some("kill_switch"), "{}", dialect.name);
        assert_eq!(refused.header("x-should-retry"), Some("false"), "{}", dialect.name);
        assert_eq!(refused.header("retry-after"), None, "{}", dialect.name);
        let later = ask("looper");
        assert!(later.text().contains("inactive"), "{}: {}", dialect.name, later.text());
        assert_ne!(later.status, 429, "{}: never 429", dialect.name);
        assert!(!is_refused(&ask("worker")), "{}: its neighbour was stopped too", dialect.name);
    }
}

#[test]
fn ld_3_a_trip_ends_what_is_in_flight_and_keeps_the_evidence() {
    let house = House::with_policy(ENFORCED);
    let dialect = &DIALECTS[0];
    let rule = Rule {
        when: Match { contains: Some("slow one".into()), ..Match::default() },
        reply: Said { hold: Some(Hold::Headers), ..Said::default() },
        ..Rule::default()
    };
    house.model.script(vec![rule]);
    let mut slow = Wire::open(house.address());
    slow.post(&dialect.path("a", true), "", &dialect.body("the slow one", true));
    assert!(house.model.wait_for_requests(1, PATIENCE));
    while !is_refused(&post(house.address(), &dialect.path("a", false), &dialect.body("Again?", false))) {}
    assert!(house.model.wait_for_end(1, PATIENCE).is_some(), "the slow request still runs");
    let told = slow.reply();
    assert_eq!(told.header("x-estop-reason"), Some("kill_switch"), "{told:?}");
    let evidence = house.find(|record| {
        let Recorded::Agent { decision, .. } = record else { return None };
        let entries = |effect: &Effect| {
            if let Effect::LoopEvidence(found) = effect { Some(found.matched.len()) } else { None }
        };
        decision.effects.iter().find_map(entries)
    });
    assert!(evidence.is_some_and(|entries| entries >= 5), "{evidence:?}");
}

#[test]
fn ld_4_reactivation_clears_the_window_and_detection_is_live_again() {
    let house = House::with_policy(ENFORCED);
    let dialect = &DIALECTS[0];
    let passes = || {
        let ask = || post(house.address(), &dialect.path("a", false), &dialect.body("Done?", false));
        let mut passed = 0;
        while !is_refused(&ask()) {
            passed += 1;
        }
        passed
    };
    let first = passes();
    let agent = house.engine().agent("a").unwrap();
    house.engine().apply(&agent, None, EventKind::AgentActivated { by: "test".into() });
    assert_eq!(passes(), first);
}

#[test]
fn ld_2_off_never_blocks() {
    let house = House::new();
    let dialect = &DIALECTS[3];
    for _ in 0..30 {
        let reply = post(house.address(), &dialect.path("a", false), &dialect.body("Same again", false));
        assert_eq!(reply.status, 200);
    }
    let would = house.find(|record| match record {
        Recorded::Agent { decision, .. } => decision
            .effects
            .iter()
            .any(|effect| matches!(effect, Effect::WouldHaveStopped { .. }))
            .then_some(()),
        Recorded::System { .. } => None,
    });
    assert!(would.is_some(), "the shadow says nothing");
}

#[test]
fn ld_6_a_tool_loop_is_stopped_at_its_fifth_result_and_a_poll_that_changes_is_not() {
    let house = House::with_policy(ENFORCED);
    let step = |n: usize, result: &str| {
        let mut messages = vec![r#"{"role":"user","content":"Watch the build."}"#.to_owned()];
        for i in 0..n {
            messages.push(format!(
                r#"{{"role":"assistant","tool_calls":[{{"id":"c{i}","type":"function","function":{{"name":"bash","arguments":"{{\"command\":\"make status\"}}"}}}}]}}"#
            ));
            let said =
                result.replace("{i}", ["one", "two", "three", "four", "five", "six", "seven", "eight"][i]);
            messages.push(format!(r#"{{"role":"tool","tool_call_id":"c{i}","content":"{said}"}}"#));
        }
        format!(r#"{{"model":"m","messages":[{}]}}"#, messages.join(","))
    };
    let run = |agent: &str, result: &str| {
        let path = format!("/agents/{agent}/openai/v1/chat/completions");
        (0..=8).find(|n| is_refused(&post(house.address(), &path, &step(*n, result))))
    };
    assert_eq!(run("stuck", "still building"), Some(5));
    assert_eq!(run("polling", "still building part {i}"), None);
}

/// A conversation of an agent that runs commands: its request after so many steps.
fn after_steps(task: &str, steps: usize, command: impl Fn(usize) -> (String, String)) -> String {
    let mut messages = vec![serde_json::json!({"role": "user", "content": task})];
    for n in 0..steps {
        let (command, result) = command(n);
        let function = serde_json::json!({"name": "bash", "arguments": serde_json::json!({"command": command}).to_string()});
        let id = format!("call_{n}");
        messages.push(serde_json::json!({
            "role": "assistant", "tool_calls": [{"id": id, "type": "function", "function": function}]
        }));
        messages.push(serde_json::json!({"role": "tool", "tool_call_id": id, "content": result}));
    }
    serde_json::json!({"model": "m", "messages": messages}).to_string()
}

/// Three conversations of one agent that take turns, as sub-agents and helpers of one client do.
#[test]
fn ld_6_a_loop_among_interleaved_conversations_is_found_and_healthy_ones_are_not_mixed_up() {
    let house = House::with_policy(ENFORCED);
    // The same silent check between other edits, and the same words in all of them.
    let edits = |part: &'static str| {
        move |n: usize| match n % 2 {
            0 => (format!("sed -i s/old{n}/new{n}/ {part}/file{n}.rs"), String::new()),
            _ => ("cargo check".to_owned(), String::new()),
        }
    };
    let stuck = |_: usize| ("cargo test".to_owned(), "error: test parser::reads failed".to_owned());
    let ask = |agent: &str, body: &str| {
        is_refused(&post(house.address(), &format!("/agents/{agent}/openai/v1/chat/completions"), body))
    };
    for n in 0..30 {
        for part in ["client", "server", "shared"] {
            let body = after_steps(&format!("Rename the settings in {part}."), n, edits(part));
            assert!(!ask("healthy", &body), "{part}, step {n}");
        }
    }
    let found = (0..30).find(|n| {
        for part in ["client", "server"] {
            let body = after_steps(&format!("Rename the settings in {part}."), *n, edits(part));
            assert!(!ask("mixed", &body), "{part}, step {n}: before the loop was found");
        }
        ask("mixed", &after_steps("Make the tests pass.", *n, stuck))
    });
    assert_eq!(found, Some(5));
}

#[test]
fn ld_6_chanting_is_cut_in_the_middle_and_the_retry_is_refused() {
    let policy = r#"{"policy": {"guards": {"chanting": "enforce"}}}"#;
    for dialect in &DIALECTS {
        let house = House::with_policy(policy);
        house.model.always(Said {
            endless: true,
            text: Some("I am going to fix it now. ".into()),
            delay: Delay { chunk_ms: 1, ..Delay::default() },
            ..Said::default()
        });
        let reply = post(house.address(), &dialect.path("a", true), &dialect.body("Go", true));
        assert!(reply.text().contains("repeats itself"), "{}: {}", dialect.name, reply.text().len());
        assert!(house.model.wait_for_end(1, PATIENCE).is_some(), "{}", dialect.name);
        assert!(is_refused(&post(house.address(), &dialect.path("a", false), &dialect.body("Go", false))));
        assert_eq!(house.model.requests(), 1, "{}", dialect.name);
    }
}

#[test]
fn po_2_a_stream_is_cut_when_the_budget_is_spent() {
    let policy = r#"{"policy": {"budget": {"tokens_per_day": 6000}}}"#;
    for dialect in &DIALECTS {
        let house = House::with_policy(policy);
        let words: String = (0..4000).map(|n| format!("word{n} ")).collect();
        house.model.always(Said { endless: true, text: Some(words), ..Said::default() });
        let reply = post(house.address(), &dialect.path("a", true), &dialect.body("Write a book", true));
        let text = reply.text();
        let end: String = text.chars().rev().take(600).collect::<Vec<_>>().into_iter().rev().collect();
        assert!(end.contains("Stopped by estop"), "{}: …{end}", dialect.name);
        assert!(house.model.wait_for_end(1, PATIENCE).is_some(), "{}", dialect.name);
        let again = post(house.address(), &dialect.path("a", false), &dialect.body("More", false));
        assert_eq!(again.header("x-estop-reason"), Some("budget"), "{}: {again:?}", dialect.name);
    }
}

#[test]
fn fp_6_a_conversation_kept_by_the_provider_is_one_conversation() {
    let house = House::with_policy(ENFORCED);
    let call = r#"[{"reply": {"loop": true}}]"#;
    house.model.script(serde_json::from_str(call).unwrap());
    let path = "/agents/a/openai/v1/responses";
    let tools = r#""tools":[{"type":"function","name":"bash","parameters":{"type":"object","properties":{"command":{"type":"string"}}}}]"#;
    let mut body = format!(r#"{{"model":"m","input":"use your tool",{tools}}}"#);
    let mut calls = 0;
    let refused = loop {
        let reply = post_with(house.address(), path, "", &body);
        if is_refused(&reply) {
            break reply;
        }
        let answer: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
        let items = answer["output"].as_array().unwrap();
        let call = items.iter().find(|item| item["type"] == "function_call").expect("a call");
        calls += 1;
        assert!(calls < 20, "never stopped");
        body = format!(
            r#"{{"model":"m","previous_response_id":{},"input":[{{"type":"function_call_output","call_id":{},"output":"nothing"}}],{tools}}}"#,
            answer["id"], call["call_id"]
        );
    };
    assert_eq!(calls, 5, "the fifth result is not forwarded");
    assert_eq!(refused.header("x-estop-reason"), Some("kill_switch"));
}

#[test]
fn ld_3_one_agent_of_a_thousand_is_stopped_and_the_others_see_no_error() {
    let house = House::build(ENFORCED, |settings| settings.limits.agents = 2_000);
    let dialect = &DIALECTS[0];
    let address = house.address();
    let workers: Vec<_> = (0..8)
        .map(|worker| {
            std::thread::spawn(move || {
                let mut wire = Wire::open(address);
                let mut bad = Vec::new();
                for agent in (0..1_000).filter(|agent| agent % 8 == worker) {
                    let ask = |n: usize| {
                        DIALECTS[0].body(&format!("Task {} of {agent}", WORDS[n]), n.is_multiple_of(2))
                    };
                    for n in 0..3 {
                        wire.post(&DIALECTS[0].path(&format!("agent-{agent}"), true), "", &ask(n));
                        let reply = wire.reply();
                        if reply.status != 200 || !reply.whole {
                            bad.push((agent, reply.status));
                        }
                    }
                }
                bad
            })
        })
        .collect();
    let mut passed = 0;
    while !is_refused(&post(address, &dialect.path("looper", false), &dialect.body("Loop", false))) {
        passed += 1;
        assert!(passed < 20, "never stopped");
    }
    let bad: Vec<_> = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
    assert!(bad.is_empty(), "{bad:?}");
}

const WORDS: [&str; 3] = ["apples", "rivers in the north", "a proof that there is no largest prime"];
