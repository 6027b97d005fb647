//! What was spent, by day, agent, model and the rest (PO-6).

use askama::Template;
use axum::Extension;
use axum::extract::{Query, State};
use estop_core::operator::FleetView;
use estop_store::{SpendBy, SpendGroup, SpendQuery};
use serde::Deserialize;

use super::charts::{Days, Measure};
use super::frame::Frame;
use super::shown::{BudgetAhead, Meter, money, spent};
use super::{Page, made};
use crate::access::Caller;
use crate::problem::Problem;
use crate::spend::{DAY_MS, date_of};
use crate::state::App;

const DAYS: i32 = 30;
const ROWS: usize = 100;
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
}

#[derive(Template)]
#[template(path = "spend.html")]
struct SpendPage {
    frame: Frame,
    bys: Vec<By>,
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

struct Sum {
    key: String,
    usd: String,
    requests: u64,
    input: u64,
    output: u64,
    unpriced: u64,
    estimated: u64,
    /// Of the largest, 0–100.
    share: u64,
}

pub(super) async fn page(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Query(asked): Query<PageQuery>,
) -> Page {
    made(app, move |app| {
        let (current, by) = BYS.into_iter().find(|(id, _)| *id == asked.by).unwrap_or(("day", SpendBy::Day));
        let today = i32::try_from(app.now().div_euclid(DAY_MS)).unwrap_or(i32::MAX);
        let from_day = today.saturating_sub(DAYS);
        let read = |by| {
            let query = SpendQuery { by, from_day, to_day: today, agent: None, limit: ROWS };
            app.store_here().spend(&query)
        };
        let days = read(SpendBy::Day)?;
        let chart = Days::of(&days, from_day, today);
        let sums = if by == SpendBy::Day { days } else { read(by)? };
        let measure = Measure::of(&sums);
        let top = sums.iter().map(|group| measure.size(group)).max().unwrap_or(0).max(1);
        let fleet = app.operator.fleet();
        Ok::<_, Problem>(SpendPage {
            frame: Frame::of(app, &caller, "/spend", "Spend")?,
            bys: BYS.iter().map(|(id, _)| By { id, current: *id == current }).collect(),
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

fn caps(fleet: &FleetView) -> Vec<Meter> {
    let usd = |label: &str, spent: estop_core::money::NanoUsd, cap: Option<estop_core::money::NanoUsd>| {
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
        requests: sum.requests,
        input: sum.input_tokens,
        output: sum.output_tokens,
        unpriced: sum.unpriced,
        estimated: sum.estimated,
        share: 0,
    }
}
