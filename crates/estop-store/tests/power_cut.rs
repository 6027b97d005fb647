//! What a power cut may leave: everything that was synced, and of the rest any part.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use estop_core::decision::{Decision, Outcome};
use estop_core::event::{Event, EventKind};
use estop_core::time::{Millis, Now};
use estop_store::segments::{JOURNAL_FOLDER, raw_path, recover};

#[path = "support/written_journal.rs"]
mod written_journal;
use written_journal::{BOOT, WrittenJournal};

const OTHER_BOOT: &str = "another";

fn tell(journal: &mut WrittenJournal, count: u64) {
    for at in 0..count {
        let now = Now { mono: Millis(at), wall: 1_767_225_600_000 };
        journal.agent("a", now, &Event::open(EventKind::Tick), &Decision::plain(Outcome::Noted));
    }
}

/// Three segments, of which the first and half of the second were synced. Gives the last record that was.
fn written(data_dir: &Path) -> u64 {
    let mut journal = WrittenJournal::open(data_dir);
    tell(&mut journal, 5);
    journal.writer.begin_segment(&journal.state).expect("begun");
    tell(&mut journal, 5);
    journal.writer.sync().expect("synced");
    let synced = journal.state.seq;
    tell(&mut journal, 5);
    journal.writer.begin_segment(&journal.state).expect("begun");
    tell(&mut journal, 5);
    synced
}

/// The newest record that a start finds, on this boot of the machine or on another.
fn found(folder: &Path, boot: &str) -> Option<u64> {
    recover(folder, boot, &mut |_, _| {}).ok().map(|found| found.expect("a journal").state.seq)
}

#[test]
fn st_1_a_power_cut_takes_what_was_not_synced_and_nothing_else() {
    let place = tempfile::tempdir().expect("a folder");
    let synced = written(place.path());
    let folder = place.path().join(JOURNAL_FOLDER);
    let (second, third) = (raw_path(&folder, 2), raw_path(&folder, 3));
    let (two, three) = (std::fs::read(&second).expect("read"), std::fs::read(&third).expect("read"));
    let mark = std::fs::read(folder.join("mark")).expect("read");
    let text = String::from_utf8_lossy(&two);
    // Where the record after the last synced one begins.
    let after = text.find(&format!("{{\"seq\":{},", synced + 1)).expect("a record");
    let zeroed = |text: &[u8], from: usize, to: usize| {
        let mut text = text.to_vec();
        text[from..to].fill(0);
        text
    };
    let cases = [
        ("the end of the second is gone, the third is there", two[..after].to_vec(), Some(three.clone())),
        ("half a line is left, the third is there", two[..after + 9].to_vec(), Some(three.clone())),
        (
            "a page of the second is zeroes, what follows is there",
            zeroed(&two, after, after + 40),
            Some(three.clone()),
        ),
        ("the third is empty", two.clone(), Some(Vec::new())),
        ("the third is zeroes", two.clone(), Some(vec![0; three.len()])),
        ("the third is gone", two.clone(), None),
    ];
    for (what, two, three) in cases {
        std::fs::write(&second, two).expect("written");
        drop(std::fs::remove_file(&third));
        if let Some(three) = three {
            std::fs::write(&third, three).expect("written");
        }
        std::fs::write(folder.join("mark"), &mark).expect("written");
        assert!(found(&folder, OTHER_BOOT).is_some_and(|seq| seq >= synced), "{what}");
        // It goes on from there, and the next start finds that.
        let recovered = recover(&folder, OTHER_BOOT, &mut |_, _| {}).expect(what).expect("a journal");
        let last = recovered.state.seq;
        let now = recovered.last;
        let writer = estop_store::segments::SegmentWriter::open(&folder, &recovered, OTHER_BOOT, now);
        drop(writer.expect(what));
        assert_eq!(found(&folder, OTHER_BOOT), Some(last), "{what}");
    }
}

#[test]
fn st_1_without_a_power_cut_the_same_is_refused() {
    let place = tempfile::tempdir().expect("a folder");
    let synced = written(place.path());
    let folder = place.path().join(JOURNAL_FOLDER);
    let second = raw_path(&folder, 2);
    let two = std::fs::read(&second).expect("read");
    let after = String::from_utf8_lossy(&two).find(&format!("{{\"seq\":{},", synced + 1)).expect("a record");
    std::fs::write(&second, &two[..after]).expect("written");
    assert_eq!(found(&folder, BOOT), None, "nobody but a person cuts files of a machine that runs");
    // And what was synced must be there in any case.
    std::fs::write(&second, &two[..after - 5]).expect("written");
    assert_eq!(found(&folder, OTHER_BOOT), None);
}

#[test]
fn st_1_syncs_and_signs_of_life_beside_rotations_hold_up_nobody() {
    let place = tempfile::tempdir().expect("a folder");
    let mut journal = WrittenJournal::open(place.path());
    let is_over = AtomicBool::new(false);
    let WrittenJournal { writer, state, .. } = &mut journal;
    std::thread::scope(|scope| {
        for beats in [true, false, false] {
            let (writer, is_over) = (&*writer, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    if beats {
                        writer.beat(Now::default()).expect("written");
                    } else {
                        writer.sync().expect("synced");
                    }
                }
            });
        }
        for _ in 0..300 {
            writer.begin_segment(state).expect("begun");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(journal.writer.position().segment, 301);
}
