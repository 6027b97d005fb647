//! Events, the journal, cases, spend and the overview.

use estop_core::event::{Event, EventKind};
use estop_core::money::NanoUsd;
use estop_core::operator::Operator;
use estop_core::time::{Millis, Now};
use estop_journal::Checker;
use estop_store::segments::raw_path;
use estop_store::{CaseStatus, Cases, Escalation, Incident, JournalBatch, Ledger, NewEvent, Spend, SpendSum};
use serde_json::json;

use crate::support::{Plane, START, set};

/// Writes `count` records, each with an event.
fn write(plane: &Plane, count: u64) {
    let mut journal = plane.journal();
    for _ in 0..count {
        let now = Now { mono: Millis(1), wall: START };
        journal.agent("coder", now, &Event::open(EventKind::Tick), &"noted");
    }
    let event = |seq| NewEvent {
        seq,
        wall: START,
        agent: Some(if seq % 2 == 0 { "coder" } else { "other" }.into()),
        event_type: if seq % 3 == 0 { "kill_switch" } else { "policy_changed" }.into(),
        detail: json!({"score": 10.5}).to_string(),
    };
    plane
        .keep(&journal, JournalBatch { events: (1..=count).map(event).collect(), ..JournalBatch::default() });
}

#[tokio::test]
async fn ui_3_events_are_found_by_agent_and_type_page_by_page() {
    let plane = Plane::new();
    plane.operator.add_agent("coder").unwrap();
    write(&plane, 12);
    let first = plane.get("/api/events?agent=coder&type=kill_switch").await.expect(200).json();
    let event = &first["events"][0];
    assert_eq!(
        (&event["seq"], &event["event_type"], &event["agent"]),
        (&json!(12), &json!("kill_switch"), &json!("coder"))
    );
    assert_eq!((&event["at"], &event["detail"]["score"]), (&json!("2025-11-15T00:00:00Z"), &json!(10.5)));
    let mut seqs = Vec::new();
    let mut path = "/api/events?limit=5".to_owned();
    loop {
        let page = plane.get(&path).await.expect(200).json();
        seqs.extend(page["events"].as_array().unwrap().iter().filter_map(|event| event["seq"].as_u64()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/events?limit=5&before={next}");
    }
    assert_eq!(seqs, (1..=12).rev().collect::<Vec<_>>());
    let unknown = plane.get("/api/events?type=bogus").await.expect(400).json();
    let said = unknown["detail"].as_str().unwrap();
    assert!(said.contains("`bogus` is no type of events") && said.contains("would_have_stopped"), "{said}");
    for bad in ["before=x", "before=1.x", "before=", "limit=5000"] {
        plane.get(&format!("/api/events?{bad}")).await.expect(400);
    }
}

#[tokio::test]
async fn tw_7_the_journal_is_exported_as_it_was_written_and_verified() {
    let plane = Plane::new();
    write(&plane, 20);
    let all = plane.get("/api/journal/export").await.expect(200);
    assert_eq!(all.header("content-type"), "application/jsonl");
    let mut checker = Checker::default();
    all.text().lines().for_each(|line| drop(checker.take(line.as_bytes()).expect("a whole line")));
    assert_eq!((checker.state().seq, checker.is_ended()), (20, true), "a cut end would be noticed");
    let some = plane.get("/api/journal/export?from=3&to=5").await.expect(200).text();
    assert_eq!(some.lines().count(), 3);
    assert!(all.text().contains(&some));
    let verified = plane.get("/api/journal/verify").await.expect(200).json();
    assert_eq!(
        (&verified["ok"], &verified["count"], &verified["problem"]),
        (&json!(true), &json!(20), &json!(null))
    );
    plane.get("/api/journal/export?from=0").await.expect(400);
}

#[tokio::test]
async fn tw_7_a_changed_record_is_found() {
    let plane = Plane::new();
    write(&plane, 3);
    let path = raw_path(plane.journal().writer.folder(), 1);
    let text = std::fs::read_to_string(&path).unwrap();
    let second = text.lines().find(|line| line.starts_with("{\"seq\":2,")).unwrap();
    std::fs::write(&path, text.replace(second, &second.replace("\"noted\"", "\"NOTED\""))).unwrap();
    let verified = plane.get("/api/journal/verify").await.expect(200).json();
    assert_eq!(
        (&verified["ok"], &verified["count"], &verified["problem"]["seq"]),
        (&json!(false), &json!(1), &json!(2))
    );
}

#[tokio::test]
async fn al_2_escalations_are_taken_and_resolved() {
    let plane = Plane::new();
    let escalation = Escalation {
        id: "e1".into(),
        agent: "coder".into(),
        run: None,
        reason: "max tool calls".into(),
        opened_at: START,
        status: CaseStatus::Open,
        owner: None,
        seq: 4,
        history: Vec::new(),
        resolved_at: None,
        resolved_by: None,
        summary: Some("Half of it is done.".into()),
        facts: r#"{"branch":"feat/x","session":"s1","limit":{"limit":"tool_calls","current":5,"max":5}}"#
            .into(),
        version: 0,
    };
    plane.store.open_escalation(&escalation).unwrap();
    let patch = || {
        plane.request(
            "PATCH",
            "/api/escalations/e1",
            Some(json!({"owner": "Ada", "note": "mine", "status": "resolved"})),
        )
    };
    let done = plane.send(patch()).await.expect(200).json();
    assert_eq!(
        (&done["status"], &done["owner"], &done["resolved_by"]),
        (&json!("resolved"), &json!("Ada"), &json!("admin"))
    );
    plane.send(set(patch(), "if-match", "\"0\"")).await.expect(412);
    assert_eq!(plane.get("/api/escalations?status=open").await.expect(200).json()["escalations"], json!([]));
    plane.send(plane.request("PATCH", "/api/escalations/e2", Some(json!({})))).await.expect(404);
}

#[tokio::test]
async fn ui_1_incidents_are_shown_with_evidence_and_resolved() {
    let plane = Plane::new();
    let incident = Incident {
        id: "i1".into(),
        agent: "coder".into(),
        run: None,
        seq: 4,
        kind: "loop".into(),
        opened_at: START,
        status: CaseStatus::Open,
        resolution: None,
        resolved_at: None,
        history: Vec::new(),
        earlier: None,
        later: None,
        evidence: json!({"score": 12}).to_string(),
        summary: "Loop score 12.0 of 10.0.".into(),
        version: 0,
    };
    plane.operator.add_agent("coder").unwrap();
    plane.store.open_incident(&incident).unwrap();
    let shown = plane.get("/api/incidents/i1").await.expect(200);
    assert_eq!(shown.json()["evidence"], json!({"score": 12}));
    let patch =
        plane.request("PATCH", "/api/incidents/i1", Some(json!({"status": "resolved", "note": "fixed"})));
    let resolved = plane.send(set(patch, "if-match", &shown.header("etag"))).await.expect(200).json();
    assert_eq!((&resolved["status"], &resolved["resolution"]), (&json!("resolved"), &json!("fixed")));
    assert_eq!(plane.get("/api/incidents?agent=coder").await.expect(200).json()["incidents"][0]["id"], "i1");
    plane.get("/api/incidents/i2").await.expect(404);
}

#[tokio::test]
async fn po_6_spend_is_summed_up_by_day_and_label() {
    let plane = Plane::with_agents(1).await;
    let day = i32::try_from(START / 86_400_000).unwrap();
    let sum = SpendSum { requests: 1, input_tokens: 10, usd: NanoUsd(1_500_000_000), ..SpendSum::default() };
    let labels = [("team".into(), "core".into())].into();
    let spend = Spend { day, agent: "a0".into(), model: "m".into(), labels, sum, ..Spend::default() };
    plane.store.add_spend(vec![spend]).unwrap();
    let by_day = plane.get("/api/spend").await.expect(200).json();
    assert_eq!((&by_day["spend"][0]["key"], &by_day["spend"][0]["usd"]), (&json!("2025-11-15"), &json!(1.5)));
    let by_label = plane.get("/api/spend?by=label&from=2025-11-15&to=2025-11-15").await.expect(200).json();
    assert_eq!(by_label["spend"][0]["key"], "team=core");
    for bad in ["by=colour", "from=15.11.2025", "to=2025-13-01", "from=2025-11-15T00:00:00Z"] {
        plane.get(&format!("/api/spend?{bad}")).await.expect(400);
    }
    let stats = plane.get("/api/stats").await.expect(200).json();
    assert_eq!(
        (&stats["agents"], &stats["active"], &stats["state"]),
        (&json!(1), &json!(1), &json!("running"))
    );
}
