//! The lines to supervisors that are open: how many there may be, and which runs have one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use estop_core::ids::Name;

/// Lines at once. Each takes a descriptor of this process and is a process somewhere else.
const LINES_MAX: usize = 1024;
/// Of those, lines of calls and of agents by their keys and tickets. The rest is for programs that people start.
const OTHERS_MAX: usize = 768;
/// Lines of one agent at once: one alone cannot take all.
const AGENT_LINES_MAX: usize = 256;
/// Of those, lines that are not of programs that people start.
const AGENT_OTHERS_MAX: usize = 192;

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct SupervisorConnections(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    /// At most [`LINES_MAX`]; the other maxima are in proportion.
    max: usize,
    all: Count,
    agents: BTreeMap<Name, Count>,
    /// Programs, by agent and run.
    runs: BTreeMap<(Name, Name), Supervisors>,
    leavings: u64,
}

impl Default for Inner {
    fn default() -> Inner {
        Inner {
            max: LINES_MAX,
            all: Count::default(),
            agents: BTreeMap::new(),
            runs: BTreeMap::new(),
            leavings: 0,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    lines: usize,
    others: usize,
}

#[derive(Debug, Default)]
struct Supervisors {
    lines: usize,
    /// One of them had a ticket: the run is over when nobody supervises it any more.
    ends: bool,
    /// Which leaving was the last.
    left: u64,
}

impl Count {
    fn has_room(self, others: bool, lines_max: usize, others_max: usize) -> bool {
        self.lines < lines_max && (!others || self.others < others_max)
    }

    fn add(&mut self, others: bool) {
        self.lines += 1;
        self.others += usize::from(others);
    }

    fn take(&mut self, others: bool) {
        self.lines = self.lines.saturating_sub(1);
        self.others = self.others.saturating_sub(usize::from(others));
    }
}

impl SupervisorConnections {
    /// Allows so many lines at once, where the process may not have more descriptors.
    pub(crate) fn limit(&self, max: usize) {
        self.lock().max = max.min(LINES_MAX);
    }

    /// A place for one more; `None` if there is none for this agent, or for anybody.
    pub(crate) fn place(self: &Arc<Self>, agent: &str, others: bool) -> Option<Permit> {
        let mut inner = self.lock();
        let own = inner.agents.get(agent).copied().unwrap_or_default();
        let share = |of: usize| (inner.max * of / LINES_MAX).max(1);
        if !inner.all.has_room(others, inner.max, share(OTHERS_MAX))
            || !own.has_room(others, share(AGENT_LINES_MAX), share(AGENT_OTHERS_MAX))
        {
            return None;
        }
        inner.all.add(others);
        inner.agents.entry(agent.into()).or_default().add(others);
        Some(Permit { lines: Arc::clone(self), agent: agent.into(), others })
    }

    /// A program of this run has a line, from here to [`SupervisorConnections::leave`].
    pub(crate) fn come(&self, agent: &Name, run: &Name, has_ticket: bool) {
        let mut inner = self.lock();
        let run = inner.runs.entry((agent.clone(), run.clone())).or_default();
        run.lines += 1;
        run.ends |= has_ticket;
    }

    /// It has none any more; which leaving this was.
    pub(crate) fn leave(&self, agent: &Name, run: &Name) -> u64 {
        let mut inner = self.lock();
        inner.leavings += 1;
        let leaving = inner.leavings;
        if let Some(run) = inner.runs.get_mut(&(agent.clone(), run.clone())) {
            run.lines = run.lines.saturating_sub(1);
            run.left = leaving;
        }
        leaving
    }

    /// Whether nobody came to the run, or left it, since this leaving, and it is over with that. Says so once.
    pub(crate) fn is_over(&self, agent: &Name, run: &Name, leaving: u64) -> bool {
        let mut inner = self.lock();
        let key = (agent.clone(), run.clone());
        let is_left = inner.runs.get(&key).is_some_and(|run| run.lines == 0 && run.left == leaving);
        is_left && inner.runs.remove(&key).is_some_and(|run| run.ends)
    }

    /// Whether a program of this run has a line, or had one a moment ago.
    pub(crate) fn has(&self, agent: &str, run: &str) -> bool {
        self.lock().runs.contains_key(&(agent.into(), run.into()))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of one line.
#[derive(Debug)]
pub(crate) struct Permit {
    lines: Arc<SupervisorConnections>,
    agent: Name,
    others: bool,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut inner = self.lines.lock();
        inner.all.take(self.others);
        let left = inner.agents.get_mut(&self.agent).map(|own| {
            own.take(self.others);
            own.lines
        });
        if left == Some(0) {
            inner.agents.remove(&self.agent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tl_2_one_agent_cannot_take_all_lines_and_programs_keep_theirs() {
        let lines = Arc::new(SupervisorConnections::default());
        let take = |agent: &str, others: bool| -> Vec<Permit> {
            std::iter::from_fn(|| lines.place(agent, others)).collect()
        };
        let calls = take("a", true);
        assert_eq!(calls.len(), AGENT_OTHERS_MAX);
        assert_eq!(take("a", false).len(), AGENT_LINES_MAX - AGENT_OTHERS_MAX, "its programs have theirs");
        let more: Vec<Permit> =
            ["b", "c", "d", "e", "f"].iter().flat_map(|agent| take(agent, true)).collect();
        assert_eq!(calls.len() + more.len(), OTHERS_MAX);
        assert!(lines.place("new", true).is_none());
        assert_eq!(take("new", false).len(), LINES_MAX - OTHERS_MAX);
        drop((calls, more));
        assert!(lines.lock().agents.is_empty(), "nothing is left of lines that are closed");
    }

    #[test]
    fn tl_2_a_process_with_few_descriptors_has_few_lines() {
        let lines = Arc::new(SupervisorConnections::default());
        lines.limit(2);
        let call = lines.place("a", true).expect("one for calls");
        assert!(lines.place("b", true).is_none(), "the other is for a program");
        let program = lines.place("b", false).expect("one for programs");
        assert!(lines.place("c", false).is_none());
        drop((call, program));
        assert!(lines.place("c", false).is_some());
    }

    #[test]
    fn id_7_a_run_is_over_when_the_last_of_its_supervisors_has_left() {
        let lines = SupervisorConnections::default();
        let (agent, run): (Name, Name) = ("a".into(), "r".into());
        lines.come(&agent, &run, true);
        lines.come(&agent, &run, true);
        let other = lines.leave(&agent, &run);
        assert!(!lines.is_over(&agent, &run, other), "one still watches");
        let first = lines.leave(&agent, &run);
        assert!(!lines.is_over(&agent, &run, other), "it was not the last");
        lines.come(&agent, &run, false);
        assert!(!lines.is_over(&agent, &run, first), "somebody is back");
        let last = lines.leave(&agent, &run);
        assert!(lines.has("a", "r"));
        assert!(lines.is_over(&agent, &run, last) && !lines.has("a", "r"));
        assert!(!lines.is_over(&agent, &run, last), "once");
        lines.come(&agent, &run, false);
        let looked = lines.leave(&agent, &run);
        assert!(!lines.is_over(&agent, &run, looked), "without a ticket whoever began it completes it");
    }
}
