//! Who is needed where (AL-2): escalations with owner, notes and the agent's last words.

use askama::Template;
use axum::Extension;
use axum::extract::State;
use estop_core::budget::Amount;
use estop_store::Escalation;

use super::cases::Lifecycle;
use super::frame::Frame;
use super::incidents::{PageQuery, case_badge};
use super::shown::{Badge, spent, when};
use super::{Page, made};
use crate::access::Caller;
use crate::cases::is_held;
use crate::input::QueryIn;
use crate::output::moment;
use crate::problem::Problem;
use crate::state::App;

const ROWS: usize = 25;

#[derive(Template)]
#[template(path = "needs_human.html")]
struct NeedsHuman {
    frame: Frame,
    list: Vec<Case>,
    next: Option<String>,
}

struct Case {
    id: String,
    agent: String,
    run: Option<String>,
    run_api: Option<String>,
    reason: String,
    at: String,
    when: String,
    badge: Badge,
    lifecycle: Lifecycle,
    summary: Option<String>,
    /// What its run cost, if that is known.
    cost: Option<String>,
    what_to_do: String,
}

pub(super) async fn page(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    QueryIn(asked): QueryIn<PageQuery>,
) -> Page {
    made(app, move |app| {
        let store = app.store_here();
        let found = match &asked.case {
            Some(id) => store.escalation(id)?.into_iter().collect(),
            None => store.escalations(&asked.filter()?, ROWS)?,
        };
        let last = found.last().filter(|_| found.len() == ROWS);
        Ok(NeedsHuman {
            frame: Frame::of(app, &caller, "/needs-human", "Needs a human")?,
            next: last.map(|last| asked.next("/needs-human", last.opened_at, &last.id)),
            list: found.iter().map(|case| shown(app, case)).collect::<Result<_, _>>()?,
        })
    })
    .await
}

fn shown(app: &App, case: &Escalation) -> Result<Case, Problem> {
    // The run without a name has the id `agent:`.
    let run_id = format!("{}:{}", case.agent, case.run.as_deref().unwrap_or_default());
    let run = app.store_here().run(&run_id)?;
    let cost = run.as_ref().map(|run| spent(Amount { usd: run.spent, tokens: run.tokens }));
    let summary = run.and_then(|run| run.summary).or_else(|| case.summary.clone());
    let is_held = is_held(app, &case.agent, case.run.as_deref());
    let look = if summary.is_some() {
        "Read its last message."
    } else {
        "It left no last message: look at its requests."
    };
    let what_to_do = match is_held {
        true => format!(
            "{look} To let it go on with another full allowance: {}. To leave it stopped, resolve this.",
            app.place.commands.extend(&case.agent, case.run.as_deref())
        ),
        false => "Its run is not held any more: resolve this.".to_owned(),
    };
    let resolve = if is_held { "Resolve (run stays stopped)" } else { "Resolve" };
    let api = format!("/api/escalations/{}", case.id);
    let lifecycle = Lifecycle::of((&case.id, api), case.status, &case.history, Some(resolve), app.now());
    let owner = case.owner.as_deref().unwrap_or_default().to_owned();
    Ok(Case {
        id: case.id.to_string(),
        agent: case.agent.to_string(),
        run: case.run.as_deref().map(str::to_owned),
        run_api: is_held.then(|| format!("/api/runs/{run_id}")),
        reason: case.reason.clone(),
        at: moment(case.opened_at),
        when: when(case.opened_at, app.now()),
        badge: case_badge(case.status),
        lifecycle: Lifecycle { owner: Some(owner), ..lifecycle },
        summary,
        cost,
        what_to_do,
    })
}
