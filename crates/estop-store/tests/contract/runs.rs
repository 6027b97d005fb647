//! Runs: kept, replaced as they go on, and listed.

use estop_core::money::NanoUsd;
use estop_store::{Run, RunFilter, RunRepo, StoreError};

use super::Place;

pub(super) fn run(id: &str, agent: &str, started_at: i64) -> Run {
    Run {
        id: id.into(),
        agent: agent.into(),
        name: Some("nightly".into()),
        state: "active".into(),
        attended: true,
        role: Some("coder".into()),
        issue: Some("EST-1".into()),
        branch: Some("fix".into()),
        session: None,
        labels: "{\"team\":\"a\"}".to_owned(),
        started_at,
        ended_at: None,
        counters: "{\"turns\":3}".to_owned(),
        spent: NanoUsd(5),
        tokens: 900,
        summary: None,
    }
}

pub(crate) fn po_6_a_run_is_kept_and_goes_on(place: &impl Place) {
    let ended = Run { state: "completed".into(), ended_at: Some(9), tokens: 950, ..run("r1", "a", 1) };
    {
        let store = place.open();
        store.put_run(&run("r1", "a", 1)).expect("a new run");
        store.put_run(&ended).expect("it went on");
        let invalid = Run { labels: "team".to_owned(), ..run("r2", "a", 1) };
        assert!(matches!(store.put_run(&invalid), Err(StoreError::Invalid(_))));
    }
    let store = place.open();
    assert_eq!(store.run("r1"), Ok(Some(ended)));
    assert_eq!(store.run("r2"), Ok(None));
}

pub(crate) fn cb_7_a_run_ends_and_keeps_its_counters(place: &impl Place) {
    {
        let store = place.open();
        store.put_run(&run("r1", "a", 1)).expect("a new run");
        store.set_run_state("r1", "completed", Some(9)).expect("it ended");
        store.set_run_state("r2", "completed", Some(9)).expect("nobody knows it");
    }
    let store = place.open();
    let ended = Run { state: "completed".into(), ended_at: Some(9), ..run("r1", "a", 1) };
    assert_eq!(store.run("r1"), Ok(Some(ended)));
    assert_eq!(store.run("r2"), Ok(None));
}

pub(crate) fn ui_1_runs_are_listed_by_agent_and_state(place: &impl Place) {
    let store = place.open();
    for n in 0..20 {
        let state = if n % 5 == 0 { "tripped" } else { "active" };
        // Two at a time begin in the same millisecond.
        let agent = if n % 2 == 0 { "a" } else { "b" };
        store.put_run(&Run { state: state.into(), ..run(&format!("r{n:02}"), agent, n / 2) }).expect("a run");
    }
    let list = |agent: Option<&str>, state: Option<&str>| {
        let mut filter =
            RunFilter { agent: agent.map(Into::into), state: state.map(Into::into), before: None };
        let mut found: Vec<Run> = Vec::new();
        loop {
            let page = store.runs(&filter, 3).expect("a page");
            let Some(last) = page.last() else { break };
            filter.before = Some((last.started_at, last.id.clone()));
            found.extend(page);
        }
        assert!(found.is_sorted_by(|a, b| (a.started_at, &a.id) > (b.started_at, &b.id)));
        found.len()
    };
    assert_eq!(list(None, None), 20);
    assert_eq!(list(Some("a"), None), 10);
    assert_eq!(list(None, Some("tripped")), 4);
    assert_eq!(list(Some("b"), Some("tripped")), 2);
}
