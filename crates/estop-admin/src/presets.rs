//! Everybody's preset (PO-5): what it is and who says so, what `strict` would have stopped, and switching it.
//!
//! What the API sets lies over the file until it is taken away, like an agent's rules (`docs/decisions/0014`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use estop_core::ids::Name;
use estop_core::policy::Preset;
use estop_core::policy_file::PolicyOrigin;
use estop_store::{EventFilter, Meta, Store, StoreError};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::Caller;
use crate::agents::shown::preset_name;
use crate::backtest::DAYS;
use crate::input::{JsonIn, PAGE_MAX};
use crate::output::{Answer, kept_json, moment};
use crate::problem::Problem;
use crate::state::App;

/// The name under which the store has it.
const KEPT: &str = "preset";
/// Events that are counted: a guard in shadow tells a stop once, not with each request.
const EVENTS_MAX: usize = 5000;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default().routes(routes!(read, put, delete))
}

/// Everybody's preset, if one was set over the configuration's. For the start and the reload.
pub fn kept_preset(store: &(impl Meta + ?Sized)) -> Result<Option<Preset>, StoreError> {
    Ok(match store.meta(KEPT)?.as_deref() {
        Some("watch") => Some(Preset::Watch),
        Some("strict") => Some(Preset::Strict),
        Some(_) | None => None,
    })
}

/// A preset.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = PresetName)]
enum PresetIn {
    Watch,
    Strict,
}

impl From<PresetIn> for Preset {
    fn from(preset: PresetIn) -> Preset {
        match preset {
            PresetIn::Watch => Preset::Watch,
            PresetIn::Strict => Preset::Strict,
        }
    }
}

/// Which preset.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PresetChange)]
struct ChangeIn {
    preset: PresetIn,
}

/// Everybody's preset.
#[derive(Serialize, ToSchema)]
#[schema(as = EverybodysPreset)]
struct PresetNowOut {
    /// `watch` or `strict`.
    preset: &'static str,
    /// `api`, `file`, or `default` if nobody set it.
    origin: &'static str,
    /// What guards in shadow would have stopped since then.
    since: String,
    /// By guard. `strict` enforces each, unless somebody wrote it as `shadow` or snoozed it.
    would_have_stopped: Vec<GuardOut>,
    /// All since then was counted.
    complete: bool,
}

/// What a guard in shadow would have stopped.
#[derive(Serialize, ToSchema)]
#[schema(as = WouldHaveStopped)]
struct GuardOut {
    guard: String,
    stops: u64,
    /// Of how many agents.
    agents: u64,
}

/// Shows everybody's preset, and what `strict` would have stopped in the last 7 days.
#[utoipa::path(get, path = "/api/preset", tag = "policy", responses((status = 200, body = PresetNowOut)))]
async fn read(State(app): State<App>) -> Answer<PresetNowOut> {
    shown(&app).await
}

/// Sets everybody's preset over the configuration's, at once and until it is taken back. Agents with a preset of their own
/// keep it.
#[utoipa::path(put, path = "/api/preset", tag = "policy", request_body = ChangeIn,
    responses((status = 200, body = PresetNowOut)))]
async fn put(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    JsonIn(change): JsonIn<ChangeIn>,
) -> Answer<PresetNowOut> {
    set(&app, Some(change.preset.into()), caller).await?;
    shown(&app).await
}

/// Takes it back: the configuration decides again.
#[utoipa::path(delete, path = "/api/preset", tag = "policy", responses((status = 200, body = PresetNowOut)))]
async fn delete(State(app): State<App>, Extension(caller): Extension<Caller>) -> Answer<PresetNowOut> {
    set(&app, None, caller).await?;
    shown(&app).await
}

/// Kept first, then in force: after a crash in between, the next start has what was asked for.
async fn set(app: &App, preset: Option<Preset>, caller: Caller) -> Result<(), Problem> {
    let asked = Arc::clone(app);
    app.work(move || {
        let _edit = asked.edit();
        asked.store_here().put_meta(KEPT, preset.map_or("", preset_name))?;
        Ok(asked.operator.set_preset(preset, &caller.by)?)
    })
    .await
}

async fn shown(app: &App) -> Answer<PresetNowOut> {
    let (preset, origin) = now(app);
    let since = app.now() - DAYS * 86_400_000;
    let seen = app.store(move |store| would_have(store, None, since)).await?;
    let guards = seen.guards.into_iter().map(|seen| GuardOut {
        guard: seen.guard,
        stops: seen.stops,
        agents: seen.agents,
    });
    Ok(Json(PresetNowOut {
        preset: preset_name(preset),
        origin,
        since: moment(since),
        would_have_stopped: guards.collect(),
        complete: seen.complete,
    }))
}

/// Everybody's preset, and who says so.
pub(crate) fn now(app: &App) -> (Preset, &'static str) {
    let (preset, origin) = (app.policy_file)().preset();
    let origin = match origin {
        PolicyOrigin::Preset => "default",
        PolicyOrigin::File | PolicyOrigin::AgentInFile => "file",
        PolicyOrigin::Api => "api",
    };
    (preset, origin)
}

/// What guards in shadow would have stopped.
pub(crate) struct Seen {
    pub(crate) guards: Vec<SeenGuard>,
    pub(crate) complete: bool,
}

pub(crate) struct SeenGuard {
    pub(crate) guard: String,
    pub(crate) stops: u64,
    pub(crate) agents: u64,
}

/// Counts them by guard, the most frequent first; of one agent or of all.
pub(crate) fn would_have(store: &dyn Store, agent: Option<&str>, since: i64) -> Result<Seen, StoreError> {
    let mut filter = EventFilter {
        agent: agent.map(Into::into),
        event_type: Some("would_have_stopped".into()),
        ..EventFilter::default()
    };
    let mut counts: BTreeMap<String, (u64, BTreeSet<Option<Name>>)> = BTreeMap::new();
    let mut read = 0;
    let complete = loop {
        let page = store.events(&filter, PAGE_MAX)?;
        let (size, last) = (page.len(), page.last().map(|last| (last.key, last.event.wall)));
        for found in page.into_iter().filter(|found| found.event.wall >= since) {
            let detail = kept_json(&found.event.detail);
            let guard = detail["guard"].as_str().unwrap_or("another guard").to_owned();
            let (stops, agents) = counts.entry(guard).or_default();
            *stops += 1;
            agents.insert(found.event.agent);
        }
        read += size;
        match last {
            Some((key, wall)) if size == PAGE_MAX && wall >= since => {
                if read >= EVENTS_MAX {
                    break false;
                }
                filter.before = Some(key);
            }
            Some(_) | None => break true,
        }
    };
    let mut guards: Vec<SeenGuard> = counts
        .into_iter()
        .map(|(guard, (stops, agents))| SeenGuard { guard, stops, agents: agents.len() as u64 })
        .collect();
    guards.sort_by_key(|seen| std::cmp::Reverse(seen.stops));
    Ok(Seen { guards, complete })
}
