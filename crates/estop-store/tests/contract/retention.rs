//! Pruning: old records go, and what is left still verifies.

use std::sync::Arc;

use estop_core::journal::Base;
use estop_store::{
    Access, CaseFilter, CaseStatus, Cases, Durability, EventFilter, Incident, Journal, Ledger, Old,
    Retention, RunFilter, RunRepo, Spend, SpendBy, SpendQuery, StoreError, Token, Upkeep,
};

use super::journal::event;
use super::{MINUTE, Place, Scribe, prune, read_from, verify};

/// Enough lines that a store has reason to keep them in several parts.
fn fill(store: &impl Journal, scribe: &mut Scribe) {
    scribe.name_len = 8000;
    for _ in 0..100 {
        scribe.write(store, &["a", "b", "a", "c", "a", "b", "a", "d", "a", "b"].repeat(4));
    }
}

const ALL: Retention = Retention { before_wall: None, keep_bytes: Some(0), checkpoint: u64::MAX };

/// What a record of `fill` takes.
const RECORD_BYTES: u64 = 8250;

pub(crate) fn st_1_chain_verifies_across_pruning(place: &impl Place) {
    let mut scribe = Scribe::default();
    let store = place.open();
    // One chain that is older than everything that stays, one that begins later.
    scribe.write(&store, &["gone"]);
    fill(&store, &mut scribe);
    let first = prune(&store, Retention { keep_bytes: Some(2500 * RECORD_BYTES), ..ALL }).expect("it prunes");
    assert!((1501..2100).contains(&first.to_seq), "{}", first.to_seq);
    assert_eq!(verify(&first, &read_from(&store, first.to_seq + 1)), scribe.chains.heads());

    scribe.write(&store, &["late", "gone"]);
    let second = prune(&store, Retention { before_wall: Some(3000 * MINUTE), keep_bytes: None, ..ALL })
        .expect("it prunes");
    assert!(second.to_seq > first.to_seq && second.to_seq < 3000, "{}", second.to_seq);
    assert_eq!(store.pruned(), Ok(second.clone()));
    drop(store);

    let store = place.open();
    scribe.write(&store, &["a", "late"]);
    assert_eq!(store.pruned(), Ok(second.clone()));
    assert_eq!(store.heads(), Ok(scribe.chains.heads()));
    assert_eq!(verify(&second, &read_from(&store, second.to_seq + 1)), scribe.chains.heads());
    assert_eq!(read_from_start(&store), second.to_seq + 1, "a range that begins in the gap begins after it");
}

fn read_from_start(store: &impl Journal) -> u64 {
    let mut first = 0;
    let mut each = |lines: &estop_store::Lines| {
        first = lines.first_seq;
        false
    };
    store.blocks(1, u64::MAX, &mut each).expect("a range");
    first
}

pub(crate) fn st_1_everything_may_go_and_the_journal_goes_on(place: &impl Place) {
    let mut scribe = Scribe::default();
    {
        let store = place.open();
        fill(&store, &mut scribe);
        let pruned = prune(&store, ALL).expect("it prunes");
        assert_eq!((pruned.to_seq, pruned.heads), (4000, scribe.chains.heads()));
        assert_eq!((store.last_seq(), store.heads()), (Ok(4000), Ok(scribe.chains.heads())));
        assert!(read_from(&store, 4001).is_empty());
    }
    let store = place.open();
    scribe.write(&store, &["a", "new"]);
    assert_eq!(store.heads(), Ok(scribe.chains.heads()));
    let pruned = store.pruned().expect("it was pruned");
    assert_eq!(verify(&pruned, &read_from(&store, 4001)), scribe.chains.heads());
    assert_eq!(store.records_of("a", None, 10).map(|lines| lines.len()), Ok(1));
}

pub(crate) fn st_1_nothing_goes_without_a_rule_or_after_the_checkpoint(place: &impl Place) {
    let store = place.open();
    fill(&store, &mut Scribe::default());
    assert_eq!(prune(&store, Retention { keep_bytes: None, ..ALL }).map(|pruned| pruned.to_seq), Ok(0));
    assert_eq!(prune(&store, Retention { checkpoint: 0, ..ALL }).map(|pruned| pruned.to_seq), Ok(0));
    let pruned = prune(&store, Retention { checkpoint: 2000, ..ALL }).expect("it prunes");
    assert!(pruned.to_seq > 0 && pruned.to_seq <= 2000, "{}", pruned.to_seq);
}

pub(crate) fn st_1_each_chain_has_its_state_after_what_was_pruned(place: &impl Place) {
    let mut scribe = Scribe::default();
    let pruned = {
        let store = place.open();
        scribe.write(&store, &["gone"]);
        fill(&store, &mut scribe);
        assert_eq!(store.base_state("gone"), Ok(None));
        assert!(
            matches!(store.prune(3, Vec::new()), Err(StoreError::Invalid(_))),
            "not in the middle of a part"
        );
        prune(&store, Retention { keep_bytes: Some(2500 * RECORD_BYTES), ..ALL }).expect("it prunes")
    };
    let store = place.open();
    assert_eq!(store.base_state("gone"), Ok(Some(b"1".to_vec())), "it is not in the later parts");
    assert_eq!(store.base_state("late"), Ok(None));
    // Every second record is of `a`, from the second on.
    let last = if pruned.to_seq.is_multiple_of(2) { pruned.to_seq } else { pruned.to_seq - 1 };
    let state = store.base_state("a").expect("it can be read").expect("it is there");
    assert_eq!(String::from_utf8_lossy(&state), last.to_string());
    let digests = store.base_digests().expect("they can be read");
    let names: Vec<&str> = digests.iter().map(|(chain, _)| &**chain).collect();
    assert_eq!(names, ["a", "b", "c", "d", "gone"]);
    assert_eq!(digests[0].1, Base::state_digest(&state));
    let chains: Vec<&str> = pruned.heads.iter().map(|head| &*head.chain).collect();
    assert_eq!(chains, names, "each chain that is checked from its heads can be replayed from its state");
}

pub(crate) fn st_1_events_are_kept_as_long_as_asked(place: &impl Place) {
    let store = place.open();
    let mut scribe = Scribe::default();
    for seq in 1..=30 {
        let mut batch = scribe.batch(&["a"]);
        batch.events.push(event(seq, "a", "paused", "{}"));
        store.append(Arc::new(batch), Durability::Process).expect("an event");
    }
    let left = || store.events(&EventFilter::default(), 100).map(|events| events.len());
    prune(&store, ALL).expect("it prunes");
    assert_eq!(left(), Ok(30));
    let old = Old { events_before: Some(11 * MINUTE), ..Old::default() };
    while store.sweep(old).expect("it sweeps") > 0 {}
    assert_eq!(left(), Ok(20));
}

pub(crate) fn st_3_old_rows_go_and_what_is_open_stays(place: &impl Place) {
    let store = place.open();
    for at in 0..20 {
        let id: Box<str> = format!("case-{at}").into();
        let incident = super::cases::incident(&id, "a", at * 10);
        store.open_incident(&incident).expect("an incident");
        if at < 10 {
            let kept = store.incident(&id).expect("it can be read").expect("it is there");
            let closed = Incident { status: CaseStatus::Closed, ..kept };
            store.update_incident(&closed).expect("it is closed");
        }
        let mut run = super::runs::run(&id, "a", at * 10);
        run.ended_at = (at < 15).then_some(at * 10 + 1);
        store.put_run(&run).expect("a run");
        let day = i32::try_from(at).expect("a day");
        store.add_spend(vec![Spend { day, agent: "a".into(), ..Spend::default() }]).expect("spend");
        let token = Token { revoked_at: (at < 5).then_some(at * 10), ..super::access::token(&id, at) };
        store.insert_token(&token).expect("a token");
    }
    let all = |from_day, to_day| SpendQuery { by: SpendBy::Day, from_day, to_day, agent: None, limit: 100 };
    let counts = || {
        let days = store.spend(&all(0, 100)).expect("spend").len();
        let incidents = store.incidents(&CaseFilter::default(), 100).expect("incidents").len();
        let runs = store.runs(&RunFilter::default(), 100).expect("runs").len();
        (incidents, runs, days, store.tokens().expect("tokens").len())
    };
    assert_eq!(store.sweep(Old::default()), Ok(0), "without a bound nothing goes");
    let old = Old {
        cases_before: Some(150),
        runs_before: Some(120),
        spend_before_day: Some(7),
        access_before: Some(30),
        ..Old::default()
    };
    while store.sweep(old).expect("it sweeps") > 0 {}
    assert_eq!(counts(), (10, 8, 13, 17), "open cases and tokens in use stay");
}
