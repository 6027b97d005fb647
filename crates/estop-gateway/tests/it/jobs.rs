//! Work that goes on at providers after its request: cancelled when its agent, its run or the system is stopped, settled when
//! its result is polled.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::common::http::{Reply, Wire, post_with};
use crate::common::{House, wait, what};
use estop_core::event::EventKind;
use estop_core::operator::{BackgroundJob, BackgroundState};
use estop_core::system::button::Press;
use estop_core::system::{Channel, Channels, KillReason};
use estop_fake_model::script::{Hold, Match, Reply as Said, Rule};
use estop_gateway::settings::Settings;
use serde_json::Value;

const HELD: &str = r#"{"model":"fake-hold","input":"think for hours","background":true}"#;
const QUICK: &str = r#"{"model":"fake","input":"think a while","background":true}"#;
const BATCH: &str =
    r#"{"input_file_id":"file-1","endpoint":"/v1/chat/completions","completion_window":"24h"}"#;

/// estop holds OpenAI's and Gemini's keys; Anthropic's is the client's.
fn with_keys(settings: &mut Settings) {
    for name in ["openai", "gemini"] {
        settings.providers.get_mut(name).unwrap().key = Some(format!("sk-injected-{name}").into());
    }
}

fn house() -> House {
    House::build("{}", with_keys)
}

fn post(house: &House, path: &str, body: &str) -> Reply {
    let reply = post_with(house.address(), path, "x-api-key: sk-ant-of-the-client\r\n", body);
    assert_eq!(reply.status, 200, "{path}: {}", reply.text());
    reply
}

fn get(house: &House, path: &str) -> Reply {
    let mut wire = Wire::open(house.address());
    wire.send(format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").as_bytes());
    wire.reply()
}

fn id(reply: &Reply) -> String {
    let said: Value = serde_json::from_str(&reply.text()).unwrap();
    said["id"].as_str().or(said["name"].as_str()).unwrap().to_owned()
}

fn kill(house: &House, channels: Channels) {
    house.engine().kill(Press { channels, ..Press::new(KillReason::Manual, "test", "test") });
}

fn job(house: &House, id: &str) -> BackgroundJob {
    house.engine().jobs.view().jobs.into_iter().find(|job| job.id.as_deref() == Some(id)).unwrap()
}

fn until(house: &House, id: &str, state: &str) -> BackgroundJob {
    wait(state, || Some(job(house, id)).filter(|job| job.state.name() == state))
}

/// Whether the provider was asked to cancel, and with which credentials.
fn cancelled(house: &House, path: &str) -> Option<String> {
    let seen = house.model.seen();
    let asked = seen.iter().find(|seen| seen.method == "POST" && seen.path == path)?;
    let credential =
        ["authorization", "x-goog-api-key", "x-api-key"].into_iter().find_map(|name| asked.header(name));
    Some(credential.unwrap_or_default().to_owned())
}

#[test]
fn ks_11_a_kill_cancels_background_work_with_the_key_estop_holds() {
    let house = house();
    let response = id(&post(&house, "/agents/a/openai/v1/responses", HELD));
    let batch = id(&post(&house, "/agents/a/openai/v1/batches", BATCH));
    let tuning = id(&post(&house, "/agents/b/openai/v1/fine_tuning/jobs", r#"{"model":"m"}"#));
    let run = id(&post(&house, "/agents/b/openai/v1/threads/thread_1/runs", "{}"));
    let gemini = id(&post(&house, "/agents/b/gemini/v1beta/models/g:batchGenerateContent", "{}"));
    let video = id(&post(&house, "/agents/b/openai/v1/videos", r#"{"prompt":"a cat"}"#));
    let messages = id(&post(&house, "/agents/b/anthropic/v1/messages/batches", r#"{"requests":[]}"#));
    kill(&house, Channels::ALL);
    assert!(
        !house.engine().latch.view().lets_pass(Channel::Llm),
        "the gate is shut before anything is cancelled"
    );
    for (id, path, key) in [
        (&response, format!("/v1/responses/{response}/cancel"), "Bearer sk-injected-openai"),
        (&batch, format!("/v1/batches/{batch}/cancel"), "Bearer sk-injected-openai"),
        (&tuning, format!("/v1/fine_tuning/jobs/{tuning}/cancel"), "Bearer sk-injected-openai"),
        (&run, format!("/v1/threads/thread_1/runs/{run}/cancel"), "Bearer sk-injected-openai"),
        (&gemini, format!("/v1beta/{gemini}:cancel"), "sk-injected-gemini"),
    ] {
        assert!(until(&house, id, "cancelled").stopped.is_some());
        assert_eq!(cancelled(&house, &path).as_deref(), Some(key), "{path}");
    }
    // What cannot be cancelled says why, and nothing of the client's is used.
    let BackgroundState::NotCancelled(why) = job(&house, &video).state else {
        panic!("a video has no cancel")
    };
    assert!(why.contains("no call that cancels a video"), "{why}");
    let BackgroundState::NotCancelled(why) = job(&house, &messages).state else { panic!("there is no key") };
    assert!(why.contains("holds no credential of anthropic"), "{why}");
    assert!(cancelled(&house, &format!("/v1/messages/batches/{messages}/cancel")).is_none());
    // Agents stay shut out meanwhile.
    let poll = get(&house, &format!("/agents/a/openai/v1/batches/{batch}"));
    assert_eq!(poll.header("x-estop-reason"), Some("system"), "{}", poll.text());
}

#[test]
fn ks_11_a_stop_of_one_agent_cancels_its_work_and_no_other() {
    let house = house();
    let ours = id(&post(&house, "/agents/a/openai/v1/batches", BATCH));
    let other = id(&post(&house, "/agents/b/openai/v1/batches", BATCH));
    kill(&house, Channels::NONE.with(Channel::Tools));
    assert_eq!(job(&house, &ours).state, BackgroundState::Running, "another channel");
    let agent = house.engine().agent("a").unwrap();
    house.engine().apply(&agent, None, EventKind::AgentDeactivated { by: "test".into() });
    until(&house, &ours, "cancelled");
    assert_eq!(job(&house, &other).state, BackgroundState::Running);
    assert!(cancelled(&house, &format!("/v1/batches/{other}/cancel")).is_none());
}

#[test]
fn ks_11_a_run_that_is_escalated_loses_its_work() {
    let house = House::build(r#"{"preset":"strict","policy":{"limits":{"max_tool_calls":1}}}"#, with_keys);
    let begin = |run: &str| {
        let extra = format!("x-estop-run: {run}\r\n");
        id(&post_with(house.address(), "/agents/a/openai/v1/batches", &extra, BATCH))
    };
    let (ours, other) = (begin("r1"), begin("r2"));
    let agent = house.engine().agent("a").unwrap();
    let (call, action) = (estop_core::ids::CallId(1), estop_core::ids::Hash64(1));
    let gate = estop_core::event::ToolGate::Hook;
    let asks = |tool: &str| {
        let tool = tool.into();
        EventKind::ToolRequested(estop_core::event::ToolRequested {
            call,
            tool,
            action,
            test_run: false,
            gate,
        })
    };
    for tool in ["Bash", "report_blocked"] {
        house.engine().apply(&agent, Some("r1".into()), asks(tool));
    }
    let ended = estop_core::event::Ended::Ok;
    let done = estop_core::event::ToolFinished {
        call,
        result: action,
        ended,
        reports: true,
        words: Default::default(),
    };
    house.engine().apply(&agent, Some("r1".into()), EventKind::ToolFinished(done));
    until(&house, &ours, "cancelled");
    assert_eq!(job(&house, &other).state, BackgroundState::Running);
}

#[test]
fn ks_11_what_ended_by_itself_is_forgotten_and_what_the_client_cancels_too() {
    let house = house();
    let response = id(&post(&house, "/agents/a/openai/v1/responses", QUICK));
    assert_eq!(job(&house, &response).state, BackgroundState::Running);
    assert_eq!(get(&house, &format!("/agents/b/openai/v1/responses/{response}")).status, 200);
    assert_eq!(house.engine().jobs.view().jobs.len(), 1, "another agent's poll says nothing of ours");
    assert_eq!(get(&house, &format!("/agents/a/openai/v1/responses/{response}")).status, 200);
    assert_eq!(house.engine().jobs.view().jobs.len(), 0);
    let held = id(&post(&house, "/agents/a/openai/v1/responses", HELD));
    get(&house, &format!("/agents/a/openai/v1/responses/{held}"));
    assert_eq!(job(&house, &held).state, BackgroundState::Running, "a poll that says so");
    post(&house, &format!("/agents/a/openai/v1/responses/{held}/cancel"), "{}");
    assert_eq!(house.engine().jobs.view().jobs.len(), 0);
    // A plain response is no work in the background.
    post(&house, "/agents/a/openai/v1/responses", r#"{"model":"fake","input":"hello"}"#);
    assert_eq!(house.engine().jobs.view().jobs.len(), 0);
}

#[test]
fn ks_11_only_an_answer_about_the_work_itself_ends_it() {
    let house = house();
    let batch = id(&post(&house, "/agents/a/openai/v1/batches", BATCH));
    let says = |path: String, id: &str| Rule {
        when: Match { path: Some(path), ..Match::default() },
        reply: Said {
            status: Some(200),
            body: Some(format!(r#"{{"id":"{id}","status":"completed"}}"#)),
            ..Said::default()
        },
        ..Rule::default()
    };
    house.model.script(vec![
        says(format!("/v1/files/{batch}"), &batch),
        says(format!("/v1/batches/{batch}"), "batch_of_somebody_else"),
    ]);
    for path in [
        format!("/agents/a/openai/v1/files/{batch}"),
        format!("/agents/a/anthropic/v1/batches/{batch}"),
        format!("/agents/a/openai/v1/batches/{batch}"),
    ] {
        assert!(get(&house, &path).text().contains("completed"), "{path}");
        assert_eq!(job(&house, &batch).state, BackgroundState::Running, "{path}");
    }
    house.model.script(vec![says(format!("/v1//%62atches/{batch}"), &batch)]);
    // However the agent's name and the path are spelled.
    get(&house, &format!("/agents/A/openai/v1//%62atches/{batch}"));
    assert_eq!(house.engine().jobs.view().jobs.len(), 0);
}

#[test]
fn ks_11_work_is_cancelled_by_its_plain_path_and_its_agents_own_name() {
    let house = house();
    let batch = id(&post(&house, "/agents/a/openai/v1/batches", BATCH));
    // A provider that decodes paths.
    house.model.script(vec![Rule {
        when: Match { path: Some("/v1/%62atches".to_owned()), ..Match::default() },
        reply: Said {
            status: Some(200),
            body: Some(r#"{"id":"batch_2","status":"validating"}"#.to_owned()),
            ..Said::default()
        },
        ..Rule::default()
    }]);
    let other = id(&post(&house, "/agents/A/openai/v1/%62atches", BATCH));
    assert_eq!(&*job(&house, &other).agent, "a");
    let agent = house.engine().agent("a").unwrap();
    house.engine().apply(&agent, None, EventKind::AgentDeactivated { by: "test".into() });
    until(&house, &batch, "cancelled");
    wait("the provider is asked", || cancelled(&house, &format!("/v1/batches/{batch}/cancel")));
    wait("the provider is asked", || cancelled(&house, &format!("/v1/batches/{other}/cancel")));
}

#[test]
fn ks_11_work_that_could_not_be_cancelled_does_not_begin() {
    let house = house();
    for path in [format!("/v1/{}/batches", "x".repeat(1_100)), "/v1/%3Fx/batches".to_owned()] {
        let reply = post_with(house.address(), &format!("/agents/a/openai{path}"), "", BATCH);
        assert_eq!(reply.status, 400, "{}", reply.text());
        assert!(reply.text().contains("could not cancel"), "{}", reply.text());
    }
    assert_eq!(house.model.requests(), 0);
}

#[test]
fn ks_11_a_provider_that_fails_is_tried_again_and_one_that_refuses_is_not() {
    let house = house();
    let flaky = id(&post(&house, "/agents/a/openai/v1/batches", BATCH));
    let refused = id(&post(&house, "/agents/a/openai/v1/batches", BATCH));
    let over = id(&post(&house, "/agents/a/openai/v1/responses", QUICK));
    // It ends at the provider, where estop does not see it.
    let direct = std::net::TcpStream::connect(house.model.addr()).unwrap();
    let mut wire = Wire::on(direct);
    wire.send(format!("GET /v1/responses/{over} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes());
    assert!(wire.reply().text().contains("completed"));
    let rule = |id: &str, status: u16, times: Option<u64>| Rule {
        when: Match { path: Some(format!("/v1/batches/{id}/cancel")), ..Match::default() },
        times,
        reply: Said { status: Some(status), ..Said::default() },
    };
    house.model.script(vec![rule(&flaky, 503, Some(1)), rule(&refused, 403, None)]);
    kill(&house, Channels::ALL);
    until(&house, &flaky, "cancelled");
    let BackgroundState::NotCancelled(why) = until(&house, &refused, "not_cancelled").state else { panic!() };
    assert!(why.contains("403"), "{why}");
    until(&house, &over, "ended");
    let tries =
        house.model.seen().iter().filter(|seen| seen.path.contains(&format!("{refused}/cancel"))).count();
    assert_eq!(tries, 1);
}

#[test]
fn ks_11_work_whose_id_was_not_seen_is_listed() {
    let house = house();
    let hold = Rule { reply: Said { hold: Some(Hold::Headers), ..Said::default() }, ..Rule::default() };
    house.model.script(vec![hold]);
    let mut wire = Wire::open(house.address());
    wire.post("/agents/a/openai/v1/batches", "", BATCH);
    wait("it is sent", || (house.model.requests() == 1).then_some(()));
    kill(&house, Channels::ALL);
    let listed = wait("it is listed", || house.engine().jobs.view().jobs.pop());
    let BackgroundState::NotCancelled(why) = listed.state else { panic!("{listed:?}") };
    assert!(why.contains("did not see its id"), "{why}");
}

#[test]
fn po_2_a_background_response_is_settled_when_its_result_is_polled() {
    let house = house();
    let response = id(&post(&house, "/agents/a/openai/v1/responses", QUICK));
    let agent = house.engine().agent("a").unwrap();
    assert_eq!(agent.lock_state().state.in_flight(), 1, "what it reserved stays reserved");
    assert!(agent.lock_state().state.budget().reserved().tokens > 0);
    get(&house, &format!("/agents/a/openai/v1/responses/{response}"));
    let usage = house.find(|record| match what(record) {
        Some(EventKind::ResponseCompleted(done)) if done.usage.output_tokens > 0 => Some(done.usage),
        _ => None,
    });
    let usage = usage.expect("it is booked");
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.estimated), (1_000, 2_000, false));
    let judged = agent.lock_state();
    assert_eq!((judged.state.in_flight(), judged.state.budget().spent_today().tokens), (0, 3_000));
    drop(judged);
    // Polled again, nothing is booked twice.
    get(&house, &format!("/agents/a/openai/v1/responses/{response}"));
    assert_eq!(agent.lock_state().state.budget().spent_today().tokens, 3_000);
}

#[test]
fn po_2_a_cancelled_background_response_is_settled_at_what_was_reserved() {
    let house = house();
    let response = id(&post(&house, "/agents/a/openai/v1/responses", HELD));
    let agent = house.engine().agent("a").unwrap();
    let reserved = agent.lock_state().state.budget().reserved().tokens;
    kill(&house, Channels::ALL);
    until(&house, &response, "cancelled");
    wait("it is settled", || (agent.lock_state().state.in_flight() == 0).then_some(()));
    assert_eq!(agent.lock_state().state.budget().spent_today().tokens, reserved);
}
