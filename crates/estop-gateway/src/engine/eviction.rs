//! Evicted agents: known by name, their states in the store. They give their places to others, lose nothing by it, and are
//! taken up again when they call.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use estop_core::engine::Snapshot;
use estop_core::ids::Name;

use crate::names::folded;

/// What has the states of evicted agents.
pub trait States: Send + Sync {
    /// An agent after `told` records of its chain; `None` if it cannot be read.
    fn fetch(&self, agent: &str, told: u64) -> Option<Snapshot>;
}

/// What is remembered of an evicted agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// Records of its chain.
    pub told: u64,
    /// It was deleted: it gives its place back as soon as it can.
    pub deleted: bool,
}

/// The evicted agents.
#[derive(Default)]
pub struct EvictedAgents {
    /// By name whatever its case, with the agent's own spelling.
    agents: Mutex<BTreeMap<Name, (Name, Evicted)>>,
    states: Option<Arc<dyn States>>,
}

impl std::fmt::Debug for EvictedAgents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EvictedAgents").field("agents", &self.len()).finish_non_exhaustive()
    }
}

impl EvictedAgents {
    /// Agents whose states are in a store.
    pub fn new(agents: BTreeMap<Name, Evicted>, states: Arc<dyn States>) -> EvictedAgents {
        let agents = agents.into_iter().map(|(name, rest)| (folded(&name).into(), (name, rest)));
        EvictedAgents { agents: Mutex::new(agents.collect()), states: Some(states) }
    }

    /// Whether states are kept anywhere: without that, nobody can be evicted.
    pub(crate) fn is_possible(&self) -> bool {
        self.states.is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.agents().len()
    }

    /// Whether this agent rests.
    pub fn get(&self, name: &str) -> Option<Evicted> {
        self.agents().get(&*folded(name)).map(|(_, rest)| *rest)
    }

    /// How an evicted agent spells its name.
    pub(crate) fn spelling(&self, name: &str) -> Option<Name> {
        self.agents().get(&*folded(name)).map(|(name, _)| name.clone())
    }

    pub(crate) fn fetch(&self, name: &str, told: u64) -> Option<Snapshot> {
        self.states.as_ref()?.fetch(name, told)
    }

    pub(crate) fn put(&self, name: &str, rest: Evicted) {
        self.agents().insert(folded(name).into(), (name.into(), rest));
    }

    pub(crate) fn remove(&self, name: &str) {
        self.agents().remove(&*folded(name));
    }

    fn agents(&self) -> MutexGuard<'_, BTreeMap<Name, (Name, Evicted)>> {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use estop_core::agent::standing::Standing;
    use estop_core::event::EventKind;
    use estop_core::policy_file::PolicyFile;
    use estop_core::system::button::Press;
    use estop_core::system::{Channels, KillReason, System};
    use estop_core::time::Millis;

    use super::*;
    use crate::engine::Engine;
    use crate::engine::agents::Agents;
    use crate::engine::policies::Rulebook;
    use crate::journal::JournalQueue;

    /// A store that has the last state of one agent.
    #[derive(Default)]
    struct Kept {
        state: Mutex<Vec<u8>>,
        broken: AtomicBool,
    }

    impl States for Kept {
        fn fetch(&self, _: &str, told: u64) -> Option<Snapshot> {
            let state = Snapshot::read(&self.state.lock().expect("not poisoned")).ok()?;
            (state.told == told && !self.broken.load(Ordering::Relaxed)).then_some(state)
        }
    }

    fn engine(max: usize, names: usize, kept: &Arc<Kept>) -> Engine {
        let states: Arc<dyn States> = Arc::<Kept>::clone(kept);
        let agents = Agents::new(max, names, EvictedAgents::new(BTreeMap::new(), states));
        let rulebook = Rulebook::new(PolicyFile::default(), BTreeMap::new(), Default::default());
        let queue = Arc::new(JournalQueue::default());
        let engine =
            Engine::new(rulebook, agents, queue.into(), Channels::NONE, Millis(1000), System::default());
        engine.open(None, None);
        engine
    }

    const LATER: Millis = Millis(u64::MAX);
    const NOBODY: fn(&str) -> bool = |_| false;

    #[test]
    fn st_3_an_agent_that_rests_gives_its_place_and_comes_back_as_it_was() {
        let kept = Arc::new(Kept::default());
        let engine = engine(1, 3, &kept);
        let (told, before) = engine.agent("a").expect("there is room").snapshot();
        assert!(engine.agent("b").is_none(), "the place is taken");
        kept.state.lock().expect("not poisoned").clone_from(&before);
        assert_eq!(engine.agents.evictable(Millis(0), NOBODY), [], "it was not idle for long");
        assert_eq!(engine.agents.evictable(LATER, |name| name == "a"), [], "it is named");
        assert_eq!(engine.agents.evictable(LATER, NOBODY), [("a".into(), told)]);

        let held = engine.agents.get("a");
        assert!(!engine.agents.evict("a", told, LATER), "somebody has it");
        drop(held);
        assert!(!engine.agents.evict("a", told + 1, LATER), "something happened since");
        assert!(engine.agents.evict("a", told, LATER));
        assert!(engine.agents.get("a").is_none());
        let (of_b, state) = engine.agent("b").expect("there is room now").snapshot();
        assert!(engine.known_agent("a").is_none(), "b has the place");
        assert!(engine.agents.evict("b", of_b, LATER));

        kept.broken.store(true, Ordering::Relaxed);
        assert!(engine.agent("a").is_none(), "whose state cannot be read is not let in as a new one");
        kept.broken.store(false, Ordering::Relaxed);
        let again = engine.known_agent("a").expect("it is known");
        assert_eq!(again.snapshot(), (told, before));
        drop((again, state));
    }

    #[test]
    fn st_3_only_a_deleted_agent_rests_while_it_is_stopped() {
        let kept = Arc::new(Kept::default());
        let engine = engine(1, 3, &kept);
        let agent = engine.agent("a").expect("there is room");
        engine.apply(&agent, None, EventKind::AgentDeactivated { by: "somebody".into() });
        let (told, state) = agent.snapshot();
        *kept.state.lock().expect("not poisoned") = state;
        assert_eq!(engine.agents.evictable(LATER, NOBODY), []);
        engine.agents.release(&agent);
        drop(agent);
        assert_eq!(engine.agents.evictable(Millis(0), NOBODY), [("a".into(), told)]);
        assert!(engine.agents.evict("a", told, Millis(0)));
        assert_eq!(engine.agents.evicted.get("a"), Some(Evicted { told, deleted: true }));
        let again = engine.agent("a").expect("there is room");
        assert!(
            matches!(again.lock_state().state.standing(), Standing::Inactive { .. }),
            "it is still stopped"
        );
    }

    #[test]
    fn st_3_there_are_not_more_names_than_there_may_be() {
        let kept = Arc::new(Kept::default());
        let engine = engine(1, 2, &kept);
        for name in ["a", "b"] {
            let (told, _) = engine.agent(name).expect("there is room").snapshot();
            assert!(engine.agents.evict(name, told, LATER));
        }
        assert!(engine.agent("c").is_none());
    }

    /// A disk that hangs while an agent is woken.
    struct Hanging {
        begun: Barrier,
        released: Barrier,
    }

    impl States for Hanging {
        fn fetch(&self, _: &str, _: u64) -> Option<Snapshot> {
            self.begun.wait();
            self.released.wait();
            None
        }
    }

    #[test]
    fn ks_2_a_kill_does_not_wait_for_a_disk_that_hangs() {
        let disk = Arc::new(Hanging { begun: Barrier::new(2), released: Barrier::new(2) });
        let states: Arc<dyn States> = Arc::<Hanging>::clone(&disk);
        let evicted = BTreeMap::from([(Name::from("a"), Evicted { told: 1, deleted: false })]);
        let agents = Agents::new(4, 4, EvictedAgents::new(evicted, states));
        let rulebook = Rulebook::new(PolicyFile::default(), BTreeMap::new(), Default::default());
        let queue = Arc::new(JournalQueue::default());
        let engine =
            Engine::new(rulebook, agents, queue.into(), Channels::NONE, Millis(1000), System::default());
        engine.open(None, None);
        let (done, killed) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(engine.agent("a").is_none(), "its state could not be read"));
            disk.begun.wait();
            scope.spawn(|| {
                engine.kill(Press::new(KillReason::Manual, "test", "test"));
                done.send(()).expect("somebody waits");
            });
            let in_time = killed.recv_timeout(Duration::from_secs(10));
            disk.released.wait();
            assert!(in_time.is_ok(), "the kill waits for the disk");
        });
    }
}
