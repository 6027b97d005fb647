//! A kill without an answer from estop: the latch is written, the process that holds the data directory is told by a
//! signal, and what is and is not stopped is said.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use estop_config::data_dir::{database, socket};
use estop_core::system::button::{Latched, Press};
use estop_core::system::{Channel, Channels, SystemState};
use estop_store::{DataLock, FoundLatch, FoundSlot, LatchFile, SlotVersion, is_of_daemon, latch_path};
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::holder::Holder;
use crate::Exit;
use crate::client::{Ask, Client, path};
use crate::open_store::lock;

/// A disk that takes longer is as good as none; the process is told meanwhile.
const WRITTEN_TIMEOUT: Duration = Duration::from_secs(1);
/// A process that can obey does so at once.
const OBEYED_TIMEOUT: Duration = Duration::from_millis(1_000);
const TOLD_AFTER: Duration = Duration::from_millis(200);
const SAID_TIMEOUT: Duration = Duration::from_millis(300);
const GONE_TIMEOUT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A kill that must do without estop's answer.
pub(super) struct OfflineKill<'a> {
    pub(super) folder: &'a Path,
    pub(super) press: Press,
    /// End the process if nothing else helps.
    pub(super) force: bool,
}

/// What became of it.
pub(super) struct Done {
    folder: PathBuf,
    /// How the latch stands on the disk, or why it could not be written.
    written: anyhow::Result<Written>,
    daemon: Outcome,
}

/// The latch as it was written, and by which write.
type Written = (Latched, SlotVersion);

/// What became of the process that holds the data directory.
enum Outcome {
    /// There is no such folder.
    NoFolder,
    /// Nobody holds it.
    None,
    /// It obeyed, though it did not answer.
    Obeyed(Option<i32>),
    /// It was ended.
    Ended(i32),
    /// It may still run. Its number, if it can be told, and whether it was sent a signal.
    MayRun(Option<i32>, bool),
}

impl OfflineKill<'_> {
    pub(super) fn stop(self) -> Done {
        let folder = self.folder.to_owned();
        if !folder.is_dir() {
            let written = Err(anyhow!("there is no such folder"));
            return Done { folder, written, daemon: Outcome::NoFolder };
        }
        // Held while the latch is written: nobody starts in between without seeing it.
        let free = is_free(&folder);
        let written = self.write_latch();
        let daemon = match free {
            Some(lock) => {
                drop(lock);
                Outcome::None
            }
            None => self.tell_holder(written.as_ref().ok()),
        };
        Done { folder, written, daemon }
    }

    /// Writes the latch as a kill leaves it. On a thread of its own: a disk may hang.
    fn write_latch(&self) -> anyhow::Result<Written> {
        let (folder, press) = (self.folder.to_owned(), self.press.clone());
        let (send, written) = channel();
        std::thread::spawn(move || {
            // Nobody listens any more after a while.
            let _ = send.send(write(&folder, &press, &mut LatchFile::as_cli(&folder)));
        });
        match written.recv_timeout(WRITTEN_TIMEOUT) {
            Ok(written) => Ok(written?),
            Err(_) => bail!("the disk does not answer"),
        }
    }

    fn tell_holder(&self, written: Option<&Written>) -> Outcome {
        let holder = Holder::of_folder(self.folder);
        // SIGUSR1 stops everything. Who asked for single channels has the latch, which a working estop reads.
        let is_all = self.press.channels == Channels::ALL;
        let mut told = false;
        let pid = holder.as_ref().map(|holder| holder.pid);
        let begun = Instant::now();
        while begun.elapsed() < OBEYED_TIMEOUT {
            // The latch says who and why, a signal does not: so the signal comes a little later.
            let may_tell = is_all && !told && (written.is_none() || begun.elapsed() > TOLD_AFTER);
            told |= may_tell && holder.as_ref().is_some_and(Holder::press);
            if is_free(self.folder).is_some() {
                return pid.map_or(Outcome::None, Outcome::Ended);
            }
            if self.is_obeyed(written) {
                return Outcome::Obeyed(pid);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        if self.says_so() {
            return Outcome::Obeyed(pid);
        }
        match holder.filter(|_| self.force) {
            Some(holder) if holder.kill() && gone(self.folder) => Outcome::Ended(holder.pid),
            _ => Outcome::MayRun(pid, told),
        }
    }

    /// A process that obeys writes the latch itself: after us, and nothing less shut. Somebody else who kills does not make
    /// it obey.
    fn is_obeyed(&self, written: Option<&Written>) -> bool {
        let FoundSlot { found: FoundLatch::Valid(found), mark: Some(mark), .. } =
            LatchFile::look_at_slot(self.folder)
        else {
            return false;
        };
        let is_answer = written.is_some_and(|(_, ours)| is_of_daemon(&mark) && mark.serial > ours.serial);
        is_answer && self.wanted().all(|(channel, _)| !found.gate.lets_pass(channel))
    }

    /// Whether estop answers after all, and says that it is stopped: the disk alone may be what hangs.
    fn says_so(&self) -> bool {
        let Ok(client) = Client::to_socket(&socket(self.folder)) else { return false };
        let ask = Ask::new(Method::GET, path(&["emergency", "status"]));
        let answer = client.within(SAID_TIMEOUT).ask(&ask);
        answer.is_ok_and(|answer| self.wanted().all(|(_, key)| answer.json[key] == false))
    }

    /// The channels that must be shut, and what the status calls each.
    fn wanted(&self) -> impl Iterator<Item = (Channel, &'static str)> {
        let wanted = self.press.channels;
        let all = [
            (Channel::Llm, "llmEnabled"),
            (Channel::Tools, "toolsEnabled"),
            (Channel::Messaging, "messagingEnabled"),
        ];
        all.into_iter().filter(move |(channel, _)| wanted.contains(*channel))
    }
}

/// The lock of the data directory, if nobody has it.
fn is_free(folder: &Path) -> Option<DataLock> {
    // Somebody has it, or it cannot be looked at: then somebody may.
    lock(&database(folder)).ok()
}

fn gone(folder: &Path) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < GONE_TIMEOUT {
        if is_free(folder).is_some() {
            return true;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    false
}

fn write(folder: &Path, press: &Press, file: &mut LatchFile) -> io::Result<Written> {
    file.kill(press, !database(folder).exists(), Timestamp::now().as_millisecond())
}

impl Done {
    pub(super) fn exit(&self) -> Exit {
        match (&self.daemon, &self.written) {
            (Outcome::Obeyed(_), _) | (Outcome::None | Outcome::Ended(_), Ok(_)) => Exit::Fine,
            // Nothing runs, but the next start would.
            (Outcome::None | Outcome::Ended(_), Err(_)) => Exit::No,
            (Outcome::NoFolder | Outcome::MayRun(..), _) => Exit::Unreachable,
        }
    }

    pub(super) fn text(&self, why: &str) -> String {
        format!("No answer: {why}\n{}\n{}", self.latch_text(), self.daemon_text())
    }

    fn latch_text(&self) -> String {
        let path = latch_path(&self.folder);
        match &self.written {
            Ok((latched, _)) if latched.gate.state == SystemState::Running => {
                format!("Written to the latch {}: a start comes up with these channels shut.", path.display())
            }
            Ok(_) => format!("Written to the latch {}: a start comes up stopped.", path.display()),
            Err(error) => {
                format!(
                    "NOT written to the latch {}: {error}. The next start does not know of this.",
                    path.display()
                )
            }
        }
    }

    fn daemon_text(&self) -> String {
        let folder = self.folder.display();
        match &self.daemon {
            Outcome::NoFolder => format!(
                "NOTHING WAS STOPPED: {folder} is not there, so no estop keeps its data in it. Name the right one with \
                 --data-dir or --config."
            ),
            Outcome::None => "STOPPED: no estop runs on this data directory, so nothing passes.".to_owned(),
            Outcome::Obeyed(_) => {
                "STOPPED: estop did not answer, but it obeyed: its gate is shut.".to_owned()
            }
            Outcome::Ended(pid) => {
                format!("STOPPED: the estop process {pid} is gone. estop down means agents stopped.")
            }
            Outcome::MayRun(pid, told) => {
                let told = if *told { "It was sent SIGUSR1 and did not obey so far. " } else { "" };
                let fix = match pid {
                    Some(pid) => format!(
                        "End it: kill -9 {pid} (or estop kill --force). estop down means agents stopped, and with the latch \
                         it comes up stopped."
                    ),
                    None => "Which process it is cannot be seen from here: end it with kill -9, as its user or where it \
                             runs (another user, a container?)."
                        .to_owned(),
                };
                format!("NOT KNOWN TO BE STOPPED: a process holds {folder} and does not answer. {told}{fix}")
            }
        }
    }

    pub(super) fn json(&self, why: &str) -> Value {
        let (outcome, pid) = match &self.daemon {
            Outcome::NoFolder => ("no_data_dir", None),
            Outcome::None => ("none", None),
            Outcome::Obeyed(pid) => ("obeyed", *pid),
            Outcome::Ended(pid) => ("ended", Some(*pid)),
            Outcome::MayRun(pid, _) => ("may_run", *pid),
        };
        let error = self.written.as_ref().err().map(ToString::to_string);
        let epoch = self.written.as_ref().ok().map(|(latched, _)| latched.gate.epoch);
        json!({
            "answered": false,
            "why": why,
            "latch": {"written": error.is_none(), "error": error, "epoch": epoch},
            "daemon": {"state": outcome, "pid": pid},
            "stopped": self.exit() == Exit::Fine,
            "message": format!("{} {}", self.latch_text(), self.daemon_text()),
        })
    }
}

#[cfg(test)]
mod tests;
