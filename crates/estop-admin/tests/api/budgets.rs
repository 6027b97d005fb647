//! Budgets whose clock was ahead (PO-2).

use estop_core::money::NanoUsd;
use estop_store::{Ledger, Spend, SpendSum};
use serde_json::{Value, json};

use crate::support::Plane;

/// 2036-06-01T00:00Z.
const AHEAD: i64 = 2_095_891_200_000;
const AHEAD_DAY: i32 = 24_258;
/// 2025-11-15, the day the plane begins on.
const TODAY: i32 = 20_407;

fn spent(day: i32, agent: &str, dollars: u64) -> Spend {
    let sum = SpendSum { requests: 1, usd: NanoUsd(dollars * 1_000_000_000), ..SpendSum::default() };
    Spend { day, agent: agent.into(), model: "m".into(), sum, ..Spend::default() }
}

async fn plane() -> Plane {
    let plane = Plane::with_agents(2).await;
    plane.operator.clock_was_at(AHEAD);
    let days = [
        spent(TODAY, "a0", 2),
        spent(TODAY - 3, "a0", 1),
        spent(TODAY - 20, "a0", 64),
        spent(AHEAD_DAY, "a0", 32),
        spent(TODAY, "a1", 4),
    ];
    plane.store.add_spend(days.into()).unwrap();
    plane
}

#[tokio::test]
async fn po_2_a_budget_that_has_seen_a_later_day_says_so() {
    let plane = plane().await;
    let agent = plane.get("/api/agents/a0").await.expect(200).json();
    assert_eq!(agent["budget_latest_day"], "2036-06-01", "{agent}");
    let stats = plane.get("/api/stats").await.expect(200).json();
    assert_eq!((&stats["budgets_ahead"], &stats["budgets_latest_day"]), (&json!(3), &json!("2036-06-01")));
    assert_eq!(plane.get("/api/spend").await.json()["fleet"]["latest_day"], "2036-06-01");
    let page = plane.get("/agents/a0").await.expect(200).text();
    assert!(page.contains("once showed 2036-06-01") && page.contains("estop budgets renew a0"), "{page}");
    let page = plane.get("/spend").await.expect(200).text();
    assert!(page.contains("estop budgets renew --all"), "{page}");
}

#[tokio::test]
async fn po_2_a_person_renews_one_budget_with_what_was_spent_in_the_present() {
    let plane = plane().await;
    let renewed = plane.post("/api/budgets/renew", json!({"agent": "a0"})).await.expect(200).json();
    let budget = &renewed["renewed"][0];
    assert_eq!((&budget["agent"], &budget["latest_day"]), (&json!("a0"), &json!("2036-06-01")), "{renewed}");
    assert_eq!(budget["spent_today"]["usd"], 2.0, "{renewed}");
    assert_eq!(budget["spent_this_month"]["usd"], 3.0, "neither October nor 2036: {renewed}");
    assert_eq!(plane.get("/api/agents/a0").await.json()["budget_latest_day"], Value::Null);
    assert_eq!(plane.get("/api/agents/a1").await.json()["budget_latest_day"], "2036-06-01");
    let again = plane.post("/api/budgets/renew", json!({"agent": "a0"})).await.expect(409).json();
    assert!(again["detail"].as_str().is_some_and(|detail| detail.contains("in the present")), "{again}");
    plane.post("/api/budgets/renew", json!({"agent": "nobody"})).await.expect(404);
}

#[tokio::test]
async fn po_2_a_person_renews_every_budget() {
    let plane = plane().await;
    let renewed = plane.post("/api/budgets/renew", json!({})).await.expect(200).json();
    let all: Vec<(&Value, &Value)> = renewed["renewed"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|budget| (&budget["agent"], &budget["spent_this_month"]["usd"]))
        .collect();
    let expected = [(&Value::Null, &json!(7.0)), (&json!("a0"), &json!(3.0)), (&json!("a1"), &json!(4.0))];
    assert_eq!(all, expected, "{renewed}");
    assert_eq!(plane.get("/api/stats").await.json()["budgets_ahead"], 0);
    let again = plane.post("/api/budgets/renew", json!({})).await.expect(200).json();
    assert_eq!(again["renewed"], json!([]));
    assert_eq!(again["message"], "Every budget is in the present day and month.");
}
