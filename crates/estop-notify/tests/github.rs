//! Escalations in GitHub (AL-2): each part once, also when an answer is lost or there were too many requests.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod house;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use estop_notify::{AlertEvent, Channel, ChannelKind, Detail, Endpoint, GitHub, Notifier, NotifierEnv};
use estop_store::{Alerts, DeliveryFilter, Sqlite};
use house::{Receiver, Reply, Seen, escalated, local, looped, open, settings};
use serde_json::{Value, json};

/// What a repository holds.
#[derive(Default)]
struct Repository {
    issues: Vec<Value>,
    comments: Vec<Value>,
    statuses: Vec<(String, Value)>,
}

impl Repository {
    fn take(&mut self, seen: &Seen) -> Reply {
        let say =
            |status, body: Value| Reply::Say(status, "content-type: application/json\r\n", body.to_string());
        let body: Value = serde_json::from_str(&seen.body).unwrap_or_default();
        let path = seen.line.split(' ').nth(1).unwrap().strip_prefix("/api/v3/repos/acme/robots").unwrap();
        let path = path.split('?').next().unwrap();
        match (seen.line.split(' ').next().unwrap(), path) {
            ("GET", "/issues/42/comments") => say(200, json!(self.comments)),
            ("POST", "/issues/42/comments") => {
                self.comments.push(body);
                say(201, json!({"id": self.comments.len()}))
            }
            ("GET", "/commits/feat/parser") => Reply::Say(200, "", "a".repeat(40)),
            ("GET", "/issues") => say(200, json!(self.issues)),
            ("POST", "/issues") => {
                let number = self.issues.len() + 100;
                self.issues.push(json!({"number": number, "title": body["title"], "body": body["body"], "labels": body["labels"]}));
                say(201, json!({"number": number}))
            }
            ("POST", path) if path.starts_with("/statuses/") => {
                self.statuses.push((path.to_owned(), body));
                say(201, json!({"id": 1}))
            }
            _ => say(404, json!({"message": "Not Found"})),
        }
    }
}

fn github(receiver: &Receiver) -> Channel {
    let api = Endpoint::parse(&receiver.url("/api/v3")).unwrap();
    let token = "ghp_canary0123456789".to_owned().into();
    local(ChannelKind::GitHub(GitHub::new(api, token, "acme/robots").unwrap()))
}

fn start(store: &Sqlite, receiver: &Receiver) -> Notifier {
    Notifier::start(Arc::new(store.clone()), settings([("gh", github(receiver))]), NotifierEnv::system())
        .unwrap()
}

fn delivered(store: &Sqlite) -> String {
    let begun = Instant::now();
    loop {
        let log = store.deliveries(&DeliveryFilter::default(), 100).unwrap();
        if let Some(line) = log.iter().find(|line| &*line.outcome == "delivered") {
            return line.detail.clone();
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{log:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn al_2_an_escalation_is_a_comment_a_status_and_an_issue() {
    let repository = Arc::new(Mutex::new(Repository::default()));
    let held = Arc::clone(&repository);
    let receiver = Receiver::start(move |seen, _| held.lock().unwrap().take(seen));
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let notifier = start(&store, &receiver);
    notifier.tell(looped("coder", 1));
    notifier.tell(escalated("coder", 2));
    assert_eq!(delivered(&store), "issue #100");
    let repository = repository.lock().unwrap();
    let issue = &repository.issues[0];
    assert_eq!(issue["title"], "[needs-human] Agent escalation: #42 — max tool calls (200/200)");
    assert_eq!(issue["labels"], json!(["needs-human", "escalation"]));
    let body = issue["body"].as_str().unwrap();
    let shown = body.replace(['\\', '\u{2060}'], "");
    for line in [
        "- Original issue: #42",
        "- Agent role: feat-dev",
        "- Circuit breaker: max tool calls, 200/200",
        "- Agent summary: Parser done, tests red.",
        "- Branch: feat/parser",
        "- Session: preserved on disk (01a1dc9c)",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert!(body.ends_with("<!-- estop:escalation:coder-2 -->\n"), "{body}");
    let comment = repository.comments[0]["body"].as_str().unwrap();
    assert!(
        comment.starts_with("[estop:feat-dev] ⚠️ Circuit breaker: max tool calls (200/200)"),
        "{comment}"
    );
    let (path, status) = &repository.statuses[0];
    assert_eq!(*path, format!("/statuses/{}", "a".repeat(40)));
    assert_eq!((&status["state"], &status["context"]), (&json!("failure"), &json!("estop/feat-dev")));
    assert_eq!((repository.issues.len(), repository.comments.len(), repository.statuses.len()), (1, 1, 1));
    let first = &receiver.requests()[0];
    assert_eq!(first.headers["authorization"], "Bearer ghp_canary0123456789");
    assert_eq!(first.headers["x-github-api-version"], "2022-11-28");
}

#[test]
fn al_2_nothing_is_made_twice_when_answers_are_lost() {
    let repository = Arc::new(Mutex::new(Repository::default()));
    let held = Arc::clone(&repository);
    // Every other thing that is made is made, and the answer never comes.
    let receiver = Receiver::start(move |seen, nth| {
        let reply = held.lock().unwrap().take(seen);
        let is_lost = seen.line.starts_with("POST") && !seen.line.contains("statuses") && nth < 8;
        if is_lost { Reply::Close } else { reply }
    });
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let notifier = start(&store, &receiver);
    notifier.tell(escalated("coder", 2));
    assert_eq!(delivered(&store), "issue #100");
    let made = |repository: &Repository| (repository.comments.len(), repository.issues.len());
    assert_eq!(made(&repository.lock().unwrap()), (1, 1));
    drop(notifier);
    // As if the store had been lost: the mark in the text is enough.
    let empty = tempfile::tempdir().unwrap();
    let store = open(&empty);
    let notifier = start(&store, &receiver);
    notifier.tell(escalated("coder", 2));
    assert_eq!(delivered(&store), "issue #100");
    drop(notifier);
    assert_eq!(made(&repository.lock().unwrap()), (1, 1));
}

#[test]
fn al_2_limits_are_obeyed_and_what_is_gone_is_skipped() {
    let repository = Arc::new(Mutex::new(Repository::default()));
    let held = Arc::clone(&repository);
    let receiver = Receiver::start(move |seen, nth| match nth {
        1 => Reply::Say(
            403,
            "retry-after: 3\r\nx-ratelimit-remaining: 0\r\n",
            "{\"message\":\"rate limit\"}".to_owned(),
        ),
        _ => held.lock().unwrap().take(seen),
    });
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let notifier = start(&store, &receiver);
    let mut told = escalated("coder", 2);
    if let Detail::Escalation(seen) = &mut told.detail {
        (seen.issue, seen.branch) = (Some("#43".into()), Some("../../x".into()));
        seen.summary = Some("@everyone fixes #1\n<img src=x> [y](http://z)".to_owned());
    }
    notifier.tell(told);
    let detail = delivered(&store);
    assert!(detail.starts_with("issue #100; no comment: 404"), "{detail}");
    let log = store.deliveries(&DeliveryFilter::default(), 100).unwrap();
    assert!(log[0].at - log[1].at >= 3_000, "{log:?}");
    let repository = repository.lock().unwrap();
    assert!(repository.statuses.is_empty(), "a branch that is no branch is not asked for");
    let body = repository.issues[0]["body"].as_str().unwrap();
    assert!(body.contains("@\u{2060}everyone fixes #\u{2060}1") && body.contains("\\<img"), "{body}");
}

#[test]
fn al_2_an_escalation_without_issue_or_branch_is_an_issue_alone() {
    let repository = Arc::new(Mutex::new(Repository::default()));
    let held = Arc::clone(&repository);
    let receiver = Receiver::start(move |seen, _| held.lock().unwrap().take(seen));
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let notifier = start(&store, &receiver);
    let mut told: AlertEvent = escalated("coder", 2);
    if let Detail::Escalation(seen) = &mut told.detail {
        (seen.issue, seen.branch) = (None, None);
    }
    notifier.tell(told);
    assert_eq!(delivered(&store), "issue #100");
    let repository = repository.lock().unwrap();
    assert_eq!((repository.issues.len(), repository.comments.len(), repository.statuses.len()), (1, 0, 0));
    assert_eq!(
        repository.issues[0]["title"],
        "[needs-human] Agent escalation: coder / issue-42 — max tool calls (200/200)"
    );
}
