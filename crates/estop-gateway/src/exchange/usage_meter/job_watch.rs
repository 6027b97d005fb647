//! A request that begins work at its provider, or asks about some: its answer is read for that, beside everything else.

use estop_core::ids::Name;
use estop_wire::jobs::{self, JobKind, JobReader, JobState};
use estop_wire::protocol::Protocol;
use estop_wire::response::{Observed, Observer, framing};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};

use super::UsageMeter;
use crate::body::upload::Outgoing;
use crate::engine::background::{Found, Job, JobStanding, Jobs, OpenMeter};
use crate::upstream::ProviderTarget;

/// Headers that say how a request is to be read, and that a later one about the same work needs. None of them is a secret.
const KEPT_HEADERS: [&str; 5] =
    ["openai-organization", "openai-project", "openai-beta", "anthropic-version", "anthropic-beta"];
/// Longer ones are nobody's.
const KEPT_BYTES_MAX: usize = 256;

/// Watches the answer of a request for work at the provider.
pub(crate) struct JobWatch {
    what: What,
    reader: Option<JobReader>,
    /// The provider answered, and not with an error.
    is_good: bool,
}

enum What {
    /// It begins some.
    Begins { job: Box<Job>, signs: bool },
    /// It asks about some.
    Asks { found: Found, result: Option<Box<Observer>> },
}

/// Why work may not begin: estop could not cancel it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MayNotBegin {
    /// Its path is none that a later request could be made of.
    Path,
    /// The list of what is to be cancelled is full.
    Full,
}

/// What became of the meter of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MeterEnd {
    /// It is settled as every other.
    Settle,
    /// It stays open until the result is seen.
    StaysOpen,
}

/// A request on its way, as far as it is needed here.
pub(crate) struct Sending<'a> {
    /// Whose: the name under which it is known, however this request spells it.
    pub(crate) agent: &'a str,
    /// The provider's name.
    pub(crate) provider: &'a str,
    /// The provider.
    pub(crate) ready: &'a ProviderTarget,
    /// The request, as it is sent.
    pub(crate) request: &'a Outgoing,
    /// The client's path, without what the base path has already.
    pub(crate) path: &'a str,
    /// It asks for work in the background.
    pub(crate) background: bool,
    /// The time on the wall.
    pub(crate) now: i64,
}

impl JobWatch {
    /// For a request that begins work, or is about some that is remembered; `None` for every other.
    pub(crate) fn of(sending: &Sending<'_>, jobs: &Jobs) -> Result<Option<Box<JobWatch>>, MayNotBegin> {
        let Sending { agent, provider, ready, request, path, background, .. } = *sending;
        let kind = jobs::begun_by(request.method().as_str(), path);
        let plain = jobs::plain_path(&format!("{}{path}", ready.provider.base_path));
        let what = match kind.filter(|kind| background || !kind.is_on_request()) {
            Some(kind) => {
                let path = plain.ok_or(MayNotBegin::Path)?;
                if !jobs.has_room(agent) {
                    return Err(MayNotBegin::Full);
                }
                What::Begins { job: Box::new(sending.job(kind, path)), signs: ready.can_sign() }
            }
            None => match plain.and_then(|path| jobs.find(agent, provider, &path)) {
                Some(found) => What::Asks { found, result: None },
                None => return Ok(None),
            },
        };
        Ok(Some(Box::new(JobWatch { what, reader: None, is_good: false })))
    }

    /// The answer begins.
    pub(crate) fn begin(&mut self, head: &http::response::Parts) {
        let text = |name| head.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default();
        self.is_good = head.status.is_success();
        let encoding = text(CONTENT_ENCODING);
        self.reader = Some(JobReader::new(encoding));
        if let What::Asks { found: Found { kind: JobKind::Response, .. }, result } = &mut self.what {
            let protocol = Protocol::OpenAiResponses;
            let framing = framing(text(CONTENT_TYPE), protocol);
            *result = Some(Box::new(Observer::new(protocol, framing, encoding)));
        }
    }

    /// Reads what passes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if let Some(reader) = &mut self.reader {
            reader.push(bytes);
        }
        if let What::Asks { result: Some(result), .. } = &mut self.what {
            result.push(bytes);
        }
    }

    /// The answer is over, whole or not, or none came: remembers what began, settles what ended. `of` is the meter of the
    /// request itself, `said` what its answer said, `was_sent` whether the provider may have it.
    pub(crate) fn end(self, of: &UsageMeter, said: Option<&Observed>, was_sent: bool) -> MeterEnd {
        let has_answer = self.reader.is_some();
        let seen = self.reader.as_ref().filter(|_| self.is_good).and_then(JobReader::seen);
        match self.what {
            What::Begins { .. } if has_answer && !self.is_good => MeterEnd::Settle,
            What::Begins { mut job, signs } => {
                // Streamed to its end: it is over.
                if said.is_some_and(|said| said.finish.is_some()) {
                    return MeterEnd::Settle;
                }
                job.run = of.run().cloned();
                let Some(seen) = seen else {
                    if was_sent {
                        of.engine().remember_job(*job, signs, None);
                    }
                    return MeterEnd::Settle;
                };
                if matches!(seen.state, JobState::Ended | JobState::Cancelled) {
                    return MeterEnd::Settle;
                }
                let meter = (job.kind == JobKind::Response).then(|| of.parked() as Box<dyn OpenMeter>);
                let told = if meter.is_some() { MeterEnd::StaysOpen } else { MeterEnd::Settle };
                (job.id, job.thread) = (Some(seen.id), seen.thread);
                of.engine().remember_job(*job, signs, meter);
                told
            }
            What::Asks { found, result } => {
                let said: Option<Observed> = result.map(|result| result.finish());
                if seen.as_ref().is_some_and(|seen| seen.id != found.id) {
                    return MeterEnd::Settle;
                }
                // What is streamed, or too large to be read whole, is over if it says why the model stopped.
                let is_done = self.is_good && said.as_ref().is_some_and(|said| said.finish.is_some());
                let state = match seen.map(|seen| seen.state) {
                    Some(JobState::Cancelled) => JobState::Cancelled,
                    _ if is_done => JobState::Ended,
                    Some(state) => state,
                    None => JobState::Running,
                };
                if matches!(state, JobState::Ended | JobState::Cancelled)
                    && let Some(meter) = of.engine().jobs.over(found.number, state)
                {
                    meter.settle(said);
                }
                MeterEnd::Settle
            }
        }
    }
}

impl Sending<'_> {
    fn job(&self, kind: JobKind, path: String) -> Job {
        let kept = |name: &&str| {
            let value = self.request.headers().get(*name)?.to_str().ok()?;
            (value.len() <= KEPT_BYTES_MAX).then(|| ((*name).to_owned(), value.to_owned()))
        };
        let pairs = self.request.uri().query().unwrap_or_default().split('&');
        let version = |pair: &&str| pair.starts_with("api-version=") && pair.len() <= KEPT_BYTES_MAX;
        Job {
            agent: Name::from(self.agent),
            run: None,
            provider: Name::from(self.provider),
            kind,
            id: None,
            thread: None,
            path,
            query: pairs.clone().find(version).map(str::to_owned),
            headers: KEPT_HEADERS.iter().filter_map(kept).collect(),
            created: self.now,
            stopped: None,
            state: JobStanding::Running,
        }
    }
}
