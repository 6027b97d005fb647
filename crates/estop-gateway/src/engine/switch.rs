//! The red button, carried out: shut the gate, end what is under way, have it kept, in this order (KS-2).
//!
//! Nothing soft stands before the shut gate: no disk, no runtime, no lock that anybody holds while waiting. What is
//! written down goes to queues; whoever wants to know whether the disk has it asks afterwards.

use std::cell::LazyCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use estop_core::budget::PeriodSpend;
use estop_core::event::AbortedBy;
use estop_core::ids::Hash64;
use estop_core::operator::{EndedWork, Stopped};
use estop_core::policy::Preset;
use estop_core::system::button::{Latched, Press, Unlock};
use estop_core::system::{
    CaseChange, Channel, GateView, SettingChange, System, SystemDecision, SystemEvent, SystemOutcome,
    SystemState,
};
use estop_wire::mask::Masker;
use estop_wire::refusal::Kind;

use super::{Engine, reasons};
use crate::emergency_stop::heartbeat::PartChange;
use crate::emergency_stop::in_flight::Cut;
use crate::engine::agents::Agent;

/// What makes the button outlive the process.
pub trait LatchStore: Send + Sync {
    /// Takes what must be kept and returns at once. Called in the order things happened; the newest counts.
    fn keep(&self, latched: &Latched);

    /// The same before it is in force: it is put on the disk, and nobody is told of it yet.
    fn stage(&self, latched: &Latched);

    /// Waits until the disk has everything it was handed so far, not for ever; whether it has.
    fn is_kept(&self) -> bool;
}

/// The system stays shut, because the disk did not take that it may open (KS-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the state could not be saved, so the system stays as it is: free space or fix the disk, then try again"
)]
pub struct NotPersisted;

/// The button's state, and what keeps it.
pub(crate) struct Button {
    held: Mutex<Held>,
    keeper: Option<Arc<dyn LatchStore>>,
}

struct Held {
    system: System,
    latched: Latched,
}

impl Button {
    pub(crate) fn new(system: System, keeper: Option<Arc<dyn LatchStore>>) -> Button {
        let latched = Latched::at_start(system.gate(), 0);
        Button { held: Mutex::new(Held { system, latched }), keeper }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Lets work begin, as far as the latch found at start allows it (`None`: a first start). `told` is who and why by
    /// the journal; the newer of the two counts.
    pub fn open(&self, found: Option<Latched>, told: Option<Latched>) -> SystemDecision {
        let gate = found.as_ref().map(|found| found.gate);
        {
            let mut held = self.button.held();
            // A doubtful latch shuts what the journal has open: then it says why.
            let is_stricter = |found: &Latched, told: &Latched| {
                found.gate.state == SystemState::Shutdown && told.gate.state != SystemState::Shutdown
            };
            let known = match (found, told) {
                (Some(found), Some(told))
                    if !is_stricter(&found, &told) && told.gate.epoch > found.gate.epoch =>
                {
                    Some(told)
                }
                (Some(latched), _) | (None, Some(latched)) => Some(latched),
                (None, None) => None,
            };
            if let Some(known) = known {
                held.latched = known;
            }
            if held.latched.since == 0 {
                held.latched.since = self.clock.now().wall;
            }
        }
        self.system_event(SystemEvent::Started { found: gate })
    }

    /// How the button stands, and who brought it about.
    pub fn button(&self) -> Latched {
        // Held over both: whoever changes one changes the other before letting go.
        let held = self.button.held();
        let latched = held.latched.clone();
        // With what the configuration keeps shut.
        Latched { gate: GateView { shut: self.latch.view().shut, ..latched.gate }, ..latched }
    }

    /// Whether a press is in force. What the configuration keeps shut is none.
    pub fn is_pressed(&self) -> bool {
        self.button.held().latched.gate.is_pressed()
    }

    /// Presses the button: shuts the gate first, then ends what is under way. Whether it is kept is not waited for.
    pub fn kill(&self, press: Press) -> Stopped {
        let begun = Instant::now();
        let decision = self.system_event(press.event());
        let gate_us = micros(begun);
        let ended = self.end(|_| decision.gate);
        Stopped { decision, ended, gate_us, cut_us: micros(begun), kept_us: None }
    }

    /// What is under way.
    pub fn under_way(&self) -> EndedWork {
        let mut found = EndedWork { tools: self.tools.count(), ..EndedWork::default() };
        self.agents.for_each(|agent| {
            agent.in_flight_requests.for_each(|flight| match flight.channel {
                Channel::Llm => found.model_calls += 1,
                Channel::Messaging => found.messages += 1,
                Channel::Tools => found.tools += 1,
            });
        });
        found
    }

    /// Ends what is under way and may not pass any more, by the gate as each agent is to see it.
    pub(crate) fn end(&self, gate: impl Fn(&str) -> GateView) -> EndedWork {
        let mut ended = EndedWork::default();
        let now = self.clock.mono();
        self.agents.for_each(|agent| {
            let gate = gate(&agent.name);
            let cut = LazyCell::new(|| {
                let message = reasons::system_sentence(gate);
                Cut { by: AbortedBy::Kill, kind: Kind::Stop, code: "system", message }
            });
            agent.in_flight_requests.for_each(|flight| {
                let count = match flight.channel {
                    Channel::Llm => &mut ended.model_calls,
                    Channel::Messaging => &mut ended.messages,
                    Channel::Tools => &mut ended.tools,
                };
                if !gate.lets_pass(flight.channel) {
                    flight.stop((*cut).clone(), now);
                    *count += 1;
                }
            });
        });
        ended.tools += self.tools.end_where(|tool| {
            let gate = gate(tool.agent().unwrap_or_default());
            (!gate.lets_pass(Channel::Tools)).then(|| reasons::system_sentence(gate))
        });
        // Marked here, cancelled by a thread of its own.
        self.jobs.stop_where(self.clock.now().wall, |job| !gate(&job.agent).lets_pass(Channel::Llm));
        ended
    }

    /// SHUTDOWN → SAFE_MODE, by somebody who saw an epoch.
    pub fn restart(&self, unlock: Unlock) -> Result<SystemDecision, NotPersisted> {
        let Unlock { by, epoch, note } = unlock.shortened();
        self.unlock(SystemEvent::RestartRequested { by, epoch, note })
    }

    /// SAFE_MODE → RUNNING, by somebody who saw an epoch.
    pub fn clear(&self, unlock: Unlock) -> Result<SystemDecision, NotPersisted> {
        let Unlock { by, epoch, note } = unlock.shortened();
        self.unlock(SystemEvent::ClearRequested { by, epoch, note })
    }

    /// Opens what is shut. The disk has it first: a gate that opened, and a restart that finds it shut, would be two truths.
    /// A kill that comes meanwhile wins, in memory by its epoch and on the disk by being the later one.
    fn unlock(&self, event: SystemEvent) -> Result<SystemDecision, NotPersisted> {
        let Some(keeper) = &self.button.keeper else { return Ok(self.system_event(event)) };
        {
            let held = self.button.held();
            let now = self.clock.now();
            let decision = held.system.clone().handle(now, &event);
            if decision.outcome == SystemOutcome::Applied {
                // Handed over under the lock, as every change is: a kill's comes after it.
                keeper.stage(&held.latched.clone().after(&event, &decision, now.wall));
            }
        }
        if !keeper.is_kept() {
            // The disk may take it after all, later: what is in force is handed over behind it.
            keeper.stage(&self.button.held().latched);
            return Err(NotPersisted);
        }
        Ok(self.system_event(event))
    }

    /// A part of estop stopped running, or runs again.
    pub fn part_changed(&self, change: &PartChange) {
        let (part, running, silent_ms) = match change {
            PartChange::Stuck(part) => (part.name.clone(), false, part.silent_ms),
            PartChange::Recovered { name, after_ms } => (name.clone(), true, *after_ms),
        };
        self.system_event(SystemEvent::PartChanged { part, running, silent_ms });
    }

    /// Ends an agent's requests before anything else is done to it: whoever holds its lock may be blocked. For one who is
    /// about to switch it off.
    pub fn end_requests(&self, agent: &Agent) {
        let (by, kind, code) = (AbortedBy::Guard, Kind::Stop, "agent_inactive");
        let cut = Cut { by, kind, code, message: reasons::deactivated(&agent.name) };
        let now = self.clock.mono();
        agent.in_flight_requests.for_each(|flight| flight.stop(cut.clone(), now));
    }

    /// The configuration was read again, and is in force or not.
    pub fn configuration_read(&self, by: &str, digest: Hash64, applied: bool) {
        self.system_event(SystemEvent::ConfigurationRead { by: by.into(), digest, applied });
    }

    /// Everybody's preset was set, or left to the configuration again.
    pub fn preset_changed(&self, by: &str, preset: Option<Preset>) {
        self.system_event(SystemEvent::PresetChanged { by: by.into(), preset });
    }

    /// Has the account of all agents together begin the present day and month.
    pub fn renew_fleet_budget(&self, by: &str, spent: PeriodSpend) {
        self.rulebook.fleet.renew(self.clock.now(), spent);
        self.system_event(SystemEvent::FleetBudgetRenewed { by: by.into(), spent });
    }

    /// A token or a key was made or taken back.
    pub fn access_changed(&self, by: &str, what: &str) {
        self.system_event(SystemEvent::AccessChanged { by: by.into(), what: what.into() });
    }

    /// A person changed an incident or an escalation. Secrets in what was written are masked with `key`.
    pub fn case_changed(&self, by: &str, mut change: CaseChange, key: [u8; 32]) {
        change.note = change.note.map(|note| Masker::new(key).text(&note).into_owned().into());
        self.system_event(SystemEvent::CaseChanged { by: by.into(), change });
    }

    /// Old records are let go, up to this one.
    pub fn pruned(&self, by: &str, to: u64) {
        self.system_event(SystemEvent::Pruned { by: by.into(), to });
    }

    /// Settings were made, changed or removed.
    pub fn settings_changed(&self, changes: Vec<SettingChange>) {
        self.system_event(SystemEvent::SettingsChanged { changes });
    }

    /// A trigger of the button stopped working, or works again.
    pub fn trigger_changed(&self, trigger: &str, working: bool, what: &str) {
        let (trigger, what) = (trigger.into(), what.into());
        self.system_event(SystemEvent::TriggerChanged { trigger, working, what });
    }

    /// The stop was tried out on a canary.
    pub fn proof_tested(&self, by: &str, passed: bool, took_us: u64) {
        self.system_event(SystemEvent::ProofTested { by: by.into(), passed, took_us });
    }

    /// Has the button kept once more as it is: whether the disk takes it.
    pub fn keep_again(&self) {
        let held = self.button.held();
        if let Some(keeper) = &self.button.keeper {
            keeper.keep(&held.latched);
        }
    }

    fn system_event(&self, event: SystemEvent) -> SystemDecision {
        let mut held = self.button.held();
        let now = self.clock.now();
        let decision = held.system.handle(now, &event);
        self.latch.set(decision.gate);
        let before = held.latched.clone();
        let after = before.clone().after(&event, &decision, now.wall);
        let is_first = matches!(event, SystemEvent::Started { .. });
        if let Some(keeper) = self.button.keeper.as_ref().filter(|_| is_first || after != before) {
            keeper.keep(&after);
        }
        held.latched = after;
        self.journal.write_system(now, event, decision);
        decision
    }
}

pub(crate) fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}
