//! Lines about the red button on the standard error, for whoever reads what the daemon says: how it stands at a start, and who
//! pressed or released it since. No notes and no metadata: people write anything into those.

use estop_config::printable::escaped;
use estop_core::operator::Stopped;
use estop_core::printed_command::Commands;
use estop_core::system::button::Latched;
use estop_core::system::{Channel, Channels, KillReason, SystemDecision, SystemOutcome, SystemState};
use jiff::Timestamp;

/// What a start says of a button that is pressed, or not quite released; `None` while everything runs.
pub fn at_start(button: &Latched, commands: &Commands) -> Option<String> {
    let why = button.reason.map_or("its state could not be read", reason);
    let since = Timestamp::from_millisecond(button.since).map(|at| format!("{at:.0}")).unwrap_or_default();
    let who = format!("by {} ({}), since {since}", escaped(&button.by), escaped(&button.source));
    let clear = commands.emergency_clear();
    match button.gate.state {
        SystemState::Shutdown => {
            let restart = commands.emergency_unlock();
            let how = format!("To go on: `{restart}` (safe mode), then `{clear}`");
            Some(format!("System was shut down: {why}, {who}. Nothing passes. {how}."))
        }
        SystemState::SafeMode => Some(format!(
            "System was shut down: {why}. It is in safe mode, {who}: nothing passes. To go on: `{clear}`."
        )),
        SystemState::Running | SystemState::Starting => None,
    }
}

/// What a kill through API, dashboard or command line says.
pub fn killed(reason_given: KillReason, by: &str, source: &str, stopped: &Stopped) -> String {
    let what = match stopped.decision.gate.state {
        SystemState::Shutdown => "EVERYTHING IS STOPPED".to_owned(),
        SystemState::Starting | SystemState::Running | SystemState::SafeMode => {
            format!("STOPPED: {}", channels(stopped.decision.gate.shut))
        }
    };
    let ended = stopped.ended;
    format!(
        "{what}: {}, by {} ({}). Ended: {} model calls, {} tools, {} messages.",
        reason(reason_given),
        escaped(by),
        escaped(source),
        ended.model_calls,
        ended.tools,
        ended.messages
    )
}

/// What a restart or a clear says; `None` if it changed nothing.
pub fn released(by: &str, decision: &SystemDecision) -> Option<String> {
    if decision.outcome != SystemOutcome::Applied {
        return None;
    }
    let what = match decision.gate.state {
        SystemState::SafeMode => "SAFE MODE: nothing passes until it is cleared",
        SystemState::Running => "RUNNING: the emergency stop is cleared",
        SystemState::Starting | SystemState::Shutdown => return None,
    };
    Some(format!("{what}, by {}.", escaped(by)))
}

/// Logs it. Waits for nobody who reads.
pub fn log(line: &str) {
    tracing::warn!(target: "emergency", "{line}");
}

fn reason(reason: KillReason) -> &'static str {
    match reason {
        KillReason::Manual => "manual",
        KillReason::SecurityIncident => "security_incident",
        KillReason::RunawayAgent => "runaway_agent",
        KillReason::ApiQuotaExceeded => "api_quota_exceeded",
        KillReason::Emergency => "emergency",
    }
}

fn channels(shut: Channels) -> String {
    let all = [(Channel::Llm, "llm"), (Channel::Tools, "tools"), (Channel::Messaging, "messaging")];
    let names = all.into_iter().filter(|(channel, _)| shut.contains(*channel)).map(|(_, name)| name);
    names.collect::<Vec<_>>().join(", ")
}
