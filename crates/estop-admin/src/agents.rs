//! Agents: list, look, add, change, delete, and switch on and off.

pub(crate) mod kill_switch;
pub(crate) mod overrides;
pub(crate) mod row;
pub(crate) mod shown;
mod snooze;

use std::mem::discriminant;

use axum::extract::State;
use axum::response::IntoResponse;
use axum::{Extension, Json};
use estop_core::agent::standing::Standing;
use estop_core::ids::Name;
use estop_core::operator::{AgentCommand, AgentView, Operator};
use estop_store::{Agent, Origin, StoreError};
use http::header::LOCATION;
use http::{HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::Caller;
use crate::cases::{self, ResolvedOut, UnresolvedCases};
use crate::input::{
    Checks, IfMatch, IfMatchGiven, IfMatchNeeded, InPath, JsonIn, PathIn, QueryIn, Whole, nullable, page_size,
};
use crate::output::{Answer, Tagged};
use crate::problem::{Kind, Problem};
use crate::state::{App, at_once};
use kill_switch::KillSwitchIn;
use row::Found;
use shown::AgentCommandOut;
pub(crate) use shown::AgentOut;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default()
        .routes(routes!(list, add))
        .routes(routes!(one, change, delete))
        .routes(routes!(activate))
        .routes(routes!(deactivate))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .merge(snooze::routes())
}

/// Which agent.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct AgentPath {
    /// The agent's name.
    #[param(value_type = String)]
    pub(crate) id: Name,
}

impl InPath for AgentPath {
    fn make_canonical(&mut self, operator: &dyn Operator) {
        self.id = operator.canonical(&self.id);
    }
}

/// Which page.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Page {
    /// Agents after this one.
    after: Option<String>,
    /// At most so many.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u64>,
    /// With `estop-canary`, the reserved agent of the proof test.
    #[serde(default)]
    canary: bool,
}

/// A page of agents, in order of name.
#[derive(Serialize, ToSchema)]
struct AgentsOut {
    agents: Vec<AgentOut>,
    /// Send it as `after` to get the next page; null = this was the last.
    next: Option<String>,
}

/// Lists agents.
#[utoipa::path(get, path = "/api/agents", tag = "agents", params(Page), responses((status = 200, body = AgentsOut)))]
async fn list(State(app): State<App>, QueryIn(page): QueryIn<Page>) -> Answer<AgentsOut> {
    let limit = page_size(page.limit)?;
    let asked = std::sync::Arc::clone(&app);
    let found = app.work(move || row::page(&asked, page.after.as_deref(), limit, page.canary)).await?;
    let agents = found.agents.iter().map(|found| AgentOut::of(&app, found)).collect();
    Ok(Json(AgentsOut { agents, next: found.next.map(Into::into) }))
}

/// A new agent.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct AgentIn {
    /// Its name: letters, digits, `.`, `_` and `-`; not `system`.
    #[schema(pattern = "^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$")]
    id: String,
    /// Its role, which picks its circuit breakers.
    #[serde(default)]
    #[schema(pattern = "^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$")]
    role: Option<String>,
}

/// Adds an agent before it calls for the first time.
#[utoipa::path(post, path = "/api/agents", tag = "agents", request_body = AgentIn,
    responses((status = 201, body = AgentOut, headers(("etag" = String), ("location" = String)))))]
async fn add(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    JsonIn(new): JsonIn<AgentIn>,
) -> Result<impl IntoResponse, Problem> {
    let mut checks = Checks::default();
    checks.name("id", &new.id);
    new.role.iter().for_each(|role| checks.name("role", role));
    checks.expect(new.id != estop_core::system::SYSTEM, "id", "must not be `system`");
    checks.done()?;
    let location = HeaderValue::from_str(&format!("/api/agents/{}", new.id));
    let asked = std::sync::Arc::clone(&app);
    let found = app.work(move || insert(&asked, &new, &caller)).await?;
    let location = location.ok().map(|value| (LOCATION, value));
    let out = Tagged(found.version(), AgentOut::of(&app, &found));
    Ok((StatusCode::CREATED, axum::response::AppendHeaders(location), out))
}

fn insert(app: &App, new: &AgentIn, caller: &Caller) -> Result<Found, Problem> {
    let store = app.store_here();
    // Also in another case: that is the same agent.
    if row::find(app, &app.operator.canonical(&new.id)).is_ok() {
        return Err(StoreError::Exists { what: "agent", id: new.id.clone() }.into());
    }
    app.operator.add_agent(&new.id)?;
    app.operator.name_agent(&new.id);
    let in_file = (app.policy_file)().agents().any(|name| name == new.id);
    let origin = if in_file { Origin::Config } else { Origin::Api };
    let mut agent = Agent::new(&new.id, origin, app.now());
    agent.role = new.role.as_deref().map(Into::into);
    let agent = store.insert_agent(&agent)?;
    overrides::tell(app, &agent, &caller.by)?;
    row::find(app, &new.id)
}

/// Shows an agent.
#[utoipa::path(get, path = "/api/agents/{id}", tag = "agents", params(AgentPath),
    responses((status = 200, body = AgentOut, headers(("etag" = String)))))]
async fn one(State(app): State<App>, PathIn(path): PathIn<AgentPath>) -> Result<Tagged<AgentOut>, Problem> {
    let found = look(&app, path.id).await?;
    Ok(Tagged(found.version(), AgentOut::of(&app, &found)))
}

/// Looks an agent up.
pub(crate) async fn look(app: &App, name: Name) -> Result<Found, Problem> {
    let asked = std::sync::Arc::clone(app);
    app.work(move || row::find(&asked, &name)).await
}

/// What can be changed of an agent. What is left out stays; null = as the configuration says. Its other rules are under
/// `policy`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct AgentChange {
    /// Its role; null = the one the configuration gives it.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>, pattern = "^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$")]
    role: Option<Option<String>>,
    /// The same as `enabled` under `kill-switch`.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<bool>)]
    kill_switch_enabled: Option<Option<bool>>,
    /// The same as `window_size` under `kill-switch`.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<u8>, minimum = 5, maximum = 100)]
    kill_switch_window_size: Option<Option<Whole>>,
    /// The same as `threshold` under `kill-switch`.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<f64>, minimum = 1, maximum = 50)]
    kill_switch_threshold: Option<Option<f64>>,
}

/// Changes an agent.
#[utoipa::path(patch, path = "/api/agents/{id}", tag = "agents",
    params(AgentPath, IfMatchGiven),
    request_body = AgentChange, responses((status = 200, body = AgentOut, headers(("etag" = String)))))]
async fn change(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathIn(path): PathIn<AgentPath>,
    if_match: IfMatch,
    JsonIn(change): JsonIn<AgentChange>,
) -> Result<Tagged<AgentOut>, Problem> {
    let mut checks = Checks::default();
    change.role.iter().flatten().for_each(|role| checks.name("role", role));
    checks.done()?;
    let kill_switch = KillSwitchIn {
        enabled: change.kill_switch_enabled,
        window_size: change.kill_switch_window_size,
        threshold: change.kill_switch_threshold,
    };
    kill_switch::check(&kill_switch, "kill_switch_")?;
    let asked = std::sync::Arc::clone(&app);
    let work = move || {
        let _edit = asked.edit();
        let found = row::find(&asked, &path.id)?;
        if_match.check(found.version())?;
        let change = |agent: &mut Agent| {
            if let Some(role) = &change.role {
                agent.role = role.as_deref().map(Into::into);
            }
            kill_switch::apply(agent, &kill_switch);
        };
        overrides::update(&asked, &found, &caller.by, change)
    };
    let found = app.work(work).await?;
    Ok(Tagged(found.version(), AgentOut::of(&app, &found)))
}

/// Deletes an agent: it is switched off, its keys are taken back, its records stay. Needs `If-Match`.
#[utoipa::path(delete, path = "/api/agents/{id}", tag = "agents",
    params(AgentPath, IfMatchNeeded),
    responses((status = 204)))]
async fn delete(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathIn(path): PathIn<AgentPath>,
    if_match: IfMatch,
) -> Result<StatusCode, Problem> {
    let asked = std::sync::Arc::clone(&app);
    app.work(move || remove(&asked, &path.id, &if_match, &caller)).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn remove(app: &App, name: &str, if_match: &IfMatch, caller: &Caller) -> Result<(), Problem> {
    let _edit = app.edit();
    let found = row::find(app, name)?;
    if_match.require(found.version())?;
    if found.is_in_file(app) {
        let detail = "The configuration names this agent: take it out there, or deactivate it here.";
        return Err(Problem::new(Kind::Conflict, detail));
    }
    // One that rests in the store is stopped too.
    app.operator.add_agent(name)?;
    app.operator.steer(name, AgentCommand::Deactivate, &caller.by)?;
    // The stop changes its row, too: not between here and the deletion.
    app.operator.is_stored();
    let stored = row::stored(app, &row::find(app, name)?)?;
    let store = app.store_here();
    store.delete_agent(name, stored.version, app.now())?;
    app.tell_keys(store)?;
    app.operator.release_agent(name);
    Ok(())
}

macro_rules! steer {
    ($(#[$doc:meta])* $name:ident, $path:literal, $steer:expr) => {
        $(#[$doc])*
        #[utoipa::path(post, path = $path, tag = "agents", params(AgentPath), responses((status = 200, body = AgentCommandOut)))]
        async fn $name(
            State(app): State<App>,
            Extension(caller): Extension<Caller>,
            PathIn(path): PathIn<AgentPath>,
        ) -> Answer<AgentCommandOut> {
            steer(&app, path.id, $steer, caller).await
        }
    };
}

steer!(
    /// Switches an agent on. Its window, mode, cooldown and counters begin anew, its run without a name begins anew if it
    /// is at a limit, and its open incidents are resolved.
    activate, "/api/agents/{id}/activate", AgentCommand::Activate
);
steer!(
    /// Switches an agent off: what it has under way is ended, and it stays off.
    deactivate, "/api/agents/{id}/deactivate", AgentCommand::Deactivate
);
steer!(
    /// Pauses an agent: what is new is refused for now.
    pause, "/api/agents/{id}/pause", AgentCommand::Pause
);
steer!(
    /// Lets a paused agent go on; its open incidents are resolved.
    resume, "/api/agents/{id}/resume", AgentCommand::Resume
);

/// How an agent stands. Whoever judges it may hold its lock, and a kill must not wait behind this on the only thread of the plane.
async fn view_of(app: &App, name: &Name) -> Result<Option<AgentView>, Problem> {
    let (asked, agent) = (std::sync::Arc::clone(app), name.clone());
    at_once(move || Ok(asked.operator.agent(&agent))).await
}

/// A stop acts first and looks afterwards: nothing slow stands before it.
async fn steer(app: &App, name: Name, steer: AgentCommand, caller: Caller) -> Answer<AgentCommandOut> {
    let stops = matches!(steer, AgentCommand::Deactivate | AgentCommand::Pause);
    if !stops || view_of(app, &name).await?.is_none() {
        load(app, name.clone()).await?;
    }
    let answers = matches!(steer, AgentCommand::Activate | AgentCommand::Resume);
    let (asked, agent) = (std::sync::Arc::clone(app), name.clone());
    let open = match answers {
        true => Some(app.work(move || Ok(cases::unresolved(&asked, &agent))).await?),
        false => None,
    };
    let before = if stops { None } else { view_of(app, &name).await? };
    let person = caller.by.clone();
    let (asked, agent, by) = (std::sync::Arc::clone(app), name.clone(), caller.by.clone());
    let view = at_once(move || Ok(asked.operator.steer(&agent, steer, &by)?)).await?;
    let resolved = match open {
        Some(open) => {
            let (asked, agent) = (std::sync::Arc::clone(app), name.clone());
            app.work(move || answered(&asked, &agent, &caller.by, open)).await?
        }
        None => ResolvedOut::default(),
    };
    let is_same = before.is_some_and(|before| is_same(&before, &view)) && resolved == ResolvedOut::default();
    let message = match is_same {
        true => unchanged(&view),
        false => message(&view, steer, &person, &resolved),
    };
    let stored = app.store(move |store| store.agent(&name)).await.unwrap_or(None);
    let agent = AgentOut::of(app, &Found::new(stored, Some(view)));
    Ok(Json(AgentCommandOut { agent, message, resolved }))
}

/// What it answered, and tells people whose escalations those were.
fn answered(app: &App, agent: &str, by: &str, open: UnresolvedCases) -> Result<ResolvedOut, Problem> {
    let resolved = open.resolved(app)?;
    for escalation in resolved.escalations() {
        app.alerts_api.escalation_resolved(escalation, agent, "", by);
    }
    Ok(resolved)
}

/// Whether a step left an agent as it was: a second `activate` or `resume`.
fn is_same(before: &AgentView, after: &AgentView) -> bool {
    discriminant(&before.standing) == discriminant(&after.standing) && before.status.kind == after.status.kind
}

/// What is said of a step that changed nothing.
fn unchanged(view: &AgentView) -> String {
    let (name, status) = (&view.name, &view.status);
    let was = match view.standing {
        Standing::Active => "was active already",
        Standing::Inactive { .. } | Standing::Paused { .. } => "is not paused",
    };
    let stands = match status.passes {
        true => String::new(),
        false => format!(" Its requests are still refused ({}). {}", status.label, status.sentence),
    };
    format!("Nothing was changed: agent {name} {was}.{stands}")
}

/// What was done, and what still stands in the agent's way.
fn message(view: &AgentView, steer: AgentCommand, by: &str, resolved: &ResolvedOut) -> String {
    let (name, status) = (&view.name, &view.status);
    match steer {
        AgentCommand::Deactivate => {
            format!("Agent {name} was deactivated by {by}: its requests in progress were ended.")
        }
        AgentCommand::Pause => format!("Agent {name} is {}: new requests are refused.", status.label),
        AgentCommand::Activate | AgentCommand::Resume => {
            let done = if steer == AgentCommand::Activate { "reactivated" } else { "resumed" };
            let stands = if status.passes {
                ".".to_owned()
            } else {
                let (label, sentence) = (&status.label, &status.sentence);
                format!(", but its requests are still refused ({label}). {sentence}")
            };
            format!("Agent {name} was {done} by {by}{stands}{}", resolved.sentence())
        }
    }
}

/// Makes sure that an agent is in memory: a stored one may not have called since the start.
async fn load(app: &App, name: Name) -> Result<(), Problem> {
    let asked = std::sync::Arc::clone(app);
    app.work(move || {
        let found = row::find(&asked, &name)?;
        match (found.live, found.stored) {
            (None, Some(stored)) => overrides::tell(&asked, &stored, "estop"),
            (Some(_), _) | (None, None) => Ok(()),
        }
    })
    .await
}
