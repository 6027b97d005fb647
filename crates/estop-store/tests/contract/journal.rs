//! The journal: it keeps lines in order, whole batches or nothing, and finds them again.

use std::sync::Arc;

use estop_core::agent::standing::{Cause, DeactivatedBy, Standing};
use estop_core::journal::{Chains, Record};
use estop_core::time::Millis;
use estop_store::{
    AgentRepo, AgentSeen, Durability, EventFilter, Journal, JournalBatch, NewEvent, Snapshot, StandingChange,
    StoreError, TailMark,
};

use super::{Place, Scribe, read_from};

pub(crate) fn st_1_what_was_appended_is_there_after_opening_again(place: &impl Place) {
    let mut scribe = Scribe::default();
    {
        let store = place.open();
        assert_eq!(store.last_seq(), Ok(0));
        assert_eq!(store.heads(), Ok(Vec::new()));
        scribe.write(&store, &["a", "b", "a"]);
        scribe.write(&store, &["system"]);
        assert_eq!(store.heads(), Ok(scribe.chains.heads()));
    }
    let store = place.open();
    assert_eq!(store.last_seq(), Ok(4));
    assert_eq!(store.heads(), Ok(scribe.chains.heads()));
    let mut checked = Chains::default();
    for line in read_from(&store, 1).split_inclusive(|byte| *byte == b'\n') {
        // The scribe's `system` lines are an agent's event, which the core's reader refuses.
        if let Ok(record) = Record::parse(line) {
            checked.check(&record).expect("the chain holds");
        }
    }
    assert_eq!(checked.seq(), 3);
}

pub(crate) fn st_1_merging_blocks_changes_nothing_that_can_be_read(place: &impl Place) {
    let store = place.open();
    let mut scribe = Scribe::default();
    for round in 0..30 {
        scribe.write(&store, &["a", if round % 7 == 0 { "rare" } else { "b" }]);
        if round % 11 == 10 {
            store.compact().expect("blocks merge");
        }
    }
    let before = (read_from(&store, 1), store.heads(), store.records_of("rare", None, 100));
    store.compact().expect("blocks merge");
    store.compact().expect("merging nothing is fine");
    assert_eq!(before, (read_from(&store, 1), store.heads(), store.records_of("rare", None, 100)));
    assert_eq!(store.heads(), Ok(scribe.chains.heads()));
    assert_eq!(store.last_seq(), Ok(60));
}

pub(crate) fn st_1_many_records_merge_by_themselves_and_stay_readable(place: &impl Place) {
    let store = place.open();
    let mut scribe = Scribe::default();
    let names: Vec<String> = (0..50).map(|n| format!("agent-{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for _ in 0..200 {
        scribe.write(&store, &names);
    }
    assert_eq!(store.heads(), Ok(scribe.chains.heads()));
    let lines = read_from(&store, 1);
    assert_eq!(lines.iter().filter(|byte| **byte == b'\n').count(), 10_000);
    let found = store.records_of("agent-7", None, 1000).expect("records of an agent");
    let seqs: Vec<u64> = found.iter().map(|line| seq(line)).collect();
    let expected: Vec<u64> = (0..200).rev().map(|round| round * 50 + 8).collect();
    assert_eq!(seqs, expected);
}

pub(crate) fn st_1_a_range_is_cut_to_the_record(place: &impl Place) {
    let store = place.open();
    let mut scribe = Scribe::default();
    for round in 0..10 {
        scribe.write(&store, &["a"; 7]);
        if round == 4 {
            store.compact().expect("blocks merge");
        }
    }
    for (from, to) in [(1, 70), (3, 3), (5, 44), (35, 36), (70, 70), (60, 900)] {
        let mut seqs = Vec::new();
        let mut each = |lines: &estop_store::Lines| {
            seqs.extend(lines.bytes.split_inclusive(|byte| *byte == b'\n').map(seq));
            true
        };
        store.blocks(from, to, &mut each).expect("a range");
        let expected: Vec<u64> = (from..=to.min(70)).collect();
        assert_eq!(seqs, expected, "{from}..={to}");
    }
    let mut blocks = 0;
    let mut first_only = |_: &estop_store::Lines| {
        blocks += 1;
        false
    };
    store.blocks(1, 70, &mut first_only).expect("a range");
    assert_eq!(blocks, 1, "whoever has enough is given no more");
}

pub(crate) fn st_1_records_of_an_agent_come_newest_first_page_by_page(place: &impl Place) {
    let store = place.open();
    let mut scribe = Scribe::default();
    for round in 0..20 {
        scribe.write(&store, &["a", "b", "a"]);
        if round == 12 {
            store.compact().expect("blocks merge");
        }
    }
    let (mut before, mut seqs) = (None, Vec::new());
    loop {
        let page = store.records_of("a", before, 7).expect("a page");
        let Some(last) = page.last() else { break };
        before = Some(seq(last));
        seqs.extend(page.iter().map(|line| seq(line)));
    }
    let expected: Vec<u64> = (1..=60).rev().filter(|seq| seq % 3 != 2).collect();
    assert_eq!(seqs, expected);
    assert_eq!(store.records_of("nobody", None, 7), Ok(Vec::new()));
}

pub(crate) fn st_1_a_batch_that_does_not_follow_is_refused_whole(place: &impl Place) {
    let store = place.open();
    let mut scribe = Scribe::default();
    scribe.write(&store, &["a", "a"]);
    let mut ahead = scribe.clone();
    ahead.batch(&["a"]);
    let mut skipped = ahead.batch(&["a"]);
    skipped.seen.push(AgentSeen { agent: "ghost".into(), at: 1 });
    let out_of_order = StoreError::OutOfOrder { expected: 3, found: 4 };
    assert_eq!(store.append(Arc::new(skipped), Durability::Process), Err(out_of_order));
    assert_eq!(store.agent("ghost"), Ok(None));

    let again = Scribe::default().batch(&["a", "a"]);
    let out_of_order = StoreError::OutOfOrder { expected: 3, found: 1 };
    assert_eq!(store.append(Arc::new(again), Durability::Process), Err(out_of_order));
    scribe.write(&store, &["a"]);
    assert_eq!(store.last_seq(), Ok(3));
}

pub(crate) fn st_1_lines_that_are_not_records_are_refused(place: &impl Place) {
    let store = place.open();
    let good = Scribe::default().batch(&["a", "b"]);
    let refused = |spoil: fn(&mut estop_store::Lines)| {
        let mut batch = good.clone();
        batch.lines.as_mut().map(spoil).expect("it has lines");
        let result = store.append(Arc::new(batch), Durability::Process);
        assert!(matches!(result, Err(StoreError::Invalid(_))), "{result:?}");
    };
    refused(|lines| lines.bytes.clear());
    refused(|lines| lines.last_seq = 1);
    refused(|lines| lines.last_seq = 3);
    refused(|lines| lines.bytes.truncate(lines.bytes.len() - 1));
    refused(|lines| lines.bytes[0] = b' ');
    refused(|lines| lines.bytes.extend_from_slice(b"{}\n"));
    assert_eq!(store.last_seq(), Ok(0));
    store.append(Arc::new(good), Durability::Process).expect("the good one");
}

pub(crate) fn st_1_a_batch_is_stored_whole_or_not_at_all(place: &impl Place) {
    let store = place.open();
    let mut scribe = Scribe::default();
    let mut batch = scribe.batch(&["a"]);
    batch.seen.push(AgentSeen { agent: "a".into(), at: 5 });
    batch.events.push(event(1, "a", "kill_switch", "{}"));
    batch.tail = Some(TailMark { generation: 2, offset: 90 });
    batch.events.push(event(1, "a", "paused", "not JSON"));
    let result = store.append(Arc::new(batch.clone()), Durability::Disk);
    assert!(matches!(result, Err(StoreError::Invalid(_))), "{result:?}");
    assert_eq!(
        (store.last_seq(), store.agent("a"), store.tail()),
        (Ok(0), Ok(None), Ok(TailMark::default()))
    );

    batch.events[1].detail = "{\"why\":1}".to_owned();
    store.append(Arc::new(batch), Durability::Disk).expect("mended");
    assert_eq!((store.last_seq(), store.tail()), (Ok(1), Ok(TailMark { generation: 2, offset: 90 })));
    assert_eq!(store.events(&EventFilter::default(), 9).map(|events| events.len()), Ok(2));
}

pub(crate) fn ld_3_a_deactivation_is_stored_with_the_record_that_caused_it(place: &impl Place) {
    let mut scribe = Scribe::default();
    let by = DeactivatedBy::KillSwitch(Cause::Loop);
    let standing = Standing::Inactive { by, since: Millis(77) };
    {
        let store = place.open();
        let mut batch = scribe.batch(&["a"]);
        batch.seen.push(AgentSeen { agent: "a".into(), at: 5 });
        batch.standings.push(StandingChange { agent: "a".into(), standing, at: 6 });
        batch.standings.push(StandingChange { agent: "unseen".into(), standing, at: 6 });
        batch.snapshots.push(Snapshot { agent: "a".into(), seq: 1, state: b"state 1".to_vec() });
        batch.events.push(event(1, "a", "kill_switch", "{\"score\":107}"));
        store.append(Arc::new(batch), Durability::Disk).expect("a kill is stored");
    }
    let store = place.open();
    let loaded = store.load_agents().expect("agents load");
    let names: Vec<&str> = loaded.iter().map(|stored| stored.agent.name.as_ref()).collect();
    assert_eq!(names, ["a", "unseen"]);
    let a = &loaded[0];
    assert_eq!((a.agent.standing, a.agent.version, a.agent.last_seen_at), (standing, 2, Some(5)));
    assert_eq!((a.snapshot_seq, a.snapshot.as_slice()), (1, b"state 1".as_slice()));
    assert_eq!((loaded[1].agent.standing, loaded[1].snapshot_seq), (standing, 0));

    // A snapshot that comes late does not replace a newer one.
    let late = Snapshot { agent: "a".into(), seq: 0, state: b"state 0".to_vec() };
    let batch = JournalBatch { snapshots: vec![late], ..JournalBatch::default() };
    store.append(Arc::new(batch), Durability::Process).expect("a batch without lines");
    assert_eq!(store.load_agents().expect("agents load")[0].snapshot, b"state 1");
}

pub(crate) fn ui_1_events_are_found_by_agent_and_type_page_by_page(place: &impl Place) {
    let store = place.open();
    let mut scribe = Scribe::default();
    for seq in 1..=20 {
        let mut batch = scribe.batch(&["a"]);
        let agent = if seq % 2 == 0 { "even" } else { "odd" };
        batch.events.push(event(seq, agent, "kill_switch", "{}"));
        batch.events.push(event(seq, agent, "paused", "{}"));
        batch.events.push(NewEvent { agent: None, ..event(seq, "", "system_started", "{}") });
        store.append(Arc::new(batch), Durability::Process).expect("events are stored");
    }
    let count = |agent: Option<&str>, event_type: Option<&str>| {
        let (agent, event_type) = (agent.map(Into::into), event_type.map(Into::into));
        let mut filter = EventFilter { agent, event_type, before: None };
        let mut found = Vec::new();
        loop {
            let page = store.events(&filter, 4).expect("a page");
            let Some(last) = page.last() else { break };
            filter.before = Some(last.key);
            found.extend(page.into_iter().map(|stored| stored.key));
        }
        assert!(found.is_sorted_by(|a, b| a > b), "newest first, none twice");
        found.len()
    };
    assert_eq!(count(None, None), 60);
    assert_eq!(count(Some("even"), None), 20);
    assert_eq!(count(None, Some("paused")), 20);
    assert_eq!(count(Some("odd"), Some("kill_switch")), 10);
    assert_eq!(count(Some("odd"), Some("nothing")), 0);
}

pub(crate) fn event(seq: u64, agent: &str, event_type: &str, detail: &str) -> NewEvent {
    let (agent, event_type) = (Some(agent.into()), event_type.into());
    NewEvent { seq, wall: seq as i64 * super::MINUTE, agent, event_type, detail: detail.to_owned() }
}

fn seq(line: &[u8]) -> u64 {
    Record::parse(line).expect("a record").head.seq
}
