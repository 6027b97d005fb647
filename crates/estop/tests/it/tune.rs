//! `estop tune` on recorded traffic (LD-7): what it shows, what it proposes, and that it writes nothing unless somebody says so.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Value, json};

use crate::house::{House, ask_with, until};
use crate::ran::Ran;

/// Judged under the other profile these runs would not be stopped: a check every 15 s that in the end brings something.
fn write_traces(house: &House) {
    let call = json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "check_ci", "arguments": "{}"}}]});
    let result = |text: &str| json!({"role": "tool", "tool_call_id": "c", "content": text});
    let mut messages =
        vec![json!({"role": "user", "content": "Deploy it when the checks are through."}), call.clone()];
    for _ in 0..7 {
        messages.extend([result("pipeline is running"), call.clone()]);
    }
    messages.push(result("all 41 checks have passed on commit nine, deployed to production"));
    messages.push(json!({"role": "assistant", "content": "It is deployed."}));
    let at: Vec<u32> = (0..9).map(|request| request * 15).collect();
    let trace = json!({"id": "deployer", "source": "test", "license": "MIT", "label": "healthy", "label_basis": "made up",
        "format": "openai-chat", "meta": {"at": at}, "messages": messages});
    std::fs::write(house.folder.path().join("traces.jsonl"), format!("{trace}\n")).unwrap();
    std::fs::write(house.folder.path().join("watch.yaml"), "policy: {kill_switch_enabled: false}\n").unwrap();
    let eval = ["eval", "traces.jsonl", "--policy", "watch.yaml", "--journal", "j.jsonl"];
    assert!(house.run(&eval).0);
}

fn agent(ran: &Ran, name: &str) -> Value {
    let agents = ran.json()["agents"].as_array().unwrap().clone();
    agents.into_iter().find(|agent| agent["agent"] == name).unwrap()
}

#[test]
fn ld_7_tune_names_the_profile_that_spares_a_wait_for_ci() {
    let house = House::new("");
    write_traces(&house);
    let shown = house.estop_reading_plain(&["tune", "--journal", "j.jsonl"], "y\n");
    shown.is(0, "Today: profile coding, threshold 10; loops are only watched.");
    for part in [
        "estop cannot know which runs were healthy.",
        "request 6 of its run",
        "Loop: the same action with the same result 5 times in a row. Tool: check_ci",
        "Afterwards the run brought something new and ended by itself: healthy.",
        "Proposal: `profile: ops`. `profile: coding` at 10 stops 1 run that look",
        "\"deployer\":\n    policy:\n      profile: ops",
    ] {
        assert!(shown.out.contains(part), "not `{part}`: {}", shown.out);
    }
    let told = agent(&house.estop_reading_plain(&["tune", "--journal", "j.jsonl", "--json"], ""), "deployer");
    assert_eq!(told["proposal"]["change"], json!({"profile": "ops"}));
    assert_eq!((&told["requests"], &told["runs"], &told["written"]), (&json!(9), &json!(1), &json!(false)));
    let settings = told["settings"].as_array().unwrap();
    let of = |profile: &str, threshold: u64| {
        settings.iter().find(|s| s["profile"] == profile && s["threshold"] == threshold).unwrap().clone()
    };
    assert_eq!(settings.len(), 16);
    let coding = of("coding", 10);
    assert_eq!((&coding["stops"], &coding["healthy"], &coding["unclear"]), (&json!(1), &json!(1), &json!(0)));
    assert_eq!(
        (&coding["newest"][0]["tool"], &coding["newest"][0]["request"]),
        (&json!("check_ci"), &json!(6))
    );
    assert_eq!(of("ops", 10)["stops"], 0);
    // A journal that was changed is judged by nobody, and an exported one is not written back.
    let journal = std::fs::read_to_string(house.folder.path().join("j.jsonl")).unwrap();
    let changed = journal.replace("\"request\":3", "\"request\":4");
    std::fs::write(house.folder.path().join("changed.jsonl"), changed).unwrap();
    house
        .estop_reading_plain(&["tune", "--journal", "changed.jsonl"], "")
        .is(1, "no journal that can be judged");
    house.estop_reading_plain(&["tune", "--journal", "j.jsonl", "--yes"], "").is(2, "--yes");
    house
        .estop_reading_plain(&["tune", "--journal", "j.jsonl", "--agent", "nobody"], "")
        .is(1, "no records of nobody");
}

#[test]
fn ld_7_tune_writes_over_what_was_set_and_only_when_told_to() {
    let house = House::new("watchdog: {scope: off}");
    house.estop(&["tune"]).is(2, "there is no journal");
    let estop = house.start();
    // Numbers are taken out of what is compared, letters are not. Shorter runs would say nothing: no loop was possible.
    for (run, other) in ('a'..='v').flat_map(|run| ('a'..='e').map(move |other| (run, other))) {
        let prompt = format!("What does the word {run}n{other}t{run} mean?");
        let header = format!("x-estop-run: run-{run}\r\n");
        assert_eq!(ask_with(estop.address, "coder", &prompt, &header).unwrap().0, 200);
    }
    assert_eq!(estop.ask("helper", "A title for this, please.").unwrap().0, 200);
    for _ in 0..14 {
        assert_eq!(estop.ask("looper", "Is the build done?").unwrap().0, 200);
    }
    house.estop(&["agents", "kill-switch", "coder", "--window", "33"]).is(0, "window 33");
    let rules = |agent: &str| {
        let (_, said) = house.owner("GET", &format!("/api/agents/{agent}/policy"), "");
        serde_json::from_str::<Value>(&said).unwrap()["overrides"].clone()
    };
    let (status, said) =
        house.owner("PATCH", "/api/agents/coder/policy", &json!({"budget": {"usd_per_day": 5}}).to_string());
    assert_eq!(status, 200, "{said}");
    let before = rules("coder");
    // Nobody sits here: it shows, and writes nothing.
    let shown = house.estop_reading(&["tune"], "y\ny\n");
    shown.is(0, "coder: nothing was written. `estop tune --agent coder --yes` writes it.");
    assert!(
        shown.out.contains("Today: profile coding, threshold 10; loops are only watched."),
        "{}",
        shown.out
    );
    assert!(shown.out.contains("whose health nobody knows"), "{}", shown.out);
    assert!(!shown.err.contains("[y/N]"), "{}", shown.err);
    assert_eq!((rules("coder"), rules("looper")), (before, json!({})));
    house.estop(&["tune", "--agent", "CODER", "--yes"]).is(0, "coder: written.");
    let after =
        json!({"kill_switch_enabled": true, "kill_switch_window_size": 33, "budget": {"usd_per_day": 5}});
    assert_eq!(rules("coder"), after, "what was set before stays");
    // What is in doubt is not switched on, whoever says yes.
    let told = house.estop(&["tune", "--yes", "--json"]);
    let (coder, looper) = (agent(&told, "coder"), agent(&told, "looper"));
    assert_eq!((&coder["enabled"], &coder["proposal"]["change"]), (&json!(true), &json!({})));
    assert_eq!(
        (&looper["enabled"], &looper["written"], rules("looper")),
        (&json!(false), &json!(false), json!({}))
    );
    estop.kill_9();
    until("no estop", || !house.data().join("estop.sock").exists() || house.estop(&["status"]).code == 3);
    house.estop(&["tune"]).is(0, "coder: 110 requests; 22 runs, 22 of which ended by themselves");
}
