//! What was spent, by day, agent, model and the rest (PO-6).

use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::extract::State;
use estop_core::agent::status::AgentStatus;
use estop_core::guard::Guard;
use estop_core::money::NanoUsd;
use estop_core::operator::FleetView;
use estop_core::policy::BudgetPolicy;
use estop_store::{SpendBy, SpendGroup, SpendQuery, StoreError};
use serde::Deserialize;

use super::charts::{Days, Measure};
use super::csv;
use super::frame::Frame;
use super::shown::{BudgetAhead, Meter, forecast, grouped, money, spent};
use super::{Page, made};
use crate::access::Caller;
use crate::input::QueryIn;
use crate::problem::Problem;
use crate::spend::{DAY_MS, date_of};
use crate::state::App;

/// How many days are summed up: those people may choose.
const RANGES: [i32; 4] = [1, 7, 30, 90];
const DAYS: i32 = 30;
const ROWS: usize = 100;
/// Agents whose budget's end is foretold.
const FORECASTS: usize = 10;
const BYS: [(&str, SpendBy); 7] = [
    ("day", SpendBy::Day),
    ("agent", SpendBy::Agent),
    ("model", SpendBy::Model),
    ("run", SpendBy::Run),
    ("issue", SpendBy::Issue),
    ("role", SpendBy::Role),
    ("label", SpendBy::Label),
];

#[derive(Deserialize)]
pub(super) struct PageQuery {
    #[serde(default)]
    by: String,
    #[serde(default)]
    days: String,
}

/// What is summed up, and since when.
struct Asked {
    id: &'static str,
    by: SpendBy,
    days: i32,
    from_day: i32,
    today: i32,
}

impl PageQuery {
    fn asked(&self, now: i64) -> Asked {
        let (id, by) = BYS.into_iter().find(|(id, _)| *id == self.by).unwrap_or(("day", SpendBy::Day));
        let today = i32::try_from(now.div_euclid(DAY_MS)).unwrap_or(i32::MAX);
        let days = RANGES.into_iter().find(|days| days.to_string() == self.days).unwrap_or(DAYS);
        Asked { id, by, days, from_day: today.saturating_sub(days - 1), today }
    }
}

impl Asked {
    fn read(&self, app: &App, by: SpendBy, limit: usize) -> Result<Vec<SpendGroup>, StoreError> {
        let Asked { from_day, today, .. } = *self;
        app.store_here().spend(&SpendQuery { by, from_day, to_day: today, agent: None, limit })
    }
}

/// The same as a file: dollars as numbers.
pub(super) async fn csv(State(app): State<App>, QueryIn(asked): QueryIn<PageQuery>) -> Page {
    let here = Arc::clone(&app);
    app.work(move || {
        let asked = asked.asked(here.now());
        let sums = asked.read(&here, asked.by, csv::ROWS_MAX)?;
        let heading =
            [asked.id, "usd", "requests", "tokens in", "tokens out", "unpriced requests", "estimated"];
        let rows = sums.into_iter().map(|group| {
            let usd = format!("{}.{:09}", group.sum.usd.0 / 1_000_000_000, group.sum.usd.0 % 1_000_000_000);
            let row = sum(asked.by, group);
            let counts = [row.requests, row.input, row.output, row.unpriced, row.estimated];
            let counts = counts.into_iter().map(|count| count.replace(',', ""));
            [row.key, usd].into_iter().chain(counts).collect()
        });
        Ok(csv::file(&format!("spend-by-{}", asked.id), &heading, rows))
    })
    .await
}

#[derive(Template)]
#[template(path = "spend.html")]
struct SpendPage {
    frame: Frame,
    bys: Vec<By>,
    ranges: Vec<Range>,
    /// Days that are summed up.
    range: i32,
    /// When budgets of the day end at this rate.
    forecasts: Vec<Forecast>,
    current: &'static str,
    /// The command that has more.
    command: String,
    today: String,
    month: String,
    held: String,
    caps: Vec<Meter>,
    budget_ahead: Option<BudgetAhead>,
    sums: Vec<Sum>,
    days: Option<Days>,
    more: bool,
}

struct By {
    id: &'static str,
    current: bool,
}

struct Range {
    days: i32,
    current: bool,
}

struct Forecast {
    /// `None` = all agents together.
    agent: Option<String>,
    text: String,
}

struct Sum {
    key: String,
    usd: String,
    requests: String,
    input: String,
    output: String,
    unpriced: String,
    estimated: String,
    /// Of the largest, 0–100.
    share: u64,
}

pub(super) async fn page(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    QueryIn(asked): QueryIn<PageQuery>,
) -> Page {
    made(app, move |app| {
        let asked = asked.asked(app.now());
        let (current, by) = (asked.id, asked.by);
        let days = asked.read(app, SpendBy::Day, ROWS)?;
        let chart = Days::of(&days, asked.from_day, asked.today);
        let sums = if by == SpendBy::Day { days } else { asked.read(app, by, ROWS)? };
        let measure = Measure::of(&sums);
        let top = sums.iter().map(|group| measure.size(group)).max().unwrap_or(0).max(1);
        let fleet = app.operator.fleet();
        Ok::<_, Problem>(SpendPage {
            frame: Frame::of(app, &caller, "/spend", "Spend")?,
            bys: BYS.iter().map(|(id, _)| By { id, current: *id == current }).collect(),
            ranges: RANGES.iter().map(|days| Range { days: *days, current: *days == asked.days }).collect(),
            range: asked.days,
            forecasts: forecasts(app, &fleet),
            current,
            command: app.place.commands.make(&format!("spend --by {current}")),
            today: spent(fleet.spent_today),
            month: spent(fleet.spent_this_month),
            held: spent(fleet.reserved),
            budget_ahead: fleet
                .latest_day
                .map(|day| BudgetAhead::of(day, app.place.commands.renew_budgets())),
            caps: caps(&fleet),
            days: chart,
            more: sums.len() == ROWS,
            sums: sums
                .into_iter()
                .map(|group| Sum { share: measure.size(&group).saturating_mul(100) / top, ..sum(by, group) })
                .collect(),
        })
    })
    .await
}

/// Of all agents together, and of agents with a cap of the day, those that spent most of it first.
fn forecasts(app: &App, fleet: &FleetView) -> Vec<Forecast> {
    let now = app.now();
    let all = forecast(fleet.spent_today.usd, &fleet.caps, now).map(|text| Forecast { agent: None, text });
    let mut agents: Vec<(u64, Forecast)> = app
        .operator
        .agents()
        .iter()
        .filter_map(|view| {
            let (spent, budget) = (view.spent_today.usd, &view.policy.budget);
            let text = forecast_of(&view.status, spent, budget, now)?;
            let share = spent.0.saturating_mul(1000) / budget.usd_per_day?.0.max(1);
            Some((share, Forecast { agent: Some(view.name.to_string()), text }))
        })
        .collect();
    agents.sort_by_key(|(share, _)| std::cmp::Reverse(*share));
    all.into_iter().chain(agents.into_iter().map(|(_, forecast)| forecast).take(FORECASTS)).collect()
}

/// None for an agent whose next request does not fit any more: it is refused already, whatever little is left.
fn forecast_of(status: &AgentStatus, spent: NanoUsd, budget: &BudgetPolicy, now: i64) -> Option<String> {
    if status.guard == Some(Guard::Budget) { None } else { forecast(spent, budget, now) }
}

fn caps(fleet: &FleetView) -> Vec<Meter> {
    let usd = |label: &str, spent: NanoUsd, cap: Option<NanoUsd>| {
        let cap = cap?;
        Some(Meter::new(label, format!("{} of {}", money(spent), money(cap)), spent.0, cap.0, 80))
    };
    [
        usd("All agents, today", fleet.spent_today.usd, fleet.caps.usd_per_day),
        usd("All agents, this month", fleet.spent_this_month.usd, fleet.caps.usd_per_month),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn sum(by: SpendBy, SpendGroup { key, sum }: SpendGroup) -> Sum {
    let day = (by == SpendBy::Day).then(|| key.parse().ok().and_then(date_of)).flatten();
    let shown = if key.is_empty() { "(none named)".to_owned() } else { key.to_string() };
    Sum {
        key: day.map_or(shown, |day| day.to_string()),
        usd: money(sum.usd),
        requests: grouped(sum.requests),
        input: grouped(sum.input_tokens),
        output: grouped(sum.output_tokens),
        unpriced: grouped(sum.unpriced),
        estimated: grouped(sum.estimated),
        share: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ui_1_nothing_is_foretold_of_a_budget_that_refuses_already() {
        const NOON: i64 = 12 * 3_600_000;
        let budget = BudgetPolicy { usd_per_day: Some(NanoUsd(10_000)), ..BudgetPolicy::default() };
        let said = |guard| {
            forecast_of(&AgentStatus { guard, ..AgentStatus::active() }, NanoUsd(9_999), &budget, NOON)
        };
        assert!(said(None).is_some() && said(Some(Guard::Rate)).is_some());
        assert_eq!(said(Some(Guard::Budget)), None);
    }
}
