//! Incidents and escalations: opened once, edited without overwriting one another, listed.

use std::sync::Arc;

use estop_core::system::CaseStep;
use estop_store::{
    CaseEntry, CaseFilter, CaseStatus, CaseTarget, CaseUpdate, Cases, Durability, Escalation, Incident,
    Journal, JournalBatch, OpenCases, StatusFilter,
};

use super::Place;

pub(super) fn incident(id: &str, agent: &str, opened_at: i64) -> Incident {
    Incident {
        id: id.into(),
        agent: agent.into(),
        run: Some("r1".into()),
        seq: 4,
        kind: "loop".into(),
        opened_at,
        status: CaseStatus::Open,
        resolution: None,
        resolved_at: None,
        history: Vec::new(),
        earlier: None,
        later: None,
        evidence: "[1,2]".to_owned(),
        summary: "It asked the same thing eleven times.".to_owned(),
        version: 1,
    }
}

fn escalation(id: &str, agent: &str, opened_at: i64) -> Escalation {
    Escalation {
        id: id.into(),
        agent: agent.into(),
        run: None,
        reason: "The run used all its turns.".to_owned(),
        opened_at,
        status: CaseStatus::Open,
        owner: None,
        seq: 4,
        history: Vec::new(),
        resolved_at: None,
        resolved_by: None,
        summary: Some("Half of it is done.".to_owned()),
        facts: r#"{"branch":"feat/x"}"#.to_owned(),
        version: 1,
    }
}

pub(crate) fn tw_7_cases_are_opened_with_their_batch_and_once(place: &impl Place) {
    {
        let store = place.open();
        let batch = JournalBatch {
            incidents: vec![incident("i1", "a", 1)],
            escalations: vec![escalation("e1", "a", 1)],
            ..JournalBatch::default()
        };
        store.append(Arc::new(batch), Durability::Disk).expect("cases are stored");
        store
            .open_incident(&Incident { summary: "again".to_owned(), ..incident("i1", "a", 2) })
            .expect("again");
        store.open_escalation(&escalation("e1", "b", 2)).expect("again");
    }
    let store = place.open();
    assert_eq!(store.incident("i1"), Ok(Some(incident("i1", "a", 1))));
    assert_eq!(store.escalation("e1"), Ok(Some(escalation("e1", "a", 1))));
    assert_eq!((store.incident("i2"), store.escalation("e2")), (Ok(None), Ok(None)));
}

fn entry(seq: u64, step: CaseStep, note: &str) -> CaseEntry {
    let note = Some(note).filter(|note| !note.is_empty()).map(str::to_owned);
    CaseEntry { seq, at: seq as i64 * 1_000, by: "ada".into(), step, owner: None, note }
}

fn update(target: CaseTarget, seq: u64, step: CaseStep, note: &str) -> CaseUpdate {
    CaseUpdate { target, entry: entry(seq, step, note) }
}

pub(crate) fn ev_3_steps_change_the_status_and_stay_in_the_history(place: &impl Place) {
    let store = place.open();
    store.open_incident(&incident("i1", "a", 1)).expect("an incident");
    let one = || CaseTarget::Incident("i1".into());
    let steps = [
        (CaseStep::Acknowledged, "", CaseStatus::Acknowledged, None, None),
        (CaseStep::Noted, "bad prompt", CaseStatus::Acknowledged, None, None),
        (CaseStep::Resolved, "new prompt", CaseStatus::Resolved, Some("new prompt"), Some(7_000)),
        (CaseStep::Reopened, "", CaseStatus::Open, None, None),
    ];
    for (at, (step, note, status, resolution, resolved_at)) in steps.into_iter().enumerate() {
        store.update_case(&update(one(), at as u64 + 5, step, note)).expect("it is changed");
        let kept = store.incident("i1").expect("it can be read").expect("it is there");
        let seen = (kept.status, kept.resolution.as_deref(), kept.resolved_at, kept.version);
        assert_eq!(seen, (status, resolution, resolved_at, at as u64 + 2));
        assert_eq!(kept.history.len(), at + 1);
        assert_eq!(kept.history.last(), Some(&entry(at as u64 + 5, step, note)));
    }
    store.open_escalation(&escalation("e1", "a", 1)).expect("an escalation");
    let one = || CaseTarget::Escalation("e1".into());
    let mut assigned = update(one(), 5, CaseStep::Assigned, "");
    assigned.entry.owner = Some("eve".into());
    store.update_case(&assigned).expect("it is assigned");
    store.update_case(&update(one(), 6, CaseStep::Resolved, "done")).expect("it is resolved");
    let kept = store.escalation("e1").expect("it can be read").expect("it is there");
    let seen = (kept.owner.as_deref(), kept.status, kept.resolved_by.as_deref(), kept.resolved_at);
    assert_eq!(seen, (Some("eve"), CaseStatus::Resolved, Some("ada"), Some(6_000)));
    let gone = CaseTarget::Incident("i9".into());
    assert_eq!(store.update_case(&update(gone, 7, CaseStep::Noted, "x")), Ok(()), "it was let go");
}

pub(crate) fn ev_3_an_answer_resolves_what_was_opened_before_it_alone(place: &impl Place) {
    let store = place.open();
    let of_run = |id: &str, run: Option<&str>, seq| Escalation {
        run: run.map(Into::into),
        seq,
        ..escalation(id, "a", 1)
    };
    let batch = JournalBatch {
        incidents: vec![
            Incident { seq: 4, ..incident("a-4", "a", 1) },
            Incident { seq: 5, ..incident("b-5", "b", 1) },
            Incident { seq: 9, ..incident("a-9", "a", 9) },
        ],
        escalations: vec![of_run("e1", Some("r"), 2), of_run("e2", None, 3), of_run("e3", Some("r"), 8)],
        case_updates: vec![
            update(CaseTarget::IncidentsOf("a".into()), 7, CaseStep::Resolved, "ada activated the agent."),
            update(
                CaseTarget::EscalationsOf { agent: "a".into(), run: Some("r".into()) },
                7,
                CaseStep::Resolved,
                "ada extended the run.",
            ),
        ],
        ..JournalBatch::default()
    };
    store.append(Arc::new(batch), Durability::Disk).expect("it is stored");
    let status = |id: &str| store.incident(id).expect("it can be read").map(|found| found.status);
    let states = [status("a-4"), status("b-5"), status("a-9")];
    assert_eq!(states, [Some(CaseStatus::Resolved), Some(CaseStatus::Open), Some(CaseStatus::Open)]);
    let status = |id: &str| store.escalation(id).expect("it can be read").map(|found| found.status);
    let states = [status("e1"), status("e2"), status("e3")];
    assert_eq!(states, [Some(CaseStatus::Resolved), Some(CaseStatus::Open), Some(CaseStatus::Open)]);
}

pub(crate) fn ev_3_the_same_within_an_hour_reopens_the_incident(place: &impl Place) {
    const HOUR: i64 = 3_600_000;
    let store = place.open();
    let open = |id: &str, seq, at, kind: &str| {
        let new = Incident { seq, kind: kind.into(), ..incident(id, "a", at) };
        store.open_incident(&new).expect("an incident");
    };
    let links = |id: &str| {
        let kept = store.incident(id).expect("it can be read").expect("it is there");
        (kept.earlier.map(String::from), kept.later.map(String::from))
    };
    open("a-1", 1, 0, "loop");
    open("a-2", 2, HOUR, "loop");
    open("a-3", 3, HOUR + 1, "health");
    open("a-4", 4, 2 * HOUR + 1, "loop");
    let id = |id: &str| Some(id.to_owned());
    assert_eq!(links("a-1"), (None, id("a-2")), "an hour after it was opened");
    assert_eq!(links("a-2"), (id("a-1"), None), "the next is more than an hour later");
    assert_eq!((links("a-3"), links("a-4")), ((None, None), (None, None)), "another kind, and too late");
    // From when it was resolved, if that was later.
    let mut done = update(CaseTarget::Incident("a-4".into()), 5, CaseStep::Resolved, "");
    done.entry.at = 5 * HOUR;
    store.update_case(&done).expect("it is resolved");
    open("a-6", 6, 6 * HOUR, "loop");
    assert_eq!((links("a-4").1, links("a-6").0), (id("a-6"), id("a-4")));
}

pub(crate) fn ui_1_cases_are_listed_newest_first_page_by_page(place: &impl Place) {
    let store = place.open();
    for n in 0..20 {
        let (agent, at) = (if n % 2 == 0 { "a" } else { "b" }, n / 2);
        let status = if n % 5 == 0 { CaseStatus::Resolved } else { CaseStatus::Acknowledged };
        store.open_incident(&Incident { status, ..incident(&format!("i{n:02}"), agent, at) }).expect("one");
        store
            .open_escalation(&Escalation { status, ..escalation(&format!("e{n:02}"), agent, at) })
            .expect("one");
    }
    let list = |agent: Option<&str>, status| {
        let mut filter = CaseFilter { agent: agent.map(Into::into), status, before: None };
        let (mut incidents, mut escalations) = (0, 0);
        while let Some(last) = store.incidents(&filter, 3).expect("a page").last() {
            incidents += store.incidents(&filter, 3).expect("a page").len();
            filter.before = Some((last.opened_at, last.id.clone()));
        }
        assert_eq!(store.count_incidents(&filter), Ok(incidents as u64), "from whatever page");
        filter.before = None;
        while let Some(last) = store.escalations(&filter, 3).expect("a page").last() {
            escalations += store.escalations(&filter, 3).expect("a page").len();
            filter.before = Some((last.opened_at, last.id.clone()));
        }
        (incidents, escalations)
    };
    assert_eq!(list(None, None), (20, 20));
    assert_eq!(list(Some("a"), None), (10, 10));
    assert_eq!(list(None, Some(StatusFilter::Is(CaseStatus::Resolved))), (4, 4));
    assert_eq!(list(Some("b"), Some(StatusFilter::Unresolved)), (8, 8));
    assert_eq!(list(None, Some(StatusFilter::Is(CaseStatus::Acknowledged))), (16, 16));
    assert_eq!(list(None, Some(StatusFilter::Is(CaseStatus::Open))), (0, 0));
    assert_eq!(store.open_cases(), Ok(OpenCases { incidents: 16, escalations: 16 }));
}
