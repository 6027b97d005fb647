//! Pruning: old records go, and what is left still verifies.

use std::sync::Arc;

use estop_store::{
    Agent, AgentRepo, Durability, EventFilter, Journal, JournalBatch, Origin, Retention, Snapshot,
};

use super::journal::event;
use super::{MINUTE, Place, Scribe, read_from, verify};

/// Enough lines that a store has reason to keep them in several parts.
fn fill(store: &impl Journal, scribe: &mut Scribe) {
    scribe.name_len = 8000;
    for _ in 0..100 {
        scribe.write(store, &["a", "b", "a", "c", "a", "b", "a", "d", "a", "b"].repeat(4));
    }
}

const ALL: Retention =
    Retention { before_wall: None, keep_last: Some(0), events_before_wall: None, checkpoint: u64::MAX };

pub(crate) fn st_1_chain_verifies_across_pruning(place: &impl Place) {
    let mut scribe = Scribe::default();
    let store = place.open();
    // One chain that is older than everything that stays, one that begins later.
    scribe.write(&store, &["gone"]);
    fill(&store, &mut scribe);
    let first = store.prune(Retention { keep_last: Some(2500), ..ALL }).expect("it prunes");
    assert!(first.to_seq > 0 && first.to_seq <= 1501, "{}", first.to_seq);
    assert_eq!(verify(&first, &read_from(&store, first.to_seq + 1)), scribe.chains.heads());

    scribe.write(&store, &["late", "gone"]);
    let second = store.prune(Retention { before_wall: Some(3000 * MINUTE), ..ALL }).expect("it prunes");
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
        let pruned = store.prune(ALL).expect("it prunes");
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
    assert_eq!(store.prune(Retention { keep_last: None, ..ALL }).map(|pruned| pruned.to_seq), Ok(0));
    assert_eq!(store.prune(Retention { checkpoint: 0, ..ALL }).map(|pruned| pruned.to_seq), Ok(0));
    let pruned = store.prune(Retention { checkpoint: 2000, ..ALL }).expect("it prunes");
    assert!(pruned.to_seq > 0 && pruned.to_seq <= 2000, "{}", pruned.to_seq);
}

pub(crate) fn st_1_what_an_agent_resumes_from_is_never_pruned(place: &impl Place) {
    let store = place.open();
    let mut scribe = Scribe::default();
    fill(&store, &mut scribe);
    let snapshot = |agent: &str, seq| {
        let snapshots = vec![Snapshot { agent: agent.into(), seq, state: vec![1] }];
        let batch = JournalBatch { snapshots, ..JournalBatch::default() };
        store.append(Arc::new(batch), Durability::Process).expect("a snapshot");
    };
    store.insert_agent(&Agent::new("a", Origin::Config, 1)).expect("a new agent");
    store.insert_agent(&Agent::new("silent", Origin::Config, 1)).expect("a new agent");
    assert_eq!(store.prune(ALL).map(|pruned| pruned.to_seq), Ok(0), "without a state it needs all records");
    snapshot("a", 2000);
    let pruned = store.prune(ALL).expect("it prunes");
    assert!(pruned.to_seq > 0 && pruned.to_seq <= 2000, "{}", pruned.to_seq);
    assert_eq!(verify(&pruned, &read_from(&store, pruned.to_seq + 1)), scribe.chains.heads());
    // Its last record is 3999.
    snapshot("a", 3999);
    assert_eq!(store.prune(ALL).map(|pruned| pruned.to_seq), Ok(4000));
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
    store.prune(ALL).expect("it prunes");
    assert_eq!(left(), Ok(30));
    store.prune(Retention { events_before_wall: Some(11 * MINUTE), ..ALL }).expect("it prunes");
    assert_eq!(left(), Ok(20));
}
