//! What is told of each kind of event, and what is not.

use estop_core::money::NanoUsd;
use estop_core::policy::LimitName;
use estop_store::CaseStatus;

use super::*;

/// Everything costs a dollar, and there is one escalation.
struct NothingKnown;

impl AlertContext for NothingKnown {
    fn cost(&self, _agent: &str, run: Option<&str>) -> Cost {
        Cost { run: run.map(|_| NanoUsd(1_000_000_000)), today: None }
    }

    fn escalation(&self, id: &str) -> Option<Escalation> {
        let context =
            json!({ "issue": "42", "role": "feat-dev", "branch": "feat/parser", "session": "01a1" });
        (id == "coder-9-2").then(|| Escalation {
            id: id.into(),
            agent: "coder".into(),
            run: Some("night".into()),
            reason: String::new(),
            opened_at: 0,
            status: CaseStatus::Open,
            owner: None,
            seq: 9,
            history: Vec::new(),
            resolved_at: None,
            resolved_by: None,
            summary: Some("Parser done.".to_owned()),
            facts: context.to_string(),
            version: 0,
        })
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is written where it is used")]
fn event(seq: u64, agent: Option<&str>, event_type: &str, detail: Value) -> NewEvent {
    NewEvent {
        seq,
        wall: 1000,
        agent: agent.map(Name::from),
        event_type: event_type.into(),
        detail: detail.to_string(),
    }
}

fn one(event_type: &str, detail: Value) -> Option<AlertEvent> {
    of(&[event(7, Some("coder"), event_type, detail)], &NothingKnown).pop()
}

#[test]
fn al_1_a_stop_has_its_cause_its_evidence_and_its_cost() {
    let detail = json!({ "cause": "loop", "reason": "Loop score 11.5 of 10.0.", "run": "night" });
    let told = one("kill_switch", detail).expect("it is told");
    assert_eq!((told.alert, &*told.cause, &*told.id), (AlertType::KillSwitch, "loop", "7.0"));
    assert_eq!(told.incident.as_deref(), Some("coder-7"), "its link leads to the incident it opened");
    assert_eq!((&*told.evidence, told.seq, told.at), ("Loop score 11.5 of 10.0.", 7, 1000));
    assert_eq!((told.cost.run, told.run.as_deref()), (Some(NanoUsd(1_000_000_000)), Some("night")));
    let runaway = one("kill_switch", json!({ "cause": "watchdog", "reason": "101 calls" }));
    assert_eq!(runaway.map(|told| told.alert), Some(AlertType::Watchdog));
    let pressed = one("watchdog", json!({ "reason": "101 calls" }));
    assert_eq!(pressed.map(|told| told.alert), Some(AlertType::Watchdog));
    let hard = one("kill_switch", json!({ "cause": "health", "harm": "tool_failures", "reason": "x" }));
    assert_eq!(hard.map(|told| told.cause).as_deref(), Some("tool_failures"));
    let unwell = one("paused", json!({ "cause": "health", "reason": "Health is 390 of 1000" }));
    assert_eq!(
        unwell.map(|told| (told.alert, told.evidence)),
        Some((AlertType::Health, "Health is 390 of 1000".to_owned()))
    );
}

#[test]
fn al_1_what_people_do_ends_what_was_told_and_is_not_told_itself() {
    for (event_type, alert) in [
        ("activated", AlertType::KillSwitch),
        ("resumed", AlertType::Health),
        ("run_extended", AlertType::CircuitBreaker),
        ("error_rate_over", AlertType::ErrorRate),
        ("prooftest_passed", AlertType::ProoftestOverdue),
    ] {
        let told = one(event_type, json!({ "by": "ann" })).map(|told| (told.alert, told.phase, told.by));
        assert_eq!(told, Some((alert, Phase::Cleared, Some("ann".into()))), "{event_type}");
    }
    for event_type in
        ["deactivated", "run_started", "refused", "policy_changed", "restarted", "would_have_stopped"]
    {
        assert_eq!(one(event_type, json!({ "by": "ann" })), None, "{event_type}");
    }
    assert_eq!(one("paused", json!({ "by": "ann" })), None, "a person paused it");
    assert!(
        of(&[event(1, Some(CANARY), "kill_switch", json!({ "cause": "loop" }))], &NothingKnown).is_empty()
    );
}

#[test]
fn ks_5_an_admin_token_made_without_one_is_told_and_other_changes_are_not() {
    let told = |what: &str| {
        of(&[event(3, None, "access_changed", json!({ "by": "owner", "what": what }))], &NothingKnown)
    };
    let made = format!("{ADMIN_TOKEN_BY_OWNER}: token t-1 (reset) made");
    let told_of = told(&made).pop().expect("it is told");
    assert_eq!((told_of.alert, &*told_of.evidence), (AlertType::AdminToken, made.as_str()));
    assert_eq!(told_of.by.as_deref(), Some("owner"));
    assert!(told("token t-1 (viewer) made").is_empty());
}

#[test]
fn al_2_each_escalation_of_a_record_has_its_own_facts() {
    let limit = LimitUse { limit: LimitName::ToolCalls, current: 200, max: 200 };
    let run = |run: &str| {
        event(9, Some("coder"), "run_escalated", json!({ "limit": limit, "attended": false, "run": run }))
    };
    let told = of(&[run("day"), run("night")], &NothingKnown);
    assert_eq!(told.iter().map(|told| &*told.id).collect::<Vec<_>>(), ["9.0", "9.1"]);
    let seen = |told: &AlertEvent| match &told.detail {
        Detail::Escalation(seen) => (**seen).clone(),
        Detail::None | Detail::Budget(_) | Detail::Shut(_) | Detail::Checkpoint { .. } => {
            unreachable!("it is one")
        }
    };
    assert_eq!((&*seen(&told[0]).id, seen(&told[0]).issue), ("coder-9", None));
    let night = seen(&told[1]);
    assert_eq!(
        (&*night.id, night.issue.as_deref(), night.branch.as_deref()),
        ("coder-9-2", Some("42"), Some("feat/parser"))
    );
    assert_eq!((night.summary.as_deref(), night.limit), (Some("Parser done."), limit));
}

#[test]
fn al_1_budgets_are_of_an_agent_a_run_or_all() {
    let share = json!({ "account": "usd_per_day", "percent": 80, "spent": 8, "cap": 10, "run": "night" });
    let told = one("budget_warning", share).expect("it is told");
    assert_eq!((told.agent.as_deref(), told.run), (Some("coder"), None), "the day is not the run's");
    let of_run =
        json!({ "account": "tokens_per_run", "percent": 100, "spent": 10, "cap": 10, "run": "night" });
    assert_eq!(one("budget_warning", of_run).and_then(|told| told.run), Some("night".into()));
    let fleet =
        json!({ "account": "fleet_tokens_per_day", "percent": 50, "spent": 5, "cap": 10, "scope": "fleet" });
    let told = of(&[event(3, None, "budget_warning", fleet)], &NothingKnown).remove(0);
    let seen = BudgetSeen { percent: 50, account: "tokens_per_day".into(), spent: 5, cap: 10 };
    assert_eq!((told.agent, told.detail), (None, Detail::Budget(seen)));
}
