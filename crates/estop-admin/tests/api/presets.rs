//! Presets switched by a click, single rules, keys in the page (PO-5, UI-1, UI-5).

use estop_store::Meta;
use serde_json::{Value, json};

use crate::support::{Answered, Plane, anonymous, set};

async fn send(plane: &Plane, method: &str, path: &str, body: Option<Value>) -> Answered {
    plane.send(plane.request(method, path, body)).await
}

async fn guard_mode(plane: &Plane, agent: &str, guard: &str) -> Value {
    let policy = plane.get(&format!("/api/agents/{agent}/policy")).await.expect(200).json();
    policy["effective"]["guards"][guard].clone()
}

#[tokio::test]
async fn po_5_everybodys_preset_is_set_over_the_file_and_taken_back() {
    let plane = Plane::with_agents(2).await;
    assert_eq!(guard_mode(&plane, "a0", "gate").await, "shadow");
    let set = send(&plane, "PUT", "/api/preset", Some(json!({"preset": "strict"}))).await.expect(200).json();
    assert_eq!((&set["preset"], &set["origin"]), (&json!("strict"), &json!("api")));
    for agent in ["a0", "a1"] {
        assert_eq!(guard_mode(&plane, agent, "gate").await, "enforce");
    }
    let policy = plane.get("/api/agents/a0/policy").await.expect(200).json();
    assert_eq!((&policy["preset"], &policy["origins"]["preset"]), (&json!("strict"), &json!("api")));
    assert_eq!(estop_admin::kept_preset(&*plane.store).unwrap(), Some(estop_core::policy::Preset::Strict));
    assert!(plane.operator.done().iter().any(|done| done.starts_with("Preset Some(Strict) by")));
    let page = plane.get("/settings").await.expect(200).text();
    assert!(
        page.contains("Preset strict")
            && page.contains("Reset to the file")
            && page.contains("Switch to watch")
    );

    let back = send(&plane, "DELETE", "/api/preset", None).await.expect(200).json();
    assert_eq!((&back["preset"], &back["origin"]), (&json!("watch"), &json!("default")));
    assert_eq!(guard_mode(&plane, "a0", "gate").await, "shadow");
    assert_eq!(plane.store.meta("preset").unwrap().as_deref(), Some(""));
    assert!(!plane.get("/settings").await.expect(200).text().contains("Reset to the file's preset"));
    for wrong in
        [json!({}), json!({"preset": "loose"}), json!({"preset": null}), json!({"preset": "watch", "for": 1})]
    {
        send(&plane, "PUT", "/api/preset", Some(wrong)).await.expect(400);
    }
}

#[tokio::test]
async fn po_5_an_agent_may_have_a_preset_of_its_own() {
    let plane = Plane::with_agents(2).await;
    let path = "/api/agents/a0/policy";
    let own = send(&plane, "PATCH", path, Some(json!({"preset": "strict"}))).await.expect(200).json();
    assert_eq!((&own["preset"], &own["origins"]["preset"]), (&json!("strict"), &json!("api")));
    assert_eq!(guard_mode(&plane, "a0", "health").await, "enforce");
    assert_eq!(guard_mode(&plane, "a1", "health").await, "shadow");
    assert!(plane.get("/settings").await.expect(200).text().contains("a0</a> (strict)"));
    // Everybody's does not change it.
    send(&plane, "PUT", "/api/preset", Some(json!({"preset": "watch"}))).await.expect(200);
    assert_eq!(guard_mode(&plane, "a0", "health").await, "enforce");
    assert!(plane.get("/agents/a0").await.expect(200).text().contains("Reset to the file's preset"));
    assert!(plane.get("/agents/a1").await.expect(200).text().contains("set for everybody"));
    send(&plane, "PATCH", path, Some(json!({"preset": null}))).await.expect(200);
    assert_eq!(guard_mode(&plane, "a0", "health").await, "shadow");
}

#[tokio::test]
async fn ui_5_single_rules_are_changed_and_taken_back() {
    let plane = Plane::with_agents(1).await;
    let path = "/api/agents/a0/policy";
    let rules = json!({"limits": {"max_turns": 7, "max_tool_calls": "off"}, "budget": {"usd_per_day": 2.5}});
    let first = send(&plane, "PATCH", path, Some(rules)).await.expect(200);
    let tag = first.header("etag");
    let change = json!({"limits": {"max_turns": null}, "rate_limit": {"requests_per_minute": 9}});
    let with_tag = |tag: &str| set(plane.request("PATCH", path, Some(change.clone())), "if-match", tag);
    let second = plane.send(with_tag(&tag)).await.expect(200).json();
    assert_eq!(
        second["overrides"],
        json!({"limits": {"max_tool_calls": "off"}, "budget": {"usd_per_day": 2.5}, "rate_limit": {"requests_per_minute": 9}})
    );
    plane.send(with_tag(&tag)).await.expect(412);
    for (wrong, field) in [
        (json!({"limits": {"max_turns": 0}}), "limits.max_turns"),
        (json!({"limits": {"max_turn": 1}}), "limits.max_turn"),
        (json!({"budget": 5}), "budget"),
        (json!({"kill_switch_enabled": true, "guards": {"loop": "off"}}), "guards.loop"),
        (json!({"preset": "loose"}), "preset"),
    ] {
        let problem = send(&plane, "PATCH", path, Some(wrong)).await.expect(400).json();
        assert_eq!(problem["errors"][0]["field"], field, "{problem}");
    }
    assert_eq!(plane.get(path).await.json()["overrides"], second["overrides"], "nothing of it was kept");
    // The switch has two names and one value.
    send(&plane, "PATCH", path, Some(json!({"guards": {"loop": "enforce"}}))).await.expect(200);
    let off =
        send(&plane, "PATCH", path, Some(json!({"kill_switch_enabled": false}))).await.expect(200).json();
    assert_eq!(off["effective"]["guards"]["loop"], "shadow");
}

#[tokio::test]
async fn ui_1_the_form_of_rules_says_where_each_value_comes_from() {
    let plane = Plane::with_agents(1).await;
    plane.post("/api/agents", json!({"id": "filed"})).await.expect(201);
    let rules = json!({"budget": {"usd_per_day": 2.5}});
    let saved = send(&plane, "PATCH", "/api/agents/filed/policy", Some(rules)).await.expect(200);
    let page = plane.get("/agents/filed").await.expect(200).text();
    let about = |key: &str| {
        let from = page.find(&format!("id=\"about-{key}\"")).expect("the rule is in the form");
        page[from..].split("</p>").next().unwrap_or_default().to_owned()
    };
    assert!(about("budget.usd_per_day").contains("set here"), "{}", about("budget.usd_per_day"));
    assert!(about("budget.usd_per_day").contains("data-takes-back=\"budget.usd_per_day\""));
    assert!(about("limits.max_turns").contains("from its role"), "{}", about("limits.max_turns"));
    assert!(about("guards.gate").contains("default") && !about("guards.gate").contains(">Reset<"));
    assert!(page.contains("name=\"limits.max_turns\" value=\"10\" data-was=\"10\""), "the role pm has ten");
    let tag = saved.header("etag").replace('"', "&#34;");
    assert!(
        page.contains(&format!("data-match=\"{tag}\"")),
        "the version that is shown is the one that is saved over"
    );
}

#[tokio::test]
async fn ui_1_keys_are_listed_for_admins_and_never_shown_whole() {
    let plane = Plane::with_agents(1).await;
    assert!(plane.get("/agents/a0").await.expect(200).text().contains("No keys."));
    let made = send(&plane, "POST", "/api/agents/a0/keys", None).await.expect(201).json();
    let page = plane.get("/agents/a0").await.expect(200).text();
    let (key, prefix) = (made["key"].as_str().unwrap(), made["prefix"].as_str().unwrap());
    assert!(page.contains(&format!("<code>{prefix}…</code>")) && !page.contains(key), "{page}");
    let delete = format!("DELETE /api/agents/a0/keys/{}", made["id"].as_str().unwrap());
    assert!(page.contains(&delete));
    for role in ["viewer", "operator"] {
        let token = plane.token(role).await;
        let request = set(anonymous("GET", "/agents/a0", None), "authorization", &format!("Bearer {token}"));
        let seen = plane.send(request).await.expect(200).text();
        for acting in [prefix, "data-rules", "data-takes-back", "preset-dialog", "data-effect", "/keys"] {
            assert!(!seen.contains(acting), "{acting} for {role}");
        }
        assert!(seen.contains("Rules") && seen.contains("Preset watch"), "they may look");
    }
}

#[tokio::test]
async fn po_5_a_preset_of_the_file_is_not_taken_for_everybodys() {
    let plane = Plane::with_agents(1).await;
    plane.post("/api/agents", json!({"id": "easy"})).await.expect(201);
    assert!(plane.get("/agents/a0").await.text().contains("nobody chose one"));
    send(&plane, "PUT", "/api/preset", Some(json!({"preset": "strict"}))).await.expect(200);
    let easy = plane.get("/agents/easy").await.expect(200).text();
    assert!(easy.contains("Preset watch <span class=\"hint\">from the file</span>"), "{easy}");
    let other = plane.get("/agents/a0").await.expect(200).text();
    assert!(
        other.contains("Preset strict <span class=\"hint\">set for everybody, in the settings"),
        "{other}"
    );
    // The same as everybody's, and still its own.
    send(&plane, "PUT", "/api/preset", Some(json!({"preset": "watch"}))).await.expect(200);
    assert!(plane.get("/agents/easy").await.text().contains("from the file"));
}

#[tokio::test]
async fn ui_1_an_emptied_rule_is_said_to_be_the_files() {
    let plane = Plane::with_agents(1).await;
    let page = plane.get("/agents/a0").await.expect(200).text();
    assert!(page.contains("empty: as the file says") && !page.contains("empty: no"), "{page}");
}

#[tokio::test]
async fn po_2_what_was_spent_today_is_compared_with_the_cap_of_a_day_alone() {
    let plane = Plane::with_agents(1).await;
    let path = "/api/agents/a0/policy";
    let today = |page: &str| {
        let cell = page.split("data-th=\"Spent today\">").nth(1).expect("the column");
        cell.split("</td>").next().unwrap_or_default().to_owned()
    };
    send(&plane, "PATCH", path, Some(json!({"budget": {"usd_per_month": 60}}))).await.expect(200);
    let month = today(&plane.get("/").await.expect(200).text());
    assert!(month.contains("no cap a day") && month.contains("of $60.00 this month"), "{month}");
    send(&plane, "PATCH", path, Some(json!({"budget": {"usd_per_day": 5}}))).await.expect(200);
    let day = today(&plane.get("/").await.expect(200).text());
    assert!(day.contains("of $5.00") && !day.contains("$60"), "{day}");
}
