//! A push button on a GPIO line (KS-7).
//!
//! The line is pulled up. Normally open: the button connects it to ground, pressed is low. Normally closed: the button
//! takes it off the ground, pressed is high, and so is a cut wire.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use estop_config::{GpioConfig, OnLost};
use estop_core::system::button::Press;
use estop_core::system::{GateView, KillReason, SystemState};

use super::attached::{Attached, Open};
use super::watch::{Trigger, TriggerReport};

#[cfg(feature = "gpio")]
mod line;

/// How often the level is read: a line that is gone, and a button that is still held, are noticed in this time.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A line of a chip.
pub(super) trait Line: Send {
    fn fd(&self) -> BorrowedFd<'_>;
    /// Edges come only once the line is calm.
    fn is_debounced(&self) -> bool;
    fn is_high(&mut self) -> anyhow::Result<bool>;
    /// Changes since it was asked last: `true` = to high.
    fn edges(&mut self) -> anyhow::Result<Vec<bool>>;
}

/// The button.
pub(super) struct Gpio {
    config: GpioConfig,
    line: Attached<dyn Line>,
    /// Since when the line says "pressed", while it is not believed so far.
    active_since: Option<Instant>,
    /// It was believed and is still held.
    held: bool,
    look_at: Instant,
}

impl Gpio {
    pub(super) fn new(config: GpioConfig) -> Gpio {
        let wanted = config.clone();
        Gpio::with(config, Box::new(move || open(&wanted)))
    }

    fn with(config: GpioConfig, open: Open<dyn Line>) -> Gpio {
        let line = Attached::new(open);
        Gpio { config, line, active_since: None, held: false, look_at: Instant::now() }
    }

    fn place(&self) -> String {
        format!("{} line {}", self.config.chip.display(), self.config.line)
    }

    fn pressed(&self, by: &str) -> TriggerReport {
        let wire = if self.config.normally_closed { "high: the button, or a cut wire" } else { "low" };
        let note = format!("{} is {wire}", self.place());
        let press = Press::new(KillReason::Emergency, by, "gpio");
        // As seed 5 keeps it with the kill.
        let metadata = serde_json::json!({ "source": "hardware_button", "pin": self.config.line });
        TriggerReport::Pressed(Press {
            note: Some(note.into()),
            metadata: Some(metadata.to_string().into()),
            ..press
        })
    }

    /// How long the line must say "pressed"; nothing if the kernel sees to it.
    fn debounce(&self) -> Duration {
        let is_debounced = self.line.get().is_some_and(Line::is_debounced);
        if is_debounced { Duration::ZERO } else { self.config.debounce }
    }

    /// The line is there: what it says counts at once.
    fn attached(&mut self, now: Instant) -> anyhow::Result<Vec<TriggerReport>> {
        (self.active_since, self.held, self.look_at) = (None, false, now + POLL_INTERVAL);
        let kind = if self.config.normally_closed { "normally closed" } else { "normally open" };
        let mut said = vec![TriggerReport::Works(format!("{}, {kind}", self.place()))];
        if self.is_active()? {
            self.held = true;
            said.push(self.pressed("button on the GPIO line, held when it was first read"));
        }
        Ok(said)
    }

    fn is_active(&mut self) -> anyhow::Result<bool> {
        let normally_closed = self.config.normally_closed;
        self.line.get_mut().map_or(Ok(false), |line| Ok(line.is_high()? == normally_closed))
    }

    fn watched(&mut self, now: Instant, gate: GateView) -> anyhow::Result<Vec<TriggerReport>> {
        let mut said = Vec::new();
        let edges = self.line.get_mut().map_or(Ok(Vec::new()), Line::edges)?;
        for is_high in edges {
            self.changed(is_high == self.config.normally_closed, now);
            said.extend(self.believed(now)?);
        }
        said.extend(self.believed(now)?);
        if now >= self.look_at {
            self.look_at = now + POLL_INTERVAL;
            let is_active = self.is_active()?;
            if is_active != self.held {
                // An edge nobody told of.
                self.changed(is_active, now);
            } else if is_active && gate.state == SystemState::Running {
                said.push(self.pressed("button on the GPIO line, still held"));
            }
        }
        Ok(said)
    }

    fn changed(&mut self, is_active: bool, now: Instant) {
        if !is_active {
            (self.active_since, self.held) = (None, false);
        } else if !self.held {
            self.active_since.get_or_insert(now);
        }
    }

    /// A press, once the line has said so for long enough.
    fn believed(&mut self, now: Instant) -> anyhow::Result<Option<TriggerReport>> {
        let debounce = self.debounce();
        let Some(since) = self.active_since.filter(|since| now >= *since + debounce) else { return Ok(None) };
        self.active_since = None;
        // Its end may not have been told so far.
        if now > since && !debounce.is_zero() && !self.is_active()? {
            return Ok(None);
        }
        self.held = true;
        Ok(Some(self.pressed("button on the GPIO line")))
    }
}

impl Trigger for Gpio {
    fn name(&self) -> &'static str {
        "gpio"
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.line.get().map(Line::fd)
    }

    fn due(&self, _gate: GateView) -> Option<Instant> {
        let believed = self.active_since.map(|since| since + self.debounce());
        let look = self.line.get().map(|_| self.look_at);
        believed.into_iter().chain(look).chain(self.line.due()).min()
    }

    fn look(&mut self, now: Instant, gate: GateView) -> Vec<TriggerReport> {
        let said = match self.line.attach(now) {
            Some(Err(why)) => return vec![TriggerReport::Lost(format!("{}: {why}", self.place()))],
            // Missing, and it is too early to try again.
            None if self.line.get().is_none() => return Vec::new(),
            Some(Ok(())) => self.attached(now),
            None => self.watched(now, gate),
        };
        said.unwrap_or_else(|why| {
            self.line.lose(now);
            self.active_since = None;
            vec![TriggerReport::Lost(format!("{}: {why}", self.place()))]
        })
    }

    fn kills_when_lost(&self) -> bool {
        self.config.on_lost == OnLost::Kill
    }
}

#[cfg(feature = "gpio")]
fn open(config: &GpioConfig) -> anyhow::Result<Box<dyn Line>> {
    line::open(config)
}

#[cfg(not(feature = "gpio"))]
fn open(_config: &GpioConfig) -> anyhow::Result<Box<dyn Line>> {
    anyhow::bail!("this estop was built without `gpio`")
}

#[cfg(test)]
mod tests;
