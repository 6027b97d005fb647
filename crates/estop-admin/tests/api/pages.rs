//! The dashboard's pages, as they leave the server. What a browser makes of them is in `tests/browser`.

use estop_core::event::{Event, EventKind};
use estop_core::time::{Millis, Now};
use estop_store::{JournalBatch, NewEvent};
use serde_json::json;

use crate::support::{Plane, START, anonymous, set};

const PAGES: [&str; 10] = [
    "/",
    "/agents/a0",
    "/agents/a0/requests",
    "/incidents",
    "/needs-human",
    "/alerts",
    "/spend",
    "/journal",
    "/connect",
    "/settings",
];

#[tokio::test]
async fn ui_1_pages_are_for_those_who_are_logged_in() {
    let plane = Plane::with_agents(1).await;
    for page in PAGES {
        let sent_away = plane.send(anonymous("GET", page, None)).await.expect(303);
        assert!(sent_away.header("location").starts_with("/login?next=/"), "{page}");
        let shown = plane.get(page).await.expect(200);
        assert!(shown.header("content-type").starts_with("text/html"), "{page}");
        assert!(shown.text().contains("data-hold"), "the button is on {page}");
        plane.send(plane.request("POST", page, None)).await.expect(405);
    }
    plane.send(anonymous("GET", "/live", None)).await.expect(401);
    plane.send(set(anonymous("GET", "/login", None), "host", "evil.example")).await.expect(421);
    plane.send(anonymous("GET", "/assets/panel.js", None)).await.expect(200);
    plane.send(anonymous("GET", "/assets/..%2fCargo.toml", None)).await.expect(404);
    plane.get("/incidents/none").await.expect(404);
}

#[tokio::test]
async fn ui_1_no_page_lets_a_foreign_script_in() {
    let plane = Plane::with_agents(1).await;
    for page in PAGES {
        let shown = plane.get(page).await.expect(200);
        let policy = shown.header("content-security-policy");
        assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe"), "{policy}");
        let html = shown.text();
        assert!(!html.contains(" style=") && !html.contains(" onclick="), "{page}");
        assert!(html.matches("<script").count() == html.matches("<script src=\"/assets/").count(), "{page}");
    }
    let note = "<img src=x onerror=alert(1)>'\"";
    plane.post("/api/emergency/kill", json!({"note": note, "channels": ["tools"]})).await.expect(200);
    let searched = plane.get("/journal?agent=%22%3E%3Cscript%3E").await.expect(200).text();
    assert!(!searched.contains("\"><script>"), "{searched}");
    assert!(!plane.get("/").await.expect(200).text().contains("<img src=x"));
    let login = plane.send(anonymous("GET", "/login?next=//evil.example", None)).await.expect(200).text();
    assert!(!login.contains("evil.example"), "{login}");
}

#[tokio::test]
async fn ui_1_a_viewer_sees_no_buttons() {
    let plane = Plane::with_agents(1).await;
    let token = plane.token("viewer").await;
    for page in PAGES {
        let request = set(anonymous("GET", page, None), "authorization", &format!("Bearer {token}"));
        let html = plane.send(request).await.expect(200).text();
        assert!(!html.contains("data-hold"), "{page}");
        assert!(!html.contains("data-call=\"P"), "{page}");
    }
}

#[tokio::test]
async fn ev_2_with_the_button_pressed_nothing_is_said_to_be_active() {
    let plane = Plane::with_agents(2).await;
    let shown = plane.get("/").await.expect(200).text();
    assert!(
        shown.contains(">Active<") && shown.contains("<b>2</b><span class=\"soft\">of 2 agents running"),
        "{shown}"
    );
    plane.send(plane.request("POST", "/api/emergency/kill", None)).await.expect(200);
    for page in ["/", "/agents/a0"] {
        let shown = plane.get(page).await.expect(200).text();
        assert!(!shown.contains(">Active<") && !shown.contains("may work"), "{page}: {shown}");
        assert!(shown.contains(">Shut down<"), "{page}: {shown}");
    }
    let stats = plane.get("/api/stats").await.expect(200).json();
    assert_eq!((&stats["active"], &stats["states"]), (&json!(0), &json!({"shut": 2})));
    let agents = plane.get("/api/agents").await.expect(200).json();
    assert_eq!(agents["agents"][0]["state"]["kind"], "shut");
}

#[tokio::test]
async fn ui_1_what_is_not_there_is_a_page_for_browsers_and_a_document_for_programs() {
    let plane = Plane::new();
    for path in ["/nothing-here", "/incidents/none", "/agents/none"] {
        let request = set(plane.request("GET", path, None), "accept", "text/html,*/*");
        let page = plane.send(request).await;
        assert_eq!(page.status.as_u16(), 404, "{path}");
        assert!(page.header("content-type").starts_with("text/html"), "{path}");
        assert!(page.text().contains("<h1>") && page.text().contains("href=\"/\""), "{}", page.text());
        plane.get(path).await.expect(404);
    }
    let request = set(plane.request("GET", "/api/incidents/none", None), "accept", "text/html");
    plane.send(request).await.expect(404);
}

#[tokio::test]
async fn ui_1_what_cannot_be_read_is_a_page_for_browsers_and_names_the_field_for_programs() {
    let plane = Plane::with_agents(1).await;
    for (method, path, status, says) in [
        ("GET", "/events/abc", 404, "seq must be a whole number"),
        ("GET", "/agents/a0/requests/abc", 404, "seq must be a whole number"),
        ("GET", "/agents/%ff", 404, "id must be UTF-8"),
        ("GET", "/incidents/%ff", 404, "id must be UTF-8"),
        ("GET", "/assets/%ff", 404, "name must be UTF-8"),
        ("GET", "/?from=x", 400, "from: must be a whole number"),
        ("GET", "/?from=", 400, "from: must be a whole number"),
        ("GET", "/journal?from=x", 400, "from: must be a day"),
        ("GET", "/journal?agent=a&agent=b", 400, "duplicate field"),
        ("GET", "/incidents?before=x", 400, "before: "),
        ("GET", "/agents/a0/requests?before=x", 400, "before: "),
        ("GET", "/login?next=a&next=b", 400, "duplicate field"),
        ("POST", "/journal", 405, "This path answers GET"),
    ] {
        let request = set(plane.request(method, path, None), "accept", "text/html,*/*");
        let page = plane.send(request).await;
        assert_eq!(page.status.as_u16(), status, "{path}");
        assert!(page.header("content-type").starts_with("text/html"), "{path}");
        let html = page.text();
        assert!(html.contains("<h1>") && html.contains(says), "{path}: {html}");
        let sent = plane.send(plane.request(method, path, None)).await;
        assert_eq!(sent.header("content-type"), "application/problem+json", "{path}");
    }
    for (path, status, field) in [
        ("/api/events/abc/evidence", 404, "seq"),
        ("/api/incidents/%ff", 404, "id"),
        ("/api/events?limit=x", 400, "limit"),
        ("/api/events?before=x", 400, "before"),
        ("/api/incidents?limit=-1", 400, "limit"),
    ] {
        let problem = plane.get(path).await.expect(status).json();
        assert_eq!(problem["errors"][0]["field"], field, "{path}: {problem}");
        assert!(!problem.to_string().contains("invalid digit"), "{problem}");
    }
}

#[tokio::test]
async fn ui_1_lists_are_downloaded_as_csv() {
    let plane = Plane::with_agents(1).await;
    for (path, heading) in [
        ("/spend.csv?by=agent&days=7", "\"agent\",\"usd\""),
        ("/journal.csv?agent=a0", "\"at\",\"event\""),
        ("/agents/a0/requests.csv", "\"at\",\"run\""),
    ] {
        let file = plane.get(path).await.expect(200);
        assert_eq!(file.header("content-type"), "text/csv; charset=utf-8");
        assert!(file.header("content-disposition").starts_with("attachment; filename="), "{path}");
        assert!(file.text().starts_with(heading), "{}", file.text());
    }
    let unknown = plane.send(anonymous("GET", "/journal.csv", None)).await;
    assert!(unknown.status.is_redirection(), "it is behind the login: {}", unknown.status);
}

#[tokio::test]
async fn ui_1_an_agent_is_not_said_to_stand_still_for_what_is_over() {
    let plane = Plane::with_agents(1).await;
    let mut journal = plane.journal();
    let types = ["kill_switch", "activated", "paused", "budget_refused", "run_tripped"];
    let events = types.iter().zip(1..).map(|(event_type, seq)| {
        let now = Now { mono: Millis(1), wall: START };
        journal.agent("a0", now, &Event::open(EventKind::Tick), &"noted");
        let detail = json!({"reason": format!("because of {event_type}")}).to_string();
        let (agent, event_type) = (Some("a0".into()), (*event_type).into());
        NewEvent { seq, wall: START, agent, event_type, detail }
    });
    let events = events.collect();
    plane.keep(&journal, JournalBatch { events, ..JournalBatch::default() });
    let latest = async || {
        let page = plane.get("/agents/a0").await.expect(200).text();
        page.split("id=\"latest\">").nth(1).unwrap().split("</p>").next().unwrap().to_owned()
    };
    let said = latest().await;
    assert!(!said.contains(" since "), "it works: {said}");
    plane.post("/api/agents/a0/pause", json!({})).await.expect(200);
    let said = latest().await;
    assert!(said.contains("Paused since "), "{said}");
    plane.post("/api/agents/a0/deactivate", json!({})).await.expect(200);
    let said = latest().await;
    assert!(said.contains("Kill switch since "), "{said}");
}
