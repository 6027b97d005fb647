//! Reading a journal: ranges, backwards, while it is written, sealed and pruned, and after a crash.

mod contract;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use contract::{JournalFixture, replay, seq};
use estop_journal::{Checker, Head, Replay, SYSTEM, records};
use estop_store::segments::{
    FRAME_BYTES, JOURNAL_FOLDER, JournalReader, Listing, base_path, raw_path, sealed_path,
};

/// Segments of several frames: sealed, one without records, and one that is not sealed. 700 records.
fn written(folder: &Path) -> (JournalFixture, JournalReader) {
    let mut fixture = JournalFixture::open(folder);
    fixture.name_len = 1500;
    for _ in 0..3 {
        fixture.write(&["a", "b", SYSTEM, "a", "c"].repeat(40));
        fixture.journal.seal();
    }
    fixture.journal.seal();
    fixture.write(&["a", "b", SYSTEM, "a", "c"].repeat(20));
    let reader = JournalReader::new(fixture.journal.writer.folder());
    (fixture, reader)
}

/// What a reading gives, part by part.
fn parts(read: impl FnOnce(&mut dyn FnMut(&[u8]) -> bool) -> std::io::Result<()>) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    let mut each = |lines: &[u8]| {
        parts.push(lines.to_vec());
        true
    };
    read(&mut each).expect("it can be read");
    parts
}

/// What a crash could have changed, and must not.
fn everything(reader: &JournalReader) -> (Vec<u8>, Vec<u8>, u64, Vec<u64>) {
    let (lines, export) = (parts(|each| reader.lines(each)), parts(|each| reader.export(each)));
    let (begins, segments) = (reader.begins_after().expect("a number"), reader.segments().expect("numbers"));
    (lines.concat(), export.concat(), begins, segments)
}

#[test]
fn st_1_a_range_goes_over_segments_and_frames() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_scribe, reader) = written(folder.path());
    let frames = |segment| reader.open(segment).expect("opened").frames();
    assert_eq!([1, 2, 3, 4, 5].map(|segment| frames(segment) > 3), [true, true, true, false, false]);
    let whole = parts(|each| reader.records(1, u64::MAX, each)).concat();
    let whole: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    assert_eq!(whole.len(), 700);
    let places =
        [1, 2, 39, 40, 41, 199, 200, 201, 202, 399, 400, 401, 550, 600, 601, 602, 699, 700, 701, 900];
    for from in places {
        for to in places.into_iter().chain([0, u64::MAX]) {
            let found = parts(|each| reader.records(from, to, each));
            assert!(found.iter().all(|part| (1..2 * FRAME_BYTES).contains(&part.len())), "{from}..={to}");
            let wanted = whole.iter().filter(|line| (from..=to).contains(&seq(line)));
            assert!(found.concat() == wanted.copied().collect::<Vec<_>>().concat(), "{from}..={to}");
        }
    }
    let mut given = 0;
    let mut three = |_: &[u8]| {
        given += 1;
        given < 3
    };
    reader.records(1, 700, &mut three).expect("it can be read");
    assert_eq!(given, 3, "whoever has enough is given no more");
}

#[test]
fn st_1_records_are_read_backwards_from_any_of_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_scribe, reader) = written(folder.path());
    let back = |before: u64, most: usize| {
        let (mut found, mut opened) = (Vec::new(), Vec::new());
        let frames = |segment| {
            opened.push(segment);
            None
        };
        let mut each = |line: &[u8], head: &Head<'_>| {
            assert_eq!(Head::read(line).as_ref(), Some(head));
            found.push(head.seq);
            found.len() < most
        };
        reader.back(before, frames, &mut each).expect("it can be read");
        (found, opened)
    };
    for before in [0, 1, 2, 40, 41, 200, 201, 202, 401, 600, 601, 602, 700, 701, u64::MAX] {
        let all = Vec::from_iter((1..before.min(701)).rev());
        let (found, opened) = back(before, usize::MAX);
        assert_eq!(found, all, "before {before}");
        assert!(opened.is_sorted_by(|a, b| a > b), "{opened:?}");
        assert_eq!(back(before, 7).0, all[..7.min(all.len())], "7 before {before}");
    }
    assert_eq!(back(200, 1).1, [5, 1], "sealed segments that are all later are not even asked for");
    assert_eq!(back(u64::MAX, 101).1, [5, 4, 3], "nor those that nobody came to");
}

#[test]
fn st_1_only_frames_that_are_worth_it_are_looked_through() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_scribe, reader) = written(folder.path());
    let of_frame = |segment, frame| {
        let open = reader.open(segment).expect("opened");
        let lines = open.frame(frame).expect("a frame").into_owned();
        records(&lines).map(|(_, head)| head.seq).collect::<Vec<u64>>()
    };
    let mut found = Vec::new();
    let mut each = |_: &[u8], head: &Head<'_>| {
        found.push(head.seq);
        true
    };
    let frames = |segment| Some(if segment == 2 { vec![0, 2] } else { Vec::new() });
    reader.back(u64::MAX, frames, &mut each).expect("it can be read");
    let mut wanted = [of_frame(2, 0), of_frame(2, 2)].concat();
    wanted.reverse();
    assert_eq!(found, wanted);
    let beyond = reader.back(u64::MAX, |_| Some(vec![1000]), &mut |_, _| true);
    assert!(beyond.is_err(), "a frame that is not there is not taken for an empty one");
}

#[test]
fn st_1_a_segment_that_is_missing_is_told_and_not_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let (fixture, reader) = written(folder.path());
    fixture.journal.prune();
    let reads: [&dyn Fn() -> std::io::Result<()>; 4] = [
        &|| reader.lines(&mut |_| true),
        &|| reader.export(&mut |_| true),
        &|| reader.records(1, u64::MAX, &mut |_| true),
        &|| reader.back(u64::MAX, |_| None, &mut |_, _| true),
    ];
    assert!(reads.iter().all(|read| read().is_ok()));
    for segment in [2, 3] {
        let (path, away) = (sealed_path(reader.folder(), segment), folder.path().join("away"));
        fs::rename(&path, &away).expect("it is there");
        assert!(reads.iter().all(|read| read().is_err()), "segment {segment}");
        fs::rename(&away, &path).expect("it is there");
    }
    assert!(reads.iter().all(|read| read().is_ok()));
}

#[test]
fn st_1_half_a_line_that_is_being_written_is_not_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_scribe, reader) = written(folder.path());
    let before = everything(&reader);
    let path = raw_path(reader.folder(), 5);
    let text = fs::read(&path).expect("a file");
    for more in [&b"{"[..], b"{\"seq\":701,\"n\":3,\"agent\":\"a\"", &text[..text.len() / 2 - 3]] {
        let half: &[u8] = more.split(|byte| *byte == b'\n').next().unwrap_or_default();
        fs::write(&path, [&text[..], half].concat()).expect("written");
        assert!(everything(&reader) == before, "{} bytes", half.len());
    }
    fs::write(raw_path(reader.folder(), 6), "").expect("written");
    assert_eq!(parts(|each| reader.lines(each)).concat(), before.0, "a segment without its first line");
}

#[test]
fn st_1_what_a_crash_leaves_is_not_read_and_removed_at_the_next_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let (fixture, reader) = written(folder.path());
    let place = reader.folder();
    let state = fixture.journal.state.clone();
    let lines_of = |segment| {
        let open = reader.open(segment).expect("opened");
        let frames = (0..open.frames()).map(|frame| open.frame(frame).expect("a frame").into_owned());
        frames.collect::<Vec<_>>().concat()
    };
    let raw = lines_of(2);
    let first = fs::read(sealed_path(place, 1)).expect("a file");
    assert_eq!(fixture.journal.prune(), 200);
    let base = fs::read(base_path(place, 1)).expect("a file");
    let second = fs::read(sealed_path(place, 2)).expect("a file");
    assert_eq!(fixture.journal.prune(), 400);
    drop(fixture);
    let (before, listed) = (everything(&reader), Listing::of(place).expect("files"));
    assert_eq!((before.2, &before.3[..], replay(&before.1)), (400, &[3, 4, 5][..], 700));
    for (path, bytes) in [
        // Killed after the manifest was written, before the pruned segment went, or the states before.
        (sealed_path(place, 2), &second),
        (base_path(place, 1), &base),
        // Killed twice.
        (sealed_path(place, 1), &first),
        // Killed before the manifest was written: states of a segment that is still there.
        (base_path(place, 3), &base),
        // Killed before the raw file went; and it was pruned since.
        (raw_path(place, 2), &raw),
    ] {
        fs::write(&path, bytes).expect("written");
        assert!(everything(&reader) == before, "{}", path.display());
        let fixture = JournalFixture::open(folder.path());
        assert_eq!(fixture.journal.state, state, "{}", path.display());
        assert_eq!(Listing::of(place).expect("files"), listed, "{}", path.display());
        assert!(everything(&reader) == before, "{}", path.display());
    }
    // Killed before the raw file of a sealed segment went: it is the same, whichever is read.
    fs::write(raw_path(place, 3), lines_of(3)).expect("written");
    assert!(everything(&reader) == before);
    JournalFixture::open(folder.path());
    assert_eq!(Listing::of(place).expect("files"), listed);
    // And what was not finished.
    fs::write(place.join("00000005.jsonl.zst.new"), "half").expect("written");
    fs::write(place.join("base-00000003.jsonl.zst.new"), "half").expect("written");
    let mut fixture = JournalFixture::open(folder.path());
    fixture.journal.seal();
    assert_eq!(fixture.journal.prune(), 600);
    let names = fs::read_dir(place).expect("a folder").map(|entry| entry.expect("a file").file_name());
    assert_eq!(names.filter(|name| name.to_string_lossy().ends_with(".new")).count(), 0);
}

#[test]
fn st_1_a_journal_is_read_while_it_is_written_packed_and_pruned() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut fixture = JournalFixture::open(folder.path());
    fixture.write(&["a", "b"]);
    let (is_over, reader) = (AtomicBool::new(false), JournalReader::new(&folder.path().join(JOURNAL_FOLDER)));
    let (is_over, reader) = (&is_over, &reader);
    // Whoever fails must not leave the others waiting for the end.
    let read_until_over = |read: &dyn Fn() -> Result<(), String>| {
        let failed = (0..400).find_map(|_| read().err());
        is_over.store(true, Ordering::Relaxed);
        failed
    };
    let back = || {
        let (mut last, mut problem) = (u64::MAX, None);
        let mut each = |_: &[u8], head: &Head<'_>| {
            if last != u64::MAX && head.seq + 1 != last {
                problem = Some(format!("{} before {last}", head.seq));
            }
            last = head.seq;
            true
        };
        reader.back(u64::MAX, |_| None, &mut each).map_err(|error| format!("back: {error}"))?;
        problem.map_or(Ok(()), Err)
    };
    let forth = || {
        let (mut last, mut problem) = (None, None);
        let mut each = |lines: &[u8]| {
            for (_, head) in records(lines) {
                if last.is_some_and(|last| head.seq != last + 1) {
                    problem = Some(format!("{} after {last:?}", head.seq));
                }
                last = Some(head.seq);
            }
            true
        };
        match reader.records(1, u64::MAX, &mut each) {
            // Rather than leaving some out in the middle.
            Err(error) if error.to_string().contains("pruned meanwhile: try again") => {}
            read => read.map_err(|error| format!("records: {error}"))?,
        }
        reader.begins_after().map_err(|error| format!("begins after: {error}"))?;
        problem.map_or(Ok(()), Err)
    };
    let failed = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                fixture.write(&["a", "b", SYSTEM, "a"].repeat(3));
                fixture.journal.seal();
                if fixture.seq() > 100 {
                    fixture.journal.prune();
                }
            }
        });
        let forth = scope.spawn(move || read_until_over(&forth));
        [read_until_over(&back), forth.join().expect("it ends")]
    });
    assert_eq!(failed, [None, None]);
}

/// Lines of an export of one agent.
fn exported(reader: &JournalReader, agent: &str) -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    let mut take = |part: &[u8]| {
        lines.extend(part.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec));
        true
    };
    reader.export_agent(agent, |_| None, &mut take).expect("read");
    lines
}

fn verify(lines: &[Vec<u8>]) -> bool {
    let mut checker = Checker::default();
    lines.iter().all(|line| checker.take(line).is_ok()) && checker.is_ended() && checker.has_states().is_ok()
}

#[test]
fn tw_7_one_agents_records_are_verified_and_replayed_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let (fixture, reader) = written(folder.path());
    for prunes in 0..2 {
        let lines = exported(&reader, "b");
        assert!(lines.len() > 10 && verify(&lines), "{prunes}");
        let mut replay = Replay::default();
        assert!(lines.iter().all(|line| replay.feed(line).is_ok()), "it needs nobody else's records");
        assert_eq!(replay.agents(), 1);
        for at in 0..lines.len() {
            let mut dropped = lines.clone();
            dropped.remove(at);
            assert!(!verify(&dropped), "line {at} of {} was dropped", lines.len());
            let mut changed = lines.clone();
            changed[at][9] ^= 1;
            assert!(!verify(&changed), "line {at} was changed");
        }
        assert!(verify(&exported(&reader, "nobody")));
        fixture.journal.prune();
    }
}
