//! A USB button, a pedal or a key of a keyboard, by the kernel's input devices (KS-7).

use std::os::fd::BorrowedFd;
use std::time::Instant;

use estop_config::{ButtonConfig, OnLost, WhichDevice};
use estop_core::system::button::Press;
use estop_core::system::{GateView, KillReason};

use super::attached::{Attached, Open};
use super::watch::{Trigger, TriggerReport};

#[cfg(feature = "hid")]
mod device;

/// What an input device tells of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyEvent {
    /// It went down.
    Down,
    /// The kernel forgot events, because nobody read them in time.
    Forgotten,
}

/// An input device with the key.
pub(super) trait Keys: Send {
    fn fd(&self) -> BorrowedFd<'_>;
    /// Whether the key is down now; `None` if the device does not tell.
    fn is_down(&mut self) -> Option<bool>;
    /// What happened to the key since it was asked last.
    fn events(&mut self) -> anyhow::Result<Vec<KeyEvent>>;
}

/// The button.
pub(super) struct Button {
    config: ButtonConfig,
    keys: Attached<dyn Keys>,
}

impl Button {
    pub(super) fn new(config: ButtonConfig) -> Button {
        let wanted = config.clone();
        Button::with(config, Box::new(move || open(&wanted)))
    }

    fn with(config: ButtonConfig, open: Open<dyn Keys>) -> Button {
        Button { config, keys: Attached::new(open) }
    }

    fn place(&self) -> String {
        match &self.config.device {
            WhichDevice::At(path) => path.display().to_string(),
            WhichDevice::Named(name) => format!("input device {name:?}"),
        }
    }

    fn pressed(&self, by: &str) -> TriggerReport {
        let note = format!("{} of {}", self.config.key, self.place());
        let press = Press::new(KillReason::Emergency, by, "button");
        TriggerReport::Pressed(Press { note: Some(note.into()), ..press })
    }

    fn attached(&mut self) -> Vec<TriggerReport> {
        let mut said = vec![TriggerReport::Works(format!("{} of {}", self.config.key, self.place()))];
        if self.keys.get_mut().and_then(Keys::is_down) == Some(true) {
            said.push(self.pressed("button, held when it was first read"));
        }
        said
    }

    fn watched(&mut self) -> anyhow::Result<Vec<TriggerReport>> {
        let Some(keys) = self.keys.get_mut() else { return Ok(Vec::new()) };
        let events = keys.events()?;
        if events.contains(&KeyEvent::Down) {
            return Ok(vec![self.pressed("button")]);
        }
        // Nobody knows what was forgotten; a key whose state cannot be read counts as pressed.
        let is_forgotten = events.contains(&KeyEvent::Forgotten);
        if is_forgotten && keys.is_down() != Some(false) {
            return Ok(vec![self.pressed("button, found down after events were forgotten")]);
        }
        Ok(Vec::new())
    }
}

impl Trigger for Button {
    fn name(&self) -> &'static str {
        "button"
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.keys.get().map(Keys::fd)
    }

    fn due(&self, _gate: GateView) -> Option<Instant> {
        self.keys.due()
    }

    fn look(&mut self, now: Instant, _gate: GateView) -> Vec<TriggerReport> {
        match self.keys.attach(now) {
            Some(Err(why)) => return vec![TriggerReport::Lost(format!("{}: {why}", self.place()))],
            Some(Ok(())) => return self.attached(),
            None => {}
        }
        self.watched().unwrap_or_else(|why| {
            self.keys.lose(now);
            vec![TriggerReport::Lost(format!("{}: {why}", self.place()))]
        })
    }

    fn kills_when_lost(&self) -> bool {
        self.config.on_lost == OnLost::Kill
    }
}

#[cfg(feature = "hid")]
fn open(config: &ButtonConfig) -> anyhow::Result<Box<dyn Keys>> {
    device::open(config)
}

#[cfg(not(feature = "hid"))]
fn open(_config: &ButtonConfig) -> anyhow::Result<Box<dyn Keys>> {
    anyhow::bail!("this estop was built without `hid`")
}

#[cfg(test)]
mod tests;
