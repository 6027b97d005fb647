//! The journal: its records are read in order, what follows from them is stored in whole batches or not at all, and both
//! are found again.

use std::sync::Arc;

use estop_core::agent::standing::{Cause, DeactivatedBy, Standing};
use estop_core::guard::Guard;
use estop_core::ids::Hash64;
use estop_core::time::Millis;
use estop_journal::SYSTEM;
use estop_store::{
    AgentRepo, AgentSeen, Cursor, Durability, EventFilter, EventKey, Journal, JournalBatch, NewEvent,
    Snapshot, StandingChange, StoreError,
};

use super::written_journal::JOURNAL;
use super::{JournalFixture, Place, exported, read_from, replay, seq};

pub(crate) fn st_1_what_was_appended_is_there_after_opening_again(place: &impl Place) {
    let cursor = {
        let store = place.open();
        assert_eq!((store.cursor(), store.last_seq(), store.begins_after()), (Ok(None), Ok(0), Ok(0)));
        assert!(read_from(&store, 1).is_empty(), "before there is a journal there are no records");
        let mut fixture = JournalFixture::open(place.data_dir());
        fixture.write(&["a", "b", "a", SYSTEM]);
        fixture.store(&store);
        fixture.journal.cursor()
    };
    let store = place.open();
    assert_eq!((cursor.journal, cursor.seq), (JOURNAL, 4));
    assert_eq!((store.cursor(), store.last_seq()), (Ok(Some(cursor)), Ok(4)));
    assert_eq!(read_from(&store, 1).split_inclusive(|byte| *byte == b'\n').count(), 4);
    assert_eq!(replay(&exported(&store)), 4);
    let mut fixture = JournalFixture::open(place.data_dir());
    fixture.write(&["a", "new"]);
    fixture.store(&store);
    assert_eq!((store.last_seq(), replay(&exported(&store))), (Ok(6), 6));
}

pub(crate) fn st_1_packing_segments_changes_nothing_that_can_be_read(place: &impl Place) {
    let store = place.open();
    let mut fixture = JournalFixture::open(place.data_dir());
    for round in 0..30 {
        fixture.write(&["a", if round % 7 == 0 { "rare" } else { "b" }]);
        if round % 11 == 10 {
            fixture.seal(&store);
        }
    }
    let all = || {
        let mut lines = Vec::new();
        let mut each = |part: &[u8]| {
            lines.extend_from_slice(part);
            true
        };
        store.lines(&mut each).expect("lines");
        (read_from(&store, 1), store.records_of("rare", None, 100), store.begins_after(), lines)
    };
    let before = all();
    assert_eq!(before.1.as_ref().map(Vec::len), Ok(5));
    fixture.seal(&store);
    store.index_segments().expect("indexing nothing is fine");
    let after = all();
    assert_eq!((&after.0, &after.1, &after.2), (&before.0, &before.1, &before.2));
    assert!(after.3.starts_with(&before.3), "and a last line, and the first of the next segment");
    assert_eq!(replay(&exported(&store)), 60);
    assert_eq!(store.last_seq(), Ok(60));
}

pub(crate) fn st_1_many_records_in_many_segments_stay_readable(place: &impl Place) {
    let store = place.open();
    let mut fixture = JournalFixture::open(place.data_dir());
    let names: Vec<String> = (0..50).map(|n| format!("agent-{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for round in 0..200 {
        fixture.write(&names);
        if round % 60 == 59 {
            fixture.seal(&store);
        }
    }
    let lines = read_from(&store, 1);
    assert_eq!(lines.iter().filter(|byte| **byte == b'\n').count(), 10_000);
    let found = store.records_of("agent-7", None, 1000).expect("records of an agent");
    let seqs: Vec<u64> = found.iter().map(|line| seq(line)).collect();
    let expected: Vec<u64> = (0..200).rev().map(|round| round * 50 + 8).collect();
    assert_eq!(seqs, expected);
    assert_eq!(replay(&exported(&store)), 10_000);
}

pub(crate) fn st_1_a_range_is_cut_to_the_record(place: &impl Place) {
    let store = place.open();
    let mut fixture = JournalFixture::open(place.data_dir());
    for round in 0..10 {
        fixture.write(&["a"; 7]);
        if round % 3 == 2 {
            fixture.seal(&store);
        }
    }
    for (from, to) in [(1, 70), (3, 3), (5, 44), (21, 22), (35, 36), (70, 70), (60, 900), (71, 900), (9, 8)] {
        let mut seqs = Vec::new();
        let mut each = |lines: &[u8]| {
            seqs.extend(lines.split_inclusive(|byte| *byte == b'\n').map(seq));
            true
        };
        store.blocks(from, to, &mut each).expect("a range");
        let expected: Vec<u64> = (from..=to.min(70)).collect();
        assert_eq!(seqs, expected, "{from}..={to}");
    }
    let mut blocks = 0;
    let mut first_only = |_: &[u8]| {
        blocks += 1;
        false
    };
    store.blocks(1, 70, &mut first_only).expect("a range");
    assert_eq!(blocks, 1, "whoever has enough is given no more");
}

pub(crate) fn st_1_records_of_an_agent_come_newest_first_page_by_page(place: &impl Place) {
    let store = place.open();
    let mut fixture = JournalFixture::open(place.data_dir());
    for round in 0..20 {
        fixture.write(&["a", "b", "a"]);
        if round == 6 || round == 12 {
            fixture.seal(&store);
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
    assert_eq!(store.records_of("a", None, 0), Ok(Vec::new()));
}

pub(crate) fn st_1_a_batch_of_records_that_were_stored_is_refused_whole(place: &impl Place) {
    let cursor = |seq| Cursor { journal: JOURNAL, seq };
    let batch = |agent: &str, seq| {
        let seen = vec![AgentSeen { agent: agent.into(), at: 1 }];
        Arc::new(JournalBatch { seen, cursor: Some(cursor(seq)), ..JournalBatch::default() })
    };
    {
        let store = place.open();
        store.append(batch("a", 3), Durability::Process).expect("the first");
        for back in [0, 1, 2] {
            let out_of_order = StoreError::OutOfOrder { expected: 4, found: back };
            assert_eq!(store.append(batch("ghost", back), Durability::Disk), Err(out_of_order));
        }
        assert_eq!((store.agent("ghost"), store.cursor()), (Ok(None), Ok(Some(cursor(3)))));
    }
    let store = place.open();
    let out_of_order = StoreError::OutOfOrder { expected: 4, found: 2 };
    assert_eq!(store.append(batch("ghost", 2), Durability::Process), Err(out_of_order));
    // What comes with no new record, such as a checkpoint, is stored; so is what leaves the cursor alone.
    store.append(batch("b", 3), Durability::Process).expect("no new record");
    let seen = vec![AgentSeen { agent: "c".into(), at: 1 }];
    let beside = Arc::new(JournalBatch { seen, ..JournalBatch::default() });
    store.append(beside, Durability::Process).expect("no cursor");
    store.append(batch("d", 9), Durability::Process).expect("the next");
    assert_eq!(store.cursor(), Ok(Some(cursor(9))));
    let names =
        ["a", "b", "c", "d", "ghost"].map(|name| store.agent(name).expect("it can be read").is_some());
    assert_eq!(names, [true, true, true, true, false]);
}

pub(crate) fn st_1_numbers_of_journals_are_kept_whole(place: &impl Place) {
    for journal in [Hash64(0), Hash64(u64::MAX), Hash64(1 << 63)] {
        let cursor = Some(Cursor { journal, seq: 5 });
        let batch = JournalBatch { cursor, ..JournalBatch::default() };
        place.open().append(Arc::new(batch), Durability::Process).expect("stored");
        assert_eq!(place.open().cursor(), Ok(cursor));
    }
}

pub(crate) fn st_1_a_batch_is_stored_whole_or_not_at_all(place: &impl Place) {
    let store = place.open();
    let mut fixture = JournalFixture::open(place.data_dir());
    fixture.write(&["a"]);
    let mut batch = fixture.batch();
    batch.seen.push(AgentSeen { agent: "a".into(), at: 5 });
    batch.events.push(event(1, "a", "kill_switch", "{}"));
    batch.events.push(event(1, "a", "paused", "not JSON"));
    let result = store.append(Arc::new(batch.clone()), Durability::Disk);
    assert!(matches!(result, Err(StoreError::Invalid(_))), "{result:?}");
    assert_eq!((store.cursor(), store.agent("a")), (Ok(None), Ok(None)));
    assert_eq!(store.events(&EventFilter::default(), 9), Ok(Vec::new()));

    batch.events[1].detail = "{\"why\":1}".to_owned();
    store.append(Arc::new(batch), Durability::Disk).expect("fixed");
    assert_eq!(store.last_seq(), Ok(1));
    assert_eq!(store.events(&EventFilter::default(), 9).map(|events| events.len()), Ok(2));
}

pub(crate) fn ld_3_a_deactivation_is_stored_with_the_record_that_caused_it(place: &impl Place) {
    let by = DeactivatedBy::KillSwitch(Cause::Loop);
    let standing = Standing::Inactive { by, since: Millis(77) };
    {
        let store = place.open();
        let mut batch = JournalBatch::default();
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
    store.append(Arc::new(batch), Durability::Process).expect("a batch without a cursor");
    assert_eq!(store.load_agents().expect("agents load")[0].snapshot, b"state 1");
}

pub(crate) fn ui_1_events_are_found_by_agent_and_type_page_by_page(place: &impl Place) {
    let store = place.open();
    for seq in 1..=20 {
        let cursor = Some(Cursor { journal: JOURNAL, seq });
        let mut batch = JournalBatch { cursor, ..JournalBatch::default() };
        let agent = if seq % 2 == 0 { "even" } else { "odd" };
        batch.events.push(event(seq, agent, "kill_switch", "{}"));
        batch.events.push(event(seq, agent, "paused", "{}"));
        batch.events.push(NewEvent { agent: None, ..event(seq, "", "system_started", "{}") });
        store.append(Arc::new(batch), Durability::Process).expect("events are stored");
    }
    let count = |agent: Option<&str>, event_type: Option<&str>| {
        let (agent, event_type) = (agent.map(Into::into), event_type.map(Into::into));
        let mut filter = EventFilter { agent, event_type, ..EventFilter::default() };
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

pub(crate) fn ui_1_events_are_found_by_guard_and_oldest_first(place: &impl Place) {
    let store = place.open();
    let cursor = Some(Cursor { journal: JOURNAL, seq: 6 });
    let mut batch = JournalBatch { cursor, ..JournalBatch::default() };
    for (seq, event_type, detail) in [
        (1, "would_have_stopped", r#"{"guard":"loop"}"#),
        (2, "kill_switch", r#"{"cause":"loop"}"#),
        (3, "budget_warning", r#"{"percent":95}"#),
        (4, "nudged", r#"{"tool":"loop"}"#),
        (5, "paused", r#"{"cause":"health"}"#),
        (6, "activated", r#"{"by":"loop"}"#),
    ] {
        batch.events.push(event(seq, "coder", event_type, detail));
    }
    store.append(Arc::new(batch), Durability::Process).expect("events are stored");
    let found = |filter: EventFilter| {
        let events = store.events(&filter, 3).expect("a page");
        events.into_iter().map(|found| found.key.seq).collect::<Vec<_>>()
    };
    let of = |guard| EventFilter { guard: Some(guard), ..EventFilter::default() };
    assert_eq!(found(of(Guard::Loop)), [4, 2, 1]);
    assert_eq!(found(of(Guard::Budget)), [3]);
    assert_eq!(found(of(Guard::Hours)), Vec::<u64>::new());
    assert_eq!(found(EventFilter { oldest_first: true, ..of(Guard::Loop) }), [1, 2, 4]);
    let after = Some(EventKey { seq: 2, nth: 0 });
    assert_eq!(found(EventFilter { oldest_first: true, after, ..EventFilter::default() }), [3, 4, 5]);
    assert_eq!(found(EventFilter { after, ..EventFilter::default() }), [6, 5, 4]);
}

pub(crate) fn event(seq: u64, agent: &str, event_type: &str, detail: &str) -> NewEvent {
    let (agent, event_type) = (Some(agent.into()), event_type.into());
    NewEvent { seq, wall: seq as i64 * super::MINUTE, agent, event_type, detail: detail.to_owned() }
}
