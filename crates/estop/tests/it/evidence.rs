//! What a person sees of a stop (EV-1): the tool, its arguments, the steps, what they cost; and where none of it may be.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::house::{Estop, House, PATIENCE, wait_for};

const LOOPS: &str = "policy: {kill_switch_enabled: true}\nunknown_agents: allow";
const SECRET: &str = "sk-ant-api03-Canary0123456789Canary";
const TASK: &str = "canary-task-Lq8w";
const RESULT: &str = "canary-result-Zx5c";

/// Sends a conversation as a client with tools does; the status.
fn converse(estop: &Estop, agent: &str, messages: &[Value]) -> u16 {
    let body = json!({"model": "gpt-4o-mini", "max_tokens": 50, "messages": messages}).to_string();
    let mut stream = TcpStream::connect(estop.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "POST /agents/{agent}/openai/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

/// An agent that asks for the same weather until it is stopped; the id of its incident, once its steps are written.
fn stopped(house: &House, estop: &Estop, agent: &str) -> String {
    stopped_with(house, estop, agent, |incident| {
        incident["evidence_stored_at"].is_string()
            || incident["steps_missing"].as_str().is_some_and(|why| why.contains("evidence: off"))
    })
}

/// The same, once the incident is as it should be.
fn stopped_with(house: &House, estop: &Estop, agent: &str, is_ready: impl Fn(&Value) -> bool) -> String {
    let args = json!({"city": "Berlin", "note": format!("use {SECRET}"), "markup": "<script>alert(1)</script>\u{202e}"});
    let mut messages = vec![json!({"role": "user", "content": TASK})];
    let is_stopped = (0..30).any(|n| {
        let status = converse(estop, agent, &messages);
        let call = json!({"id": format!("c{n}"), "type": "function",
            "function": {"name": "get_weather", "arguments": args.to_string()}});
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        messages.push(json!({"role": "tool", "tool_call_id": format!("c{n}"), "content": RESULT}));
        status != 200
    });
    assert!(is_stopped, "the loop was not stopped");
    wait_for("an incident with its steps", || {
        let list = house.estop(&["incidents", "list", "--agent", agent, "--json"]).json();
        let id = list["incidents"].get(0)?["id"].as_str()?.to_owned();
        let (_, incident) = house.owner("GET", &format!("/api/incidents/{id}"), "");
        let incident: Value = serde_json::from_str(&incident).unwrap();
        is_ready(&incident).then_some(id)
    })
}

fn incident(house: &House, id: &str) -> Value {
    let (status, incident) = house.owner("GET", &format!("/api/incidents/{id}"), "");
    assert_eq!(status, 200, "{incident}");
    serde_json::from_str(&incident).unwrap()
}

/// Files under a folder that hold a text.
fn holding(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holding(&path, text));
        } else if let Ok(bytes) = std::fs::read(&path)
            && bytes.windows(text.len()).any(|part| part == text.as_bytes())
        {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn ev_1_an_incident_names_the_tool_its_arguments_the_steps_and_what_they_cost() {
    let house = House::new(LOOPS);
    let estop = house.start();
    let id = stopped(&house, &estop, "coder");
    let shown = incident(&house, &id);
    let sentence = shown["sentence"].as_str().unwrap();
    for part in ["coder called get_weather(", "Berlin", "5 times", RESULT] {
        assert!(sentence.contains(part), "{part}: {sentence}");
    }
    assert_eq!(shown["task"]["text"], TASK);
    assert_eq!(shown["evidence_mode"], "redacted");
    let steps = shown["steps"].as_array().unwrap();
    assert!(steps.len() >= 5, "{shown}");
    let last = steps.last().unwrap();
    assert_eq!((&last["end"], &last["did"][0]["tool"]), (&json!("refused"), &json!("get_weather")));
    assert_eq!(last["counts"], json!(["tool call"]));
    assert_eq!(last["did"][0]["result"]["text"], RESULT);
    let counting = steps.iter().filter(|step| !step["counts"].as_array().unwrap().is_empty());
    assert_eq!(counting.count(), 5, "{shown}");
    assert!(shown["cost"]["tokens"].as_u64().unwrap() > 0, "{shown}");
    let text = shown.to_string();
    assert!(!text.contains("Canary0123456789") && text.contains("[masked:key:"), "{text}");
    assert!(shown["what_to_do"].to_string().contains("agents activate coder"), "{shown}");

    let printed = house.estop(&["incidents", "show", &id]);
    for part in ["coder called get_weather(", "What to do:", "agents activate coder", "* ", RESULT, TASK] {
        printed.is(0, part);
    }
    assert!(!printed.out.contains(['\u{202e}', '\u{1b}']), "{}", printed.out);
    for text in [SECRET, "Canary0123456789"] {
        assert_eq!(holding(house.folder.path(), text), [""; 0], "{text}");
    }
    for text in [TASK, RESULT, "get_weather("] {
        assert_eq!(holding(&house.data().join("journal"), text), [""; 0], "{text}");
    }

    let asked = house.estop(&["incidents", "delete-evidence", &id]);
    asked.is(2, "no terminal to ask on: nothing was deleted").is(2, "--yes");
    assert_ne!(incident(&house, &id)["steps"], json!([]));
    let deleted = house.estop(&["incidents", "delete-evidence", &id, "--yes"]);
    deleted.is(0, "Deleted the steps");
    assert_eq!(format!("{}{}", deleted.out, deleted.err).matches("eleted").count(), 1, "{}", deleted.out);
    let shown = incident(&house, &id);
    assert_eq!(shown["steps"], json!([]));
    assert!(shown["steps_missing"].as_str().unwrap().contains("deleted by owner"), "{shown}");
    house.estop(&["incidents", "show", &id]).is(0, "deleted by owner");
    estop.end();
    for text in [TASK, RESULT] {
        assert_eq!(holding(&house.data(), text), [""; 0], "{text} is left after the steps were deleted");
    }
}

#[test]
fn ev_1_off_keeps_nothing_and_full_is_not_for_everybody() {
    let house = House::new(
        "policy: {kill_switch_enabled: true, evidence: full}\nunknown_agents: allow\n\
         agents: {quiet: {policy: {evidence: off}}}",
    );
    let estop = house.start();
    let id = stopped(&house, &estop, "quiet");
    let shown = incident(&house, &id);
    assert_eq!((&shown["steps"], &shown["evidence_mode"]), (&json!([]), &Value::Null));
    assert!(shown["steps_missing"].as_str().unwrap().contains("evidence: off"), "{shown}");
    assert_eq!(holding(house.folder.path(), RESULT), [""; 0]);

    let id = stopped(&house, &estop, "loud");
    let shown = incident(&house, &id);
    assert_eq!(shown["evidence_mode"], "full");
    assert!(shown["steps"].to_string().contains(SECRET), "{shown}");
    let token = |role: &str| {
        let made = house.estop(&["token", "create", "--name", role, "--role", role, "--json"]).json();
        made["token"].as_str().unwrap().to_owned()
    };
    let seen_by = |token: &str| house.owner_with(Some(token), "GET", &format!("/api/incidents/{id}"), "").1;
    let (viewer, operator) = (token("viewer"), token("operator"));
    assert!(seen_by(&operator).contains(SECRET));
    let seen = seen_by(&viewer);
    assert!(
        !seen.contains(SECRET) && !seen.contains(TASK) && seen.contains("operators and admins"),
        "{seen}"
    );
    let path = format!("/api/incidents/{id}/evidence");
    for token in [&viewer, &operator] {
        assert_eq!(house.owner_with(Some(token), "DELETE", &path, "").0, 403);
    }
    assert_eq!(house.owner("DELETE", &path, "").0, 204);
    assert_eq!(house.owner("DELETE", "/api/incidents/none/evidence", "").0, 404);
}

/// What `python3` does with the database of a running estop.
fn sql(house: &House, statement: &str) {
    let run = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute(sys.argv[2]); c.commit()";
    let database = house.data().join("estop.db");
    let done = Command::new("python3").args(["-c", run]).arg(database).arg(statement).output().unwrap();
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn ev_1_a_stop_whose_steps_cannot_be_saved_holds_and_says_so() {
    let house = House::new(LOOPS);
    let (estop, heard) = house.start_heard();
    sql(
        &house,
        "CREATE TRIGGER fails BEFORE INSERT ON evidence BEGIN SELECT RAISE(ABORT, 'a test says no'); END",
    );
    let mut messages = vec![json!({"role": "user", "content": TASK})];
    let statuses: Vec<u16> = (0..30)
        .map(|n| {
            let call = json!({"id": format!("c{n}"), "type": "function",
                "function": {"name": "get_weather", "arguments": "{}"}});
            let status = converse(&estop, "coder", &messages);
            messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
            messages.push(json!({"role": "tool", "tool_call_id": format!("c{n}"), "content": RESULT}));
            status
        })
        .collect();
    let refused = statuses.iter().position(|status| *status != 200).expect("the loop was not stopped");
    assert!(statuses[refused..].iter().all(|status| *status == 400), "the stop holds: {statuses:?}");

    let said = wait_for("an incident that says that its steps are not saved", || {
        let list = house.estop(&["incidents", "list", "--agent", "coder", "--json"]).json();
        let id = list["incidents"].get(0)?["id"].as_str()?.to_owned();
        let said = incident(&house, &id)["steps_missing"].as_str()?.to_owned();
        said.contains("could not be saved").then_some((id, said))
    });
    let (id, said) = said;
    assert!(said.starts_with("Evidence could not be saved: ") && said.contains("a test says no"), "{said}");
    assert!(said.contains("The agent is stopped all the same; estop tries again"), "{said}");
    house.estop(&["incidents", "show", &id]).is(0, "Evidence could not be saved");
    let page = house.owner("GET", &format!("/incidents/{id}"), "").1;
    assert!(page.contains("Evidence could not be saved"), "{page}");

    sql(&house, "DROP TRIGGER fails");
    wait_for("the steps, once they can be saved", || {
        incident(&house, &id)["evidence_stored_at"].is_string().then_some(())
    });
    let shown = incident(&house, &id);
    assert_eq!(shown["steps"].as_array().unwrap().last().unwrap()["end"], "refused", "{shown}");
    estop.end();
    let log = heard.join().unwrap();
    let told = log.lines().filter(|line| line.contains("evidence could not be saved")).count();
    assert_eq!(told, 1, "said once, however often it is tried: {log}");
    assert!(!log.contains("panicked") && !log.contains(TASK) && !log.contains(RESULT), "{log}");
}

#[test]
fn ev_1_what_was_deleted_while_it_waited_is_not_written_later() {
    let house = House::new(LOOPS);
    let estop = house.start();
    let says_no =
        "CREATE TRIGGER fails BEFORE INSERT ON evidence BEGIN SELECT RAISE(ABORT, 'a test says no'); END";
    sql(&house, says_no);
    // Each after the one before: the last of them is written last.
    let [deleted, gone, off, last] = ["deleted", "gone", "off", "last"].map(|agent| {
        stopped_with(&house, &estop, agent, |incident| {
            incident["steps_missing"].as_str().is_some_and(|why| why.contains("a test says no"))
        })
    });
    let path = format!("/api/incidents/{deleted}/evidence");
    assert_eq!(house.owner("DELETE", &path, "").0, 204);
    assert_eq!(house.owner("DELETE", &path, "").0, 404, "there is nothing left to delete");
    house.estop(&["agents", "remove", "gone"]).is(0, "");
    let set = house.owner("PATCH", "/api/agents/off/policy", r#"{"evidence": "off"}"#);
    assert_eq!(set.0, 200, "{}", set.1);
    sql(&house, "DROP TRIGGER fails");
    wait_for("the steps of the last", || {
        incident(&house, &last)["evidence_stored_at"].is_string().then_some(())
    });
    for (id, why) in [
        (&deleted, "owner deleted them while they waited"),
        (&gone, "its agent was deleted while they waited"),
        (&off, "its policy was set to `evidence: off` while they waited"),
    ] {
        let shown = incident(&house, id);
        assert_eq!((&shown["steps"], &shown["evidence_stored_at"]), (&json!([]), &Value::Null), "{shown}");
        assert!(shown["steps_missing"].as_str().unwrap().contains(why), "{why}: {shown}");
    }
    estop.end();
}

#[test]
fn ev_1_what_only_watched_guards_saw_has_its_steps_too() {
    let house = House::new("unknown_agents: allow");
    let estop = house.start();
    let args = json!({"city": "Berlin", "note": format!("use {SECRET}")});
    let mut messages = vec![json!({"role": "user", "content": TASK})];
    for n in 0..8 {
        assert_eq!(converse(&estop, "coder", &messages), 200, "it is only watched");
        let call = json!({"id": format!("c{n}"), "type": "function",
            "function": {"name": "get_weather", "arguments": args.to_string()}});
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        messages.push(json!({"role": "tool", "tool_call_id": format!("c{n}"), "content": RESULT}));
    }
    // Steps of hooks that bring nothing new: its agent is told so before it would be stopped.
    for n in 0..20 {
        let asks = json!({"agent": "hooked", "run": "r", "tool": "bash", "call": format!("c{n}"),
            "args": {"command": "make"}});
        house.owner("POST", "/api/hooks/pre-tool-use", &asks.to_string());
        let tells = json!({"agent": "hooked", "run": "r", "tool": "bash", "call": format!("c{n}"),
            "result": RESULT, "failed": true});
        house.owner("POST", "/api/hooks/post-tool-use", &tells.to_string());
    }
    for (agent, kind, says) in [
        ("coder", "would_have_stopped", "coder would have been stopped by the guard "),
        ("hooked", "nudged", "hooked was told that it repeats itself. "),
    ] {
        let (seq, shown) = wait_for(kind, || {
            let (_, events) = house.owner("GET", &format!("/api/events?agent={agent}&type={kind}"), "");
            let events: Value = serde_json::from_str(&events).unwrap();
            let oldest = events["events"].as_array()?.last()?["seq"].as_u64()?;
            let (status, shown) = house.owner("GET", &format!("/api/events/{oldest}/evidence"), "");
            let shown: Value = serde_json::from_str(&shown).unwrap();
            (status == 200 && shown["evidence_stored_at"].is_string()).then_some((oldest, shown))
        });
        assert!(shown["sentence"].as_str().unwrap().starts_with(says), "{shown}");
        assert_eq!((&shown["agent"], &shown["event_type"]), (&json!(agent), &json!(kind)));
        let steps = shown["steps"].as_array().unwrap();
        assert!(steps.len() >= 2 && steps.iter().all(|step| step["end"] != "refused"), "{shown}");
        assert_eq!(steps.last().unwrap()["did"][0]["result"]["text"], RESULT, "{shown}");
        assert!(!shown.to_string().contains("Canary0123456789"), "{shown}");
        house.estop(&["journal", "steps", &seq.to_string()]).is(0, RESULT);
        let (status, page) = house.owner("GET", &format!("/events/{seq}"), "");
        assert!(status == 200 && page.contains(RESULT) && page.contains("Delete the steps"), "{page}");
        let listed = house.owner("GET", &format!("/journal?type={kind}"), "").1;
        assert!(listed.contains(&format!("href=\"/events/{seq}\"")), "{listed}");

        let path = format!("/api/events/{seq}/evidence");
        assert_eq!(house.owner("DELETE", &path, "").0, 204);
        let shown: Value = serde_json::from_str(&house.owner("GET", &path, "").1).unwrap();
        assert!(shown["steps_missing"].as_str().unwrap().contains("deleted by owner"), "{shown}");
    }
    assert_eq!(house.owner("GET", "/api/events/1/evidence", "").0, 404);
    let incidents = house.estop(&["incidents", "list", "--json"]).json();
    assert_eq!(incidents["incidents"], json!([]), "nobody was stopped");
    assert_eq!(holding(&house.data().join("journal"), RESULT), [""; 0]);
    estop.end();
}

#[test]
fn ev_1_a_pattern_is_muted_by_the_command_and_counts_again() {
    let house = House::new(LOOPS);
    let estop = house.start();
    let id = stopped(&house, &estop, "coder");
    house
        .estop(&["incidents", "mute", &id])
        .is(0, "Calls of get_weather by agent coder do not count as repetition from here on.")
        .is(0, &format!("estop incidents unmute {id}"))
        .is(0, "deactivated");
    house.estop(&["incidents", "mute", &id]).is(0, "Nothing was changed.");
    house.estop(&["incidents", "show", &id]).is(0, "noted by owner: Calls of get_weather do not count");
    wait_for("the change is journaled", || {
        let changed = house.estop(&["journal", "events", "--agent", "coder", "--type", "policy_changed"]);
        changed.out.contains("by=owner").then_some(())
    });
    assert_eq!(converse(&estop, "coder", &[json!({"role": "user", "content": "Go on."})]), 400);
    house.estop(&["agents", "activate", "coder"]).is(0, "reactivated");
    let repeats = || {
        let mut messages = vec![json!({"role": "user", "content": TASK})];
        (0..8).all(|n| {
            let call = json!({"id": format!("c{n}"), "type": "function",
                "function": {"name": "get_weather", "arguments": "{}"}});
            messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
            messages.push(json!({"role": "tool", "tool_call_id": format!("c{n}"), "content": RESULT}));
            converse(&estop, "coder", &messages) == 200
        })
    };
    assert!(repeats(), "what is muted is no loop");
    house.estop(&["incidents", "unmute", &id]).is(0, "by agent coder count as repetition again.");
    assert!(!repeats(), "it counts again");
    house.estop(&["journal", "events", "--guard", "loop", "--since", "1h"]).is(0, "kill_switch");
    house.estop(&["journal", "events", "--guard", "loop", "--until", "1h"]).is(0, "No matching events.");
    house.estop(&["journal", "events", "--guard", "lop"]).is(1, "must be the name of a guard: ");
    house.estop(&["incidents", "mute", "coder-0"]).is(1, "There is no incident");
    estop.end();
}

#[test]
fn ev_1_a_loop_of_an_agent_that_acts_in_its_answers_reads_like_one() {
    let house = House::new(LOOPS);
    let estop = house.start();
    let mut messages = vec![json!({"role": "user", "content": "Find the key."})];
    let is_stopped = (0..30).any(|n| {
        let status = converse(&estop, "react", &messages);
        let thought = ["Perhaps there.", "Once more.", "It must be there.", "Again."][n % 4];
        let said = format!("Thought: {thought}\nAction: search[cellar]");
        messages.push(json!({"role": "assistant", "content": said}));
        messages.push(json!({"role": "user", "content": "Observation: the cellar is empty."}));
        status != 200
    });
    assert!(is_stopped, "the loop was not stopped");
    let id = wait_for("an incident with its steps", || {
        let list = house.estop(&["incidents", "list", "--agent", "react", "--json"]).json();
        let id = list["incidents"].get(0)?["id"].as_str()?.to_owned();
        incident(&house, &id)["evidence_stored_at"].is_string().then_some(id)
    });
    let shown = incident(&house, &id);
    let sentence = shown["sentence"].as_str().unwrap();
    for part in [
        "react did “search[cellar]” ",
        "times in its answers, and was told “Observation: the cellar is empty.”",
    ] {
        assert!(sentence.contains(part), "{part}: {sentence}");
    }
    let last = shown["steps"].as_array().unwrap().last().unwrap();
    assert!(last["counts"].as_array().unwrap().contains(&json!("action")), "{last}");
    let printed = house.estop(&["incidents", "show", &id]);
    for part in ["it had answered: Thought: ", "and was told: Observation: the cellar is empty.", "action)"] {
        printed.is(0, part);
    }
    let (_, page) = house.owner("GET", &format!("/incidents/{id}"), "");
    for part in ["it had answered", "and was told", ", action"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!printed.out.contains("tool call") && !page.contains("an action"), "{}\n{page}", printed.out);
}

#[test]
fn ev_3_an_1_a_refusal_names_its_incident_and_the_same_one_after_a_restart() {
    let house = House::new(LOOPS);
    let estop = house.start();
    let id = stopped(&house, &estop, "coder");
    let says = format!("incident {id} (/incidents/{id} on the dashboard)");
    let refused = estop.ask("coder", "Go on.").unwrap().1;
    assert!(refused.contains(&says), "{refused}");
    house.estop(&["incidents", "show", &id]).is(0, "coder called get_weather(");
    estop.kill_9();
    let estop = house.start();
    let refused = estop.ask("coder", "Go on.").unwrap().1;
    assert!(refused.contains(&says), "{refused}");
    house.estop(&["agents", "activate", "coder"]).is(0, "");
    assert_eq!(estop.ask("coder", "Go on.").unwrap().0, 200);
    house.estop(&["kill"]).is(0, "");
    let refused = estop.ask("coder", "Go on.").unwrap().1;
    let pressed = refused.split("incident ").nth(1).unwrap().split(' ').next().unwrap();
    assert!(pressed.starts_with("system-"), "{refused}");
    let shown = house.estop(&["incidents", "show", pressed]);
    for part in ["Emergency stop of everything", "emergency unlock", "emergency clear"] {
        shown.is(0, part);
    }
    assert!(!shown.out.contains("may work") && !shown.out.contains("system was stopped"), "{}", shown.out);
}
