//! The journal's files: what was written is found again, whatever kills the process; what was damaged is noticed.

use std::path::{Path, PathBuf};

use estop_core::decision::{Decision, Outcome};
use estop_core::event::{Event, EventKind};
use estop_core::ids::Hash64;
use estop_core::system::{SettingChange, SystemEvent, SystemState};
use estop_core::time::{Millis, Now};
use estop_journal::{Payload, Position, Record, RecordBody, SYSTEM, State, write_record};
use estop_store::segments::{
    Frames, RecoverError, Recovered, SegmentWriter, is_whole, raw_path, recover, seal, sealed_path,
};

const BOOT: &str = "this-start";

/// A journal that is being written, as the queue does it.
struct Live {
    writer: SegmentWriter,
    state: State,
    body: RecordBody,
    now: Now,
}

impl Live {
    fn begin(folder: &Path) -> Live {
        let now = Now { mono: Millis(5), wall: 1_763_164_800_000 };
        let writer = SegmentWriter::create(folder, Hash64(7), BOOT, now).expect("begun");
        Live { writer, state: State::default(), body: RecordBody::default(), now }
    }

    fn go_on(folder: &Path) -> Live {
        let found = found(folder);
        let writer = SegmentWriter::open(folder, &found, BOOT, found.last).expect("opened");
        Live { writer, state: found.state, body: RecordBody::default(), now: found.last }
    }

    fn line(&mut self, agent: &str, payload: Payload<'_>) -> Vec<u8> {
        self.now = Now { mono: self.now.mono.plus(1), wall: self.now.wall + 1 };
        let (seq, n) = self.state.next(agent);
        self.body.write(agent, self.now, payload, &Decision::plain(Outcome::Noted));
        self.state.add(agent);
        if let Payload::System(event) = payload {
            self.state.apply(self.now, event);
        }
        let mut line = Vec::new();
        write_record(&mut line, seq, n, &self.body);
        line
    }

    fn tell(&mut self, agent: &str) {
        let line = self.line(agent, Payload::Agent(&Event::open(EventKind::Tick)));
        self.writer.write(&line, self.state.seq).expect("written");
    }

    fn tell_system(&mut self, event: &SystemEvent) {
        let line = self.line(SYSTEM, Payload::System(event));
        self.writer.write(&line, self.state.seq).expect("written");
    }

    fn next_segment(&mut self) {
        self.writer.begin_segment(&self.state).expect("begun");
    }

    /// Some records of some agents.
    fn work(&mut self, records: usize) {
        for at in 0..records {
            self.tell(["ada", "bob", "zoe"][at % 3]);
        }
    }
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let root = tempfile::tempdir().expect("a folder");
    let folder = root.path().join("journal");
    (root, folder)
}

fn try_recover(folder: &Path, boot: &str) -> Result<Option<Recovered>, RecoverError> {
    recover(folder, boot, &mut |_, _| {})
}

#[track_caller]
fn found(folder: &Path) -> Recovered {
    try_recover(folder, BOOT).expect("it can be trusted").expect("there is a journal")
}

#[track_caller]
fn refused(folder: &Path) -> String {
    let error = try_recover(folder, BOOT).expect_err("it cannot be trusted");
    assert!(matches!(error, RecoverError::Untrusted(_)), "{error}");
    error.to_string()
}

fn started() -> SystemEvent {
    SystemEvent::Started { found: None }
}

#[test]
fn st_1_a_journal_is_found_as_it_was_written() {
    let (_root, folder) = folder();
    assert!(try_recover(&folder, BOOT).expect("nothing is wrong").is_none());
    let mut live = Live::begin(&folder);
    live.tell_system(&started());
    live.work(10);
    let key = |value: Option<u8>| {
        let change =
            SettingChange { kind: "agent_key".into(), id: "k1".into(), value: value.map(Into::into) };
        SystemEvent::SettingsChanged { changes: vec![change] }
    };
    live.tell_system(&key(Some(1)));
    live.next_segment();
    live.work(5);
    live.tell_system(&key(None));
    let again = found(&folder);
    assert_eq!((&again.state, again.torn, again.lost), (&live.state, 0, 0));
    assert_eq!((again.state.seq, again.state.count("ada"), again.state.system_count()), (18, 6, 3));
    assert_eq!((again.active, again.unsealed), (Some(live.writer.position()), vec![1]));
    assert_eq!(again.state.system.gate().state, SystemState::Running);
    assert!(again.state.settings.is_empty() && again.last.mono == live.now.mono);
    drop(live.writer);
    let mut live = Live::go_on(&folder);
    live.work(4);
    assert_eq!(found(&folder).state, live.state);
}

#[test]
fn st_1_each_line_is_given_with_its_place() {
    let (_root, folder) = folder();
    let mut live = Live::begin(&folder);
    live.work(7);
    let text = std::fs::read(raw_path(&folder, 1)).expect("a file");
    let mut places: Vec<(Position, Vec<u8>)> = Vec::new();
    recover(&folder, BOOT, &mut |at, line| places.push((at, line.to_vec()))).expect("it can be trusted");
    assert_eq!(places.len(), 8, "a header and seven records");
    for (at, line) in &places {
        let start = at.bytes as usize;
        assert_eq!(&text[start..start + line.len()], line);
    }
    assert_eq!(Record::parse(&places[7].1).expect("a record").seq, 7);
}

#[test]
fn st_1_a_packed_segment_is_the_same_and_listed() {
    let (_root, folder) = folder();
    let mut live = Live::begin(&folder);
    for _ in 0..3 {
        live.work(500);
        live.next_segment();
    }
    let before = found(&folder);
    let (mut manifest, raw) = (before.manifest, std::fs::read(raw_path(&folder, 1)).expect("a file"));
    assert!(seal(&folder, 2, &mut manifest).is_err(), "one after the other");
    for segment in 1..=3 {
        let sealed = seal(&folder, segment, &mut manifest).expect("sealed");
        assert!(is_whole(&folder, &sealed).expect("read") && !raw_path(&folder, segment).exists());
        assert_eq!((sealed.after_seq, sealed.last_seq), (500 * (segment - 1), 500 * segment));
    }
    assert!(seal(&folder, 4, &mut manifest).is_err(), "it is still written");
    let frames = Frames::open(&sealed_path(&folder, 1)).expect("opened");
    let lines: Vec<u8> = (0..frames.count()).flat_map(|frame| frames.read(frame).expect("read")).collect();
    assert_eq!(lines, raw);
    let after = found(&folder);
    assert_eq!((&after.state, &after.manifest, after.unsealed.len()), (&before.state, &manifest, 0));
}

#[test]
fn st_1_a_crash_while_a_segment_is_packed_or_begun_loses_nothing() {
    let (_root, folder) = folder();
    let mut live = Live::begin(&folder);
    live.work(50);
    live.next_segment();
    live.work(5);
    let mut manifest = found(&folder).manifest;
    let raw = std::fs::read(raw_path(&folder, 1)).expect("a file");
    seal(&folder, 1, &mut manifest).expect("sealed");
    // Killed before the raw file was removed.
    std::fs::write(raw_path(&folder, 1), &raw).expect("written");
    assert_eq!(found(&folder).state, live.state);
    Live::go_on(&folder);
    assert!(!raw_path(&folder, 1).exists());
    // Killed before it was listed.
    std::fs::write(raw_path(&folder, 1), &raw).expect("written");
    let listed = std::fs::read(folder.join("manifest.jsonl")).expect("a file");
    for keep in [0, 1, listed.len() - 1] {
        std::fs::write(folder.join("manifest.jsonl"), &listed[..keep]).expect("written");
        let again = found(&folder);
        assert_eq!((&again.state, &again.unsealed[..]), (&live.state, &[1][..]), "{keep} bytes were listed");
        let mut manifest = again.manifest;
        seal(&folder, 1, &mut manifest).expect("sealed again");
        assert_eq!(std::fs::read(folder.join("manifest.jsonl")).expect("a file"), listed);
        std::fs::write(raw_path(&folder, 1), &raw).expect("written");
    }
    // Killed after the end of a segment, and before the next had its first line.
    let mut live = Live::go_on(&folder);
    for (segment, keep) in [(3, 0), (4, 10)] {
        live.next_segment();
        let header = std::fs::read(raw_path(&folder, segment)).expect("a file");
        std::fs::write(raw_path(&folder, segment), &header[..keep]).expect("written");
        let again = found(&folder);
        assert_eq!((&again.state, again.active), (&live.state, None));
        assert_eq!(again.unsealed.last(), Some(&(segment - 1)));
        live = Live::go_on(&folder);
        assert_eq!(live.writer.position().segment, segment);
    }
    live.work(3);
    assert_eq!(found(&folder).state, live.state);
}

#[test]
fn st_1_what_is_missing_or_of_another_journal_is_refused() {
    let (_root, folder) = folder();
    let mut live = Live::begin(&folder);
    for _ in 0..3 {
        live.work(20);
        live.next_segment();
    }
    live.work(2);
    live.writer.sync().expect("synced");
    let mut manifest = found(&folder).manifest;
    seal(&folder, 1, &mut manifest).expect("sealed");
    seal(&folder, 2, &mut manifest).expect("sealed");
    let said = |path: &Path| {
        let moved = folder.with_extension("moved");
        std::fs::rename(path, &moved).expect("it is there");
        let said = refused(&folder);
        std::fs::rename(&moved, path).expect("it is there");
        found(&folder);
        said
    };
    assert_eq!(said(&sealed_path(&folder, 1)), "journal/00000001.jsonl.zst is missing");
    assert_eq!(said(&sealed_path(&folder, 2)), "journal/00000002.jsonl.zst is missing");
    assert_eq!(said(&raw_path(&folder, 3)), "segment 3 is missing");
    assert!(said(&raw_path(&folder, 4)).contains("it had reached record 62"));
    assert_eq!(said(&folder.join("mark")), "journal/mark is missing or damaged");
    let unlisted = "segment 1 is not in journal/manifest.jsonl, which is missing or was cut";
    assert_eq!(said(&folder.join("manifest.jsonl")), unlisted);
    let listed = std::fs::read(folder.join("manifest.jsonl")).expect("a file");
    let first = listed.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
    std::fs::write(folder.join("manifest.jsonl"), &listed[..first]).expect("written");
    assert!(refused(&folder).contains("segment 2 is not in"), "its last lines were cut off");
    std::fs::write(folder.join("manifest.jsonl"), &listed).expect("written");
    let sealed = std::fs::read(sealed_path(&folder, 2)).expect("a file");
    std::fs::write(sealed_path(&folder, 2), &sealed[..sealed.len() - 1]).expect("written");
    assert!(refused(&folder).contains("it was cut or replaced"));
    std::fs::write(sealed_path(&folder, 2), &sealed).expect("written");

    let (_other_root, other) = self::folder();
    let now = Now { mono: Millis(5), wall: 1 };
    let writer = SegmentWriter::create(&other, Hash64(8), BOOT, now).expect("begun");
    drop(writer);
    let foreign = std::fs::read(raw_path(&other, 1)).expect("a file");
    std::fs::write(raw_path(&folder, 5), foreign).expect("written");
    assert!(!refused(&folder).is_empty());
}

#[test]
fn st_1_a_cut_at_the_end_of_a_line_is_noticed() {
    let (_root, folder) = folder();
    let mut live = Live::begin(&folder);
    live.work(30);
    live.writer.beat(live.now).expect("written");
    live.work(5);
    let text = std::fs::read(raw_path(&folder, 1)).expect("a file");
    let ends: Vec<usize> = (0..text.len()).filter(|at| text[*at] == b'\n').map(|at| at + 1).collect();
    for (lines, end) in ends.iter().enumerate() {
        std::fs::write(raw_path(&folder, 1), &text[..*end]).expect("written");
        let again = try_recover(&folder, BOOT);
        if lines < 30 {
            assert!(
                again.is_err_and(|error| error.to_string().contains("it was cut or replaced")),
                "{lines} records"
            );
        } else {
            // Written within the second before the process was killed, and never synced.
            assert_eq!(again.expect("trusted").expect("there").state.seq, lines as u64);
        }
        // After a power cut, only what was synced must be there.
        let after = try_recover(&folder, "another start").expect("trusted").expect("there");
        assert_eq!((after.state.seq, after.lost), (lines as u64, 30_u64.saturating_sub(lines as u64)));
    }
    live.writer.sync().expect("synced");
    assert!(try_recover(&folder, "another start").is_ok());
    std::fs::write(raw_path(&folder, 1), &text[..ends[34]]).expect("written");
    assert!(try_recover(&folder, "another start").is_err(), "it was synced");
}

#[test]
fn st_1_a_torn_end_is_cut_off_and_written_over() {
    let (_root, folder) = folder();
    let mut live = Live::begin(&folder);
    live.work(10);
    live.writer.beat(live.now).expect("written");
    let text = std::fs::read(raw_path(&folder, 1)).expect("a file");
    let line = live.line("ada", Payload::Agent(&Event::open(EventKind::Tick)));
    for cut in 1..line.len() {
        std::fs::write(raw_path(&folder, 1), [&text[..], &line[..cut]].concat()).expect("written");
        let again = found(&folder);
        assert_eq!((again.state.seq, again.torn), (10, cut as u64));
    }
    std::fs::write(raw_path(&folder, 1), [&text[..], &[0; 4096]].concat()).expect("written");
    assert_eq!(found(&folder).torn, 4096, "a page that never reached the disk");
    let mut live = Live::go_on(&folder);
    live.work(3);
    assert_eq!((found(&folder).state.seq, found(&folder).torn), (13, 0));
}

/// Whatever is done to bytes that had to be there is refused; what is done behind them is a torn or an earlier end.
#[test]
fn st_1_every_damage_before_the_mark_is_refused() {
    let (_root, folder) = folder();
    let mut live = Live::begin(&folder);
    live.tell_system(&started());
    live.work(40);
    live.writer.sync().expect("synced");
    let marked = live.writer.position().bytes as usize;
    live.work(8);
    let path = raw_path(&folder, 1);
    let text = std::fs::read(&path).expect("a file");
    let (whole, mut random) = (found(&folder).state.seq, 1_u64);
    let mut roll = |sides: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % sides
    };
    for round in 0..4_000 {
        let mut touched = text.clone();
        let at = roll(text.len());
        match roll(6) {
            0 => touched[at] ^= 1 << roll(8),
            1 => touched.truncate(at),
            2 => {
                let end = (at + roll(600)).min(text.len());
                touched[at..end].fill(0);
            }
            3 => drop(touched.remove(at)),
            4 => touched.insert(at, roll(256) as u8),
            _ => {
                let mut lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
                let (a, b) = (roll(lines.len()), roll(lines.len()));
                lines.swap(a, b);
                if a == b {
                    lines.remove(a);
                }
                touched = lines.concat();
            }
        }
        std::fs::write(&path, &touched).expect("written");
        let is_before = touched.get(..marked) != text.get(..marked);
        if let Ok(again) = try_recover(&folder, BOOT) {
            assert!(!is_before, "round {round}: damage at byte {at} was not noticed");
            assert!(again.expect("not taken for a first start").state.seq <= whole);
        }
    }
}

#[test]
fn st_1_a_running_journal_whose_file_is_removed_cut_or_replaced_is_noticed() {
    let (_root, folder) = folder();
    let mut live = Live::begin(&folder);
    live.work(10);
    assert_eq!(live.writer.lost_file(), None);
    let path = raw_path(&folder, 1);
    std::fs::OpenOptions::new().write(true).open(&path).expect("it is there").set_len(100).expect("cut");
    assert!(live.writer.lost_file().is_some_and(|lost| lost.contains("was cut to 100")));
    // Nothing hides that: what comes next would stand behind a hole.
    let line = live.line("a", Payload::Agent(&Event::open(EventKind::Tick)));
    assert!(live.writer.write(&line, 11).is_err());
    assert!(!refused(&folder).is_empty());
    std::fs::remove_file(&path).expect("it is there");
    assert!(live.writer.lost_file().is_some_and(|lost| lost.contains("was removed")));
    std::fs::write(&path, "").expect("written");
    assert!(live.writer.lost_file().is_some_and(|lost| lost.contains("was replaced")));
}

#[test]
fn st_1_a_journal_whose_beginning_was_cut_short_is_begun_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let begin = || SegmentWriter::create(folder.path(), Hash64(7), BOOT, Now::default());
    drop(begin().expect("begun"));
    let mark = folder.path().join("mark");
    for left in [&b""[..], b"{\"serial\":1,"] {
        std::fs::write(&mark, left).expect("a mark that is not whole");
        assert!(
            recover(folder.path(), BOOT, &mut |_, _| {}).expect("nothing was ever acknowledged").is_none()
        );
        drop(begin().expect("begun again"));
        assert!(recover(folder.path(), BOOT, &mut |_, _| {}).expect("a journal").is_some());
    }
    // With a record behind its first line it was begun, and the mark was lost.
    let segment = raw_path(folder.path(), 1);
    let mut lines = std::fs::read(&segment).expect("a segment");
    lines.extend_from_slice(b"{\"seq\":1}\n");
    std::fs::write(&segment, lines).expect("a record");
    std::fs::remove_file(&mark).expect("no mark");
    assert!(recover(folder.path(), BOOT, &mut |_, _| {}).is_err());
}
