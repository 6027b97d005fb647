//! A thread that looks now and then for what becomes true because nothing happens: agents that are silent, a stop that
//! nobody tries out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use estop_core::agent::standing::Standing;
use estop_core::guard::Guard;
use estop_core::guards::hours;
use estop_core::ids::Name;
use estop_core::operator::Operator;
use estop_core::policy::{Mode, Policy};
use estop_core::system::{Channel, GateView};
use estop_journal::Record;

use super::silence::{Seen, Silences, prooftest};
use super::{Alerting, now};

/// How often it looks. An agent's last call is known to ten seconds.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Looks until it is dropped.
pub struct Watching {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watching {
    /// Begins to look.
    pub fn start(alerting: Arc<Alerting>, operator: Arc<dyn Operator>) -> std::io::Result<Watching> {
        let (stop, stopped) = channel();
        let watch = move || Watch { alerting, operator, policies: BTreeMap::new(), told: None }.run(&stopped);
        let thread = std::thread::Builder::new().name("estop-silence".into()).spawn(watch)?;
        Ok(Watching { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

struct Watch {
    alerting: Arc<Alerting>,
    operator: Arc<dyn Operator>,
    /// The rules of agents that should call, as they were last seen: one at rest has no place in memory.
    policies: BTreeMap<Name, Arc<Policy>>,
    /// The overdue proof test that was told last.
    told: Option<Name>,
}

impl Watch {
    fn run(mut self, stopped: &Receiver<()>) {
        let first_record = self.first_record();
        let mut silences = Silences::new(now());
        while stopped.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            self.agents(&mut silences);
            let overdue = prooftest(&self.operator.proof_tests(), first_record.unwrap_or_else(now), now());
            let id = overdue.as_ref().map(|told| told.id.clone());
            if let Some(overdue) = overdue.filter(|_| self.told != id) {
                self.alerting.tell(overdue);
            }
            self.told = id;
        }
    }

    fn agents(&mut self, silences: &mut Silences) {
        let meant = self.alerting.file().agent_down_after_s.clone();
        silences.keep(|agent| meant.contains_key(agent));
        self.policies.retain(|agent, _| meant.contains_key(agent));
        let gate = self.operator.gate();
        for (agent, seconds) in &meant {
            // A store that does not answer says nothing about the agent.
            let Ok(kept) = self.alerting.store.agent(agent) else { continue };
            let last = kept.and_then(|kept| kept.last_seen_at).unwrap_or(0);
            let (after_ms, now) = (i64::from(*seconds) * 1000, now());
            let seen = Seen { after_ms, last, may_call: self.may_call(agent, gate, now) };
            if let Some(event) = silences.judge(now, agent, seen) {
                self.alerting.tell(event);
            }
        }
    }

    /// An agent at rest has no place in memory, and nobody stopped it.
    fn may_call(&mut self, agent: &Name, gate: GateView, now: i64) -> bool {
        let view = self.operator.agent(agent);
        let standing = view.as_ref().map(|view| view.standing);
        if let Some(view) = view {
            self.policies.insert(agent.clone(), view.policy);
        }
        let is_time = self.policies.get(agent).is_none_or(|policy| is_time(policy, now));
        gate.lets_pass(Channel::Llm) && matches!(standing, None | Some(Standing::Active)) && is_time
    }

    /// When the journal begins, as far as it is kept.
    fn first_record(&self) -> Option<i64> {
        let store = &self.alerting.store;
        let from = store.begins_after().ok()? + 1;
        let mut first = None;
        let read = store.blocks(from, from, &mut |lines| {
            first = Record::parse(lines).ok().map(|record| record.now.wall);
            false
        });
        read.ok().and(first)
    }
}

/// Outside of its allowed hours nobody waits for an agent (PO-3).
fn is_time(policy: &Policy, now: i64) -> bool {
    let hours = policy.hours.as_ref().filter(|_| policy.modes[Guard::Hours] == Mode::Enforce);
    hours.is_none_or(|hours| hours::allow(hours, now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use estop_core::policy::AllowedHours;
    use estop_core::time::Zone;

    #[test]
    fn al_1_outside_of_its_hours_an_agent_is_not_missed() {
        const HOUR: i64 = 3_600_000;
        let zone = Zone { name: "UTC".into(), offset_s: 0, changes: Vec::new() };
        let office = AllowedHours { days: 0b111_1111, from_minute: 8 * 60, to_minute: 18 * 60, zone };
        let mut policy = Policy { hours: Some(office), ..Policy::default() };
        policy.modes[Guard::Hours] = Mode::Enforce;
        let at = |policy: &Policy| [7, 8, 17, 18].map(|hour| is_time(policy, hour * HOUR));
        assert_eq!(at(&policy), [false, true, true, false]);
        policy.modes[Guard::Hours] = Mode::Shadow;
        assert_eq!(at(&policy), [true; 4], "it may call, and should");
        assert_eq!(at(&Policy { hours: None, ..policy }), [true; 4]);
    }
}
