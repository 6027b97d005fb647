//! Snoozes (PO-7): a guard of an agent works as in shadow for a while, by somebody's word.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use estop_core::engine::{SNOOZE_MAX_MS, Snooze};
use estop_core::guard::Guard;
use estop_core::operator::{AgentView, NewSnooze};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::row::Found;
use super::{AgentOut, AgentPath, load};
use crate::access::Caller;
use crate::input::{Checks, JsonIn, PathIn, QueryIn, Whole};
use crate::output::{Answer, moment};
use crate::problem::Problem;
use crate::state::{App, at_once};

const MINUTE_MS: u64 = 60_000;
const MINUTES_MAX: u64 = SNOOZE_MAX_MS / MINUTE_MS;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default().routes(routes!(snooze, wake))
}

/// A guard that works as in shadow for a while.
#[derive(Serialize, ToSchema)]
#[schema(as = Snooze)]
pub(super) struct SnoozeOut {
    guard: &'static str,
    /// When it works again.
    until: String,
    /// Whose word it was.
    by: String,
    note: Option<String>,
}

impl From<&Snooze> for SnoozeOut {
    fn from(snooze: &Snooze) -> SnoozeOut {
        SnoozeOut {
            guard: snooze.guard.name(),
            until: moment(snooze.until_wall),
            by: snooze.by.to_string(),
            note: snooze.note.as_deref().map(str::to_owned),
        }
    }
}

/// What is to be snoozed. Give `minutes` or `until`; seven days at most.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct SnoozeIn {
    /// Which guard. The red button (`system`), a person's stop (`agent`) and the end of a run (`run`) always hold.
    guard: String,
    /// For how long.
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 10080)]
    minutes: Option<Whole>,
    /// Until when.
    #[schema(value_type = Option<String>, format = DateTime)]
    until: Option<String>,
    /// Why.
    #[schema(min_length = 1, max_length = 256, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$")]
    note: Option<String>,
}

impl SnoozeIn {
    fn check(&self, now: i64) -> Result<NewSnooze, Problem> {
        let guard = guard_of(&self.guard)?;
        let mut checks = Checks::default();
        self.note.iter().for_each(|note| checks.line("note", note, 256));
        checks.done()?;
        let for_ms = match (&self.minutes, &self.until) {
            (Some(minutes), None) => minutes_ms(minutes.0)?,
            (None, Some(until)) => until_ms(until, now)?,
            (Some(_), Some(_)) | (None, None) => {
                return Err(Problem::field("minutes", "give either `minutes` or `until`"));
            }
        };
        let until = now.saturating_add_unsigned(for_ms);
        Ok(NewSnooze { guard, for_ms, until, note: self.note.as_deref().map(Into::into) })
    }
}

fn minutes_ms(minutes: i64) -> Result<u64, Problem> {
    let ms = u64::try_from(minutes).ok().and_then(|minutes| minutes.checked_mul(MINUTE_MS));
    ms.filter(|ms| fits(*ms)).ok_or_else(|| {
        Problem::field("minutes", format!("must be from 1 to {MINUTES_MAX}: seven days at most"))
    })
}

fn fits(ms: u64) -> bool {
    (1..=SNOOZE_MAX_MS).contains(&ms)
}

fn until_ms(text: &str, now: i64) -> Result<u64, Problem> {
    let until: Option<jiff::Timestamp> = text.parse().ok();
    let until = until.ok_or_else(|| Problem::field("until", "must be a moment like 2026-11-01T12:00:00Z"))?;
    u64::try_from(until.as_millisecond().saturating_sub(now))
        .ok()
        .filter(|ms| fits(*ms))
        .ok_or_else(|| Problem::field("until", "must be later than now, by seven days at most"))
}

fn guard_of(name: &str) -> Result<Guard, Problem> {
    let known = Guard::named(name);
    if let Some(guard) = known.filter(|guard| guard.can_be_snoozed()) {
        return Ok(guard);
    }
    let can: Vec<&str> = Guard::snoozable().map(Guard::name).collect();
    let message = match known {
        Some(guard) => {
            format!("`{}` always holds and cannot be snoozed; one of {} can", guard.name(), can.join(", "))
        }
        None => format!("must be one of {}", can.join(", ")),
    };
    Err(Problem::field("guard", message))
}

/// Has a guard work as in shadow for a while. A later word for the same guard replaces the one before.
#[utoipa::path(post, path = "/api/agents/{id}/snooze", tag = "agents", params(AgentPath), request_body = SnoozeIn,
    responses((status = 200, body = AgentOut)))]
async fn snooze(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathIn(path): PathIn<AgentPath>,
    JsonIn(new): JsonIn<SnoozeIn>,
) -> Answer<AgentOut> {
    let new = new.check(app.now())?;
    load(&app, path.id.clone()).await?;
    let (asked, agent) = (Arc::clone(&app), path.id);
    let view = at_once(move || Ok(asked.operator.snooze(&agent, new, &caller.by)?)).await?;
    shown(&app, view).await
}

/// Which guard works again.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Woken {
    /// This one; all that are snoozed if left out.
    guard: Option<String>,
}

/// Has a snoozed guard work again, at once.
#[utoipa::path(delete, path = "/api/agents/{id}/snooze", tag = "agents", params(AgentPath, Woken),
    responses((status = 200, body = AgentOut)))]
async fn wake(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathIn(path): PathIn<AgentPath>,
    QueryIn(woken): QueryIn<Woken>,
) -> Answer<AgentOut> {
    let only = woken.guard.as_deref().map(guard_of).transpose()?;
    load(&app, path.id.clone()).await?;
    let (asked, agent) = (Arc::clone(&app), path.id);
    let work = move || {
        let unknown = || Problem::not_found("agent", &agent);
        let mut view = asked.operator.agent(&agent).ok_or_else(unknown)?;
        let snoozed: Vec<Guard> = view.snoozes.iter().map(|snooze| snooze.guard).collect();
        for guard in snoozed.into_iter().filter(|guard| only.is_none_or(|only| only == *guard)) {
            view = asked.operator.wake_guard(&agent, guard, &caller.by)?;
        }
        Ok(view)
    };
    let view = at_once(work).await?;
    shown(&app, view).await
}

async fn shown(app: &App, view: AgentView) -> Answer<AgentOut> {
    let name = view.name.clone();
    let stored = app.store(move |store| store.agent(&name)).await.unwrap_or(None);
    Ok(Json(AgentOut::of(app, &Found::new(stored, Some(view)))))
}
