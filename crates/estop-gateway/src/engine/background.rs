//! Work that goes on at providers after its request was answered: remembered while it may run, cancelled when its agent, its
//! run or the system is stopped, and listed for people either way.
//!
//! A stop only marks what must be cancelled, under a lock that nobody holds while waiting. The cancelling itself happens on a
//! thread of its own (`job_canceller.rs`), with the key the configuration gives to the provider and no other: a client's
//! credentials are passed on and never kept.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use estop_core::ids::Name;
use estop_core::operator::{BackgroundJob, BackgroundState, BackgroundWork};
use estop_wire::jobs::{JobKind, JobPlace, JobState};
use estop_wire::response::Observed;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

/// Work of one agent that is remembered. Chosen: more batches and background answers than an agent has under way. Work that a
/// stop could cancel is never forgotten for other work: when the list is full of it, no more may begin.
pub const JOBS_PER_AGENT_MAX: usize = 1_024;
/// The same for all agents together: a few MB.
pub const JOBS_MAX: usize = 8_192;
/// What was stopped is shown this long.
const SHOWN_FOR_MS: i64 = 7 * 24 * 3_600_000;

/// Work at a provider, as it is kept. No credentials, and nothing of what was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Whose.
    pub agent: Name,
    /// Of which run, if it was named.
    pub run: Option<Name>,
    /// At which provider.
    pub provider: Name,
    /// What it is.
    pub kind: JobKind,
    /// Its id; `None` if the answer that names it was not seen.
    pub id: Option<String>,
    /// The thread of a run.
    pub thread: Option<String>,
    /// The path of the request that began it, as it was sent to the provider, [plain](estop_wire::jobs::plain_path).
    pub path: String,
    /// What of its query every request needs (`api-version=…`).
    pub query: Option<String>,
    /// What of its headers every request needs (`anthropic-version`, …).
    pub headers: Vec<(String, String)>,
    /// When it began, by the wall clock.
    pub created: i64,
    /// When it was stopped.
    pub stopped: Option<i64>,
    /// How it stands.
    pub state: JobStanding,
}

/// How work at a provider stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobStanding {
    /// It waits or runs.
    Running,
    /// It is to be cancelled.
    Cancelling,
    /// The provider cancelled it, or said that it will.
    Cancelled,
    /// It was over by itself when it was to be cancelled.
    Ended,
    /// It could not be cancelled: why.
    NotCancelled(String),
}

impl Job {
    pub(crate) fn place(&self) -> Option<JobPlace<'_>> {
        let id = self.id.as_deref()?;
        Some(JobPlace { kind: self.kind, path: &self.path, id, thread: self.thread.as_deref() })
    }

    /// What a stop makes of it: it is cancelled, or there is a reason why that cannot be.
    fn on_stop(&self, signs: bool) -> JobStanding {
        let why = match self.place().map(|place| place.cancel()) {
            None => {
                "estop did not see its id, so it may run or not: look at the provider's own list".to_owned()
            }
            Some(None) => {
                format!("the provider has no call that cancels a {}: it ends by itself", self.kind.name())
            }
            Some(Some(_)) if !signs => format!(
                "estop holds no credential of {}: cancel it there, or set providers.{}.api_key_env",
                self.provider, self.provider
            ),
            Some(Some(_)) => return JobStanding::Cancelling,
        };
        JobStanding::NotCancelled(why)
    }
}

/// What a request reserved, still to be settled.
pub(crate) trait OpenMeter: Send {
    /// Settles with what the provider says it used; where it does not say, with what was reserved.
    fn settle(self: Box<Self>, said: Option<Observed>);

    /// Nobody settles it any more.
    fn close(&mut self);
}

/// All work at providers that may run, and what was stopped lately.
#[derive(Default)]
pub struct Jobs {
    held: Mutex<Held>,
    /// How many there are: most requests ask and find none.
    count: AtomicUsize,
    /// Grows with each change, so that whoever writes it down knows when to.
    changes: AtomicU64,
    /// Wakes the thread that cancels.
    pub(crate) bell: Notify,
}

#[derive(Default)]
struct Held {
    /// The oldest first.
    list: VecDeque<Entry>,
    numbers: u64,
    forgotten: u64,
}

struct Entry {
    number: u64,
    job: Job,
    /// estop has a key for its provider, or needs none.
    signs: bool,
    /// Somebody is cancelling it.
    is_tried: bool,
    /// What its request reserved, settled when its result is seen.
    meter: Option<Box<dyn OpenMeter>>,
}

/// One that a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) number: u64,
    pub(crate) kind: JobKind,
    pub(crate) id: String,
}

impl Jobs {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self, held: &Held) {
        self.count.store(held.list.len(), Ordering::Relaxed);
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// Grows with each change.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Everything there is, to be kept over a restart.
    pub fn all(&self) -> Vec<Job> {
        self.held().list.iter().map(|entry| entry.job.clone()).collect()
    }

    /// Whether an agent may begin more: there is a place, or one can be made by forgetting what no stop could cancel.
    pub(crate) fn has_room(&self, agent: &str) -> bool {
        if self.count.load(Ordering::Relaxed) < JOBS_PER_AGENT_MAX {
            return true;
        }
        let held = self.held();
        let kept = |entry: &&Entry| !entry.is_done() && entry.can_be_cancelled();
        let of_all = held.list.iter().filter(kept).count();
        let of_agent = held.list.iter().filter(kept).filter(|entry| *entry.job.agent == *agent).count();
        of_all < JOBS_MAX && of_agent < JOBS_PER_AGENT_MAX
    }

    /// Remembers work. If something is forgotten for it, its meter is given back: it is settled where no lock is held.
    /// Requests that were all let through before any of them was answered may make the list longer than its bound, by no
    /// more than there are requests in flight.
    pub(crate) fn add(
        &self,
        job: Job,
        signs: bool,
        meter: Option<Box<dyn OpenMeter>>,
    ) -> Option<Box<dyn OpenMeter>> {
        let mut held = self.held();
        let of_agent = held.list.iter().filter(|entry| entry.job.agent == job.agent).count();
        let mut out = None;
        if of_agent >= JOBS_PER_AGENT_MAX {
            out = held.forget(|entry| entry.job.agent == job.agent);
        } else if held.list.len() >= JOBS_MAX {
            out = held.forget(|_| true);
        }
        held.numbers += 1;
        let number = held.numbers;
        held.list.push_back(Entry { number, job, signs, is_tried: false, meter });
        self.changed(&held);
        drop(held);
        self.bell.notify_one();
        out
    }

    /// The work of an agent that a request to this provider with this plain path is about.
    pub(crate) fn find(&self, agent: &str, provider: &str, path: &str) -> Option<Found> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let held = self.held();
        held.list.iter().find_map(|entry| {
            let job = &entry.job;
            let place = job.place().filter(|_| *job.agent == *agent && *job.provider == *provider)?;
            let found = || Found { number: entry.number, kind: job.kind, id: place.id.to_owned() };
            place.is_meant_by(path).then(found)
        })
    }

    /// The provider says that it is over. What nobody stopped is forgotten; what was stopped stays to be shown. Its meter,
    /// if it is open, is the caller's to settle.
    pub(crate) fn over(&self, number: u64, state: JobState) -> Option<Box<dyn OpenMeter>> {
        let mut held = self.held();
        let at = held.list.iter().position(|entry| entry.number == number)?;
        let entry = held.list.get_mut(at)?;
        let meter = entry.meter.take();
        if entry.job.stopped.is_none() {
            held.list.remove(at);
        } else {
            entry.job.state = match state {
                JobState::Cancelled | JobState::Cancelling => JobStanding::Cancelled,
                JobState::Ended | JobState::Running => JobStanding::Ended,
            };
        }
        self.changed(&held);
        meter
    }

    /// How trying to cancel it ended.
    pub(crate) fn tried(&self, number: u64, state: JobStanding) -> Option<Box<dyn OpenMeter>> {
        let mut held = self.held();
        let entry = held.list.iter_mut().find(|entry| entry.number == number)?;
        entry.is_tried = false;
        entry.job.state = state;
        let meter = entry.meter.take();
        self.changed(&held);
        meter
    }

    /// Work that runs and is meant is stopped: to be cancelled, if that can be. Waits for nothing.
    pub(crate) fn stop_where(&self, now: i64, is_meant: impl Fn(&Job) -> bool) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut held = self.held();
        let mut any = false;
        for entry in &mut held.list {
            if entry.job.state == JobStanding::Running && is_meant(&entry.job) {
                entry.job.stopped = Some(now);
                entry.job.state = entry.job.on_stop(entry.signs);
                any = true;
            }
        }
        if any {
            self.changed(&held);
            drop(held);
            self.bell.notify_one();
        }
    }

    /// Up to `max` that are to be cancelled and that nobody tries to.
    pub(crate) fn due(&self, max: usize) -> Vec<(u64, Job)> {
        let mut held = self.held();
        let due = held.list.iter_mut().filter(|e| e.job.state == JobStanding::Cancelling && !e.is_tried);
        due.take(max)
            .map(|entry| {
                entry.is_tried = true;
                (entry.number, entry.job.clone())
            })
            .collect()
    }

    /// Whose work runs: agents and runs, each once in a row.
    pub(crate) fn running(&self) -> Vec<(Name, Option<Name>)> {
        let held = self.held();
        let running = held.list.iter().filter(|entry| entry.job.state == JobStanding::Running);
        let mut all: Vec<_> = running.map(|entry| (entry.job.agent.clone(), entry.job.run.clone())).collect();
        all.dedup();
        all
    }

    /// Forgets what must have ended by itself, and what was shown long enough.
    pub(crate) fn expire(&self, now: i64) -> Vec<Box<dyn OpenMeter>> {
        let is_old = |entry: &Entry| {
            let lifetime = i64::try_from(entry.job.kind.lifetime_ms()).unwrap_or(i64::MAX);
            match (&entry.job.state, entry.job.stopped) {
                (JobStanding::Cancelling, _) => false,
                (_, None) => now.saturating_sub(entry.job.created) > lifetime,
                (_, Some(stopped)) => now.saturating_sub(stopped) > SHOWN_FOR_MS,
            }
        };
        let mut held = self.held();
        if !held.list.iter().any(is_old) {
            return Vec::new();
        }
        let (old, kept) = std::mem::take(&mut held.list).into_iter().partition(is_old);
        held.list = kept;
        self.changed(&held);
        let old: VecDeque<Entry> = old;
        old.into_iter().filter_map(|entry| entry.meter).collect()
    }

    /// What was remembered from the time before.
    pub(crate) fn restore(&self, jobs: Vec<Job>, signs: impl Fn(&str) -> bool) {
        for job in jobs {
            let signs = signs(&job.provider);
            self.add(job, signs, None);
        }
    }

    /// Nobody settles any more: what is reserved is over at the next start, as for every request under way.
    pub(crate) fn close(&self) {
        let meters: Vec<_> = self.held().list.iter_mut().filter_map(|entry| entry.meter.take()).collect();
        meters.into_iter().for_each(|mut meter| meter.close());
    }

    /// As people see it, the newest first.
    pub fn view(&self) -> BackgroundWork {
        let held = self.held();
        let view = |entry: &Entry| {
            let Job { agent, run, provider, kind, id, created, stopped, state, .. } = entry.job.clone();
            let state = match state {
                JobStanding::Running => BackgroundState::Running,
                JobStanding::Cancelling => BackgroundState::Cancelling,
                JobStanding::Cancelled => BackgroundState::Cancelled,
                JobStanding::Ended => BackgroundState::Ended,
                JobStanding::NotCancelled(why) => BackgroundState::NotCancelled(why),
            };
            BackgroundJob { agent, run, provider, kind: kind.name(), id, created, stopped, state }
        };
        BackgroundWork { jobs: held.list.iter().rev().map(view).collect(), forgotten: held.forgotten }
    }
}

impl Entry {
    /// It is only shown any more.
    fn is_done(&self) -> bool {
        !matches!(self.job.state, JobStanding::Running | JobStanding::Cancelling)
    }

    /// A stop would cancel it.
    fn can_be_cancelled(&self) -> bool {
        self.job.state == JobStanding::Cancelling || self.job.on_stop(self.signs) == JobStanding::Cancelling
    }
}

impl Held {
    /// Makes a place, if it can: of what is shown only, or else of what no stop could cancel, the oldest first.
    fn forget(&mut self, is_meant: impl Fn(&Entry) -> bool) -> Option<Box<dyn OpenMeter>> {
        let done = self.list.iter().position(|entry| is_meant(entry) && entry.is_done());
        let at =
            done.or_else(|| self.list.iter().position(|entry| is_meant(entry) && !entry.can_be_cancelled()))?;
        self.forgotten += u64::from(done.is_none());
        self.list.remove(at).and_then(|entry| entry.meter)
    }
}

#[cfg(test)]
mod tests;
