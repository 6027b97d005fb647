//! A process that is killed while it sends loses nothing: all arrives, in order, and whoever looks at the ids sees each
//! alert once (AL-1).
//!
//! The test runs itself as a child that sends, and kills it at a random moment, many times over the same store.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod house;

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use estop_notify::{AlertType, Message, MessageKind, Notifier, NotifierEnv, Severity};
use estop_store::{AlertCommit, Alerts, NewAlert, Sqlite, SqliteOptions};
use house::{NIGHT, Receiver, Reply, looped, open, settings, webhook};

const PLACE: &str = "ESTOP_TEST_STORE";
const TO: &str = "ESTOP_TEST_URL";
const ALERTS: usize = 150;

fn message(n: usize) -> Message {
    Message {
        id: format!("msg_{n:04}").into(),
        key: "k".into(),
        alert: AlertType::KillSwitch,
        kind: MessageKind::Alert,
        severity: Severity::Critical,
        at: NIGHT,
        when: String::new(),
        agent: None,
        run: None,
        title: format!("alert {n}"),
        facts: Vec::new(),
        steps: Vec::new(),
        link: None,
        escalation: None,
    }
}

#[test]
fn al_1_nothing_is_lost_by_kill_9_while_alerts_are_sent() {
    let folder = tempfile::tempdir().unwrap();
    {
        let alert = |n: usize| NewAlert {
            dedupe: message(n).id,
            target: "ops".into(),
            payload: serde_json::to_string(&message(n)).unwrap(),
            created_at: NIGHT,
            due_at: NIGHT,
        };
        let commit = AlertCommit { at: NIGHT, alerts: (0..ALERTS).map(alert).collect(), memory: Vec::new() };
        open(&folder).commit_alerts(commit).unwrap();
    }
    // An answer takes a moment, so that kills hit sending, answering and marking alike.
    let receiver = Receiver::start(|_, nth| {
        std::thread::sleep(Duration::from_millis(u64::try_from(nth % 5).unwrap()));
        Reply::Say(200, "", String::new())
    });
    let begun = Instant::now();
    let mut kills = 0_u64;
    loop {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_child_sends_until_it_is_killed", "--ignored", "--nocapture"])
            .env(PLACE, folder.path().join("estop.db"))
            .env(TO, receiver.url("/"))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let before = receiver.requests().len();
        while receiver.requests().len() < before + 7 && !is_done(&receiver) {
            assert!(
                begun.elapsed() < Duration::from_secs(120),
                "{kills} kills, {} requests",
                receiver.requests().len()
            );
            std::thread::sleep(Duration::from_micros(200 + kills * 37 % 1000));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
        if is_done(&receiver) {
            break;
        }
    }
    let mut ids: Vec<String> =
        receiver.requests().iter().map(|seen| seen.headers["webhook-id"].clone()).collect();
    let all = ids.len();
    ids.dedup();
    let expected: Vec<String> = (0..ALERTS).map(|n| format!("msg_{n:04}")).collect();
    assert_eq!(ids, expected, "all of them, in order; one that came twice came twice in a row");
    assert!(kills >= 10, "{kills} kills");
    assert!(all <= ALERTS + usize::try_from(kills).unwrap(), "at most one a kill came twice");
}

/// As many as go out one by one in a minute.
const TOLD: u64 = 18;

#[test]
fn al_1_nothing_is_lost_by_kill_9_while_it_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start(|_, _| Reply::Say(200, "", String::new()));
    let begun = Instant::now();
    let seen = || -> Vec<(String, String)> {
        let title = |body: &str| {
            serde_json::from_str::<serde_json::Value>(body).unwrap()["data"]["title"].to_string()
        };
        let mut all: Vec<_> = receiver
            .requests()
            .iter()
            .map(|seen| (seen.headers["webhook-id"].clone(), title(&seen.body)))
            .collect();
        all.sort();
        all.dedup();
        all
    };
    let mut kills = 0_u64;
    while seen().len() < usize::try_from(TOLD).unwrap() {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_child_tells_until_it_is_killed", "--ignored", "--nocapture"])
            .env(PLACE, folder.path().join("estop.db"))
            .env(TO, receiver.url("/"))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let before = receiver.requests().len();
        while receiver.requests().len() <= before && seen().len() < usize::try_from(TOLD).unwrap() {
            assert!(begun.elapsed() < Duration::from_secs(120), "{kills} kills, {:?}", seen());
            std::thread::sleep(Duration::from_micros(100));
        }
        std::thread::sleep(Duration::from_millis(kills % 7));
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
    }
    let seen = seen();
    assert_eq!(seen.len(), usize::try_from(TOLD).unwrap(), "each under one id: {seen:?}");
    for n in 1..=TOLD {
        let title = format!("\"Agent agent-{n} was stopped: stuck in a loop\"");
        assert_eq!(seen.iter().filter(|(_, seen)| *seen == title).count(), 1, "{title}");
    }
    assert!(kills >= 3, "{kills} kills");
}

#[test]
#[ignore = "it is run by the test above"]
fn the_child_tells_until_it_is_killed() {
    let Some(place) = std::env::var_os(PLACE) else { return };
    let store = Sqlite::open(place.as_ref(), SqliteOptions::default()).unwrap();
    let url = std::env::var(TO).unwrap();
    let notifier =
        Notifier::start(Arc::new(store), settings([("ops", webhook(&url))]), NotifierEnv::system()).unwrap();
    // As the daemon does with its journal: what is newer than the cursor is told, perhaps once more.
    for n in notifier.cursor() + 1..=TOLD {
        notifier.tell(looped(&format!("agent-{n}"), n));
        notifier.told_up_to(n);
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(Duration::from_secs(60));
    drop(notifier);
}

fn is_done(receiver: &Receiver) -> bool {
    let last = format!("msg_{:04}", ALERTS - 1);
    receiver.requests().iter().any(|seen| seen.headers["webhook-id"] == last)
}

#[test]
#[ignore = "it is run by the test above"]
fn the_child_sends_until_it_is_killed() {
    let Some(place) = std::env::var_os(PLACE) else { return };
    let store = Sqlite::open(place.as_ref(), SqliteOptions::default()).unwrap();
    let url = std::env::var(TO).unwrap();
    let notifier =
        Notifier::start(Arc::new(store), settings([("ops", webhook(&url))]), NotifierEnv::system()).unwrap();
    std::thread::sleep(Duration::from_secs(60));
    drop(notifier);
}
