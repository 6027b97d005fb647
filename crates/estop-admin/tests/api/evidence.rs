//! What led to an incident (EV-1), from what the store keeps: by the API and on the page, hostile texts and all.

use estop_core::ended::Ended;
use estop_core::money::NanoUsd;
use estop_core::operator::{Excerpt, InFlightStep, IncidentSteps, KeptStep, StepCounts, StepEnd, ToolUse};
use estop_core::policy::EvidenceMode;
use estop_store::{CaseStatus, Cases, Evidence, EvidenceRepo, Incident};
use serde_json::json;

use crate::support::{Plane, START, anonymous, set};

const HOSTILE: &str = "<script>alert(1)</script>\u{202e}\u{1b}[2J\u{0}'\"&";

fn excerpt(text: &str) -> Excerpt {
    Excerpt { text: text.to_owned(), of_bytes: None }
}

fn step(request: u64, city: &str) -> KeptStep {
    let used = ToolUse {
        tool: "get_weather".into(),
        args: excerpt(&json!({ "city": city }).to_string()),
        result: Some(excerpt(HOSTILE)),
        ended: Some(Ended::Failed),
    };
    KeptStep {
        at: START,
        request: Some(request),
        model: Some(HOSTILE.into()),
        asked: Some(excerpt(&"x".repeat(100_000))),
        did: vec![used],
        more: 0,
        answer: Some(excerpt(HOSTILE)),
        calls: Vec::new(),
        input_tokens: 40,
        output_tokens: 2,
        usd: NanoUsd(1_000_000_000),
        took_ms: Some(1_500),
        end: StepEnd::Ok,
        counts: StepCounts { step: true, ..StepCounts::default() },
    }
}

fn stop() -> Incident {
    Incident {
        id: "i1".into(),
        agent: "a0".into(),
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
        evidence: "{}".into(),
        summary: "Loop.".into(),
        version: 0,
    }
}

fn keep(plane: &Plane, mode: EvidenceMode) {
    let proof = json!({
        "cause": "loop", "tool": "get_weather", "reason": "Loop. If this is its work, set `exempt_tools: [get_weather]`.",
        "repetition": {"back_to_back": {"period": 1, "repeats": 5}},
        "stretch": {"steps": 4, "repeats": 5, "ms": 14_000, "tokens": 84, "usd": 500_000_000},
    });
    let incident = Incident { evidence: proof.to_string(), ..stop() };
    plane.store.open_incident(&incident).unwrap();
    let in_flight = vec![InFlightStep { request: 9, since: START, model: None, was_cut: true }];
    let steps = vec![step(1, "Berlin"), step(2, "Bonn")];
    let steps =
        IncidentSteps { mode, task: Some(excerpt(HOSTILE)), steps, older: 3, in_flight, reason: None };
    let steps = Some(serde_json::to_string(&steps).unwrap());
    let evidence =
        Evidence { incident: "i1".into(), agent: "a0".into(), stored_at: START, steps, deleted: None };
    plane.store.put_evidence(&evidence).unwrap();
}

#[tokio::test]
async fn ev_1_an_incident_says_what_was_done_what_it_cost_and_what_to_do() {
    let plane = Plane::with_agents(1).await;
    keep(&plane, EvidenceMode::Redacted);
    let shown = plane.get("/api/incidents/i1").await.expect(200).json();
    let sentence = shown["sentence"].as_str().unwrap();
    assert!(
        sentence.starts_with("a0 called get_weather({\"city\":\"Bonn\"}) 5 times, the latest result was")
    );
    assert!(!sentence.contains(['\u{202e}', '\u{1b}', '\u{0}']), "{sentence}");
    assert_eq!(shown["cost"], json!({"usd": 2.0, "tokens": 84}));
    assert_eq!(shown["wasted"], json!({"steps": 4, "ms": 14_000, "usd": 0.5, "tokens": 84}));
    assert_eq!((&shown["older_steps"], &shown["in_flight"][0]["request"]), (&json!(3), &json!(9)));
    assert_eq!(shown["steps"][1]["did"][0]["failed"], true);
    assert!(shown["what_to_do"].to_string().contains("exempt_tools: [get_weather]"), "{shown}");
}

#[tokio::test]
async fn ev_1_the_page_of_an_incident_is_not_hurt_by_what_agents_say() {
    let plane = Plane::with_agents(1).await;
    keep(&plane, EvidenceMode::Redacted);
    let page = plane.get("/incidents/i1").await.expect(200).text();
    assert!(!page.contains("<script>alert") && !page.contains(['\u{202e}', '\u{1b}', '\u{0}']));
    let order =
        ["a0 called get_weather(", "What to do", "Steps up to the stop", "side by side", "In progress when"];
    let places: Vec<usize> = order.iter().map(|text| page.find(text).unwrap_or(usize::MAX)).collect();
    assert!(places.is_sorted() && places.last() < Some(&usize::MAX), "{places:?}");
    assert!(page.contains("differs") && page.contains("the same"), "Berlin and Bonn, one result");
    assert!(page.contains("3 older steps") && page.contains("Delete the steps"));
}

#[tokio::test]
async fn ev_1_full_steps_are_hidden_from_viewers_and_deleted_by_admins() {
    let plane = Plane::with_agents(1).await;
    keep(&plane, EvidenceMode::Full);
    let (viewer, operator) = (plane.token("viewer").await, plane.token("operator").await);
    let as_ = |token: &str, method: &str, path: &str| {
        set(anonymous(method, path, None), "authorization", &format!("Bearer {token}"))
    };
    for path in ["/api/incidents/i1", "/incidents/i1"] {
        let seen = plane.send(as_(&viewer, "GET", path)).await.expect(200).text();
        assert!(!seen.contains("Bonn") && seen.contains("operators and admins may see them"), "{seen}");
        assert!(plane.send(as_(&operator, "GET", path)).await.expect(200).text().contains("Bonn"));
    }
    for token in [&viewer, &operator] {
        plane.send(as_(token, "DELETE", "/api/incidents/i1/evidence")).await.expect(403);
    }
    plane.send(plane.request("DELETE", "/api/incidents/i1/evidence", None)).await.expect(204);
    plane.send(plane.request("DELETE", "/api/incidents/i2/evidence", None)).await.expect(404);
    let shown = plane.get("/api/incidents/i1").await.expect(200).json();
    assert!(shown["steps_missing"].as_str().is_some_and(|why| why.contains("deleted by")), "{shown}");
    assert_eq!(shown["steps"], json!([]));
}

#[tokio::test]
async fn ev_1_the_list_of_incidents_says_what_the_incident_says() {
    let plane = Plane::with_agents(1).await;
    keep(&plane, EvidenceMode::Full);
    let viewer = plane.token("viewer").await;
    for token in [&plane.token, &viewer] {
        let get = |path: &str| {
            plane.send(set(anonymous("GET", path, None), "authorization", &format!("Bearer {token}")))
        };
        let one = get("/api/incidents/i1").await.expect(200).json();
        let listed = get("/api/incidents").await.expect(200).json();
        assert_eq!(listed["incidents"][0]["sentence"], one["sentence"]);
        let sees_steps = one["sentence"].to_string().contains("Bonn");
        assert_eq!(sees_steps, token != &viewer, "{one}");
        let page = get("/incidents").await.expect(200).text();
        assert!(page.contains("a0 called get_weather") && page.contains("Bonn") == sees_steps, "{page}");
    }
}

#[tokio::test]
async fn ev_1_why_there_are_no_steps_is_what_is_true_of_them() {
    let plane = Plane::with_agents(1).await;
    let open = |id: &str, opened_at: i64, agent: &str| {
        let (id, agent) = (id.into(), agent.into());
        plane.store.open_incident(&Incident { id, agent, opened_at, ..stop() }).unwrap();
    };
    open("new", START, "a0");
    open("mine", START - 60_000, "a0");
    open("old", START - 31 * 86_400_000, "a0");
    open("system-2", START - 60_000, "system");
    for (id, mode) in [("off", EvidenceMode::Off), ("none", EvidenceMode::Full)] {
        open(id, START, "a0");
        let steps = serde_json::to_string(&IncidentSteps { mode, ..IncidentSteps::default() }).unwrap();
        let (agent, steps) = ("a0".into(), Some(steps));
        let kept = Evidence { incident: id.into(), agent, stored_at: START, steps, deleted: None };
        plane.store.put_evidence(&kept).unwrap();
    }
    for (id, why) in [
        ("new", "about to be saved"),
        ("mine", "estop ended before they were saved, or its database has only newer ones"),
        ("old", "deleted after 30 days (`retention.evidence_days`)"),
        ("system-2", "no agent's"),
        ("off", "said `evidence: off`"),
        ("none", "No steps of a0 were in memory then"),
    ] {
        let shown = plane.get(&format!("/api/incidents/{id}")).await.expect(200).json();
        let said = shown["steps_missing"].as_str().unwrap();
        assert!(said.contains(why), "{id}: {said}");
        assert!(said.matches(" or ").count() <= 1, "{id}: {said}");
    }
}

#[tokio::test]
async fn ev_1_nothing_is_wasted_in_no_time() {
    let plane = Plane::with_agents(1).await;
    let proof = json!({"stretch": {"steps": 0, "repeats": 0, "ms": 6, "tokens": 0, "usd": 0}}).to_string();
    plane.store.open_incident(&Incident { kind: "watchdog".into(), evidence: proof, ..stop() }).unwrap();
    let shown = plane.get("/api/incidents/i1").await.expect(200).json();
    assert_eq!(shown["wasted"], json!(null));
    let page = plane.get("/incidents/i1").await.expect(200).text();
    assert!(!page.contains("wasted"), "{page}");
}

#[tokio::test]
async fn ev_1_the_button_s_incident_says_which_requests_it_ended() {
    let plane = Plane::new();
    let of = |found: serde_json::Value| json!({"in_progress": found}).to_string();
    let agents = json!([{"agent": "coder", "requests": 2}, {"agent": "a\u{202e}b", "requests": 1}]);
    for (n, (found, says)) in [
        (
            json!({"requests": 3, "agents": agents, "more_agents": 0}),
            "3 requests to models were in progress and ended: coder 2, a\\u{202e}b 1.",
        ),
        (
            json!({"requests": 9, "agents": [], "more_agents": 4}),
            "9 requests to models were in progress and ended: 4 more agents.",
        ),
        (json!({"requests": 0, "agents": [], "more_agents": 0}), "No request to a model was in progress."),
    ]
    .into_iter()
    .enumerate()
    {
        let (id, agent, evidence) = (format!("system-{n}"), "system".into(), of(found));
        let pressed = Incident {
            id: id.as_str().into(),
            agent,
            evidence,
            summary: "Stop by ann: drill".into(),
            ..stop()
        };
        plane.store.open_incident(&pressed).unwrap();
        let shown = plane.get(&format!("/api/incidents/{id}")).await.expect(200).json();
        assert_eq!(shown["sentence"], format!("Stop by ann: drill. {says}"));
    }
}
