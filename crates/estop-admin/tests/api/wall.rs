//! The dashboard on a screen on the wall: many agents, charts, pages that stay light.

use estop_core::event::{Event, EventKind};
use estop_core::money::NanoUsd;
use estop_core::operator::Operator;
use estop_core::time::{Millis, Now};
use estop_store::{
    AgentSeen, CaseStatus, Escalation, Incident, JournalBatch, Ledger, NewEvent, Spend, SpendSum,
};
use serde_json::{Value, json};

use crate::support::{Plane, START, anonymous};

/// What a page may weigh, with what it is dressed in (docs/decisions/0018).
const WEIGHT_MAX: usize = 200_000;
const MINUTE: i64 = 60_000;

/// What was decided of a request, as the journal has it.
fn decision(refused: bool) -> Value {
    let outcome = if refused { json!({"refuse": {"by": "loop", "retry": "never"}}) } else { json!("allow") };
    let (mode, health) = if refused { ("LOOPING", 550) } else { ("WORKING", 1000) };
    json!({"outcome": outcome, "seen": {"gate": {"mode": mode}, "health": {"health": health}}})
}

/// Writes records of requests: of which agent, when, and whether it was refused; and keeps rows with them.
fn keep(plane: &Plane, records: &[(&str, i64, bool)], rows: JournalBatch) {
    let mut journal = plane.journal();
    for (agent, wall, refused) in records {
        let now = Now { mono: Millis(1), wall: *wall };
        journal.agent(agent, now, &Event::open(EventKind::Tick), &decision(*refused));
    }
    plane.keep(&journal, rows);
}

/// As long as a name may be.
fn name(number: usize) -> String {
    format!("{number:04}-{}", "n".repeat(59))
}

/// A thousand agents of the longest names, half of them at rest; a full hour of requests for those shown; five hundred open
/// cases, spend of a month, events with much to say.
fn crowded() -> Plane {
    let plane = Plane::new();
    let names: Vec<String> = (0..1000).map(name).collect();
    let mut batch = JournalBatch::default();
    batch.seen.extend(names.iter().map(|agent| AgentSeen { agent: agent.as_str().into(), at: START }));
    let shown = names.iter().skip(500).take(60);
    let mut records = Vec::new();
    for minute in 0..60 {
        for agent in shown.clone() {
            records.push((agent.as_str(), START - (59 - minute) * MINUTE, false));
            records.push((agent.as_str(), START - (59 - minute) * MINUTE, true));
        }
    }
    for (number, agent) in names.iter().enumerate().take(500) {
        batch.incidents.push(Incident {
            id: format!("i{number}").into(),
            agent: agent.as_str().into(),
            run: None,
            seq: 1,
            kind: "loop".into(),
            opened_at: START,
            status: CaseStatus::Open,
            resolution: None,
            resolved_at: None,
            history: Vec::new(),
            earlier: None,
            later: None,
            evidence: "{}".to_owned(),
            summary: "s".repeat(300),
            version: 1,
        });
        batch.escalations.push(Escalation {
            id: format!("e{number}").into(),
            agent: agent.as_str().into(),
            run: None,
            reason: "r".repeat(300),
            opened_at: START,
            status: CaseStatus::Open,
            owner: None,
            seq: 4,
            history: Vec::new(),
            resolved_at: None,
            resolved_by: None,
            summary: Some("w".repeat(500)),
            facts: "{}".to_owned(),
            version: 1,
        });
        let detail = serde_json::json!({"reason": "w".repeat(2000)}).to_string();
        let agent = Some(agent.as_str().into());
        batch.events.push(NewEvent {
            seq: 1,
            wall: START,
            agent,
            event_type: "would_have_stopped".into(),
            detail,
        });
    }
    keep(&plane, &records, batch);
    let spend = names.iter().map(|agent| Spend {
        day: i32::try_from(START / 86_400_000).unwrap(),
        agent: agent.as_str().into(),
        model: agent.as_str().into(),
        sum: SpendSum { requests: 1, usd: NanoUsd(1_000_000_000), ..SpendSum::default() },
        ..Spend::default()
    });
    plane.store.add_spend(spend.collect()).expect("spend");
    for agent in names.iter().skip(500) {
        plane.operator.add_agent(agent).expect("an agent");
    }
    plane
}

#[tokio::test]
async fn ui_1_every_page_is_light_with_a_thousand_agents() {
    let plane = crowded();
    let mut dress = 0;
    for asset in ["panel.css", "panel.js", "idiomorph.min.js", "icon.svg"] {
        dress +=
            plane.send(anonymous("GET", &format!("/assets/{asset}"), None)).await.expect(200).bytes.len();
    }
    let agent = format!("/agents/{}", name(510));
    for page in [
        "/",
        "/?from=950",
        "/?show=stopped",
        &agent,
        "/incidents",
        "/incidents?show=all",
        "/incidents/i7",
        "/needs-human",
        "/spend",
        "/spend?by=agent",
        "/spend?by=model",
        "/journal",
        "/connect",
        "/settings",
    ] {
        let html = plane.get(page).await.expect(200).text();
        let weight = html.len() + dress;
        assert!(weight <= WEIGHT_MAX, "{page} weighs {weight} bytes, {dress} of them its dress");
        // Everything a person reads is in the page itself; scripts wait until it is there.
        let scripts = html.matches("<script").count();
        assert_eq!(html.matches("\" defer></script>").count(), scripts, "{page}");
    }
}

#[tokio::test]
async fn ui_1_the_overview_pages_through_all_agents_those_at_rest_too() {
    let plane = crowded();
    let (mut seen, mut next) = (Vec::new(), Some("/".to_owned()));
    while let Some(page) = next {
        let html = plane.get(&page).await.expect(200).text();
        let rows = html.split("<tr id=\"agent-").skip(1).map(|row| row.split('"').next().unwrap().to_owned());
        seen.extend(rows);
        let more = html.split("<a class=\"button\" href=\"").skip(1).find(|link| link.contains(">More<"));
        next = more.map(|link| link.split('"').next().unwrap().replace("&#38;", "&").replace("&amp;", "&"));
    }
    assert_eq!(seen.len(), 1000);
    assert_eq!(seen.first(), Some(&name(500)), "those at work come first");
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 1000, "each once");
    let first = plane.get("/").await.expect(200).text();
    assert!(first.contains("1–50 of 1000") && first.contains("120 asked, 60 refused"), "{first}");
    assert!(plane.get("/?from=999").await.expect(200).text().contains("at rest"));
}

#[tokio::test]
async fn ui_1_charts_say_what_the_journal_says_and_since_when() {
    let plane = Plane::with_agents(1).await;
    let quiet = plane.get("/agents/a0").await.expect(200).text();
    assert!(quiet.contains("Health 1000 of 1000, 1000 at its lowest; quiet."), "{quiet}");
    let asked = [("a0", START - 2 * MINUTE, false), ("a0", START - MINUTE, true), ("a0", START, false)];
    keep(&plane, &asked, JournalBatch::default());
    let page = plane.get("/agents/a0").await.expect(200).text();
    assert!(
        page.contains("Health 1000 of 1000, 550 at its lowest; 3 asked, 1 refused; alarming in 1 min."),
        "{page}"
    );
    for part in [
        "<title id=\"hour-title\">",
        "<desc id=\"hour-text\">",
        "class=\"looping\" x=\"58\"",
        "M57 0H58V450H59V0H60V0",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    assert!(!page.contains("six-hours"), "there was nothing before");
    let row = plane.get("/").await.expect(200).text();
    assert!(row.contains("Last hour: 3 asked, 1 refused"), "{row}");
    plane.pass_ms(70 * MINUTE);
    assert!(plane.get("/").await.expect(200).text().contains("Last hour: quiet"));
    let later = plane.get("/agents/a0").await.expect(200).text();
    assert!(later.contains("six-hours-title") && later.contains("6 h ago"), "{later}");
    assert!(!later.contains("not in this chart"), "all of it was read");
}

#[tokio::test]
async fn ui_1_a_journal_too_long_to_read_says_since_when_it_is_counted() {
    let plane = Plane::with_agents(1).await;
    let old = ("a0", START - 10 * MINUTE, false);
    let mut records = vec![old; 5_000];
    records.extend(vec![("a0", START - 3 * MINUTE, false); 10_000]);
    // What is read begins in the middle of a segment.
    keep(&plane, &records, JournalBatch::default());
    let page = plane.get("/").await.expect(200).text();
    assert!(page.contains("10000 asked") && page.contains("counted since 3 min ago"), "{page}");
    let agent = plane.get("/agents/a0").await.expect(200).text();
    assert!(agent.contains("Earlier than 3 min ago is in the journal"), "{agent}");
}

#[tokio::test]
async fn ui_1_spend_is_drawn_by_day_and_compared_in_every_view() {
    let plane = Plane::new();
    let none = plane.get("/spend").await.expect(200).text();
    assert!(none.contains("Nothing was spent yet") && !none.contains("days-title"), "{none}");
    let today = i32::try_from(START / 86_400_000).unwrap();
    let spend = |day, model: &str, usd| Spend {
        day,
        agent: "a".into(),
        model: model.into(),
        sum: SpendSum { requests: 1, usd: NanoUsd(usd), ..SpendSum::default() },
        ..Spend::default()
    };
    let evil = "<script>\"m";
    plane
        .store
        .add_spend(vec![spend(today, "m1", 4_000_000_000), spend(today - 2, evil, 1_000_000_000)])
        .unwrap();
    let page = plane.get("/spend").await.expect(200).text();
    assert!(page.contains("2 days with spend; the most on 2025-11-15: $4.00."), "{page}");
    assert!(
        page.contains("y=\"75\" width=\"8\" height=\"25\"")
            && page.contains("y=\"0\" width=\"8\" height=\"100\""),
        "{page}"
    );
    let models = plane.get("/spend?by=model").await.expect(200).text();
    assert!(models.contains("25 % of the largest") && models.contains("days-title"), "{models}");
    assert!(!models.contains(evil), "{models}");
}

#[tokio::test]
async fn ui_1_an_agent_at_work_is_listed_however_many_come_before_it() {
    let plane = Plane::new();
    let seen = (0..20_001).map(|n| AgentSeen { agent: format!("n{n:05}").into(), at: START });
    let last = AgentSeen { agent: "zoe".into(), at: START };
    keep(&plane, &[], JournalBatch { seen: seen.chain([last]).collect(), ..JournalBatch::default() });
    plane.operator.add_agent("zoe").unwrap();
    plane.operator.steer("zoe", estop_core::operator::AgentCommand::Pause, "ada").unwrap();
    let html = plane.get("/?show=stopped").await.expect(200).text();
    assert!(html.contains("agent-zoe"), "{html}");
}
