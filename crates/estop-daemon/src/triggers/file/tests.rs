//! The trigger file on a real disk, looked at step by step.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::Write;

use super::*;

fn pressed(said: &[TriggerReport]) -> Vec<&Press> {
    let mut all = Vec::new();
    for said in said {
        match said {
            TriggerReport::Pressed(press) => all.push(press),
            TriggerReport::Lost(_) | TriggerReport::Works(_) => {}
        }
    }
    all
}

/// Looks, and once more when whoever holds it open had their time.
fn look(trigger: &mut FileTrigger) -> Vec<TriggerReport> {
    let mut said = trigger.look(Instant::now(), GateView::OPEN);
    if let Some(due) = trigger.due(GateView::OPEN) {
        said.extend(trigger.look(due, GateView::OPEN));
    }
    said
}

#[test]
fn ks_5_made_touched_written_or_moved_there_it_presses_once() {
    type Act = fn(&Path);
    let acts: [(&str, Act); 6] = [
        ("made", |file| drop(std::fs::File::create(file).unwrap())),
        ("made and removed", |file| {
            drop(std::fs::File::create(file).unwrap());
            std::fs::remove_file(file).unwrap();
        }),
        ("written", |file| std::fs::write(file, "it deletes mail\nand more").unwrap()),
        ("moved there", |file| {
            std::fs::write(file.with_extension("new"), "moved").unwrap();
            std::fs::rename(file.with_extension("new"), file).unwrap();
        }),
        ("a folder", |file| std::fs::create_dir(file).unwrap()),
        ("a link to nowhere", |file| std::os::unix::fs::symlink("/nowhere", file).unwrap()),
    ];
    for (what, act) in acts {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("KILL");
        let mut trigger = FileTrigger::new(&file);
        assert!(pressed(&look(&mut trigger)).is_empty(), "{what}: too early");
        std::fs::write(folder.path().join("other"), "not the file").unwrap();
        assert!(look(&mut trigger).is_empty(), "{what}: another file");
        act(&file);
        assert_eq!(pressed(&look(&mut trigger)).len(), 1, "{what}");
        assert!(look(&mut trigger).is_empty(), "{what}: once");
    }
}

#[test]
fn ks_5_its_first_line_is_the_note() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("KILL");
    let mut trigger = FileTrigger::new(&file);
    look(&mut trigger);
    std::fs::write(&file, "  it deletes\u{1b}[2J mail \nand more").unwrap();
    let said = look(&mut trigger);
    let press = pressed(&said)[0];
    assert_eq!(press.note.as_deref(), Some("it deletes\\u{1b}[2J mail"));
    assert!(press.metadata.as_ref().unwrap().contains("\"uid\":"), "{press:?}");
}

#[test]
fn ks_5_touching_one_that_exists_presses() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("KILL");
    std::fs::write(&file, "").unwrap();
    let mut trigger = FileTrigger::new(&file);
    let said = look(&mut trigger);
    assert!(pressed(&said)[0].by.contains("there at the start"), "{said:?}");
    let touched = std::fs::File::options().append(true).open(&file).unwrap();
    let now = std::time::SystemTime::now();
    touched.set_times(std::fs::FileTimes::new().set_accessed(now).set_modified(now)).unwrap();
    assert_eq!(pressed(&look(&mut trigger)).len(), 1, "held open");
    drop(touched);
    assert_eq!(pressed(&look(&mut trigger)).len(), 1, "closed after writing");
    std::fs::remove_file(&file).unwrap();
    assert!(look(&mut trigger).is_empty(), "removing it is nothing");
}

#[test]
fn ks_5_whoever_keeps_it_open_presses_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("KILL");
    let mut trigger = FileTrigger::new(&path);
    look(&mut trigger);
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(b"still writing").unwrap();
    let now = Instant::now();
    assert!(trigger.look(now, GateView::OPEN).is_empty(), "a moment for the note");
    assert_eq!(trigger.due(GateView::OPEN), Some(now + NOTE_TIMEOUT));
    let said = trigger.look(now + NOTE_TIMEOUT, GateView::OPEN);
    assert_eq!(pressed(&said)[0].note.as_deref(), Some("still writing"));
}

#[test]
fn ks_5_a_folder_that_is_missing_is_told_and_tried_again() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("run");
    let mut trigger = FileTrigger::new(&folder.join("KILL"));
    let Some(TriggerReport::Lost(why)) = trigger.look(Instant::now(), GateView::OPEN).pop() else {
        panic!("not lost")
    };
    assert!(why.contains("No such file"), "{why}");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("KILL"), "").unwrap();
    let due = trigger.due(GateView::OPEN).unwrap();
    assert_eq!(pressed(&trigger.look(due, GateView::OPEN)).len(), 1, "made while nobody could watch");
    std::fs::remove_dir_all(&folder).unwrap();
    let said = trigger.look(due, GateView::OPEN);
    assert!(matches!(said[..], [TriggerReport::Lost(_)]), "{said:?}");
}
