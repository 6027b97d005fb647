//! What is written without estop, and what counts as its answer.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use estop_core::system::{GateView, KillReason};
use tempfile::TempDir;

use super::*;

const LLM: Channels = Channels::NONE.with(Channel::Llm);

fn press(channels: Channels) -> Press {
    Press { channels, ..Press::new(KillReason::Manual, "ann", "cli") }
}

fn gate(epoch: u64, state: SystemState, shut: Channels) -> Latched {
    Latched::at_start(GateView { epoch, state, shut }, 1)
}

fn folder() -> TempDir {
    let dir = TempDir::new().unwrap();
    std::fs::write(database(dir.path()), "").unwrap();
    dir
}

#[test]
fn ks_3_a_channel_killed_alone_never_writes_over_a_shutdown() {
    let dir = folder();
    LatchFile::of(dir.path(), "estop-1").write(&gate(4, SystemState::Shutdown, Channels::ALL)).unwrap();
    let (after, _) = write(dir.path(), &press(LLM), &mut LatchFile::of(dir.path(), "cli-1")).unwrap();
    assert_eq!((after.gate.state, after.gate.epoch), (SystemState::Shutdown, 5));
    assert_eq!(LatchFile::look(dir.path()), FoundLatch::Valid(after));
}

#[test]
fn ks_3_kills_alone_at_once_all_count() {
    let dir = folder();
    LatchFile::of(dir.path(), "estop-1").write(&gate(1, SystemState::Running, Channels::NONE)).unwrap();
    std::thread::scope(|scope| {
        for channel in [Channel::Llm, Channel::Tools] {
            let path = dir.path();
            scope.spawn(move || {
                write(path, &press(Channels::NONE.with(channel)), &mut LatchFile::of(path, "cli-1")).unwrap()
            });
        }
    });
    let slot = LatchFile::look_at_slot(dir.path());
    let both = LLM.with(Channel::Tools);
    assert_eq!(slot.asked, both);
    assert!(
        matches!(slot.found, FoundLatch::Valid(found) if found.gate.shut == both && found.gate.epoch == 3)
    );
}

#[test]
fn ks_5_another_kill_alone_is_not_estops_obedience() {
    let dir = folder();
    let kill = OfflineKill { folder: dir.path(), press: press(Channels::ALL), force: false };
    LatchFile::of(dir.path(), "estop-1").write(&gate(1, SystemState::Running, Channels::NONE)).unwrap();
    let written = write(dir.path(), &kill.press, &mut LatchFile::of(dir.path(), "cli-1")).unwrap();
    assert!(!kill.is_obeyed(Some(&written)));
    write(dir.path(), &kill.press, &mut LatchFile::of(dir.path(), "cli-2")).unwrap();
    assert!(!kill.is_obeyed(Some(&written)), "somebody else at the command line");
    LatchFile::of(dir.path(), "estop-1").write(&gate(9, SystemState::Running, LLM)).unwrap();
    assert!(!kill.is_obeyed(Some(&written)), "estop, but not stopped");
    LatchFile::of(dir.path(), "estop-1").write(&gate(9, SystemState::Shutdown, Channels::ALL)).unwrap();
    assert!(kill.is_obeyed(Some(&written)));
}
