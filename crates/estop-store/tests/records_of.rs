//! An agent's records are those of the whole journal, whatever became of the segments they stand in.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod contract;

use std::path::Path;

use contract::{JournalFixture, read_from, seq};
use estop_journal::Head;
use estop_store::{Journal, Sqlite, SqliteOptions};
use proptest::prelude::*;

const AGENTS: [&str; 6] = ["a", "b", "größe", "a-b", "system two", "rare"];

/// What happens to a journal.
#[derive(Clone, Debug)]
enum Step {
    /// So many records of agents in turn, from one of them on; and how much each fills.
    Write {
        count: usize,
        first: usize,
        stride: usize,
        name_len: usize,
    },
    /// A segment is sealed; where agents have records is noted now or later.
    Pack {
        is_indexed: bool,
    },
    /// The oldest sealed segment goes; what is noted of it goes now or later.
    Prune {
        is_forgotten: bool,
    },
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let write = (1..300_usize, 0..6_usize, 1..6_usize, prop_oneof![Just(0_usize), Just(40), Just(900)]);
    let write =
        write.prop_map(|(count, first, stride, name_len)| Step::Write { count, first, stride, name_len });
    prop_oneof![
        6 => write,
        4 => any::<bool>().prop_map(|is_indexed| Step::Pack { is_indexed }),
        1 => any::<bool>().prop_map(|is_forgotten| Step::Prune { is_forgotten }),
        1 => Just(Step::Reopen),
    ]
}

fn open(path: &Path) -> Sqlite {
    Sqlite::open(path, SqliteOptions::default()).unwrap()
}

/// An agent's lines out of the whole journal, newest first.
fn of_whole(whole: &[u8], agent: &str) -> Vec<(u64, Vec<u8>)> {
    let lines = whole.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let mut own: Vec<_> = lines
        .map(|line| (Head::read(line).unwrap(), line))
        .filter(|(head, _)| head.agent == agent)
        .map(|(head, line)| (head.seq, line.to_vec()))
        .collect();
    own.reverse();
    own
}

/// Reads an agent's records page by page.
fn paged(store: &Sqlite, agent: &str, before: Option<u64>, limit: usize) -> Vec<Vec<u8>> {
    let (mut found, mut before) = (Vec::new(), before);
    loop {
        let page = store.records_of(agent, before, limit).unwrap();
        let Some(oldest) = page.last() else { return found };
        assert!(page.len() <= limit, "{} of {limit}", page.len());
        let oldest = seq(oldest);
        assert!(before.is_none_or(|before| oldest < before), "the same again");
        before = Some(oldest);
        found.extend(page);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn st_1_an_agents_records_are_those_of_the_whole_journal(
        steps in proptest::collection::vec(step(), 1..16),
        limit in 20..400_usize,
        before in 0..110_u64,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("estop.db");
        let (mut store, mut fixture) = (open(&path), JournalFixture::open(folder.path()));
        for step in steps {
            match step {
                Step::Write { count, first, stride, name_len } => {
                    fixture.name_len = name_len;
                    let agents: Vec<_> = (0..count).map(|n| AGENTS[(first + n * stride) % AGENTS.len()]).collect();
                    fixture.write(&agents);
                    fixture.store(&store);
                }
                Step::Pack { is_indexed: true } => fixture.seal(&store),
                Step::Pack { is_indexed: false } => fixture.journal.seal(),
                Step::Prune { is_forgotten: true } => {
                    fixture.prune(&store);
                },
                Step::Prune { is_forgotten: false } => {
                    fixture.journal.prune();
                },
                Step::Reopen => {
                    drop((store, fixture));
                    (store, fixture) = (open(&path), JournalFixture::open(folder.path()));
                }
            }
        }
        let whole = read_from(&store, store.begins_after().unwrap() + 1);
        let before = fixture.seq() * before / 100;
        for agent in AGENTS.into_iter().chain(["nobody"]) {
            let own = of_whole(&whole, agent);
            let all: Vec<_> = own.iter().map(|(_, line)| line.clone()).collect();
            prop_assert!(paged(&store, agent, None, limit) == all, "{}", agent);
            let older: Vec<_> = own.into_iter().filter(|(seq, _)| *seq < before).map(|(_, line)| line).collect();
            prop_assert!(paged(&store, agent, Some(before), limit) == older, "{} before {}", agent, before);
        }
    }
}
