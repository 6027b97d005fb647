//! `estop serve`: the data plane, between agents and their models.

use std::path::PathBuf;

use anyhow::Context;
use estop_core::system::{Channels, KillReason};
use estop_gateway::{Gateway, Host};
use tokio::signal::unix::{SignalKind, signal};

use super::{Exit, say};
use crate::config::{self, Env};
use crate::live_journal::LiveJournal;
use crate::wiring;

/// Stand between agents and their models: forward what is healthy, stop what is not
#[derive(Debug, clap::Args)]
#[command(after_help = "Point an SDK at it by its base URL, for example:\n  \
    OPENAI_BASE_URL=http://127.0.0.1:4100/agents/my-agent/openai/v1\n  \
    ANTHROPIC_BASE_URL=http://127.0.0.1:4100/agents/my-agent/anthropic\n\n\
    SIGUSR1 presses the emergency stop. SIGINT and SIGTERM end estop.")]
pub struct Args {
    /// The configuration file; without one, everything has its default
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where everything is kept, instead of the configuration's `data_dir`
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
}

/// Runs until it is told to end.
pub fn main(args: &Args) -> anyhow::Result<Exit> {
    let mut config = config::load_serve(args.config.as_deref(), &Env::of_process())?;
    if let Some(data_dir) = &args.data_dir {
        config.data_dir.clone_from(data_dir);
    }
    raise_descriptor_limit();
    let settings = wiring::settings(&config)?;
    let journal = LiveJournal::start(&config.data_dir)?;
    let gateway = match Gateway::start(settings, std::sync::Arc::clone(&journal.queue), None) {
        Ok(gateway) => gateway,
        Err(error) => {
            journal.discard();
            return Err(error.into());
        }
    };
    let welcome = welcome(&gateway, config.tls.is_some(), &journal);
    let ended = wait_for_signals(gateway.host(), &welcome);
    drop(gateway);
    journal.finish()?;
    ended?;
    Ok(Exit::Fine)
}

fn welcome(gateway: &Gateway, tls: bool, journal: &LiveJournal) -> String {
    let url = format!("{}://{}", if tls { "https" } else { "http" }, gateway.address());
    format!(
        "listening on {url}\n\n\
         Point an agent at it:\n  \
         OPENAI_BASE_URL={url}/agents/my-agent/openai/v1\n  \
         ANTHROPIC_BASE_URL={url}/agents/my-agent/anthropic\n  \
         GOOGLE_GEMINI_BASE_URL={url}/agents/my-agent/gemini\n\n\
         Journal: {}\n\
         Emergency stop: kill -USR1 {}",
        journal.path.display(),
        std::process::id()
    )
}

/// Each stream takes two descriptors; the usual soft limit of 1024 would end at 500.
fn raise_descriptor_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // Not being allowed to is no reason not to serve.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// SIGUSR1 presses the button (KS-5); SIGINT and SIGTERM end the process. `welcome` is said once they are listened for:
/// whoever reads it may press at once.
fn wait_for_signals(host: &Host, welcome: &str) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let mut kill = signal(SignalKind::user_defined1()).context("cannot listen for SIGUSR1")?;
        let mut end = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
        say(welcome)?;
        loop {
            tokio::select! {
                _ = kill.recv() => {
                    let decision = host.kill(Channels::ALL, KillReason::Manual, "SIGUSR1");
                    eprintln!("estop: emergency stop by SIGUSR1. {}", decision.reason());
                }
                _ = end.recv() => return Ok(()),
                _ = interrupt.recv() => return Ok(()),
            }
        }
    })
}
