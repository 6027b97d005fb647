//! What the keeper writes, what it leaves, and what it answers.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use estop_core::system::{Channels, GateView, SystemState};
use estop_store::{Entry, FoundLatch, latch_path};
use tempfile::TempDir;

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

fn latched(epoch: u64, state: SystemState) -> Latched {
    let shut = if state == SystemState::Running { Channels::NONE } else { Channels::ALL };
    Latched::at_start(GateView { epoch, state, shut }, 1)
}

fn keeper(dir: &TempDir) -> LatchWriter {
    LatchWriter::start(dir.path(), Arc::new(JournalQueue::default())).unwrap()
}

fn state(dir: &TempDir) -> SystemState {
    match LatchFile::look(dir.path()) {
        FoundLatch::Valid(latched) => latched.gate.state,
        other @ (FoundLatch::Missing | FoundLatch::Damaged(_)) => panic!("{other:?}"),
    }
}

#[test]
fn ks_3_somebody_elses_kill_stays_until_it_is_taken_up() {
    let dir = TempDir::new().unwrap();
    let keeper = keeper(&dir);
    keeper.handle().keep(&latched(1, SystemState::Running));
    assert!(keeper.status().wait(PATIENCE));
    let killed = Entry { latched: latched(2, SystemState::Shutdown), asked: Channels::ALL };
    let mark = LatchFile::of(dir.path(), "cli-1").update(|_| Some(killed)).unwrap().unwrap();
    keeper.handle().keep(&latched(5, SystemState::Running));
    assert!(!keeper.status().wait(Duration::from_millis(300)), "it is not written");
    assert_eq!(state(&dir), SystemState::Shutdown);
    keeper.status().take_up(mark);
    assert!(keeper.status().wait(PATIENCE));
    assert_eq!(state(&dir), SystemState::Running);
}

#[test]
fn ks_3_what_is_no_less_strict_is_written_at_once_and_a_kill_outlives_the_keeper() {
    let dir = TempDir::new().unwrap();
    let keeper = keeper(&dir);
    let mut other = LatchFile::of(dir.path(), "cli-1");
    other.write(&latched(2, SystemState::Shutdown)).unwrap();
    keeper.handle().keep(&latched(3, SystemState::Shutdown));
    assert!(keeper.status().wait(PATIENCE));
    other.write(&latched(4, SystemState::Shutdown)).unwrap();
    keeper.handle().keep(&latched(5, SystemState::SafeMode));
    drop(keeper);
    assert_eq!(state(&dir), SystemState::Shutdown);
}

#[test]
fn ks_2_a_new_hand_over_is_tried_before_it_is_said_that_the_disk_fails() {
    let dir = TempDir::new().unwrap();
    let keeper = keeper(&dir);
    let path = latch_path(dir.path());
    std::fs::create_dir(&path).unwrap();
    keeper.handle().keep(&latched(1, SystemState::Running));
    assert!(!keeper.status().wait(PATIENCE), "it failed");
    std::fs::remove_dir(&path).unwrap();
    keeper.handle().keep(&latched(2, SystemState::Shutdown));
    assert!(keeper.status().wait(PATIENCE), "the disk works again");
    assert_eq!(state(&dir), SystemState::Shutdown);
}
