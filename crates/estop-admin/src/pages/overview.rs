//! The first page: how the system stands, and every agent with the ones in trouble first.

use askama::Template;
use axum::Extension;
use axum::extract::{Query, State};
use estop_core::budget::Amount;
use estop_core::operator::AgentView;
use estop_core::standing::Standing;
use estop_store::EventFilter;
use serde::Deserialize;

use super::frame::Frame;
use super::shown::{AgentRow, money, sentence, urgency, when};
use super::{Page, made};
use crate::access::Caller;
use crate::input::PAGE_MAX;
use crate::output::kept_json;
use crate::problem::Problem;
use crate::state::App;
use estop_store::{CaseFilter, CaseStatus};

/// Agents on a page.
const ROWS: usize = 50;
/// What guards in shadow saw, at most.
const WOULD_HAVE: usize = 5;

#[derive(Deserialize)]
pub(super) struct Asked {
    #[serde(default)]
    find: String,
    #[serde(default)]
    show: String,
    #[serde(default)]
    from: usize,
}

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    frame: Frame,
    tiles: Tiles,
    rows: Vec<AgentRow>,
    filtered: bool,
    find: String,
    show: &'static str,
    next: Option<String>,
    would_have: Vec<WouldHave>,
}

struct Tiles {
    agents: usize,
    working: usize,
    in_flight: usize,
    spent_today: String,
    incidents: usize,
    needs_human: usize,
}

struct WouldHave {
    agent: String,
    when: String,
    what: String,
}

pub(super) async fn page(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Query(asked): Query<Asked>,
) -> Page {
    made(app, move |app| overview(app, &caller, asked)).await
}

fn overview(app: &App, caller: &Caller, asked: Asked) -> Result<Overview, Problem> {
    let frame = Frame::of(app, caller, "/", "Overview")?;
    let mut agents = app.operator.agents();
    let tiles = Tiles {
        agents: agents.len(),
        working: agents.iter().filter(|view| matches!(view.standing, Standing::Active)).count(),
        in_flight: agents.iter().map(|view| view.in_flight).sum(),
        spent_today: money(
            agents.iter().map(|view| view.spent_today).fold(Amount::default(), Amount::plus).usd,
        ),
        incidents: app
            .store_here()
            .incidents(&CaseFilter { status: Some(CaseStatus::Open), ..CaseFilter::default() }, PAGE_MAX)?
            .len(),
        needs_human: frame.needs_human,
    };
    let show = match asked.show.as_str() {
        "stopped" => "stopped",
        "working" => "working",
        _ => "all",
    };
    let find = asked.find.trim().to_lowercase();
    agents.retain(|view| is_shown(view, show) && view.name.to_lowercase().contains(&find));
    agents.sort_by(|one, other| urgency(other).cmp(&urgency(one)).then_with(|| one.name.cmp(&other.name)));
    let until = asked.from.saturating_add(ROWS);
    let next = (agents.len() > until).then(|| format!("/?show={show}&find={}&from={until}", plain(&find)));
    let rows = agents.iter().skip(asked.from).take(ROWS).map(AgentRow::from).collect();
    let filtered = show != "all" || !find.is_empty() || asked.from > 0;
    let would_have = would_have(app)?;
    Ok(Overview { frame, tiles, rows, filtered, find: asked.find, show, next, would_have })
}

fn is_shown(view: &AgentView, show: &str) -> bool {
    match show {
        "stopped" => !matches!(view.standing, Standing::Active),
        "working" => matches!(view.standing, Standing::Active),
        _ => true,
    }
}

/// Names have no other characters; whoever looks for some finds nothing.
fn plain(find: &str) -> String {
    find.chars().filter(|c| c.is_ascii_alphanumeric() || "._-".contains(*c)).collect()
}

fn would_have(app: &App) -> Result<Vec<WouldHave>, Problem> {
    let filter = EventFilter { event_type: Some("would_have_stopped".into()), ..EventFilter::default() };
    let now = app.now();
    let seen = app.store_here().events(&filter, WOULD_HAVE)?.into_iter().map(|found| WouldHave {
        agent: found.event.agent.map(Into::into).unwrap_or_default(),
        when: when(found.event.wall, now),
        what: sentence(&kept_json(&found.event.detail)),
    });
    Ok(seen.collect())
}
