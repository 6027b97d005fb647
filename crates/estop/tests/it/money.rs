//! Money over the real binary: the budget of all agents, what spend is for, models that may be asked, and snoozes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::house;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::house::{Estop, House, ask_with, wait_for};
use estop_store::{EventFilter, Journal, Ledger, RunRepo, SpendBy, SpendQuery, SpendSum};
use serde_json::{Value, json};

fn get(house: &House, path: &str) -> Value {
    let (status, body) = house.owner("GET", path, "");
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

fn post(house: &House, path: &str, body: &Value) -> (u16, Value) {
    let (status, said) = house.owner("POST", path, &body.to_string());
    (status, serde_json::from_str(&said).unwrap_or_default())
}

fn fleet(house: &House) -> Value {
    get(house, "/api/spend")["fleet"].clone()
}

/// One sum for each key, once what was asked is stored.
fn sums(house: &House, by: &str, requests: u64) -> Vec<(String, u64)> {
    wait_for(&format!("spend by {by}"), || {
        let answer = get(house, &format!("/api/spend?by={by}"));
        let of = |sum: &Value| (sum["key"].as_str().unwrap().to_owned(), sum["requests"].as_u64().unwrap());
        let mut sums: Vec<(String, u64)> = answer["spend"].as_array().unwrap().iter().map(of).collect();
        sums.sort();
        let count: u64 = sums.iter().map(|(_, requests)| requests).sum();
        (count >= requests).then_some(sums)
    })
}

fn whole(store: &impl Ledger) -> SpendSum {
    let by_role = SpendQuery { by: SpendBy::Role, from_day: 0, to_day: i32::MAX, agent: None, limit: 500 };
    store.spend(&by_role).unwrap().into_iter().fold(SpendSum::default(), |mut all, group| {
        all.requests += group.sum.requests;
        all.input_tokens += group.sum.input_tokens;
        all.output_tokens += group.sum.output_tokens;
        all.usd.0 += group.sum.usd.0;
        all.estimated += group.sum.estimated;
        all
    })
}

fn tokens(sum: &SpendSum) -> u64 {
    sum.input_tokens + sum.output_tokens
}

/// Asks until it is refused: how often it passed, and what was said then.
fn ask_until_refused(estop: &Estop, agents: &[&str]) -> (u64, String) {
    for passed in 0..500 {
        let agent = agents[passed % agents.len()];
        let (status, said) = estop.ask(agent, &format!("Question number {passed}")).unwrap();
        if status != 200 {
            return (passed as u64, said);
        }
    }
    (500, String::new())
}

#[test]
fn po_2_two_agents_share_the_budget_of_all_over_kill_9() {
    let house = House::new("budget: {tokens_per_day: 900}");
    let estop = house.start();
    let (passed, said) = ask_until_refused(&estop, &["one", "two"]);
    assert!((2..100).contains(&passed), "{passed} passed: {said}");
    assert!(said.contains("Budget of all agents together, tokens_per_day"), "{said}");
    let seen = house.model.requests();
    let (status, said) = estop.ask("three", "Somebody else").unwrap();
    assert_eq!(status, 400, "{said}");
    assert_eq!(house.model.requests(), seen, "it was not forwarded");
    let before = fleet(&house);
    assert_eq!(before["tokens_per_day"], 900);
    assert_eq!(before["reserved"]["tokens"], 0);
    estop.kill_9();

    let estop = house.start();
    assert_eq!(fleet(&house), before, "recovered exactly");
    assert_eq!(estop.ask("two", "After the restart").unwrap().0, 400);
    // More for all, without a restart.
    house.configure("budget: {tokens_per_day: 100000}");
    wait_for("the new budget", || (fleet(&house)["tokens_per_day"] == 100_000).then_some(()));
    assert_eq!(estop.ask("two", "There is room again").unwrap().0, 200);
    // Neither was told before, and each only once.
    let warnings = get(&house, "/api/events?type=budget_warning");
    let told: Vec<u64> = warnings["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["detail"]["percent"].as_u64().unwrap())
        .collect();
    assert!(told.is_sorted_by(|newer, older| newer > older) && told.contains(&50), "{warnings}");
    assert!(
        warnings["events"].as_array().unwrap().iter().all(|event| event["detail"]["scope"] == "fleet"),
        "{warnings}"
    );
    let after = fleet(&house);
    estop.end();
    house.verified();
    let all = whole(&house.store());
    assert_eq!(after["spent_today"]["tokens"], tokens(&all), "account and sums agree");
    assert_eq!(after["spent_this_month"]["tokens"], tokens(&all));
}

#[test]
fn po_2_in_parallel_nobody_overshoots_the_budget_of_all() {
    let house = House::new("budget: {tokens_per_day: 3000}\nwatchdog: {scope: off}");
    let estop = house.start();
    let address = estop.address;
    std::thread::scope(|scope| {
        for agent in 0..6 {
            scope.spawn(move || {
                for number in 0..30 {
                    house::ask(address, &format!("a{agent}"), &format!("Agent {agent} asks {number}"));
                }
            });
        }
    });
    let after = fleet(&house);
    let spent = after["spent_today"]["tokens"].as_u64().unwrap();
    // One that named no limit may run alone, and exceed the cap by what it uses itself.
    assert!((100..=3_000 + ONE_ANSWER).contains(&spent), "{after}");
    assert_eq!(after["reserved"]["tokens"], 0, "{after}");
    estop.end();
    assert_eq!(tokens(&whole(&house.store())), spent);
}

/// More tokens than an answer of the fake model has.
const ONE_ANSWER: u64 = 200;

/// A request whose answer is not waited for: it is under way once the model has it.
fn leave_under_way(house: &House, address: SocketAddr, agent: &str, header: &str) -> TcpStream {
    let body =
        json!({"model": "slow", "max_tokens": 700, "messages": [{"role": "user", "content": "Think long"}]});
    let body = body.to_string();
    let head = format!(
        "POST /agents/{agent}/openai/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n{header}\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let seen = house.model.requests();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    wait_for("the model's request", || (house.model.requests() > seen).then_some(()));
    stream
}

#[test]
fn po_2_what_was_under_way_at_kill_9_is_booked_once_in_account_and_sums() {
    under_way_at_kill_9(|house, _| {
        // A stored run says when it began; until then only the tail has its request.
        wait_for("the stored run", || get(house, "/api/runs/a:ticket-9")["started_at"].as_str().map(drop));
    });
}

#[test]
fn po_2_so_is_what_only_the_tail_knows_of() {
    // Whoever is answered has everything before in the tail; the store comes later.
    under_way_at_kill_9(|_, estop| assert_eq!(estop.ask("b", "Hello").unwrap().0, 200));
}

fn under_way_at_kill_9(before_kill: impl Fn(&House, &Estop)) {
    let house = House::new("budget: {tokens_per_day: 100000}");
    let slow = json!({"match": {"model": "slow"}, "reply": {"hold": "headers"}});
    house.model.script(vec![serde_json::from_value(slow).unwrap()]);
    let estop = house.start();
    assert_eq!(estop.ask("a", "Hello").unwrap().0, 200);
    let headers = "x-estop-run: ticket-9\r\nx-estop-issue: acme/shop#9\r\n";
    let waiting = leave_under_way(&house, estop.address, "a", headers);
    before_kill(&house, &estop);
    let tokens_of = |amount: &Value| amount["tokens"].as_u64().unwrap();
    let (all, a) = (fleet(&house), get(&house, "/api/agents/a"));
    let held = tokens_of(&all["reserved"]);
    assert!(held >= 700, "{all}");
    let (all, a) = (tokens_of(&all["spent_today"]) + held, tokens_of(&a["spent_today"]) + held);
    estop.kill_9();
    drop(waiting);

    let estop = house.start();
    let after = fleet(&house);
    assert_eq!(after["reserved"]["tokens"], 0, "{after}");
    assert_eq!(after["spent_today"]["tokens"], all, "{after}");
    assert_eq!(get(&house, "/api/agents/a")["spent_today"]["tokens"], a);
    estop.kill_9();
    let estop = house.start();
    assert_eq!(fleet(&house), after, "not booked a second time");
    estop.end();
    house.verified();
    let store = house.store();
    let sums = whole(&store);
    assert_eq!((tokens(&sums), sums.estimated), (all, 1), "{sums:?}");
    let by = |by| {
        let query = SpendQuery { by, from_day: 0, to_day: i32::MAX, agent: None, limit: 9 };
        let mut keys: Vec<String> = store.spend(&query).unwrap().iter().map(|g| g.key.to_string()).collect();
        keys.sort();
        keys
    };
    assert_eq!(by(SpendBy::Model), ["gpt-4o-mini", "slow"], "it stands under its model");
    assert_eq!(by(SpendBy::Issue), ["", "acme/shop#9"]);
    assert_eq!(by(SpendBy::Run), ["", "ticket-9"]);
    assert_eq!(store.run("a:ticket-9").unwrap().unwrap().tokens, held);
}

#[test]
fn po_6_what_was_under_way_at_kill_9_keeps_its_own_issue() {
    let house = House::new("policy: {kill_switch_enabled: false}");
    let slow = json!({"match": {"model": "slow"}, "reply": {"hold": "headers"}});
    house.model.script(vec![serde_json::from_value(slow).unwrap()]);
    let estop = house.start();
    // One run goes from issue to issue, and nothing of it ends.
    let ask = |headers: &str| {
        let headers = format!("x-estop-run: night\r\n{headers}");
        leave_under_way(&house, estop.address, "a", &headers)
    };
    let issue = |number: u32| format!("x-estop-issue: acme/shop#{number}\r\n");
    let waiting = [ask(&issue(1)), ask(&issue(2)), ask(&issue(3)), ask("")];
    let run = || get(&house, "/api/runs/a:night");
    wait_for("the stored run", || (run()["issue"] == "acme/shop#3").then_some(()));
    estop.kill_9();
    drop(waiting);

    let estop = house.start();
    let own = |number: u32, requests: u64| (format!("acme/shop#{number}"), requests);
    assert_eq!(sums(&house, "issue", 4), [own(1, 1), own(2, 1), own(3, 2)]);
    assert_eq!(run()["issue"], "acme/shop#3", "it stays for what it was for last");
    estop.end();
    house.verified();
}

#[test]
fn po_6_spend_rolls_up_by_run_issue_agent_role_model_and_label() {
    let house = House::new("agents: {worker: {role: pm}}");
    let estop = house.start();
    let tagged = "x-estop-run: ticket-7\r\nx-estop-issue: acme/shop#7\r\nx-estop-labels: team=red,env=ci\r\n";
    assert_eq!(ask_with(estop.address, "worker", "One", tagged).unwrap().0, 200);
    // A run keeps what it is for.
    assert_eq!(ask_with(estop.address, "worker", "Two", "x-estop-run: ticket-7\r\n").unwrap().0, 200);
    assert_eq!(ask_with(estop.address, "other", "Three", "x-estop-labels: team=blue\r\n").unwrap().0, 200);
    let new = json!({"agent": "other", "run": "made", "issue": "acme/shop#8", "role": "reviewer", "labels": {"team": "blue"}});
    assert_eq!(post(&house, "/api/runs", &new).0, 201);
    assert_eq!(ask_with(estop.address, "other", "Four", "x-estop-run: made\r\n").unwrap().0, 200);

    let own = |list: &[(&str, u64)]| list.iter().map(|(k, n)| ((*k).to_owned(), *n)).collect::<Vec<_>>();
    assert_eq!(sums(&house, "agent", 4), own(&[("other", 2), ("worker", 2)]));
    assert_eq!(sums(&house, "run", 4), own(&[("", 1), ("made", 1), ("ticket-7", 2)]));
    assert_eq!(sums(&house, "issue", 4), own(&[("", 1), ("acme/shop#7", 2), ("acme/shop#8", 1)]));
    assert_eq!(sums(&house, "role", 4), own(&[("", 1), ("pm", 2), ("reviewer", 1)]));
    assert_eq!(sums(&house, "model", 4), own(&[("gpt-4o-mini", 4)]));
    assert_eq!(sums(&house, "label", 6), own(&[("env=ci", 2), ("team=blue", 2), ("team=red", 2)]));
    let (fine, said) = house.run(&["spend", "--by", "label", "--data-dir", "data"]);
    assert!(fine && said.contains("team=red") && said.contains("All agents together"), "{said}");

    // Nothing of it reached the provider.
    let seen = house.model.seen();
    assert!(!serde_json::to_string(&seen).unwrap().contains("x-estop"), "{seen:?}");
    // A run that only traffic named is listed, with what it is for.
    let runs = get(&house, "/api/runs?agent=worker");
    let run = &runs["runs"][0];
    assert_eq!((&run["id"], &run["issue"]), (&json!("worker:ticket-7"), &json!("acme/shop#7")), "{runs}");
    assert_eq!(run["labels"], json!({"team": "red", "env": "ci"}));
    assert!(run["started_at"].is_string(), "{run}");
    estop.kill_9();
    let estop = house.start();
    let runs = get(&house, "/api/runs?agent=worker");
    assert_eq!(runs["runs"][0]["issue"], "acme/shop#7", "{runs}");
    estop.end();
    house.verified();
}

#[test]
fn po_6_bad_headers_are_refused_by_name_and_not_forwarded() {
    let house = House::new("");
    let estop = house.start();
    let seen = house.model.requests();
    for (header, name) in [
        ("x-estop-labels: team\r\n", "x-estop-labels"),
        ("x-estop-labels: a=1,a=2\r\n", "x-estop-labels"),
        ("x-estop-issue: one\r\nx-estop-issue: two\r\n", "x-estop-issue"),
    ] {
        let (status, said) = ask_with(estop.address, "a", "Hello", header).unwrap();
        assert_eq!(status, 400, "{said}");
        assert!(said.contains(&format!("The header {name} must")), "{said}");
    }
    assert_eq!(house.model.requests(), seen);
    estop.end();
}

#[test]
fn po_7_a_model_that_is_not_allowed_is_refused_and_not_forwarded() {
    let house = House::new(
        "policy: {models: {allow: [\"gpt-5*\"]}}\nagents: {free: {policy: {guards: {models: shadow}}}}",
    );
    let estop = house.start();
    let seen = house.model.requests();
    let (status, said) = estop.ask("a", "Hello").unwrap();
    assert_eq!(status, 400, "{said}");
    assert!(said.contains("model_not_allowed") && said.contains("`gpt-4o-mini` is not allowed"), "{said}");
    assert_eq!(house.model.requests(), seen);
    assert_eq!(estop.ask("free", "Hello").unwrap().0, 200, "shadow only tells");
    // The list changes with the file.
    house.configure("policy: {models: {allow: [\"gpt-5*\", gpt-4o-mini]}}");
    wait_for("the new list", || (estop.ask("a", "Hello again").unwrap().0 == 200).then_some(()));
    estop.end();
    house.verified();
    let told = EventFilter { event_type: Some("would_have_stopped".into()), ..EventFilter::default() };
    let told = house.store().events(&told, 9).unwrap();
    assert!(told.iter().any(|event| event.event.detail.contains("models")), "{told:?}");
}

#[test]
fn po_7_a_snooze_holds_over_kill_9_and_ends_by_itself() {
    let house = House::new("policy: {models: {deny: [gpt-4o-mini]}}");
    let estop = house.start();
    assert_eq!(estop.ask("a", "Hello").unwrap().0, 400);
    let (status, problem) = post(&house, "/api/agents/a/snooze", &json!({"guard": "system", "minutes": 5}));
    assert_eq!((status, &problem["errors"][0]["field"]), (400, &json!("guard")), "{problem}");
    let (fine, said) =
        house.run(&["agents", "snooze", "a", "--guard", "models", "--for", "2h", "--data-dir", "data"]);
    assert!(fine && said.contains("models until"), "{said}");
    assert_eq!(estop.ask("a", "Hello").unwrap().0, 200);
    estop.kill_9();
    let estop = house.start();
    assert_eq!(estop.ask("a", "Hello").unwrap().0, 200, "it holds over a restart");
    assert_eq!(get(&house, "/api/agents/a")["snoozes"][0]["guard"], "models");
    let (fine, said) = house.run(&["agents", "unsnooze", "a", "--data-dir", "data"]);
    assert!(fine && said.contains("no guard is snoozed"), "{said}");
    assert_eq!(estop.ask("a", "Hello").unwrap().0, 400);
    // A short one ends without anybody's doing.
    let until = jiff::Timestamp::now() + Duration::from_millis(1_500);
    let body = json!({"guard": "models", "until": until.to_string(), "note": "a trial"});
    assert_eq!(post(&house, "/api/agents/a/snooze", &body).0, 200);
    assert_eq!(estop.ask("a", "Hello").unwrap().0, 200);
    wait_for("the end of the snooze", || (estop.ask("a", "Hello").unwrap().0 == 400).then_some(()));
    assert_eq!(get(&house, "/api/agents/a")["snoozes"], json!([]));
    estop.end();
    house.verified();
    let of = |name: &str| {
        let filter = EventFilter { event_type: Some(name.into()), ..EventFilter::default() };
        house.store().events(&filter, 9).unwrap().len()
    };
    assert_eq!((of("guard_snoozed"), of("guard_woken"), of("snooze_ended")), (2, 1, 1));
}
