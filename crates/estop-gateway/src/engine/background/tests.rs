//! The list of work at providers: bounded, stopped as far as it can be, and forgotten when it is over.

use super::*;

fn job(agent: &str, kind: JobKind, id: Option<&str>) -> Job {
    Job {
        agent: agent.into(),
        run: None,
        provider: "openai".into(),
        kind,
        id: id.map(str::to_owned),
        thread: None,
        path: "/v1/batches".to_owned(),
        query: None,
        headers: Vec::new(),
        created: 0,
        stopped: None,
        state: JobStanding::Running,
    }
}

fn states(jobs: &Jobs) -> Vec<String> {
    let shown = |job: BackgroundJob| format!("{} {}", job.id.unwrap_or_default(), job.state.name());
    jobs.view().jobs.into_iter().map(shown).collect()
}

#[test]
fn ks_11_a_stop_cancels_what_it_can_and_says_why_it_cannot() {
    let jobs = Jobs::default();
    jobs.add(job("a", JobKind::Batch, Some("b1")), true, None);
    jobs.add(job("a", JobKind::Batch, Some("b2")), false, None);
    jobs.add(job("a", JobKind::Video, Some("v")), true, None);
    jobs.add(job("a", JobKind::Batch, None), true, None);
    jobs.add(job("b", JobKind::Batch, Some("other")), true, None);
    jobs.stop_where(5, |job| &*job.agent == "a");
    assert_eq!(
        states(&jobs),
        ["other running", " not_cancelled", "v not_cancelled", "b2 not_cancelled", "b1 cancelling"]
    );
    let why: Vec<String> =
        jobs.view().jobs.iter().filter_map(|job| job.state.why().map(str::to_owned)).collect();
    assert!(why[0].contains("did not see its id"), "{why:?}");
    assert!(why[1].contains("no call that cancels a video"), "{why:?}");
    assert!(why[2].contains("holds no credential of openai"), "{why:?}");
    let due = jobs.due(8);
    assert_eq!(due.len(), 1);
    assert!(jobs.due(8).is_empty(), "one tries at a time");
    jobs.tried(due[0].0, JobStanding::Cancelled);
    assert!(states(&jobs).contains(&"b1 cancelled".to_owned()));
    // A second stop changes nothing of the first.
    jobs.stop_where(9, |_| true);
    assert_eq!(jobs.view().jobs.iter().filter(|job| job.stopped == Some(5)).count(), 4);
}

#[test]
fn ks_11_the_list_is_bounded_and_forgets_nothing_that_a_stop_would_cancel() {
    let jobs = Jobs::default();
    let add = |id: usize, kind, signs| drop(jobs.add(job("a", kind, Some(&format!("b{id}"))), signs, None));
    (0..JOBS_PER_AGENT_MAX - 3).for_each(|id| add(id, JobKind::Batch, true));
    // One is over, one has no call that cancels it, for one there is no key: these make place, in that order.
    add(9_001, JobKind::Video, true);
    add(9_002, JobKind::Batch, false);
    add(9_003, JobKind::Batch, true);
    jobs.stop_where(1, |job| job.id.as_deref() == Some("b9003"));
    jobs.tried(jobs.due(1)[0].0, JobStanding::Cancelled);
    let has = |id: &str| jobs.all().iter().any(|job| job.id.as_deref() == Some(id));
    for (new, gone, forgotten) in [(1, "b9003", 0), (2, "b9001", 1), (3, "b9002", 2)] {
        assert!(jobs.has_room("a") && has(gone), "{gone}");
        add(10_000 + new, JobKind::Batch, true);
        assert!(!has(gone), "{gone}");
        assert_eq!((jobs.all().len(), jobs.view().forgotten), (JOBS_PER_AGENT_MAX, forgotten));
    }
    assert!(!jobs.has_room("a"), "no more may begin");
    assert!(jobs.has_room("b"), "another may");
    // One that was let through before it was full is kept.
    add(20_000, JobKind::Batch, true);
    assert!(has("b0") && has("b20000"));
    for n in 0..JOBS_MAX - JOBS_PER_AGENT_MAX - 1 {
        jobs.add(job(&format!("agent-{}", n / 512), JobKind::Batch, Some("b")), true, None);
    }
    assert!(!jobs.has_room("b"), "all places are taken");
    let kept = serde_json::to_string(&jobs.all()).expect("plain data");
    let again = Jobs::default();
    again.restore(serde_json::from_str(&kept).expect("plain data"), |_| true);
    assert_eq!(again.all(), jobs.all(), "a restart forgets none either");
}

#[test]
fn ks_11_what_is_over_is_forgotten_and_what_was_stopped_is_shown() {
    let jobs = Jobs::default();
    jobs.add(job("a", JobKind::Batch, Some("b1")), true, None);
    jobs.add(job("a", JobKind::Batch, Some("b2")), true, None);
    assert_eq!(jobs.find("b", "openai", "/v1/batches/b1"), None, "another's");
    assert_eq!(jobs.find("a", "anthropic", "/v1/batches/b1"), None, "at another provider");
    assert_eq!(jobs.find("a", "openai", "/v1/files/b1"), None, "something else of that id");
    let found = jobs.find("a", "openai", "/v1/batches/b1").expect("its own");
    jobs.over(found.number, JobState::Ended);
    assert_eq!(states(&jobs), ["b2 running"]);
    jobs.stop_where(1, |_| true);
    let found = jobs.find("a", "openai", "/v1/batches/b2/cancel").expect("still there");
    jobs.over(found.number, JobState::Cancelled);
    assert_eq!(states(&jobs), ["b2 cancelled"]);
    assert!(jobs.expire(SHOWN_FOR_MS).is_empty());
    assert_eq!(states(&jobs), ["b2 cancelled"]);
    jobs.expire(SHOWN_FOR_MS + 2);
    assert_eq!(jobs.view().jobs.len(), 0);
    jobs.add(job("a", JobKind::Batch, Some("b3")), true, None);
    jobs.expire(i64::try_from(JobKind::Batch.lifetime_ms()).expect("small"));
    assert_eq!(states(&jobs), ["b3 running"]);
    jobs.expire(i64::try_from(JobKind::Batch.lifetime_ms()).expect("small") + 1);
    assert_eq!(jobs.view().jobs.len(), 0);
}

#[test]
fn ks_11_what_is_kept_is_read_back_and_has_no_secret() {
    let jobs = Jobs::default();
    jobs.add(job("a", JobKind::Batch, Some("b1")), true, None);
    jobs.add(job("a", JobKind::Video, Some("v1")), true, None);
    jobs.stop_where(3, |_| true);
    let kept = serde_json::to_string(&jobs.all()).expect("plain data");
    let again = Jobs::default();
    again.restore(serde_json::from_str(&kept).expect("plain data"), |provider| provider == "openai");
    assert_eq!(again.all(), jobs.all());
    assert_eq!(again.due(8).len(), 1, "what was being cancelled goes on");
}
