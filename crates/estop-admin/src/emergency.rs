//! The red button (KS-1, KS-5, KS-6): pressed by operators, unlocked by admins.
//!
//! A kill goes straight to the operator; the store is not asked before it.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use estop_core::operator::Operator;
use estop_core::system::{
    Channel, Channels, GateView, KillReason, SystemDecision, SystemOutcome, SystemState,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::Caller;
use crate::input::{JsonIfReadable, JsonOrNothing, Whole};
use crate::output::{Answer, moment};
use crate::problem::{Kind, Problem};
use crate::state::{App, at_once};

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default()
        .routes(routes!(status))
        .routes(routes!(kill))
        .routes(routes!(restart))
        .routes(routes!(clear))
}

/// A state's name.
pub(crate) fn state_name(state: SystemState) -> &'static str {
    match state {
        SystemState::Starting => "STARTING",
        SystemState::Running => "RUNNING",
        SystemState::Shutdown => "SHUTDOWN",
        SystemState::SafeMode => "SAFE_MODE",
    }
}

/// How the system stands.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EmergencyStatus)]
struct StatusOut {
    /// `STARTING`, `RUNNING`, `SHUTDOWN` or `SAFE_MODE`.
    state: &'static str,
    /// Why the button was pressed.
    reason: Option<&'static str>,
    /// Everything may pass.
    operational: bool,
    llm_enabled: bool,
    messaging_enabled: bool,
    tools_enabled: bool,
    since: Option<String>,
    by: Option<String>,
    note: Option<String>,
    /// Grows with each kill, restart and clear.
    epoch: u64,
}

/// Shows how the system stands.
#[utoipa::path(get, path = "/api/emergency/status", tag = "emergency", responses((status = 200, body = StatusOut)))]
async fn status(State(app): State<App>) -> Answer<StatusOut> {
    let gate = app.operator.gate();
    // Who and why are nice to know; a store that fails must not hide the state.
    let stored = app.store(|store| store.system()).await.unwrap_or(None);
    let stored = stored.filter(|stored| stored.gate.epoch == gate.epoch);
    Ok(Json(StatusOut {
        state: state_name(gate.state),
        reason: stored.as_ref().and_then(|stored| stored.reason).map(reason_name),
        operational: gate.state == SystemState::Running && gate.shut.is_empty(),
        llm_enabled: gate.lets_pass(Channel::Llm),
        messaging_enabled: gate.lets_pass(Channel::Messaging),
        tools_enabled: gate.lets_pass(Channel::Tools),
        since: stored.as_ref().map(|stored| moment(stored.since)),
        by: stored.as_ref().map(|stored| stored.by.to_string()),
        note: stored.and_then(|stored| stored.note),
        epoch: gate.epoch,
    }))
}

/// Why the button is pressed (KS-4).
#[derive(Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = KillReason)]
enum ReasonIn {
    #[default]
    Manual,
    SecurityIncident,
    RunawayAgent,
    ApiQuotaExceeded,
    Emergency,
}

impl From<ReasonIn> for KillReason {
    fn from(reason: ReasonIn) -> KillReason {
        match reason {
            ReasonIn::Manual => KillReason::Manual,
            ReasonIn::SecurityIncident => KillReason::SecurityIncident,
            ReasonIn::RunawayAgent => KillReason::RunawayAgent,
            ReasonIn::ApiQuotaExceeded => KillReason::ApiQuotaExceeded,
            ReasonIn::Emergency => KillReason::Emergency,
        }
    }
}

fn reason_name(reason: KillReason) -> &'static str {
    match reason {
        KillReason::Manual => "manual",
        KillReason::SecurityIncident => "security_incident",
        KillReason::RunawayAgent => "runaway_agent",
        KillReason::ApiQuotaExceeded => "api_quota_exceeded",
        KillReason::Emergency => "emergency",
    }
}

/// A channel.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Channel)]
enum ChannelIn {
    Llm,
    Tools,
    Messaging,
}

impl From<ChannelIn> for Channel {
    fn from(channel: ChannelIn) -> Channel {
        match channel {
            ChannelIn::Llm => Channel::Llm,
            ChannelIn::Tools => Channel::Tools,
            ChannelIn::Messaging => Channel::Messaging,
        }
    }
}

/// A kill. Everything may be left out, and what cannot be read stands in nobody's way: a wrong reason is `manual`, a wrong
/// channel is all of them.
#[derive(Default, Deserialize, ToSchema)]
#[schema(as = Kill)]
struct KillIn {
    /// Why; `manual` if left out.
    #[serde(default)]
    reason: ReasonIn,
    /// Which channels; the whole system if left out or empty.
    #[serde(default)]
    channels: Vec<ChannelIn>,
}

/// What became of it.
#[derive(Serialize, ToSchema)]
#[schema(as = EmergencyDone)]
struct DoneOut {
    /// `starting`, `running`, `shutdown` or `safe_mode`.
    status: String,
    message: &'static str,
    /// It changed something; false = it was so already.
    changed: bool,
    /// It is on the disk; false = it holds, but a restart would not know of it.
    persisted: bool,
    /// Grows with each kill, restart and clear.
    epoch: u64,
}

/// Presses the button, for the whole system or for single channels.
#[utoipa::path(post, path = "/api/emergency/kill", tag = "emergency", request_body = Option<KillIn>,
    responses((status = 200, body = DoneOut)))]
async fn kill(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    JsonIfReadable(kill): JsonIfReadable<KillIn>,
) -> Answer<DoneOut> {
    let channels = kill.channels.into_iter().fold(Channels::NONE, |set, channel| set.with(channel.into()));
    let channels = if channels.is_empty() { Channels::ALL } else { channels };
    let operator = Arc::clone(&app.operator);
    at_once(move || done(&*operator, operator.kill(channels, kill.reason.into(), &caller.by))).await
}

/// What the person saw.
#[derive(Clone, Copy, Default, Deserialize, ToSchema)]
#[schema(as = Unlock)]
struct UnlockIn {
    /// The epoch of the status that was looked at; the present one if left out.
    #[schema(value_type = Option<u64>)]
    epoch: Option<Whole>,
}

/// SHUTDOWN → SAFE_MODE: people may look, agents stay stopped.
#[utoipa::path(post, path = "/api/emergency/restart", tag = "emergency", request_body = Option<UnlockIn>,
    responses((status = 200, body = DoneOut)))]
async fn restart(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    JsonOrNothing(unlock): JsonOrNothing<UnlockIn>,
) -> Answer<DoneOut> {
    let operator = Arc::clone(&app.operator);
    let epoch = epoch(unlock, operator.gate());
    at_once(move || done(&*operator, operator.restart(&caller.by, epoch))).await
}

/// SAFE_MODE → RUNNING; while running, opens channels that were killed one by one.
#[utoipa::path(post, path = "/api/emergency/clear", tag = "emergency", request_body = Option<UnlockIn>,
    responses((status = 200, body = DoneOut)))]
async fn clear(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    JsonOrNothing(unlock): JsonOrNothing<UnlockIn>,
) -> Answer<DoneOut> {
    let operator = Arc::clone(&app.operator);
    let epoch = epoch(unlock, operator.gate());
    at_once(move || done(&*operator, operator.clear(&caller.by, epoch))).await
}

fn epoch(unlock: UnlockIn, gate: GateView) -> u64 {
    // One that is no epoch at all is not the present one either.
    unlock.epoch.map_or(gate.epoch, |Whole(epoch)| u64::try_from(epoch).unwrap_or(u64::MAX))
}

fn done(operator: &dyn Operator, decision: SystemDecision) -> Answer<DoneOut> {
    let changed = match decision.outcome {
        SystemOutcome::Applied => true,
        SystemOutcome::AlreadySo | SystemOutcome::Noted => false,
        SystemOutcome::IllegalFrom(_) | SystemOutcome::StaleEpoch => {
            return Err(Problem::new(Kind::Conflict, decision.reason()));
        }
    };
    Ok(Json(DoneOut {
        status: state_name(decision.gate.state).to_ascii_lowercase(),
        message: decision.reason(),
        changed,
        persisted: operator.is_kept(),
        epoch: decision.gate.epoch,
    }))
}
