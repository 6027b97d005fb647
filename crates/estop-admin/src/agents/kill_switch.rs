//! The kill switch of an agent (LD-1, LD-2), and its live score.

use axum::extract::State;
use axum::{Extension, Json};
use estop_core::guard::Guard;
use estop_core::policy::Mode;
use estop_core::policy_file::ThresholdTenths;
use estop_store::Agent;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::overrides;
use crate::access::Caller;
use crate::agents::row::{self, Found};
use crate::agents::{AgentPath, look, shown};
use crate::input::{Checks, IfMatch, IfMatchGiven, JsonIn, PathIn, Whole, nullable};
use crate::output::{Answer, Tagged, tenths};
use crate::problem::Problem;
use crate::state::App;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default().routes(routes!(read, change)).routes(routes!(score))
}

/// An agent's kill switch.
#[derive(Serialize, ToSchema)]
#[schema(as = KillSwitch)]
struct KillSwitchOut {
    /// A loop stops the agent. While off, the score is still computed and shown.
    enabled: bool,
    /// Requests that are compared.
    window_size: u8,
    /// The score that may not be exceeded.
    threshold: f64,
    /// Nobody would be told of a stop: set up an alert channel.
    notification_missing: bool,
}

impl KillSwitchOut {
    fn of(app: &App, found: &Found) -> KillSwitchOut {
        let policy = shown::policy(app, found);
        KillSwitchOut {
            enabled: policy.modes[Guard::Loop] == Mode::Enforce,
            window_size: policy.loops.window_size,
            threshold: tenths(policy.loops.threshold_tenths.into()),
            notification_missing: !app.alerts_api.is_told_of_stops(Some(found.name())),
        }
    }
}

/// Shows the kill switch.
#[utoipa::path(get, path = "/api/agents/{id}/kill-switch", tag = "kill switch", params(AgentPath),
    responses((status = 200, body = KillSwitchOut, headers(("etag" = String)))))]
async fn read(
    State(app): State<App>,
    PathIn(path): PathIn<AgentPath>,
) -> Result<Tagged<KillSwitchOut>, Problem> {
    let found = look(&app, path.id).await?;
    Ok(Tagged(found.version(), KillSwitchOut::of(&app, &found)))
}

/// What is to change. What is left out stays; null = as the policy says.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = KillSwitchChange)]
pub(crate) struct KillSwitchIn {
    /// A loop stops the agent.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<bool>)]
    pub(crate) enabled: Option<Option<bool>>,
    /// Requests that are compared, 5–100.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<u8>, minimum = 5, maximum = 100)]
    pub(crate) window_size: Option<Option<Whole>>,
    /// The score that may not be exceeded, 1–50. Scores have one decimal: more of a threshold is left off, and would decide nothing.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<f64>, minimum = 1, maximum = 50)]
    pub(crate) threshold: Option<Option<f64>>,
}

/// Changes the kill switch.
#[utoipa::path(patch, path = "/api/agents/{id}/kill-switch", tag = "kill switch",
    params(AgentPath, IfMatchGiven),
    request_body = KillSwitchIn, responses((status = 200, body = KillSwitchOut, headers(("etag" = String)))))]
async fn change(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathIn(path): PathIn<AgentPath>,
    if_match: IfMatch,
    JsonIn(change): JsonIn<KillSwitchIn>,
) -> Result<Tagged<KillSwitchOut>, Problem> {
    check(&change, "")?;
    let asked = std::sync::Arc::clone(&app);
    let work = move || {
        let _edit = asked.edit();
        let found = row::find(&asked, &path.id)?;
        if_match.check(found.version())?;
        overrides::update(&asked, &found, &caller.by, |agent| apply(agent, &change))
    };
    let found = app.work(work).await?;
    Ok(Tagged(found.version(), KillSwitchOut::of(&app, &found)))
}

/// Whether it fits; `prefix` stands before the names of the fields.
pub(crate) fn check(change: &KillSwitchIn, prefix: &str) -> Result<(), Problem> {
    let mut checks = Checks::default();
    if let Some(Some(Whole(window))) = change.window_size {
        let message = format!("must be a whole number from 5 to 100; {window} is not");
        checks.expect((5..=100).contains(&window), &format!("{prefix}window_size"), &message);
    }
    if let Some(Some(threshold)) = change.threshold {
        let message = format!("must be from 1 to 50; {threshold} is not");
        checks.expect(ThresholdTenths::of(threshold).is_some(), &format!("{prefix}threshold"), &message);
    }
    checks.done()
}

/// Puts it into the row.
pub(crate) fn apply(agent: &mut Agent, change: &KillSwitchIn) {
    if let Some(enabled) = change.enabled {
        overrides::forget_loop_guard(agent);
        agent.kill_switch_enabled = enabled;
    }
    if let Some(window) = change.window_size {
        agent.kill_switch_window_size = window.and_then(|Whole(window)| u8::try_from(window).ok());
    }
    if let Some(threshold) = change.threshold {
        let tenths = threshold.and_then(ThresholdTenths::of);
        agent.kill_switch_threshold_tenths = tenths.map(ThresholdTenths::get);
    }
}

/// The loop score of an agent's latest request.
#[derive(Serialize, ToSchema)]
#[schema(as = Score)]
struct ScoreOut {
    score: f64,
    similar_prompts: u16,
    similar_responses: u16,
    repeated_tool_calls: u16,
    /// The score that may not be exceeded.
    threshold: f64,
    /// Requests that were compared.
    window: u16,
    /// Requests that are remembered.
    window_size: u8,
    /// A loop stops the agent; otherwise this is what enabling would have done.
    enabled: bool,
    /// Its latest request was part of a loop.
    is_loop: bool,
    /// In a sentence; null before the first request.
    reason: Option<String>,
}

/// Shows the live score and its parts.
#[utoipa::path(get, path = "/api/agents/{id}/score", tag = "kill switch", params(AgentPath),
    responses((status = 200, body = ScoreOut)))]
async fn score(State(app): State<App>, PathIn(path): PathIn<AgentPath>) -> Answer<ScoreOut> {
    let found = look(&app, path.id).await?;
    let policy = shown::policy(&app, &found);
    let latest = found.live.as_ref().and_then(|view| view.score);
    let finding = latest.unwrap_or_default();
    Ok(Json(ScoreOut {
        score: tenths(finding.score),
        similar_prompts: finding.prompts,
        similar_responses: finding.responses,
        repeated_tool_calls: finding.calls,
        threshold: tenths(policy.loops.threshold_tenths.into()),
        window: finding.window,
        window_size: policy.loops.window_size,
        enabled: policy.modes[Guard::Loop] == Mode::Enforce,
        is_loop: latest.is_some_and(|finding| finding.is_loop()),
        reason: latest.map(|finding| finding.to_string()),
    }))
}
