//! Mutes: nothing is told for a while, by somebody's word, for a reason, with an end.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use estop_core::ids::Name;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::shape::{MuteIn, NameIn};
use crate::access::Caller;
use crate::alerts_api::MuteView;
use crate::input::{Checks, InPath, JsonIn, PathIn};
use crate::output::{Answer, moment};
use crate::problem::{Kind, Problem};
use crate::state::App;

/// Mutes that may hold at once: each is looked at for every alert.
const MUTES_MAX: usize = 100;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default().routes(routes!(list, add)).routes(routes!(read, put, delete))
}

/// Mutes that hold.
#[derive(Serialize, ToSchema)]
struct MutesOut {
    mutes: Vec<MuteOut>,
}

/// A mute.
#[derive(Serialize, ToSchema)]
#[schema(as = AlertMute)]
struct MuteOut {
    id: String,
    /// Of these types; none = all but `system_kill` and `admin_token`.
    types: Vec<String>,
    /// Of these agents; none = all.
    agents: Vec<String>,
    /// When it ends. What it hid and still lasts is told then.
    until: String,
    /// Who answers for it.
    by: String,
    why: String,
}

impl From<MuteView> for MuteOut {
    fn from(mute: MuteView) -> MuteOut {
        MuteOut {
            id: mute.id.into(),
            types: mute.types.into_iter().map(Into::into).collect(),
            agents: mute.agents.into_iter().map(Into::into).collect(),
            until: moment(mute.until),
            by: mute.by.into(),
            why: mute.why.into(),
        }
    }
}

/// Lists mutes that hold.
#[utoipa::path(get, path = "/api/alerts/mutes", tag = "alerts", responses((status = 200, body = MutesOut)))]
async fn list(State(app): State<App>) -> Answer<MutesOut> {
    Ok(Json(MutesOut { mutes: app.alerts_api.mutes().into_iter().map(Into::into).collect() }))
}

/// Which mute.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
struct MutePath {
    /// The mute's id.
    #[param(pattern = "^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$")]
    id: String,
}

impl InPath for MutePath {}

/// Shows a mute.
#[utoipa::path(get, path = "/api/alerts/mutes/{id}", tag = "alerts", params(MutePath),
    responses((status = 200, body = MuteOut)))]
async fn read(State(app): State<App>, PathIn(path): PathIn<MutePath>) -> Answer<MuteOut> {
    let found = app.alerts_api.mutes().into_iter().find(|mute| *mute.id == *path.id);
    Ok(Json(found.ok_or_else(|| Problem::not_found("mute", &path.id))?.into()))
}

/// Mutes for a while, under an id that is made.
#[utoipa::path(post, path = "/api/alerts/mutes", tag = "alerts", request_body = MuteIn,
    responses((status = 201, body = MuteOut)))]
async fn add(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    JsonIn(mute): JsonIn<MuteIn>,
) -> Result<(StatusCode, Json<MuteOut>), Problem> {
    let mut random = [0u8; 6];
    getrandom::fill(&mut random)
        .map_err(|_| Problem::new(Kind::Internal, "The system gave no random bytes."))?;
    let hex: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let mute = hold(&app, format!("m-{hex}"), mute, caller).await?;
    Ok((StatusCode::CREATED, Json(mute)))
}

/// Mutes for a while. A mute of the same id is replaced.
#[utoipa::path(put, path = "/api/alerts/mutes/{id}", tag = "alerts", params(MutePath), request_body = MuteIn,
    responses((status = 200, body = MuteOut)))]
async fn put(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathIn(path): PathIn<MutePath>,
    JsonIn(mute): JsonIn<MuteIn>,
) -> Answer<MuteOut> {
    let mut checks = Checks::default();
    checks.name("id", &path.id);
    checks.done()?;
    Ok(Json(hold(&app, path.id, mute, caller).await?))
}

async fn hold(app: &App, id: String, mute: MuteIn, caller: Caller) -> Result<MuteOut, Problem> {
    mute.check()?;
    let asked = Arc::clone(app);
    let work = move || {
        let _edit = asked.edit();
        let held = asked.alerts_api.mutes();
        if held.len() >= MUTES_MAX && !held.iter().any(|held| *held.id == *id) {
            let detail = format!("{MUTES_MAX} mutes hold already: end some first.");
            return Err(Problem::new(Kind::Conflict, detail));
        }
        let view = MuteView {
            id: id.into(),
            types: mute.types.iter().map(|one| Name::from(one.name())).collect(),
            agents: mute.agents.into_iter().map(|NameIn(name)| name.into()).collect(),
            until: asked.now().saturating_add(mute.minutes.0 * 60_000),
            by: caller.by.clone(),
            why: mute.why.into(),
        };
        asked.alerts_api.mute(view.clone())?;
        asked.operator.access_changed(&told(&view), &caller.by);
        Ok(view.into())
    };
    app.work(work).await
}

/// Names of a list that are told; the rest is counted.
const NAMES_TOLD: usize = 10;

/// A mute as the journal has it: what, of whom, until when, why. Reasons are short already.
fn told(mute: &MuteView) -> String {
    let names = |names: &[Name], none: &str| match names {
        [] => none.to_owned(),
        names if names.len() > NAMES_TOLD => {
            format!("{} and {} more", names[..NAMES_TOLD].join(", "), names.len() - NAMES_TOLD)
        }
        names => names.join(", "),
    };
    let types = names(&mute.types, "all but system_kill and admin_token");
    let agents = names(&mute.agents, "all agents");
    let MuteView { id, why, .. } = mute;
    format!("alerts muted until {} ({id}): {types}, of {agents}, because: {why}", moment(mute.until))
}

/// Ends a mute. What it hid and still lasts is told at once.
#[utoipa::path(delete, path = "/api/alerts/mutes/{id}", tag = "alerts", params(MutePath), responses((status = 204)))]
async fn delete(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathIn(path): PathIn<MutePath>,
) -> Result<StatusCode, Problem> {
    let asked = Arc::clone(&app);
    let work = move || {
        let _edit = asked.edit();
        if !asked.alerts_api.unmute(&path.id)? {
            return Err(Problem::not_found("mute", &path.id));
        }
        asked.operator.access_changed(&format!("alerts unmuted ({})", path.id), &caller.by);
        Ok(StatusCode::NO_CONTENT)
    };
    app.work(work).await
}
