//! A row for each named run, also for those that only traffic names (`x-estop-run`): since when, in what state, what it
//! is for and what it spent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use estop_core::budget::Amount;
use estop_core::decision::{Effect, Outcome};
use estop_core::event::EventKind;
use estop_core::ids::Name;
use estop_core::money::NanoUsd;
use estop_core::run::{RunState, RunView};
use estop_core::tags::Tags;
use estop_store::{JournalBatch, Run};
use serde_json::json;

use super::AgentRecord;
use super::context::Context;

/// Runs that are remembered; the others are read from the store when they go on.
const RUNS_MAX: usize = 4_096;

/// The rows of runs.
#[derive(Default)]
pub(super) struct RunProjection {
    known: BTreeMap<Name, KnownRun>,
    changed: BTreeSet<Name>,
}

/// Whose run, and when it was heard of.
#[derive(Clone, Copy)]
pub(super) struct Whose<'a> {
    pub(super) agent: &'a str,
    pub(super) wall: i64,
}

struct KnownRun {
    row: Run,
    tags: Arc<Tags>,
}

impl KnownRun {
    /// What it is for, with what was said laid over it.
    fn tags_with(&self, said: Option<&Tags>) -> Arc<Tags> {
        let mut tags = Arc::clone(&self.tags);
        if let Some(over) = said {
            let mut laid = (*tags).clone();
            laid.lay(over);
            if laid != *tags {
                tags = Arc::new(laid);
            }
        }
        tags
    }
}

impl RunProjection {
    /// What follows from a record for its run.
    pub(super) fn agent(&mut self, told: &AgentRecord<'_>, context: &Context) {
        // Time comes before what happened; only the end of a run is told with what came of it.
        let ends = matches!(told.event.what, EventKind::RunCompleted);
        if ends {
            self.event(told, context);
        }
        self.effects(told, context);
        if !ends {
            self.event(told, context);
        }
    }

    fn effects(&mut self, told: &AgentRecord<'_>, context: &Context) {
        for effect in &told.decision.effects {
            if let Effect::RunEscalated { run: Some(run), .. } = effect {
                let summary = context.words(told.agent, Some(run));
                self.change(told, run, context, |row| {
                    end(row, RunState::Escalated, told.now.wall);
                    row.summary = summary.or(row.summary.take());
                });
            }
            if let Effect::RunTripped { run: Some(run), used } = effect {
                let counters = json!({ "tripped": true, "limit": used }).to_string();
                self.change(told, run, context, |row| row.counters = counters);
            }
        }
    }

    fn event(&mut self, told: &AgentRecord<'_>, context: &Context) {
        let Some(run) = &told.event.run else { return };
        let wall = told.now.wall;
        let (allowed, noted) =
            (told.decision.outcome == Outcome::Allow, told.decision.outcome == Outcome::Noted);
        match &told.event.what {
            EventKind::RunStarted { attended, tags, .. } if noted => {
                let tags = tags.as_deref().cloned().unwrap_or_default();
                self.begin(told.agent, run, wall, *attended, tags);
            }
            EventKind::RequestReceived(_) | EventKind::ToolRequested(_) | EventKind::PromptSubmitted
                if allowed =>
            {
                self.change(told, run, context, |row| set(row, RunState::Active));
            }
            EventKind::RunSlept if noted => {
                self.change(told, run, context, |row| set(row, RunState::Sleeping));
            }
            EventKind::RunWoke | EventKind::RunExtended { .. } if noted => {
                self.change(told, run, context, |row| {
                    set(row, RunState::Active);
                    row.ended_at = None;
                });
            }
            EventKind::RunCompleted if noted => {
                self.change(told, run, context, |row| end(row, RunState::Completed, wall));
            }
            EventKind::RequestReceived(_)
            | EventKind::ResponseCompleted(_)
            | EventKind::StreamProgressed(_)
            | EventKind::StreamAborted(_)
            | EventKind::ChantDetected(_)
            | EventKind::ToolRequested(_)
            | EventKind::ToolFinished(_)
            | EventKind::PromptSubmitted
            | EventKind::RunStarted { .. }
            | EventKind::RunSlept
            | EventKind::RunWoke
            | EventKind::RunCompleted
            | EventKind::RunExtended { .. }
            | EventKind::MessageIn { .. }
            | EventKind::MessageOut { .. }
            | EventKind::PolicyChanged { .. }
            | EventKind::AgentActivated { .. }
            | EventKind::AgentDeactivated { .. }
            | EventKind::AgentPaused { .. }
            | EventKind::AgentResumed { .. }
            | EventKind::GuardSnoozed { .. }
            | EventKind::GuardWoken { .. }
            | EventKind::BudgetRenewed { .. }
            | EventKind::Restarted { .. }
            | EventKind::Tick => {}
        }
    }

    /// What a request that was let through is for: what its run is for, with what the request says laid over it. For a
    /// run with a name it stays so.
    pub(super) fn tags(
        &mut self,
        whose: Whose<'_>,
        run: Option<&Name>,
        said: Option<&Tags>,
        context: &Context,
    ) -> Option<Arc<Tags>> {
        let Some(run) = run else { return said.cloned().map(Arc::new) };
        let id = id(whose.agent, run);
        let known = self.known_or_new(&id, whose, run, context);
        let tags = known.tags_with(said);
        if tags != known.tags {
            describe(&mut known.row, &tags);
            known.tags = Arc::clone(&tags);
            self.changed.insert(id);
        }
        Some(tags)
    }

    /// The same for a request of before, after which its run went on: what it says does not stay. What it does not say is
    /// what its run is for by now, which may be something else than then.
    pub(super) fn tags_of_earlier(
        &mut self,
        whose: Whose<'_>,
        run: Option<&Name>,
        said: Option<&Tags>,
        context: &Context,
    ) -> Option<Arc<Tags>> {
        let Some(run) = run else { return said.cloned().map(Arc::new) };
        Some(self.known_or_new(&id(whose.agent, run), whose, run, context).tags_with(said))
    }

    /// A run spent something.
    pub(super) fn spent(&mut self, told: &AgentRecord<'_>, run: &Name, used: Amount, context: &Context) {
        self.change(told, run, context, |row| {
            row.spent = NanoUsd(row.spent.0.saturating_add(used.usd.0));
            row.tokens = row.tokens.saturating_add(used.tokens);
        });
    }

    /// The row of a run that something happened to.
    pub(super) fn row(&self, agent: &str, run: &str) -> Option<&Run> {
        self.known.get(&id(agent, run)).map(|known| &known.row)
    }

    /// What the core counts, for runs that something happened to lately.
    pub(super) fn count(&mut self, agent: &str, views: &[RunView]) {
        for view in views {
            let Some(run) = &view.name else { continue };
            let id = id(agent, run);
            let Some(known) = self.known.get_mut(&id) else { continue };
            let counters = json!({
                "iterations": view.iterations,
                "tool_calls": view.tool_calls,
                "turns": view.turns,
                "active_ms": view.active_ms,
                "tripped": view.tripped,
            });
            let before = known.row.clone();
            known.row.counters = counters.to_string();
            known.row.attended = view.attended;
            known.row.state = view.state.name().into();
            if known.row != before {
                self.changed.insert(id);
            }
        }
    }

    /// What is stored with the batch.
    pub(super) fn finish(&mut self, out: &mut JournalBatch) {
        let changed = std::mem::take(&mut self.changed);
        out.runs.extend(changed.iter().filter_map(|id| self.known.get(id)).map(|known| known.row.clone()));
        if self.known.len() > RUNS_MAX {
            self.known.clear();
        }
    }

    fn begin(&mut self, agent: &str, run: &Name, wall: i64, attended: bool, tags: Tags) {
        let id = id(agent, run);
        let mut row = fresh(&id, agent, run, wall);
        row.attended = attended;
        describe(&mut row, &tags);
        self.known.insert(id.clone(), KnownRun { row, tags: Arc::new(tags) });
        self.changed.insert(id);
    }

    fn change(
        &mut self,
        told: &AgentRecord<'_>,
        run: &Name,
        context: &Context,
        change: impl FnOnce(&mut Run),
    ) {
        let whose = Whose { agent: told.agent, wall: told.now.wall };
        let id = id(told.agent, run);
        let known = self.known_or_new(&id, whose, run, context);
        let before = known.row.clone();
        change(&mut known.row);
        if known.row != before {
            self.changed.insert(id);
        }
    }

    fn known_or_new(&mut self, id: &Name, whose: Whose<'_>, run: &Name, context: &Context) -> &mut KnownRun {
        let Whose { agent, wall } = whose;
        if !self.known.contains_key(id) {
            let row = context.run(id).unwrap_or_else(|| {
                self.changed.insert(id.clone());
                fresh(id, agent, run, wall)
            });
            let labels = serde_json::from_str(&row.labels).unwrap_or_default();
            let Run { issue, role, branch, session, .. } = row.clone();
            let tags = Arc::new(Tags { issue, labels, role, branch, session });
            self.known.insert(id.clone(), KnownRun { row, tags });
        }
        self.known
            .entry(id.clone())
            .or_insert_with(|| KnownRun { row: fresh(id, agent, run, wall), tags: Arc::default() })
    }
}

/// The id the admin API gives a run.
fn id(agent: &str, run: &str) -> Name {
    format!("{agent}:{run}").into()
}

fn fresh(id: &Name, agent: &str, run: &Name, wall: i64) -> Run {
    Run {
        id: id.clone(),
        agent: agent.into(),
        name: Some(run.clone()),
        state: RunState::Active.name().into(),
        attended: false,
        role: None,
        issue: None,
        branch: None,
        session: None,
        labels: "{}".to_owned(),
        started_at: wall,
        ended_at: None,
        counters: "{}".to_owned(),
        spent: NanoUsd(0),
        tokens: 0,
        summary: None,
    }
}

fn describe(row: &mut Run, tags: &Tags) {
    row.issue.clone_from(&tags.issue);
    row.role.clone_from(&tags.role);
    row.branch.clone_from(&tags.branch);
    row.session.clone_from(&tags.session);
    row.labels = serde_json::to_string(&tags.labels).unwrap_or_else(|_| "{}".to_owned());
}

fn set(row: &mut Run, state: RunState) {
    row.state = state.name().into();
}

fn end(row: &mut Run, state: RunState, wall: i64) {
    set(row, state);
    row.ended_at = Some(wall);
}
