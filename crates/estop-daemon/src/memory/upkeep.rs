//! Lets go what is old (ST-1, ST-3): a thread that takes small steps and rests after each, so that nobody waits for it.
//!
//! Records go only after three things are kept: the state of each of their chains after them, a record that has the
//! digest of these states, and what is younger. So the rest of the journal is verified and replayed from there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use estop_config::Retention;
use estop_config::printable::escaped;
use estop_core::chain::{ChainHead, Digest};
use estop_core::engine::Snapshot;
use estop_core::ids::Name;
use estop_core::journal::{Base, Beginning, Record, SYSTEM};
use estop_core::system::System;
use estop_core::time::{Now, Zone};
use estop_gateway::Engine;
use estop_store::{BaseState, Journal, Lines, Old, Prunable, Retention as Going, Sqlite, StoreError, Upkeep};
use jiff::Timestamp;

/// A start has other things to do first.
const FIRST_AFTER: Duration = Duration::from_secs(2);
const EVERY: Duration = Duration::from_secs(3600);
/// How often it is looked whether the journal has grown enough to be checked against `journal_bytes`.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Of `journal_bytes`: what may be written before the journal is checked again. With the time of a look and of a pass this
/// bounds how far the cap is passed; a smaller share only makes more passes that find nothing.
const GROWTH_SHARE: u64 = 8;
/// The shortest rest after a step; a longer step has a rest as long as itself.
const REST_MIN: Duration = Duration::from_millis(20);
const DAY_MS: i64 = 86_400_000;

/// Who lets records go, as the journal names it.
const BY: &str = "retention";

/// A thread that lets go what is old. It ends when dropped.
pub struct Tidying {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Tidying {
    /// Begins.
    pub fn start(store: Sqlite, engine: Arc<Engine>, retention: Retention) -> std::io::Result<Tidying> {
        let (stop, stopped) = channel();
        let tidier = Tidier { store, engine, retention, stopped };
        let thread = std::thread::Builder::new().name("estop-tidy".into()).spawn(move || tidier.run())?;
        Ok(Tidying { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Tidying {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so; what is old stays until the next start.
            let _ = thread.join();
        }
    }
}

struct Tidier {
    store: Sqlite,
    engine: Arc<Engine>,
    retention: Retention,
    stopped: Receiver<()>,
}

/// Estop ends: whatever is left goes another time.
struct Ending;

impl Tidier {
    fn run(self) {
        let mut next = Instant::now() + FIRST_AFTER;
        let mut growth = Growth::new(self.retention.journal_bytes);
        while self.rest(growth.look_within(next.saturating_duration_since(Instant::now()))).is_ok() {
            let is_time = Instant::now() >= next;
            let has_grown = growth.is_due(self.engine.journal.pushed_bytes());
            if !is_time && !has_grown {
                continue;
            }
            match if is_time { self.pass() } else { self.prune_journal() } {
                Ok(Ok(())) => {}
                Ok(Err(Ending)) => return,
                Err(error) => {
                    let error = escaped(&format!("{error:#}"));
                    eprintln!(
                        "estop: what is old could not be let go: {error}. It stays, and is tried again."
                    );
                }
            }
            if is_time {
                next = Instant::now() + EVERY;
            }
        }
    }

    fn rest(&self, time: Duration) -> Result<(), Ending> {
        match self.stopped.recv_timeout(time) {
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Ok(()) | Err(RecvTimeoutError::Disconnected) => Err(Ending),
        }
    }

    /// Rests as long as the step took: half of the time is everybody else's.
    fn rest_after(&self, begun: Instant) -> Result<(), Ending> {
        self.rest(begun.elapsed().max(REST_MIN))
    }

    /// Lets go records that are too old or too many.
    fn prune_journal(&self) -> anyhow::Result<Result<(), Ending>> {
        let now = Timestamp::now().as_millisecond();
        match self.store.compact() {
            // Merging needs a little room of its own; what is merged already goes without it.
            Ok(()) | Err(StoreError::Full) => {}
            Err(error) => return Err(error.into()),
        }
        let going = Going {
            before_wall: before(now, self.retention.journal_days),
            keep_bytes: self.retention.journal_bytes,
            checkpoint: u64::MAX,
        };
        let mut begun = Instant::now();
        while let Some(part) = self.store.prunable(going)? {
            self.let_go(&part)?;
            if self.rest_after(begun).is_err() {
                return Ok(Err(Ending));
            }
            begun = Instant::now();
        }
        Ok(Ok(()))
    }

    /// Lets go everything that is too old or too much.
    fn pass(&self) -> anyhow::Result<Result<(), Ending>> {
        if self.prune_journal()?.is_err() {
            return Ok(Err(Ending));
        }
        let now = Timestamp::now().as_millisecond();
        let before = |days| before(now, days);
        let mut begun = Instant::now();
        let today = Zone::default().local(now).day;
        let spend_days = self.retention.spend_days.and_then(|days| i32::try_from(days).ok());
        let old = Old {
            now,
            events_before: before(self.retention.events_days),
            cases_before: before(self.retention.cases_days),
            runs_before: before(self.retention.runs_days),
            spend_before_day: spend_days.map(|days| today.saturating_sub(days)),
            alerts_before: before(self.retention.alerts_days),
            access_before: before(self.retention.access_days),
        };
        while self.store.sweep(old)? > 0 || self.store.give_back()? {
            if self.rest_after(begun).is_err() {
                return Ok(Err(Ending));
            }
            begun = Instant::now();
        }
        Ok(Ok(()))
    }

    fn let_go(&self, part: &Prunable) -> anyhow::Result<()> {
        let bases = bases(&self.store, part)?;
        let digest = digest(&self.store, part, &bases)?;
        self.engine.pruned(BY, part.to_seq, digest);
        // Whatever happens from here on, the journal knows what its rest begins with.
        anyhow::ensure!(self.engine.journal.sync(), "the journal cannot be written");
        Ok(self.store.prune(part.to_seq, bases)?)
    }
}

/// The moment so many days before `now`.
fn before(now: i64, days: Option<u32>) -> Option<i64> {
    days.map(|days| now.saturating_sub(i64::from(days) * DAY_MS))
}

/// Whether enough was written to check the journal against `journal_bytes`.
struct Growth {
    /// What may be written between two checks; `None` without a cap.
    step: Option<u64>,
    /// What was written at the last check.
    checked: u64,
}

impl Growth {
    fn new(journal_bytes: Option<u64>) -> Growth {
        Growth { step: journal_bytes.map(|bytes| (bytes / GROWTH_SHARE).max(1)), checked: 0 }
    }

    /// How long to rest before the next look, if the next pass is this far away.
    fn look_within(&self, next: Duration) -> Duration {
        if self.step.is_some() { next.min(LOOK_EVERY) } else { next }
    }

    /// Whether it is due, with so many bytes written so far; then it counts as checked.
    fn is_due(&mut self, written: u64) -> bool {
        let is_due = self.step.is_some_and(|step| written.saturating_sub(self.checked) >= step);
        if is_due {
            self.checked = written;
        }
        is_due
    }
}

/// The states of the chains that have records in this part, after it.
pub(super) fn bases(store: &Sqlite, part: &Prunable) -> anyhow::Result<Vec<BaseState>> {
    let mut chains: BTreeMap<Name, Vec<Vec<u8>>> = BTreeMap::new();
    let mut wrong = None;
    store.blocks(part.from_seq, part.to_seq, &mut |block: &Lines| {
        for line in block.bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match Record::parse(line) {
                Ok(record) => chains.entry(record.head.chain.into()).or_default().push(line.to_vec()),
                Err(error) => wrong = Some(error),
            }
        }
        wrong.is_none()
    })?;
    if let Some(error) = wrong {
        return Err(error.into());
    }
    let count = |chain: &str| part.heads.iter().find(|head| &*head.chain == chain).map(|head| head.count);
    chains
        .into_iter()
        .map(|(chain, lines)| {
            let before = store.base_state(&chain)?;
            let state = if &*chain == SYSTEM {
                system_after(before.as_deref(), &lines)?
            } else {
                let after = agent_after(before.as_deref(), &lines)?;
                anyhow::ensure!(Some(after.told) == count(&chain), "records of {chain} are missing");
                after.write()
            };
            Ok(BaseState { chain, state })
        })
        .collect()
}

fn agent_after(before: Option<&[u8]>, lines: &[Vec<u8>]) -> anyhow::Result<Snapshot> {
    let mut state = before.map_or_else(|| Ok(Snapshot::default()), Snapshot::read)?;
    for line in lines {
        let head = Record::parse(line)?.head;
        let event = head.event.context("a record of an agent has no event")?;
        state.tell(Now { mono: head.mono, wall: head.wall }, &event);
    }
    Ok(state)
}

fn system_after(before: Option<&[u8]>, lines: &[Vec<u8>]) -> anyhow::Result<Vec<u8>> {
    let mut system: System = before.map_or_else(|| Ok(System::default()), serde_json::from_slice)?;
    for line in lines {
        let head = Record::parse(line)?.head;
        let event = head.system.context("a record of the system has no event")?;
        system.handle(Now { mono: head.mono, wall: head.wall }, &event);
    }
    Ok(serde_json::to_vec(&system)?)
}

/// The digest of all chains' heads and states after this part.
fn digest(store: &Sqlite, part: &Prunable, bases: &[BaseState]) -> anyhow::Result<Digest> {
    let mut states: BTreeMap<Name, Digest> = store.base_digests()?.into_iter().collect();
    states.extend(bases.iter().map(|base| (base.chain.clone(), Base::state_digest(&base.state))));
    let mut beginning = Beginning::new(part.to_seq, part.heads.len() as u64);
    for head @ ChainHead { chain, .. } in &part.heads {
        let state = states.get(chain).with_context(|| format!("there is no state of {chain}"))?;
        beginning.add(head, state);
    }
    Ok(beginning.digest())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn st_1_the_size_of_the_journal_is_checked_by_what_was_written() {
        let mut growth = Growth::new(Some(16 << 20));
        let hour = Duration::from_secs(3600);
        assert_eq!(growth.look_within(hour), LOOK_EVERY);
        assert!(!growth.is_due((2 << 20) - 1));
        assert!(growth.is_due(2 << 20));
        assert!(!growth.is_due((4 << 20) - 1), "counted from the last check");
        assert!(growth.is_due(1 << 30));
        assert!(!growth.is_due(1 << 30));
        let mut none = Growth::new(None);
        assert_eq!(none.look_within(hour), hour, "nobody wakes for nothing");
        assert!(!none.is_due(u64::MAX));
    }
}
