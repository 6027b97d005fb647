//! Alerts as people see and steer them (AL-1 to AL-3): channels, tests, the log, rules, mutes, and the page.

use estop_store::{
    AlertCommit, AlertRule, Alerts, CaseStatus, Cases, Delivery, DeliveryOutcome, Escalation, NewAlert,
};
use serde_json::{Value, json};

use crate::support::{Answered, Plane, START, anonymous, set};

async fn put(plane: &Plane, path: &str, body: Value) -> Answered {
    plane.send(plane.request("PUT", path, Some(body))).await
}

async fn delete(plane: &Plane, path: &str) -> Answered {
    plane.send(plane.request("DELETE", path, None)).await
}

/// Sends an alert and writes down how that ended, in the store.
fn tried(plane: &Plane, channel: &str, nth: i64, title: &str, outcome: DeliveryOutcome, said: &str) {
    let payload = json!({"title": title, "alert": "kill_switch", "kind": "alert"}).to_string();
    let dedupe = format!("msg_{channel}_{nth}").into();
    let alert =
        NewAlert { dedupe, target: channel.into(), payload, created_at: START + nth, due_at: START + nth };
    let commit = AlertCommit { at: START + nth, alerts: vec![alert], memory: Vec::new() };
    plane.store.commit_alerts(commit).unwrap();
    let first = plane.store.next_alert(channel).unwrap().unwrap();
    let delivery = Delivery { at: START + nth, outcome, detail: said.to_owned() };
    plane.store.mark_alert(first.id, &delivery).unwrap();
}

fn field(problem: &Value) -> &str {
    problem["errors"][0]["field"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn al_3_a_missing_notification_is_told_until_somebody_is_told() {
    let plane = Plane::with_agents(2).await;
    let missing = async |path: &str| plane.get(path).await.expect(200).json()["notification_missing"].clone();
    let (a0, a1) = ("/api/agents/a0/kill-switch", "/api/agents/a1/kill-switch");
    assert_eq!((missing(a0).await, missing("/api/stats").await), (json!(true), json!(true)));
    assert!(plane.get("/").await.text().contains("Set up alerts"));
    assert!(plane.get("/agents/a0").await.text().contains("Set up alerts"));
    // A rule alone tells nobody: there is no channel.
    let rule = AlertRule { id: "r".into(), rule: "{}".into(), enabled: true, version: 0, updated_at: 1 };
    plane.store.put_rule(&rule).unwrap();
    assert_eq!(missing(a0).await, true);
    plane.alerts_api.lock().told_of.push("a0".into());
    assert_eq!((missing(a0).await, missing("/api/stats").await), (json!(false), json!(false)));
    assert_eq!(missing(a1).await, true, "each agent for itself");
    assert!(!plane.get("/").await.text().contains("Set up alerts"));
    assert!(!plane.get("/agents/a0").await.text().contains("Set up alerts"));
    assert!(plane.get("/agents/a1").await.text().contains("Set up alerts"));
}

#[tokio::test]
async fn al_1_channels_are_shown_with_their_health_and_tested() {
    let plane = Plane::new();
    let none = plane.get("/api/alerts/channels").await.expect(200).json();
    assert_eq!(none, json!({"channels": [], "told_of_stops": false, "store_error": null}));
    plane.alerts_api.add_channel("ops", 0, "200 ok");
    plane.alerts_api.add_channel("pager", 6, "401 bad key");
    plane.alerts_api.lock().store_error = Some("the disk is full".to_owned());
    tried(&plane, "pager", 1, "A", DeliveryOutcome::RetryAt(START + 90_000), "401 bad key");
    let shown = plane.get("/api/alerts/channels").await.expect(200).json();
    assert_eq!(shown["store_error"], "the disk is full");
    let [ops, pager] = [&shown["channels"][0], &shown["channels"][1]];
    assert_eq!(
        (&ops["working"], &ops["to"], &ops["waiting"]),
        (&json!(true), &json!("hooks.slack.com"), &json!(0))
    );
    assert_eq!(
        (&pager["working"], &pager["waiting"], &pager["said"]),
        (&json!(false), &json!(1), &json!("401 bad key"))
    );
    assert_eq!(pager["rests_until"], "2025-11-15T00:00:45Z");

    let test = async |name: &str| {
        let path = format!("/api/alerts/channels/{name}/test");
        plane.send(plane.request("POST", &path, None)).await
    };
    assert_eq!(test("ops").await.expect(202).json()["channel"], "ops");
    assert_eq!(plane.alerts_api.notes(), ["test of ops by admin"]);
    test("nobody").await.expect(404);
    plane.alerts_api.lock().busy = true;
    assert_eq!(test("ops").await.expect(503).header("retry-after"), "1");
}

#[tokio::test]
async fn al_1_the_delivery_log_comes_in_pages_and_by_channel() {
    let plane = Plane::new();
    for nth in 0..5 {
        tried(&plane, "ops", nth, &format!("Alert {nth}"), DeliveryOutcome::Delivered, "200 ok");
    }
    tried(&plane, "mail", 9, "Other", DeliveryOutcome::GivenUp, "550 no such mailbox");
    let get = async |query: &str| plane.get(&format!("/api/alerts/deliveries{query}")).await;
    let first = get("?limit=4").await.expect(200).json();
    assert_eq!(first["deliveries"][0]["outcome"], "given_up");
    assert_eq!(
        (&first["deliveries"][1]["title"], &first["deliveries"][1]["kind"]),
        (&json!("Alert 4"), &json!("alert"))
    );
    let next = first["next"].as_str().expect("there is more");
    let rest = get(&format!("?limit=4&before={next}")).await.expect(200).json();
    assert_eq!((rest["deliveries"].as_array().map(Vec::len), &rest["next"]), (Some(2), &Value::Null));
    let ops = get("?channel=ops").await.expect(200).json();
    assert_eq!(ops["deliveries"].as_array().map(Vec::len), Some(5));
    for (query, wrong) in
        [("?before=x", "before"), ("?limit=0", "limit"), ("?limit=501", "limit"), ("?chanel=a", "chanel")]
    {
        assert_eq!(field(&get(query).await.expect(400).json()), wrong, "{query}");
    }
}

#[tokio::test]
async fn al_1_rules_of_the_api_win_over_the_files() {
    let plane = Plane::new();
    plane.alerts_api.add_channel("ops", 0, "");
    plane.alerts_api.lock().file_rules = vec![
        ("money".into(), r#"{"types":["budget"]}"#.to_owned()),
        ("stops".into(), r#"{"types":["kill_switch"]}"#.to_owned()),
    ];
    let states = async || {
        let all = plane.get("/api/alerts/rules").await.expect(200).json();
        let shown = |rule: &Value| {
            let text = |key: &str| rule[key].as_str().unwrap_or_default().to_owned();
            (text("id"), text("origin"), rule["in_force"] == true)
        };
        let rules: Vec<_> = all["rules"].as_array().unwrap().iter().map(shown).collect();
        (rules, all["everything"] == true)
    };
    let is = |id: &str, origin: &str, in_force| (id.to_owned(), origin.to_owned(), in_force);
    assert_eq!(states().await, (vec![is("money", "file", true), is("stops", "file", true)], false));

    let rule = json!({"types": ["kill_switch", "watchdog"], "agents": ["a"], "channels": ["ops"],
        "repeat_every_s": 60, "reminders": 0, "recovery": false, "budget_percent": [100]});
    let put_one = put(&plane, "/api/alerts/rules/stops", json!({"rule": rule})).await.expect(200);
    assert_eq!((put_one.header("etag"), &put_one.json()["rule"]), ("\"1\"".to_owned(), &rule));
    assert_eq!(plane.alerts_api.notes(), ["rules changed"]);
    assert_eq!(
        states().await.0,
        [is("money", "file", true), is("stops", "api", true), is("stops", "file", false)]
    );
    assert_eq!(plane.get("/api/alerts/rules/stops").await.expect(200).json()["origin"], "api");

    // A disabled one takes the file's away; without any rule everything is told.
    put(&plane, "/api/alerts/rules/stops", json!({"enabled": false, "rule": {}})).await.expect(200);
    put(&plane, "/api/alerts/rules/money", json!({"enabled": false})).await.expect(200);
    assert!(states().await.1, "no rule is in force");

    // A rule whose channels are all gone leaves the file's in force.
    put(&plane, "/api/alerts/rules/stops", json!({"rule": {"channels": ["ops"]}})).await.expect(200);
    plane.alerts_api.lock().channels.clear();
    let gone = plane.get("/api/alerts/rules/stops").await.expect(200).json();
    assert_eq!(
        (&gone["in_force"], &gone["problem"]),
        (&json!(false), &json!("no such channel any more: ops"))
    );
    assert!(states().await.0.contains(&is("stops", "file", true)));

    delete(&plane, "/api/alerts/rules/stops").await.expect(204);
    delete(&plane, "/api/alerts/rules/stops").await.expect(409);
    delete(&plane, "/api/alerts/rules/none").await.expect(404);
    let noted = plane.operator.done();
    assert!(noted.iter().any(|note| note.contains("alert rule stops taken away")), "{noted:?}");
}

#[tokio::test]
async fn al_1_rules_are_checked_guarded_and_bounded() {
    let plane = Plane::new();
    plane.alerts_api.add_channel("ops", 0, "");
    for (rule, wrong) in [
        (json!({"types": ["nonsense"]}), "rule.types[0]"),
        (json!({"repeat_every_s": 59}), "rule.repeat_every_s"),
        (json!({"reminders": 101}), "rule.reminders"),
        (json!({"budget_percent": [0]}), "rule.budget_percent"),
        (json!({"agents": ["no name"]}), "rule.agents"),
        (json!({"agents": vec!["a"; 101]}), "rule.agents"),
        (json!({"chanels": []}), "rule.chanels"),
    ] {
        let problem = put(&plane, "/api/alerts/rules/r", json!({"rule": rule})).await.expect(400).json();
        assert_eq!(field(&problem), wrong, "{problem}");
    }
    let unknown = json!({"rule": {"channels": ["ops", "opps"]}});
    let problem = put(&plane, "/api/alerts/rules/r", unknown).await.expect(409).json();
    assert_eq!(problem["detail"], "rule.channels: there is no channel `opps`; name one of ops.");
    assert_eq!(field(&put(&plane, "/api/alerts/rules/.r", json!({})).await.expect(400).json()), "id");
    plane.alerts_api.lock().bad_rule = Some("recovery");
    let refused = put(&plane, "/api/alerts/rules/r", json!({"rule": {"recovery": true}})).await.expect(400);
    assert_eq!(field(&refused.json()), "rule");
    assert!(plane.store.rules().unwrap().is_empty(), "nothing wrong is stored");

    let guarded = async |tag: &str| {
        let request = plane.request("PUT", "/api/alerts/rules/r", Some(json!({})));
        plane.send(set(request, "if-match", tag)).await
    };
    guarded("\"0\"").await.expect(200);
    guarded("\"0\"").await.expect(412);
    assert_eq!(guarded("\"1\"").await.expect(200).header("etag"), "\"2\"");
    let request = set(plane.request("DELETE", "/api/alerts/rules/r", None), "if-match", "\"1\"");
    plane.send(request).await.expect(412);

    for nth in 1..200 {
        let id = format!("r{nth}").into();
        let rule = AlertRule { id, rule: "{}".into(), enabled: true, version: 0, updated_at: 1 };
        plane.store.put_rule(&rule).unwrap();
    }
    let full = put(&plane, "/api/alerts/rules/one-more", json!({})).await.expect(409).json();
    assert!(full["detail"].as_str().unwrap_or_default().contains("200 rules"), "{full}");
    put(&plane, "/api/alerts/rules/r", json!({})).await.expect(200);
}

#[tokio::test]
async fn al_1_mutes_have_an_owner_a_reason_an_end_and_a_bound() {
    let plane = Plane::new();
    let body = json!({"types": ["budget"], "agents": ["a"], "minutes": 60, "why": "known <b>"});
    let made = plane.post("/api/alerts/mutes", body.clone()).await.expect(201).json();
    assert_eq!((&made["by"], &made["until"]), (&json!("admin"), &json!("2025-11-15T01:00:00Z")));
    let id = made["id"].as_str().expect("an id");
    let note = format!("alerts muted until 2025-11-15T01:00:00Z ({id}): budget, of a, because: known <b>");
    let noted = plane.operator.done();
    assert!(noted.iter().any(|done| done.contains(&note)), "{note} in {noted:?}");
    assert_eq!(plane.get(&format!("/api/alerts/mutes/{id}")).await.expect(200).json(), made);
    let all = plane.get("/api/alerts/mutes").await.expect(200).json();
    assert_eq!(all["mutes"], json!([made]));
    for (body, wrong) in [
        (json!({"minutes": 60}), ""),
        (json!({"minutes": 0, "why": "x"}), "minutes"),
        (json!({"minutes": 10081, "why": "x"}), "minutes"),
        (json!({"minutes": 1, "why": ""}), "why"),
        (json!({"minutes": 1, "why": "two\nlines"}), "why"),
        (json!({"minutes": 1, "why": "x", "agents": [""]}), "agents"),
        (json!({"minutes": 1, "why": "x", "types": ["all"]}), "types[0]"),
    ] {
        assert_eq!(field(&plane.post("/api/alerts/mutes", body).await.expect(400).json()), wrong);
    }
    put(&plane, &format!("/api/alerts/mutes/{id}"), body.clone()).await.expect(200);
    assert_eq!(plane.alerts_api.lock().mutes.len(), 1, "the same id is replaced");
    for nth in 1..100 {
        put(&plane, &format!("/api/alerts/mutes/m{nth}"), body.clone()).await.expect(200);
    }
    plane.post("/api/alerts/mutes", body.clone()).await.expect(409);
    put(&plane, "/api/alerts/mutes/m1", body).await.expect(200);
    delete(&plane, &format!("/api/alerts/mutes/{id}")).await.expect(204);
    delete(&plane, &format!("/api/alerts/mutes/{id}")).await.expect(404);
    let noted = plane.operator.done();
    assert!(noted.iter().any(|note| note.contains(&format!("alerts unmuted ({id})"))), "{noted:?}");
}

#[tokio::test]
async fn al_2_whoever_resolves_an_escalation_ends_its_alert() {
    let plane = Plane::new();
    let escalation = Escalation {
        id: "e1".into(),
        agent: "coder".into(),
        run: Some("nightly".into()),
        reason: "max tool calls".to_owned(),
        opened_at: START,
        status: CaseStatus::Open,
        owner: None,
        seq: 4,
        history: Vec::new(),
        resolved_at: None,
        resolved_by: None,
        summary: None,
        facts: "{}".to_owned(),
        version: 0,
    };
    plane.store.open_escalation(&escalation).unwrap();
    let patch = async |body: Value| {
        plane.send(plane.request("PATCH", "/api/escalations/e1", Some(body))).await.expect(200)
    };
    patch(json!({"note": "looking"})).await;
    assert!(plane.alerts_api.notes().is_empty());
    patch(json!({"status": "resolved"})).await;
    assert_eq!(plane.alerts_api.notes(), ["e1 of coder:nightly resolved by admin"]);
    patch(json!({"status": "resolved"})).await;
    assert!(plane.alerts_api.notes().is_empty(), "once");
}

#[tokio::test]
async fn ui_1_the_page_for_alerts_shows_everything_and_what_to_do_without_any() {
    let plane = Plane::new();
    let empty = plane.get("/alerts").await.expect(200).text();
    for text in [
        "No alerts configured",
        "type: slack, url_env: SLACK_WEBHOOK_URL",
        "Nothing is muted",
        "data-copies=\"line-yaml\"",
    ] {
        assert!(empty.contains(text), "{text}");
    }
    let nasty = "<script>alert(1)</script>'\"";
    plane.alerts_api.add_channel("ops", 0, "200 ok");
    plane.alerts_api.add_channel("pager", 6, nasty);
    plane.alerts_api.lock().told_of.push("a".into());
    plane.alerts_api.lock().file_rules = vec![("stops".into(), json!({"agents": [nasty]}).to_string())];
    plane.alerts_api.lock().store_error = Some(nasty.to_owned());
    put(&plane, "/api/alerts/mutes/m1", json!({"minutes": 90, "why": nasty})).await.expect(200);
    for nth in 0..26 {
        tried(&plane, "ops", nth, &format!("{nasty} {nth}"), DeliveryOutcome::Delivered, nasty);
    }
    let html = plane.get("/alerts").await.expect(200).text();
    for text in [
        "Nobody will be notified when an agent is stopped, for another 90 min.",
        "/api/alerts/channels/ops/test",
        "6 tries in a row failed, next one in 45 s",
        "in force",
        "Switch off stops",
        "Everything but the red button",
        "DELETE /api/alerts/mutes/m1",
        "90 min",
        "POST /api/alerts/mutes\"",
        "before=2#log",
    ] {
        assert!(html.contains(text), "{text}: {html}");
    }
    assert!(!html.contains("<script>alert"), "{html}");
    assert!(!html.contains("SLACK_WEBHOOK_URL"));
    delete(&plane, "/api/alerts/mutes/m1").await.expect(204);
    assert!(plane.get("/alerts").await.text().contains("Somebody is notified"));
    let older = plane.get("/alerts?channel=ops&before=2").await.expect(200).text();
    assert!(older.contains("&#39;&#34; 0<") || older.contains(" 0</td>"), "{older}");
    let odd = plane.get("/alerts?channel=%22%3E%3Cscript%3E").await.expect(200).text();
    assert!(!odd.contains("\"><script>"));
    plane.get("/alerts?before=x").await.expect(400);
}

#[tokio::test]
async fn ui_1_who_may_what_about_alerts_shows_in_the_buttons() {
    let plane = Plane::new();
    plane.alerts_api.add_channel("ops", 0, "200 ok");
    plane.alerts_api.lock().file_rules = vec![("stops".into(), "{}".to_owned())];
    put(&plane, "/api/alerts/mutes/m1", json!({"minutes": 90, "why": "x"})).await.expect(200);
    for (role, buttons) in [("viewer", [false, false, false]), ("operator", [true, true, false])] {
        let token = plane.token(role).await;
        let request = set(anonymous("GET", "/alerts", None), "authorization", &format!("Bearer {token}"));
        let html = plane.send(request).await.expect(200).text();
        let found = ["/ops/test", "/mutes/m1", "PUT /api/alerts/rules"].map(|text| html.contains(text));
        assert_eq!(found, buttons, "{role}");
    }
}

#[tokio::test]
async fn al_1_a_switched_rule_is_the_one_that_was_seen() {
    let plane = Plane::new();
    plane.alerts_api.add_channel("ops", 0, "200 ok");
    let filed = r#"{"types":["kill_switch"],"agents":[],"channels":[]}"#.to_owned();
    plane.alerts_api.lock().file_rules = vec![("stops".into(), filed)];
    let button = async |label: &str| {
        let html = plane.get("/alerts").await.expect(200).text();
        let buttons = html.split("<button ").find(|one| one.contains(&format!("aria-label=\"{label}\"")));
        buttons.unwrap_or_default().split('>').next().unwrap_or_default().replace("&#34;", "\"")
    };
    let off = button("Switch off stops").await;
    assert!(off.contains("PUT /api/alerts/rules/stops\"") && off.contains("data-match=\"\"0\"\""), "{off}");
    put(&plane, "/api/alerts/rules/stops", json!({"enabled": false, "rule": {"types": ["kill_switch"]}}))
        .await
        .expect(200);
    // A copy of the file's would hide what the file says from then on.
    let on = button("Switch on stops").await;
    assert!(on.contains("DELETE /api/alerts/rules/stops\"") && on.contains("data-match=\"\"1\"\""), "{on}");
    assert!(!on.contains("data-body") && !on.contains("data-ask"), "{on}");
    let other = json!({"enabled": false, "rule": {"types": ["watchdog"]}});
    put(&plane, "/api/alerts/rules/stops", other).await.expect(200);
    let on = button("Switch on stops").await;
    assert!(on.contains("data-ask=\"Switch on stops as the file has it?"), "{on}");
    let stale = set(plane.request("DELETE", "/api/alerts/rules/stops", None), "if-match", "\"1\"");
    plane.send(stale).await.expect(412);
    put(&plane, "/api/alerts/rules/own", json!({"enabled": false})).await.expect(200);
    let on = button("Switch on own").await;
    assert!(on.contains("PUT /api/alerts/rules/own\"") && on.contains("data-match"), "{on}");
}
