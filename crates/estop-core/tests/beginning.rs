//! A journal whose first records are gone is verified and replayed from where they ended, and nobody can change that
//! place unnoticed.

mod support;

use std::collections::BTreeMap;

use estop_core::engine::Snapshot;
use estop_core::journal::{Base, Beginning, Chains, Digest, Happened, JournalError, SYSTEM};
use estop_core::replay::{Replay, ReplayError};
use estop_core::system::{System, SystemEvent};
use estop_core::time::Now;
use support::Random;

/// A journal, and the states after its records.
#[derive(Default)]
struct Live {
    chains: Chains,
    agents: BTreeMap<String, Snapshot>,
    system: System,
    lines: Vec<Vec<u8>>,
}

impl Live {
    fn tell(&mut self, random: &mut Random, now: Now) {
        let agent = ["ada", "bob", "zoe"][random.below(3) as usize];
        let event = support::event(random);
        let decision = self.agents.entry(agent.to_owned()).or_default().tell(now, &event);
        let mut line = Vec::new();
        self.chains.append(agent, now, Happened::Agent(&event), &decision, &mut line);
        self.lines.push(line);
    }

    fn tell_system(&mut self, now: Now, event: &SystemEvent) {
        let decision = self.system.handle(now, event);
        let mut line = Vec::new();
        self.chains.append(SYSTEM, now, Happened::System(event), &decision, &mut line);
        self.lines.push(line);
    }

    /// What the journal would begin with if everything so far were gone.
    fn beginning(&self) -> (Vec<Vec<u8>>, SystemEvent) {
        let heads = self.chains.heads();
        let mut beginning = Beginning::new(self.chains.seq(), heads.len() as u64);
        let mut lines = vec![beginning.line()];
        for head in heads {
            let state = match self.agents.get(&*head.chain) {
                Some(agent) => agent.write(),
                None => serde_json::to_vec(&self.system).expect("the system can be written"),
            };
            beginning.add(&head, &Base::state_digest(&state));
            lines.push(Base { head, state: &state }.line());
        }
        let (by, to, digest) = ("retention".into(), self.chains.seq(), beginning.digest());
        (lines, SystemEvent::Pruned { by, to, digest })
    }
}

/// A journal whose first 300 records are gone, sealed.
fn pruned(seed: u64) -> Vec<Vec<u8>> {
    pruned_after(seed, &[])
}

/// The same, where letting go failed before, each time with other states.
fn pruned_after(seed: u64, failed: &[Digest]) -> Vec<Vec<u8>> {
    let mut random = Random(seed);
    let mut live = Live::default();
    let mut now = Now { wall: 1_767_225_600_000, ..Now::default() };
    live.tell_system(now, &SystemEvent::Started { found: None });
    for _ in 1..300 {
        support::tick(&mut random, &mut now);
        live.tell(&mut random, now);
    }
    let (mut lines, record) = live.beginning();
    for at in 0..200 {
        support::tick(&mut random, &mut now);
        live.tell(&mut random, now);
        if at == 100 {
            for digest in failed {
                let mut other = record.clone();
                if let SystemEvent::Pruned { digest: told, .. } = &mut other {
                    *told = *digest;
                }
                live.tell_system(now, &other);
            }
            live.tell_system(now, &record);
        }
    }
    live.tell_system(now, &SystemEvent::Checkpointed { heads: live.chains.heads() });
    lines.extend(live.lines.split_off(300));
    lines
}

fn verify(lines: &[Vec<u8>]) -> Result<Chains, JournalError> {
    let mut chains = Chains::default();
    for line in lines {
        chains.take(line)?;
    }
    Ok(chains)
}

fn replay(lines: &[Vec<u8>]) -> Result<Replay, ReplayError> {
    let mut replay = Replay::default();
    for line in lines {
        replay.feed(line)?;
    }
    Ok(replay)
}

#[test]
fn tw_7_a_pruned_journal_verifies_and_replays_from_where_it_begins() {
    for seed in 0..20 {
        let lines = pruned(seed);
        let chains = verify(&lines).expect("it is whole");
        assert!(chains.is_sealed() && chains.is_confirmed());
        assert_eq!((chains.begins_after(), chains.seq()), (300, 502));
        assert_eq!(replay(&lines).map(|replay| replay.agents()), Ok(3), "seed {seed}");
    }
}

#[test]
fn tw_7_without_its_beginning_a_pruned_journal_is_not_believed() {
    let lines = pruned(1);
    let only_records = verify(&lines[5..]);
    assert_eq!(only_records.err(), Some(JournalError::OutOfOrder { expected: 1, found: 301 }));
    // Nor is one whose record of the pruning is gone: the beginning could be anything.
    let cut = verify(&lines[..50]).expect("what is there fits together");
    assert!(!cut.is_confirmed());
}

#[test]
fn tw_7_a_changed_beginning_is_found() {
    let lines = pruned(2);
    let wrong = |edit: &dyn Fn(&mut Vec<Vec<u8>>)| {
        let mut lines = lines.clone();
        edit(&mut lines);
        verify(&lines).map(|chains| chains.is_confirmed())
    };
    let swap = |line: &mut Vec<u8>, from: &str, to: &str| {
        let text = String::from_utf8(line.clone()).expect("it is text");
        assert!(text.contains(from), "{text}");
        *line = text.replacen(from, to, 1).into_bytes();
    };
    let told = String::from_utf8_lossy(&lines[1]).split("\"told\":").nth(1).expect("a count").to_owned();
    let told = format!("\"told\":{}", told.split(',').next().expect("a number"));
    for edit in [
        // A state, a head, an order, a chain too few, a chain too many, another place.
        &(|lines: &mut Vec<Vec<u8>>| swap(&mut lines[1], &told, "\"told\":1")) as &dyn Fn(&mut Vec<Vec<u8>>),
        &|lines| swap(&mut lines[2], "\"count\":", "\"count\":1"),
        &|lines| lines.swap(1, 2),
        &|lines| drop(lines.remove(1)),
        &|lines| lines.insert(1, lines[1].clone()),
        &|lines| swap(&mut lines[0], "\"after\":300", "\"after\":299"),
        &|lines| swap(&mut lines[0], "\"chains\":4", "\"chains\":3"),
        &|lines| lines.insert(10, lines[0].clone()),
    ] {
        assert!(!matches!(wrong(edit), Ok(true)), "a change was not noticed");
    }
    assert_eq!(wrong(&|_| {}), Ok(true));
}

#[test]
fn tw_7_of_several_records_about_a_beginning_one_must_be_right() {
    let chains = verify(&pruned_after(3, &[Digest([1; 32]), Digest([2; 32])])).expect("it is whole");
    assert_eq!((chains.confirm(), chains.seq()), (Ok(()), 504));
    let mut lines = pruned_after(3, &[Digest([1; 32])]);
    let right = lines.iter().rposition(|line| String::from_utf8_lossy(line).contains("\"pruned\""));
    // Cut before the one that is right, a journal says nothing else of its beginning than what is wrong.
    lines.truncate(right.expect("a record of pruning"));
    let chains = verify(&lines).expect("what is there fits together");
    assert!(matches!(chains.confirm(), Err(JournalError::BeginningDiffers { .. })));
}

#[test]
fn tw_7_a_state_that_is_not_the_chains_is_refused_on_replay() {
    let mut lines = pruned(3);
    let head = verify(&lines[..5]).expect("the beginning is whole").heads().swap_remove(0);
    let other = Snapshot::default().write();
    lines[1] = Base { head, state: &other }.line();
    assert!(matches!(replay(&lines), Err(ReplayError::Journal(JournalError::Unreadable(_)))));
}
