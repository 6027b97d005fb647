//! The red button, pressed and unlocked at random, with a second opinion of what it must say.

use estop_core::ids::Name;
use estop_core::system::button::Press;
use estop_core::system::{
    Channel, Channels, GateView, KillReason, System, SystemDecision, SystemEvent, SystemOutcome, SystemState,
};
use estop_core::time::Now;

use crate::broken::{Breach, Holds, ensure};
use crate::prng::Rng;

/// The system's state, and the view before the last change: what a racing event may still carry.
#[derive(Debug)]
pub struct Button {
    system: System,
    before: GateView,
    /// What the model says: whether anything may pass at all.
    works: bool,
}

impl Default for Button {
    /// A system that has not started yet.
    fn default() -> Self {
        Button { system: System::default(), before: System::default().gate(), works: false }
    }
}

impl Button {
    /// The view that an event of this moment carries; now and then one taken before the last change.
    pub fn view(&self, rng: &mut Rng) -> GateView {
        if rng.per_mille(20) { self.before } else { self.system.gate() }
    }

    /// Something happens to the system.
    pub fn handle(&mut self, now: Now, event: &SystemEvent) -> Result<SystemDecision, Breach> {
        let before = self.system.gate();
        let decision = self.system.handle(now, event);
        let after = self.system.gate();
        self.expect(event, before, &decision);
        self.check(event, before, &decision)?;
        if after != before {
            self.before = before;
        }
        Ok(decision)
    }

    /// What the rules of KS-1 make of it, said in other words.
    fn expect(&mut self, event: &SystemEvent, before: GateView, decision: &SystemDecision) {
        match event {
            SystemEvent::Started { found } => {
                self.works = match found {
                    None => true,
                    Some(found) if before.state == SystemState::Starting => {
                        found.state == SystemState::Running
                    }
                    Some(found) => self.works && found.state == SystemState::Running,
                }
            }
            SystemEvent::KillRequested { channels, .. } => {
                self.works &= !(channels.is_empty() || *channels == Channels::ALL);
            }
            SystemEvent::ClearRequested { epoch, .. } => {
                let unlocked = before.state == SystemState::SafeMode && *epoch == before.epoch;
                self.works |= unlocked && decision.outcome == SystemOutcome::Applied;
            }
            SystemEvent::RestartRequested { .. }
            | SystemEvent::ConfigurationRead { .. }
            | SystemEvent::AccessChanged { .. }
            | SystemEvent::SettingsChanged { .. }
            | SystemEvent::CaseChanged { .. }
            | SystemEvent::PresetChanged { .. }
            | SystemEvent::FleetBudgetRenewed { .. }
            | SystemEvent::TriggerChanged { .. }
            | SystemEvent::PartChanged { .. }
            | SystemEvent::Pruned { .. }
            | SystemEvent::ProofTested { .. } => {}
        }
    }

    fn check(&self, event: &SystemEvent, before: GateView, decision: &SystemDecision) -> Holds {
        let after = self.system.gate();
        let runs = after.state == SystemState::Running;
        ensure(runs == self.works, "the_button_stays_pressed", || {
            format!(
                "from {before:?} to {after:?}, and the model says it {}",
                if self.works { "works" } else { "is shut" }
            )
        })?;
        let open = [Channel::Llm, Channel::Tools, Channel::Messaging].into_iter().any(|c| after.lets_pass(c));
        ensure(self.works || !open, "the_button_shuts_everything", || format!("{after:?}"))?;
        ensure(after.epoch >= before.epoch, "the_epoch_only_grows", || {
            format!("from {} to {}", before.epoch, after.epoch)
        })?;
        // A start may find less open than it was, and says so under the same epoch.
        let changed = (before.state, before.shut) != (after.state, after.shut)
            && !matches!(event, SystemEvent::Started { .. });
        ensure(!changed || after.epoch != before.epoch, "the_epoch_only_grows", || {
            format!("{before:?} became {after:?} under the same epoch")
        })?;
        ensure(!decision.reason().is_empty(), "every_decision_has_a_reason", || format!("{decision:?}"))
    }

    /// Somebody presses, unlocks or tries to.
    pub fn any_event(&self, rng: &mut Rng) -> SystemEvent {
        let by: fn() -> Name = || "ann".into();
        let gate = self.system.gate();
        let epoch = if rng.per_mille(900) { gate.epoch } else { gate.epoch.saturating_sub(1) };
        let disturbed = gate.state != SystemState::Running || !gate.shut.is_empty();
        match rng.below(if disturbed { 12 } else { 3 }) {
            0 => kill(Channels::ALL),
            1 => kill(Channels::NONE.with(rng.pick(&[Channel::Llm, Channel::Tools, Channel::Messaging]))),
            2 => SystemEvent::ClearRequested { by: by(), epoch, note: None },
            3..=7 if gate.state == SystemState::Shutdown => {
                SystemEvent::RestartRequested { by: by(), epoch, note: None }
            }
            8 => SystemEvent::RestartRequested { by: by(), epoch, note: None },
            _ => SystemEvent::ClearRequested { by: by(), epoch, note: None },
        }
    }

    /// What the latch file says when the process comes up again; its last write may have been lost.
    pub fn found_at_start(&self, rng: &mut Rng) -> SystemEvent {
        let found = if rng.per_mille(200) { self.before } else { self.system.gate() };
        SystemEvent::Started { found: Some(found) }
    }

    /// Whether somebody ought to unlock it.
    pub fn is_disturbed(&self) -> bool {
        !self.works || !self.system.gate().shut.is_empty()
    }
}

/// The button, pressed for these channels.
pub fn kill(channels: Channels) -> SystemEvent {
    Press { channels, ..Press::new(KillReason::Manual, "ann", "") }.event()
}
