//! The first page: how the system stands, and every agent with the ones in trouble first.

use askama::Template;
use axum::Extension;
use axum::extract::State;
use estop_core::agent::status::{AgentStatus, StatusKind};
use estop_core::budget::Amount;
use estop_core::operator::AgentView;
use estop_core::system::proof_test::CANARY;
use estop_store::{Agent, EventFilter};
use serde::Deserialize;

use super::charts::Spark;
use super::frame::Frame;
use super::shown::{AgentRow, Badge, StateCell, money, sentence, state_badge, urgency, when};
use super::{Page, made};
use crate::access::Caller;
use crate::agents::row::Found;
use crate::input::QueryIn;
use crate::output::kept_json;
use crate::problem::Problem;
use crate::state::App;

/// Agents on a page: 2 kB each, so that a page stays below 200 kB.
const ROWS: usize = 50;
/// Agents looked through. More than that are found by name, in `estop agents list`.
const AGENTS_MAX: usize = 20_000;
/// What guards in shadow saw, at most.
const WOULD_HAVE: usize = 5;

#[derive(Deserialize)]
pub(super) struct PageQuery {
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
    rows: Vec<Row>,
    filtered: bool,
    find: String,
    show: &'static str,
    place: Place,
    /// When the chart does not go back the whole hour.
    since: Option<String>,
    would_have: Vec<WouldHave>,
    /// The command that has loops stop an agent.
    stop_loops: String,
}

/// An agent's row. One at rest has not called for long, and is not in memory.
struct Row {
    name: String,
    role: Option<String>,
    badge: Badge,
    state: StateCell,
    spark: Spark,
    live: Option<AgentRow>,
}

/// Which part of the list this is.
struct Place {
    first: usize,
    last: usize,
    all: usize,
    earlier: Option<String>,
    next: Option<String>,
}

struct Tiles {
    agents: usize,
    /// Those whose next request passes.
    running: usize,
    /// Those among them that would have been stopped.
    watched: usize,
    /// Those that have not called for long.
    at_rest: usize,
    in_flight: usize,
    spent_today: String,
    incidents: u64,
    needs_human: u64,
}

struct WouldHave {
    agent: String,
    when: String,
    what: String,
}

pub(super) async fn page(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    QueryIn(asked): QueryIn<PageQuery>,
) -> Page {
    made(app, move |app| overview(app, &caller, asked)).await
}

fn overview(app: &App, caller: &Caller, asked: PageQuery) -> Result<Overview, Problem> {
    let frame = Frame::of(app, caller, "/", "Overview")?;
    let mut agents = listed(app)?;
    let live = || agents.iter().filter_map(|agent| agent.0.live.as_ref());
    let tiles = Tiles {
        agents: agents.iter().filter(|agent| !agent.is_at_rest()).count(),
        running: agents.iter().filter(|agent| agent.passes()).count(),
        watched: live().filter(|view| view.status.kind == StatusKind::Watched).count(),
        at_rest: agents.iter().filter(|agent| agent.is_at_rest()).count(),
        in_flight: live().map(|view| view.in_flight).sum(),
        spent_today: money(live().map(|view| view.spent_today).fold(Amount::default(), Amount::plus).usd),
        incidents: frame.incidents,
        needs_human: frame.needs_human,
    };
    let show = match asked.show.as_str() {
        "refused" | "stopped" => "refused",
        "running" | "working" => "running",
        _ => "all",
    };
    let find = asked.find.trim().to_lowercase();
    agents.retain(|agent| is_shown(agent, show) && agent.name().to_lowercase().contains(&find));
    agents
        .sort_by(|one, other| other.urgency().cmp(&one.urgency()).then_with(|| one.name().cmp(other.name())));
    let place = place(agents.len(), asked.from, &format!("/?show={show}&find={}", plain(&find)));
    let now = app.now();
    let shown = agents.into_iter().skip(asked.from).take(ROWS);
    let shown: Vec<Listed> = shown.map(|agent| Listed(agent.0.looked_up(app))).collect();
    // Others wait for the charts: what is read after them is read without the lock.
    let (rows, since) = {
        let mut hours = app.hours();
        hours.read_on(app.store_here(), now)?;
        let rows: Vec<Row> = shown
            .iter()
            .map(|agent| agent.row(app, Spark::of(&hours.of(agent.name(), now).minutes, now)))
            .collect();
        (rows, hours.since(now, 3_600_000).map(|since| when(since, now)))
    };
    let would_have = would_have(app)?;
    let agent = would_have.first().map(|first| first.agent.as_str());
    let agent = agent.or(shown.first().map(|agent| agent.0.name())).unwrap_or("my-agent");
    let stop_loops = app.place.commands.stop_loops(agent);
    Ok(Overview {
        frame,
        tiles,
        rows,
        filtered: show != "all" || !find.is_empty() || asked.from > 0,
        find: asked.find,
        show,
        place,
        since,
        would_have,
        stop_loops,
    })
}

/// An agent as it is kept, as it lives, or both.
struct Listed(Found);

impl Listed {
    fn new(stored: Option<Agent>, live: Option<AgentView>) -> Listed {
        Listed(Found::new(stored, live))
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    /// Whether its next request passes. One at rest is asked only when it is shown: reading the states of all is too much for a
    /// look at the first page.
    fn passes(&self) -> bool {
        self.0.live.as_ref().is_some_and(|view| view.status.passes)
    }

    fn is_at_rest(&self) -> bool {
        self.0.live.is_none()
    }

    /// One at rest comes after those of the same standing that are at work.
    fn urgency(&self) -> u32 {
        match &self.0.live {
            Some(view) => urgency(view) + 1,
            None => AgentStatus::active().urgency(self.0.standing()) * 1000,
        }
    }

    fn row(&self, app: &App, spark: Spark) -> Row {
        let (stored, live) = (&self.0.stored, self.0.view());
        let status = self.0.status(app);
        let role = live.and_then(|view| view.role.as_deref());
        Row {
            name: self.name().to_owned(),
            role: role.or(stored.as_ref().and_then(|agent| agent.role.as_deref())).map(str::to_owned),
            badge: state_badge(&status, self.0.standing()),
            state: StateCell::of(status, self.0.standing(), app.now()),
            spark,
            live: live.map(AgentRow::from),
        }
    }
}

/// Every agent there is, those at rest too, in order of name. One read, however many there are.
fn listed(app: &App) -> Result<Vec<Listed>, Problem> {
    let store = app.store_here();
    let mut stored = store.agents(None, AGENTS_MAX)?.into_iter().peekable();
    let mut all = Vec::new();
    for view in app.operator.agents() {
        while let Some(resting) = stored.next_if(|agent| *agent.name < *view.name) {
            all.push(Listed::new(Some(resting), None));
        }
        // Whoever lives and was not read is new, was deleted, or comes after the last that was read.
        let kept = match stored.next_if(|agent| agent.name == view.name) {
            Some(kept) => Some(kept),
            None => store.agent(&view.name)?,
        };
        if !kept.as_ref().is_some_and(|agent| agent.deleted) {
            all.push(Listed::new(kept, Some(view)));
        }
    }
    all.extend(stored.map(|agent| Listed::new(Some(agent), None)));
    all.retain(|agent| agent.name() != CANARY && agent.0.is_listed(app));
    Ok(all)
}

fn place(all: usize, from: usize, list: &str) -> Place {
    let until = from.saturating_add(ROWS);
    Place {
        first: from.saturating_add(1).min(all),
        last: until.min(all),
        all,
        earlier: (from > 0).then(|| format!("{list}&from={}", from.saturating_sub(ROWS))),
        next: (all > until).then(|| format!("{list}&from={until}")),
    }
}

fn is_shown(agent: &Listed, show: &str) -> bool {
    match show {
        "refused" => !agent.is_at_rest() && !agent.passes(),
        "running" => agent.passes(),
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
