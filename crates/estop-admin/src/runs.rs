//! Runs: list, start, look, and change their state (CB-7). A run's id is `agent:run`.

mod extend;
mod own;
mod shown;
mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use estop_core::ids::Name;
use estop_core::money::NanoUsd;
use estop_core::operator::{Operator, RunStep};
use estop_core::policy::RunLimits;
use estop_core::run::{RunState, RunView};
use estop_core::tags::Tags;
use estop_store::{Run, RunFilter};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::{Caller, random_id};
use crate::input::{Checks, InPath, JsonIn, PathIn, QueryIn, page_size};
use crate::output::{Answer, read_time_cursor, time_cursor};
use crate::problem::{Kind, Problem};
use crate::state::App;
use shown::{RunOut, RunStateName};

/// Labels of one run.
const LABELS_MAX: usize = 32;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default()
        .routes(routes!(list, start))
        .routes(routes!(one))
        .routes(routes!(activate))
        .routes(routes!(sleep))
        .routes(routes!(wake))
        .routes(routes!(complete))
        .routes(routes!(extend::extend))
        .routes(routes!(watch::watch))
}

/// Which runs.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Filter {
    /// Of this agent.
    #[param(value_type = Option<String>)]
    agent: Option<Name>,
    /// In this state.
    #[param(inline)]
    state: Option<RunStateName>,
    /// The `next` of the page before.
    #[param(pattern = "^-?[0-9]{1,15}:.*$")]
    before: Option<String>,
    /// At most so many.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u64>,
}

/// A page of runs, newest first. The first page begins with runs that are not stored yet.
#[derive(Serialize, ToSchema)]
struct RunsOut {
    runs: Vec<RunOut>,
    /// Send it as `before` to get the next page; null = this was the last.
    next: Option<String>,
}

/// Lists runs.
#[utoipa::path(get, path = "/api/runs", tag = "runs", params(Filter), responses((status = 200, body = RunsOut)))]
async fn list(State(app): State<App>, QueryIn(filter): QueryIn<Filter>) -> Answer<RunsOut> {
    let limit = page_size(filter.limit)?;
    let before = read_time_cursor(filter.before.as_deref())?;
    let asked = Arc::clone(&app);
    let state = filter.state.map(RunState::from);
    app.work(move || {
        let agent = asked.agent_filter(filter.agent)?;
        let mut live = live_runs(&asked, agent.as_deref());
        let first_page = before.is_none();
        let query = RunFilter { agent, state: state.map(|state| state.name().into()), before };
        let rows = asked.store_here().runs(&query, limit)?;
        let next =
            rows.last().filter(|_| rows.len() == limit).map(|row| time_cursor(row.started_at, &row.id));
        let mut runs: Vec<RunOut> = Vec::new();
        let rows: Vec<RunOut> =
            rows.into_iter().map(|row| RunOut::of(live.remove(&row.id).as_ref(), row)).collect();
        if first_page {
            for (id, view) in live.into_iter().take(limit) {
                let is_new = asked.store_here().run(&id)?.is_none();
                runs.extend(is_new.then(|| RunOut::of(Some(&view), unstored(&id, &view))));
            }
        }
        runs.extend(rows);
        runs.retain(|run| state.is_none_or(|state| run.state() == state.name()));
        Ok(Json(RunsOut { runs, next }))
    })
    .await
}

/// Runs in memory, by id.
fn live_runs(app: &App, agent: Option<&str>) -> BTreeMap<Name, RunView> {
    let agents = match agent {
        Some(name) => app.operator.agent(name).into_iter().collect(),
        None => app.operator.agents(),
    };
    let of_agent = |agent: estop_core::operator::AgentView| {
        let name = agent.name;
        agent.runs.into_iter().map(move |run| (id_of(&name, run.name.as_deref()), run))
    };
    agents.into_iter().flat_map(of_agent).collect()
}

/// The id of a run; the implicit one has no name after the colon.
fn id_of(agent: &str, run: Option<&str>) -> Name {
    format!("{agent}:{}", run.unwrap_or_default()).into()
}

/// What there is of a run that is not stored yet.
fn unstored(id: &str, view: &RunView) -> Run {
    let agent = id.split_once(':').map_or(id, |(agent, _)| agent);
    Run {
        id: id.into(),
        agent: agent.into(),
        name: view.name.clone(),
        state: view.state.name().into(),
        attended: view.attended,
        role: None,
        issue: None,
        branch: None,
        session: None,
        labels: "{}".to_owned(),
        started_at: 0,
        ended_at: None,
        counters: "{}".to_owned(),
        spent: NanoUsd(0),
        tokens: 0,
        summary: None,
    }
}

/// A new run.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct RunIn {
    /// Whose.
    #[schema(pattern = "^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$")]
    agent: String,
    /// Its name; made up if left out.
    #[schema(pattern = "^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$")]
    run: Option<String>,
    /// The role it runs under.
    #[schema(pattern = "^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$")]
    role: Option<String>,
    /// A person sits at it.
    #[serde(default)]
    attended: bool,
    /// The issue it works on.
    #[schema(min_length = 1, max_length = 256, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$")]
    issue: Option<String>,
    /// The branch it works on.
    #[schema(min_length = 1, max_length = 256, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$")]
    branch: Option<String>,
    /// The client's session.
    #[schema(min_length = 1, max_length = 256, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$")]
    session: Option<String>,
    /// Limits for this run alone; they are enforced whatever the preset says.
    #[serde(default, deserialize_with = "shown::read_limits")]
    #[schema(schema_with = shown::limits_schema)]
    limits: RunLimits,
    /// Labels; spend is summed up by them.
    #[serde(default)]
    #[schema(schema_with = shown::labels_schema)]
    labels: BTreeMap<String, String>,
}

impl RunIn {
    fn check(&self) -> Result<(), Problem> {
        let mut checks = Checks::default();
        checks.name("agent", &self.agent);
        self.run.iter().for_each(|run| checks.name("run", run));
        self.role.iter().for_each(|role| checks.name("role", role));
        self.issue.iter().for_each(|issue| checks.line("issue", issue, 256));
        self.branch.iter().for_each(|branch| checks.line("branch", branch, 256));
        self.session.iter().for_each(|session| checks.line("session", session, 256));
        checks.expect(self.labels.len() <= LABELS_MAX, "labels", "may be at most 32");
        for (key, value) in &self.labels {
            checks.line("labels", key, 64);
            checks.line(&format!("labels.{key}"), value, 256);
        }
        checks.done()
    }
}

/// Starts a run; an agent that is not known yet is added.
#[utoipa::path(post, path = "/api/runs", tag = "runs", request_body = RunIn, responses((status = 201, body = RunOut)))]
async fn start(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    JsonIn(mut new): JsonIn<RunIn>,
) -> Result<(StatusCode, Json<RunOut>), Problem> {
    new.check()?;
    new.agent = app.operator.canonical(&new.agent).into();
    caller.may_act_for(&new.agent, new.run.as_deref())?;
    let name = match &new.run {
        Some(name) => name.clone(),
        None => format!("run-{}", random_id()?),
    };
    let asked = Arc::clone(&app);
    let work = move || {
        // Whoever is not known yet begins with its run, as with its first request; who was deleted does not come back so.
        if asked.store_here().agent(&new.agent)?.is_some_and(|agent| agent.deleted) {
            return Err(Problem::no_agent("agent", &new.agent));
        }
        let agent = own::awake(&asked, &new.agent)?;
        own::may_say(&new, &agent, &caller)?;
        own::may_begin(&asked, &agent, &name, &caller)?;
        begin(&asked, &new, &name, &caller)
    };
    let out = app.work(work).await?;
    Ok((StatusCode::CREATED, Json(out)))
}

fn begin(app: &App, new: &RunIn, name: &str, caller: &Caller) -> Result<RunOut, Problem> {
    let kept = |text: &Option<String>| text.as_deref().map(Name::from);
    let tags = Tags {
        issue: kept(&new.issue),
        branch: kept(&new.branch),
        role: kept(&new.role),
        session: kept(&new.session),
        labels: new.labels.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect(),
    };
    let start = RunStep::Start { attended: new.attended, tags, limits: new.limits };
    allowed(app, &new.agent, name, start, &caller.by)?;
    let id = id_of(&new.agent, Some(name));
    let view = live_runs(app, Some(&new.agent)).remove(&id);
    let row = Run {
        id,
        agent: new.agent.as_str().into(),
        name: Some(name.into()),
        state: RunState::Active.name().into(),
        attended: new.attended,
        role: kept(&new.role),
        issue: kept(&new.issue),
        branch: kept(&new.branch),
        session: kept(&new.session),
        labels: serde_json::to_string(&new.labels).unwrap_or_else(|_| "{}".to_owned()),
        started_at: app.now(),
        ended_at: None,
        counters: "{}".to_owned(),
        spent: NanoUsd(0),
        tokens: 0,
        summary: None,
    };
    // What the journal tells of it follows; a run that is there already is not written over.
    if app.store_here().run(&row.id)?.is_none() {
        app.store_here().put_run(&row)?;
    }
    Ok(RunOut::of(view.as_ref(), row))
}

/// Which run.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
struct RunPath {
    /// `agent:run`.
    #[param(value_type = String)]
    id: Name,
}

impl InPath for RunPath {
    fn make_canonical(&mut self, operator: &dyn Operator) {
        if let Some((agent, run)) = self.id.split_once(':') {
            self.id = format!("{}:{run}", operator.canonical(agent)).into();
        }
    }
}

/// Shows a run.
#[utoipa::path(get, path = "/api/runs/{id}", tag = "runs", params(RunPath), responses((status = 200, body = RunOut)))]
async fn one(State(app): State<App>, PathIn(path): PathIn<RunPath>) -> Answer<RunOut> {
    let asked = Arc::clone(&app);
    app.work(move || find(&asked, &path.id).map(|(row, view)| Json(RunOut::of(view.as_ref(), row)))).await
}

fn find(app: &App, id: &str) -> Result<(Run, Option<RunView>), Problem> {
    let agent = id.split_once(':').map(|(agent, _)| agent);
    let view = agent.and_then(|agent| live_runs(app, Some(agent)).remove(id));
    let row = app.store_here().run(id)?.or_else(|| view.as_ref().map(|view| unstored(id, view)));
    row.map(|row| (row, view)).ok_or_else(|| Problem::not_found("run", id))
}

/// Asks the operator; a refusal says why.
fn allowed(app: &App, agent: &str, run: &str, step: RunStep, by: &str) -> Result<(), Problem> {
    let decision = app.operator.run(agent, run, step, by)?;
    if decision.is_allowed() { Ok(()) } else { Err(Problem::new(Kind::Conflict, decision.reason())) }
}

macro_rules! step {
    ($(#[$doc:meta])* $name:ident, $path:literal, $step:expr) => {
        $(#[$doc])*
        #[utoipa::path(post, path = $path, tag = "runs", params(RunPath), responses((status = 200, body = RunOut)))]
        async fn $name(
            State(app): State<App>,
            Extension(caller): Extension<Caller>,
            PathIn(path): PathIn<RunPath>,
        ) -> Answer<RunOut> {
            let asked = Arc::clone(&app);
            app.work(move || step(&asked, &path.id, $step, &caller).map(Json)).await
        }
    };
}

step!(
    /// Starts a run anew that is completed.
    activate, "/api/runs/{id}/activate", |row| RunStep::Start {
        attended: row.attended,
        tags: tags_of(row),
        limits: RunLimits::default(),
    }
);
step!(
    /// A run waits: its active time stands still.
    sleep, "/api/runs/{id}/sleep", |_| RunStep::Sleep
);
step!(
    /// A run goes on.
    wake, "/api/runs/{id}/wake", |_| RunStep::Wake
);
step!(
    /// A run is done.
    complete, "/api/runs/{id}/complete", |_| RunStep::Complete
);

/// What a run that begins anew is for: the same as before.
fn tags_of(row: &Run) -> Tags {
    let labels = serde_json::from_str(&row.labels).unwrap_or_default();
    let Run { issue, branch, role, session, .. } = row.clone();
    Tags { issue, branch, role, session, labels }
}

fn step(app: &App, id: &str, step: impl FnOnce(&Run) -> RunStep, caller: &Caller) -> Result<RunOut, Problem> {
    let (agent, run) = id.split_once(':').unwrap_or((id, ""));
    caller.may_act_for(agent, Some(run))?;
    let (row, _) = find(app, id)?;
    let name = row.name.clone().unwrap_or_default();
    if name.is_empty() && caller.only.is_some() {
        let detail =
            "The run without a name begins and ends by itself: an agent's key or ticket does not change it.";
        return Err(Problem::new(Kind::Conflict, detail));
    }
    let step = step(&row);
    let ends = matches!(step, RunStep::Complete);
    allowed(app, &row.agent, &name, step, &caller.by)?;
    let (mut row, view) = find(app, id)?;
    if let Some(view) = &view {
        row.state = view.state.name().into();
    }
    row.ended_at = ends.then(|| app.now());
    if row.name.is_some() {
        // The run without a name is in no table: it lives as long as it is in memory.
        app.store_here().set_run_state(&row.id, &row.state, row.ended_at)?;
    }
    Ok(RunOut::of(view.as_ref(), row))
}
