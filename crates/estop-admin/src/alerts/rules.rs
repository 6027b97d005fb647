//! Rules: who is told of what. Those of the API lie over those of the file by name; a disabled one takes the file's away.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use estop_core::ids::Name;
use estop_store::AlertRule;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::shape::RuleIn;
use crate::access::Caller;
use crate::input::{Checks, IfMatch, IfMatchGiven, InPath, JsonIn, PathIn};
use crate::output::{Answer, Tagged, kept_json, moment};
use crate::problem::{Kind, Problem};
use crate::state::App;

/// Rules of the API. A person reads them; more than a screen or two nobody does.
const RULES_MAX: usize = 200;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default().routes(routes!(list)).routes(routes!(read, put, delete))
}

/// Where a rule stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    File,
    Api,
}

/// A rule, and what becomes of it.
pub(crate) struct RuleView {
    pub(crate) id: Name,
    pub(crate) origin: Origin,
    pub(crate) enabled: bool,
    pub(crate) in_force: bool,
    /// Why it is not, or only partly, in force though it is enabled.
    pub(crate) problem: Option<String>,
    pub(crate) rule: Value,
    /// 0 = the API has none of this name.
    pub(crate) version: u64,
    updated_at: Option<i64>,
}

/// All rules by name, the API's before the file's. May wait for the store.
pub(crate) fn every(app: &App) -> Result<Vec<RuleView>, Problem> {
    let channels: Vec<Name> = app.alerts_api.channels().into_iter().map(|channel| channel.name).collect();
    let mut rules = Vec::new();
    for AlertRule { id, rule, enabled, version, updated_at } in app.store_here().rules()? {
        let rule = kept_json(&rule);
        let (in_force, problem) = if enabled { usable(app, &rule, &channels) } else { (false, None) };
        let updated_at = Some(updated_at);
        let origin = Origin::Api;
        rules.push(RuleView { id, origin, enabled, in_force, problem, rule, version, updated_at });
    }
    let filed = app.alerts_api.file_rules().into_iter().map(|(id, rule)| {
        // An unusable one of the API leaves the file's in force.
        let over = rules.iter().find(|over| over.id == id && (over.in_force || !over.enabled));
        let problem = over.map(|over| match over.enabled {
            true => "a rule of the API has the same name and replaces it".to_owned(),
            false => "a rule of the API has the same name and switches it off".to_owned(),
        });
        let (in_force, rule) = (over.is_none(), kept_json(&rule));
        let origin = Origin::File;
        RuleView { id, origin, enabled: true, in_force, problem, rule, version: 0, updated_at: None }
    });
    let filed: Vec<RuleView> = filed.collect();
    rules.extend(filed);
    // Stable: the API's stay before the file's.
    rules.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(rules)
}

/// Whether an enabled rule of the API is in force, and what is wrong with it. Channels that are gone are left out; a rule
/// of which all are gone is, too.
fn usable(app: &App, rule: &Value, channels: &[Name]) -> (bool, Option<String>) {
    let named = rule["channels"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_there = |name: &Value| name.as_str().is_some_and(|name| channels.iter().any(|one| &**one == name));
    let (left, gone): (Vec<&Value>, Vec<&Value>) = named.iter().partition(|name| is_there(name));
    let gone: Vec<&str> = gone.into_iter().filter_map(Value::as_str).collect();
    let gone = (!gone.is_empty()).then(|| format!("no such channel any more: {}", gone.join(", ")));
    if gone.is_some() && left.is_empty() {
        return (false, gone);
    }
    let mut rest = rule.clone();
    if let (Some(rest), true) = (rest.as_object_mut(), gone.is_some()) {
        rest.insert("channels".to_owned(), left.into_iter().cloned().collect());
    }
    match app.alerts_api.check_rule(&rest.to_string()) {
        Ok(()) => (true, gone),
        Err(problem) => (false, Some(problem.to_string())),
    }
}

/// All rules, by name.
#[derive(Serialize, ToSchema)]
struct RulesOut {
    rules: Vec<RuleOut>,
    /// No rule is in force: every channel is told of everything but checkpoints.
    everything: bool,
}

/// A rule: who is told of what.
#[derive(Serialize, ToSchema)]
#[schema(as = AlertRule)]
struct RuleOut {
    id: String,
    /// `api` or `file`. Of two with the same name the API's wins; a disabled one takes the file's away.
    origin: &'static str,
    /// A disabled one tells nobody.
    enabled: bool,
    /// It decides who is told.
    in_force: bool,
    /// Why it is not in force though it is enabled, or which of its channels are gone.
    problem: Option<String>,
    /// What it says, as under `alerts.rules` of the configuration.
    #[schema(value_type = Object)]
    rule: Value,
    updated_at: Option<String>,
    /// Also the ETag; 0 = the API has none of this name.
    version: u64,
}

impl From<RuleView> for RuleOut {
    fn from(view: RuleView) -> RuleOut {
        RuleOut {
            id: view.id.into(),
            origin: if view.origin == Origin::Api { "api" } else { "file" },
            enabled: view.enabled,
            in_force: view.in_force,
            problem: view.problem,
            rule: view.rule,
            updated_at: view.updated_at.map(moment),
            version: view.version,
        }
    }
}

/// Lists rules of the file and of the API, and says which are in force.
#[utoipa::path(get, path = "/api/alerts/rules", tag = "alerts", responses((status = 200, body = RulesOut)))]
async fn list(State(app): State<App>) -> Answer<RulesOut> {
    let asked = Arc::clone(&app);
    let rules = app.work(move || every(&asked)).await?;
    let everything = !rules.iter().any(|rule| rule.in_force);
    Ok(Json(RulesOut { rules: rules.into_iter().map(Into::into).collect(), everything }))
}

/// Which rule.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
struct RulePath {
    /// The rule's name.
    #[param(pattern = "^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$")]
    id: String,
}

impl InPath for RulePath {}

fn find(app: &App, id: &str) -> Result<RuleView, Problem> {
    let found = every(app)?.into_iter().find(|rule| &*rule.id == id);
    found.ok_or_else(|| Problem::not_found("alert rule", id))
}

/// Shows a rule: the API's, or else the file's.
#[utoipa::path(get, path = "/api/alerts/rules/{id}", tag = "alerts", params(RulePath),
    responses((status = 200, body = RuleOut, headers(("etag" = String)))))]
async fn read(State(app): State<App>, PathIn(path): PathIn<RulePath>) -> Result<Tagged<RuleOut>, Problem> {
    let asked = Arc::clone(&app);
    let found = app.work(move || find(&asked, &path.id)).await?;
    Ok(Tagged(found.version, found.into()))
}

/// A rule to be set.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = AlertRuleChange)]
struct RuleChange {
    /// `false` takes the file's rule of that name away; true if left out.
    #[serde(default = "yes")]
    #[schema(default = true)]
    enabled: bool,
    #[serde(default)]
    rule: RuleIn,
}

fn yes() -> bool {
    true
}

/// Sets a rule. It replaces the API's and the file's of that name.
#[utoipa::path(put, path = "/api/alerts/rules/{id}", tag = "alerts", params(RulePath, IfMatchGiven),
    request_body = RuleChange, responses((status = 200, body = RuleOut, headers(("etag" = String)))))]
async fn put(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathIn(path): PathIn<RulePath>,
    if_match: IfMatch,
    JsonIn(change): JsonIn<RuleChange>,
) -> Result<Tagged<RuleOut>, Problem> {
    let mut checks = Checks::default();
    checks.name("id", &path.id);
    checks.done()?;
    change.rule.check("rule.")?;
    let asked = Arc::clone(&app);
    let found = app.work(move || set(&asked, &path.id, &if_match, change, &caller)).await?;
    Ok(Tagged(found.version, found.into()))
}

fn set(
    app: &App,
    id: &str,
    if_match: &IfMatch,
    change: RuleChange,
    caller: &Caller,
) -> Result<RuleView, Problem> {
    let _edit = app.edit();
    let stored = app.store_here().rules()?;
    let known = stored.iter().find(|rule| &*rule.id == id).map(|rule| rule.version);
    if_match.check(known.unwrap_or(0))?;
    if known.is_none() && stored.len() >= RULES_MAX {
        let detail = format!("There may be {RULES_MAX} rules of the API: delete some first.");
        return Err(Problem::new(Kind::Conflict, detail));
    }
    know_channels(app, &change.rule)?;
    let (enabled, rule) = (change.enabled, change.rule.into_json().to_string());
    app.alerts_api.check_rule(&rule).map_err(|problem| Problem::field("rule", problem.to_string()))?;
    let (version, updated_at) = (known.unwrap_or(0), app.now());
    app.store_here().put_rule(&AlertRule { id: id.into(), rule, enabled, version, updated_at })?;
    let how = if enabled { "set" } else { "set, disabled" };
    take_up(app, &format!("alert rule {id} {how}"), caller)?;
    find(app, id)
}

/// A rule for nobody would look like one for somebody.
fn know_channels(app: &App, rule: &RuleIn) -> Result<(), Problem> {
    let there: Vec<Name> = app.alerts_api.channels().into_iter().map(|channel| channel.name).collect();
    let Some(unknown) = rule.channels().find(|name| !there.iter().any(|known| &**known == *name)) else {
        return Ok(());
    };
    let fix = match there.as_slice() {
        [] => "there is none at all: add one under `alerts.channels` of the configuration".to_owned(),
        there => format!("name one of {}", there.join(", ")),
    };
    let detail = format!("rule.channels: there is no channel `{unknown}`; {fix}.");
    Err(Problem::new(Kind::Conflict, detail))
}

/// Takes a rule of the API away: the file decides again.
#[utoipa::path(delete, path = "/api/alerts/rules/{id}", tag = "alerts", params(RulePath, IfMatchGiven),
    responses((status = 204)))]
async fn delete(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathIn(path): PathIn<RulePath>,
    if_match: IfMatch,
) -> Result<StatusCode, Problem> {
    let asked = Arc::clone(&app);
    app.work(move || {
        let _edit = asked.edit();
        let found = find(&asked, &path.id)?;
        if found.origin == Origin::File {
            let detail = "It stands in the configuration file: take it out there, or set a disabled rule of \
                          the same name.";
            return Err(Problem::new(Kind::Conflict, detail));
        }
        if_match.check(found.version)?;
        asked.store_here().delete_rule(&path.id)?;
        take_up(&asked, &format!("alert rule {} taken away", path.id), &caller)?;
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}

/// Writes down who changed whom is told, and has it take effect.
fn take_up(app: &App, what: &str, caller: &Caller) -> Result<(), Problem> {
    app.operator.access_changed(what, &caller.by);
    app.alerts_api.rules_changed().map_err(|why| {
        let detail = format!("It is stored, and not in force yet: {why}. Set it again, or restart estop.");
        Problem::new(Kind::Unavailable, detail)
    })
}
