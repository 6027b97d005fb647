//! What the records so far add up to, apart from the agents' own states: how many there are of each agent, how the red
//! button stands, and the settings people made. Each segment begins with it, so that a start reads one segment.

use std::collections::{BTreeMap, HashMap};

use estop_core::ids::Name;
use estop_core::system::button::Latched;
use estop_core::system::{SettingChange, System, SystemDecision, SystemEvent};
use estop_core::time::Now;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::record::SYSTEM;

/// What people set while estop ran: of each kind (`agent_key`, `token`, …) the values by their ids.
pub type Settings = BTreeMap<Name, BTreeMap<Name, Value>>;

/// What the records so far add up to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Records so far.
    pub seq: u64,
    /// The red button's rules.
    pub system: System,
    /// How the button stands and who brought it about; `None` until the system started.
    pub button: Option<Latched>,
    /// Records of each agent, and of the system.
    #[serde(serialize_with = "in_order")]
    counts: HashMap<Name, u64>,
    /// What people set.
    pub settings: Settings,
}

fn in_order<S: serde::Serializer>(counts: &HashMap<Name, u64>, s: S) -> Result<S::Ok, S::Error> {
    s.collect_map(counts.iter().collect::<BTreeMap<_, _>>())
}

impl State {
    /// What is known of one agent alone after `seq` records, `n` of which are its own.
    pub fn of_agent(seq: u64, agent: &str, n: u64) -> State {
        let counts = (n > 0).then(|| (agent.into(), n)).into_iter().collect();
        State { seq, counts, ..State::default() }
    }

    /// The numbers of the next record, in the journal and among the agent's.
    pub fn next(&self, agent: &str) -> (u64, u64) {
        (self.seq + 1, self.count(agent) + 1)
    }

    /// How many records there are of an agent, or of the system.
    pub fn count(&self, agent: &str) -> u64 {
        self.counts.get(agent).copied().unwrap_or(0)
    }

    /// Everybody who has records, in no order.
    pub fn counts(&self) -> impl Iterator<Item = (&str, u64)> {
        self.counts.iter().map(|(agent, count)| (&**agent, *count))
    }

    /// Takes the next record in; of the system's, [`State::apply`] must be called too.
    pub fn add(&mut self, agent: &str) {
        self.seq += 1;
        match self.counts.get_mut(agent) {
            Some(count) => *count += 1,
            None => drop(self.counts.insert(agent.into(), 1)),
        }
    }

    /// Takes in what happened to the system, and says what becomes of it.
    pub fn apply(&mut self, now: Now, event: &SystemEvent) -> SystemDecision {
        let decision = self.system.handle(now, event);
        let button = self.button.take().unwrap_or_else(|| Latched::at_start(decision.gate, now.wall));
        self.button = Some(button.after(event, &decision, now.wall));
        if let SystemEvent::SettingsChanged { changes } = event {
            for SettingChange { kind, id, value } in changes {
                self.set(kind, id, value.as_ref());
            }
        }
        decision
    }

    fn set(&mut self, kind: &Name, id: &Name, value: Option<&Value>) {
        match value {
            Some(value) => {
                self.settings.entry(kind.clone()).or_default().insert(id.clone(), value.clone());
            }
            None => {
                if let Some(of_kind) = self.settings.get_mut(kind) {
                    of_kind.remove(id);
                }
                self.settings.retain(|_, of_kind| !of_kind.is_empty());
            }
        }
    }

    /// How many records there are of the system.
    pub fn system_count(&self) -> u64 {
        self.count(SYSTEM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(state: &mut State, kind: &str, id: &str, value: Option<Value>) {
        let change = SettingChange { kind: kind.into(), id: id.into(), value };
        let event = SystemEvent::SettingsChanged { changes: vec![change] };
        state.add(SYSTEM);
        state.apply(Now::default(), &event);
    }

    #[test]
    fn st_1_settings_are_what_was_set_last() {
        let mut state = State::default();
        set(&mut state, "agent_key", "k1", Some(1.into()));
        set(&mut state, "agent_key", "k2", Some(2.into()));
        set(&mut state, "agent_key", "k1", Some(3.into()));
        set(&mut state, "preset", "all", Some("strict".into()));
        assert_eq!(
            serde_json::to_string(&state.settings).expect("JSON"),
            r#"{"agent_key":{"k1":3,"k2":2},"preset":{"all":"strict"}}"#
        );
        set(&mut state, "preset", "all", None);
        set(&mut state, "agent_key", "k2", None);
        set(&mut state, "never", "was", None);
        assert_eq!(serde_json::to_string(&state.settings).expect("JSON"), r#"{"agent_key":{"k1":3}}"#);
    }

    #[test]
    fn tw_7_a_state_is_written_in_one_way_and_read_as_the_same() {
        let mut state = State::default();
        for agent in ["zoe", "ada", "zoe"] {
            state.add(agent);
        }
        assert_eq!((state.next("zoe"), state.next("new")), ((4, 3), (4, 1)));
        let text = serde_json::to_string(&state).expect("JSON");
        assert!(text.contains(r#""counts":{"ada":1,"zoe":2}"#), "{text}");
        assert_eq!(serde_json::from_str::<State>(&text).expect("a state"), state);
    }
}
