//! Events people look for, newest first.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use estop_core::guard::Guard;
use estop_core::ids::Name;
use estop_store::{EVENT_TYPES, EventFilter, EventKey, Store, StoredEvent};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::Caller;
use crate::cases::delete_kept_steps;
use crate::evidence::{Story, WatchedEvent};
use crate::input::{InPath, PathIn, QueryIn, page_size};
use crate::output::{Answer, kept_json, moment};
use crate::problem::Problem;
use crate::state::App;
use crate::time_range::{TimeRange, place_of};

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default().routes(routes!(list)).routes(routes!(steps, delete_steps))
}

/// The types there are, in the document.
fn event_type() -> Object {
    let names = EVENT_TYPES.iter().copied();
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names)).build()
}

/// The guards there are, in the document.
fn guard_name() -> Object {
    let names = Guard::ALL.into_iter().map(Guard::name);
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names)).build()
}

/// Which events.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Filter {
    /// Of this agent.
    #[param(value_type = Option<String>)]
    agent: Option<Name>,
    /// Of this type, as `kill_switch`.
    #[serde(rename = "type")]
    #[param(rename = "type", required = false, schema_with = event_type)]
    event_type: Option<Name>,
    /// Of this guard, as `loop`: what it did, or would have done.
    #[param(required = false, schema_with = guard_name)]
    guard: Option<Name>,
    /// Not older than this: a moment (RFC 3339), or a day or a minute in UTC, as `2026-11-19` or `2026-11-19T03:30`.
    #[param(value_type = Option<String>, format = DateTime)]
    from: Option<String>,
    /// Not later than this; a day and a minute are meant to their end.
    #[param(value_type = Option<String>, format = DateTime)]
    to: Option<String>,
    /// The `next` of the page before, or a record's number.
    #[param(pattern = "^[0-9]{1,15}([.][0-9]{1,6})?$")]
    before: Option<String>,
    /// At most so many.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u64>,
}

/// A page of events.
#[derive(Serialize, ToSchema)]
struct EventsOut {
    events: Vec<EventOut>,
    /// Send it as `before` to get the next page; null = this was the last.
    next: Option<String>,
}

/// An event.
#[derive(Serialize, ToSchema)]
#[schema(as = Event)]
struct EventOut {
    /// The journal's record it stands in.
    seq: u64,
    /// Which of the record's events.
    nth: u32,
    event_type: String,
    /// Whose; null = the system's.
    agent: Option<String>,
    /// When (RFC 3339).
    at: String,
    /// What there is to say.
    #[schema(value_type = Object)]
    detail: Value,
}

impl From<StoredEvent> for EventOut {
    fn from(StoredEvent { key, event }: StoredEvent) -> EventOut {
        EventOut {
            seq: key.seq,
            nth: key.nth,
            event_type: event.event_type.into(),
            agent: event.agent.map(Into::into),
            at: moment(event.wall),
            detail: kept_json(&event.detail),
        }
    }
}

/// Lists events, newest first.
#[utoipa::path(get, path = "/api/events", tag = "journal", params(Filter), responses((status = 200, body = EventsOut)))]
async fn list(State(app): State<App>, QueryIn(filter): QueryIn<Filter>) -> Answer<EventsOut> {
    let limit = page_size(filter.limit)?;
    if let Some(unknown) = filter.event_type.as_deref().filter(|name| !EVENT_TYPES.contains(name)) {
        let known = EVENT_TYPES.join(", ");
        return Err(Problem::field("type", format!("`{unknown}` is no type of events; there are {known}")));
    }
    let given = [("from", &filter.from), ("to", &filter.to)];
    if let Some((field, _)) =
        given.iter().find(|(_, at)| at.as_deref().is_some_and(|at| at.trim().is_empty()))
    {
        return Err(Problem::field(*field, "must be a moment, as 2026-11-19T03:30:00Z, or left out"));
    }
    let mut search = Search {
        event_type: filter.event_type,
        guard: filter.guard.as_deref().map(guard_named).transpose()?,
        range: TimeRange::read(&filter.from.unwrap_or_default(), &filter.to.unwrap_or_default())?,
        cursor: filter.before.as_deref().map(|text| read_cursor("before", text)).transpose()?,
        ..Search::default()
    };
    let asked = Arc::clone(&app);
    let read = move || {
        search.agent = asked.agent_filter(filter.agent)?;
        search.read(asked.store_here(), limit)
    };
    let (events, next) = app.work(read).await?;
    Ok(Json(EventsOut { events: events.into_iter().map(Into::into).collect(), next: next.map(cursor) }))
}

/// The guard a filter names.
pub(crate) fn guard_named(name: &str) -> Result<Guard, Problem> {
    let known = || Guard::ALL.into_iter().map(Guard::name).collect::<Vec<_>>().join(", ");
    Guard::named(name)
        .ok_or_else(|| Problem::field("guard", format!("must be the name of a guard: {}", known())))
}

/// Which events are looked for.
#[derive(Default)]
pub(crate) struct Search {
    pub(crate) agent: Option<Name>,
    pub(crate) event_type: Option<Name>,
    pub(crate) guard: Option<Guard>,
    pub(crate) range: TimeRange,
    pub(crate) oldest_first: bool,
    /// The last event of the page before.
    pub(crate) cursor: Option<EventKey>,
}

impl Search {
    /// At most so many, and the cursor of the next page.
    pub(crate) fn read(
        &self,
        store: &dyn Store,
        limit: usize,
    ) -> Result<(Vec<StoredEvent>, Option<EventKey>), Problem> {
        let (agent, event_type) = (self.agent.clone(), self.event_type.clone());
        let of = EventFilter { agent, event_type, ..EventFilter::default() };
        let place = |wall| {
            let newest = |seq| {
                let before = Some(EventKey { seq, nth: 0 });
                let found = store.events(&EventFilter { before, ..of.clone() }, 1)?;
                Ok(found.first().map(|found| (found.key.seq, found.event.wall)))
            };
            place_of(wall, store.last_seq()?, newest)
        };
        let mut before = self.range.to.map(place).transpose()?.map(|seq| EventKey { seq, nth: 0 });
        let from = self.range.from.map(|from| place(from.saturating_sub(1))).transpose()?;
        let mut after = from.and_then(|seq| seq.checked_sub(1)).map(|seq| EventKey { seq, nth: u32::MAX });
        if let Some(cursor) = self.cursor {
            if self.oldest_first {
                after = after.max(Some(cursor));
            } else {
                before = Some(before.map_or(cursor, |before| before.min(cursor)));
            }
        }
        let filter =
            EventFilter { guard: self.guard, before, after, oldest_first: self.oldest_first, ..of.clone() };
        let mut events = store.events(&filter, limit)?;
        let next = events.last().filter(|_| events.len() == limit).map(|last| last.key);
        events.retain(|found| self.range.has(found.event.wall));
        Ok((events, next))
    }
}

/// Which event.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct EventPath {
    /// Its record in the journal.
    pub(crate) seq: u64,
}

impl InPath for EventPath {}

/// An event by which nobody was stopped, with the steps that led to it.
#[derive(Serialize, ToSchema)]
#[schema(as = EventWithSteps)]
struct EventWithStepsOut {
    /// The journal's record it stands in.
    seq: u64,
    agent: String,
    /// `would_have_stopped` or `nudged`.
    event_type: String,
    at: String,
    #[serde(flatten)]
    story: Story,
}

/// Shows the steps up to a stop that a guard in shadow would have made (`would_have_stopped`), or up to a moment at which an agent was
/// told that it repeats itself (`nudged`).
#[utoipa::path(get, path = "/api/events/{seq}/evidence", tag = "journal", params(EventPath),
    responses((status = 200, body = EventWithStepsOut)))]
async fn steps(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathIn(path): PathIn<EventPath>,
) -> Answer<EventWithStepsOut> {
    let found = app.store(move |store| {
        let event = WatchedEvent::find(store, path.seq)?;
        let kept = store.evidence(&event.id())?;
        Ok::<_, Problem>((event, kept))
    });
    let (event, kept) = found.await?;
    Ok(Json(EventWithStepsOut {
        seq: event.seq,
        agent: event.agent.to_string(),
        event_type: event.event_type.to_string(),
        at: moment(event.at),
        story: Story::of_event(&app, &event, kept.as_ref(), caller.role),
    }))
}

/// Deletes the steps that are kept of an event, at once and for good.
#[utoipa::path(delete, path = "/api/events/{seq}/evidence", tag = "journal", params(EventPath),
    responses((status = 204)))]
async fn delete_steps(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathIn(path): PathIn<EventPath>,
) -> Result<StatusCode, Problem> {
    let asked = Arc::clone(&app);
    app.work(move || {
        let id = WatchedEvent::find(asked.store_here(), path.seq)?.id();
        delete_kept_steps(&asked, &id, &caller.by)?;
        asked.operator.access_changed(&format!("steps of record {} deleted", path.seq), &caller.by);
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}

pub(crate) fn cursor(key: EventKey) -> String {
    format!("{}.{}", key.seq, key.nth)
}

/// Reads a cursor that came under this name.
pub(crate) fn read_cursor(field: &str, text: &str) -> Result<EventKey, Problem> {
    let (seq, nth) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| text.len() <= 15 && text.bytes().all(|b| b.is_ascii_digit());
    let read = || Some(EventKey { seq: seq.parse().ok()?, nth: nth.parse().ok()? });
    let key = if digits(seq) && digits(nth) { read() } else { None };
    key.ok_or_else(|| Problem::field(field, "must be the `next` of the page before, or a record's number"))
}
