//! Budgets whose clock was ahead (PO-2): having them begin the present day and month.

use axum::extract::State;
use axum::{Extension, Json};
use estop_core::budget::{Amount, PeriodSpend};
use estop_core::ids::Name;
use estop_core::operator::{AgentView, FleetView};
use estop_core::time::{Zone, date};
use estop_store::{SpendBy, SpendQuery};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::Caller;
use crate::agents::overrides;
use crate::agents::row;
use crate::input::JsonIn;
use crate::output::{AmountOut, Answer};
use crate::problem::{Kind, Problem};
use crate::spend::{DAY_MS, date_of};
use crate::state::App;

/// Days of a month.
const DAYS_MAX: usize = 31;
/// Agents read from the store at a time.
const AGENTS_AT_A_TIME: usize = 500;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default().routes(routes!(renew))
}

/// Whose budget.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct RenewIn {
    /// This agent's; left out or null = of all agents, and of all agents together.
    #[serde(default)]
    agent: Option<String>,
}

/// The budgets that were renewed.
#[derive(Serialize, ToSchema)]
#[schema(as = RenewedBudgets)]
struct RenewedOut {
    renewed: Vec<BudgetOut>,
    /// What was done.
    message: String,
}

/// A budget that begins the present day and month.
#[derive(Serialize, ToSchema)]
#[schema(as = RenewedBudget)]
struct BudgetOut {
    /// Null = of all agents together.
    agent: Option<String>,
    /// The day the clock once showed.
    latest_day: String,
    /// What the present day begins with: what `spend` shows for it.
    spent_today: AmountOut,
    /// What the present month begins with: what `spend` shows for its days.
    spent_this_month: AmountOut,
}

impl BudgetOut {
    fn of(agent: Option<&str>, latest_day: i32, spent: PeriodSpend) -> BudgetOut {
        BudgetOut {
            agent: agent.map(str::to_owned),
            latest_day: date(latest_day),
            spent_today: spent.today.into(),
            spent_this_month: spent.this_month.into(),
        }
    }
}

/// Has budgets begin the present day and month that have seen later ones, because the clock was ahead and was put back. They
/// begin with what `spend` shows for the days of UTC with the same dates; what was spent under the later dates is not counted.
/// A budget that is in the present is not changed; if it is the one that was named, that is a conflict.
#[utoipa::path(post, path = "/api/budgets/renew", tag = "spend", request_body = RenewIn,
    responses((status = 200, body = RenewedOut)))]
async fn renew(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    JsonIn(asked): JsonIn<RenewIn>,
) -> Answer<RenewedOut> {
    let here = std::sync::Arc::clone(&app);
    app.work(move || {
        // Stores what was spent until now: it must be among the sums.
        here.operator.checkpoint();
        let renewed = match &asked.agent {
            Some(name) => vec![renew_named(&here, name, &caller.by)?],
            None => renew_all(&here, &caller.by)?,
        };
        let message = message(&renewed);
        Ok(Json(RenewedOut { renewed, message }))
    })
    .await
}

fn renew_named(app: &App, name: &str, by: &str) -> Result<BudgetOut, Problem> {
    let view = loaded(app, name)?;
    renew_agent(app, &view, by)?.ok_or_else(|| {
        let detail = format!("The budget of {} is in the present day and month.", view.name);
        Problem::new(Kind::Conflict, detail)
    })
}

fn renew_all(app: &App, by: &str) -> Result<Vec<BudgetOut>, Problem> {
    let mut renewed = Vec::new();
    renewed.extend(renew_fleet(app, by)?);
    let mut after: Option<Name> = None;
    loop {
        let page = row::page(app, after.as_deref(), AGENTS_AT_A_TIME, true)?;
        for found in page.agents {
            let name = found.name().to_owned();
            let view = found.live.map_or_else(|| loaded(app, &name), Ok)?;
            renewed.extend(renew_agent(app, &view, by)?);
        }
        after = page.next;
        if after.is_none() {
            return Ok(renewed);
        }
    }
}

/// An agent in memory: one at rest is loaded.
fn loaded(app: &App, name: &str) -> Result<AgentView, Problem> {
    let found = row::find(app, name)?;
    if let Some(view) = found.live {
        return Ok(view);
    }
    if let Some(stored) = &found.stored {
        overrides::tell(app, stored, "estop")?;
    }
    app.operator.agent(name).ok_or_else(|| Problem::no_agent("agent", name))
}

fn renew_agent(app: &App, view: &AgentView, by: &str) -> Result<Option<BudgetOut>, Problem> {
    let Some(latest_day) = view.budget_latest_day else { return Ok(None) };
    let spent = spent_in_present(app, Some(&view.name), &view.policy.budget.zone)?;
    app.operator.renew_budget(&view.name, spent, by)?;
    Ok(Some(BudgetOut::of(Some(&view.name), latest_day, spent)))
}

fn renew_fleet(app: &App, by: &str) -> Result<Option<BudgetOut>, Problem> {
    let FleetView { latest_day, caps, .. } = app.operator.fleet();
    let Some(latest_day) = latest_day else { return Ok(None) };
    let spent = spent_in_present(app, None, &caps.zone)?;
    app.operator.renew_fleet_budget(spent, by)?;
    Ok(Some(BudgetOut::of(None, latest_day, spent)))
}

/// What the sums say of the present day and month. Sums are by the day of UTC: those with the dates of the budget's own day
/// and month are taken.
fn spent_in_present(app: &App, agent: Option<&Name>, zone: &Zone) -> Result<PeriodSpend, Problem> {
    let today = zone.local(app.now()).day;
    let utc_today = i32::try_from(app.now().div_euclid(DAY_MS)).unwrap_or(i32::MAX);
    let day_of_month = date_of(today).map_or(1, |date| i32::from(date.day()));
    let query = SpendQuery {
        by: SpendBy::Day,
        from_day: today.saturating_sub(day_of_month - 1),
        to_day: today.max(utc_today),
        agent: agent.cloned(),
        limit: DAYS_MAX + 1,
    };
    let mut spent = PeriodSpend::default();
    for group in app.store_here().spend(&query)? {
        let tokens = group.sum.input_tokens.saturating_add(group.sum.output_tokens);
        let amount = Amount { usd: group.sum.usd, tokens };
        spent.this_month = spent.this_month.plus(amount);
        if group.key.parse().is_ok_and(|day: i32| day >= today) {
            spent.today = spent.today.plus(amount);
        }
    }
    Ok(spent)
}

fn message(renewed: &[BudgetOut]) -> String {
    let one = |budget: &BudgetOut| {
        let whose = budget.agent.as_deref().unwrap_or("all agents together");
        format!(
            "The budget of {whose} had seen {} and begins the present day with ${:.2} and the present month with ${:.2} spent.",
            budget.latest_day, budget.spent_today.usd, budget.spent_this_month.usd
        )
    };
    if renewed.is_empty() {
        return "Every budget is in the present day and month.".to_owned();
    }
    renewed.iter().map(one).collect::<Vec<_>>().join("\n")
}
