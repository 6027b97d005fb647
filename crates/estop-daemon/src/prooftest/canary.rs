//! `estop canary`: the process a proof test starts and ends. It sleeps, says when it gets SIGTERM, and does not obey.

use std::io::Read;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use super::process::{READY, TOLD};
use crate::say;

/// Longer than any proof test: nothing is left if everything goes wrong.
const LIFE: Duration = Duration::from_secs(60);

/// Sleep, note SIGTERM and do not obey it: what a proof test ends
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Sleeps until it is killed, its input ends with whoever started it, or a minute is over.
pub fn main(_args: &Args) -> anyhow::Result<()> {
    let (tell, orphaned) = tokio::sync::oneshot::channel::<()>();
    std::thread::spawn(move || {
        // Nobody writes: it comes back when whoever holds the other end is gone.
        let _ = std::io::stdin().read(&mut [0]);
        drop(tell);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut end = signal(SignalKind::terminate())?;
        say(READY)?;
        let told = async {
            while end.recv().await.is_some() {
                if say(TOLD).is_err() {
                    break;
                }
            }
        };
        tokio::select! {
            () = told => {}
            _ = orphaned => {}
            () = tokio::time::sleep(LIFE) => {}
        }
        Ok(())
    })
}
