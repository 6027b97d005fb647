//! The canary's process: the estop binary itself, asleep, which notes SIGTERM and does not obey it.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::Context;
use estop_core::system::proof_test::ProofStep;
use estop_gateway::{CANARY, RunningTool};
use estop_supervise::{KILL_AFTER, Orphans, Start, Supervised};

use super::{micros, since, step};

/// What it says when it is there, and when it gets SIGTERM.
pub(super) const READY: &str = "ready";
/// See [`READY`].
pub(super) const TOLD: &str = "told";

/// This very program, also after its file was replaced.
const SELF: &str = "/proc/self/exe";
/// How long it may take to come up, and to be gone after SIGKILL.
const PATIENCE: Duration = Duration::from_secs(5);

/// The process, under the supervisor.
pub(super) struct CanaryProcess {
    supervised: Arc<Supervised>,
    said: Receiver<(String, Instant)>,
    ended: Receiver<Instant>,
}

/// The process as the list of running tools has it.
struct Tool(Arc<Supervised>);

impl RunningTool for Tool {
    fn end(&self, why: &str) {
        self.0.end(why);
    }

    fn agent(&self) -> Option<&str> {
        self.0.agent()
    }
}

impl CanaryProcess {
    /// Starts it and waits until it is there.
    pub(super) fn start() -> anyhow::Result<CanaryProcess> {
        let start = Start {
            program: SELF.as_ref(),
            args: &["canary".into()],
            agent: Some(CANARY),
            orphans: Orphans::Marked,
            shim: Some(PathBuf::from(SELF)),
            leash: false,
            own_group: true,
        };
        let (supervised, mut child) = start.start(|command| {
            // It ends when its input does: with this estop, whatever becomes of it.
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        })?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let supervised = Arc::new(supervised);
        let (tell, said) = channel();
        let (notice, ended) = channel();
        let waiting = Arc::clone(&supervised);
        std::thread::Builder::new().name("estop-canary-wait".into()).spawn(move || {
            for line in BufReader::new(output.map_or_else(empty, boxed)).lines() {
                let Ok(line) = line else { break };
                // Nobody listens any more when the test was given up.
                let _ = tell.send((line, Instant::now()));
            }
            // Reaped here; its number is free for others after this.
            let _ = waiting.wait(child);
            let _ = notice.send(Instant::now());
            drop(input);
        })?;
        let process = CanaryProcess { supervised, said, ended };
        let ready = process.said.recv_timeout(PATIENCE).context("it did not come up")?;
        anyhow::ensure!(ready.0 == READY, "it said something else than that it is ready");
        Ok(process)
    }

    /// For the list of tools that run.
    pub(super) fn tool(&self) -> Arc<dyn RunningTool> {
        Arc::new(Tool(Arc::clone(&self.supervised)))
    }

    /// It got SIGTERM.
    pub(super) fn told(&self, within: Duration, begun: Instant) -> ProofStep {
        let told = self.said.recv_timeout(within).ok().filter(|(word, _)| word == TOLD);
        match told {
            Some((_, at)) => step("sigterm", true, since(at, begun), "the process got SIGTERM"),
            None => step("sigterm", false, micros(begun), "the process got NO SIGTERM"),
        }
    }

    /// It is dead and buried, by SIGKILL and not before its time.
    pub(super) fn dead(&self, begun: Instant) -> ProofStep {
        let ended = self.supervised.ended(KILL_AFTER + PATIENCE);
        let reaped = self.ended.recv_timeout(PATIENCE).ok();
        match (ended, reaped) {
            (Some(ended), Some(at)) if ended.survivors.is_empty() && ended.killed > 0 => step(
                "sigkill",
                true,
                since(at, begun),
                "it ignored SIGTERM, was killed after 2 s, and nothing is left",
            ),
            (Some(ended), Some(at)) if ended.survivors.is_empty() => {
                step("sigkill", false, since(at, begun), "it ended before SIGKILL, which it should not have")
            }
            _ => step("sigkill", false, micros(begun), "the process LIVES"),
        }
    }
}

/// A test that was given up leaves no process behind.
impl Drop for CanaryProcess {
    fn drop(&mut self) {
        self.supervised.end("the test was given up");
    }
}

type Output = Box<dyn std::io::Read + Send>;

fn boxed(output: std::process::ChildStdout) -> Output {
    Box::new(output)
}

fn empty() -> Output {
    Box::new(std::io::empty())
}
