//! Who writes the latch file, and what a slot of somebody else asks this estop for (KS-3, KS-5).

use std::sync::LazyLock;

use estop_core::system::button::{Latched, Press};
use estop_core::system::{Channel, Channels, GateView, KillReason, SystemState};

use super::{FoundLatch, FoundSlot, SlotVersion};

/// What the names of those begin with who write without estop.
const WITHOUT_ESTOP: &str = "cli-";

/// This process's name as the estop that holds a data directory.
pub(super) static DAEMON: LazyLock<String> = LazyLock::new(|| named("estop-"));
/// This process's name as one that kills without estop.
pub(super) static CLI: LazyLock<String> = LazyLock::new(|| named(WITHOUT_ESTOP));

/// Numbers of processes repeat, and in containers they are all the same.
fn named(kind: &str) -> String {
    let mut random = [0; 8];
    if getrandom::fill(&mut random).is_err() {
        random = jiff::Timestamp::now().as_millisecond().to_be_bytes();
    }
    format!("{kind}{}-{:016x}", std::process::id(), u64::from_be_bytes(random))
}

/// Whether an estop wrote it, not somebody who killed without one.
pub fn is_of_daemon(mark: &SlotVersion) -> bool {
    !mark.writer.starts_with(WITHOUT_ESTOP)
}

/// Whether this very process wrote it, as the estop that holds the data directory.
pub fn is_of_this_daemon(mark: &SlotVersion) -> bool {
    mark.writer == *DAEMON
}

/// A kill that somebody wrote into the latch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedKill {
    latched: Latched,
    /// The whole system.
    is_all: bool,
    /// Single channels.
    channels: Channels,
}

impl RequestedKill {
    /// The kill in a slot; `None` if it holds none: nobody unlocks in this way.
    pub fn of(slot: &FoundSlot) -> Option<RequestedKill> {
        let FoundLatch::Valid(latched) = &slot.found else { return None };
        let gate = latched.gate;
        let shut = if gate.state == SystemState::Running { gate.shut } else { Channels::NONE };
        let asked = slot.asked.union(shut);
        let is_all = gate.state == SystemState::Shutdown || asked == Channels::ALL;
        let channels = if asked == Channels::ALL { Channels::NONE } else { asked };
        (is_all || !channels.is_empty()).then(|| RequestedKill { latched: latched.clone(), is_all, channels })
    }

    /// What has to be killed so that a gate is as strict as the kill asks for.
    pub fn missing_in(&self, gate: GateView) -> Vec<Press> {
        let all = self.is_all && gate.state != SystemState::Shutdown;
        // While nothing passes, the gate does not tell which channels stay shut afterwards.
        let is_shut = gate.state == SystemState::Running && !self.is_all && covers(gate.shut, self.channels);
        self.presses(all, !is_shut)
    }

    /// The same for an estop that has not heard of it: a newer kill is pressed even if it changes nothing else.
    pub fn news_to(&self, gate: GateView) -> Vec<Press> {
        let missing = self.missing_in(gate);
        if missing.is_empty() && self.latched.gate.epoch > gate.epoch {
            return self.presses(self.is_all, true);
        }
        missing
    }

    /// What a start does not take from the state alone: channels killed while nothing passed.
    pub fn beside_the_state(&self) -> Vec<Press> {
        self.presses(false, self.latched.gate.state != SystemState::Running)
    }

    /// Whether it must stay on the disk until this estop has pressed it: what is to be written asks for less.
    pub fn outranks(&self, to_write: GateView) -> bool {
        strictness(self.latched.gate) >= strictness(to_write) && !self.missing_in(to_write).is_empty()
    }

    /// The whole system first: after it, single channels stay shut when it is cleared.
    fn presses(&self, all: bool, single: bool) -> Vec<Press> {
        let all = all.then_some(Channels::ALL);
        let single = Some(self.channels).filter(|channels| single && !channels.is_empty());
        all.into_iter().chain(single).map(|channels| self.press(channels)).collect()
    }

    fn press(&self, channels: Channels) -> Press {
        let Latched { reason, note, by, metadata, .. } = self.latched.clone();
        Press {
            channels,
            note: note.map(Into::into),
            metadata: metadata.map(Into::into),
            ..Press::new(reason.unwrap_or(KillReason::Manual), &by, "latch")
        }
    }
}

fn covers(set: Channels, part: Channels) -> bool {
    let all = [Channel::Llm, Channel::Tools, Channel::Messaging];
    all.into_iter().all(|channel| !part.contains(channel) || set.contains(channel))
}

fn strictness(gate: GateView) -> u8 {
    match gate.state {
        SystemState::Running => 0,
        SystemState::SafeMode => 1,
        SystemState::Starting | SystemState::Shutdown => 2,
    }
}

#[cfg(test)]
mod tests;
