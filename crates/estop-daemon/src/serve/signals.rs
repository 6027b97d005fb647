//! How a person or the service manager steers the daemon: SIGHUP reads the configuration again, SIGINT and SIGTERM end it.

use std::time::Duration;

use anyhow::Context;
use estop_gateway::Gateway;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep};

use crate::config_in_force::ConfigInForce;
use crate::reload::Reloading;
use crate::say;
use crate::service_manager::ServiceManager;

/// How often it is looked whether the last answer has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// What an end waits for.
pub(super) struct Draining<'a> {
    pub(super) gateway: &'a Gateway,
    pub(super) manager: &'a ServiceManager,
    pub(super) config: &'a ConfigInForce,
}

/// Until estop was told to end, and the answers in progress have ended. `welcome` is said once signals are listened for:
/// whoever reads it may press at once.
pub(super) fn wait(
    reloading: Option<&Reloading>,
    welcome: &str,
    listening: impl FnOnce(),
    draining: &Draining<'_>,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut hangup = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
        let mut ends = Ends {
            terminate: signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?,
        };
        say(welcome)?;
        listening();
        let signal = loop {
            tokio::select! {
                _ = hangup.recv() => reloading.into_iter().for_each(Reloading::ask),
                signal = ends.next() => break signal,
            }
        };
        draining.manager.stopping();
        draining.run(signal, &mut ends).await;
        Ok(())
    })
}

struct Ends {
    terminate: Signal,
    interrupt: Signal,
}

impl Ends {
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

impl Draining<'_> {
    async fn run(&self, signal: &str, ends: &mut Ends) {
        self.gateway.drain();
        let connections = self.gateway.open_connections();
        let requests = self.gateway.engine().requests_in_progress();
        let within = self.config.get().limits.drain;
        let within_s = within.as_secs_f64();
        tracing::info!(target: "serve", signal, requests, connections, within_s, "estop is stopping");
        let deadline = Instant::now() + within;
        while self.gateway.open_connections() > 0 && Instant::now() < deadline {
            tokio::select! {
                () = sleep(POLL_INTERVAL) => {}
                signal = ends.next() => {
                    tracing::warn!(target: "serve", signal, "told a second time: estop ends at once");
                    break;
                }
            }
        }
        let (requests, connections) =
            (self.gateway.engine().requests_in_progress(), self.gateway.open_connections());
        if requests > 0 {
            tracing::warn!(target: "serve", requests, connections, "answers in progress are cut off");
        } else if connections > 0 {
            tracing::info!(target: "serve", connections, "connections without a request in progress are closed");
        }
    }
}
