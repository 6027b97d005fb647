//! What was stopped, and the evidence.

mod story;

use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::extract::State;
use estop_core::agent::standing::Standing;
use estop_core::policy::Policy;
use estop_core::system::SYSTEM;
use estop_store::{
    CaseFilter, CaseStatus, EventFilter, EventKey, Incident, StatusFilter, StoreError, TokenRole,
};
use serde::Deserialize;
use serde_json::Value;

use super::cases::Lifecycle;
use super::effect;
use super::event_row::EventRow;
use super::frame::Frame;
use super::shown::{Badge, grouped, when};
use super::{Page, made};
use crate::access::Caller;
use crate::background::{JobOut, of_incident};
use crate::cases::{CasePath, Incidents, find_incident, listed_headline};
use crate::events::EventPath;
use crate::evidence::{Story, WatchedEvent};
use crate::input::{PathIn, QueryIn};
use crate::mute::Pattern;
use crate::output::{kept_json, moment, read_time_cursor, time_cursor};
use crate::problem::Problem;
use crate::state::App;

const ROWS: usize = 50;
/// Events shown up to the stop, and of those after it.
const TIMELINE: usize = 10;
/// The agent's newest events that are looked through for those after the stop.
const NEWEST: usize = 100;

#[derive(Deserialize)]
pub(super) struct PageQuery {
    #[serde(default)]
    show: String,
    before: Option<String>,
    /// One escalation, for links in alerts.
    pub(super) case: Option<String>,
}

impl PageQuery {
    pub(super) fn filter(&self) -> Result<CaseFilter, Problem> {
        let status = (!self.is_all()).then_some(StatusFilter::Unresolved);
        Ok(CaseFilter { agent: None, status, before: read_time_cursor(self.before.as_deref())? })
    }

    pub(super) fn is_all(&self) -> bool {
        self.show == "all"
    }

    /// The page after this one.
    pub(super) fn next(&self, path: &str, at: i64, id: &str) -> String {
        self.link(path, &time_cursor(at, id))
    }

    fn link(&self, path: &str, cursor: &str) -> String {
        let show = if self.is_all() { "show=all&" } else { "" };
        format!("{path}?{show}before={cursor}")
    }
}

#[derive(Template)]
#[template(path = "incidents.html")]
struct ListPage {
    frame: Frame,
    incidents: Vec<Row>,
    all: bool,
    /// How many there are, here and on all pages.
    count: String,
    next: Option<String>,
}

struct Row {
    id: String,
    agent: String,
    /// It is no agent's: the button was pressed.
    is_system: bool,
    kind: String,
    /// What happened; empty where it is said already.
    sentence: String,
    at: String,
    when: String,
    badge: Badge,
}

impl Row {
    fn of(incident: &Incident, now: i64) -> Row {
        Row {
            id: incident.id.to_string(),
            agent: incident.agent.to_string(),
            is_system: &*incident.agent == SYSTEM,
            kind: incident.kind.replace('_', " "),
            sentence: String::new(),
            at: moment(incident.opened_at),
            when: when(incident.opened_at, now),
            badge: case_badge(incident.status),
        }
    }

    fn listed(app: &App, incident: &Incident, role: TokenRole) -> Result<Row, StoreError> {
        let sentence = listed_headline(app, incident, role)?;
        Ok(Row { sentence, ..Row::of(incident, app.now()) })
    }
}

pub(super) fn case_badge(status: CaseStatus) -> Badge {
    match status {
        CaseStatus::Open => Badge::new("stop", "open"),
        CaseStatus::Acknowledged => Badge::new("near", "acknowledged"),
        CaseStatus::Resolved => Badge::new("", "resolved"),
    }
}

fn counted(shown: u64, total: u64, all: bool) -> String {
    let kind = if all { "" } else { "unresolved " };
    match (shown == total, grouped(total)) {
        (true, _) if total == 1 => format!("1 {kind}incident."),
        (true, total) => format!("{total} {kind}incidents."),
        (false, total) => format!("{shown} of {total} {kind}incidents are on this page."),
    }
}

pub(super) async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    QueryIn(asked): QueryIn<PageQuery>,
) -> Page {
    made(app, move |app| {
        let Incidents { mut found, total, next, emergency } = Incidents::read(app, &asked.filter()?, ROWS)?;
        // While the button is pressed nothing else is as urgent.
        if let Some(emergency) = emergency {
            found.retain(|incident| incident.id != emergency.id);
            found.insert(0, emergency);
        }
        let rows = found.iter().map(|incident| Row::listed(app, incident, caller.role));
        let incidents = rows.collect::<Result<_, _>>()?;
        let shown = found.len() as u64;
        Ok(ListPage {
            frame: Frame::of(app, &caller, "/incidents", "Incidents")?,
            next: next.map(|cursor| asked.link("/incidents", &cursor)),
            incidents,
            count: counted(shown, total, asked.is_all()),
            all: asked.is_all(),
        })
    })
    .await
}

#[derive(Template)]
#[template(path = "incident.html")]
struct OnePage {
    frame: Frame,
    story: story::Shown,
    i: Row,
    run: Option<String>,
    may_activate: bool,
    seq: u64,
    /// The command that proves that the record was not changed.
    prove: String,
    reason: String,
    score: Option<Score>,
    loosen: Option<Loosen>,
    mute: Option<Mute>,
    effect: Option<effect::Shown>,
    matched: Vec<Matched>,
    timeline: Vec<EventRow>,
    background: Vec<JobOut>,
    earlier: Option<String>,
    later: Option<String>,
    lifecycle: Lifecycle,
}

struct Score {
    score: String,
    threshold: String,
    window: u64,
    parts: Vec<Part>,
    rule: Option<String>,
}

/// How the kill switch could be loosened for this one.
struct Loosen {
    /// The lowest threshold that would have let it pass; empty = none would.
    threshold: String,
    today: String,
    window: u8,
    /// Today's threshold lets it pass already.
    is_loose: bool,
    /// Why no threshold helps.
    why_not: &'static str,
}

/// Whether the pattern can be muted (EV-1).
struct Mute {
    /// The id it is muted by.
    id: String,
    agent: String,
    /// Where its effect is shown.
    page: String,
    /// Empty = there is none that can be muted.
    tool: String,
    why_not: String,
    is_muted: bool,
    /// The command that undoes it.
    back: String,
}

impl Mute {
    fn of(app: &App, id: &str, page: String, pattern: Pattern) -> Mute {
        let view = app.operator.agent(&pattern.agent).or_else(|| app.operator.agent_at_rest(&pattern.agent));
        let is_muted = view.is_some_and(|view| pattern.is_muted(&view.policy.loops.exempt_tools));
        let (tool, why_not) = match pattern.tool {
            Ok(tool) => (tool.to_string(), String::new()),
            Err(why_not) => (String::new(), why_not),
        };
        let back = app.place.commands.make(&format!("incidents unmute {id}"));
        Mute { id: id.to_owned(), agent: pattern.agent.into(), page, tool, why_not, is_muted, back }
    }
}

struct Part {
    name: &'static str,
    count: u64,
    weight: &'static str,
    points: String,
}

struct Matched {
    back: u64,
    ago: String,
    prompt: &'static str,
    response: &'static str,
    step: &'static str,
}

pub(super) async fn one(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathIn(CasePath { id }): PathIn<CasePath>,
    QueryIn(asked): QueryIn<effect::PageQuery>,
) -> Page {
    let asking = Arc::clone(&app);
    let found = app.work(move || {
        let found = find_incident(&asking, &id)?;
        let kept = asking.store_here().evidence(&found.id)?;
        Ok::<_, Problem>((found, kept))
    });
    let (incident, kept) = found.await?;
    let effect = effect::shown(&app, &incident.agent, &asked).await;
    made(app, move |app| {
        let evidence = kept_json(&incident.evidence);
        let view = app.operator.agent(&incident.agent);
        let standing = view.as_ref().map(|view| view.standing);
        let may_activate = matches!(standing, Some(Standing::Inactive { .. }));
        let resolve = match () {
            () if &*incident.agent == SYSTEM && app.operator.is_pressed() => None,
            () if may_activate => Some("Resolve (agent stays stopped)"),
            () => Some("Resolve"),
        };
        let api = format!("/api/incidents/{}", incident.id);
        let lifecycle =
            Lifecycle::of((&incident.id, api), incident.status, &incident.history, resolve, app.now());
        let page = format!("/incidents/{}", incident.id);
        let mute = Pattern::of_incident(&incident).map(|found| Mute::of(app, &incident.id, page, found));
        let matched = evidence["evidence"].as_array().map(Vec::as_slice).unwrap_or_default();
        Ok(OnePage {
            frame: Frame::of(app, &caller, "/incidents", &incident.summary)?,
            story: story::Shown::of(
                Story::of(app, &incident, kept.as_ref(), caller.role),
                &moment(incident.opened_at),
                &*incident.agent == SYSTEM,
            ),
            i: Row::of(&incident, app.now()),
            run: incident.run.map(Into::into),
            may_activate,
            seq: incident.seq,
            prove: app.place.commands.make("journal verify"),
            reason: evidence["reason"].as_str().unwrap_or(&incident.summary).to_owned(),
            score: score(&evidence),
            loosen: view.and_then(|view| loosen(&evidence, &view.policy, asked.threshold)),
            mute,
            effect,
            timeline: timeline(app, &incident.agent, incident.seq)?,
            background: of_incident(app.operator.background(), &incident.agent, incident.opened_at),
            matched: matched.iter().map(matched_of).collect(),
            earlier: incident.earlier.map(Into::into),
            later: incident.later.map(Into::into),
            lifecycle,
        })
    })
    .await
}

#[derive(Template)]
#[template(path = "event.html")]
struct EventPage {
    frame: Frame,
    story: story::Shown,
    seq: u64,
    agent: String,
    at: String,
    when: String,
    mute: Option<Mute>,
    effect: Option<effect::Shown>,
}

/// An event by which nobody was stopped, with its steps.
pub(super) async fn event(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathIn(EventPath { seq }): PathIn<EventPath>,
    QueryIn(asked): QueryIn<effect::PageQuery>,
) -> Page {
    let event = app.store(move |store| WatchedEvent::find(store, seq)).await?;
    let effect = effect::shown(&app, &event.agent, &asked).await;
    made(app, move |app| {
        let kept = app.store_here().evidence(&event.id())?;
        let at = moment(event.at);
        let story = Story::of_event(app, &event, kept.as_ref(), caller.role);
        Ok(EventPage {
            frame: Frame::of(app, &caller, "/journal", &story.sentence)?,
            story: story::Shown::of(story, &at, false),
            seq,
            agent: event.agent.to_string(),
            when: when(event.at, app.now()),
            mute: Pattern::of_event(&event)
                .map(|pattern| Mute::of(app, &event.id(), format!("/events/{seq}"), pattern)),
            effect,
            at,
        })
    })
    .await
}

/// What happened to the agent around a record, oldest first. What came after it is left out where too much came since.
fn timeline(app: &App, agent: &str, seq: u64) -> Result<Vec<EventRow>, StoreError> {
    let of = EventFilter { agent: Some(agent.into()), ..EventFilter::default() };
    let up_to = EventFilter { before: Some(EventKey { seq: seq + 1, nth: 0 }), ..of.clone() };
    let mut events = app.store_here().events(&up_to, TIMELINE)?;
    events.reverse();
    let newest = app.store_here().events(&of, NEWEST)?;
    let after = newest.into_iter().rev().filter(|found| found.key.seq > seq).collect::<Vec<_>>();
    if after.len() < NEWEST {
        events.extend(after.into_iter().take(TIMELINE));
    }
    events.into_iter().map(|found| EventRow::of(found, app.now()).with_steps(app.store_here())).collect()
}

fn score(evidence: &Value) -> Option<Score> {
    let score = evidence["score"].as_f64()?;
    let part = |name, key: &str, weight: &'static str, tenths: u64| {
        let count = evidence[key].as_u64().unwrap_or(0);
        let points = count * tenths;
        Part { name, count, weight, points: format!("{}.{}", points / 10, points % 10) }
    };
    Some(Score {
        score: format!("{score:.1}"),
        threshold: format!("{:.1}", evidence["threshold"].as_f64().unwrap_or(0.0)),
        window: evidence["window"].as_u64().unwrap_or(0),
        parts: vec![
            part("similar prompts", "similar_prompts", "1.0", 10),
            part("similar answers", "similar_responses", "2.0", 20),
            part("repeated tool calls", "repeated_tool_calls", "1.5", 15),
        ],
        rule: (!evidence["repetition"].is_null()).then(|| super::shown::sentence(&evidence["repetition"])),
    })
}

fn loosen(evidence: &Value, policy: &Policy, asked: String) -> Option<Loosen> {
    // A score is part of every evidence; a threshold helps only where it decided.
    if evidence["cause"].as_str() != Some("loop") {
        return None;
    }
    let score = (evidence["score"].as_f64()? * 10.0).round() as u16;
    let text = |tenths: u16| format!("{}.{}", tenths / 10, tenths % 10);
    let (today, max) = (policy.loops.threshold_tenths, 500);
    let why_not = if !evidence["repetition"].is_null() {
        "It was stopped as a plain repetition, whatever the score. If that is its work, name the tool under exempt_tools \
         or switch the rule off under loop_rules of its policy."
    } else if score > max {
        "Its score is above 50, the highest threshold there is."
    } else {
        ""
    };
    let least = if why_not.is_empty() { text(score) } else { String::new() };
    Some(Loosen {
        threshold: if asked.is_empty() { least } else { asked },
        today: text(today),
        window: policy.loops.window_size,
        is_loose: score <= today,
        why_not,
    })
}

fn matched_of(entry: &Value) -> Matched {
    let yes = |key: &str| if entry[key].as_bool() == Some(true) { "yes" } else { "" };
    let ago = |ms: u64| format!("{}.{} s", ms / 1000, ms % 1000 / 100);
    Matched {
        back: entry["back"].as_u64().unwrap_or(0),
        ago: entry["ago_ms"].as_u64().map_or_else(|| "–".to_owned(), ago),
        prompt: yes("prompt"),
        response: yes("response"),
        step: yes("step"),
    }
}
