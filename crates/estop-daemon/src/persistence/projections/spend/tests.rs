//! PO-6: whatever comes in whatever order, each request is booked under what it was.

use std::collections::{BTreeMap, BTreeSet};

use estop_core::policy_file::PolicyFile;
use serde_json::json;

use super::super::models::{NEW_PER_AGENT_MAX, OTHER};
use super::*;
use crate::store;

const DAY_MS: i64 = 86_400_000;
/// Day, agent, run, model and issue; and how many requests with how many tokens.
type SpendEntry = BTreeMap<(i32, String, String, String, String), (u64, u64)>;

/// Numbers that look made up, and are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

fn received(request: u64, model: &str) -> RequestReceived {
    let received = json!({
        "request": request, "model": model, "print": {"conversation": "00000000000000ff", "ask": "00000000000000fe"},
        "estimate": {"input_tokens": 1, "output_tokens": 2, "usd": 3},
    });
    serde_json::from_value(received).expect("a request")
}

fn add_all(booked: &mut SpendEntry, out: JournalBatch) {
    for spend in out.spend {
        let key = (spend.day, spend.agent.into(), spend.run.into(), spend.model.into(), spend.issue.into());
        let sum: &mut (u64, u64) = booked.entry(key).or_default();
        *sum = (sum.0 + spend.sum.requests, sum.1 + spend.sum.input_tokens);
    }
}

#[test]
fn po_6_each_request_is_booked_under_its_day_agent_run_model_and_issue() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = store::open(&folder.path().join("estop.db")).expect("a store");
    let context = |number| Context::new(number, store.clone(), None, Arc::new(PolicyFile::default()));
    let (mut spend, mut out, mut dice) = (Spend::default(), JournalBatch::default(), Dice(1));
    let mut pages = ["a", "b", "c"].map(AgentSpend::of);
    let (mut holds, mut wall) = (context(0), 0);
    let (mut expected, mut booked) = (SpendEntry::new(), SpendEntry::new());
    let (mut known, mut new) = (BTreeSet::new(), [0; 3]);
    for step in 0..5_000_u64 {
        if dice.roll(9) == 0 {
            holds = context(step + 1);
        }
        if dice.roll(40) == 0 {
            spend.finish(&mut out);
            add_all(&mut booked, std::mem::take(&mut out));
            holds = context(step + 1);
        }
        if dice.roll(300) == 0 {
            wall += DAY_MS;
        }
        let whose = dice.roll(3) as usize;
        let (page, agent) = (&mut pages[whose], ["a", "b", "c"][whose]);
        // Beyond so many none has a place.
        let model = if dice.roll(3) == 0 { format!("made-up-{step}") } else { format!("m{}", dice.roll(2)) };
        let run: Option<Name> = (dice.roll(6) == 0).then(|| "night".into());
        let issue = if dice.roll(6) == 0 { "E-1" } else { "" };
        let tags =
            (!issue.is_empty()).then(|| Arc::new(Tags { issue: Some(issue.into()), ..Tags::default() }));
        let asked = spend.remember(page, run.as_ref(), &received(step, &model), tags);
        spend.ask(page, RequestId(step), asked);
        let entry = Entry { agent, now: Now { wall, ..Now::default() }, seq: step };
        let usage = Usage { input_tokens: step as u32, ..Usage::default() };
        spend.settle(page, entry, RequestId(step), usage, &holds, &mut out);
        let (day, run) = ((wall / DAY_MS) as i32, run.unwrap_or_default());
        // An agent that makes names up is booked under `other` from so many on.
        let is_booked = known.contains(&model) || new[whose] < NEW_PER_AGENT_MAX;
        new[whose] += usize::from(is_booked && known.insert(model.clone()));
        let model = if is_booked { model } else { OTHER.to_owned() };
        let sum = expected.entry((day, agent.into(), run.into(), model, issue.into())).or_default();
        *sum = (sum.0 + 1, sum.1 + step);
    }
    add_all(&mut booked, out);
    assert_eq!(booked, expected);
    assert!(expected.keys().any(|(day, ..)| *day > 3), "it lasted some days");
    assert!(expected.values().any(|(requests, _)| *requests > 30), "and much was the same");
    assert!(expected.keys().any(|(.., model, _)| model == OTHER), "and some made too many names up");
}

#[test]
fn st_3_made_up_issues_and_labels_are_booked_together() {
    let mut page = AgentSpend::of("a");
    let tags = |n: usize| {
        let labels = BTreeMap::from([("k".into(), format!("v{n}").into())]);
        Arc::new(Tags { issue: Some(format!("E-{n}").into()), labels, ..Tags::default() })
    };
    for n in 0..TAGS_PER_AGENT_MAX {
        assert_eq!(page.bounded(tags(n)), tags(n));
    }
    let other = Tags { issue: Some(OTHER.into()), ..Tags::default() };
    for n in TAGS_PER_AGENT_MAX..TAGS_PER_AGENT_MAX + 100 {
        assert_eq!(*page.bounded(tags(n)), other);
    }
    assert_eq!(page.bounded(tags(3)), tags(3), "what is known stays so");
    assert_eq!(page.tags.len(), TAGS_PER_AGENT_MAX);
    let nothing = Arc::new(Tags { role: Some("reviewer".into()), ..Tags::default() });
    assert_eq!(page.bounded(Arc::clone(&nothing)), nothing);
}

#[test]
fn po_2_the_account_of_all_that_is_kept_is_renewed_after_the_clock_was_ahead() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = store::open(&folder.path().join("estop.db")).expect("a store");
    let context = Context::new(0, store, None, Arc::new(PolicyFile::default()));
    let (mut spend, mut out) = (Spend::default(), JournalBatch::default());
    let at = |day: i64| Now { mono: estop_core::time::Millis(1), wall: day * DAY_MS };
    spend.fleet.turn(at(24_000), &context.caps);
    spend.fleet.settle(Amount::default(), Amount { usd: estop_core::money::NanoUsd(5), tokens: 5 });
    let spent =
        PeriodSpend { today: Amount::default(), this_month: Amount { tokens: 2, ..Amount::default() } };
    spend.renew_fleet(at(20_000), spent, &context);
    assert_eq!((spend.fleet.spent_today(), spend.fleet.spent_this_month()), (spent.today, spent.this_month));
    spend.finish(&mut out);
    assert!(out.fleet.is_some(), "it is kept with the batch");
    spend.renew_fleet(at(20_000), PeriodSpend::default(), &context);
    spend.finish(&mut out);
    assert_eq!(spend.fleet.spent_this_month(), spent.this_month, "it is in the present");
}
