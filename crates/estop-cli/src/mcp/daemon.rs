//! The running estop, as this gate asks it: before and after each call, and a line on which it says when calls must end.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use estop_wire::mcp;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::Args;
use crate::client::{Caller, CallerOptions, Opened, Received, WatchMessage, path, post};

/// A daemon answers within milliseconds; at half of this it is in trouble as well.
const TIMEOUT: Duration = Duration::from_secs(5);
/// A line that broke or was refused is tried again after this time.
const AGAIN: Duration = Duration::from_millis(500);
const AGENT: &str = "default";

/// Where estop is, and who asks.
pub(super) struct Daemon {
    caller: Caller,
    /// Tells the calls of this process from those of others.
    process: String,
}

/// What estop says to a question.
pub(super) enum Asked {
    Allowed,
    Denied(String),
    Unreachable(String),
}

impl Daemon {
    /// As the options and the environment say.
    pub(super) fn of(args: &Args) -> anyhow::Result<Daemon> {
        let options = CallerOptions {
            agent: args.agent.as_ref(),
            run: args.run.as_ref(),
            installed: args.installed,
            data_dir: args.data_dir.as_deref(),
            url: args.url.as_deref(),
        };
        let caller = options.caller()?;
        let mut random = [0; 8];
        getrandom::fill(&mut random).context("no random numbers")?;
        Ok(Daemon { caller, process: format!("{:016x}", u64::from_be_bytes(random)) })
    }

    pub(super) fn agent(&self) -> &str {
        self.caller.agent.as_deref().unwrap_or(AGENT)
    }

    pub(super) fn run(&self) -> Option<&str> {
        self.caller.run.as_deref()
    }

    /// Where estop keeps everything, if that is on this machine.
    pub(super) fn data_dir(&self) -> Option<&Path> {
        self.caller.transport.endpoint.data_dir()
    }

    /// The number of a call, which no other call of the agent has.
    pub(super) fn number(&self, number: u64) -> String {
        format!("{}-{number}", self.process)
    }

    /// Asks before a call, or tells after it.
    pub(super) async fn ask(&self, event: &str, body: String) -> Asked {
        let request = match post(&path(&["hooks", event]), body) {
            Ok(request) => request,
            Err(error) => return Asked::Unreachable(error.to_string()),
        };
        match self.caller.transport.exchange(request, TIMEOUT).await {
            Ok(received) if received.status == StatusCode::OK => {
                mcp::refusal(&received.body).map_or(Asked::Allowed, Asked::Denied)
            }
            Ok(received) => denied(&received),
            Err(error) => Asked::Unreachable(error.clause()),
        }
    }

    /// Asks whether the agent and its run may work at all, by opening the line that says when they must stop.
    pub(super) async fn may_work(&self) -> Asked {
        match self.caller.transport.watch(&self.about(), TIMEOUT).await {
            Ok(Opened::Watching(mut watch)) => {
                // The line stays open; its first word is enough.
                match timeout(TIMEOUT, watch.next()).await {
                    Ok(Some(WatchMessage::End(why))) => Asked::Denied(why),
                    Ok(Some(WatchMessage::Watching(_)) | None) => Asked::Allowed,
                    Err(_) => {
                        Asked::Unreachable(format!("estop gave no answer within {} s", TIMEOUT.as_secs()))
                    }
                }
            }
            Ok(Opened::Answered(received)) => match received.own_detail() {
                Some(detail) if received.status == StatusCode::CONFLICT => Asked::Denied(detail),
                Some(_) | None => denied(&received),
            },
            Err(error) => Asked::Unreachable(error.clause()),
        }
    }

    /// Who is watched.
    fn about(&self) -> Value {
        json!({"agent": self.agent(), "run": self.run(), "kind": "call", "attended": false, "begin": false})
    }

    /// Holds the line for ever; `on_end` is called whenever calls under way must end.
    pub(super) async fn watch(&self, on_end: impl Fn(&str)) {
        loop {
            match self.caller.transport.watch(&self.about(), TIMEOUT).await {
                Ok(Opened::Watching(mut watch)) => {
                    while let Some(message) = watch.next().await {
                        if let WatchMessage::End(why) = message {
                            on_end(&why);
                        }
                    }
                }
                // It must not run any more, and was stopped while nobody held the line.
                Ok(Opened::Answered(received)) if received.status == StatusCode::CONFLICT => {
                    received.own_detail().iter().for_each(|why| on_end(why));
                }
                // Broken or refused: calls are asked about one by one meanwhile.
                Ok(Opened::Answered(_)) | Err(_) => {}
            }
            sleep(AGAIN).await;
        }
    }
}

fn denied(received: &Received) -> Asked {
    match received.own_detail() {
        // It is estop, and it has no yes: then no tool runs, whatever holds when it is away.
        Some(detail) => Asked::Denied(format!("estop refused this: {detail}")),
        None => Asked::Unreachable(format!(
            "what answers there is not estop (status {})",
            received.status.as_u16()
        )),
    }
}
