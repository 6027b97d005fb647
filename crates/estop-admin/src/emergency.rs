//! The red button (KS-1, KS-5, KS-6): pressed by operators, unlocked by admins.
//!
//! A kill goes straight to the operator; the store is not asked before it.

use axum::extract::State;
use axum::{Extension, Json};
use estop_core::operator::{JournalFailure, Stopped, StuckPart, TriggerView};
use estop_core::system::button::{Latched, Press, Unlock};
use estop_core::system::{
    Channel, Channels, GateView, KillReason, SystemDecision, SystemOutcome, SystemState,
};
use http::StatusCode;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::Caller;
use crate::input::{JsonIfReadable, JsonOrNothing, Whole};
use crate::output::{Answer, moment};
use crate::problem::{Kind, Problem};
use crate::prooftest::LastOut;
use crate::state::{App, at_once};

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default()
        .routes(routes!(status))
        .routes(routes!(kill))
        .routes(routes!(restart))
        .routes(routes!(clear))
        .routes(routes!(heartbeat))
}

/// A state's name.
pub(crate) fn state_name(state: SystemState) -> &'static str {
    match state {
        SystemState::Starting => "starting",
        SystemState::Running => "running",
        SystemState::Shutdown => "shutdown",
        SystemState::SafeMode => "safe_mode",
    }
}

/// How the system stands.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EmergencyStatus)]
struct StatusOut {
    /// `starting`, `running`, `shutdown` or `safe_mode`.
    state: &'static str,
    /// Why the button was pressed.
    reason: Option<&'static str>,
    /// Everything may pass.
    operational: bool,
    /// estop was told to end: no new connection is taken, and answers in progress may end.
    ending: bool,
    /// Why nothing passes, pressed button or not: the journal cannot be written.
    journal_problem: Option<&'static str>,
    /// Parts of estop that do not run any more; a kill works all the same.
    stuck_parts: Vec<StuckPartOut>,
    llm_enabled: bool,
    messaging_enabled: bool,
    tools_enabled: bool,
    since: String,
    by: String,
    /// From where: `api`, `cli`, `signal`, `file`, `gpio`, …
    source: String,
    note: Option<String>,
    /// What came with the kill.
    metadata: Option<Value>,
    /// Grows with each kill, restart and clear.
    epoch: u64,
    /// It is on the disk; false = it holds, but a restart would not know of it.
    persisted: bool,
    /// What presses the button besides people, and whether each would.
    triggers: Vec<TriggerOut>,
    /// When the stop was last tried out.
    proof_test: LastOut,
}

/// A part of estop that does not run any more.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EmergencyStuckPart)]
struct StuckPartOut {
    /// `worker 0`, `sweeper`, `timer` or `journal writer`.
    name: String,
    /// For how long it has not run.
    silent_ms: u64,
    /// What it means, and what to do.
    problem: String,
}

impl From<StuckPart> for StuckPartOut {
    fn from(part: StuckPart) -> StuckPartOut {
        let problem = part.text();
        StuckPartOut { name: part.name.into(), silent_ms: part.silent_ms, problem }
    }
}

/// A trigger of the button.
#[derive(Serialize, ToSchema)]
#[schema(as = EmergencyTrigger)]
struct TriggerOut {
    /// `signal`, `file`, `latch`, `gpio`, `button` or `heartbeat`.
    name: String,
    /// It would press the button.
    working: bool,
    /// How it is pressed, or why it does not work.
    what: String,
    /// Since when it is so.
    since: String,
}

impl From<TriggerView> for TriggerOut {
    fn from(view: TriggerView) -> TriggerOut {
        let TriggerView { name, working, what, since } = view;
        TriggerOut { name: name.into(), working, what: what.into(), since: moment(since) }
    }
}

/// Shows how the system stands. No database is asked.
#[utoipa::path(get, path = "/api/emergency/status", tag = "emergency", responses((status = 200, body = StatusOut)))]
async fn status(State(app): State<App>) -> Answer<StatusOut> {
    let Latched { gate, reason, note, by, source, since, metadata } = app.operator.button();
    let trouble = app.operator.journal_failure();
    Ok(Json(StatusOut {
        state: state_name(gate.state),
        reason: reason.map(reason_name),
        operational: gate.state == SystemState::Running
            && gate.shut.is_empty()
            && trouble.is_none()
            && !app.operator.is_ending(),
        ending: app.operator.is_ending(),
        journal_problem: trouble.map(JournalFailure::text),
        stuck_parts: app.operator.stuck_parts().into_iter().map(StuckPartOut::from).collect(),
        llm_enabled: gate.lets_pass(Channel::Llm),
        messaging_enabled: gate.lets_pass(Channel::Messaging),
        tools_enabled: gate.lets_pass(Channel::Tools),
        since: moment(since),
        by: by.into(),
        source: source.into(),
        note,
        metadata: metadata.and_then(|text| serde_json::from_str(&text).ok()),
        epoch: gate.epoch,
        persisted: app.operator.is_kept(),
        proof_test: LastOut::of(app.operator.proof_tests(), app.now()),
        triggers: app.operator.triggers().into_iter().map(TriggerOut::from).collect(),
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
/// channel is all of them. `adminToken` in the body does as well as the Authorization header.
#[derive(Default, Deserialize, ToSchema)]
#[serde(from = "Value")]
#[schema(as = Kill)]
struct KillIn {
    /// Why; `manual` if left out.
    #[serde(default)]
    reason: ReasonIn,
    /// Which channels; the whole system if left out or empty.
    #[serde(default)]
    channels: Vec<ChannelIn>,
    /// In your words.
    #[serde(default)]
    note: Option<String>,
    /// Anything that helps later; at most 1,000 characters of JSON.
    #[serde(default)]
    metadata: Option<Value>,
}

/// Field by field: one that is wrong does not take the others with it.
impl From<Value> for KillIn {
    fn from(mut body: Value) -> KillIn {
        let channels = body.get("channels").and_then(Value::as_array);
        KillIn {
            reason: body.get("reason").and_then(word).unwrap_or_default(),
            // A single wrong one voids the list, and no list is the whole system.
            channels: channels.and_then(|list| list.iter().map(word).collect()).unwrap_or_default(),
            note: body.get("note").and_then(Value::as_str).map(str::to_owned),
            metadata: body.get_mut("metadata").map(Value::take).filter(|metadata| !metadata.is_null()),
        }
    }
}

/// One of a list of words.
fn word<T: DeserializeOwned>(value: &Value) -> Option<T> {
    let word = value.as_str()?;
    serde_json::from_value(word.into()).ok()
}

impl KillIn {
    fn press(self, caller: &Caller) -> Press {
        let channels =
            self.channels.into_iter().fold(Channels::NONE, |set, channel| set.with(channel.into()));
        // The command line says so in its metadata. No caller passes for a signal or a device.
        let is_cli = self.metadata.as_ref().is_some_and(|metadata| metadata["source"] == "cli");
        Press {
            channels: if channels.is_empty() { Channels::ALL } else { channels },
            reason: self.reason.into(),
            by: caller.by.clone(),
            source: if is_cli { "cli" } else { "api" }.into(),
            note: self.note.map(Into::into),
            metadata: self.metadata.map(|metadata| metadata.to_string().into()),
        }
    }
}

/// What a kill did.
#[derive(Serialize, ToSchema)]
#[schema(as = EmergencyStopped)]
struct StoppedOut {
    #[serde(flatten)]
    done: DoneOut,
    /// What was under way and is ended.
    stopped: EndedOut,
    /// Work at providers that is being cancelled, and what could not be.
    background: crate::background::WorkOut,
    /// How long each part took.
    took: TookOut,
    /// Somebody is told: a channel of `alerts` hears of the button. Whether it arrived is in the delivery log.
    told: bool,
}

/// What was under way and is ended.
#[derive(Serialize, ToSchema)]
#[schema(as = EmergencyEnded)]
struct EndedOut {
    model_calls: usize,
    tools: usize,
    messages: usize,
}

/// Microseconds from the press.
#[derive(Serialize, ToSchema)]
#[schema(as = EmergencyTook)]
struct TookOut {
    /// Until nothing new could start.
    gate_us: u64,
    /// Until everything under way was told to end.
    cut_us: u64,
    /// Until it was on the disk; null = it is not.
    persisted_us: Option<u64>,
}

/// What became of it.
#[derive(Serialize, ToSchema)]
#[schema(as = EmergencyDone)]
struct DoneOut {
    /// `starting`, `running`, `shutdown` or `safe_mode`.
    status: &'static str,
    message: &'static str,
    /// It changed something; false = it was so already.
    changed: bool,
    /// It is on the disk; false = it holds, but a restart would not know of it.
    persisted: bool,
    /// Grows with each kill, restart and clear.
    epoch: u64,
    /// Channels that let nothing pass though the system runs: `llm`, `tools`, `messaging`.
    shut: Vec<&'static str>,
}

/// Presses the button, for the whole system or for single channels.
#[utoipa::path(post, path = "/api/emergency/kill", tag = "emergency", request_body = Option<KillIn>,
    responses((status = 200, body = StoppedOut)))]
async fn kill(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    JsonIfReadable(kill): JsonIfReadable<KillIn>,
) -> Answer<StoppedOut> {
    let press = kill.press(&caller);
    at_once(move || {
        let Stopped { decision, ended, gate_us, cut_us, kept_us } = app.operator.kill(press);
        let message = match decision.gate.state {
            SystemState::Shutdown => "System shut down successfully",
            SystemState::Starting | SystemState::Running | SystemState::SafeMode => decision.reason(),
        };
        Ok(Json(StoppedOut {
            done: DoneOut { message, persisted: kept_us.is_some(), ..done(&app, decision)? },
            stopped: EndedOut {
                model_calls: ended.model_calls,
                tools: ended.tools,
                messages: ended.messages,
            },
            background: crate::background::stopped(app.operator.background(), app.now()),
            took: TookOut { gate_us, cut_us, persisted_us: kept_us },
            told: app.alerts_api.is_told_of_kills(),
        }))
    })
    .await
}

/// What the person saw, and why they unlock.
#[derive(Default, Deserialize, ToSchema)]
#[schema(as = Unlock)]
struct UnlockIn {
    /// The epoch of the status that was looked at; the present one if left out.
    #[schema(value_type = Option<u64>)]
    epoch: Option<Whole>,
    /// Why, in your words.
    reason: Option<String>,
}

impl UnlockIn {
    fn by(self, caller: Caller, gate: GateView) -> Unlock {
        // One that is no epoch at all is not the present one either.
        let epoch = self.epoch.map(|Whole(epoch)| u64::try_from(epoch).unwrap_or(u64::MAX));
        Unlock { by: caller.by, epoch: epoch.unwrap_or(gate.epoch), note: self.reason.map(Into::into) }
    }
}

/// SHUTDOWN → SAFE_MODE: people may look, agents stay stopped.
#[utoipa::path(post, path = "/api/emergency/restart", tag = "emergency", request_body = Option<UnlockIn>,
    responses((status = 200, body = DoneOut)))]
async fn restart(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    JsonOrNothing(unlock): JsonOrNothing<UnlockIn>,
) -> Answer<DoneOut> {
    let unlock = unlock.by(caller, app.operator.gate());
    at_once(move || {
        let done = done(&app, app.operator.restart(unlock)?)?;
        Ok(Json(DoneOut { message: "System in safe mode. Run /clear to resume.", ..done }))
    })
    .await
}

/// SAFE_MODE → RUNNING; while running, opens channels that were killed one by one.
#[utoipa::path(post, path = "/api/emergency/clear", tag = "emergency", request_body = Option<UnlockIn>,
    responses((status = 200, body = DoneOut)))]
async fn clear(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    JsonOrNothing(unlock): JsonOrNothing<UnlockIn>,
) -> Answer<DoneOut> {
    let unlock = unlock.by(caller, app.operator.gate());
    at_once(move || {
        let done = done(&app, app.operator.clear(unlock)?)?;
        let message = match done.shut.is_empty() {
            true => "System operational",
            false => "System running, with channels shut",
        };
        Ok(Json(DoneOut { message, ..done }))
    })
    .await
}

/// Somebody is there: the dead man's switch waits anew.
#[utoipa::path(post, path = "/api/emergency/heartbeat", tag = "emergency", responses((status = 204)))]
async fn heartbeat(State(app): State<App>) -> Result<StatusCode, Problem> {
    if app.operator.heartbeat() {
        return Ok(StatusCode::NO_CONTENT);
    }
    let detail = "There is no dead man's switch: set triggers.heartbeat in the configuration.";
    Err(Problem::new(Kind::Conflict, detail))
}

fn done(app: &App, decision: SystemDecision) -> Result<DoneOut, Problem> {
    let operator = &app.operator;
    let changed = match decision.outcome {
        SystemOutcome::Applied => true,
        SystemOutcome::AlreadySo | SystemOutcome::Noted => false,
        SystemOutcome::IllegalFrom(_) | SystemOutcome::StaleEpoch => {
            return Err(Problem::new(Kind::Conflict, refusal(app, &decision)));
        }
    };
    Ok(DoneOut {
        status: state_name(decision.gate.state),
        message: decision.reason(),
        changed,
        persisted: operator.is_kept(),
        epoch: decision.gate.epoch,
        shut: shut(operator.gate()),
    })
}

/// Channels that let nothing pass.
fn shut(gate: GateView) -> Vec<&'static str> {
    let channels = [(Channel::Llm, "llm"), (Channel::Tools, "tools"), (Channel::Messaging, "messaging")];
    channels.into_iter().filter(|(channel, _)| !gate.lets_pass(*channel)).map(|(_, name)| name).collect()
}

/// Why a step towards running again was refused, and which is the next one.
fn refusal(app: &App, decision: &SystemDecision) -> String {
    let commands = &app.place.commands;
    let next = match (decision.outcome, app.operator.gate().state) {
        (SystemOutcome::IllegalFrom(_), SystemState::Shutdown) => {
            format!(" Next: `{}`.", commands.emergency_unlock())
        }
        (SystemOutcome::IllegalFrom(_), SystemState::SafeMode) => {
            format!(" Next: `{}`.", commands.emergency_clear())
        }
        _ => String::new(),
    };
    format!("{}{next}", decision.reason())
}
