//! The red button's rules (KS-1): four states, three channels, an epoch that only grows.
//!
//! Pure state machine. The latch that makes it instant and the file that makes it durable live elsewhere
//! and follow what this says.

pub mod button;
mod event;
pub mod proof_test;

use serde::{Deserialize, Serialize};

pub use event::{CaseChange, CaseKind, CaseStep, KillReason, SettingChange, SystemEvent};

use crate::time::Now;

/// Whose records are the system's. No agent may be called so.
pub const SYSTEM: &str = "system";

/// The state of the whole system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SystemState {
    /// Nothing is known yet, so nothing passes.
    Starting,
    /// Normal work.
    Running,
    /// The button is pressed.
    Shutdown,
    /// Unlocked by an admin, not yet cleared: people may look, agents may not work.
    SafeMode,
}

/// What an agent can touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// Model calls.
    Llm,
    /// Tool calls.
    Tools,
    /// Messages in and out.
    Messaging,
}

/// A set of channels. Written as a number: 1 llm, 2 tools, 4 messaging.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Channels(u8);

impl TryFrom<u8> for Channels {
    type Error = &'static str;

    fn try_from(bits: u8) -> Result<Channels, &'static str> {
        if bits <= Channels::ALL.0 { Ok(Channels(bits)) } else { Err("channels are a number from 0 to 7") }
    }
}

impl From<Channels> for u8 {
    fn from(channels: Channels) -> u8 {
        channels.0
    }
}

impl Channels {
    /// No channel.
    pub const NONE: Channels = Channels(0);
    /// Every channel.
    pub const ALL: Channels = Channels(7);

    /// The set with `channel` in it too.
    pub const fn with(self, channel: Channel) -> Channels {
        Channels(self.0 | 1 << channel as u8)
    }

    /// All that is in either.
    pub const fn union(self, other: Channels) -> Channels {
        Channels(self.0 | other.0)
    }

    /// Whether `channel` is in the set.
    pub const fn contains(self, channel: Channel) -> bool {
        self.0 & 1 << channel as u8 != 0
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// What the gate word said when an event was judged. It comes with the event, so that each agent's journal
/// replays without the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateView {
    /// Grows with each kill, restart and clear.
    pub epoch: u64,
    /// The state of the system.
    pub state: SystemState,
    /// Channels that are shut.
    pub shut: Channels,
}

impl GateView {
    /// An undisturbed system, the usual case. There is no default: whoever judges must have looked.
    pub const OPEN: GateView = GateView { epoch: 0, state: SystemState::Running, shut: Channels::NONE };

    /// Whether this is an undisturbed system.
    pub fn is_open(&self) -> bool {
        *self == GateView::OPEN
    }

    /// Whether something is shut.
    pub fn is_pressed(&self) -> bool {
        self.state != SystemState::Running || !self.shut.is_empty()
    }

    /// The stricter state of the two, everything shut that either has shut, and the later epoch.
    fn stricter(self, other: GateView) -> GateView {
        let strictness = |state| match state {
            SystemState::Running => 0,
            SystemState::SafeMode => 1,
            SystemState::Starting | SystemState::Shutdown => 2,
        };
        let state = if strictness(other.state) > strictness(self.state) { other.state } else { self.state };
        GateView { epoch: self.epoch.max(other.epoch), state, shut: self.shut.union(other.shut) }
    }

    /// Whether something may pass on `channel`.
    pub fn lets_pass(&self, channel: Channel) -> bool {
        self.state == SystemState::Running && !self.shut.contains(channel)
    }
}

/// What became of a system event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemDecision {
    /// What the system does about it.
    pub outcome: SystemOutcome,
    /// What the gate word must say from here on.
    pub gate: GateView,
}

/// The answer to a system event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SystemOutcome {
    /// Done; shut what became shut and abort what is in flight there.
    Applied,
    /// Already so; nothing changes.
    AlreadySo,
    /// Not from this state (409).
    IllegalFrom(SystemState),
    /// A newer kill came in between; look again (409).
    StaleEpoch,
    /// Only written down.
    Noted,
}

impl SystemDecision {
    /// One sentence for the person who asked.
    pub fn reason(&self) -> &'static str {
        match self.outcome {
            SystemOutcome::Applied => match self.gate.state {
                SystemState::Starting => "Starting: nothing passes yet.",
                SystemState::Running if self.gate.shut.is_empty() => "Running: everything may pass.",
                SystemState::Running => "Running, with channels shut.",
                SystemState::Shutdown => "Shut down: nothing passes until an admin restarts and clears.",
                SystemState::SafeMode => "Safe mode: agents stay stopped until an admin clears.",
            },
            SystemOutcome::AlreadySo => "Already so: nothing changed.",
            SystemOutcome::IllegalFrom(SystemState::Starting) => "Refused: the system is still starting.",
            SystemOutcome::IllegalFrom(SystemState::Running) => {
                "Refused: the system is running; there is nothing to restart or clear."
            }
            SystemOutcome::IllegalFrom(SystemState::Shutdown) => {
                "Refused: the system is shut down; restart into safe mode first."
            }
            SystemOutcome::IllegalFrom(SystemState::SafeMode) => {
                "Refused: the system is in safe mode already; clear it to run."
            }
            SystemOutcome::StaleEpoch => {
                "Refused: a newer kill came in between. Look at the status and try again."
            }
            SystemOutcome::Noted => "Noted.",
        }
    }
}

/// The state machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    gate: GateView,
    /// Channels that were killed one by one; clearing the system does not open them.
    killed: Channels,
}

impl Default for System {
    fn default() -> Self {
        System {
            gate: GateView { epoch: 0, state: SystemState::Starting, shut: Channels::NONE },
            killed: Channels::NONE,
        }
    }
}

impl System {
    /// As far as a gate word tells it: for a journal whose beginning is gone.
    pub fn at(gate: GateView) -> System {
        let killed = if gate.state == SystemState::Running { gate.shut } else { Channels::NONE };
        System { gate, killed }
    }

    /// What the gate word must say.
    pub fn gate(&self) -> GateView {
        self.gate
    }

    /// The only way the state changes.
    pub fn handle(&mut self, _now: Now, event: &SystemEvent) -> SystemDecision {
        let outcome = match event {
            SystemEvent::Started { found } => self.start(*found),
            SystemEvent::KillRequested { channels, .. } => self.kill(*channels),
            SystemEvent::RestartRequested { epoch, .. } => {
                self.step(*epoch, SystemState::Shutdown, SystemState::SafeMode)
            }
            SystemEvent::ClearRequested { epoch, .. } => self.clear(*epoch),
            SystemEvent::ConfigurationRead { .. }
            | SystemEvent::PresetChanged { .. }
            | SystemEvent::FleetBudgetRenewed { .. }
            | SystemEvent::AccessChanged { .. }
            | SystemEvent::SettingsChanged { .. }
            | SystemEvent::CaseChanged { .. }
            | SystemEvent::TriggerChanged { .. }
            | SystemEvent::PartChanged { .. }
            | SystemEvent::ProofTested { .. }
            | SystemEvent::Pruned { .. } => SystemOutcome::Noted,
        };
        SystemDecision { outcome, gate: self.gate }
    }

    /// What the latch says and what the journal says are joined, and the stricter wins: a start never opens
    /// what either of them has shut.
    fn start(&mut self, found: Option<GateView>) -> SystemOutcome {
        let before = self.gate;
        // A process that died while starting had not been cleared by anyone.
        let unfinished = |view: GateView| match view.state {
            SystemState::Starting => GateView { state: SystemState::Shutdown, shut: Channels::ALL, ..view },
            SystemState::Running | SystemState::Shutdown | SystemState::SafeMode => view,
        };
        let first_start = before.state == SystemState::Starting;
        self.gate = match found.map(unfinished) {
            None if first_start => GateView { epoch: 1, ..GateView::OPEN },
            None => before,
            Some(latch) if first_start => latch,
            Some(latch) => before.stricter(latch),
        };
        self.gate.epoch = self.gate.epoch.max(before.epoch);
        if first_start && !before.shut.is_empty() {
            // A channel was killed while starting; whoever opens it must have seen that.
            let shut = self.gate.shut.union(before.shut);
            self.gate = GateView { epoch: self.gate.epoch.saturating_add(1), shut, ..self.gate };
        }
        if self.gate.state == SystemState::Running {
            self.killed = self.gate.shut;
        }
        if self.gate == before { SystemOutcome::AlreadySo } else { SystemOutcome::Applied }
    }

    /// Kill works from every state. Shutting single channels leaves the rest running; killed after the button was
    /// pressed, they stay shut when the system is cleared.
    fn kill(&mut self, channels: Channels) -> SystemOutcome {
        let channels = if channels.is_empty() { Channels::ALL } else { channels };
        let before = (self.gate.state, self.gate.shut, self.killed);
        self.gate.epoch = self.gate.epoch.saturating_add(1);
        if channels == Channels::ALL {
            self.gate.state = SystemState::Shutdown;
            self.gate.shut = Channels::ALL;
            self.killed = Channels::NONE;
        } else {
            self.gate.shut = self.gate.shut.union(channels);
            self.killed = self.killed.union(channels);
        }
        let same = before == (self.gate.state, self.gate.shut, self.killed);
        if same { SystemOutcome::AlreadySo } else { SystemOutcome::Applied }
    }

    /// SAFE_MODE → RUNNING; or, while RUNNING, opens channels that were killed one by one.
    fn clear(&mut self, epoch: u64) -> SystemOutcome {
        if self.gate.state == SystemState::Running && !self.gate.shut.is_empty() {
            let killed = std::mem::take(&mut self.killed);
            let outcome = self.step(epoch, SystemState::Running, SystemState::Running);
            if outcome != SystemOutcome::Applied {
                self.killed = killed;
            }
            return outcome;
        }
        self.step(epoch, SystemState::SafeMode, SystemState::Running)
    }

    fn step(&mut self, epoch: u64, from: SystemState, to: SystemState) -> SystemOutcome {
        if self.gate.state != from {
            return SystemOutcome::IllegalFrom(self.gate.state);
        }
        // Whoever unlocks must have seen the newest kill.
        if epoch != self.gate.epoch {
            return SystemOutcome::StaleEpoch;
        }
        let shut = if to == SystemState::Running { self.killed } else { Channels::ALL };
        self.gate = GateView { epoch: epoch.saturating_add(1), state: to, shut };
        SystemOutcome::Applied
    }
}
