//! Many threads write at once: each gets its own answer, and what is stored is exactly what was acknowledged.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;

use estop_store::{
    Agent, AgentRepo, Durability, Journal, JournalBatch, Meta, NewEvent, Origin, Sqlite, SqliteOptions,
    StoreError,
};
use proptest::prelude::*;

/// What a thread asks for.
#[derive(Clone, Debug)]
enum Job {
    /// A value of this length.
    Value(usize),
    /// An agent; of two with the same name one wins.
    Agent(u8),
    /// An event that is stored.
    Good,
    /// A batch that fails half-way, after it has added an agent.
    Half,
}

fn job(value_max: usize) -> impl Strategy<Value = Job> {
    prop_oneof![
        (0..value_max).prop_map(Job::Value),
        (0..6_u8).prop_map(Job::Agent),
        Just(Job::Good),
        Just(Job::Half),
    ]
}

fn threads(value_max: usize) -> impl Strategy<Value = Vec<Vec<Job>>> {
    prop::collection::vec(prop::collection::vec(job(value_max), 1..20), 2..8)
}

/// Does one job; its name and whether it was acknowledged.
fn run(store: &Sqlite, name: &str, job: &Job) -> Result<(), StoreError> {
    let event = |detail: &str| NewEvent {
        seq: 1,
        wall: 1,
        agent: Some(name.into()),
        event_type: "paused".into(),
        detail: detail.to_owned(),
    };
    match job {
        Job::Value(len) => store.put_meta(name, &"x".repeat(*len)),
        Job::Agent(n) => store.insert_agent(&Agent::new(&format!("agent-{n}"), Origin::Api, 1)).map(|_| ()),
        Job::Good => {
            let batch = JournalBatch { events: vec![event("{}")], ..JournalBatch::default() };
            store.append(Arc::new(batch), Durability::Process)
        }
        Job::Half => {
            let events = vec![event("{}"), event("no JSON")];
            store.append(Arc::new(JournalBatch { events, ..JournalBatch::default() }), Durability::Process)
        }
    }
}

type Answers = BTreeMap<String, (Job, Result<(), StoreError>)>;

fn run_all(store: &Sqlite, threads: &[Vec<Job>]) -> Answers {
    std::thread::scope(|scope| {
        let start = |(t, jobs): (usize, &Vec<Job>)| {
            let (store, jobs) = (store.clone(), jobs.clone());
            scope.spawn(move || {
                let named = jobs.into_iter().enumerate().map(|(n, job)| (format!("{t}.{n}"), job));
                named.map(|(name, job)| (name.clone(), (job.clone(), run(&store, &name, &job)))).collect()
            })
        };
        let handles: Vec<_> = threads.iter().enumerate().map(start).collect();
        handles.into_iter().flat_map(|handle| -> Answers { handle.join().unwrap() }).collect()
    })
}

/// What is stored is exactly what was acknowledged.
fn check(store: &Sqlite, answers: &Answers) {
    let mut agents: BTreeMap<String, usize> = BTreeMap::new();
    for (name, (job, answer)) in answers {
        let filter = estop_store::EventFilter { agent: Some(name.as_str().into()), ..Default::default() };
        let events = store.events(&filter, 9).unwrap().len();
        match job {
            Job::Value(len) => {
                let stored = store.meta(name).unwrap().map(|value| value.len());
                assert_eq!(stored, answer.is_ok().then_some(*len), "{name}: {answer:?}");
            }
            Job::Agent(n) => *agents.entry(format!("agent-{n}")).or_default() += usize::from(answer.is_ok()),
            Job::Good => assert_eq!(events, usize::from(answer.is_ok()), "{name}: {answer:?}"),
            Job::Half => assert_eq!((events, answer.is_err()), (0, true), "{name}: {answer:?}"),
        }
    }
    for (agent, wins) in agents {
        assert_eq!(usize::from(store.agent(&agent).unwrap().is_some()), wins, "{agent}");
    }
    store.check().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn st_1_each_job_of_a_group_gets_its_own_answer(threads in threads(2000)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("estop.db");
        let store = Sqlite::open(&path, SqliteOptions::default()).unwrap();
        let answers = run_all(&store, &threads);
        check(&store, &answers);
        for (name, (job, answer)) in &answers {
            let is_right = match (job, answer) {
                (Job::Value(_) | Job::Good | Job::Agent(_), Ok(())) => true,
                (Job::Agent(_), Err(error)) => matches!(error, StoreError::Exists { .. }),
                (Job::Half, Err(error)) => matches!(error, StoreError::Invalid(_)),
                (Job::Value(_) | Job::Good, Err(_)) | (Job::Half, Ok(())) => false,
            };
            prop_assert!(is_right, "{name}: {job:?} {answer:?}");
        }
        drop(store);
        check(&Sqlite::open(&path, SqliteOptions::default()).unwrap(), &answers);
    }

    #[test]
    fn st_1_a_group_that_does_not_fit_is_refused_whole(threads in threads(150_000)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("estop.db");
        let options = SqliteOptions { size_max_bytes: Some(1 << 20), ..SqliteOptions::default() };
        let store = Sqlite::open(&path, options).unwrap();
        let answers = run_all(&store, &threads);
        check(&store, &answers);
        drop(store);
        check(&Sqlite::open(&path, options).unwrap(), &answers);
    }
}
