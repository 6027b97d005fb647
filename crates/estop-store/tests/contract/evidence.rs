//! The steps before a stop: kept once, deleted at once, gone with time.

use estop_store::{Evidence, EvidenceRepo, RetentionCutoffs, Upkeep};

use super::Place;

fn evidence(incident: &str, stored_at: i64) -> Evidence {
    let steps = Some(r#"{"steps":[]}"#.to_owned());
    Evidence { incident: incident.into(), agent: "a".into(), stored_at, steps, deleted: None }
}

pub(crate) fn ev_1_steps_are_kept_once_and_deleted_for_good(place: &impl Place) {
    {
        let store = place.open();
        store.put_evidence(&evidence("i1", 1)).expect("it is kept");
        store.put_evidence(&evidence("i1", 2)).expect("again");
        assert_eq!(store.evidence("i1"), Ok(Some(evidence("i1", 1))));
        assert_eq!(store.evidence("i2"), Ok(None));
    }
    let store = place.open();
    let deleted = Evidence { steps: None, deleted: Some(("ann".into(), 5)), ..evidence("i1", 1) };
    assert_eq!(store.delete_evidence("i1", "ann", 5), Ok(Some(deleted.clone())));
    assert_eq!(store.delete_evidence("i1", "bob", 6), Ok(Some(deleted.clone())), "the first one did it");
    store.put_evidence(&evidence("i1", 7)).expect("again");
    assert_eq!(store.evidence("i1"), Ok(Some(deleted)), "what is deleted stays so");
    assert_eq!(store.delete_evidence("i2", "ann", 5), Ok(None));

    let deleted = Evidence { steps: None, deleted: Some(("ann".into(), 5)), ..evidence("i3", 4) };
    store.put_evidence(&deleted).expect("that they were deleted before they were kept");
    store.put_evidence(&evidence("i3", 7)).expect("too late");
    assert_eq!(store.evidence("i3"), Ok(Some(deleted.clone())));
    assert_eq!(store.delete_evidence("i3", "bob", 6), Ok(Some(deleted)));
}

pub(crate) fn ev_1_steps_go_with_time(place: &impl Place) {
    let store = place.open();
    for at in 0..20 {
        store.put_evidence(&evidence(&format!("i{at}"), at)).expect("it is kept");
    }
    let old = RetentionCutoffs { evidence_before: Some(12), ..RetentionCutoffs::default() };
    while store.sweep(old).expect("it sweeps") > 0 {}
    assert_eq!(store.evidence("i11"), Ok(None));
    assert_eq!(store.evidence("i12"), Ok(Some(evidence("i12", 12))));
}
