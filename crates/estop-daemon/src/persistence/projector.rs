//! The thread that makes rows of what the data plane tells, and keeps the agents' states.
//!
//! The journal has each record before it comes here. It fails closed: while the store does not take a batch, nothing new is
//! let through; what was decided waits in the journal, and rows are made of it later, by this process or the next.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use estop_core::budget::Budget;
use estop_core::ids::Name;
use estop_core::policy_file::PolicyFile;
use estop_core::system::SystemEvent;
use estop_core::system::proof_test::CANARY;
use estop_core::time::Millis;
use estop_gateway::{Engine, Heartbeat, JournalQueue, KeyRing, Queued, Recorded};
use estop_journal::{Record, SYSTEM, records};
use estop_store::{Cursor, Durability, JournalBatch, Snapshot, Store};

use super::evidence::{EvidenceDue, EvidenceWriter, WatchedQuota};
use super::observers::Observers;
use super::projections::{AgentRecord, Context, Projections, alert_events, heard_failing};
use super::recovery::Recovery;
use super::tracked_agents::TrackedAgents;
use crate::alerting::Alerting;
use crate::config_in_force::ConfigInForce;
use crate::logging::events::EventLog;
use crate::logging::requests::RequestLog;
use crate::request_ends::OpenRequests;

/// An agent's state is kept after so many records. Chosen: told again in some milliseconds at a start; half costs each
/// record twice as much of a state, which is a hundred times as long.
const RECORDS_MAX: u32 = 2048;
/// And at the latest after this long, so that a start after a crash has little to tell again.
const KEPT_WITHIN: Duration = Duration::from_secs(10);
/// How long a store that fails is waited for when estop ends; what is left is in the journal.
const GIVE_UP_AFTER: Duration = Duration::from_secs(5);
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);
/// How long records are gathered before rows are stored. What a batch changes is written once, so longer ones cost less;
/// people who look should not notice. Pages are told to look again a little later.
const GATHER_FOR: Duration = Duration::from_millis(200);
/// So many records are enough for a batch.
const BATCH_MAX: usize = 16_384;

pub(super) struct Projector {
    store: Arc<dyn Store>,
    queue: Arc<JournalQueue>,
    engine: LateInit<Arc<Engine>>,
    places: LateInit<EvictionRules>,
    /// The rules at the start, until the data plane has its own.
    policies: Arc<PolicyFile>,
    alerting: Arc<Alerting>,
    /// The newest record of which rows were made, stored or gathered.
    cursor: Cursor,
    /// The newest record of which rows are stored.
    stored: u64,
    rows: Projections,
    /// What is remembered of each agent.
    agents: TrackedAgents,
    /// Batches so far.
    batches: u64,
    /// States that were taken, and wait for the records they cover.
    taken: BTreeMap<Name, PendingSnapshot>,
    events: EventLog,
    open_requests: OpenRequests,
    requests: RequestLog,
    observers: Observers,
    evidence: EvidenceWriter,
    watched: WatchedQuota,
}

/// Set once the data plane runs.
pub(super) type LateInit<T> = Arc<OnceLock<T>>;

/// What decides who must keep its place.
pub(super) struct EvictionRules {
    pub(super) keys: KeyRing,
    /// Says how long an agent must have been idle.
    pub(super) config: ConfigInForce,
}

/// What the projector looks at beside the records.
pub(super) struct ProjectorInputs {
    /// The data plane, once it runs.
    pub(super) engine: Arc<OnceLock<Arc<Engine>>>,
    /// Who may rest, once the data plane runs.
    pub(super) places: Arc<OnceLock<EvictionRules>>,
    /// The rules at the start.
    pub(super) policies: Arc<PolicyFile>,
    /// Who tells people.
    pub(super) alerting: Arc<Alerting>,
    /// Logs what happened.
    pub(super) events: EventLog,
    /// Counts and exports what happened.
    pub(super) observers: Observers,
}

/// A state that waits for the records it covers.
struct PendingSnapshot {
    told: u64,
    /// Rows of everything up to here were stored when it was taken.
    seq: u64,
    state: Vec<u8>,
}

/// A batch that is being made, portion by portion.
struct BatchBuilder {
    context: Context,
    out: JournalBatch,
    /// Records so far.
    count: usize,
    /// When it was begun.
    since: Instant,
    /// Somebody was stopped or steered: whoever waits for the rows is not kept waiting.
    urgent: bool,
    /// The system was steered.
    steered: bool,
    /// Incidents whose steps are to be written.
    evidence: Vec<EvidenceDue>,
}

impl BatchBuilder {
    /// How long more records may be waited for.
    fn left(&self) -> Duration {
        GATHER_FOR.saturating_sub(self.since.elapsed())
    }

    fn is_due(&self) -> bool {
        self.count >= BATCH_MAX || self.left().is_zero()
    }
}

impl Projector {
    pub(super) fn new(
        store: Arc<dyn Store>,
        queue: Arc<JournalQueue>,
        beside: ProjectorInputs,
        cursor: Cursor,
    ) -> Projector {
        let ProjectorInputs { engine, places, policies, alerting, events, observers } = beside;
        Projector {
            store,
            queue,
            engine,
            places,
            policies,
            alerting,
            stored: cursor.seq,
            cursor,
            rows: Projections::default(),
            agents: TrackedAgents::default(),
            batches: 0,
            taken: BTreeMap::new(),
            events,
            open_requests: OpenRequests::default(),
            requests: RequestLog::default(),
            observers,
            evidence: EvidenceWriter::default(),
            watched: WatchedQuota::default(),
        }
    }

    /// How everything stood after the last record of which rows were made: the agents, the account of all of them together,
    /// and the requests under way.
    pub(super) fn know(&mut self, recovery: &mut Recovery, fleet: Budget) -> anyhow::Result<()> {
        for (agent, standing, count) in recovery.standings() {
            let agent = self.agents.named(agent);
            agent.count = count;
            agent.rows.know(standing);
        }
        for agent in std::mem::take(&mut recovery.lagging) {
            self.agents.note_unsaved(&agent);
        }
        for agent in heard_failing(&*self.store)? {
            self.agents.named(&agent).rows.heard_failing();
        }
        let context = self.context();
        self.rows.open_fleet(fleet);
        for open in std::mem::take(&mut recovery.open) {
            let agent = self.agents.named(&open.agent);
            self.rows.know_open(&mut agent.rows, open, &context);
        }
        Ok(())
    }

    /// The account of all agents together.
    pub(super) fn fleet(&self) -> Budget {
        self.rows.fleet().clone()
    }

    /// What holds while the next batch is made.
    fn context(&mut self) -> Context {
        self.batches += 1;
        Context::new(self.batches, self.store.clone(), self.engine.get().cloned(), Arc::clone(&self.policies))
    }

    fn begin(&mut self) -> BatchBuilder {
        BatchBuilder {
            context: self.context(),
            out: JournalBatch::default(),
            count: 0,
            since: Instant::now(),
            urgent: false,
            steered: false,
            evidence: Vec::new(),
        }
    }

    /// Makes rows of the records that a killed process left, before anything new happens.
    pub(super) fn catch_up(&mut self, recovery: &mut Recovery) -> anyhow::Result<()> {
        let mut batch = self.begin();
        let (store, from, to) = (self.store.clone(), self.cursor.seq + 1, recovery.state.seq);
        let mut failed = None;
        store.blocks(from, to, &mut |lines| {
            let done = records(lines).try_for_each(|(line, _)| self.take_past(recovery, &mut batch, line));
            let stored = done.and_then(|()| {
                if batch.count >= BATCH_MAX {
                    let made = std::mem::replace(&mut batch, self.begin());
                    self.store_made(made)?;
                }
                anyhow::Ok(())
            });
            failed = stored.err();
            failed.is_none()
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        anyhow::ensure!(self.cursor.seq == to, "record {} is missing", self.cursor.seq + 1);
        self.store_made(batch)
    }

    fn take_past(
        &mut self,
        recovery: &mut Recovery,
        batch: &mut BatchBuilder,
        line: &[u8],
    ) -> anyhow::Result<()> {
        let record = Record::parse(line)?;
        self.cursor.seq = record.seq;
        batch.count += 1;
        match (&record.event, &record.system) {
            (Some(event), _) => {
                let decision = recovery.tell(&record.agent, record.now, event);
                let agent = self.agents.named(&record.agent);
                agent.count = record.n;
                let told = AgentRecord { agent: &agent.name, now: record.now, event, decision: &decision };
                self.rows.agent(&mut agent.rows, record.seq, &told, &batch.context, &mut batch.out);
                self.agents.note_unsaved(&record.agent);
            }
            (None, Some(event)) => {
                let decision = serde_json::from_str(record.decision)?;
                let what = (event, &*self.in_progress(event));
                self.rows.system(record.seq, record.now, what, &decision, &batch.context, &mut batch.out);
            }
            (None, None) => {}
        }
        Ok(())
    }

    /// The requests to models that a press of the button finds in progress, by agent; nobody asks at other records.
    fn in_progress(&self, event: &SystemEvent) -> Vec<(Name, usize)> {
        let is_press = matches!(event, SystemEvent::KillRequested { .. });
        if is_press { self.agents.counted(&self.rows.in_progress()) } else { Vec::new() }
    }

    /// Tells people what a killed process stored and did not tell any more.
    pub(super) fn tell_missed(&mut self) -> anyhow::Result<()> {
        let context = self.context();
        let missed = alert_events::since(&*self.store, self.alerting.cursor(), &context)?;
        self.alerting.tell_records(missed, self.cursor.seq);
        Ok(())
    }

    /// Says that it runs, once there is a data plane to say it to.
    fn beat(&self, heartbeat: &mut Option<Arc<Heartbeat>>) {
        if let Some(engine) = self.engine.get() {
            let now = engine.clock.mono();
            heartbeat.get_or_insert_with(|| engine.heartbeats.add("journal writer", now)).beat(now);
        }
    }

    /// Makes rows until the queue is closed. However it ends, from then on nothing is let through.
    pub(super) fn run(mut self) -> anyhow::Result<()> {
        let queue = Arc::clone(&self.queue);
        let _gone = FailWhenGone(&queue);
        let mut records = Vec::new();
        let mut batch: Option<BatchBuilder> = None;
        let mut heartbeat = None;
        while let Some(portion) = queue.take(&mut records, batch.as_ref().map(BatchBuilder::left)) {
            self.beat(&mut heartbeat);
            if !records.is_empty() {
                let mut made = batch.take().unwrap_or_else(|| self.begin());
                self.gather(&mut made, &records);
                batch = Some(made);
            }
            if let Some(made) = batch.take_if(|made| portion.hurries || made.is_due()) {
                self.store_made(made)?;
            }
            // What is gathered and not stored yet would be missing behind a state.
            if batch.is_none() {
                self.keep_states(|(count, since)| *count >= RECORDS_MAX || since.elapsed() >= KEPT_WITHIN)?;
                self.let_rest();
                if let Some(engine) = self.engine.get() {
                    self.evidence.try_again(&*self.store, engine, Instant::now());
                }
            }
        }
        self.keep_states(|_| true)?;
        anyhow::ensure!(queue.sync(), "the journal could not be written to its end");
        self.tell_end()
    }

    /// Tells people what the journal's end is: who keeps that elsewhere can tell whether anything was changed since.
    fn tell_end(&mut self) -> anyhow::Result<()> {
        let context = self.context();
        let digest = self.store.journal().digest()?;
        let wall = jiff::Timestamp::now().as_millisecond();
        let events = vec![alert_events::checkpoint(self.cursor.seq, &digest, wall)];
        let out = JournalBatch { events, cursor: Some(self.cursor), ..JournalBatch::default() };
        let news = alert_events::of_batch(&out, &context);
        self.commit(out, Durability::Disk)?;
        self.alerting.tell_records(news, self.cursor.seq);
        Ok(())
    }

    /// Gathers a portion of records, and notes what follows from them.
    fn gather(&mut self, batch: &mut BatchBuilder, records: &[Queued]) {
        // What holds may have changed since the portion before.
        batch.context = self.context();
        for Queued { seq, n, record, .. } in records {
            self.cursor.seq = *seq;
            let (logged, opened) = (batch.out.events.len(), batch.out.incidents.len());
            match record {
                Recorded::Agent { agent, now, event, decision } => {
                    let tracked = self.agents.named(agent);
                    tracked.count = *n;
                    let told = AgentRecord { agent: &tracked.name, now: *now, event, decision };
                    batch.urgent |= told.is_urgent();
                    self.rows.agent(&mut tracked.rows, *seq, &told, &batch.context, &mut batch.out);
                    let ended = self.open_requests.follow(agent, *now, event, decision);
                    if let Some(ended) = &ended {
                        self.requests.log(ended);
                    }
                    // The proof test's own agent is counted nowhere.
                    if **agent != *CANARY {
                        let Observers { metrics, spans } = &self.observers;
                        if let Some(ended) = &ended {
                            metrics.request_ended(agent, ended);
                            spans.request_ended(ended);
                        }
                        metrics.decided(agent, event, decision);
                    }
                    let stops = &batch.out.incidents[opened..];
                    for incident in stops {
                        batch.evidence.push(EvidenceDue::of(incident, *now, event, decision));
                    }
                    if stops.is_empty() {
                        let quota = &mut self.watched;
                        let due = EvidenceDue::watched(quota, agent, *seq, *now, event, decision);
                        batch.evidence.extend(due);
                    }
                    self.agents.note_unsaved(agent);
                }
                Recorded::System { now, event, decision } => {
                    let what = (event, &*self.in_progress(event));
                    self.rows.system(*seq, *now, what, decision, &batch.context, &mut batch.out);
                    self.agents.named(SYSTEM).count = *n;
                    self.observers.metrics.steered(event);
                    (batch.urgent, batch.steered) = (true, true);
                }
            }
            batch.out.events[logged..].iter().for_each(|event| self.events.log(event));
        }
        batch.count += records.len();
    }

    /// Stores a batch that was made, and does what waited for it.
    fn store_made(&mut self, made: BatchBuilder) -> anyhow::Result<()> {
        let BatchBuilder { context, mut out, urgent, steered, evidence, .. } = made;
        self.rows.finish(&mut out);
        self.covered(&mut out);
        out.cursor = Some(self.cursor);
        let news = alert_events::of_batch(&out, &context);
        // Rows never know of more than the disk has of the journal: a power cut would take the records, and leave the rows.
        if !self.queue.sync() {
            self.alerting.tell_records(news, self.stored);
            return Ok(());
        }
        let durability = if urgent { Durability::Disk } else { Durability::Process };
        self.commit(out, durability)?;
        self.stored = self.cursor.seq;
        self.alerting.tell_records(news, self.cursor.seq);
        if let Some(engine) = self.engine.get().filter(|_| steered) {
            // Who and why, for those who look; the state itself is in the latch and the journal.
            let _ = self.store.put_system(&engine.button());
        }
        self.queue.all_stored(self.cursor.seq);
        if let Some(engine) = self.engine.get() {
            self.evidence.write(&*self.store, engine, &evidence);
        }
        Ok(())
    }

    /// Takes the states that are due. One whose records are all stored is kept at once, others with their records.
    fn keep_states(&mut self, is_due: impl Fn(&(u32, Instant)) -> bool) -> anyhow::Result<()> {
        // What the journal does not have, no state may know.
        let Some(engine) = self.engine.get().filter(|_| !self.queue.has_failed()) else { return Ok(()) };
        let due = self.agents.take_due(is_due);
        if due.is_empty() {
            return Ok(());
        }
        for name in due {
            let Some(agent) = engine.agents.get(&name) else { continue };
            self.rows.count_runs(&name, &agent.lock_state().state.run_views());
            let (told, state) = agent.snapshot();
            self.taken.insert(name, PendingSnapshot { told, seq: self.cursor.seq, state });
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
        let idle_ms = u64::try_from(places.config.get().limits.agent_idle.as_millis()).unwrap_or(u64::MAX);
        let idle_since = Millis(engine.clock.mono().0.saturating_sub(idle_ms));
        let named = std::cell::LazyCell::new(|| {
            let mut named = engine.rulebook.named();
            named.extend(places.keys.owners());
            named
        });
        for (agent, told) in engine.agents.evictable(idle_since, |name| named.contains(name)) {
            let is_kept = !self.agents.is_unsaved(&agent) && !self.taken.contains_key(&agent);
            if is_kept && self.agents.count(&agent) == told {
                engine.agents.evict(&agent, told, idle_since);
            }
        }
    }

    /// Adds the states all of whose records are stored, or in this batch.
    fn covered(&mut self, out: &mut JournalBatch) {
        let agents = &self.agents;
        let covered = self.taken.extract_if(.., |name, taken| agents.count(name) >= taken.told);
        let kept = |(agent, PendingSnapshot { seq, state, .. })| Snapshot { agent, seq, state };
        out.snapshots.extend(covered.map(kept));
    }

    /// Stores a batch, however long it takes; meanwhile nothing new is let through.
    fn commit(&mut self, batch: JournalBatch, durability: Durability) -> anyhow::Result<()> {
        let batch = Arc::new(batch);
        let mut pause = RETRY_FIRST;
        let begun = Instant::now();
        while let Err(error) = self.store.append(Arc::clone(&batch), durability) {
            if pause == RETRY_FIRST {
                tracing::error!(
                    target: "storage", "the store does not take the journal: {error}. Requests are refused until it does."
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
        Ok(())
    }
}

struct FailWhenGone<'a>(&'a JournalQueue);

impl Drop for FailWhenGone<'_> {
    fn drop(&mut self) {
        self.0.fail();
    }
}
