//! The thread that waits for every trigger at once, and presses.

use std::io::PipeReader;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use estop_core::system::button::Press;
use estop_core::system::{GateView, KillReason};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::RedButton;
use super::log::{TriggerLogSender, TriggerNotice};
use super::status::TriggerStatus;

/// Without `poll`, everything is looked at this often. Chosen: late by a tenth of a second is still within a second.
const BLIND_INTERVAL: Duration = Duration::from_millis(100);
/// Above everything that is not urgent; below what belongs to the system.
const NICE: i32 = -5;

/// What a trigger says when it is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TriggerReport {
    /// The button is pressed.
    Pressed(Press),
    /// It would not notice a press, for this reason.
    Lost(String),
    /// It would, as this says.
    Works(String),
}

/// Something that presses the button. It never waits: every descriptor it reads is one that does not block.
pub(crate) trait Trigger: Send {
    /// As the configuration names it.
    fn name(&self) -> &'static str;

    /// What tells that something happened.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// When to look even if nothing is told.
    fn due(&self, _gate: GateView) -> Option<Instant> {
        None
    }

    /// Looks at it.
    fn look(&mut self, now: Instant, gate: GateView) -> Vec<TriggerReport>;

    /// What it said is done.
    fn acknowledge(&mut self) {}

    /// Losing it presses the button; otherwise people are told.
    fn kills_when_lost(&self) -> bool {
        false
    }
}

/// All triggers, and where they press.
pub(crate) struct Watch {
    triggers: Vec<Box<dyn Trigger>>,
    button: Arc<dyn RedButton>,
    status: Arc<TriggerStatus>,
    line: TriggerLogSender,
    stop: PipeReader,
}

impl Watch {
    pub(crate) fn new(
        triggers: Vec<Box<dyn Trigger>>,
        button: Arc<dyn RedButton>,
        status: Arc<TriggerStatus>,
        line: TriggerLogSender,
        stop: PipeReader,
    ) -> Watch {
        Watch { triggers, button, status, line, stop }
    }

    /// Waits and presses until it is told to stop.
    pub(crate) fn run(mut self) {
        let _guard = PressIfPanicking { button: Arc::clone(&self.button), status: Arc::clone(&self.status) };
        // Not being allowed to is no reason not to watch.
        let _ = rustix::process::nice(NICE);
        while let Some(ready) = self.wait() {
            let now = Instant::now();
            for (at, is_ready) in ready.into_iter().enumerate() {
                let is_due = self.triggers[at].due(self.button.gate()).is_some_and(|due| due <= now);
                if is_ready || is_due {
                    self.look_at(at, now);
                }
            }
        }
    }

    /// Looks at every trigger, whether it told something or not.
    pub(crate) fn look_at_all(&mut self, now: Instant) {
        (0..self.triggers.len()).for_each(|at| self.look_at(at, now));
    }

    /// Waits for the first that has something to tell, or is due; `None` = the end.
    fn wait(&self) -> Option<Vec<bool>> {
        let gate = self.button.gate();
        let due = self.triggers.iter().filter_map(|trigger| trigger.due(gate)).min();
        let mut fds = vec![PollFd::new(self.stop.as_fd(), PollFlags::POLLIN)];
        let mut whose = Vec::new();
        for (at, trigger) in self.triggers.iter().enumerate() {
            if let Some(fd) = trigger.fd() {
                fds.push(PollFd::new(fd, PollFlags::POLLIN));
                whose.push(at);
            }
        }
        let mut ready = vec![false; self.triggers.len()];
        match poll(&mut fds, timeout(due)) {
            Ok(_) => {}
            Err(Errno::EINTR) => return Some(ready),
            // Nothing tells any more: look at all of them, again and again.
            Err(_) => {
                std::thread::sleep(BLIND_INTERVAL);
                ready.fill(true);
                return Some(ready);
            }
        }
        let is_told = |fd: &PollFd<'_>| fd.revents().is_none_or(|events| !events.is_empty());
        if fds.first().is_some_and(is_told) {
            return None;
        }
        for (at, fd) in whose.into_iter().zip(&fds[1..]) {
            ready[at] = is_told(fd);
        }
        Some(ready)
    }

    fn look_at(&mut self, at: usize, now: Instant) {
        let trigger = &mut self.triggers[at];
        let (name, kills) = (trigger.name(), trigger.kills_when_lost());
        for said in trigger.look(now, self.button.gate()) {
            match said {
                TriggerReport::Pressed(press) => self.press(press, now),
                TriggerReport::Lost(why) => self.lost(name, &why, kills, now),
                TriggerReport::Works(what) => self.works(name, &what),
            }
        }
        self.triggers[at].acknowledge();
    }

    fn press(&self, press: Press, since: Instant) {
        let (by, source, note) = (press.by.clone(), press.source.clone(), press.note.clone());
        let stopped = self.button.kill(press);
        self.line.tell(TriggerNotice::Pressed {
            by,
            source,
            note,
            stopped,
            all_us: since.elapsed().as_micros(),
        });
    }

    fn lost(&self, name: &'static str, why: &str, kills: bool, now: Instant) {
        let is_news = self.status.set(name, false, why);
        if kills && (is_news || self.button.gate().state == estop_core::system::SystemState::Running) {
            let by = format!("{name}: lost");
            let press = Press { note: Some(why.into()), ..Press::new(KillReason::Emergency, &by, name) };
            self.press(press, now);
        }
        if is_news {
            self.button.trigger_changed(name, false, why);
            self.line.tell(TriggerNotice::Lost { name, why: why.to_owned(), kills });
        }
    }

    fn works(&self, name: &'static str, what: &str) {
        let was_lost = self.status.is_lost(name);
        self.status.set(name, true, what);
        if was_lost {
            self.button.trigger_changed(name, true, what);
            self.line.tell(TriggerNotice::Works { name, what: what.to_owned() });
        }
    }
}

/// Rounded up: looked at too early, nothing would be due.
fn timeout(due: Option<Instant>) -> PollTimeout {
    let Some(due) = due else { return PollTimeout::NONE };
    let left = due.saturating_duration_since(Instant::now());
    let ms = left.as_millis() + u128::from(left.subsec_nanos() % 1_000_000 > 0);
    PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX)
}

/// Without the thread that watches, nobody could press: then nothing passes.
struct PressIfPanicking {
    button: Arc<dyn RedButton>,
    status: Arc<TriggerStatus>,
}

impl Drop for PressIfPanicking {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.button.kill(Press::new(KillReason::Emergency, "the triggers' thread broke", "estop"));
            let why = "the thread that watches it broke: restart estop";
            for name in self.status.all_lost(why) {
                self.button.trigger_changed(name, false, why);
            }
        }
    }
}

#[cfg(test)]
mod tests;
