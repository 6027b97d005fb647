//! What another window or threshold of the kill switch would have done (TW-8, LD-1): an agent's recorded traffic judged
//! by it, beside what today's values give. The core judges (`estop_journal`); this reads, within bounds.

mod effect;
mod reading;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use estop_core::guard::Guard;
use estop_core::ids::Name;
use estop_core::policy::{Mode, Policy};
use estop_core::policy_file::ThresholdTenths;
use estop_journal::{LoopBacktest, LoopOutcome};
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::agents::kill_switch::{self, KillSwitchIn};
use crate::agents::{AgentPath, row, shown};
use crate::input::{Checks, JsonIn, PathIn, Whole};
use crate::output::Answer;
use crate::problem::{Kind, Problem};
use crate::state::{App, at_once};
pub(crate) use effect::{Effect, EffectOut};
use reading::{Asked, Step};

/// Records that are judged, the newest: some seconds of work, and weeks of one agent.
const RECORDS_MAX: usize = 50_000;
/// Records that are in memory at a time.
const PAGE: usize = 1000;
/// Longer nobody waits: what was judged until then is the answer, and says so.
const TIMEOUT: Duration = Duration::from_secs(8);
/// Stops that are listed.
const LISTED: usize = 20;
const DAY_MS: i64 = 86_400_000;
/// Unless somebody says otherwise.
pub(crate) const DAYS: i64 = 7;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default().routes(routes!(backtest))
}

/// The values to try. What is left out is as it is today.
#[derive(Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BacktestOf)]
pub(crate) struct Tried {
    /// Requests that are compared, 5–100.
    #[serde(default)]
    #[schema(value_type = Option<u8>, minimum = 5, maximum = 100)]
    pub(crate) window: Option<Whole>,
    /// The score that may not be exceeded, 1–50.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 50)]
    pub(crate) threshold: Option<f64>,
    /// A tool whose calls do not count as repetition, beside those of today.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 128, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$")]
    pub(crate) exempt_tool: Option<String>,
    /// How many days back, 1–30.
    #[serde(default)]
    #[schema(value_type = Option<u8>, minimum = 1, maximum = 30, default = 7)]
    pub(crate) days: Option<Whole>,
}

impl Tried {
    fn check(&self) -> Result<(), Problem> {
        if let Some(Whole(days)) = self.days.filter(|Whole(days)| !(1..=30).contains(days)) {
            let message = format!("must be a whole number from 1 to 30; {days} is not");
            return Err(Problem::field("days", message));
        }
        let mut checks = Checks::default();
        self.exempt_tool.iter().for_each(|tool| checks.line("exempt_tool", tool, 128));
        checks.done()?;
        let as_set = KillSwitchIn {
            enabled: None,
            window_size: self.window.map(Some),
            threshold: self.threshold.map(Some),
        };
        kill_switch::check(&as_set, "").map_err(|problem| problem.renamed("window_size", "window"))
    }

    /// A policy with these values in it.
    fn over(&self, policy: &Policy) -> Policy {
        let mut tried = policy.clone();
        if let Some(window) = self.window.and_then(|Whole(window)| u8::try_from(window).ok()) {
            tried.loops.window_size = window;
        }
        if let Some(threshold) = self.threshold.and_then(ThresholdTenths::of) {
            tried.loops.threshold_tenths = threshold.get();
        }
        if let Some(tool) = self.exempt_tool.as_deref().map(Name::from)
            && !tried.loops.exempt_tools.contains(&tool)
        {
            tried.loops.exempt_tools.push(tool);
        }
        tried
    }
}

/// Says what another window or threshold would have stopped in the recorded traffic, and what today's do.
#[utoipa::path(post, path = "/api/agents/{id}/backtest", tag = "kill switch", params(AgentPath),
    request_body = Tried, responses((status = 200, body = EffectOut)))]
async fn backtest(
    State(app): State<App>,
    PathIn(path): PathIn<AgentPath>,
    JsonIn(tried): JsonIn<Tried>,
) -> Answer<EffectOut> {
    Ok(Json(EffectOut::from(&effect_of(&app, path.id, tried).await?)))
}

/// The same for the pages.
pub(crate) async fn effect_of(app: &App, agent: Name, tried: Tried) -> Result<Effect, Problem> {
    tried.check()?;
    let permit = tokio::time::timeout(TIMEOUT, Arc::clone(&app.long_reads).acquire_owned()).await;
    let Ok(Ok(permit)) = permit else {
        let detail = "The journal is read by others. Try again when they are done.";
        return Err(Problem::new(Kind::Unavailable, detail).retry_after(5));
    };
    let gone = Gone::default();
    let (asked, left) = (Arc::clone(app), Arc::clone(&gone.0));
    at_once(move || {
        let _permit = permit;
        judge(&asked, &agent, &tried, &left)
    })
    .await
}

/// Tells the thread that reads that nobody waits for it any more.
#[derive(Default)]
struct Gone(Arc<AtomicBool>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn judge(app: &App, agent: &str, tried: &Tried, gone: &AtomicBool) -> Result<Effect, Problem> {
    let found = row::find(app, agent)?;
    let policy = shown::policy(app, &found);
    let days = tried.days.map_or(DAYS, |Whole(days)| days);
    let since = app.now() - days * DAY_MS;
    let other = tried.over(&policy);
    let fresh = || {
        let differs = other.loops != policy.loops;
        let policies = [Some(&policy), differs.then_some(&other)].into_iter().flatten();
        policies.map(|policy| LoopBacktest::new(policy.clone(), since, LISTED)).collect::<Vec<_>>()
    };
    let mut tests = fresh();
    let begun = Instant::now();
    let asked = Asked {
        agent,
        since,
        records_max: RECORDS_MAX,
        page: PAGE,
        within: TIMEOUT,
        spent: &|| begun.elapsed(),
        gone,
    };
    let read = asked.read(app.store_here(), &mut |step| match step {
        Step::Afresh => tests = fresh(),
        Step::Next(record) => tests.iter_mut().for_each(|test| drop(test.feed(record))),
    })?;
    let outcome =
        |test: Option<&LoopBacktest>| test.map_or_else(LoopOutcome::default, |test| test.outcome().clone());
    Ok(Effect {
        enabled: policy.modes[Guard::Loop] == Mode::Enforce,
        days,
        records: read.records,
        from: read.from,
        to: read.to,
        complete: read.complete,
        today: effect::Side { policy: policy.loops, outcome: outcome(tests.first()) },
        tried: effect::Side { policy: other.loops, outcome: outcome(tests.last()) },
    })
}
