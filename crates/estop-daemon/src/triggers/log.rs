//! Logs what the triggers did. A thread of its own: a disk that hangs holds up this thread alone.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use estop_config::printable::escaped;
use estop_core::ids::Name;
use estop_core::operator::Stopped;

use crate::latch_writer::LatchStatus;

/// What is not said yet. Beyond it nobody reads anyway; the journal has all of it.
const WAITING_MAX: usize = 64;
/// How long to wait for the disk; one that takes longer is as good as none.
const KEPT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long an ending estop waits for what is left to say.
const FAREWELL: Duration = Duration::from_millis(500);

/// What there is to say.
pub(super) enum TriggerNotice {
    Pressed { by: Name, source: Name, note: Option<Name>, stopped: Stopped, all_us: u128 },
    Lost { name: &'static str, why: String, kills: bool },
    Works { name: &'static str, what: String },
}

/// The way to the log.
pub(super) struct TriggerLogSender(SyncSender<TriggerNotice>);

impl TriggerLogSender {
    /// Hands it over and does not wait.
    pub(super) fn tell(&self, told: TriggerNotice) {
        let _ = self.0.try_send(told);
    }
}

/// The thread that speaks.
pub(super) struct TriggerLog {
    thread: Option<JoinHandle<()>>,
}

impl TriggerLog {
    /// It ends when the line is dropped and everything is said.
    pub(super) fn start(latch: LatchStatus) -> std::io::Result<(TriggerLog, TriggerLogSender)> {
        let (line, told) = sync_channel(WAITING_MAX);
        let speak = move || speak(&told, &latch);
        let thread = std::thread::Builder::new().name("estop-log".into()).spawn(speak)?;
        Ok((TriggerLog { thread: Some(thread) }, TriggerLogSender(line)))
    }

    /// Waits for what is left to say, not for ever.
    pub(super) fn finish(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        let begun = Instant::now();
        while !thread.is_finished() && begun.elapsed() < FAREWELL {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn speak(told: &Receiver<TriggerNotice>, latch: &LatchStatus) {
    for told in told {
        match told {
            TriggerNotice::Pressed { by, source, note, stopped, all_us } => {
                let note = note.map(|note| format!(" ({})", escaped(&note))).unwrap_or_default();
                tracing::error!(
                    target: "emergency",
                    "EMERGENCY STOP by {}, trigger {source}{note}. {} Gate shut after {} µs, everything told to end after \
                     {all_us} µs.",
                    escaped(&by),
                    stopped.decision.reason(),
                    stopped.gate_us,
                );
                if latch.wait(KEPT_TIMEOUT) {
                    tracing::info!(target: "emergency", "the emergency stop is on the disk.");
                } else {
                    tracing::error!(
                        target: "emergency",
                        "the emergency stop is NOT ON THE DISK: it holds, but a restart would not know of it."
                    );
                }
            }
            TriggerNotice::Lost { name, why, kills } => {
                let so =
                    if kills { "on_lost: kill, so the button is pressed" } else { "nothing else happens" };
                tracing::error!(target: "emergency", "trigger {name} DOES NOT WORK: {}. It is tried again; {so}.", escaped(&why));
            }
            TriggerNotice::Works { name, what } => {
                tracing::info!(target: "emergency", "trigger {name} works again: {}.", escaped(&what));
            }
        }
    }
}
