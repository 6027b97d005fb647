//! `estop demo`: the whole idea in a minute: a fake model, four agents, estop between them, and the dashboard.
//!
//! Nothing leaves this machine, no key is needed, and everything is gone afterwards.

mod agents;
mod environment;
mod narration;
mod words;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;
use estop_fake_model::{FakeModel, Options};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Exit;
use agents::DemoState;
use environment::DemoEnvironment;
use narration::Narration;

/// See estop work on a fake model; four agents, one of which loops and one of which overspends
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The data plane's port; 0 = any free one
    #[arg(long, default_value_t = 4100)]
    port: u16,
    /// The dashboard's port; 0 = any free one
    #[arg(long, default_value_t = 4101)]
    admin_port: u16,
    /// End by itself after so many seconds; exit code 1 if the looping agent was not stopped by then
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// Do not open a browser
    #[arg(long)]
    no_browser: bool,
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<Exit> {
    // Before anything is started: Ctrl-C at any moment ends what there is by then.
    let mut ends = Ends::heard()?;
    let model = FakeModel::start(Options { rules: agents::rules()?, ..Options::default() })
        .context("cannot start the fake model")?;
    let ground = DemoEnvironment::lay(&model.url(), args.port, args.admin_port)?;
    let mut story = Narration::begin(&ground, args.no_browser);
    let stage = Arc::new(DemoState::default());
    let agents: Vec<_> =
        agents::agents().map(|agent| agent.start(ground.address(), Arc::clone(&stage))).collect();
    ends.wait(args.seconds.map(Duration::from_secs), &mut || story.tell_news(&ground, &stage));
    stage.over.store(true, Ordering::Relaxed);
    for agent in agents {
        // An agent that panicked has nothing left to do.
        let _ = agent?.join();
    }
    story.end();
    drop(ground);
    Ok(if args.seconds.is_none() || story.is_looper_stopped() { Exit::Fine } else { Exit::No })
}

/// Ctrl-C, SIGTERM and the end of the terminal, heard from the start.
struct Ends {
    runtime: Runtime,
    end: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Ends {
    fn heard() -> anyhow::Result<Ends> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let heard = |runtime: &Runtime, kind| {
            let _inside = runtime.enter();
            signal(kind)
        };
        let end = heard(&runtime, SignalKind::terminate())?;
        let interrupt = heard(&runtime, SignalKind::interrupt())?;
        let hangup = heard(&runtime, SignalKind::hangup())?;
        Ok(Ends { runtime, end, interrupt, hangup })
    }

    /// Until one of them comes or the time is up; looks for news meanwhile.
    fn wait(&mut self, limit: Option<Duration>, news: &mut dyn FnMut()) {
        let Ends { runtime, end, interrupt, hangup } = self;
        let begun = Instant::now();
        while limit.is_none_or(|limit| begun.elapsed() < limit) {
            let is_over = runtime.block_on(async {
                tokio::select! {
                    _ = end.recv() => true,
                    _ = interrupt.recv() => true,
                    _ = hangup.recv() => true,
                    () = tokio::time::sleep(Duration::from_millis(500)) => false,
                }
            });
            if is_over {
                break;
            }
            // Outside of the runtime: it waits for answers.
            news();
        }
    }
}
