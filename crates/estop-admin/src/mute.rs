//! Muting a pattern (EV-1): a person says that the tool of a loop is called again and again on purpose. It joins the agent's
//! `exempt_tools`, over the file's, as any rule that is set here does (docs/decisions/0014).

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use estop_core::guard::Guard;
use estop_core::ids::Name;
use estop_core::printable::named;
use estop_core::run::test_command::is_shell_tool;
use estop_core::system::{CaseChange, CaseKind, CaseStep};
use estop_store::Incident;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::Caller;
use crate::agents::row::Found;
use crate::agents::{overrides, row, shown};
use crate::cases::{CasePath, find_incident, record};
use crate::evidence::{SETTING, WatchedEvent, stays_stopped};
use crate::input::{JsonOrNothing, PathIn};
use crate::output::{Answer, kept_json};
use crate::problem::{Kind, Problem};
use crate::state::App;

const KEY: &str = "exempt_tools";

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default().routes(routes!(mute, unmute))
}

/// What of a loop can be muted.
pub(crate) struct Pattern {
    pub(crate) agent: Name,
    /// The tool; or why there is none to mute, and what can be done instead.
    pub(crate) tool: Result<Name, String>,
    /// It is an incident, not an event by which nobody was stopped.
    is_incident: bool,
}

impl Pattern {
    /// Of an incident; `None` = it was no loop.
    pub(crate) fn of_incident(incident: &Incident) -> Option<Pattern> {
        let proof = kept_json(&incident.evidence);
        let reason = proof["reason"].as_str().unwrap_or_default();
        let instead = reason.rfind(SETTING).map(|at| &reason[at..]).unwrap_or_default();
        let is_loop = proof["cause"].as_str() == Some(Guard::Loop.name());
        let tool = || mutable(proof["tool"].as_str().unwrap_or_default(), instead);
        is_loop.then(|| Pattern { agent: incident.agent.clone(), tool: tool(), is_incident: true })
    }

    /// Of an event by which nobody was stopped; `None` = it was no loop.
    pub(crate) fn of_event(event: &WatchedEvent) -> Option<Pattern> {
        let is_loop = event.guard.as_deref().is_none_or(|guard| guard == Guard::Loop.name());
        let tool = || mutable(event.tool.as_deref().unwrap_or_default(), "");
        is_loop.then(|| Pattern { agent: event.agent.clone(), tool: tool(), is_incident: false })
    }

    /// Of whichever has this id.
    fn find(app: &App, id: &str) -> Result<Pattern, Problem> {
        let found = match find_incident(app, id) {
            Ok(incident) => Pattern::of_incident(&incident),
            Err(problem) => {
                let seq = id.rsplit_once('-').and_then(|(_, seq)| seq.parse().ok());
                let event = seq.and_then(|seq| WatchedEvent::find(app.store_here(), seq).ok());
                Pattern::of_event(&event.filter(|event| event.id() == id).ok_or(problem)?)
            }
        };
        let detail = "Only what the loop guard stopped, or would have stopped, can be muted by its tool: this was another guard.";
        found.ok_or_else(|| Problem::new(Kind::Conflict, detail))
    }

    /// Whether its tool is exempt already.
    pub(crate) fn is_muted(&self, exempt: &[Name]) -> bool {
        self.tool.as_ref().is_ok_and(|tool| exempt.contains(tool))
    }
}

/// The tool, if one click may exempt it.
fn mutable(tool: &str, instead: &str) -> Result<Name, String> {
    let instead = if instead.is_empty() {
        "If this is its work, another `profile` or a higher `kill_switch_threshold` of its policy spares it."
    } else {
        instead
    };
    if tool.is_empty() {
        return Err(format!(
            "It repeated itself in what it wrote, not with a tool: there is no tool to mute. {instead}"
        ));
    }
    if is_shell_tool(tool) {
        return Err(format!(
            "{} runs commands: nearly all this agent does may go through it, so that exempting it would hide real loops. {instead}",
            named(tool)
        ));
    }
    // A name may be made to be clicked, and one that was cut or escaped is not the tool's.
    if named(tool) != tool {
        return Err(format!(
            "Its tool has an unusual name, {}: look at it, and if it is fine write it under `exempt_tools` of the policy yourself.",
            named(tool)
        ));
    }
    Ok(tool.into())
}

/// Which tool is meant.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Mute)]
struct MuteIn {
    /// The tool the caller saw: with another one nothing is done.
    #[serde(default)]
    tool: Option<String>,
}

/// What was muted.
#[derive(Serialize, ToSchema)]
#[schema(as = Muted)]
struct MuteOut {
    agent: String,
    tool: String,
    /// Its calls do not count as repetition.
    muted: bool,
    /// Something was changed; false = it was so already.
    changed: bool,
    /// All tools of the agent whose calls do not count.
    exempt_tools: Vec<String>,
    /// In a sentence, with the way back.
    text: String,
}

/// Mutes the pattern of a loop: calls of its tool do not count as repetition from here on. The agent is not reactivated. `id` is
/// that of an incident, or `AGENT-RECORD` of an event with steps (`would_have_stopped`, `nudged`).
#[utoipa::path(post, path = "/api/incidents/{id}/mute", tag = "cases", params(CasePath), request_body = Option<MuteIn>,
    responses((status = 200, body = MuteOut)))]
async fn mute(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathIn(path): PathIn<CasePath>,
    JsonOrNothing(asked): JsonOrNothing<MuteIn>,
) -> Answer<MuteOut> {
    set(app, caller, path.id, asked, true).await
}

/// Has calls of the tool count as repetition again.
#[utoipa::path(delete, path = "/api/incidents/{id}/mute", tag = "cases", params(CasePath),
    responses((status = 200, body = MuteOut)))]
async fn unmute(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathIn(path): PathIn<CasePath>,
) -> Answer<MuteOut> {
    set(app, caller, path.id, MuteIn::default(), false).await
}

async fn set(app: App, caller: Caller, id: Name, asked: MuteIn, muted: bool) -> Answer<MuteOut> {
    let here = Arc::clone(&app);
    app.work(move || {
        let _edit = here.edit();
        let pattern = Pattern::find(&here, &id)?;
        let tool = pattern.tool.clone().map_err(|why| Problem::new(Kind::Conflict, why))?;
        if let Some(seen) = asked.tool.filter(|seen| **seen != *tool) {
            let message = format!("the tool of {id} is {tool}, not {}", named(&seen));
            return Err(Problem::field("tool", message));
        }
        let found = row::find(&here, &pattern.agent)?;
        let mut exempt = shown::policy(&here, &found).loops.exempt_tools;
        let changed = exempt.contains(&tool) != muted;
        if changed && muted {
            exempt.push(tool.clone());
        } else if changed {
            exempt.retain(|other| *other != tool);
        }
        if changed {
            set_exempt_tools(&here, &found, &caller, &tool, &exempt)?;
        }
        if changed && pattern.is_incident {
            let does =
                if muted { "do not count as repetition any more" } else { "count as repetition again" };
            let note = Some(format!("Calls of {tool} {does}.").into());
            let change = CaseChange {
                kind: CaseKind::Incident,
                id: id.clone(),
                step: CaseStep::Noted,
                owner: None,
                note,
            };
            record(&here, &caller, change)?;
        }
        Ok(Json(MuteOut {
            text: text(&here, &id, &pattern.agent, &tool, muted),
            agent: pattern.agent.into(),
            tool: tool.into(),
            muted,
            changed,
            exempt_tools: exempt.into_iter().map(Into::into).collect(),
        }))
    })
    .await
}

/// Puts the list over the file's. It is taken away where it adds nothing to the file's list, which may have grown since.
fn set_exempt_tools(
    app: &App,
    found: &Found,
    caller: &Caller,
    changed: &Name,
    exempt: &[Name],
) -> Result<(), Problem> {
    let role = found.view().and_then(|view| view.role.clone());
    let of_file = (app.policy_file)().resolve(Some(found.name()), role.as_deref()).loops.exempt_tools;
    let adds_nothing = exempt.iter().all(|tool| of_file.contains(tool));
    let is_of_file = exempt == of_file || (adds_nothing && !of_file.contains(changed));
    overrides::update(app, found, &caller.by, |agent| {
        let mut rules = overrides::read(agent);
        if is_of_file {
            rules.remove(KEY);
        } else {
            rules.insert(KEY.to_owned(), exempt.iter().map(|tool| Value::from(&**tool)).collect());
        }
        overrides::write(agent, rules);
    })?;
    Ok(())
}

/// What holds from here on, and the way back.
fn text(app: &App, id: &str, agent: &str, tool: &str, muted: bool) -> String {
    let stands = stays_stopped(app, agent).map(|stands| format!(" {stands}")).unwrap_or_default();
    if !muted {
        return format!("Calls of {tool} by agent {agent} count as repetition again.{stands}");
    }
    let back = app.place.commands.make(&format!("incidents unmute {id}"));
    format!(
        "Calls of {tool} by agent {agent} do not count as repetition from here on. To count them again: {back}.{stands}"
    )
}
