//! Spend: every sum is the sum of what was added, by whatever it is grouped.

use std::sync::Arc;

use estop_core::money::NanoUsd;
use estop_store::{
    Durability, FLEET_ACCOUNT, Journal, JournalBatch, Ledger, Meta, Run, Spend, SpendBy, SpendQuery, SpendSum,
};

use super::Place;

fn spend(day: i32, agent: &str, model: &str, usd: u64, labels: &[(&str, &str)]) -> Spend {
    let labels = labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    let sum = SpendSum {
        requests: 1,
        input_tokens: 10,
        output_tokens: 20,
        cache_read_tokens: 3,
        cache_write_tokens: 4,
        reasoning_tokens: 5,
        usd: NanoUsd(usd),
        unpriced: u64::from(usd == 0),
        estimated: u64::from(usd == 7),
    };
    let (run, role, issue) = (format!("run of {agent}").into(), "coder".into(), "".into());
    Spend { day, agent: agent.into(), run, model: model.into(), role, issue, labels, sum }
}

pub(crate) fn po_6_spend_rolls_up_by_whatever_is_asked(place: &impl Place) {
    {
        let store = place.open();
        store
            .add_spend(vec![
                spend(1, "a", "big", 100, &[("team", "x"), ("env", "ci")]),
                spend(1, "a", "big", 50, &[("team", "x"), ("env", "ci")]),
                spend(1, "b", "small", 7, &[("team", "y")]),
                spend(2, "a", "small", 1, &[]),
            ])
            .expect("spend is added");
        store.add_spend(vec![spend(2, "c", "unknown", 0, &[("team", "x")])]).expect("spend is added");
    }
    let store = place.open();
    let ask = |by, from_day, to_day, agent: Option<&str>, limit| -> Vec<(String, u64, u64)> {
        let query = SpendQuery { by, from_day, to_day, agent: agent.map(Into::into), limit };
        let groups = store.spend(&query).expect("sums");
        groups.iter().map(|group| (group.key.to_string(), group.sum.requests, group.sum.usd.0)).collect()
    };
    let rows = |rows: &[(&str, u64, u64)]| -> Vec<(String, u64, u64)> {
        rows.iter().map(|(key, requests, usd)| ((*key).to_owned(), *requests, *usd)).collect()
    };
    assert_eq!(ask(SpendBy::Day, 0, 9, None, 9), rows(&[("2", 2, 1), ("1", 3, 157)]));
    assert_eq!(ask(SpendBy::Agent, 0, 9, None, 9), rows(&[("a", 3, 151), ("b", 1, 7), ("c", 1, 0)]));
    assert_eq!(ask(SpendBy::Agent, 2, 2, None, 1), rows(&[("a", 1, 1)]));
    assert_eq!(ask(SpendBy::Model, 1, 1, Some("a"), 9), rows(&[("big", 2, 150)]));
    assert_eq!(ask(SpendBy::Run, 1, 1, None, 1), rows(&[("run of a", 2, 150)]));
    assert_eq!(ask(SpendBy::Issue, 0, 9, None, 9), rows(&[("", 5, 158)]));
    assert_eq!(ask(SpendBy::Role, 0, 9, None, 9), rows(&[("coder", 5, 158)]));
    let labels = rows(&[("env=ci", 2, 150), ("team=x", 3, 150), ("team=y", 1, 7)]);
    assert_eq!(ask(SpendBy::Label, 0, 9, None, 9), labels);

    let query = SpendQuery { by: SpendBy::Role, from_day: 0, to_day: 9, agent: None, limit: 9 };
    let all = store.spend(&query).expect("sums")[0].sum;
    let expected = SpendSum {
        requests: 5,
        input_tokens: 50,
        output_tokens: 100,
        cache_read_tokens: 15,
        cache_write_tokens: 20,
        reasoning_tokens: 25,
        usd: NanoUsd(158),
        unpriced: 1,
        estimated: 1,
    };
    assert_eq!(all, expected);
}

pub(crate) fn po_2_the_account_of_all_is_kept_with_its_batch(place: &impl Place) {
    {
        let store = place.open();
        assert_eq!(store.meta(FLEET_ACCOUNT), Ok(None));
        let batch = |account: &str, spend| {
            Arc::new(JournalBatch { fleet: Some(account.to_owned()), spend, ..JournalBatch::default() })
        };
        store
            .append(batch("one", vec![spend(1, "a", "m", 5, &[])]), Durability::Process)
            .expect("it is kept");
        store
            .append(batch("two", vec![spend(1, "a", "m", 5, &[])]), Durability::Process)
            .expect("it is kept");
        // A batch that is refused changes neither.
        let mut refused = JournalBatch { fleet: Some("three".to_owned()), ..JournalBatch::default() };
        refused.runs.push(Run { labels: "odd".to_owned(), ..super::runs::run("r", "a", 1) });
        refused.spend.push(spend(1, "a", "m", 5, &[]));
        assert!(store.append(Arc::new(refused), Durability::Process).is_err());
    }
    let store = place.open();
    assert_eq!(store.meta(FLEET_ACCOUNT), Ok(Some("two".to_owned())));
    let query = SpendQuery { by: SpendBy::Agent, from_day: 1, to_day: 1, agent: None, limit: 1 };
    assert_eq!(store.spend(&query).expect("sums")[0].sum.usd, NanoUsd(10));
}

pub(crate) fn po_2_a_sum_that_does_not_fit_stays_at_its_maximum(place: &impl Place) {
    let store = place.open();
    for _ in 0..3 {
        store.add_spend(vec![spend(1, "a", "m", u64::MAX / 2, &[])]).expect("spend is added");
    }
    let query = SpendQuery { by: SpendBy::Agent, from_day: 1, to_day: 1, agent: None, limit: 1 };
    assert_eq!(store.spend(&query).expect("sums")[0].sum.usd, NanoUsd(i64::MAX as u64));
    // Nor does one over several of them, by whatever it is made.
    store.add_spend(vec![spend(1, "a", "n", u64::MAX / 2, &[])]).expect("spend is added");
    for by in [SpendBy::Day, SpendBy::Agent, SpendBy::Run] {
        let found = store.spend(&SpendQuery { by, ..query.clone() }).expect("sums");
        assert_eq!(found[0].sum.usd, NanoUsd(i64::MAX as u64), "{by:?}");
        assert_eq!(found[0].sum.requests, 4, "{by:?}");
    }
    // And one that just fits is whole.
    let parts = [("b", i64::MAX as u64 - 7), ("c", 7)];
    store.add_spend(parts.map(|(model, usd)| spend(2, "b", model, usd, &[])).into()).expect("spend is added");
    let query = SpendQuery { agent: Some("b".into()), from_day: 2, to_day: 2, ..query };
    assert_eq!(store.spend(&query).expect("sums")[0].sum.usd, NanoUsd(i64::MAX as u64));
}
