//! KS-3: what a latch file keeps, and what a start believes of one that is not whole.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use estop_core::system::{GateView, KillReason, SystemState};
use tempfile::TempDir;

use super::*;

/// Bytes of a slot's first line.
const TITLE_LINE: usize = "estop latch 1, xxh3 0123456789abcdef\n".len();

fn latched(epoch: u64, state: SystemState) -> Latched {
    let shut = if state == SystemState::Running { Channels::NONE } else { Channels::ALL };
    Latched {
        gate: GateView { epoch, state, shut },
        reason: Some(KillReason::SecurityIncident),
        note: Some("it deletes \"mail\"\nand more".into()),
        by: "ann".into(),
        source: "api".into(),
        since: 1_794_000_000_123,
        metadata: Some(r#"{"ticket":7}"#.into()),
    }
}

fn written(states: &[SystemState]) -> (TempDir, Vec<u8>) {
    let dir = TempDir::new().unwrap();
    let mut file = LatchFile::of(dir.path(), "estop-1");
    for (epoch, state) in (1..).zip(states) {
        file.write(&latched(epoch, *state)).unwrap();
    }
    let bytes = std::fs::read(latch_path(dir.path())).unwrap();
    (dir, bytes)
}

fn believed(dir: &TempDir) -> SystemState {
    LatchFile::look(dir.path()).believed(false, 0).unwrap().gate.state
}

#[test]
fn ks_3_the_newest_state_is_found_whoever_opens_the_file() {
    let dir = TempDir::new().unwrap();
    assert_eq!(LatchFile::look(dir.path()), FoundLatch::Missing);
    for epoch in 1..20 {
        let state = if epoch % 3 == 0 { SystemState::Running } else { SystemState::Shutdown };
        // Another process each time.
        let mut file = LatchFile::of(dir.path(), "estop-1");
        file.write(&latched(epoch, state)).unwrap();
        assert_eq!(LatchFile::look(dir.path()), FoundLatch::Valid(latched(epoch, state)));
    }
}

#[test]
fn ks_3_a_person_can_read_it() {
    let (_dir, bytes) = written(&[SystemState::Shutdown]);
    let text = String::from_utf8(bytes).unwrap();
    for part in ["\"state\": \"shutdown\"", "security_incident", "\"ann\"", "2026-11-", "\"llm\""] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn ks_3_missing_is_a_first_start_or_a_pressed_button() {
    let dir = TempDir::new().unwrap();
    assert_eq!(LatchFile::look(dir.path()).believed(true, 0), None);
    assert_eq!(believed(&dir), SystemState::Shutdown);
}

#[test]
fn ks_3_every_flipped_bit_and_every_cut_is_a_pressed_button() {
    // The newest says running: believing the other slot, or a wrong word, would open the gate.
    let (dir, bytes) = written(&[SystemState::Running, SystemState::Shutdown, SystemState::Running]);
    let path = latch_path(dir.path());
    // Every byte of the texts, some of the blanks.
    let texts = (0..700).chain(SLOT..SLOT + 700).chain((0..bytes.len()).step_by(61));
    for at in texts {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        std::fs::write(&path, &flipped).unwrap();
        assert_eq!(believed(&dir), SystemState::Shutdown, "byte {at}");
    }
    for length in (0..bytes.len()).step_by(97).chain([SLOT, 2 * SLOT - 1]) {
        std::fs::write(&path, &bytes[..length]).unwrap();
        assert_eq!(believed(&dir), SystemState::Shutdown, "{length} bytes");
    }
    std::fs::write(&path, [bytes.as_slice(), b"x"].concat()).unwrap();
    assert_eq!(believed(&dir), SystemState::Shutdown, "one byte more");
}

#[test]
fn ks_3_a_kill_torn_anywhere_never_comes_back_running() {
    let (dir, before) = written(&[SystemState::Running, SystemState::Running]);
    let mut file = LatchFile::of(dir.path(), "estop-1");
    file.write(&latched(3, SystemState::Shutdown)).unwrap();
    let path = latch_path(dir.path());
    let after = std::fs::read(&path).unwrap();
    let slot = if before[..SLOT] == after[..SLOT] { SLOT } else { 0 };
    for cut in (1..700).chain((700..SLOT).step_by(61)) {
        let mut torn = before.clone();
        torn[slot..slot + cut].copy_from_slice(&after[slot..slot + cut]);
        std::fs::write(&path, &torn).unwrap();
        // Unless nothing that matters has changed yet, or everything has.
        if torn[slot..slot + SLOT] != before[slot..slot + SLOT] {
            assert_eq!(believed(&dir), SystemState::Shutdown, "torn after {cut} bytes");
        }
    }
}

#[test]
fn ks_3_a_damaged_latch_is_whole_again_after_one_write() {
    let (dir, mut bytes) = written(&[SystemState::Running, SystemState::Shutdown]);
    bytes[100] ^= 1;
    std::fs::write(latch_path(dir.path()), &bytes).unwrap();
    LatchFile::of(dir.path(), "estop-1").write(&latched(9, SystemState::SafeMode)).unwrap();
    assert_eq!(LatchFile::look(dir.path()), FoundLatch::Valid(latched(9, SystemState::SafeMode)));

    std::fs::write(latch_path(dir.path()), b"short").unwrap();
    LatchFile::of(dir.path(), "estop-1").write(&latched(10, SystemState::Running)).unwrap();
    assert_eq!(LatchFile::look(dir.path()), FoundLatch::Valid(latched(10, SystemState::Running)));
}

#[test]
fn ks_3_what_is_too_long_is_left_out_and_the_state_is_kept() {
    let dir = TempDir::new().unwrap();
    let long = Latched {
        note: Some("\u{1}".repeat(500)),
        metadata: Some("\u{1}".repeat(1000)),
        by: "ä".repeat(3000).into(),
        ..latched(2, SystemState::Shutdown)
    };
    LatchFile::of(dir.path(), "estop-1").write(&long).unwrap();
    let FoundLatch::Valid(found) = LatchFile::look(dir.path()) else { panic!("it is whole") };
    assert_eq!((found.gate, found.reason, found.metadata), (long.gate, long.reason, None));
}

#[test]
fn ks_3_a_link_or_a_folder_in_its_place_is_a_pressed_button() {
    let dir = TempDir::new().unwrap();
    std::fs::create_dir(latch_path(dir.path())).unwrap();
    assert_eq!(believed(&dir), SystemState::Shutdown);
    std::fs::remove_dir(latch_path(dir.path())).unwrap();
    let (other, _) = written(&[SystemState::Running]);
    std::os::unix::fs::symlink(latch_path(other.path()), latch_path(dir.path())).unwrap();
    assert_eq!(believed(&dir), SystemState::Shutdown);
}

#[test]
fn ks_3_writers_that_stay_open_do_not_write_over_the_newer_slot() {
    let dir = TempDir::new().unwrap();
    let mut estop = LatchFile::of(dir.path(), "estop-1");
    estop.write(&latched(1, SystemState::Running)).unwrap();
    let mut other = LatchFile::of(dir.path(), "cli-2");
    for epoch in 2..9 {
        let killed = other.write(&latched(epoch, SystemState::Shutdown)).unwrap();
        assert_eq!(LatchFile::look_at_slot(dir.path()).mark, Some(killed));
        let state = SystemState::SafeMode;
        let own = estop.write(&latched(epoch + 20, state)).unwrap();
        let found = LatchFile::look_at_slot(dir.path());
        assert_eq!((found.mark, found.found), (Some(own), FoundLatch::Valid(latched(epoch + 20, state))));
    }
}

#[test]
fn ks_3_many_writers_at_once_lose_no_kill() {
    let dir = TempDir::new().unwrap();
    LatchFile::of(dir.path(), "estop-1").write(&latched(0, SystemState::Running)).unwrap();
    std::thread::scope(|scope| {
        for writer in ["cli-1", "cli-2", "cli-3"] {
            let path = dir.path();
            scope.spawn(move || {
                for _ in 0..20 {
                    // However slow the disk is.
                    let mut file =
                        LatchFile { patience: Duration::from_secs(600), ..LatchFile::of(path, writer) };
                    let counted = file.update(|slot| {
                        let FoundLatch::Valid(before) = slot.found else { panic!("{:?}", slot.found) };
                        Some(latched(before.gate.epoch + 1, SystemState::Shutdown).into())
                    });
                    assert!(counted.unwrap().is_some());
                }
            });
        }
    });
    assert_eq!(LatchFile::look(dir.path()), FoundLatch::Valid(latched(60, SystemState::Shutdown)));
}

#[test]
fn ks_3_a_stuck_holder_of_the_lock_keeps_no_kill_from_the_disk() {
    let (dir, _) = written(&[SystemState::Running]);
    let stuck = File::open(dir.path()).unwrap();
    stuck.lock().unwrap();
    LatchFile::of(dir.path(), "cli-1").write(&latched(5, SystemState::Shutdown)).unwrap();
    assert_eq!(believed(&dir), SystemState::Shutdown);
}

#[test]
fn ks_3_a_latch_that_was_replaced_or_removed_is_not_written_into_the_void() {
    let (dir, bytes) = written(&[SystemState::Running]);
    let mut file = LatchFile::of(dir.path(), "estop-1");
    file.write(&latched(2, SystemState::Running)).unwrap();
    let path = latch_path(dir.path());
    std::fs::remove_file(&path).unwrap();
    file.write(&latched(3, SystemState::Shutdown)).unwrap();
    assert_eq!(LatchFile::look(dir.path()), FoundLatch::Valid(latched(3, SystemState::Shutdown)));
    std::fs::write(dir.path().join("copy"), bytes).unwrap();
    std::fs::rename(dir.path().join("copy"), &path).unwrap();
    file.write(&latched(4, SystemState::SafeMode)).unwrap();
    assert_eq!(LatchFile::look(dir.path()), FoundLatch::Valid(latched(4, SystemState::SafeMode)));
}

#[test]
fn ks_3_a_slot_names_its_writer_and_one_of_before_is_still_read() {
    let (dir, bytes) = written(&[SystemState::Shutdown]);
    let mark = LatchFile::look_at_slot(dir.path()).mark.unwrap();
    assert_eq!((mark.writer.as_str(), mark.serial), ("estop-1", 2));
    // As it was written before slots had a writer.
    let old: Vec<u8> = bytes
        .chunks(SLOT)
        .flat_map(|slot| {
            let text = String::from_utf8(slot[TITLE_LINE..].to_vec()).unwrap();
            let mut old: String =
                text.replace("  \"writer\": \"estop-1\",\n", "").replace("  \"asked\": [],\n", "");
            assert!(old.len() < text.len() - 30, "{old}");
            old = format!("{:<width$}\n", old.trim_end(), width = SLOT - TITLE_LINE - 1);
            let sum = xxhash_rust::xxh3::xxh3_64(old.as_bytes());
            format!("estop latch 1, xxh3 {sum:016x}\n{old}").into_bytes()
        })
        .collect();
    std::fs::write(latch_path(dir.path()), old).unwrap();
    let found = LatchFile::look_at_slot(dir.path());
    assert_eq!(found.found, FoundLatch::Valid(latched(1, SystemState::Shutdown)));
    assert_eq!(
        (found.mark, found.asked),
        (Some(SlotVersion { writer: String::new(), serial: 2 }), Channels::NONE)
    );
}
