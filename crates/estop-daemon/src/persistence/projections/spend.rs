//! What was spent, record by record: by agent, run, model, role, issue and label (PO-6), and by all agents together.
//!
//! It counts exactly what the agents' own budgets book: what was really used, or what was held if nobody said.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use estop_core::budget::{Amount, Budget, Need, PeriodSpend};
use estop_core::engine::OVERDUE_MAX;
use estop_core::event::{RequestReceived, Usage};
use estop_core::fingerprint::signature;
use estop_core::ids::{Name, RequestId};
use estop_core::tags::Tags;
use estop_core::time::{Now, Zone};
use estop_store::{JournalBatch, NewEvent, SpendSum};
use serde_json::json;

use super::context::Context;
use super::models::{Model, Models, OTHER};
use super::sums::{self, SumOf, Sums};

/// Requests under way that are remembered. More are never under way at once; one that is forgotten counts under no model.
const ASKED_MAX: usize = 100_000;

/// Issues and sets of labels of one agent that spend is summed up by. Chosen: an agent works on hundreds of issues; those
/// beyond are booked together, as `other`: each would be a row of its own, and rows fill the disk.
const TAGS_PER_AGENT_MAX: usize = 1_024;

/// What was spent, and the requests under way that will spend.
#[derive(Default)]
pub(super) struct Spend {
    /// By the agent's hash and the request's number: no name is copied for it.
    asked: HashMap<(u64, u64), OpenSpend>,
    /// Given up and booked, but perhaps still running; as many of each agent as the core remembers.
    overdue: BTreeMap<u64, VecDeque<(RequestId, OpenSpend)>>,
    /// Some were not remembered.
    forgot: bool,
    fleet: Budget,
    fleet_changed: bool,
    models: Models,
    /// When something was last booked in this batch: mostly the same moment.
    turned: Option<Now>,
    /// Kept, because making one allocates.
    utc: Zone,
    /// A moment, and its day in UTC.
    day: (i64, i32),
    sums: Sums,
}

/// A request that was let through.
#[derive(Default)]
pub(super) struct OpenSpend {
    run: Option<Name>,
    model: Model,
    unpriced: bool,
    /// `None` = nobody said.
    tags: Option<Arc<Tags>>,
    held: Amount,
    /// Of the tokens held, sent ones.
    input_tokens: u64,
}

impl OpenSpend {
    /// Holds at least as much as was used so far.
    pub(super) fn hold(&mut self, used: Amount, input_tokens: u64) {
        if used.tokens > self.held.tokens {
            self.input_tokens = input_tokens;
        }
        self.held = self.held.max(used);
    }
}

/// What is known of one agent.
pub(super) struct AgentSpend {
    /// Its name's hash.
    agent: u64,
    /// Where the model it asked last stands: mostly the one it asks next.
    model: usize,
    /// How many models it was the first to ask for.
    new_models: usize,
    /// Hashes of the issues and sets of labels it is booked by.
    tags: BTreeSet<u64>,
    /// Its role, and for which batch.
    role: Option<(u64, Option<Name>)>,
    /// Where the sum it was booked under last is in its batch.
    sum: usize,
    /// What that sum is of, if a request like most.
    plain: Option<Plain>,
}

/// What the sum of a request like most is of, beside the agent: no named run, and nobody said what it is for. While the same
/// context holds it is in the same batch, and the agent's role is the same.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Plain {
    context: u64,
    day: i32,
    model: usize,
}

impl Plain {
    fn of(asked: &OpenSpend, day: i32, context: &Context) -> Option<Plain> {
        match asked {
            OpenSpend { run: None, tags: None, model: Model::Known(model), .. } => {
                Some(Plain { context: context.batch, day, model: *model })
            }
            OpenSpend { .. } => None,
        }
    }
}

impl AgentSpend {
    pub(super) fn of(agent: &str) -> AgentSpend {
        AgentSpend {
            agent: signature::text(agent).0,
            model: 0,
            new_models: 0,
            tags: BTreeSet::new(),
            role: None,
            sum: usize::MAX,
            plain: None,
        }
    }

    /// What it is booked by: what was said, or `other` once it said too many different things.
    fn bounded(&mut self, tags: Arc<Tags>) -> Arc<Tags> {
        if tags.issue.is_none() && tags.labels.is_empty() {
            return tags;
        }
        let hash = signature::text(&format!("{:?} {:?}", tags.issue, tags.labels)).0;
        if self.tags.contains(&hash) || self.tags.len() < TAGS_PER_AGENT_MAX {
            self.tags.insert(hash);
            return tags;
        }
        let (issue, labels) = (Some(OTHER.into()), BTreeMap::new());
        Arc::new(Tags { issue, labels, role: tags.role.clone(), ..Tags::default() })
    }

    /// Its name's hash.
    pub(super) fn key_of_agent(&self) -> u64 {
        self.agent
    }

    fn key(&self, request: RequestId) -> (u64, u64) {
        (self.agent, request.0)
    }

    fn role(&mut self, agent: &str, context: &Context) -> Option<&str> {
        let known = self.role.take().filter(|(batch, _)| *batch == context.batch);
        let (_, role) = self.role.insert(known.unwrap_or_else(|| (context.batch, context.role(agent))));
        role.as_deref()
    }
}

/// What is booked for a run that has a name.
pub(super) struct SpendEntry {
    pub(super) run: Name,
    pub(super) used: Amount,
}

/// Whose, and when.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) agent: &'a str,
    pub(super) now: Now,
    pub(super) seq: u64,
}

impl Spend {
    /// The account of all agents together as it was left.
    pub(super) fn open(&mut self, fleet: Budget) {
        (self.fleet, self.turned) = (fleet, None);
    }

    pub(super) fn fleet(&self) -> &Budget {
        &self.fleet
    }

    /// A request that was let through, as it is remembered.
    pub(super) fn remember(
        &mut self,
        page: &mut AgentSpend,
        run: Option<&Name>,
        received: &RequestReceived,
        tags: Option<Arc<Tags>>,
    ) -> OpenSpend {
        let (estimate, name) = (received.estimate, received.model.as_deref().unwrap_or_default());
        let input_tokens = estimate.input_reserved();
        OpenSpend {
            run: run.cloned(),
            model: self.models.called(name, &mut page.model, &mut page.new_models),
            unpriced: estimate.unpriced,
            tags: tags.map(|tags| page.bounded(tags)),
            held: Need::from(estimate).most,
            input_tokens,
        }
    }

    /// A request was let through.
    pub(super) fn ask(&mut self, page: &AgentSpend, request: RequestId, asked: OpenSpend) {
        if self.asked.len() < ASKED_MAX {
            self.asked.insert(page.key(request), asked);
        } else {
            self.forgot = true;
        }
    }

    /// How many requests are in progress, by the hash of their agent's name.
    pub(super) fn in_progress(&self) -> BTreeMap<u64, usize> {
        let mut counts = BTreeMap::new();
        self.asked.keys().for_each(|(agent, _)| *counts.entry(*agent).or_default() += 1);
        counts
    }

    /// A stream has used this much so far.
    pub(super) fn progress(&mut self, page: &AgentSpend, request: RequestId, usage: Usage) {
        if let Some(asked) = self.asked.get_mut(&page.key(request)) {
            asked.hold(usage.into(), usage.input_tokens.into());
        }
    }

    /// Nobody said what a request used: what was held is booked, and marked.
    pub(super) fn expire(
        &mut self,
        page: &mut AgentSpend,
        entry: Entry<'_>,
        request: RequestId,
        context: &Context,
        out: &mut JournalBatch,
    ) -> Option<SpendEntry> {
        let asked = self.asked.remove(&page.key(request))?;
        let sum = SpendSum {
            requests: 1,
            input_tokens: asked.input_tokens.min(asked.held.tokens),
            output_tokens: asked.held.tokens.saturating_sub(asked.input_tokens),
            usd: asked.held.usd,
            unpriced: asked.unpriced.into(),
            estimated: 1,
            ..SpendSum::default()
        };
        let booked = self.book(page, entry, &asked, sum, context, out);
        let overdue = self.overdue.entry(page.agent).or_default();
        if overdue.len() == OVERDUE_MAX {
            overdue.pop_front();
        }
        overdue.push_back((request, asked));
        booked
    }

    /// A request came to its end.
    pub(super) fn settle(
        &mut self,
        page: &mut AgentSpend,
        entry: Entry<'_>,
        request: RequestId,
        usage: Usage,
        context: &Context,
        out: &mut JournalBatch,
    ) -> Option<SpendEntry> {
        if let Some(asked) = self.asked.remove(&page.key(request)) {
            let sum = SpendSum { unpriced: asked.unpriced.into(), ..sum_of(usage) };
            return self.book(page, entry, &asked, sum, context, out);
        }
        if let Some(asked) = self.take_overdue(page, request) {
            let extra = Amount::from(usage).beyond(asked.held);
            let sum = SpendSum { output_tokens: extra.tokens, usd: extra.usd, ..SpendSum::default() };
            return self.book(page, entry, &asked, sum, context, out);
        }
        // Nobody holds anything for it: the core counts nothing either, unless only we forgot.
        if self.forgot {
            self.book(page, entry, &OpenSpend::default(), sum_of(usage), context, out);
        }
        None
    }

    fn take_overdue(&mut self, page: &AgentSpend, request: RequestId) -> Option<OpenSpend> {
        let overdue = self.overdue.get_mut(&page.agent)?;
        let at = overdue.iter().position(|(number, _)| *number == request)?;
        overdue.remove(at).map(|(_, asked)| asked)
    }

    fn book(
        &mut self,
        page: &mut AgentSpend,
        entry: Entry<'_>,
        asked: &OpenSpend,
        sum: SpendSum,
        context: &Context,
        out: &mut JournalBatch,
    ) -> Option<SpendEntry> {
        if self.day.0 != entry.now.wall {
            self.day = (entry.now.wall, self.utc.local(entry.now.wall).day);
        }
        let used = Amount { usd: sum.usd, tokens: sum.input_tokens.saturating_add(sum.output_tokens) };
        let plain = Plain::of(asked, self.day.1, context);
        match out.spend.get_mut(page.sum).filter(|_| plain.is_some() && page.plain == plain) {
            Some(known) => {
                let (agent, model) = (entry.agent, self.models.name(&asked.model));
                debug_assert_eq!((&*known.agent, &*known.model, &*known.run), (agent, model, ""));
                sums::add_up(&mut known.sum, &sum);
            }
            None => {
                self.book_by_texts(page, entry, asked, sum, context, out);
                page.plain = plain;
            }
        }
        self.book_for_all(entry, used, context, out);
        asked.run.clone().map(|run| SpendEntry { run, used })
    }

    fn book_by_texts(
        &mut self,
        page: &mut AgentSpend,
        entry: Entry<'_>,
        asked: &OpenSpend,
        sum: SpendSum,
        context: &Context,
        out: &mut JournalBatch,
    ) {
        static NONE: BTreeMap<Name, Name> = BTreeMap::new();
        let tags = asked.tags.as_deref();
        let at = page.sum;
        let said = tags.and_then(|tags| tags.role.as_deref());
        let of = SumOf {
            // Sums are by the day of UTC; what a budget counts has its own midnight.
            day: self.day.1,
            agent: entry.agent,
            run: asked.run.as_deref().unwrap_or_default(),
            model: self.models.name(&asked.model),
            role: said.or_else(|| page.role(entry.agent, context)).unwrap_or_default(),
            issue: tags.and_then(|tags| tags.issue.as_deref()).unwrap_or_default(),
            labels: tags.map_or(&NONE, |tags| &tags.labels),
        };
        page.sum = self.sums.add(&of, sum, at, out);
    }

    /// Counts it for all agents together; a share of a cap that is reached is told once a period.
    fn book_for_all(&mut self, entry: Entry<'_>, used: Amount, context: &Context, out: &mut JournalBatch) {
        if self.turned.replace(entry.now) != Some(entry.now) {
            self.fleet.turn(entry.now, &context.caps);
        }
        self.fleet.settle(Amount::default(), used);
        self.fleet_changed = true;
        for mut warning in self.fleet.warnings(&context.caps) {
            warning.account = warning.account.of_fleet();
            let mut detail = json!(warning);
            detail["scope"] = json!("fleet");
            out.events.push(NewEvent {
                seq: entry.seq,
                wall: entry.now.wall,
                agent: None,
                event_type: "budget_warning".into(),
                detail: detail.to_string(),
            });
        }
    }

    /// A person has the account of all agents together begin the present day and month.
    pub(super) fn renew_fleet(&mut self, now: Now, spent: PeriodSpend, context: &Context) {
        self.turned = None;
        self.fleet_changed |= self.fleet.renew(now, &context.caps, spent);
    }

    /// What is kept with the batch.
    pub(super) fn finish(&mut self, out: &mut JournalBatch) {
        self.sums.clear();
        // The next may have other caps, by other clocks.
        self.turned = None;
        if std::mem::take(&mut self.fleet_changed) {
            out.fleet = serde_json::to_string(&self.fleet).ok();
        }
    }
}

fn sum_of(usage: Usage) -> SpendSum {
    SpendSum {
        requests: 1,
        input_tokens: usage.input_tokens.into(),
        output_tokens: usage.output_tokens.into(),
        cache_read_tokens: usage.cache_read_tokens.into(),
        cache_write_tokens: usage.cache_write_tokens.into(),
        reasoning_tokens: usage.reasoning_tokens.into(),
        usd: usage.usd,
        unpriced: 0,
        estimated: usage.estimated.into(),
    }
}

#[cfg(test)]
mod tests;
