//! What people see and do about alerts (AL-1 to AL-3): channels and how they do, tests, the delivery log; rules and mutes
//! have files of their own.

pub(crate) mod mutes;
pub(crate) mod rules;
mod shape;

pub(crate) use shape::type_names;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use estop_core::ids::Name;
use estop_store::{DeliveryFilter, LoggedDelivery};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::Caller;
use crate::alerts_api::{AlertsError, ChannelView};
use crate::input::{InPath, PathIn, QueryIn, page_size};
use crate::output::{Answer, kept_json, moment};
use crate::problem::{Kind, Problem};
use crate::state::App;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default()
        .routes(routes!(channels))
        .routes(routes!(test))
        .routes(routes!(deliveries))
        .merge(rules::routes())
        .merge(mutes::routes())
}

impl From<AlertsError> for Problem {
    fn from(error: AlertsError) -> Problem {
        match error {
            AlertsError::UnknownChannel(name) => Problem::not_found("channel", &name),
            AlertsError::Invalid { field, problem } => Problem::field(field, problem),
            AlertsError::Busy => {
                Problem::new(Kind::Unavailable, "Alerts have too much to do right now: try again.")
                    .retry_after(1)
            }
        }
    }
}

/// Channels in order of name.
#[derive(Serialize, ToSchema)]
struct ChannelsOut {
    channels: Vec<ChannelOut>,
    /// Somebody is told when a guard switches an agent off.
    told_of_stops: bool,
    /// Why alerts cannot be stored at the moment; they are sent all the same.
    store_error: Option<String>,
}

/// A channel: where people are told.
#[derive(Serialize, ToSchema)]
#[schema(as = AlertChannel)]
struct ChannelOut {
    name: String,
    /// `slack`, `email`, …
    kind: &'static str,
    /// Host or addresses; never a secret.
    to: String,
    /// The last try did not fail.
    working: bool,
    /// Tries in a row that failed.
    failures: u32,
    /// It is left alone until then.
    rests_until: Option<String>,
    /// What its receiver said last.
    said: String,
    /// Alerts that wait for it.
    waiting: u64,
}

impl ChannelOut {
    fn of(view: ChannelView, waiting: u64) -> ChannelOut {
        ChannelOut {
            name: view.name.into(),
            kind: view.kind,
            to: view.to.into(),
            working: view.failures == 0,
            failures: view.failures,
            rests_until: view.rests_until.map(moment),
            said: view.said.into(),
            waiting,
        }
    }
}

/// How many alerts wait, by channel.
pub(crate) fn waiting(app: &App) -> Result<BTreeMap<Name, u64>, Problem> {
    let waiting = app.store_here().waiting_alerts()?;
    Ok(waiting.into_iter().map(|waiting| (waiting.target, waiting.count)).collect())
}

/// Lists channels and how they do.
#[utoipa::path(get, path = "/api/alerts/channels", tag = "alerts", responses((status = 200, body = ChannelsOut)))]
async fn channels(State(app): State<App>) -> Answer<ChannelsOut> {
    let asked = Arc::clone(&app);
    let waiting = app.work(move || waiting(&asked)).await?;
    let shown = |view: ChannelView| {
        let count = waiting.get(&view.name).copied().unwrap_or(0);
        ChannelOut::of(view, count)
    };
    Ok(Json(ChannelsOut {
        channels: app.alerts_api.channels().into_iter().map(shown).collect(),
        told_of_stops: app.alerts_api.is_told_of_stops(None),
        store_error: app.alerts_api.store_error(),
    }))
}

/// Which channel.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
struct ChannelPath {
    /// The channel's name.
    name: String,
}

impl InPath for ChannelPath {}

/// A test is on its way.
#[derive(Serialize, ToSchema)]
#[schema(as = AlertTest)]
struct TestOut {
    channel: String,
    message: String,
}

/// Sends a test. It goes the way of every alert; the delivery log says how it ended.
#[utoipa::path(post, path = "/api/alerts/channels/{name}/test", tag = "alerts", params(ChannelPath),
    responses((status = 202, body = TestOut)))]
async fn test(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathIn(path): PathIn<ChannelPath>,
) -> Result<(StatusCode, Json<TestOut>), Problem> {
    app.alerts_api.test(&path.name, &caller.by)?;
    let message = format!("A test is on its way to {}; the delivery log says how it ends.", path.name);
    Ok((StatusCode::ACCEPTED, Json(TestOut { channel: path.name, message })))
}

/// Which tries.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct LogFilter {
    /// To this channel.
    channel: Option<String>,
    /// The `next` of the page before.
    #[param(pattern = "^[0-9]{1,15}$")]
    before: Option<String>,
    /// At most so many.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u64>,
}

/// A page of the delivery log, newest first. It has the last 10,000 tries.
#[derive(Serialize, ToSchema)]
struct DeliveriesOut {
    deliveries: Vec<DeliveryOut>,
    /// Send it as `before` to get the next page; null = this was the last.
    next: Option<String>,
}

/// A try to tell somebody.
#[derive(Serialize, ToSchema)]
#[schema(as = AlertDelivery)]
struct DeliveryOut {
    id: u64,
    at: String,
    channel: String,
    /// The message's id: the same however often it is tried.
    message: String,
    /// Which try it was, from 1.
    attempt: u32,
    /// `delivered`, `retry` (it is tried again) or `given_up`.
    outcome: String,
    /// What the receiver said.
    said: String,
    /// The message's first line; null if the message is not kept any more.
    title: Option<String>,
    /// What it is about, as `kill_switch`.
    alert: Option<String>,
    /// `alert`, `reminder`, `recovery`, `digest` or `test`.
    kind: Option<String>,
}

impl From<LoggedDelivery> for DeliveryOut {
    fn from(logged: LoggedDelivery) -> DeliveryOut {
        let payload = logged.payload.as_deref().map(kept_json).unwrap_or_default();
        DeliveryOut {
            id: logged.id,
            at: moment(logged.at),
            channel: logged.target.into(),
            message: logged.dedupe.into(),
            attempt: logged.attempt,
            outcome: logged.outcome.into(),
            said: logged.detail,
            title: text(&payload, "title"),
            alert: text(&payload, "alert"),
            kind: text(&payload, "kind"),
        }
    }
}

/// A text of a message.
pub(crate) fn text(payload: &Value, key: &str) -> Option<String> {
    payload[key].as_str().map(str::to_owned)
}

/// Lists tries to tell somebody, newest first.
#[utoipa::path(get, path = "/api/alerts/deliveries", tag = "alerts", params(LogFilter),
    responses((status = 200, body = DeliveriesOut)))]
async fn deliveries(State(app): State<App>, QueryIn(filter): QueryIn<LogFilter>) -> Answer<DeliveriesOut> {
    let limit = page_size(filter.limit)?;
    let before = filter.before.as_deref().map(read_cursor).transpose()?;
    let query = DeliveryFilter { target: filter.channel.map(Into::into), before };
    let found = app.store(move |store| store.deliveries(&query, limit)).await?;
    let next = found.last().filter(|_| found.len() == limit).map(|last| last.id.to_string());
    Ok(Json(DeliveriesOut { deliveries: found.into_iter().map(Into::into).collect(), next }))
}

/// The last of the page before.
pub(crate) fn read_cursor(text: &str) -> Result<u64, Problem> {
    let is_fit = (1..=15).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    let read = text.parse().ok().filter(|_| is_fit);
    read.ok_or_else(|| Problem::field("before", "must be the `next` of the page before"))
}
