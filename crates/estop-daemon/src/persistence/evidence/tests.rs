//! Steps that a full disk has no room for: said, and written once it has.

use estop_core::operator::Excerpt;
use estop_store::{Meta, Sqlite, SqliteOptions, StoreError};

use super::*;

fn steps(incident: &str) -> StepsToSave {
    let task = Some(Excerpt { text: "x".repeat(20_000), of_bytes: None });
    let steps = IncidentSteps { task, ..IncidentSteps::default() };
    StepsToSave { incident: incident.into(), agent: "a".into(), at: 1, steps }
}

/// Sizes of what fills the database: large rows first, then small ones, until no steps of [`steps`] fit.
const FILLERS: [usize; 2] = [50_000, 5_000];

/// A database that has no room for steps, and the folder it is in.
fn full() -> (tempfile::TempDir, Sqlite) {
    let folder = tempfile::tempdir().expect("a folder");
    let options = SqliteOptions { size_max_bytes: Some(1 << 20), ..SqliteOptions::default() };
    let store = Sqlite::open(&folder.path().join("estop.db"), options).expect("it opens");
    for size in FILLERS {
        let filled =
            (0..100).find_map(|n| store.put_meta(&format!("fill {size} {n}"), &"x".repeat(size)).err());
        assert_eq!(filled, Some(StoreError::Full));
    }
    (folder, store)
}

fn make_room(store: &Sqlite) {
    for (size, n) in FILLERS.into_iter().flat_map(|size| (0..100).map(move |n| (size, n))) {
        store.put_meta(&format!("fill {size} {n}"), "").expect("there is room again");
    }
}

/// Saves what waits, as its agent's policy says by now.
fn save_all(writer: &mut EvidenceWriter, store: &Sqlite, log: &StepLog, mode: EvidenceMode) {
    for _ in 0..100 {
        let Some(steps) = log.unsaved.oldest() else { break };
        writer.save(store, log, &steps, mode);
    }
    let left = log.unsaved.oldest().map(|left| log.unsaved.why(&left.incident));
    assert!(left.is_none(), "something waits still: {left:?}");
}

#[test]
fn ev_1_of_what_is_only_watched_so_much_is_kept_and_no_more() {
    let mut quota = WatchedQuota::default();
    assert!(quota.admits("a", Millis(1)) && !quota.admits("a", Millis(WATCHED_EVERY_MS)));
    assert!(quota.admits("a", Millis(WATCHED_EVERY_MS + 1)));
    let admitted =
        (0..1_000).filter(|n| quota.admits(&format!("b{n}"), Millis(WATCHED_EVERY_MS + 2))).count();
    assert_eq!(admitted, WATCHED_PER_HOUR - 2);
    assert!(quota.latest.len() <= WATCHED_PER_HOUR);
    assert!(quota.admits("a", Millis(HOUR_MS)), "the next hour");
}

#[test]
fn ev_1_steps_that_a_full_disk_has_no_room_for_are_said_and_written_later() {
    let (_folder, store) = full();
    let (mut writer, log) = (EvidenceWriter::default(), StepLog::default());
    writer.save_new(&store, &log, steps("i1"));
    let why = log.unsaved.why("i1").expect("it is said");
    assert!(why.contains(&StoreError::Full.to_string()) && why.contains("tries again"), "{why}");
    assert!(writer.again_at.is_some(), "and tried again");
    for n in 2..=WAITING_MAX + 2 {
        writer.save_new(&store, &log, steps(&format!("i{n}")));
    }
    let waiting = (0..=WAITING_MAX + 2).filter(|n| log.unsaved.of(&format!("i{n}")).is_some());
    assert_eq!(waiting.count(), WAITING_MAX, "what waits is bounded");
    let why = log.unsaved.why("i1").expect("it is still said");
    assert!(why.contains("lost") && log.unsaved.why("i0").is_none(), "{why}");

    make_room(&store);
    save_all(&mut writer, &store, &log, EvidenceMode::Redacted);
    assert_eq!(log.unsaved.why("i3"), None);
    assert!(store.evidence("i3").expect("it reads").is_some_and(|kept| kept.steps.is_some()));
    assert_eq!(store.evidence("i1"), Ok(None), "what is lost is lost");
}

#[test]
fn ev_1_steps_that_wait_are_dropped_when_somebody_deletes_them_their_agent_or_switches_them_off() {
    let (_folder, store) = full();
    let (mut writer, log) = (EvidenceWriter::default(), StepLog::default());
    for incident in ["deleted", "kept"] {
        writer.save_new(&store, &log, steps(incident));
    }
    writer.save_new(&store, &log, StepsToSave { agent: "b".into(), ..steps("of b") });
    assert!(log.unsaved.forget("deleted", "ann deleted them").is_some());
    assert!(log.unsaved.forget("deleted", "ann deleted them").is_none(), "once");
    log.forget("b", "its agent was deleted");
    make_room(&store);
    save_all(&mut writer, &store, &log, EvidenceMode::Redacted);
    let is_stored = |incident: &str| store.evidence(incident).expect("it reads").is_some();
    assert!(is_stored("kept") && !is_stored("deleted") && !is_stored("of b"));
    assert_eq!(log.unsaved.why("deleted").as_deref(), Some("ann deleted them"));
    assert_eq!(log.unsaved.why("of b").as_deref(), Some("its agent was deleted"));

    log.unsaved.add(steps("off"));
    save_all(&mut writer, &store, &log, EvidenceMode::Off);
    let off = store.evidence("off").expect("it reads").and_then(|kept| kept.steps).expect("that it is off");
    let off: IncidentSteps = serde_json::from_str(&off).expect("no steps");
    assert_eq!(off, IncidentSteps { mode: EvidenceMode::Off, ..IncidentSteps::default() });
}

#[test]
fn ev_1_steps_in_full_that_wait_are_masked_once_their_policy_says_redacted() {
    const SECRET: &str = "sk-ant-api03-Canary0123456789Canary";
    let (_folder, store) = full();
    make_room(&store);
    let (mut writer, log) = (EvidenceWriter::default(), StepLog::default());
    let task = |said: &str| {
        let whole = said.len() as u64;
        Some(Excerpt { text: said.to_owned(), of_bytes: Some(whole + 9) })
    };
    let said = format!("Use {SECRET}. {} {}", "word ".repeat(100), &SECRET[..20]);
    let whole = IncidentSteps { mode: EvidenceMode::Full, task: task(&said), ..IncidentSteps::default() };
    log.unsaved.add(StepsToSave { steps: whole, ..steps("i1") });
    save_all(&mut writer, &store, &log, EvidenceMode::Redacted);
    let kept = store.evidence("i1").expect("it reads").and_then(|kept| kept.steps).expect("steps");
    assert!(!kept.contains("Canary") && kept.contains("[masked:key:"), "{kept}");
    let kept: IncidentSteps = serde_json::from_str(&kept).expect("steps");
    let task = kept.task.expect("a task");
    assert_eq!((kept.mode, task.of_bytes), (EvidenceMode::Redacted, Some(said.len() as u64 + 9)));
    assert!(task.text.chars().count() <= 300, "{}", task.text);
}

/// A store whose steps are deleted while it writes them.
struct DeletedMeanwhile<'a>(&'a Sqlite, &'a StepLog);

impl EvidenceRepo for DeletedMeanwhile<'_> {
    fn put_evidence(&self, evidence: &Evidence) -> Result<(), StoreError> {
        assert!(self.1.unsaved.forget(&evidence.incident, "ann deleted them").is_some(), "it waits");
        self.0.put_evidence(evidence)
    }

    fn evidence(&self, incident: &str) -> Result<Option<Evidence>, StoreError> {
        self.0.evidence(incident)
    }

    fn delete_evidence(&self, incident: &str, by: &str, now: i64) -> Result<Option<Evidence>, StoreError> {
        self.0.delete_evidence(incident, by, now)
    }
}

#[test]
fn ev_1_steps_that_are_deleted_while_they_are_written_do_not_stay() {
    let (_folder, store) = full();
    make_room(&store);
    let (mut writer, log) = (EvidenceWriter::default(), StepLog::default());
    writer.save_new(&DeletedMeanwhile(&store, &log), &log, steps("i1"));
    let kept = store.evidence("i1").expect("it reads").expect("who deleted them is kept");
    assert_eq!((kept.steps, kept.deleted.is_some()), (None, true));
}
