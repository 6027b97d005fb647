//! Cancels work at providers, on a thread and a runtime of its own: a kill never waits for it, and it never waits for a
//! worker. Its requests are estop's own: they pass a shut gate, with the key of the configuration alone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use estop_core::agent::standing::Standing;
use estop_core::ids::Name;
use estop_core::run::RunState;
use estop_core::system::Channel;
use estop_wire::jobs::{self, JobKind, JobState};
use estop_wire::protocol::Protocol;
use estop_wire::response::{Framing, Observed, Observer};
use http::header::{ACCEPT, CONTENT_LENGTH, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Request, StatusCode};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep, timeout};

use super::Phase;
use crate::body::upload::RequestBody;
use crate::emergency_stop::heartbeat::{BEAT_INTERVAL, Heartbeat};
use crate::engine::Engine;
use crate::engine::background::{Job, JobStanding, OpenMeter};
use crate::engine::panic_guard::ShutIfPanicking;
use crate::exchange::forward;
use crate::upstream::{ProviderTarget, Shared, Upstream, UpstreamError};

/// How many are cancelled at once.
const AT_ONCE: usize = 16;
/// One try, from the connection to the end of the answer.
const TRY_TIMEOUT: Duration = Duration::from_secs(10);
/// Pauses before each try. Chosen: a provider that is away for half a minute is tried again; after that a person looks.
const PAUSES: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(500), Duration::from_secs(4), Duration::from_secs(20)];
/// How often it is looked whether somebody was stopped unnoticed, and what is over by its age.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

type Upstreams = BTreeMap<Box<str>, Arc<Upstream>>;

/// The providers in force, with connections of the canceller's own.
#[derive(Clone)]
pub(super) struct JobUpstreams(Arc<Mutex<Arc<Upstreams>>>);

impl JobUpstreams {
    pub(super) fn new(ready: &BTreeMap<Box<str>, Arc<ProviderTarget>>, shared: &Arc<Shared>) -> JobUpstreams {
        JobUpstreams(Arc::new(Mutex::new(Arc::new(upstreams(ready, shared)))))
    }

    /// Other providers, from the next try on.
    pub(super) fn set(&self, ready: &BTreeMap<Box<str>, Arc<ProviderTarget>>, shared: &Arc<Shared>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(upstreams(ready, shared));
    }

    fn get(&self) -> Arc<Upstreams> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn upstreams(ready: &BTreeMap<Box<str>, Arc<ProviderTarget>>, shared: &Arc<Shared>) -> Upstreams {
    ready.iter().map(|(name, ready)| (name.clone(), Upstream::new(Arc::clone(ready), shared))).collect()
}

/// Starts the thread; it ends when the gateway is stopped. `before` is what was remembered from the time before.
pub(crate) fn start(
    engine: Arc<Engine>,
    upstreams: JobUpstreams,
    before: Vec<Job>,
    phases: watch::Receiver<Phase>,
) -> std::io::Result<JoinHandle<()>> {
    let known = upstreams.get();
    engine.jobs.restore(before, |provider| known.get(provider).is_some_and(|known| known.ready.can_sign()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let heartbeat = engine.heartbeats.add("canceller of work at providers", engine.clock.mono());
    let work = move || {
        let _guard = ShutIfPanicking(Arc::clone(&engine));
        runtime.block_on(run(&engine, &upstreams, &heartbeat, phases));
        engine.jobs.close();
        // A lookup of a name may hang; nobody waits for it.
        runtime.shutdown_background();
    };
    std::thread::Builder::new().name("estop-jobs".into()).spawn(work)
}

async fn run(
    engine: &Arc<Engine>,
    upstreams: &JobUpstreams,
    heartbeat: &Heartbeat,
    mut phases: watch::Receiver<Phase>,
) {
    let mut tries = JoinSet::new();
    let mut beat = interval(BEAT_INTERVAL);
    let mut look = interval(POLL_INTERVAL);
    loop {
        for (number, job) in engine.jobs.due(AT_ONCE.saturating_sub(tries.len())) {
            let (engine, upstreams) = (Arc::clone(engine), upstreams.get());
            tries.spawn(async move {
                let _failing = Failing { engine: &engine, number };
                let (state, said) = cancel(upstreams.get(&*job.provider), &job).await;
                engine.job_tried(number, state, said);
            });
        }
        tokio::select! {
            _ = phases.wait_for(|phase| *phase == Phase::Stopped) => return,
            () = engine.jobs.bell.notified() => {}
            Some(_) = tries.join_next() => {}
            _ = beat.tick() => heartbeat.beat(engine.clock.mono()),
            _ = look.tick() => engine.look_after_jobs(),
        }
    }
}

/// A try that panics is said as one that failed: a person looks.
struct Failing<'a> {
    engine: &'a Engine,
    number: u64,
}

impl Drop for Failing<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let why =
                "estop failed while it cancelled this: check at the provider, it may still run".to_owned();
            self.engine.job_tried(self.number, JobStanding::NotCancelled(why), None);
        }
    }
}

/// Tries to cancel; how that ended, and what the provider says it used.
async fn cancel(upstream: Option<&Arc<Upstream>>, job: &Job) -> (JobStanding, Option<Observed>) {
    let not = |why: String| (JobStanding::NotCancelled(why), None);
    let Some(upstream) = upstream else {
        return not(format!("the configuration has no provider `{}` any more", job.provider));
    };
    let place = job.place();
    let Some((look, path)) = place.and_then(|place| Some((place.look()?, place.cancel()?))) else {
        return not("there is no call that cancels it".to_owned());
    };
    let mut why = String::new();
    for pause in PAUSES {
        sleep(pause).await;
        let answer = match ask(upstream, job, Method::POST, &path).await {
            Ok(answer) => answer,
            Err(problem) => {
                why = problem.to_string();
                continue;
            }
        };
        if answer.status.is_success() {
            let state = match jobs::seen(&answer.body).map(|seen| seen.state) {
                // Finished before the request came.
                Some(JobState::Ended) => JobStanding::Ended,
                Some(JobState::Cancelled | JobState::Cancelling | JobState::Running) | None => {
                    JobStanding::Cancelled
                }
            };
            return (state, answer.said(job));
        }
        why = format!("the provider answered {} to {path}", answer.status.as_u16());
        if !is_worth_another(answer.status) {
            break;
        }
    }
    // Refused, perhaps because it is over: then there was nothing to cancel.
    if let Ok(answer) = ask(upstream, job, Method::GET, &look).await
        && answer.status.is_success()
    {
        match jobs::seen(&answer.body).map(|seen| seen.state) {
            Some(JobState::Ended) => return (JobStanding::Ended, answer.said(job)),
            Some(JobState::Cancelled | JobState::Cancelling) => {
                return (JobStanding::Cancelled, answer.said(job));
            }
            Some(JobState::Running) | None => {}
        }
    }
    not(format!("{why}: look at it there, it may still run"))
}

/// Whether a provider that said so may say something else later.
fn is_worth_another(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
}

/// Why a provider gave no answer.
#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error("the provider gave no answer ({0})")]
    NoAnswer(UpstreamError),
    #[error("the provider did not answer within {} s", TRY_TIMEOUT.as_secs())]
    Late,
}

struct Answered {
    status: StatusCode,
    body: Vec<u8>,
}

impl Answered {
    /// What a response used.
    fn said(&self, job: &Job) -> Option<Observed> {
        if job.kind != JobKind::Response {
            return None;
        }
        let mut observer = Observer::new(Protocol::OpenAiResponses, Framing::Plain, "");
        observer.push(&self.body);
        Some(observer.finish())
    }
}

async fn ask(upstream: &Arc<Upstream>, job: &Job, method: Method, path: &str) -> Result<Answered, AskError> {
    let target = match &job.query {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let uri = forward::uri(target);
    let uri =
        uri.ok_or_else(|| AskError::NoAnswer(UpstreamError::Unreachable("its path cannot be sent".into())))?;
    let mut request = Request::new(RequestBody::whole(Bytes::new()));
    *request.uri_mut() = uri;
    let is_post = method == Method::POST;
    *request.method_mut() = method;
    let headers = request.headers_mut();
    for (name, value) in &job.headers {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), value.parse::<HeaderValue>()) {
            headers.insert(name, value);
        }
    }
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static("estop"));
    if is_post {
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    if let Some((name, value)) = &upstream.ready.key {
        headers.insert(name.clone(), value.clone());
    }
    let answered = timeout(TRY_TIMEOUT, upstream.ask(request, jobs::ANSWER_BYTES_MAX)).await;
    match answered {
        Ok(Ok((status, body))) => Ok(Answered { status, body }),
        Ok(Err(error)) => Err(AskError::NoAnswer(error)),
        Err(_) => Err(AskError::Late),
    }
}

impl Engine {
    /// Remembers work that began, and cancels it at once if its agent was stopped meanwhile. Called with no lock held.
    pub(crate) fn remember_job(&self, job: Job, signs: bool, meter: Option<Box<dyn OpenMeter>>) {
        let (agent, run) = (job.agent.clone(), job.run.clone());
        if let Some(forgotten) = self.jobs.add(job, signs, meter) {
            forgotten.settle(None);
        }
        // After it is on the list: whoever stops its agent from here on finds it there, whoever did before is seen here.
        self.stop_jobs_if_stopped(&agent, run.as_ref());
    }

    /// How trying to cancel it ended, and what the provider says it used.
    fn job_tried(&self, number: u64, state: JobStanding, said: Option<Observed>) {
        if let Some(meter) = self.jobs.tried(number, state) {
            meter.settle(said);
        }
    }

    /// Finds what was stopped unnoticed, such as before a restart, and settles what is over by its age.
    fn look_after_jobs(&self) {
        let expired = self.jobs.expire(self.clock.now().wall);
        expired.into_iter().for_each(|meter| meter.settle(None));
        for (agent, run) in self.jobs.running() {
            self.stop_jobs_if_stopped(&agent, run.as_ref());
        }
    }

    fn stop_jobs_if_stopped(&self, agent: &str, run: Option<&Name>) {
        let now = self.clock.now().wall;
        if !self.gate(agent).lets_pass(Channel::Llm) {
            return self.jobs.stop_where(now, |job| *job.agent == *agent);
        }
        // An agent at rest is well.
        let Some(known) = self.agents.get(agent) else { return };
        let (is_off, is_over) = {
            let judged = known.lock_state();
            let is_off = matches!(judged.state.standing(), Standing::Inactive { .. });
            let is_over =
                run.is_some_and(|run| judged.state.run_state(Some(run)) == Some(RunState::Escalated));
            (is_off, is_over)
        };
        if is_off || is_over {
            let is_meant = |job: &Job| *job.agent == *agent && (is_off || job.run.as_ref() == run);
            self.jobs.stop_where(now, is_meant);
        }
    }
}
