//! Pruning: old records go, and what is left still verifies and replays.

use std::sync::Arc;

use estop_core::engine::Snapshot;
use estop_core::system::CaseStep;
use estop_journal::SYSTEM;
use estop_store::{
    Access, CaseEntry, CaseFilter, CaseTarget, CaseUpdate, Cases, Durability, EventFilter, Journal, Ledger,
    RetentionCutoffs, RunFilter, RunRepo, Spend, SpendBy, SpendQuery, Token, Upkeep,
};

use super::journal::event;
use super::{JournalFixture, MINUTE, Place, exported, read_from, replay, seq};

/// Segments of 400 records each, and as many again that are not sealed.
fn fill(store: &impl Journal, fixture: &mut JournalFixture, segments: usize) {
    let agents = ["a", "b", "a", "c", "a", "b", "a", "d", "a", SYSTEM];
    fixture.name_len = 200;
    for _ in 0..segments {
        fixture.write(&agents.repeat(40));
        fixture.seal(store);
    }
    fixture.write(&agents.repeat(40));
    fixture.store(store);
}

/// The agents whose states an export begins with, and the first line behind them.
fn beginning(lines: &[u8]) -> (Vec<String>, String) {
    let (mut bases, mut rest) = (Vec::new(), String::new());
    for line in lines.split(|byte| *byte == b'\n') {
        let line = String::from_utf8_lossy(line).into_owned();
        match line.strip_prefix("{\"base\":\"").and_then(|line| line.split('"').next()) {
            Some(agent) => bases.push(agent.to_owned()),
            None => {
                rest = line;
                break;
            }
        }
    }
    (bases, rest)
}

pub(crate) fn st_1_an_export_verifies_and_replays_across_pruning(place: &impl Place) {
    let store = place.open();
    let mut fixture = JournalFixture::open(place.data_dir());
    // One agent that is older than everything that stays, one that begins later.
    fixture.write(&["gone"]);
    fill(&store, &mut fixture, 3);
    let whole = exported(&store);
    assert_eq!((replay(&whole), beginning(&whole).0.len()), (1601, 0));
    assert_eq!(fixture.prune(&store), 401);
    fixture.write(&["late", "gone"]);
    assert_eq!(fixture.prune(&store), 801);
    fixture.store(&store);
    drop(store);

    let store = place.open();
    let mut fixture = JournalFixture::open(place.data_dir());
    fixture.write(&["a", "late"]);
    assert_eq!((store.begins_after(), store.last_seq()), (Ok(801), Ok(1603)));
    let left = exported(&store);
    assert_eq!(replay(&left), 1605);
    let (bases, first) = beginning(&left);
    assert_eq!(bases, ["a", "b", "c", "d", "gone"], "in order of name");
    assert!(first.starts_with("{\"estop_journal\":1,") && first.contains("\"segment\":3,"), "{first}");
    let mut found = 0;
    let mut each = |lines: &[u8]| {
        found = lines.split_inclusive(|byte| *byte == b'\n').next().map_or(0, seq);
        false
    };
    store.blocks(1, u64::MAX, &mut each).expect("a range");
    assert_eq!(found, 802, "a range that begins in the gap begins after it");
}

pub(crate) fn st_1_a_part_that_is_missing_from_an_export_is_noticed(place: &impl Place) {
    let store = place.open();
    let mut fixture = JournalFixture::open(place.data_dir());
    fill(&store, &mut fixture, 2);
    fixture.prune(&store);
    let whole = exported(&store);
    let lines: Vec<&[u8]> = whole.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    assert_eq!(replay(&whole), 1200);
    for missing in [0, 3, 4, 5, 200, lines.len() - 2, lines.len() - 1] {
        let mut checker = estop_journal::Checker::default();
        let rest = lines.iter().enumerate().filter(|(at, _)| *at != missing);
        let is_wrong = rest.map(|(_, line)| checker.take(line)).any(|found| found.is_err());
        assert!(is_wrong || !checker.is_ended(), "line {missing}");
    }
}

pub(crate) fn st_1_everything_packed_may_go_and_the_journal_goes_on(place: &impl Place) {
    {
        let store = place.open();
        let mut fixture = JournalFixture::open(place.data_dir());
        fill(&store, &mut fixture, 2);
        fixture.seal(&store);
        assert_eq!([fixture.prune(&store), fixture.prune(&store), fixture.prune(&store)], [400, 800, 1200]);
        assert_eq!(fixture.prune(&store), 0, "the newest segment is never pruned");
        assert_eq!((store.begins_after(), store.last_seq()), (Ok(1200), Ok(1200)));
        assert!(read_from(&store, 1201).is_empty());
    }
    let store = place.open();
    let mut fixture = JournalFixture::open(place.data_dir());
    fixture.write(&["a", "new"]);
    assert_eq!(store.records_of("a", None, 10).map(|lines| lines.len()), Ok(1));
    assert_eq!(replay(&exported(&store)), 1202);
    fixture.seal(&store);
    assert_eq!((fixture.prune(&store), store.records_of("a", None, 10)), (1202, Ok(Vec::new())));
    assert_eq!(replay(&exported(&store)), 1202);
}

pub(crate) fn st_1_each_agent_has_its_state_after_what_was_pruned(place: &impl Place) {
    let (after_one, after_two) = {
        let store = place.open();
        let mut fixture = JournalFixture::open(place.data_dir());
        fixture.write(&["gone"]);
        fixture.seal(&store);
        let one = fixture.agents.clone();
        fill(&store, &mut fixture, 0);
        fixture.seal(&store);
        let two = fixture.agents.clone();
        fixture.write(&["late", "a"]);
        assert_eq!(store.base_state("gone"), Ok(None), "nothing was pruned yet");
        assert_eq!(fixture.prune(&store), 1);
        (one, two)
    };
    let store = place.open();
    assert_eq!(store.base_state("gone"), Ok(Some(after_one["gone"].write())));
    assert_eq!(store.base_state("a"), Ok(None));
    let fixture = JournalFixture::open(place.data_dir());
    assert_eq!(fixture.prune(&store), 401);
    for (agent, state) in &after_two {
        assert_eq!(store.base_state(agent), Ok(Some(state.write())), "{agent}");
    }
    let state = store.base_state("a").expect("it can be read").expect("it is there");
    assert_eq!(Snapshot::read(&state).expect("a state").told, 200);
    assert_eq!((store.base_state("late"), store.base_state(SYSTEM)), (Ok(None), Ok(None)));
}

pub(crate) fn st_1_events_are_kept_as_long_as_asked(place: &impl Place) {
    let store = place.open();
    let mut fixture = JournalFixture::open(place.data_dir());
    for seq in 1..=30 {
        fixture.write(&["a"]);
        let mut batch = fixture.batch();
        batch.events.push(event(seq, "a", "paused", "{}"));
        store.append(Arc::new(batch), Durability::Process).expect("an event");
    }
    let left = || store.events(&EventFilter::default(), 100).map(|events| events.len());
    fixture.seal(&store);
    assert_eq!(fixture.prune(&store), 30);
    assert_eq!(left(), Ok(30));
    let old = RetentionCutoffs { events_before: Some(11 * MINUTE), ..RetentionCutoffs::default() };
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
            let (target, by) = (CaseTarget::Incident(id.clone()), "ada".into());
            let step = CaseStep::Resolved;
            let entry = CaseEntry { seq: 9, at: at * 10, by, step, owner: None, note: None };
            store.update_case(&CaseUpdate { target, entry }).expect("it is resolved");
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
    assert_eq!(store.sweep(RetentionCutoffs::default()), Ok(0), "without a bound nothing goes");
    let old = RetentionCutoffs {
        cases_before: Some(150),
        runs_before: Some(120),
        spend_before_day: Some(7),
        access_before: Some(30),
        ..RetentionCutoffs::default()
    };
    while store.sweep(old).expect("it sweeps") > 0 {}
    assert_eq!(counts(), (10, 8, 13, 17), "open cases and tokens in use stay");
}
