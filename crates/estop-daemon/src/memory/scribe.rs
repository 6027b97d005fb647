//! The thread that stores what the data plane tells: numbers and links each record, and keeps what follows from it.
//!
//! It fails closed: while the store does not take a batch, nothing new is let through; what was decided waits in the
//! tail and is stored later, by this process or the next.

mod making;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use estop_core::agent::standing::Standing;
use estop_core::budget::Budget;
use estop_core::ids::Name;
use estop_core::journal::{Chains, Happened, SYSTEM, Spans, Written};
use estop_core::policy_file::PolicyFile;
use estop_core::system::{System, SystemEvent};
use estop_core::time::{Millis, Now};
use estop_gateway::{Engine, Handover, Heartbeat, JournalQueue, KeyRing};
use estop_store::{
    Durability, Journal, JournalBatch, Records, Snapshot, Sqlite, SystemStateRepo, TailMark,
    forget_tails_before,
};

use super::batch::Batch;
use super::desks::Desks;
use super::open::Open;
use super::past::Leftover;
use super::rows::{Facts, Rows, Told, happenings, heard_failing};
use crate::alerting::Alerting;
use making::Making;

/// An agent's state is kept after so many records. Chosen: told again in some milliseconds at a start; half costs each
/// record twice as much of a state, which is a hundred times as long.
const RECORDS_MAX: u32 = 2048;
/// And at the latest after this long, so that a start after a crash has little to tell again.
const KEPT_WITHIN: Duration = Duration::from_secs(10);
/// How long a store that fails is waited for when estop ends; what is left stays in the tail.
const GIVE_UP_AFTER: Duration = Duration::from_secs(5);
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);
/// Room for lines that is kept from batch to batch, twice that of a usual one: that of a burst is given back.
const ROOM_MAX: usize = 2 * making::ROOM_USUAL;

pub(super) struct Scribe {
    data_dir: PathBuf,
    store: Sqlite,
    queue: Arc<JournalQueue>,
    engine: Later<Arc<Engine>>,
    places: Later<Places>,
    /// The rules at the start, until the data plane has its own.
    policies: Arc<PolicyFile>,
    alerting: Arc<Alerting>,
    chains: Chains,
    /// The system as its records tell it: what a checkpoint is decided by.
    system: System,
    rows: Rows,
    last: Now,
    /// What is remembered of each agent.
    desks: Desks,
    /// Batches so far.
    batches: u64,
    /// States that were taken, and wait for the records they cover.
    taken: BTreeMap<Name, Taken>,
    generation: u64,
    /// Records taken from the queue.
    taken_so_far: u64,
    /// Room for the next batch's records.
    room: Records,
}

/// Set once the data plane runs.
pub(super) type Later<T> = Arc<OnceLock<T>>;

/// What decides who must keep its place.
pub(super) struct Places {
    pub(super) keys: KeyRing,
    /// How long an agent must have been idle.
    pub(super) idle_ms: u64,
}

/// What the scribe looks at beside the records.
pub(super) struct Beside {
    /// The data plane, once it runs.
    pub(super) engine: Arc<OnceLock<Arc<Engine>>>,
    /// Who may rest, once the data plane runs.
    pub(super) places: Arc<OnceLock<Places>>,
    /// The rules at the start.
    pub(super) policies: Arc<PolicyFile>,
    /// Who tells people.
    pub(super) alerting: Arc<Alerting>,
}

/// A state that waits for the records it covers.
struct Taken {
    told: u64,
    /// Everything up to here was stored when it was taken.
    seq: u64,
    state: Vec<u8>,
}

impl Scribe {
    pub(super) fn new(
        data_dir: &Path,
        store: Sqlite,
        queue: Arc<JournalQueue>,
        beside: Beside,
        chains: Chains,
        system: System,
    ) -> Scribe {
        let Beside { engine, places, policies, alerting } = beside;
        Scribe {
            data_dir: data_dir.to_owned(),
            store,
            queue,
            engine,
            places,
            policies,
            alerting,
            chains,
            system,
            rows: Rows::default(),
            last: Now::default(),
            desks: Desks::default(),
            batches: 0,
            taken: BTreeMap::new(),
            generation: 0,
            taken_so_far: 0,
            room: Records::default(),
        }
    }

    /// How the agents stand before anything new happens.
    pub(super) fn know(&mut self, standings: Vec<(Name, Standing)>) {
        for (agent, standing) in standings {
            self.desks.named(&agent, &mut self.chains).rows.know(standing);
        }
    }

    /// The account of all agents together and the requests under way, as the store has them.
    pub(super) fn take_up(&mut self, fleet: Budget, open: Vec<Open>) {
        let facts = self.facts();
        self.rows.open_fleet(fleet);
        for open in open {
            let desk = self.desks.named(&open.agent, &mut self.chains);
            self.rows.know_open(&mut desk.rows, open, &facts);
        }
    }

    /// The account of all agents together.
    pub(super) fn fleet(&self) -> Budget {
        self.rows.fleet().clone()
    }

    /// What holds while the next batch is made.
    fn facts(&mut self) -> Facts {
        self.batches += 1;
        Facts::new(self.batches, self.store.clone(), self.engine.get().cloned(), Arc::clone(&self.policies))
    }

    fn batch(&mut self) -> Batch {
        Batch::new(self.batches, &self.chains, std::mem::take(&mut self.room))
    }

    /// Stores what a killed process left in the tail, before anything new happens.
    pub(super) fn catch_up(
        &mut self,
        leftover: Vec<Leftover>,
        start: estop_gateway::TailMark,
    ) -> anyhow::Result<()> {
        for agent in heard_failing(&self.store)? {
            self.desks.named(&agent, &mut self.chains).rows.heard_failing();
        }
        let facts = self.facts();
        let mut batch = self.batch();
        for Leftover { line, decision } in leftover {
            let at = self.desks.find(&line.chain, &mut self.chains);
            let desk = self.desks.at(at);
            batch.add(&mut self.chains, desk, line.now, line.written());
            self.last = line.now;
            if let Some((event, decision)) = line.event.as_ref().zip(decision) {
                let told = Told { agent: &desk.name, now: line.now, event, decision: &decision };
                self.rows.agent(&mut desk.rows, self.chains.seq(), &told, &facts, &mut batch.out);
                self.desks.note_unsaved(at);
            }
        }
        self.rows.finish(&mut batch.out);
        let mut batch = batch.finish(&mut self.chains);
        batch.tail = Some(TailMark { generation: start.generation, offset: start.offset });
        self.store.append(Arc::new(batch), Durability::Disk)?;
        self.generation = start.generation;
        forget_tails_before(&self.data_dir, start.generation)?;
        Ok(())
    }

    /// Tells people what a killed process stored and did not tell any more.
    pub(super) fn tell_missed(&mut self) -> anyhow::Result<()> {
        let facts = self.facts();
        let missed = happenings::since(&self.store, self.alerting.cursor(), &facts)?;
        self.alerting.tell_records(missed, self.chains.seq());
        Ok(())
    }

    /// Says that it runs, once there is a data plane to say it to.
    fn beat(&self, heartbeat: &mut Option<Arc<Heartbeat>>) {
        if let Some(engine) = self.engine.get() {
            let now = engine.clock.mono();
            heartbeat.get_or_insert_with(|| engine.heartbeats.add("journal writer", now)).beat(now);
        }
    }

    /// Stores until the queue is closed. However it ends, from then on nothing is let through.
    pub(super) fn run(mut self) -> anyhow::Result<()> {
        let queue = Arc::clone(&self.queue);
        let _gone = FailWhenGone(&queue);
        let mut records = Handover::default();
        let mut making: Option<Making> = None;
        let mut heartbeat = None;
        loop {
            let wanted = queue.checkpoints.wanted();
            let Some(portion) = queue.take(&mut records, making.as_ref().map(Making::left)) else { break };
            self.beat(&mut heartbeat);
            if !records.is_empty() {
                let making = making.get_or_insert_with(|| self.begin(portion.mark));
                self.gather(making, &records, portion.mark);
            }
            let hurries = portion.hurries || wanted.is_some();
            if let Some(made) = making.take_if(|made| hurries || made.is_due()) {
                self.store_made(made)?;
            }
            if let Some(request) = wanted {
                self.checkpoint(false)?;
                queue.checkpoints.serve(request, self.chains.seq());
            }
            // What is gathered and not stored yet would be missing behind a state.
            if making.is_none() {
                self.keep_states(|(count, since)| *count >= RECORDS_MAX || since.elapsed() >= KEPT_WITHIN)?;
                self.let_rest();
            }
        }
        self.seal()
    }

    /// Stores a batch that was made, and does what waited for it.
    fn store_made(&mut self, made: Making) -> anyhow::Result<()> {
        let Making { facts, mut batch, mark, urgent, steered, .. } = made;
        let has_failed = self.queue.has_failed();
        // Without a tail, whoever waits for the disk waits for this very batch.
        if urgent && !has_failed {
            self.queue.sync();
        }
        let urgent = urgent || has_failed;
        self.rows.finish(&mut batch.out);
        let mut out = batch.finish(&mut self.chains);
        self.covered(&mut out);
        out.tail = Some(TailMark { generation: mark.generation, offset: mark.offset });
        // A tail that is done goes away: the store must have it on the disk before.
        let is_rotated = mark.generation > self.generation;
        let news = happenings::of_batch(&out, &facts);
        let durability = if urgent || is_rotated { Durability::Disk } else { Durability::Process };
        self.commit(out, durability)?;
        self.alerting.tell_records(news, self.chains.seq());
        if let Some(engine) = self.engine.get().filter(|_| steered) {
            // Who and why, for those who look; the state itself is in the latch and the journal.
            let _ = self.store.put_system(&engine.button());
        }
        if durability == Durability::Disk {
            self.queue.all_stored(self.taken_so_far);
        }
        if is_rotated {
            // The store has all of it on the disk: that of the old file is not written for nothing.
            self.queue.forget_before();
            // What cannot be removed is removed at the next start.
            let _ = forget_tails_before(&self.data_dir, mark.generation);
            self.generation = mark.generation;
        }
        Ok(())
    }

    /// Takes the states that are due. One whose records are all stored is kept at once, others with their records.
    fn keep_states(&mut self, is_due: impl Fn(&(u32, Instant)) -> bool) -> anyhow::Result<()> {
        let Some(engine) = self.engine.get() else { return Ok(()) };
        let due = self.desks.take_due(is_due);
        if due.is_empty() {
            return Ok(());
        }
        for name in due {
            let Some(agent) = engine.agents.get(&name) else { continue };
            self.rows.count_runs(&name, &agent.lock_state().state.run_views());
            let (told, state) = agent.snapshot();
            self.taken.insert(name, Taken { told, seq: self.chains.seq(), state });
        }
        let mut out = JournalBatch::default();
        self.covered(&mut out);
        self.rows.finish(&mut out);
        if out.snapshots.is_empty() && out.runs.is_empty() {
            Ok(())
        } else {
            self.commit(out, Durability::Process)
        }
    }

    /// Lets agents rest whose places others may need, once everything of them is stored.
    fn let_rest(&mut self) {
        let (Some(engine), Some(places)) = (self.engine.get(), self.places.get()) else { return };
        let idle_since = Millis(engine.clock.mono().0.saturating_sub(places.idle_ms));
        let named = std::cell::LazyCell::new(|| {
            let mut named = engine.rulebook.named();
            named.extend(places.keys.owners());
            named
        });
        for (agent, told) in engine.agents.evictable(idle_since, |name| named.contains(name)) {
            let is_kept = !self.desks.is_unsaved(&agent) && !self.taken.contains_key(&agent);
            if is_kept && self.chains.head(&agent).is_some_and(|head| head.count == told) {
                engine.agents.evict(&agent, told, idle_since);
            }
        }
    }

    /// Adds the states all of whose records are stored, or in this batch.
    fn covered(&mut self, out: &mut JournalBatch) {
        let chains = &self.chains;
        let is_covered = |name: &str, told: u64| chains.head(name).is_some_and(|head| head.count >= told);
        let covered = self.taken.extract_if(.., |name, taken| is_covered(name, taken.told));
        let kept = |(agent, Taken { seq, state, .. })| Snapshot { agent, seq, state };
        out.snapshots.extend(covered.map(kept));
    }

    /// Stores a batch, however long it takes; meanwhile nothing new is let through.
    fn commit(&mut self, batch: JournalBatch, durability: Durability) -> anyhow::Result<()> {
        let batch = Arc::new(batch);
        let mut pause = RETRY_FIRST;
        let begun = Instant::now();
        while let Err(error) = self.store.append(Arc::clone(&batch), durability) {
            if pause == RETRY_FIRST {
                eprintln!(
                    "estop: the store does not take the journal: {error}. Requests are refused until it does."
                );
            }
            self.queue.set_stuck(true);
            if self.queue.is_closed() && begun.elapsed() > GIVE_UP_AFTER {
                return Err(error.into());
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(RETRY_MAX);
        }
        self.queue.set_stuck(false);
        // The store is done with it.
        let records = Arc::into_inner(batch).and_then(|batch| batch.records);
        if let Some(records) = records.filter(|records| records.room() <= ROOM_MAX) {
            self.room = records;
        }
        Ok(())
    }

    /// Ends the journal with a checkpoint, so that a cut tail is noticed, and keeps every state.
    fn seal(&mut self) -> anyhow::Result<()> {
        self.keep_states(|_| true)?;
        self.checkpoint(true)
    }

    /// Stores a checkpoint after all records there are; people are told of the one at the end.
    fn checkpoint(&mut self, is_last: bool) -> anyhow::Result<()> {
        let checkpoint = SystemEvent::Checkpointed { heads: self.chains.heads() };
        let decision = self.system.handle(self.last, &checkpoint);
        let facts = self.facts();
        let mut batch = self.batch();
        let mut line = Vec::new();
        let spans = Spans::write(&mut line, SYSTEM, self.last, Happened::System(&checkpoint), &decision);
        let desk = self.desks.named(SYSTEM, &mut self.chains);
        batch.add(&mut self.chains, desk, self.last, Written::at(&line, spans));
        let mut out = batch.finish(&mut self.chains);
        if is_last {
            out.events.extend(happenings::checkpoint(&self.chains, self.last));
        }
        let news = happenings::of_batch(&out, &facts);
        self.commit(out, Durability::Disk)?;
        self.alerting.tell_records(news, self.chains.seq());
        Ok(())
    }
}

struct FailWhenGone<'a>(&'a JournalQueue);

impl Drop for FailWhenGone<'_> {
    fn drop(&mut self) {
        self.0.fail();
    }
}
