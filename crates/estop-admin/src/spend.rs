//! What was spent, and an overview in numbers.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use estop_core::agent::standing::Standing;
use estop_core::agent::status::StatusKind;
use estop_core::budget::Amount;
use estop_core::ids::Name;
use estop_core::operator::FleetView;
use estop_core::system::proof_test::CANARY;
use estop_core::time::date;
use estop_store::{SpendBy, SpendGroup, SpendQuery};
use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::agents::row::Found;
use crate::emergency::state_name;
use crate::input::{QueryIn, page_size};
use crate::output::{AmountOut, Answer, dollars};
use crate::problem::Problem;
use crate::state::App;

pub(crate) const DAY_MS: i64 = 86_400_000;
const DAYS_SHOWN: i32 = 30;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default().routes(routes!(spend)).routes(routes!(stats))
}

/// What sums are made by.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = SpendBy)]
enum By {
    Day,
    Agent,
    Model,
    Run,
    Issue,
    Role,
    Label,
}

impl From<By> for SpendBy {
    fn from(by: By) -> SpendBy {
        match by {
            By::Day => SpendBy::Day,
            By::Agent => SpendBy::Agent,
            By::Model => SpendBy::Model,
            By::Run => SpendBy::Run,
            By::Issue => SpendBy::Issue,
            By::Role => SpendBy::Role,
            By::Label => SpendBy::Label,
        }
    }
}

/// Which spend.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Query {
    /// What sums are made by; `day` if left out.
    #[param(inline)]
    by: Option<By>,
    /// First day (`2026-11-01`); thirty days back if left out.
    #[param(value_type = Option<String>, format = Date)]
    from: Option<Name>,
    /// Last day; today if left out.
    #[param(value_type = Option<String>, format = Date)]
    to: Option<Name>,
    /// Of this agent only.
    #[param(value_type = Option<String>)]
    agent: Option<Name>,
    /// At most so many sums.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u64>,
}

/// Sums, by day the latest first, otherwise the dearest first.
#[derive(Serialize, ToSchema)]
#[schema(as = Spend)]
struct SpendOut {
    from: String,
    to: String,
    spend: Vec<SumOut>,
    /// All agents together, under the configuration's `budget:`.
    fleet: FleetOut,
}

/// The account of all agents together. Its day and month are those of its time zone.
#[derive(Serialize, ToSchema)]
#[schema(as = Fleet)]
struct FleetOut {
    spent_today: AmountOut,
    spent_this_month: AmountOut,
    /// Held for requests under way.
    reserved: AmountOut,
    /// Null = no cap.
    usd_per_day: Option<f64>,
    /// Null = no cap.
    usd_per_month: Option<f64>,
    /// Null = no cap.
    tokens_per_day: Option<u64>,
    /// Null = no cap.
    tokens_per_month: Option<u64>,
    timezone: String,
    /// The day the clock once showed, later than today: until then a day or month begins only where the clock comes to it by
    /// ticking. `POST /api/budgets/renew` ends that. Null = the account is in the present.
    latest_day: Option<String>,
}

impl From<FleetView> for FleetOut {
    fn from(fleet: FleetView) -> FleetOut {
        let FleetView { caps, spent_today, spent_this_month, reserved, latest_day } = fleet;
        FleetOut {
            spent_today: spent_today.into(),
            spent_this_month: spent_this_month.into(),
            reserved: reserved.into(),
            usd_per_day: caps.usd_per_day.map(dollars),
            usd_per_month: caps.usd_per_month.map(dollars),
            tokens_per_day: caps.tokens_per_day,
            tokens_per_month: caps.tokens_per_month,
            timezone: caps.zone.name.into(),
            latest_day: latest_day.map(date),
        }
    }
}

/// One sum.
#[derive(Serialize, ToSchema)]
#[schema(as = SpendSum)]
struct SumOut {
    /// The day, the agent, the model, …; empty = none was named.
    key: String,
    requests: u64,
    input_tokens: u64,
    output_tokens: u64,
    cache_read_tokens: u64,
    cache_write_tokens: u64,
    reasoning_tokens: u64,
    usd: f64,
    /// Requests whose cost nobody knows: their model has no price, or their path. They are not in `usd`.
    unpriced: u64,
    /// Requests whose use was estimated: their provider did not say, or estop was killed before it could.
    estimated: u64,
}

impl SumOut {
    fn of(by: SpendBy, SpendGroup { key, sum }: SpendGroup) -> SumOut {
        let day = (by == SpendBy::Day).then(|| key.parse().ok().and_then(date_of)).flatten();
        SumOut {
            key: day.map_or(key.into(), |day| day.to_string()),
            requests: sum.requests,
            input_tokens: sum.input_tokens,
            output_tokens: sum.output_tokens,
            cache_read_tokens: sum.cache_read_tokens,
            cache_write_tokens: sum.cache_write_tokens,
            reasoning_tokens: sum.reasoning_tokens,
            usd: dollars(sum.usd),
            unpriced: sum.unpriced,
            estimated: sum.estimated,
        }
    }
}

/// Sums up spend.
#[utoipa::path(get, path = "/api/spend", tag = "spend", params(Query), responses((status = 200, body = SpendOut)))]
async fn spend(State(app): State<App>, QueryIn(query): QueryIn<Query>) -> Answer<SpendOut> {
    let today = i32::try_from(app.now().div_euclid(DAY_MS)).unwrap_or(i32::MAX);
    let to_day = query.to.as_deref().map_or(Ok(today), |text| day_of("to", text))?;
    let from_day =
        query.from.as_deref().map_or(Ok(to_day.saturating_sub(DAYS_SHOWN)), |text| day_of("from", text))?;
    let by = query.by.map_or(SpendBy::Day, Into::into);
    let limit = page_size(query.limit)?;
    let asked = Arc::clone(&app);
    let read = move || {
        let agent = asked.agent_filter(query.agent)?;
        Ok(asked.store_here().spend(&SpendQuery { by, from_day, to_day, agent, limit })?)
    };
    let sums = app.work(read).await?;
    let shown = |day: i32| date_of(day).map(|date| date.to_string()).unwrap_or_default();
    let spend = sums.into_iter().map(|group| SumOut::of(by, group)).collect();
    let fleet = app.operator.fleet().into();
    Ok(Json(SpendOut { from: shown(from_day), to: shown(to_day), spend, fleet }))
}

fn epoch() -> Date {
    Date::constant(1970, 1, 1)
}

pub(crate) fn date_of(day: i32) -> Option<Date> {
    epoch().checked_add(jiff::Span::new().try_days(day).ok()?).ok()
}

fn day_of(field: &str, text: &str) -> Result<i32, Problem> {
    let date: Option<Date> = if text.len() == 10 { text.parse().ok() } else { None };
    let days = date.and_then(|date| date.since(epoch()).ok()).map(|span| span.get_days());
    days.ok_or_else(|| Problem::field(field, "must be a day like 2026-11-01"))
}

/// An overview in numbers.
#[derive(Serialize, ToSchema)]
#[schema(as = Stats)]
struct StatsOut {
    /// `starting`, `running`, `shutdown` or `safe_mode`.
    state: &'static str,
    agents: u64,
    /// Agents whose next request passes.
    running: u64,
    /// Agents whose next request passes, and which nothing would have stopped.
    active: u64,
    inactive: u64,
    paused: u64,
    /// Agents by the `kind` of their `state`.
    states: BTreeMap<&'static str, u64>,
    /// Requests under way.
    in_flight: u64,
    /// Runs in memory.
    runs: u64,
    spent_today: AmountOut,
    spent_this_month: AmountOut,
    /// Budgets that have seen a day later than today, because the clock was ahead: `POST /api/budgets/renew` has them begin
    /// the present day and month.
    budgets_ahead: u64,
    /// The latest day they have seen.
    budgets_latest_day: Option<String>,
    open_incidents: u64,
    open_escalations: u64,
    /// The newest record of the journal.
    last_seq: u64,
    /// Nobody would be told of a stop of any agent.
    notification_missing: bool,
}

/// Counts for an overview.
#[utoipa::path(get, path = "/api/stats", tag = "spend", responses((status = 200, body = StatsOut)))]
async fn stats(State(app): State<App>) -> Answer<StatsOut> {
    let asked = Arc::clone(&app);
    app.work(move || {
        let store = asked.store_here();
        let open = store.open_cases()?;
        let mut agents = asked.operator.agents();
        agents.retain(|view| &*view.name != CANARY && Found::new(None, Some(view.clone())).is_listed(&asked));
        let count =
            |is: fn(&Standing) -> bool| agents.iter().filter(|view| is(&view.standing)).count() as u64;
        let mut states = BTreeMap::new();
        agents.iter().for_each(|view| *states.entry(view.status.kind.name()).or_insert(0) += 1);
        let sum = |of: fn(&estop_core::operator::AgentView) -> Amount| {
            agents.iter().map(of).fold(Amount::default(), Amount::plus)
        };
        let of_agents = agents.iter().filter_map(|view| view.budget_latest_day);
        let ahead: Vec<i32> = of_agents.chain(asked.operator.fleet().latest_day).collect();
        Ok(Json(StatsOut {
            state: state_name(asked.operator.gate().state),
            agents: agents.len() as u64,
            running: agents.iter().filter(|view| view.status.passes).count() as u64,
            active: states.get(StatusKind::Active.name()).copied().unwrap_or_default(),
            inactive: count(|standing| matches!(standing, Standing::Inactive { .. })),
            paused: count(|standing| matches!(standing, Standing::Paused { .. })),
            states,
            in_flight: agents.iter().map(|view| view.in_flight as u64).sum(),
            runs: agents.iter().map(|view| view.runs.len() as u64).sum(),
            spent_today: sum(|view| view.spent_today).into(),
            spent_this_month: sum(|view| view.spent_this_month).into(),
            budgets_ahead: ahead.len() as u64,
            budgets_latest_day: ahead.into_iter().max().map(date),
            open_incidents: open.incidents,
            open_escalations: open.escalations,
            last_seq: store.last_seq()?,
            notification_missing: !asked.alerts_api.is_told_of_stops(None),
        }))
    })
    .await
}
