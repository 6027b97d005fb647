//! Alerts over the real binary: a receiver on this machine is told of stops, budgets, escalations and the red button, once,
//! over crashes and with a database that takes nothing (AL-1, AL-2, KS-2).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crate::house::{Estop, House, PATIENCE, wait_for};
use estop_store::{AgentRepo, Alerts, Delivery, DeliveryFilter, DeliveryOutcome};
use serde_json::{Value, json};

/// A loop is stopped after a few requests.
const LOOP: &str =
    "policy: {kill_switch_enabled: true, kill_switch_window_size: 10, kill_switch_threshold: 4.5}";
const SECRET: (&str, &str) = ("HOOK_SECRET", "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=");

/// What arrived.
#[derive(Clone, Debug)]
struct Arrived {
    headers: BTreeMap<String, String>,
    body: Value,
}

/// A receiver on this machine.
struct Receiver {
    address: SocketAddr,
    arrived: Arc<Mutex<Vec<Arrived>>>,
    closed: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Receiver {
    fn start() -> Receiver {
        Receiver::on(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    /// At a place that was somebody's before.
    fn at(address: SocketAddr) -> Receiver {
        let listener = wait_for("the port", || TcpListener::bind(address).ok());
        Receiver::on(listener)
    }

    fn on(listener: TcpListener) -> Receiver {
        let address = listener.local_addr().unwrap();
        let (arrived, closed): (Arc<Mutex<Vec<Arrived>>>, Arc<AtomicBool>) = Default::default();
        let (kept, ended) = (Arc::clone(&arrived), Arc::clone(&closed));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                if let Some(one) = stream.ok().and_then(take) {
                    kept.lock().unwrap().push(one);
                }
            }
        });
        Receiver { address, arrived, closed, thread: Some(thread) }
    }

    /// What arrived so far of a type: `kill_switch`, …
    fn of(&self, alert: &str) -> Vec<Arrived> {
        let arrived = self.arrived.lock().unwrap();
        arrived.iter().filter(|one| one.body["data"]["alert_type"] == alert).cloned().collect()
    }

    /// Waits for so many of a type.
    fn wait(&self, alert: &str, count: usize) -> Vec<Arrived> {
        wait_for(alert, || Some(self.of(alert)).filter(|all| all.len() >= count))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        let _ = self.thread.take().unwrap().join();
    }
}

fn take(mut stream: TcpStream) -> Option<Arrived> {
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        if let Some((key, value)) = line.trim_end().split_once(": ") {
            headers.insert(key.to_lowercase(), value.to_owned());
        }
    }
    let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    stream.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").ok()?;
    Some(Arrived { headers, body: serde_json::from_slice(&body).ok()? })
}

/// The section `alerts` with one webhook.
fn hook(address: SocketAddr, more: &str) -> String {
    format!(
        "alerts:\n  dashboard: https://estop.example.com\n  channels:\n    \
         hook: {{type: webhook, url: \"http://{address}/hook\", allow_loopback: true, secret_env: [HOOK_SECRET]}}\n{more}"
    )
}

fn trip(estop: &Estop, agent: &str) {
    let stopped = (0..30).any(|_| estop.ask(agent, "Is the build done?").unwrap().0 != 200);
    assert!(stopped, "the loop was not stopped");
}

fn post(house: &House, path: &str, body: &Value) -> Value {
    let (status, said) = house.owner("POST", path, &body.to_string());
    assert!((200..300).contains(&status), "{path}: {status} {said}");
    serde_json::from_str(&said).unwrap_or_default()
}

fn ids(arrived: &[Arrived]) -> Vec<&str> {
    let mut ids: Vec<&str> = arrived.iter().map(|one| &*one.headers["webhook-id"]).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn al_1_a_loop_is_told_once_with_its_evidence_and_its_end() {
    let receiver = Receiver::start();
    let house = House::new(&format!("{LOOP}\n{}", hook(receiver.address, "")));
    let estop = house.start_with(&[SECRET]);
    trip(&estop, "coder");
    let told = receiver.wait("kill_switch", 1).remove(0);
    assert!(told.headers["webhook-signature"].starts_with("v1,"), "{told:?}");
    assert_eq!(told.headers["webhook-id"], told.body["data"]["id"].as_str().unwrap());
    assert_eq!(told.body["type"], "estop.alert.kill_switch");
    let data = &told.body["data"];
    assert_eq!(
        (&data["agent"], &data["kind"], &data["severity"]),
        (&json!("coder"), &json!("alert"), &json!("critical"))
    );
    let text = data["text"].as_str().unwrap();
    for part in [
        "Agent coder was stopped: stuck in a loop",
        "Loop score",
        "similar prompts",
        "estop agents activate coder",
        "https://estop.example.com/incidents/coder-",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("Is the build done?"), "no prompt is told: {text}");
    assert_eq!(estop.ask("coder", "Is the build done?").unwrap().0, 400);
    post(&house, "/api/agents/coder/activate", &json!({}));
    let told = receiver.wait("kill_switch", 2);
    assert_eq!((told.len(), &told[1].body["data"]["kind"]), (2, &json!("recovery")));
    assert_eq!(told[0].body["data"]["key"], told[1].body["data"]["key"]);
    trip(&estop, "coder");
    let told = receiver.wait("kill_switch", 3);
    assert_eq!(told[2].body["data"]["kind"], "alert", "after an activation everything begins anew");
    estop.end();
    assert_eq!(ids(&receiver.of("kill_switch")).len(), 3);
    let store = house.store();
    assert!(store.waiting_alerts().unwrap().is_empty());
    let log = store.deliveries(&DeliveryFilter::default(), 100).unwrap();
    assert!(log.len() >= 3 && log.iter().all(|line| &*line.outcome == "delivered"), "{log:?}");
}

#[test]
fn al_1_what_happened_while_the_receiver_was_down_is_told_once_after_kill_9() {
    let place = Receiver::start().address;
    let house = House::new(&format!("{LOOP}\n{}", hook(place, "")));
    let estop = house.start_with(&[SECRET]);
    trip(&estop, "one");
    trip(&estop, "two");
    estop.signal("-USR1");
    house.until_pressed();
    // Whatever of it is stored by now, and whatever only the tail has.
    estop.kill_9();
    let estop = house.start_with(&[SECRET]);
    trip_is_stopped(&estop, "one");
    estop.kill_9();
    let receiver = Receiver::at(place);
    let estop = house.start_with(&[SECRET]);
    let stops = receiver.wait("kill_switch", 2);
    let kills = receiver.wait("system_kill", 1);
    post(&house, "/api/emergency/restart", &json!({}));
    post(&house, "/api/emergency/clear", &json!({}));
    // What is told in the end is told after everything else.
    let kills = if kills.len() > 1 { kills } else { receiver.wait("system_kill", 2) };
    estop.end();
    let kinds = |all: &[Arrived]| -> Vec<String> {
        all.iter().map(|one| one.body["data"]["kind"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(kinds(&stops), ["alert", "alert"]);
    assert_eq!(kinds(&kills), ["alert", "recovery"]);
    let agents: Vec<&Value> = stops.iter().map(|one| &one.body["data"]["agent"]).collect();
    assert_eq!(agents, ["one", "two"], "in the order they happened");
    let all = receiver.arrived.lock().unwrap().clone();
    let mut unique = ids(&all);
    unique.dedup();
    assert_eq!(unique.len(), all.len(), "nothing is told twice");
    house.verified();
}

#[test]
fn al_1_what_only_the_journal_knows_is_told_at_the_next_start() {
    let receiver = Receiver::start();
    let house = House::new(&format!("{LOOP}\n{}", hook(receiver.address, "")));
    let estop = house.start_with(&[SECRET]);
    trip(&estop, "one");
    trip(&estop, "two");
    post(&house, "/api/emergency/kill", &json!({"note": "drill"}));
    receiver.wait("system_kill", 1);
    let told = receiver.wait("kill_switch", 2);
    estop.kill_9();
    // As if it had been killed after the records were stored and before anybody was told.
    let forget = "import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1])\ndb.execute('DELETE FROM outbox')\n\
                  db.execute(\"DELETE FROM alert_memory WHERE name <> 'cursor'\")\n\
                  db.execute(\"UPDATE alert_memory SET value = '1'\")\ndb.commit()";
    let forgot = Command::new("python3").args(["-c", forget]).arg(house.data().join("estop.db")).status();
    assert!(forgot.unwrap().success());
    let estop = house.start_with(&[SECRET]);
    let again = receiver.wait("kill_switch", 4);
    let kills = receiver.wait("system_kill", 2);
    estop.end();
    assert_eq!(ids(&again[..2]), ids(&again[2..]), "they are the same, and known by their ids");
    assert_eq!(ids(&told), ids(&again[2..]));
    assert_eq!((kills.len(), &kills[0].headers["webhook-id"]), (2, &kills[1].headers["webhook-id"]));
    assert_eq!(receiver.of("kill_switch").len(), 4);
    assert_eq!(receiver.of("system_kill").len(), 2, "the latch and the journal tell the same");
}

fn trip_is_stopped(estop: &Estop, agent: &str) {
    assert_ne!(estop.ask(agent, "Hello").unwrap().0, 200, "{agent} stays stopped");
}

#[test]
fn al_1_shares_of_budgets_are_told_of_an_agent_and_of_all() {
    let receiver = Receiver::start();
    let rules = "  rules: {money: {types: [budget], budget_percent: [80, 100]}}";
    let caps = "budget: {tokens_per_day: 100000}\nagents: {coder: {policy: {budget: {tokens_per_day: 400}}}}";
    let house = House::new(&format!("{caps}\n{}", hook(receiver.address, rules)));
    let estop = house.start_with(&[SECRET]);
    while estop.ask("coder", "Hello").unwrap().0 == 200 {}
    // A share, and the refusal at the end, which has no share.
    let told = receiver.wait("budget", 2);
    let texts: Vec<&str> = told.iter().filter_map(|one| one.body["data"]["text"].as_str()).collect();
    assert!(texts.iter().any(|text| text.contains("of 400 tokens (tokens_per_day)")), "{texts:?}");
    let shares: Vec<&str> = told.iter().filter_map(|one| one.body["data"]["title"].as_str()).collect();
    let is_meant = |title: &&str| {
        ["80 %", "95 %", "spent its budget", "does not fit the budget"]
            .iter()
            .any(|meant| title.contains(meant))
    };
    assert!(shares.iter().all(is_meant), "{shares:?}");
    estop.end();
    assert!(receiver.of("kill_switch").is_empty(), "the rule is about money alone");
}

#[test]
fn po_2_refusals_of_a_budget_are_told_once_though_little_is_spent() {
    let receiver = Receiver::start();
    let caps = "agents: {coder: {policy: {budget: {tokens_per_day: 40}}}}";
    let house = House::new(&format!("{caps}\n{}", hook(receiver.address, "")));
    let estop = house.start_with(&[SECRET]);
    // Each asks for 50 tokens: nothing is spent, and every one is refused.
    for _ in 0..12 {
        assert_eq!(estop.ask("coder", "Hello").unwrap().0, 400);
    }
    let told = receiver.wait("budget", 1);
    let (title, text) = (&told[0].body["data"]["title"], &told[0].body["data"]["text"]);
    assert_eq!(title, "A request of agent coder was refused: it does not fit the budget");
    assert!(text.as_str().unwrap().contains("0 tokens spent and 0 reserved of 40"), "{text}");
    let events = house.owner("GET", "/api/events?type=budget_refused", "").1;
    let events: Value = serde_json::from_str(&events).unwrap();
    let detail = &events["events"][0]["detail"];
    assert_eq!((events["events"].as_array().unwrap().len(), &detail["fit"]), (1, &json!("over")), "{events}");
    estop.end();
    assert_eq!(receiver.of("budget").len(), 1, "once a period");
}

/// Holds the database so that nobody can write.
struct Blocked(Child);

impl Blocked {
    fn database(house: &House) -> Blocked {
        let hold = "import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1], timeout=30, isolation_level=None)\n\
                    db.execute('BEGIN IMMEDIATE')\nprint('held', flush=True)\nsys.stdin.read()";
        let mut child = Command::new("python3")
            .args(["-c", hold])
            .arg(house.data().join("estop.db"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "held\n");
        Blocked(child)
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn ks_2_the_button_is_told_while_the_database_takes_nothing() {
    let receiver = Receiver::start();
    let house = House::new(&hook(receiver.address, ""));
    let estop = house.start_with(&[SECRET]);
    assert_eq!(estop.ask("coder", "Hello").unwrap().0, 200);
    let blocked = Blocked::database(&house);
    let answer = post(
        &house,
        "/api/emergency/kill",
        &json!({"reason": "security_incident", "note": "it deletes mail"}),
    );
    assert_eq!((&answer["told"], &answer["persisted"]), (&json!(true), &json!(true)), "{answer}");
    let told = receiver.wait("system_kill", 1);
    let text = told[0].body["data"]["text"].as_str().unwrap();
    for part in [
        "EMERGENCY STOP: everything is stopped (security_incident)",
        "it deletes mail",
        "estop emergency unlock",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    drop(blocked);
    post(&house, "/api/emergency/restart", &json!({}));
    post(&house, "/api/emergency/clear", &json!({}));
    let told = receiver.wait("system_kill", 2);
    assert_eq!(told[1].body["data"]["kind"], "recovery");
    estop.end();
    assert_eq!(receiver.of("system_kill").len(), 2, "its record tells nothing new");
    let estop = house.start_with(&[SECRET]);
    assert_eq!(estop.ask("coder", "Hello").unwrap().0, 200);
    estop.end();
    assert_eq!(receiver.of("system_kill").len(), 2, "nor does the next start");
    assert!(house.store().waiting_alerts().unwrap().is_empty());
}

#[test]
fn ks_2_a_kill_says_when_nobody_is_told() {
    let house = House::new("");
    let estop = house.start();
    assert_eq!(post(&house, "/api/emergency/kill", &json!({}))["told"], false);
    estop.end();
}

#[test]
fn ui_5_a_reload_adds_a_channel_or_changes_nothing() {
    let (first, second) = (Receiver::start(), Receiver::start());
    let house = House::new(&format!("{LOOP}\n{}", hook(first.address, "")));
    let estop = house.start_with(&[SECRET]);
    let refused = |count: usize| {
        wait_for("the refusal", || {
            let said = house.run(&["journal", "export", "--data-dir", "data"]).1;
            (said.matches("\"applied\":false").count() >= count).then_some(())
        });
    };
    house.configure(&format!("{LOOP}\n{}", hook(second.address, "  rules: {all: {channels: [gone]}}")));
    estop.signal("-HUP");
    refused(1);
    let both =
        format!("    second: {{type: webhook, url: \"http://{}/\", allow_loopback: true}}\n", second.address);
    house.configure(&format!("behind_tls_proxy: true\n{LOOP}\n{}", hook(first.address, &both)));
    estop.signal("-HUP");
    refused(2);
    trip(&estop, "one");
    first.wait("kill_switch", 1);
    assert!(second.of("kill_switch").is_empty(), "nothing of a refused file is in force");
    house.configure(&format!("{LOOP}\n{}", hook(first.address, &both)));
    estop.signal("-HUP");
    wait_for("the channel", || {
        let said = house.run(&["journal", "export", "--data-dir", "data"]).1;
        said.contains("\"applied\":true").then_some(())
    });
    trip(&estop, "two");
    first.wait("kill_switch", 2);
    assert_eq!(second.wait("kill_switch", 1)[0].body["data"]["agent"], "two");
    estop.end();
}

/// Titles of what waits for a channel, once no estop has the store.
fn waiting(house: &House, target: &str) -> Vec<String> {
    let store = house.store();
    let delivered = |at| Delivery { at, outcome: DeliveryOutcome::Delivered, detail: String::new() };
    std::iter::from_fn(|| {
        let next = store.next_alert(target).unwrap()?;
        store.mark_alert(next.id, &delivered(0)).unwrap();
        let message: Value = serde_json::from_str(&next.alert.payload).unwrap();
        Some(message["title"].as_str().unwrap().to_owned())
    })
    .collect()
}

#[test]
fn al_1_a_dead_receiver_delays_nobody() {
    // It takes connections and never answers; another refuses them.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = Receiver::start().address;
    let more = format!("    gone: {{type: webhook, url: \"http://{gone}/\", allow_loopback: true}}\n");
    let house = House::new(&format!("{LOOP}\n{}", hook(silent.local_addr().unwrap(), &more)));
    let estop = house.start_with(&[SECRET]);
    for n in 0..5 {
        trip(&estop, &format!("stuck-{n}"));
        assert_eq!(estop.ask(&format!("well-{n}"), "Hello").unwrap().0, 200);
    }
    estop.signal("-USR1");
    house.until_pressed();
    estop.end();
    for target in ["gone", "hook"] {
        let titles = waiting(&house, target);
        assert_eq!(titles.len(), 6, "everything still waits: {titles:?}");
        assert_eq!(
            titles.iter().filter(|title| title.starts_with("EMERGENCY STOP")).count(),
            1,
            "{titles:?}"
        );
    }
}

#[test]
fn al_2_an_escalation_is_told_with_what_a_person_needs_and_is_over_when_extended() {
    let receiver = Receiver::start();
    let house = House::new(&format!("agents: {{coder: {{}}}}\n{}", hook(receiver.address, "")));
    let estop = house.start_with(&[SECRET]);
    let new = json!({
        "agent": "coder", "run": "issue-7", "role": "feat-dev", "issue": "7", "branch": "feat/parser",
        "session": "01a1dc9c", "limits": {"max_tool_calls": 2},
    });
    post(&house, "/api/runs", &new);
    let mut call =
        json!({"agent": "coder", "run": "issue-7", "call": "c1", "tool": "bash", "args": {"command": "ls"}});
    post(&house, "/api/hooks/pre-tool-use", &call);
    call["call"] = json!("c2");
    assert_eq!(post(&house, "/api/hooks/pre-tool-use", &call)["permission"], "deny");
    (call["call"], call["tool"]) = (json!("c3"), json!("report_complete"));
    assert_eq!(post(&house, "/api/hooks/pre-tool-use", &call)["permission"], "allow");
    (call["result"], call["exit_code"]) = (json!("noted"), json!(0));
    post(&house, "/api/hooks/post-tool-use", &call);
    let told = receiver.wait("circuit_breaker", 1).remove(0);
    let data = &told.body["data"];
    assert_eq!(data["title"], "Agent coder needs a human: max tool calls (2/2)", "{data}");
    let kept = ["role", "issue", "branch", "session"].map(|key| data["escalation"][key].as_str().unwrap());
    assert_eq!(kept, ["feat-dev", "7", "feat/parser", "01a1dc9c"]);
    assert_eq!(house.estop(&["runs", "extend", "coder", "issue-7"]).code, 0);
    assert_eq!(receiver.wait("circuit_breaker", 2)[1].body["data"]["kind"], "recovery");
    estop.end();
}

#[test]
fn al_1_many_failures_are_told_and_so_is_their_end() {
    let receiver = Receiver::start();
    let house = House::new(&hook(receiver.address, ""));
    let estop = house.start_with(&[SECRET]);
    let script = json!([{"times": 12, "reply": {"status": 500}}]);
    house.model.script(serde_json::from_value(script).unwrap());
    for n in 0..12 {
        estop.ask("coder", &format!("Question number {n}"));
    }
    let told = receiver.wait("error_rate", 1).remove(0);
    let text = told.body["data"]["text"].as_str().unwrap();
    assert!(
        text.contains("Agent coder is failing") && text.contains("requests of the last 5 minutes failed"),
        "{text}"
    );
    for n in 0..40 {
        assert_eq!(estop.ask("coder", &format!("Another question: {n} {n} {n}")).unwrap().0, 200);
    }
    assert_eq!(receiver.wait("error_rate", 2)[1].body["data"]["kind"], "recovery");
    estop.end();
}

#[test]
fn al_1_an_agent_is_missed_after_a_minute_at_the_earliest() {
    let receiver = Receiver::start();
    let house = House::new(&hook(receiver.address, "  agent_down_after_s: {nightly: 59}"));
    let refused = house
        .command(&["serve", "--config", "estop.yaml", "--data-dir", "data"])
        .env(SECRET.0, SECRET.1)
        .output();
    let said = String::from_utf8_lossy(&refused.unwrap().stderr).into_owned();
    assert!(said.contains("alerts.agent_down_after_s.nightly: it must be between 60 and"), "{said}");
}

#[test]
fn al_1_a_checkpoint_is_told_to_whoever_asked_for_it() {
    let receiver = Receiver::start();
    let house = House::new(&hook(receiver.address, "  rules: {heads: {types: [checkpoint]}}"));
    house.start_with(&[SECRET]).end();
    let (_, verified) = house.run(&["journal", "verify", "--data-dir", "data", "--json"]);
    let verified: Value = serde_json::from_str(&verified).unwrap();
    // Told at the end if there was time for it, else at the next start.
    let estop = house.start_with(&[SECRET]);
    let told = receiver.wait("checkpoint", 1).remove(0);
    let facts = told.body["data"]["facts"].as_array().unwrap().clone();
    let fact = |label: &str| {
        facts.iter().find(|fact| fact["label"] == label).unwrap()["text"].as_str().unwrap().to_owned()
    };
    assert_eq!(fact("Last record"), verified["to"].to_string());
    assert_eq!(fact("Digest of the journal"), verified["digest"].as_str().unwrap());
    estop.end();
}

#[test]
fn ks_2_the_same_channel_pressed_twice_is_not_told_as_lifted() {
    let receiver = Receiver::start();
    let house = House::new(&hook(receiver.address, ""));
    let estop = house.start_with(&[SECRET]);
    for _ in 0..2 {
        let told = post(&house, "/api/emergency/kill", &json!({"channels": ["llm"]}));
        assert_eq!(told["told"], true, "{told}");
    }
    receiver.wait("system_kill", 1);
    post(&house, "/api/emergency/clear", &json!({}));
    let all = receiver.wait("system_kill", 2);
    let kinds: Vec<&Value> = all.iter().map(|one| &one.body["data"]["kind"]).collect();
    assert_eq!(kinds, ["alert", "recovery"], "{all:?}");
    assert_eq!(all[0].body["data"]["title"], "EMERGENCY STOP of llm (manual)");
    estop.end();
}

#[test]
fn al_1_failures_after_an_activation_and_a_restart_are_told() {
    let receiver = Receiver::start();
    let house = House::new(&hook(receiver.address, ""));
    let fail = |estop: &Estop| {
        house.model.script(serde_json::from_value(json!([{"times": 12, "reply": {"status": 500}}])).unwrap());
        for n in 0..12 {
            estop.ask("coder", &format!("Question number {n}"));
        }
    };
    let estop = house.start_with(&[SECRET]);
    fail(&estop);
    receiver.wait("error_rate", 1);
    post(&house, "/api/agents/coder/activate", &json!({}));
    estop.end();
    let estop = house.start_with(&[SECRET]);
    fail(&estop);
    let alerts = wait_for("the second alert", || {
        let all = receiver.of("error_rate");
        let alerts = all.iter().filter(|one| one.body["data"]["kind"] == "alert").count();
        (alerts == 2).then_some(alerts)
    });
    assert_eq!(alerts, 2);
    estop.end();
}

#[test]
fn ks_2_a_database_that_cannot_be_trusted_is_told() {
    let receiver = Receiver::start();
    let house = House::new(&hook(receiver.address, ""));
    house.start_with(&[SECRET]).end();
    for beside in ["estop.db-wal", "estop.db-shm"] {
        let _ = std::fs::remove_file(house.data().join(beside));
    }
    let database = house.data().join("estop.db");
    let good = std::fs::read(&database).unwrap();
    std::fs::write(&database, "this is no database, and never was one".repeat(500)).unwrap();
    let estop = house.start_with(&[SECRET]);
    let told = receiver.wait("system_kill", 1).remove(0);
    let text = told.body["data"]["text"].as_str().unwrap();
    assert!(text.contains("everything is stopped") && text.contains("estop.db"), "{text}");
    assert!(!text.contains("1970"), "{text}");
    estop.end();
    std::fs::write(&database, good).unwrap();
    let estop = house.start_with(&[SECRET]);
    assert!(!house.data().join("alerts-while-shut.db").exists(), "it is not needed any more");
    estop.end();
}

#[test]
fn al_1_an_agent_that_comes_by_hooks_alone_is_heard_of() {
    let house = House::new("agents: {coder: {}, other: {}}");
    let estop = house.start();
    let call = json!({"agent": "coder", "call": "c1", "tool": "bash", "args": {"command": "ls"}});
    post(&house, "/api/hooks/pre-tool-use", &call);
    estop.end();
    let seen = |agent: &str| house.store().agent(agent).unwrap().and_then(|kept| kept.last_seen_at);
    assert!(seen("coder").is_some(), "it called");
    assert_eq!(seen("other"), None);
}
