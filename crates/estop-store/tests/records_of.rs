//! An agent's records are those of the whole journal, whatever became of the blocks they stand in.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod contract;

use std::path::Path;

use contract::{MINUTE, Scribe, prune, read_from};
use estop_core::journal::Record;
use estop_store::{Journal, Retention, Sqlite, SqliteOptions};
use proptest::prelude::*;

const AGENTS: [&str; 6] = ["a", "b", "größe", "a-b", "system two", "rare"];

/// How much a record fills that is to make a journal large enough to be cut into segments, of which some may go.
const LARGE: usize = 6000;

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
    Compact,
    /// Records before one of them may go, in hundredths of all.
    Prune(u64),
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let write = (1..900_usize, 0..6_usize, 1..6_usize, prop_oneof![Just(0_usize), Just(40), Just(LARGE)]);
    let write = write.prop_map(|(count, first, stride, name_len)| Step::Write {
        count: if name_len == LARGE { count / 3 + 1 } else { count },
        first,
        stride,
        name_len,
    });
    prop_oneof![6 => write, 3 => Just(Step::Compact), 2 => (0..110_u64).prop_map(Step::Prune), 1 => Just(Step::Reopen)]
}

fn open(path: &Path) -> Sqlite {
    Sqlite::open(path, SqliteOptions::default()).unwrap()
}

/// An agent's lines out of the whole journal, newest first.
fn of_whole(whole: &[u8], agent: &str) -> Vec<(u64, Vec<u8>)> {
    let lines = whole.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let mut own: Vec<_> = lines
        .map(|line| (Record::parse(line).unwrap().head, line))
        .filter(|(head, _)| head.chain == agent)
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
        let oldest = Record::parse(oldest).unwrap().head.seq;
        assert!(before.is_none_or(|before| oldest < before), "the same again");
        before = Some(oldest);
        found.extend(page);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn st_1_an_agents_records_are_those_of_the_whole_journal(
        steps in proptest::collection::vec(step(), 1..20),
        limit in 1..400_usize,
        before in 0..110_u64,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("estop.db");
        let mut store = open(&path);
        let mut scribe = Scribe::default();
        let mut gone = 0;
        for step in steps {
            match step {
                Step::Write { count, first, stride, name_len } => {
                    scribe.name_len = name_len;
                    let agents: Vec<_> = (0..count).map(|n| AGENTS[(first + n * stride) % AGENTS.len()]).collect();
                    scribe.write(&store, &agents);
                }
                Step::Compact => store.compact().unwrap(),
                Step::Prune(part) => {
                    let last = scribe.chains.seq();
                    let before_wall = Some((last * part / 100) as i64 * MINUTE);
                    gone = prune(&store, Retention { before_wall, keep_bytes: None, checkpoint: last }).unwrap().to_seq;
                }
                Step::Reopen => {
                    drop(store);
                    store = open(&path);
                }
            }
        }
        let whole = read_from(&store, gone + 1);
        let before = scribe.chains.seq() * before / 100;
        for agent in AGENTS.into_iter().chain(["nobody"]) {
            let own = of_whole(&whole, agent);
            let all: Vec<_> = own.iter().map(|(_, line)| line.clone()).collect();
            prop_assert!(paged(&store, agent, None, limit) == all, "{}", agent);
            let older: Vec<_> = own.into_iter().filter(|(seq, _)| *seq < before).map(|(_, line)| line).collect();
            prop_assert!(paged(&store, agent, Some(before), limit) == older, "{} before {}", agent, before);
        }
    }
}
