//! The system's state: the epoch only grows, so that an old clear never undoes a newer kill.

use estop_core::system::{Channels, GateView, KillReason, SystemState};
use estop_store::{Meta, StoreError, StoredSystem, SystemStateRepo};

use super::Place;

fn state(epoch: u64, state: SystemState) -> StoredSystem {
    let shut = if state == SystemState::Running { Channels::NONE } else { Channels::ALL };
    StoredSystem {
        gate: GateView { epoch, state, shut },
        reason: Some(KillReason::RunawayAgent),
        note: Some("it would not stop".to_owned()),
        by: "ada".into(),
        source: "cli".into(),
        since: 42,
        metadata: Some("{\"host\":\"m1\"}".to_owned()),
    }
}

pub(crate) fn ks_3_a_kill_is_there_after_opening_again(place: &impl Place) {
    let killed = state(7, SystemState::Shutdown);
    {
        let store = place.open();
        assert_eq!(store.system(), Ok(None), "a first start");
        store.put_system(&killed).expect("a kill is stored");
    }
    let store = place.open();
    assert_eq!(store.system(), Ok(Some(killed.clone())));
    store.put_system(&killed).expect("the very same again is fine");
}

pub(crate) fn ks_3_an_old_clear_does_not_undo_a_newer_kill(place: &impl Place) {
    let store = place.open();
    let killed = state(7, SystemState::Shutdown);
    store.put_system(&killed).expect("a kill is stored");
    for epoch in [0, 6, 7] {
        let stale = store.put_system(&state(epoch, SystemState::Running));
        assert_eq!(stale, Err(StoreError::Conflict { current: 7 }));
    }
    assert_eq!(store.system(), Ok(Some(killed)));
    store.put_system(&state(8, SystemState::SafeMode)).expect("a restart that saw the kill");
    store.put_system(&state(9, SystemState::Running)).expect("a clear that saw the restart");
    assert_eq!(store.system(), Ok(Some(state(9, SystemState::Running))));
}

pub(crate) fn st_1_single_values_are_kept(place: &impl Place) {
    {
        let store = place.open();
        assert_eq!(store.meta("installation"), Ok(None));
        store.put_meta("installation", "one").expect("a value");
        store.put_meta("installation", "two").expect("a new value");
    }
    assert_eq!(place.open().meta("installation"), Ok(Some("two".to_owned())));
}
