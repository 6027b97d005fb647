//! An agent's rules: what is in force, what the API laid over the file, and where each key comes from.

mod merge;
mod schema;
mod shown;

use std::collections::BTreeMap;

use axum::extract::State;
use axum::{Extension, Json};
use estop_core::operator::Overrides;
use estop_core::policy::Preset;
use estop_core::policy_file::{PolicyFileIn, PolicyIn, PolicyOrigin};
use estop_store::Agent;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::Caller;
use crate::agents::overrides;
use crate::agents::row::{self, Found};
use crate::agents::shown::{policy as policy_of, preset_name};
use crate::agents::{AgentPath, look};
use crate::input::{IfMatch, IfMatchGiven, JsonIn, PathIn, make_whole, parse_value};
use crate::output::{Answer, Tagged};
use crate::problem::Problem;
use crate::state::App;
pub(crate) use estop_core::policy_file::in_file_shape;
pub(crate) use schema::{change_schema, policy_schema, zone_schema};

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default()
        .routes(routes!(read, put, change, delete))
        .routes(routes!(check))
        .routes(routes!(presets))
}

/// Rules in the shape of the file's `policy:`. The schema is written by hand, beside the core's reader.
#[derive(ToSchema)]
#[schema(as = PolicyRules, value_type = Object)]
struct RulesIn(Map<String, Value>);

impl<'de> Deserialize<'de> for RulesIn {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let mut rules: Map<String, Value> = Map::deserialize(d)?;
        rules.values_mut().for_each(make_whole);
        Ok(RulesIn(rules))
    }
}

/// An agent's rules.
#[derive(Serialize, ToSchema)]
#[schema(as = AgentPolicy)]
struct PolicyOut {
    /// `watch` or `strict`.
    preset: &'static str,
    role: Option<String>,
    /// What is in force, in the shape of the file's `policy:`, and the numbers of `gate:` and `watchdog:`, which hold for all
    /// agents and are set in the file alone.
    #[schema(value_type = Object)]
    effective: Map<String, Value>,
    /// What the API laid over the file; taken away by DELETE.
    #[schema(value_type = Object)]
    overrides: Map<String, Value>,
    /// For each key: `preset`, `file`, `agent in file` or `api`.
    origins: BTreeMap<&'static str, &'static str>,
}

impl PolicyOut {
    fn of(app: &App, found: &Found) -> Result<PolicyOut, Problem> {
        let rules = found.stored.as_ref().map(overrides::read).unwrap_or_default();
        let over: PolicyIn = parse_value(&Value::Object(rules.clone()))?;
        let live_role = found.live.as_ref().and_then(|view| view.role.as_deref());
        let role = live_role.or(found.stored.as_ref().and_then(|agent| agent.role.as_deref()));
        let policy = policy_of(app, found);
        let origins = (app.policy_file)().origins(found.name(), role, &over);
        let mut effective = in_file_shape(&policy);
        shown::add_shared(&policy, &mut effective);
        Ok(PolicyOut {
            preset: preset_name(policy.preset),
            role: role.map(str::to_owned),
            effective,
            overrides: rules,
            origins: origins.into_iter().map(|(key, origin)| (key, origin_name(origin))).collect(),
        })
    }
}

fn origin_name(origin: PolicyOrigin) -> &'static str {
    match origin {
        PolicyOrigin::Preset => "preset",
        PolicyOrigin::File => "file",
        PolicyOrigin::AgentInFile => "agent in file",
        PolicyOrigin::Api => "api",
    }
}

/// Shows an agent's rules.
#[utoipa::path(get, path = "/api/agents/{id}/policy", tag = "policy", params(AgentPath),
    responses((status = 200, body = PolicyOut, headers(("etag" = String)))))]
async fn read(State(app): State<App>, PathIn(path): PathIn<AgentPath>) -> Result<Tagged<PolicyOut>, Problem> {
    let found = look(&app, path.id).await?;
    Ok(Tagged(found.version(), PolicyOut::of(&app, &found)?))
}

/// Lays rules over those of the file, key by key. They replace what the API laid before, and win until they are
/// deleted.
#[utoipa::path(put, path = "/api/agents/{id}/policy", tag = "policy",
    params(AgentPath, IfMatchGiven),
    request_body = RulesIn, responses((status = 200, body = PolicyOut, headers(("etag" = String)))))]
async fn put(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathIn(path): PathIn<AgentPath>,
    if_match: IfMatch,
    JsonIn(RulesIn(rules)): JsonIn<RulesIn>,
) -> Result<Tagged<PolicyOut>, Problem> {
    let policy = read_rules(&rules)?;
    app.operator.check_overrides(Some(&path.id), &Overrides { role: None, policy })?;
    set(&app, path, if_match, caller, rules).await
}

/// Reads rules as the file's are read. serde would take a list for a section, too.
fn read_rules(rules: &Map<String, Value>) -> Result<PolicyIn, Problem> {
    const LISTS: [&str; 3] = ["exempt_tools", "wrap_up_tools", "test_runners"];
    let listed = rules.iter().find(|(key, value)| value.is_array() && !LISTS.contains(&key.as_str()));
    if let Some((key, _)) = listed {
        return Err(Problem::field(key, "must be an object"));
    }
    parse_value(&Value::Object(rules.clone()))
}

/// Single rules to change. The schema is written by hand, beside that of the rules.
#[derive(ToSchema)]
#[schema(as = PolicyChange, value_type = Object)]
struct ChangeIn(Map<String, Value>);

impl<'de> Deserialize<'de> for ChangeIn {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        RulesIn::deserialize(d).map(|RulesIn(rules)| ChangeIn(rules))
    }
}

/// Changes single rules over those of the file. What is left out stays; null takes a rule away, so that the file decides.
#[utoipa::path(patch, path = "/api/agents/{id}/policy", tag = "policy",
    params(AgentPath, IfMatchGiven),
    request_body = ChangeIn, responses((status = 200, body = PolicyOut, headers(("etag" = String)))))]
async fn change(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathIn(path): PathIn<AgentPath>,
    if_match: IfMatch,
    JsonIn(ChangeIn(change)): JsonIn<ChangeIn>,
) -> Result<Tagged<PolicyOut>, Problem> {
    let asked = std::sync::Arc::clone(&app);
    let work = move || {
        let _edit = asked.edit();
        let found = row::find(&asked, &path.id)?;
        if_match.check(found.version())?;
        let laid = found.stored.as_ref().map(overrides::read).unwrap_or_default();
        let rules = merge::changed(laid, change);
        read_rules(&rules)?;
        lay(&asked, &found, &caller, &rules)
    };
    app.work(work).await
}

/// Takes the API's rules away: the file decides again.
#[utoipa::path(delete, path = "/api/agents/{id}/policy", tag = "policy",
    params(AgentPath, IfMatchGiven),
    responses((status = 200, body = PolicyOut, headers(("etag" = String)))))]
async fn delete(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathIn(path): PathIn<AgentPath>,
    if_match: IfMatch,
) -> Result<Tagged<PolicyOut>, Problem> {
    set(&app, path, if_match, caller, Map::new()).await
}

async fn set(
    app: &App,
    path: AgentPath,
    if_match: IfMatch,
    caller: Caller,
    rules: Map<String, Value>,
) -> Result<Tagged<PolicyOut>, Problem> {
    let asked = std::sync::Arc::clone(app);
    let work = move || {
        let _edit = asked.edit();
        let found = row::find(&asked, &path.id)?;
        if_match.check(found.version())?;
        lay(&asked, &found, &caller, &rules)
    };
    app.work(work).await
}

fn lay(
    app: &App,
    found: &Found,
    caller: &Caller,
    rules: &Map<String, Value>,
) -> Result<Tagged<PolicyOut>, Problem> {
    let put = |agent: &mut Agent| overrides::write(agent, rules.clone());
    let found = overrides::update(app, found, &caller.by, put)?;
    Ok(Tagged(found.version(), PolicyOut::of(app, &found)?))
}

/// Whether rules can be used.
#[derive(Serialize, ToSchema)]
#[schema(as = PolicyCheck)]
struct CheckOut {
    /// Always true: what does not fit is a problem document that names the key.
    ok: bool,
}

/// Checks rules without setting them.
#[utoipa::path(post, path = "/api/policy/check", tag = "policy", request_body = RulesIn,
    responses((status = 200, body = CheckOut)))]
async fn check(State(app): State<App>, JsonIn(RulesIn(rules)): JsonIn<RulesIn>) -> Answer<CheckOut> {
    let policy = read_rules(&rules)?;
    app.operator.check_overrides(None, &Overrides { role: None, policy })?;
    Ok(Json(CheckOut { ok: true }))
}

/// The presets.
#[derive(Serialize, ToSchema)]
struct PresetsOut {
    presets: Vec<PresetOut>,
}

/// A preset (PO-5).
#[derive(Serialize, ToSchema)]
#[schema(as = Preset)]
struct PresetOut {
    name: &'static str,
    description: &'static str,
    /// Its rules, in the shape of the file's `policy:`.
    #[schema(value_type = Object)]
    policy: Map<String, Value>,
}

/// Lists the presets and their rules.
#[utoipa::path(get, path = "/api/presets", tag = "policy", responses((status = 200, body = PresetsOut)))]
async fn presets() -> Answer<PresetsOut> {
    let watch = "Enforces what a person asked for; the other guards watch and warn.";
    let strict = "Enforces every number of the design.";
    let preset = |(preset, description)| {
        let file = PolicyFileIn { preset: Some(preset), ..PolicyFileIn::default() };
        let file = file.check(&|_| None).unwrap_or_default();
        let policy = in_file_shape(&file.resolve(None, None));
        PresetOut { name: preset_name(preset), description, policy }
    };
    let presets = [(Preset::Watch, watch), (Preset::Strict, strict)].map(preset);
    Ok(Json(PresetsOut { presets: presets.into() }))
}
