//! What led to an incident, for people (EV-1): one sentence that names the tool, what it cost, and the steps themselves, for the API,
//! the page and the command alike.
//!
//! Steps kept in full are for operators and admins: whoever may only look sees excerpts without secrets, or none.

mod sentence;
mod visible;

use estop_core::agent::status::AgentStatus;
use estop_core::budget::Amount;
use estop_core::ended::Ended;
use estop_core::ids::Name;
use estop_core::money::NanoUsd;
use estop_core::operator::{Excerpt, InFlightStep, IncidentSteps, KeptStep, StepEnd, ToolUse};
use estop_core::printable::{escaped, named};
use estop_core::system::{SYSTEM, SystemState};
use estop_store::{CaseStatus, EventFilter, EventKey, Evidence, Incident, Store, TokenRole};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::output::{AmountOut, kept_json, moment};
use crate::problem::Problem;
use crate::state::App;
use sentence::sentence;
use visible::{Subject, visible};

/// How the setting that would have spared a stop is introduced.
pub(crate) const SETTING: &str = "If this is its work";
/// A shorter stretch is none that a person would call waste.
const WASTED_MIN_MS: u64 = 100;

/// What led to an incident.
#[derive(Serialize, ToSchema)]
#[schema(as = IncidentStory)]
pub(crate) struct Story {
    /// What happened, in a sentence: which agent, which tool, how often.
    pub(crate) sentence: String,
    /// What to do, in the order in which it makes sense.
    pub(crate) what_to_do: Vec<String>,
    /// The person's words with which the conversation began.
    pub(crate) task: Option<ExcerptOut>,
    /// The latest requests, or tool calls that hooks saw, oldest first.
    pub(crate) steps: Vec<StepOut>,
    /// Older steps of the conversation that are not kept.
    pub(crate) older_steps: u32,
    /// Why there are no steps, or not all of them; null = all that were kept are here.
    pub(crate) steps_missing: Option<String>,
    /// `redacted` or `full`; null = there are none.
    pub(crate) evidence_mode: Option<&'static str>,
    /// When the steps were written, and from when on they are deleted.
    pub(crate) evidence_stored_at: Option<String>,
    /// What these steps cost.
    pub(crate) cost: AmountOut,
    /// What was spent since the last step that brought something new; null = its guard does not say, or it was no time.
    pub(crate) wasted: Option<WasteOut>,
    /// Requests of the agent that were under way when it was stopped.
    pub(crate) in_flight: Vec<InFlightOut>,
}

/// What a loop wasted.
#[derive(Serialize, ToSchema)]
#[schema(as = Waste)]
pub(crate) struct WasteOut {
    /// Steps without anything new.
    pub(crate) steps: u64,
    /// For how long, in milliseconds.
    pub(crate) ms: u64,
    /// What they cost.
    #[serde(flatten)]
    pub(crate) amount: AmountOut,
}

/// The beginning of a text.
#[derive(Clone, Serialize, ToSchema)]
#[schema(as = Excerpt)]
pub(crate) struct ExcerptOut {
    /// What is kept of it; secrets are `[masked:kind:digest]`.
    pub(crate) text: String,
    /// Bytes of the whole text, where this is not all of it.
    pub(crate) of_bytes: Option<u64>,
}

/// A request with its answer, or a tool call that a hook saw.
#[derive(Serialize, ToSchema)]
#[schema(as = KeptStep)]
pub(crate) struct StepOut {
    /// When.
    pub(crate) at: String,
    /// The request's number; null where a hook saw it.
    pub(crate) request: Option<u64>,
    pub(crate) model: Option<String>,
    /// What a person said with it.
    pub(crate) asked: Option<ExcerptOut>,
    /// What was done since the request before, with its results.
    pub(crate) did: Vec<ToolUseOut>,
    /// More of it that is not kept.
    pub(crate) more: u32,
    /// What the model said.
    pub(crate) answer: Option<ExcerptOut>,
    /// What the model wants done.
    pub(crate) calls: Vec<ToolUseOut>,
    pub(crate) input_tokens: u32,
    pub(crate) output_tokens: u32,
    /// US dollars.
    pub(crate) usd: f64,
    /// From the request to the end of its answer.
    pub(crate) took_ms: Option<u64>,
    /// `ok`, `failed`, `aborted`, `cut`, `refused` or `under_way`.
    pub(crate) end: &'static str,
    /// Why it counts as repetition: `prompt`, `answer`, `tool call`, or `action` of an agent that acts in its answers. Empty = it does not.
    pub(crate) counts: Vec<&'static str>,
}

/// A tool call.
#[derive(Clone, Serialize, ToSchema)]
#[schema(as = ToolUse)]
pub(crate) struct ToolUseOut {
    pub(crate) tool: String,
    pub(crate) args: ExcerptOut,
    pub(crate) result: Option<ExcerptOut>,
    /// It reported an error.
    pub(crate) failed: bool,
}

/// An event by which nobody was stopped, and of which steps may be kept.
pub(crate) struct WatchedEvent {
    pub(crate) seq: u64,
    pub(crate) agent: Name,
    pub(crate) at: i64,
    pub(crate) event_type: Name,
    /// Which guard would have stopped the agent; `None` = it was told that it repeats itself.
    pub(crate) guard: Option<String>,
    /// The tool that was called last.
    pub(crate) tool: Option<Name>,
}

impl WatchedEvent {
    /// Whether steps may be kept of events of this type.
    pub(crate) fn is_type(event_type: &str) -> bool {
        matches!(event_type, "would_have_stopped" | "nudged")
    }

    /// The one in this record.
    pub(crate) fn find(store: &dyn Store, seq: u64) -> Result<WatchedEvent, Problem> {
        let before = EventKey { seq: seq.saturating_add(1), nth: 0 };
        let filter = EventFilter { before: Some(before), ..EventFilter::default() };
        let found = store.events(&filter, EVENTS_OF_A_RECORD)?.into_iter().find_map(|found| {
            let is_it = found.key.seq == seq && WatchedEvent::is_type(&found.event.event_type);
            let agent = found.event.agent.filter(|_| is_it)?;
            let detail = kept_json(&found.event.detail);
            let guard = detail["guard"].as_str().map(escaped);
            let tool = detail["tool"].as_str().map(Name::from);
            let event_type = found.event.event_type;
            Some(WatchedEvent { seq, agent, at: found.event.wall, event_type, guard, tool })
        });
        found.ok_or_else(|| Problem::not_found("event with steps", &seq.to_string()))
    }

    /// What its steps are kept under.
    pub(crate) fn id(&self) -> String {
        format!("{}-{}", self.agent, self.seq)
    }
}

/// Events of one record that are looked through.
const EVENTS_OF_A_RECORD: usize = 16;

/// A request that was under way.
#[derive(Serialize, ToSchema)]
#[schema(as = InFlightStep)]
pub(crate) struct InFlightOut {
    pub(crate) request: u64,
    pub(crate) since: String,
    pub(crate) model: Option<String>,
    /// estop ended it; false: nothing was heard of its end by then.
    pub(crate) was_cut: bool,
}

impl Story {
    /// What is kept of an incident, as far as this role may see it.
    pub(crate) fn of(app: &App, incident: &Incident, kept: Option<&Evidence>, role: TokenRole) -> Story {
        let proof = kept_json(&incident.evidence);
        let (steps, steps_missing) = visible(kept, role, app, &Subject::of(incident));
        let stretch = &proof["stretch"];
        // Other guards stop agents that repeat nothing, and for them the stretch has no length.
        let wasted = stretch["ms"].as_u64().filter(|ms| *ms >= WASTED_MIN_MS).map(|ms| WasteOut {
            steps: stretch["steps"].as_u64().unwrap_or(0),
            ms,
            amount: amount(
                NanoUsd(stretch["usd"].as_u64().unwrap_or(0)),
                stretch["tokens"].as_u64().unwrap_or(0),
            ),
        });
        let (sentence, what_to_do) = (sentence(incident, &proof, &steps), what_to_do(app, incident, &proof));
        Story { wasted, ..Story::told(sentence, what_to_do, steps, steps_missing, kept) }
    }

    /// What is kept of an event by which nobody was stopped: a guard in shadow would have, or the agent was told that it repeats
    /// itself.
    pub(crate) fn of_event(
        app: &App,
        event: &WatchedEvent,
        kept: Option<&Evidence>,
        role: TokenRole,
    ) -> Story {
        let of = Subject { id: &event.id(), agent: &event.agent, at: event.at, is_watched: true };
        let (steps, steps_missing) = visible(kept, role, app, &of);
        let (agent, said) = (escaped(&event.agent), steps.reason.as_deref().map(escaped).unwrap_or_default());
        let said = if said.is_empty() { said } else { format!(" {said}") };
        let (sentence, what_to_do) = match &event.guard {
            Some(guard) => (
                format!("{agent} would have been stopped by the guard {guard}, which only watches.{said}"),
                vec![
                    "Look at the steps: is it stuck, or is this its work?".to_owned(),
                    format!(
                        "If it is stuck, have the guard stop it: set `guards: {{{guard}: enforce}}` in its policy. If this is its \
                         work, leave it in shadow."
                    ),
                ],
            ),
            None => (
                format!("{agent} was told that it repeats itself.{said}"),
                vec![
                    "Look at the steps. If nothing new comes, the guard loop stops it, where it enforces."
                        .to_owned(),
                ],
            ),
        };
        Story::told(sentence, what_to_do, steps, steps_missing, kept)
    }

    fn told(
        sentence: String,
        what_to_do: Vec<String>,
        steps: IncidentSteps,
        steps_missing: Option<String>,
        kept: Option<&Evidence>,
    ) -> Story {
        let tokens = |step: &KeptStep| u64::from(step.input_tokens) + u64::from(step.output_tokens);
        let usd = steps.steps.iter().fold(0_u64, |sum, step| sum.saturating_add(step.usd.0));
        Story {
            sentence,
            what_to_do,
            evidence_mode: (!steps.steps.is_empty()).then(|| steps.mode.name()),
            evidence_stored_at: kept.map(|kept| moment(kept.stored_at)),
            cost: amount(NanoUsd(usd), steps.steps.iter().map(tokens).sum()),
            wasted: None,
            task: steps.task.map(Into::into),
            steps: steps.steps.into_iter().map(Into::into).collect(),
            older_steps: steps.older,
            steps_missing,
            in_flight: steps.in_flight.into_iter().map(Into::into).collect(),
        }
    }

    /// The two newest steps that count, to be compared; the newest first.
    pub(crate) fn repeats(&self) -> Option<(&StepOut, &StepOut)> {
        let mut counting = self.steps.iter().rev().filter(|step| !step.counts.is_empty());
        Some((counting.next()?, counting.next()?))
    }
}

fn amount(usd: NanoUsd, tokens: u64) -> AmountOut {
    AmountOut::from(Amount { usd, tokens })
}

/// What happened, as the page and the list of incidents say it, as far as this role may see it.
pub(crate) fn headline(app: &App, incident: &Incident, kept: Option<&Evidence>, role: TokenRole) -> String {
    let (steps, _) = visible(kept, role, app, &Subject::of(incident));
    sentence(incident, &kept_json(&incident.evidence), &steps)
}

/// What resolving an incident does not release, and the command that does; `None` = nothing is stopped.
pub(crate) fn stays_stopped(app: &App, agent: &str) -> Option<String> {
    if agent == SYSTEM {
        let next = how_to_clear(app)?;
        return Some(format!("The emergency stop is in force. {next}"));
    }
    let standing = app.operator.standing(agent)?;
    AgentStatus::of_standing(agent, standing, None, &app.place.commands).map(|status| status.sentence)
}

/// What a person can do, the first thing first.
fn what_to_do(app: &App, incident: &Incident, proof: &Value) -> Vec<String> {
    let mut steps = Vec::new();
    let (agent, standing) = (escaped(&incident.agent), stays_stopped(app, &incident.agent));
    let is_system = &*incident.agent == SYSTEM;
    if incident.status == CaseStatus::Resolved {
        return vec![match standing {
            Some(standing) if is_system => format!("This is resolved. {standing}"),
            Some(standing) => format!("This is resolved, and {agent} is stopped all the same. {standing}"),
            None if is_system => {
                "Nothing: it is resolved, and the emergency stop is not in force.".to_owned()
            }
            None => format!("Nothing: it is resolved, and {agent} is not stopped."),
        }];
    }
    if is_system {
        return after_the_button(app, &incident.id);
    }
    if proof["tool"].is_string() {
        steps.push("Look at the steps: is it stuck, or is this its work?".to_owned());
    }
    // The sentence of a loop ends with the setting that would have spared it.
    let reason = proof["reason"].as_str().unwrap_or_default();
    if let Some(at) = reason.rfind(SETTING) {
        steps.push(reason[at..].to_owned());
    }
    let resolve = app.place.commands.resolve(&incident.id);
    let done = || format!("{agent} is not stopped any more: resolve this incident ({resolve}).");
    steps.push(standing.unwrap_or_else(done));
    steps
}

/// What a person can do about the pressed button.
fn after_the_button(app: &App, id: &str) -> Vec<String> {
    let Some(next) = how_to_clear(app) else {
        let resolve = app.place.commands.resolve(id);
        return vec![format!("It is not in force any more: resolve this incident ({resolve}).")];
    };
    let look = match app.operator.button().gate.state {
        SystemState::Shutdown | SystemState::Starting => {
            "Find out why it was pressed, and whether that is over. Until then do nothing: everything stays stopped, also after \
             a restart."
        }
        SystemState::SafeMode => return vec![next],
        SystemState::Running => "Find out why the channels were shut, and whether that is over.",
    };
    vec![look.to_owned(), next]
}

/// How the pressed button is cleared; `None` = no press is in force.
pub(crate) fn how_to_clear(app: &App) -> Option<String> {
    if !app.operator.is_pressed() {
        return None;
    }
    let commands = &app.place.commands;
    let (unlock, clear) = (commands.emergency_unlock(), commands.emergency_clear());
    Some(match app.operator.button().gate.state {
        SystemState::Starting | SystemState::Shutdown => {
            format!(
                "Unlock, step 1 of 2: {unlock} (agents stay stopped). Step 2 of 2: {clear} (all agents work again)."
            )
        }
        SystemState::SafeMode => format!("Step 1 of 2 is done. When all is well, step 2 of 2: {clear}."),
        SystemState::Running => format!("To open the channels that are shut: {clear}."),
    })
}

impl ToolUseOut {
    /// How its two texts are introduced to people. Agents that act in their answers have no tools with names: the text is the
    /// answer, and its result what they were told next.
    pub(crate) fn labels(&self) -> (String, String) {
        match (&*self.tool, self.failed) {
            ("", false) => ("it had answered".to_owned(), "and was told".to_owned()),
            ("", true) => ("it had answered".to_owned(), "and was told of a failure".to_owned()),
            (tool, false) => (named(tool), format!("{} returned", named(tool))),
            (tool, true) => (named(tool), format!("{} failed with", named(tool))),
        }
    }
}

impl From<Excerpt> for ExcerptOut {
    fn from(Excerpt { text, of_bytes }: Excerpt) -> ExcerptOut {
        ExcerptOut { text, of_bytes }
    }
}

impl From<ToolUse> for ToolUseOut {
    fn from(used: ToolUse) -> ToolUseOut {
        let ToolUse { tool, args, result, ended } = used;
        let failed = ended == Some(Ended::Failed);
        ToolUseOut { tool: tool.into(), args: args.into(), result: result.map(Into::into), failed }
    }
}

impl From<KeptStep> for StepOut {
    fn from(step: KeptStep) -> StepOut {
        let counts = step.counts;
        let in_text = step.did.last().is_some_and(|did| did.tool.is_empty());
        let action = if in_text { "action" } else { "tool call" };
        let named = [(counts.prompt, "prompt"), (counts.response, "answer"), (counts.step, action)];
        StepOut {
            at: moment(step.at),
            request: step.request,
            model: step.model.map(Into::into),
            asked: step.asked.map(Into::into),
            did: step.did.into_iter().map(Into::into).collect(),
            more: step.more,
            answer: step.answer.map(Into::into),
            calls: step.calls.into_iter().map(Into::into).collect(),
            input_tokens: step.input_tokens,
            output_tokens: step.output_tokens,
            usd: crate::output::dollars(step.usd),
            took_ms: step.took_ms,
            end: match step.end {
                StepEnd::UnderWay => "under_way",
                StepEnd::Ok => "ok",
                StepEnd::Failed => "failed",
                StepEnd::Aborted => "aborted",
                StepEnd::Cut => "cut",
                StepEnd::Refused => "refused",
            },
            counts: named.into_iter().filter(|(is, _)| *is).map(|(_, name)| name).collect(),
        }
    }
}

impl From<InFlightStep> for InFlightOut {
    fn from(step: InFlightStep) -> InFlightOut {
        let InFlightStep { request, since, model, was_cut } = step;
        InFlightOut { request, since: moment(since), model: model.map(Into::into), was_cut }
    }
}
