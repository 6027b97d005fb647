//! Incidents and escalations: opened once, edited without overwriting one another, listed.

use std::sync::Arc;

use estop_store::{
    CaseFilter, CaseStatus, Cases, Durability, Escalation, Incident, Journal, JournalBatch, OpenCases,
    StoreError,
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
        notes: String::new(),
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

pub(crate) fn ui_1_a_case_is_edited_by_one_person_at_a_time(place: &impl Place) {
    let store = place.open();
    store.open_incident(&incident("i1", "a", 1)).expect("an incident");
    let (status, resolution) = (CaseStatus::Closed, Some("bad prompt".to_owned()));
    let closed = Incident { status, resolution, ..incident("i1", "a", 1) };
    assert_eq!(store.update_incident(&closed), Ok(2));
    assert_eq!(store.update_incident(&closed), Err(StoreError::Conflict { current: 2 }));
    assert_eq!(store.incident("i1"), Ok(Some(Incident { version: 2, ..closed })));

    store.open_escalation(&escalation("e1", "a", 1)).expect("an escalation");
    let (owner, resolved_by) = (Some("ada".into()), Some("ada".into()));
    let done = Escalation { owner, resolved_by, resolved_at: Some(8), ..escalation("e1", "a", 1) };
    assert_eq!(store.update_escalation(&done), Ok(2));
    assert_eq!(store.update_escalation(&done), Err(StoreError::Conflict { current: 2 }));
    assert_eq!(store.escalation("e1"), Ok(Some(Escalation { version: 2, ..done })));
    let nobody = store.update_escalation(&escalation("e9", "a", 1));
    assert_eq!(nobody, Err(StoreError::NotFound { what: "escalation", id: "e9".to_owned() }));
}

pub(crate) fn ui_1_cases_are_listed_newest_first_page_by_page(place: &impl Place) {
    let store = place.open();
    for n in 0..20 {
        let (agent, at) = (if n % 2 == 0 { "a" } else { "b" }, n / 2);
        let status = if n % 5 == 0 { CaseStatus::Closed } else { CaseStatus::Open };
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
        filter.before = None;
        while let Some(last) = store.escalations(&filter, 3).expect("a page").last() {
            escalations += store.escalations(&filter, 3).expect("a page").len();
            filter.before = Some((last.opened_at, last.id.clone()));
        }
        (incidents, escalations)
    };
    assert_eq!(list(None, None), (20, 20));
    assert_eq!(list(Some("a"), None), (10, 10));
    assert_eq!(list(None, Some(CaseStatus::Closed)), (4, 4));
    assert_eq!(list(Some("b"), Some(CaseStatus::Open)), (8, 8));
    assert_eq!(store.open_cases(), Ok(OpenCases { incidents: 16, escalations: 16 }));
}
