//! What of the latch presses, and when it is read again.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use estop_core::system::{Channel, Channels, SystemState};
use estop_store::Entry;
use tempfile::TempDir;

use super::*;

const LLM: Channels = Channels::NONE.with(Channel::Llm);

fn gate(epoch: u64, state: SystemState) -> GateView {
    let shut = if state == SystemState::Running { Channels::NONE } else { Channels::ALL };
    GateView { epoch, state, shut }
}

fn write(dir: &TempDir, writer: &str, gate: GateView, asked: Channels) {
    let entry = Entry { latched: Latched::at_start(gate, 1), asked };
    LatchFile::of(dir.path(), writer).update(|_| Some(entry)).unwrap();
}

fn write_own(dir: &TempDir, gate: GateView) {
    LatchFile::as_daemon(dir.path()).write(&Latched::at_start(gate, 1)).unwrap();
}

/// Looks and hears, as the thread does: the channels that are pressed.
fn look(watch: &mut LatchWatch, gate: GateView) -> Vec<Channels> {
    let said = watch.look(Instant::now(), gate);
    watch.acknowledge();
    let pressed = said.into_iter().filter_map(|said| match said {
        TriggerReport::Pressed(press) => Some(press.channels),
        TriggerReport::Lost(_) | TriggerReport::Works(_) => None,
    });
    pressed.collect()
}

#[test]
fn ks_5_somebody_elses_kill_presses_once_whatever_its_epoch() {
    let dir = TempDir::new().unwrap();
    let running = gate(7, SystemState::Running);
    write_own(&dir, running);
    let mut watch = LatchWatch::new(dir.path(), None, LatchStatus::default());
    assert!(look(&mut watch, running).is_empty());
    for epoch in [7, 3] {
        write(&dir, "cli-1", gate(epoch, SystemState::Shutdown), Channels::ALL);
        assert_eq!(look(&mut watch, running), [Channels::ALL], "epoch {epoch}");
        // Something happens to the file, but it says nothing new.
        drop(std::fs::OpenOptions::new().append(true).open(latch_path(dir.path())).unwrap());
        assert!(look(&mut watch, running).is_empty(), "taken up");
    }
    write_own(&dir, gate(9, SystemState::Shutdown));
    assert!(look(&mut watch, running).is_empty(), "its own");
    write(&dir, "cli-1", gate(9, SystemState::SafeMode), LLM);
    assert_eq!(look(&mut watch, gate(9, SystemState::SafeMode)), [LLM]);
}

#[test]
fn ks_5_a_start_presses_what_came_in_between_and_nothing_twice() {
    let dir = TempDir::new().unwrap();
    let shut = gate(2, SystemState::Shutdown);
    write(&dir, "estop-before", shut, Channels::NONE);
    let seen = Some(Latched::at_start(shut, 1));
    let starting = gate(0, SystemState::Starting);
    assert!(
        look(&mut LatchWatch::new(dir.path(), seen.clone(), LatchStatus::default()), starting).is_empty()
    );
    write(&dir, "cli-1", gate(3, SystemState::Shutdown), Channels::ALL);
    assert_eq!(
        look(&mut LatchWatch::new(dir.path(), seen, LatchStatus::default()), starting),
        [Channels::ALL]
    );
    let safe = gate(4, SystemState::SafeMode);
    write(&dir, "cli-1", safe, LLM);
    let seen = Some(Latched::at_start(safe, 1));
    assert_eq!(look(&mut LatchWatch::new(dir.path(), seen, LatchStatus::default()), starting), [LLM]);
}

#[test]
fn ks_5_a_torn_read_is_tried_again_soon_and_told_if_it_stays() {
    let dir = TempDir::new().unwrap();
    let running = gate(1, SystemState::Running);
    write_own(&dir, running);
    let mut watch = LatchWatch::new(dir.path(), None, LatchStatus::default());
    let begun = Instant::now();
    watch.look(begun, running);
    assert_eq!(watch.due(running), None);
    let whole = std::fs::read(latch_path(dir.path())).unwrap();
    let mut torn = whole.clone();
    torn[50] ^= 1;
    std::fs::write(latch_path(dir.path()), &torn).unwrap();
    assert_eq!(watch.look(begun, running), [], "it may be half written");
    assert_eq!(watch.due(running), Some(begun + TORN_AGAIN));
    let later = begun + TORN_AGAIN;
    assert!(matches!(watch.look(later, running)[..], [TriggerReport::Lost(_)]));
    assert_eq!(watch.due(running), Some(later + DAMAGED_AGAIN));
    // Without an event: it is due.
    std::fs::write(latch_path(dir.path()), &whole).unwrap();
    assert!(matches!(watch.look(later + DAMAGED_AGAIN, running)[..], [TriggerReport::Works(_)]));
    assert_eq!(watch.due(running), None);
}
