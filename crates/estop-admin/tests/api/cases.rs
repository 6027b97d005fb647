//! Cases that are answered by what a person did to their agent (EV-3).

use std::sync::Arc;

use estop_store::{CaseStatus, Cases, Incident};
use serde_json::{Value, json};

use crate::support::{Answered, Plane, START};

fn incident(id: &str) -> Incident {
    Incident {
        id: id.into(),
        agent: "a0".into(),
        run: None,
        seq: 4,
        kind: "health".into(),
        opened_at: START,
        status: CaseStatus::Open,
        resolution: None,
        resolved_at: None,
        history: Vec::new(),
        earlier: None,
        later: None,
        evidence: "{}".into(),
        summary: "Its health fell.".into(),
        version: 0,
    }
}

async fn steer(plane: &Plane, step: &str) -> Value {
    plane.post(&format!("/api/agents/a0/{step}"), json!({})).await.expect(200).json()
}

#[tokio::test]
async fn ev_3_resuming_a_paused_agent_resolves_its_incident() {
    let plane = Plane::with_agents(1).await;
    plane.store.open_incident(&incident("i1")).unwrap();
    let active = steer(&plane, "resume").await;
    assert_eq!(active["resolved"]["incidents"], json!([]), "it was not paused: {active}");
    steer(&plane, "pause").await;
    let resumed = steer(&plane, "resume").await;
    assert_eq!(resumed["resolved"]["incidents"], json!(["i1"]), "{resumed}");
    let shown = plane.get("/api/incidents/i1").await.expect(200).json();
    assert_eq!((&shown["status"], &shown["resolved_by"]), (&json!("resolved"), &json!("admin")));
    assert!(shown["resolution"].as_str().is_some_and(|text| text.ends_with("resumed the agent.")), "{shown}");
}

#[tokio::test]
async fn ev_3_a_case_that_is_stored_late_is_resolved_too() {
    let plane = Plane::with_agents(1).await;
    steer(&plane, "deactivate").await;
    let store = Arc::clone(&plane.store);
    plane.operator.before_stored(move || store.open_incident(&incident("late")).unwrap());
    let activated = steer(&plane, "activate").await;
    assert_eq!(activated["resolved"]["incidents"], json!(["late"]), "{activated}");
}

async fn change(plane: &Plane, path: &str, body: Value) -> Answered {
    plane.send(plane.request("PATCH", path, Some(body))).await
}

#[tokio::test]
async fn ev_3_an_incident_is_acknowledged_and_resolved_with_who_when_and_notes() {
    let plane = Plane::with_agents(1).await;
    plane.store.open_incident(&incident("i1")).unwrap();
    let path = "/api/incidents/i1";
    let taken = change(&plane, path, json!({"status": "acknowledged", "note": "looking"})).await.expect(200);
    let taken = taken.json();
    assert_eq!((&taken["status"], &taken["acknowledged_by"]), (&json!("acknowledged"), &json!("admin")));
    let of_status = async |status: &str| {
        let found = plane.get(&format!("/api/incidents?status={status}")).await.expect(200).json();
        found["incidents"].as_array().map(Vec::len)
    };
    assert_eq!((of_status("open").await, of_status("unresolved").await), (Some(0), Some(1)));
    change(&plane, path, json!({"note": "the prompt was wrong"})).await.expect(200);
    let done = change(&plane, path, json!({"status": "resolved", "note": "fixed"})).await.expect(200).json();
    assert_eq!((&done["status"], &done["resolution"]), (&json!("resolved"), &json!("fixed")));
    let steps = done["history"].as_array().unwrap().iter().map(|entry| {
        let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        (text("step"), text("by"), text("note"))
    });
    let step = |step: &str, note: &str| (step.to_owned(), "admin".to_owned(), note.to_owned());
    let wanted =
        [step("acknowledged", "looking"), step("noted", "the prompt was wrong"), step("resolved", "fixed")];
    assert_eq!(steps.collect::<Vec<_>>(), wanted);
    let again = change(&plane, path, json!({"status": "resolved"})).await.expect(200).json();
    assert_eq!(again["version"], done["version"], "nothing was changed");
    let open = change(&plane, path, json!({"status": "open"})).await.expect(200).json();
    assert_eq!((&open["status"], &open["resolved_at"]), (&json!("open"), &Value::Null));
    assert_eq!((&open["acknowledged_by"], &open["resolved_by"]), (&Value::Null, &Value::Null));
    let long = "x".repeat(4_097);
    change(&plane, path, json!({"note": long})).await.expect(400);
}

#[tokio::test]
async fn ev_3_a_case_is_changed_by_one_person_at_a_time() {
    let plane = Plane::with_agents(1).await;
    plane.store.open_incident(&incident("i1")).unwrap();
    let seen = plane.get("/api/incidents/i1").await.expect(200).header("etag");
    let with = |body| {
        let request = plane.request("PATCH", "/api/incidents/i1", Some(body));
        plane.send(crate::support::set(request, "if-match", &seen))
    };
    with(json!({"status": "acknowledged"})).await.expect(200);
    with(json!({"status": "resolved"})).await.expect(412);
    let kept = plane.get("/api/incidents/i1").await.expect(200).json();
    assert_eq!(kept["status"], "acknowledged");
}

#[tokio::test]
async fn ev_3_every_press_of_the_button_finds_its_incident() {
    let plane = Plane::new();
    plane.store.open_incident(&pressed("system-3")).unwrap();
    // Pressed once more while everything was stopped: no new incident, and people were told of epoch 4.
    for (asked, status) in [("system-3", 200), ("system-4", 200), ("system-2", 404), ("system-x", 404)] {
        let found = plane.get(&format!("/api/incidents/{asked}")).await.expect(status).json();
        assert!(status == 404 || found["id"] == "system-3", "{found}");
    }
}

fn pressed(id: &str) -> Incident {
    Incident { agent: "system".into(), kind: "emergency_stop".into(), ..incident(id) }
}

#[tokio::test]
async fn ev_3_the_incident_of_a_pressed_button_is_resolved_by_clearing_it_alone() {
    let plane = Plane::new();
    plane.post("/api/emergency/kill", json!({})).await.expect(200);
    plane.store.open_incident(&pressed("system-2")).unwrap();
    let path = "/api/incidents/system-2";
    let refused = change(&plane, path, json!({"status": "resolved"})).await.expect(409).json();
    let detail = refused["detail"].as_str().unwrap();
    for part in [
        "while the emergency stop is in force",
        "Nothing was changed",
        "estop emergency unlock",
        "ack system-2",
    ] {
        assert!(detail.contains(part), "{part}: {detail}");
    }
    let page = plane.get("/incidents/system-2").await.expect(200).text();
    assert!(
        page.contains("resolved when the emergency stop is cleared") && page.contains("Acknowledge"),
        "{page}"
    );
    assert!(!page.contains(">Resolve<"), "{page}");
    let taken =
        change(&plane, path, json!({"status": "acknowledged", "note": "on my way"})).await.expect(200);
    assert!(taken.json()["next"].as_str().is_some_and(|next| next.contains("in force")), "{}", taken.text());

    plane.post("/api/emergency/restart", json!({})).await.expect(200);
    let refused = change(&plane, path, json!({"status": "resolved"})).await.expect(409).json();
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains("estop emergency clear") && !detail.contains("emergency unlock"), "{detail}");
    plane.post("/api/emergency/clear", json!({})).await.expect(200);
    let done = change(&plane, path, json!({"status": "resolved"})).await.expect(200).json();
    assert_eq!((&done["status"], &done["next"]), (&json!("resolved"), &Value::Null));
}

#[tokio::test]
async fn ev_3_what_to_do_fits_how_things_are_by_now() {
    let plane = Plane::with_agents(1).await;
    plane.store.open_incident(&incident("i1")).unwrap();
    plane.store.open_incident(&pressed("system-2")).unwrap();
    let advice = async |id: &str| {
        let shown = plane.get(&format!("/api/incidents/{id}")).await.expect(200).json();
        shown["what_to_do"].as_array().unwrap().iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        advice("i1").await,
        "a0 is not stopped any more: resolve this incident (estop incidents resolve i1)."
    );
    change(&plane, "/api/incidents/i1", json!({"status": "resolved"})).await.expect(200);
    assert_eq!(advice("i1").await, "Nothing: it is resolved, and a0 is not stopped.");
    steer(&plane, "pause").await;
    let said = advice("i1").await;
    assert!(said.starts_with("This is resolved, and a0 is stopped all the same."), "{said}");
    assert!(said.contains("estop agents resume a0"), "{said}");

    assert!(advice("system-2").await.contains("not in force any more: resolve this incident"));
    change(&plane, "/api/incidents/system-2", json!({"status": "resolved"})).await.expect(200);
    assert_eq!(advice("system-2").await, "Nothing: it is resolved, and the emergency stop is not in force.");
    plane.post("/api/emergency/kill", json!({})).await.expect(200);
    let said = advice("system-2").await;
    assert!(said.starts_with("This is resolved. The emergency stop is in force."), "{said}");
}

#[tokio::test]
async fn ev_3_an_incident_that_a_refusal_names_is_waited_for() {
    let plane = Plane::with_agents(1).await;
    for path in ["/api/incidents/late1", "/incidents/late2"] {
        let id = path.rsplit('/').next().unwrap().to_owned();
        let store = Arc::clone(&plane.store);
        plane.operator.before_stored(move || store.open_incident(&incident(&id)).unwrap());
        assert_eq!(plane.get(path).await.status, 200, "{path}");
    }
    plane.get("/api/incidents/none").await.expect(404);
}

#[tokio::test]
async fn ev_3_the_list_says_how_many_there_are_and_begins_with_the_pressed_button() {
    let plane = Plane::with_agents(1).await;
    for n in 0..60 {
        let opened_at = START + n;
        plane.store.open_incident(&Incident { opened_at, ..incident(&format!("i{n}")) }).unwrap();
    }
    plane.store.open_incident(&Incident { opened_at: START - 1, ..pressed("system-2") }).unwrap();
    let listed = plane.get("/api/incidents?limit=50").await.expect(200).json();
    let ids = |listed: &Value| {
        let all = listed["incidents"].as_array().unwrap().iter();
        all.map(|incident| incident["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let first = ids(&listed);
    assert_eq!((first.len(), &*first[0], &listed["total"]), (50, "i59", &json!(61)));
    assert_eq!(listed["emergency"]["id"], "system-2");
    let next = listed["next"].as_str().unwrap();
    let rest = plane.get(&format!("/api/incidents?limit=50&before={next}")).await.expect(200).json();
    assert_eq!((ids(&rest).len(), &rest["total"], &rest["next"]), (11, &json!(61), &Value::Null));
    let exact = plane.get("/api/incidents?limit=61").await.expect(200).json();
    assert_eq!((ids(&exact).len(), &exact["next"]), (61, &Value::Null), "nothing comes after the last");
    let of_agent = plane.get("/api/incidents?agent=a0").await.expect(200).json();
    assert_eq!((&of_agent["total"], &of_agent["emergency"]), (&json!(60), &Value::Null));

    let page = plane.get("/incidents").await.expect(200).text();
    assert!(page.contains("51 of 61 unresolved incidents are on this page"), "{page}");
    let places =
        ["/incidents/system-2", "/incidents/i59", "/incidents/i10\"", ">Older<"].map(|part| page.find(part));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}");
    change(&plane, "/api/incidents/system-2", json!({"status": "resolved"})).await.expect(200);
    let page = plane.get("/incidents?show=all").await.expect(200).text();
    assert!(!page.contains("/incidents/system-2") && page.contains("50 of 61 incidents"), "{page}");
}

#[tokio::test]
async fn se_5_filters_take_an_agent_s_name_in_any_case() {
    let plane = Plane::with_agents(1).await;
    plane.store.open_incident(&incident("i1")).unwrap();
    plane.post("/api/runs", json!({"agent": "a0", "run": "r1"})).await.expect(201);
    for list in ["incidents", "runs"] {
        let kept = plane.get(&format!("/api/{list}?agent=a0")).await.expect(200).json();
        assert_eq!(kept[list].as_array().map(Vec::len), Some(1), "{kept}");
        let other = plane.get(&format!("/api/{list}?agent=A0")).await.expect(200).json();
        assert_eq!(kept, other);
    }
}
