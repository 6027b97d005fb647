//! The daemon of a data directory: found, or started so that it outlives whoever needed it first.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use estop_config::data_dir::socket;
use rustix::process::{Pid, Signal, kill_process};

use crate::client::{Client, ClientError, Endpoint};
use crate::detach;

/// A daemon with a large journal on a slow disk takes seconds to start.
const UP_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// One that is starting answers when it is up; asked again meanwhile, in case it ends.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// Held while one is started: the second who needs one waits for it.
const LOCK: &str = "run.lock";
/// Where a daemon that was started so writes.
const LOG: &str = "serve.log";
/// What is shown of a daemon that did not come up.
const LOG_TAIL: u64 = 2048;

/// Sees to it that a daemon answers. What to tell the person, if one was started.
pub(super) fn find_or_start(data_dir: &Path, config: Option<&Path>) -> anyhow::Result<Option<String>> {
    if Endpoint::in_folder(data_dir).listens() {
        return Ok(None);
    }
    if let Some(parent) = data_dir.parent() {
        std::fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    }
    match DirBuilder::new().mode(0o700).create(data_dir) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(error).with_context(|| format!("cannot make {}", data_dir.display()));
        }
        Ok(()) | Err(_) => {}
    }
    let lock =
        OpenOptions::new().create(true).write(true).truncate(false).mode(0o600).open(data_dir.join(LOCK));
    let lock = lock.with_context(|| format!("cannot write into {}", data_dir.display()))?;
    lock.lock().context("cannot wait for another `estop run` that starts a daemon")?;
    // Another one was faster.
    if Endpoint::in_folder(data_dir).listens() {
        return Ok(None);
    }
    start(data_dir, config).map(Some)
}

fn start(data_dir: &Path, config: Option<&Path>) -> anyhow::Result<String> {
    let log = data_dir.join(LOG);
    let begins_at = log.metadata().map_or(0, |about| about.len());
    // Without a token: there is no terminal to show it on, and its file would lie where the program can read it.
    let mut words: Vec<OsString> = ["serve", "--no-token", "--data-dir"].map(Into::into).into();
    words.push(data_dir.into());
    config.into_iter().for_each(|file| words.extend(["--config".into(), file.into()]));
    let mut command = Command::new(std::env::current_exe().context("estop does not find itself")?);
    command.arg("detach").arg(&log).arg("--").args(words);
    detach::forget_run(&mut command);
    let made = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let made = made.context("cannot start a daemon")?;
    let pid: Option<u32> = std::str::from_utf8(&made.stdout).ok().and_then(|text| text.trim().parse().ok());
    let pid = pid.context("cannot start a daemon")?;
    let client = Client::to_socket(&socket(data_dir))?.within(ANSWER_TIMEOUT);
    let begun = Instant::now();
    while !client.is_answered() {
        let is_gone = !Path::new("/proc").join(pid.to_string()).exists();
        if is_gone || begun.elapsed() > UP_TIMEOUT {
            let why = if is_gone { "it ended at once" } else { "it did not answer, and was ended again" };
            let said = tail(&log, begins_at);
            // One that came up shut has nothing to answer with, and would keep the data directory from whoever fixes it.
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::TERM);
            }
            let text = format!(
                "no daemon could be started for {}: {why}. It said:\n{said}\nMend that, or start one yourself with \
                 `estop serve`.",
                data_dir.display()
            );
            return Err(ClientError::Unreachable(text).into());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(format!(
        "started a daemon for {}. It stays; to end it: kill {pid}. What it says: {}. `estop token reset` makes an admin token.",
        data_dir.display(),
        log.display()
    ))
}

/// The last words of a daemon.
fn tail(log: &Path, begins_at: u64) -> String {
    let read = || {
        let mut file = File::open(log)?;
        let end = file.metadata()?.len();
        file.seek(SeekFrom::Start(begins_at.max(end.saturating_sub(LOG_TAIL))))?;
        let mut bytes = Vec::new();
        file.take(LOG_TAIL).read_to_end(&mut bytes).map(|_| bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes).trim().to_owned();
    if text.is_empty() { "(nothing)".to_owned() } else { text }
}
