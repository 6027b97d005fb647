//! Work that goes on at providers after its request was answered: what runs, what a stop cancelled, and what it could not.

use axum::Json;
use axum::extract::State;
use estop_core::operator::{BackgroundJob, BackgroundState, BackgroundWork};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::output::{Answer, moment};
use crate::state::App;

/// Most jobs in one answer; the counts are of all.
const LISTED_MAX: usize = 200;
/// Work that a stop ended: no longer after its incident than this. Chosen: an answer that names work may end minutes after the
/// stop that cut it.
const OF_INCIDENT_WITHIN_MS: i64 = 10 * 60_000;
/// What a kill stopped is marked right after it.
const JUST_NOW_MS: i64 = 60_000;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default().routes(routes!(background))
}

/// Work at providers, and what became of it after a stop.
#[derive(Serialize, ToSchema)]
#[schema(as = BackgroundWork)]
pub(crate) struct WorkOut {
    /// How many run.
    running: usize,
    /// How many estop is trying to cancel.
    cancelling: usize,
    /// How many the provider cancelled, or said that it will.
    cancelled: usize,
    /// How many could not be cancelled: they may still run and cost money.
    not_cancelled: usize,
    /// How many more there were than estop remembers: nothing was done about them.
    forgotten: u64,
    /// At most 200, those that could not be cancelled first.
    jobs: Vec<JobOut>,
}

/// Work at a provider.
#[derive(Serialize, ToSchema)]
#[schema(as = BackgroundJob)]
pub(crate) struct JobOut {
    agent: String,
    run: Option<String>,
    pub(crate) provider: String,
    /// `background response`, `batch`, `fine-tuning job`, `thread run`, `video`, …
    pub(crate) kind: &'static str,
    /// Its id at the provider; null if estop did not see it.
    pub(crate) id: Option<String>,
    created_at: String,
    /// When it was stopped here; null = nobody stopped it.
    stopped_at: Option<String>,
    /// `running`, `cancelling`, `cancelled`, `ended` or `not_cancelled`.
    state: &'static str,
    /// Why it could not be cancelled, and what to do.
    pub(crate) why: Option<String>,
}

impl JobOut {
    /// For people.
    pub(crate) fn state_words(&self) -> String {
        self.state.replace('_', " ")
    }
}

impl From<BackgroundJob> for JobOut {
    fn from(job: BackgroundJob) -> JobOut {
        let BackgroundJob { agent, run, provider, kind, id, created, stopped, state } = job;
        JobOut {
            agent: agent.into(),
            run: run.map(Into::into),
            provider: provider.into(),
            kind,
            id,
            created_at: moment(created),
            stopped_at: stopped.map(moment),
            state: state.name(),
            why: state.why().map(str::to_owned),
        }
    }
}

impl From<BackgroundWork> for WorkOut {
    fn from(work: BackgroundWork) -> WorkOut {
        let BackgroundWork { mut jobs, forgotten } = work;
        let count = |name: &str| jobs.iter().filter(|job| job.state.name() == name).count();
        let (running, cancelling) = (count("running"), count("cancelling"));
        let (cancelled, not_cancelled) = (count("cancelled"), count("not_cancelled"));
        jobs.sort_by_key(|job| !matches!(job.state, BackgroundState::NotCancelled(_)));
        jobs.truncate(LISTED_MAX);
        let jobs = jobs.into_iter().map(JobOut::from).collect();
        WorkOut { running, cancelling, cancelled, not_cancelled, forgotten, jobs }
    }
}

/// What a kill that was just pressed did about work at providers: what it stopped, and what of earlier stops is not over.
pub(crate) fn stopped(work: BackgroundWork, now: i64) -> WorkOut {
    let BackgroundWork { mut jobs, forgotten } = work;
    jobs.retain(|job| {
        let is_fresh = job.stopped.is_some_and(|at| now.saturating_sub(at) <= JUST_NOW_MS);
        is_fresh || matches!(job.state, BackgroundState::Cancelling)
    });
    WorkOut::from(BackgroundWork { jobs, forgotten })
}

/// What a stop of an agent did about its work at providers.
pub(crate) fn of_incident(work: BackgroundWork, agent: &str, opened_at: i64) -> Vec<JobOut> {
    let is_of = |job: &BackgroundJob| {
        let after = job.stopped.map(|at| at.saturating_sub(opened_at));
        *job.agent == *agent && after.is_some_and(|after| (-1_000..=OF_INCIDENT_WITHIN_MS).contains(&after))
    };
    work.jobs.into_iter().filter(is_of).take(LISTED_MAX).map(JobOut::from).collect()
}

/// Lists work that goes on at providers: background responses, batches, fine-tuning, runs of threads, videos.
#[utoipa::path(get, path = "/api/background", tag = "emergency", responses((status = 200, body = WorkOut)))]
async fn background(State(app): State<App>) -> Answer<WorkOut> {
    Ok(Json(WorkOut::from(app.operator.background())))
}
