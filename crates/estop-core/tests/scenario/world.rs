//! The one agent and the system a script plays with, and what must hold after every event.

use estop_core::agent::standing::Standing;
use estop_core::decision::{Decision, Effect, Guard, Outcome, Ruling};
use estop_core::engine::{AgentState, Snapshot};
use estop_core::event::{Event, EventKind};
use estop_core::guards::watchdog::FleetWatchdog;
use estop_core::policy::{Mode, Policy};
use estop_core::system::{System, SystemDecision, SystemEvent};
use estop_core::time::{Millis, Now};

use super::line::{Word, duration_ms, wall_ms};

/// Friday noon, unless the script says otherwise.
const WALL_AT_START: i64 = 1_763_121_600_000;
/// The promises of `window.rs`, `rate.rs`: nothing grows beyond these.
const CONVERSATIONS_MAX: usize = 64;
const IN_FLIGHT_MAX: usize = 1024;

/// Everything a script changes.
pub(super) struct World {
    pub(super) policy: Policy,
    pub(super) state: AgentState,
    /// Sees every event as it would be read from a journal.
    twin: AgentState,
    /// There once a script uses it; then its gate comes with each event.
    pub(super) system: Option<System>,
    pub(super) now: Millis,
    /// The time of the line before.
    before: Millis,
    wall_offset: i64,
    /// What a `continues` goes on with.
    pub(super) last_prompt: String,
    /// The watchdog over all agents.
    pub(super) fleet: FleetWatchdog,
    pub(super) last: Last,
}

/// The latest answer.
pub(super) enum Last {
    Nothing,
    Agent(Box<Decision>),
    System(SystemDecision),
    /// Whether the watchdog over all agents wants the button pressed.
    Fleet(bool),
}

impl World {
    pub(super) fn new() -> World {
        World {
            policy: Policy::default(),
            state: AgentState::default(),
            twin: AgentState::default(),
            system: None,
            now: Millis(0),
            before: Millis(0),
            wall_offset: WALL_AT_START,
            last_prompt: "do the task".to_owned(),
            fleet: FleetWatchdog::default(),
            last: Last::Nothing,
        }
    }

    /// `90s`, or `+5s` after the line before.
    pub(super) fn set_time(&mut self, word: &str) -> Result<(), String> {
        self.before = self.now;
        self.now = match word.strip_prefix('+') {
            Some(later) => self.now.plus(duration_ms(later)?),
            None => Millis(duration_ms(word)?),
        };
        Ok(())
    }

    /// `wall 2025-11-14T09:30`: what the clock on the wall shows at the moment.
    pub(super) fn set_wall(&mut self, words: &[Word]) -> Result<(), String> {
        let [word] = words else { return Err("wall: which date and time?".to_owned()) };
        self.wall_offset = wall_ms(&word.text)?.wrapping_sub_unsigned(self.now.0);
        Ok(())
    }

    pub(super) fn clocks(&self) -> Now {
        Now { mono: self.now, wall: self.wall_offset.saturating_add_unsigned(self.now.0) }
    }

    pub(super) fn decision(&self) -> Result<&Decision, String> {
        match &self.last {
            Last::Agent(decision) => Ok(decision),
            Last::Nothing | Last::System(_) | Last::Fleet(_) => {
                Err("  there was no decision about an agent".to_owned())
            }
        }
    }

    pub(super) fn last_json(&self) -> String {
        match &self.last {
            Last::Nothing => "none".to_owned(),
            Last::Agent(decision) => json(decision),
            Last::System(decision) => json(decision),
            Last::Fleet(presses) => format!("press the button: {presses}"),
        }
    }

    pub(super) fn handle_system(&mut self, event: &SystemEvent) {
        let now = self.clocks();
        self.last = Last::System(self.system.get_or_insert_default().handle(now, event));
    }

    /// Another call of some agent was forwarded.
    pub(super) fn count_fleet(&mut self) {
        self.last = Last::Fleet(self.fleet.count(self.now, &self.policy.watchdog));
    }

    /// Judges an event and checks everything that always holds.
    pub(super) fn handle(&mut self, event: &Event) -> Result<(), String> {
        let before = self.state.standing();
        let decision = self.state.handle(self.clocks(), event, &self.policy);
        let replayed = self.replay(event)?;
        let wrong = self.broken_promise(before, event, &decision, &replayed);
        self.last = Last::Agent(Box::new(decision));
        wrong.map_or(Ok(()), |promise| Err(format!("  broken promise: {promise}")))
    }

    /// The same event, written down and read again, to a state of its own that is written down and read again too.
    fn replay(&mut self, event: &Event) -> Result<Decision, String> {
        let text = serde_json::to_string(event).map_err(|e| e.to_string())?;
        let read: Event = serde_json::from_str(&text).map_err(|e| format!("{text}: {e}"))?;
        if read != *event {
            return Err(format!("  an event is read otherwise than it was written: {text}"));
        }
        let kept = self.twin.snapshot(0, &self.policy);
        let Snapshot { policy, state, .. } = Snapshot::read(&kept).map_err(|e| e.to_string())?;
        if policy != self.policy {
            return Err("  a policy is read otherwise than it was written".to_owned());
        }
        self.twin = state;
        Ok(self.twin.handle(self.clocks(), &read, &self.policy))
    }

    fn broken_promise(
        &self,
        before: Standing,
        event: &Event,
        decision: &Decision,
        replayed: &Decision,
    ) -> Option<String> {
        let state = &self.state;
        if decision != replayed || json(decision) != json(replayed) {
            return Some(format!("a replay decides the same, not {}", json(replayed)));
        }
        if state.reservations_sum() != state.budget().reserved() {
            let (sum, reserved) = (state.reservations_sum(), state.budget().reserved());
            return Some(format!("what is reserved is what requests hold: {reserved:?} and {sum:?}"));
        }
        if decision.reason().is_empty() {
            return Some("every decision has a reason".to_owned());
        }
        if let Outcome::Refuse { by, .. } = decision.outcome
            && (decision.verdicts.get(by).is_none_or(|v| v.ruling != Ruling::Stop)
                || decision.verdicts.first_stop() != Some(by))
        {
            return Some("a refusal names the first guard that stops".to_owned());
        }
        if decision.outcome == Outcome::Allow && decision.verdicts.first_stop().is_some() {
            return Some("nothing is allowed that a guard stops".to_owned());
        }
        let asked: Vec<Guard> = decision.verdicts.iter().map(|(guard, _)| guard).collect();
        if !asked.is_sorted() {
            return Some("guards are asked in order".to_owned());
        }
        if decision.outcome == Outcome::Allow
            && let Some(channel) = event.what.channel()
            && (is_held_back(before, &event.what) || !event.gate.lets_pass(channel))
        {
            return Some("nothing is allowed for a stopped agent or through a shut gate".to_owned());
        }
        if let Some(promise) = self.broken_promise_of_effects(before, event, decision) {
            return Some(promise);
        }
        let (conversations, longest) = state.windows();
        let window = usize::from(self.policy.loops.window_size).max(20);
        let pushed = matches!(&event.what, EventKind::RequestReceived(_) | EventKind::ToolFinished(_));
        if conversations > CONVERSATIONS_MAX || (pushed && conversations == 1 && longest > window) {
            return Some(format!("windows have an end: {conversations} conversations, longest {longest}"));
        }
        if state.in_flight() > IN_FLIGHT_MAX {
            return Some("requests under way have an end".to_owned());
        }
        self.busy_wake()
    }

    fn broken_promise_of_effects(
        &self,
        before: Standing,
        event: &Event,
        decision: &Decision,
    ) -> Option<String> {
        let stops = decision.effects.iter().any(|effect| matches!(effect, Effect::Deactivated { .. }));
        let was_off = matches!(before, Standing::Inactive { .. });
        let is_off = matches!(self.state.standing(), Standing::Inactive { .. });
        if stops && (was_off || !is_off) {
            return Some("an agent is deactivated once, and then it is".to_owned());
        }
        if stops && decision.outcome == Outcome::Allow && matches!(event.what, EventKind::RequestReceived(_))
        {
            return Some("a request that stops its agent is not forwarded".to_owned());
        }
        if self.state.health() > 1000 {
            return Some("health has an end".to_owned());
        }
        let by = decision.refused_by()?;
        let modes = &self.policy.modes;
        let enforced = by.info().switch.is_none()
            || modes[by] == Mode::Enforce
            || by == Guard::Rate && self.state.in_flight() == IN_FLIGHT_MAX
            || by == Guard::Breaker && modes.breaker_unattended == Mode::Enforce;
        (!enforced).then(|| "only what is enforced refuses".to_owned())
    }

    /// A `Tick` at the moment that was asked for must bring something about.
    fn busy_wake(&self) -> Option<String> {
        let wake = self.state.poll_timeout(&self.policy)?;
        if wake.at == Millis(u64::MAX) {
            return None;
        }
        let mut later = self.state.clone();
        let mut now = self.clocks();
        now.mono = wake.at.max(self.now);
        later.handle(now, &Event::open(EventKind::Tick), &self.policy);
        let next = later.poll_timeout(&self.policy)?;
        (next.at <= now.mono).then(|| format!("a tick at {now:?} for {wake:?} is followed by {next:?}"))
    }

    /// Ticks whenever the agent asked for it, until the moment of the line; effects add up.
    pub(super) fn wait(&mut self) -> Result<(), String> {
        let until = self.now;
        let mut effects = Vec::new();
        for _ in 0..100_000 {
            let wake = self.state.poll_timeout(&self.policy).filter(|wake| wake.at <= until);
            self.now = wake.map_or(until, |wake| wake.at.max(self.before));
            self.handle(&Event::open(EventKind::Tick))?;
            if let Last::Agent(decision) = &mut self.last {
                effects.append(&mut decision.effects);
                if wake.is_none() {
                    decision.effects = effects;
                    return Ok(());
                }
            }
        }
        Err("  it wants to be woken all the time".to_owned())
    }
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|e| format!("not serialisable: {e}"))
}

/// A stopped agent may do nothing; a paused one may finish what runs.
fn is_held_back(standing: Standing, what: &EventKind) -> bool {
    match standing {
        Standing::Active => false,
        Standing::Inactive { .. } => true,
        Standing::Paused { .. } => !matches!(what, EventKind::StreamProgressed(_)),
    }
}
