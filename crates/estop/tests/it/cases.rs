//! Incidents and escalations from the stop to the resolution: commands, API, journal, and a database made anew.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use estop_fake_model::script::{Hold, Reply};
use serde_json::{Value, json};

use crate::house::{self, Estop, House, PATIENCE, wait_for};

const LOOPS: &str = "policy: {kill_switch_enabled: true}";

/// Loops until it is stopped; the newest incident, once it is stored.
fn stopped(estop: &Estop, house: &House, agent: &str, known: usize) -> Value {
    for _ in 0..30 {
        if estop.ask(agent, "Is the build done?").unwrap().0 != 200 {
            break;
        }
    }
    wait_for("the incident", || {
        let found = incidents(house, agent);
        (found.len() > known).then(|| found[0].clone())
    })
}

fn incidents(house: &House, agent: &str) -> Vec<Value> {
    let listed = house.estop(&["incidents", "list", "--agent", agent, "--json"]).json();
    let mut found = listed["incidents"].as_array().cloned().unwrap();
    // Each start has another port.
    found.iter_mut().for_each(|incident| drop(incident["url"].take()));
    found
}

#[test]
fn ev_3_an_incident_goes_from_open_to_resolved_and_a_new_database_shows_the_same() {
    let house = House::new(LOOPS);
    let estop = house.start();
    let first = stopped(&estop, &house, "stuck", 0);
    let id = first["id"].as_str().unwrap();
    house.estop(&["incidents", "ack", id, "--note", "looking at it"]).is(0, "is acknowledged.");
    house.estop(&["incidents", "list", "--status", "acknowledged"]).is(0, id);
    house.estop(&["incidents", "show", id]).is(0, "acknowledged by").is(0, "looking at it");
    house.estop(&["agents", "activate", "stuck"]).is(0, &format!("Resolved with it: incident {id}."));
    house
        .estop(&["incidents", "show", id])
        .is(0, "activated the agent.")
        .is(0, "Dashboard: http://estop.localhost:");
    house
        .estop(&["agents", "activate", "stuck"])
        .is(0, "Nothing was changed: agent stuck was active already.");
    house
        .estop(&["incidents", "resolve", id])
        .is(0, &format!("Nothing was changed: {id} was already resolved."));
    let refused = house.estop(&["incidents", "ack", id]);
    refused.is(1, "was resolved by").is(1, &format!("estop incidents reopen {id}"));
    assert_eq!(house.owner("PATCH", &format!("/api/incidents/{id}"), r#"{"status":"acknowledged"}"#).0, 409);
    house.estop(&["incidents", "show", id]).is(0, "Status: resolved");
    house.estop(&["incidents", "reopen", id]).is(0, "is open.");
    house.estop(&["incidents", "resolve", id]).is(0, "is resolved.");
    house.estop(&["incidents", "show", ""]).is(2, "a value is required");
    house.estop(&["journal", "events", "--type", "bogus"]).is(1, "would_have_stopped");

    let second = stopped(&estop, &house, "stuck", 1);
    assert_eq!(second["earlier"], first["id"], "it is reopened within the hour");
    let again = second["id"].as_str().unwrap();
    let canary = "sk-proj-4f9aB7cD2eF6gH1jK3mN5pQ8rS0tU";
    house
        .estop(&["incidents", "resolve", again, "--note", &format!("key was {canary}")])
        .is(0, "is resolved.");
    assert_eq!(estop.ask("stuck", "Something else").unwrap().0, 400, "resolving releases nothing");
    house.estop(&["kill", "--note", "drill"]).is(0, "");
    let pressed = wait_for("the button's incident", || incidents(&house, "system").pop());
    assert_eq!(pressed["status"], "open");
    house.estop(&["incidents", "show", "nothing-1"]).is(1, "There is no incident");

    // What the agent said is in no journal.
    let facts = || {
        let mut found = incidents(&house, "stuck");
        found.iter_mut().for_each(|incident| drop(incident["sentence"].take()));
        found
    };
    let before = facts();
    let shown = before[0]["resolution"].as_str().unwrap();
    assert!(shown.starts_with("key was ") && !shown.contains(canary), "secrets are masked: {shown}");
    estop.end();
    house.estop(&["journal", "reindex"]).is(0, "");
    let estop = house.start();
    assert_eq!(facts(), before, "the journal has it all");
    assert_eq!(incidents(&house, "system"), [pressed]);
    estop.end();
    house.verified();
}

#[test]
fn ev_3_clearing_the_emergency_stop_resolves_its_incident() {
    let house = House::new("");
    let estop = house.start();
    house.estop(&["kill", "--note", "drill"]).is(0, "");
    let pressed = wait_for("the button's incident", || incidents(&house, "system").pop());
    assert!(pressed["summary"].as_str().is_some_and(|text| text.contains("everything")), "{pressed}");
    let id = pressed["id"].as_str().unwrap();
    let refused = house.estop(&["incidents", "resolve", id]);
    refused.is(1, "cannot be resolved while the emergency stop is in force").is(1, "estop emergency unlock");
    assert_eq!(incidents(&house, "system")[0]["status"], "open");
    for step in ["restart", "clear"] {
        house.estop(&["emergency", step]).is(0, "");
    }
    let cleared = wait_for("its end", || {
        incidents(&house, "system").pop().filter(|incident| incident["status"] == "resolved")
    });
    assert!(cleared["resolution"].as_str().is_some_and(|text| text.ends_with("cleared the emergency stop.")));
    estop.end();
}

#[test]
fn ev_1_the_incident_of_the_button_says_which_requests_it_ended_also_in_a_new_database() {
    let house = House::new("");
    house.model.always(Reply { hold: Some(Hold::Headers), ..Reply::default() });
    let estop = house.start();
    let asked: Vec<_> = ["coder", "coder", "writer"]
        .into_iter()
        .enumerate()
        .map(|(n, agent)| {
            let address = estop.address;
            let asked = std::thread::spawn(move || house::ask(address, agent, &format!("number {n}")));
            assert!(house.model.wait_for_requests(n as u64 + 1, PATIENCE));
            asked
        })
        .collect();
    house.estop(&["kill", "--note", "drill"]).is(0, "");
    let says = "drill. 3 requests to models were in progress and ended: coder 2, writer 1.";
    let sentence = |house: &House| {
        let pressed = wait_for("the button's incident", || incidents(house, "system").pop());
        house.estop(&["incidents", "show", pressed["id"].as_str().unwrap()]).is(0, says);
        pressed["sentence"].as_str().unwrap().to_owned()
    };
    let before = sentence(&house);
    assert!(before.ends_with(says), "{before}");
    asked.into_iter().for_each(|asked| drop(asked.join().unwrap()));
    estop.end();
    house.estop(&["journal", "reindex"]).is(0, "");
    let estop = house.start();
    assert_eq!(sentence(&house), before, "the journal has it all");
    estop.end();
}

#[test]
fn ev_3_an_escalation_is_assigned_and_resolved() {
    let house = House::new("circuit_breakers: {defaults: {max_tool_calls: 2}}");
    let estop = house.start();
    // The run reaches its limit, and reports.
    for (hook, call, tool) in
        [("pre", 1, "x"), ("pre", 2, "x"), ("pre", 9, "report_complete"), ("post", 9, "report_complete")]
    {
        let body =
            json!({"agent": "coder", "run": "job", "call": call.to_string(), "tool": tool, "result": "done"});
        house.owner("POST", &format!("/api/hooks/{hook}-tool-use"), &body.to_string());
    }
    let id = wait_for("the escalation", || {
        let listed = house.estop(&["escalations", "list", "--json"]).json();
        listed["escalations"][0]["id"].as_str().map(str::to_owned)
    });
    house.estop(&["escalations", "assign", &id, "eve", "--note", "her branch"]).is(0, "is assigned to eve.");
    house
        .estop(&["escalations", "show", &id])
        .is(0, "Owner: eve")
        .is(0, "assigned to eve by")
        .is(0, "her branch");
    house.estop(&["escalations", "resolve", &id, "--note", "done by hand"]).is(0, "is resolved.");
    house.estop(&["escalations", "list", "--status", "unresolved"]).is(0, "Nothing needs a human.");
    house.estop(&["escalations", "show", "nothing-1"]).is(1, "There is no escalation");
    estop.end();
}
