//! The latest steps of each conversation (EV-1), so that whoever looks at an incident sees what the agent did.
//!
//! In memory alone. A worker copies the beginnings of texts that it has read anyway; secrets are masked when an incident is
//! written, not for each request. Nothing waits for it, no decision depends on it, and none of it is in the journal.

mod ring;
mod shown;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use estop_core::decision::Decision;
use estop_core::ended::Ended;
use estop_core::event::Usage;
use estop_core::fingerprint::signature;
use estop_core::ids::{Hash64, Name};
use estop_core::operator::{IncidentSteps, StepEnd};
use estop_core::policy::EvidenceMode;
use estop_core::time::Millis;
use estop_wire::mask::Masker;
use estop_wire::request::RequestIn;
use estop_wire::response::Observed;

use crate::engine::shards::Shards;
pub(crate) use ring::StepTime;
use ring::{Answer, Head, Ring, Step, ToolHeads};
pub use shown::StopPoint;

/// Conversations of one part: 64 × 64 in all. Beyond it the one that was quiet longest is forgotten.
const CONVERSATIONS_MAX: usize = 64;
/// Bytes of one part: 32 MiB in all.
const BYTES_MAX: usize = 512 << 10;

/// The latest steps of all agents.
#[derive(Default)]
pub struct StepLog(Shards<Mutex<Part>>);

/// An agent's conversations are in one part.
#[derive(Default)]
struct Part {
    agents: BTreeMap<Name, BTreeMap<Hash64, Ring>>,
    conversations: usize,
    bytes: usize,
    /// Counts what happened, to tell which is older.
    turn: u64,
}

/// Which step of which conversation.
#[derive(Clone, Copy)]
pub(crate) struct StepKey<'a> {
    pub(crate) agent: &'a str,
    pub(crate) conversation: Hash64,
    /// The request's number, or the call's.
    pub(crate) id: u64,
}

/// A request's texts as they are kept, made before anything is locked.
pub(crate) struct RequestHeads {
    task: Option<Head>,
    step: Step,
}

impl RequestHeads {
    /// Of a request that was read; `None` where nothing is to be kept.
    pub(crate) fn of(
        mode: EvidenceMode,
        said: &RequestIn<'_>,
        model: Option<&str>,
        at: StepTime,
    ) -> Option<RequestHeads> {
        let max = ring::head_max(mode)?;
        let asked = (!said.continues && !said.last_user.is_empty()).then(|| Head::of(&said.last_user, max));
        let did = said.steps.iter().rev().take(ring::TOOLS_MAX).rev();
        let did = did.map(|step| ToolHeads {
            tool: ring::tool_name(&step.tool),
            args: Head::of(&step.args, max),
            result: Some(Head::of(&step.result, max)),
            ended: step.ended,
        });
        let more = said.steps.len().saturating_sub(ring::TOOLS_MAX);
        Some(RequestHeads {
            task: (!said.first_user.is_empty()).then(|| Head::of(&said.first_user, max)),
            step: Step {
                model: model.map(ring::tool_name),
                asked,
                did: did.collect(),
                more: u32::try_from(more).unwrap_or(u32::MAX),
                ..Step::at(mode, at)
            },
        })
    }
}

impl Kept {
    /// What a decision makes of its step.
    pub(crate) fn of(decision: &Decision) -> Kept {
        match decision.deactivated().or_else(|| decision.paused()) {
            Some(_) if !decision.is_allowed() => Kept::Stopped,
            Some(_) | None if decision.is_allowed() => Kept::Admitted,
            Some(_) | None => Kept::No,
        }
    }
}

impl StepLog {
    /// A request is about to be decided.
    pub(crate) fn begin(&self, key: StepKey<'_>, heads: RequestHeads) {
        let RequestHeads { task, step } = heads;
        self.change(key, |ring| {
            if ring.task.is_none() {
                ring.task = task;
            }
            ring.push(Step { id: key.id, is_request: true, ..step });
        });
    }

    /// It was decided. One that was refused is kept only if its agent was stopped by it.
    pub(crate) fn decided(&self, key: StepKey<'_>, at: Millis, kept: Kept) {
        self.change_known(key, |ring| match kept {
            Kept::Admitted => ring.edit(key.id, |step| step.at.mono = at),
            Kept::Stopped => ring.edit(key.id, |step| {
                (step.at.mono, step.end) = (at, StepEnd::Refused);
            }),
            Kept::No => ring.remove(key.id),
        });
    }

    /// Its answer is complete.
    pub(crate) fn answered(
        &self,
        key: StepKey<'_>,
        now: Millis,
        said: &Observed,
        usage: Usage,
        ended: Ended,
    ) {
        let end = if ended == Ended::Failed { StepEnd::Failed } else { StepEnd::Ok };
        self.change_known(key, |ring| {
            ring.edit(key.id, |step| {
                let Some(max) = ring::head_max(step.mode) else { return };
                let calls = said.calls.iter().take(ring::TOOLS_MAX).map(|call| ToolHeads {
                    tool: ring::tool_name(&call.name),
                    args: Head::of(&call.args, max),
                    result: None,
                    ended: Ended::Unknown,
                });
                step.answer = Some(Answer {
                    text: (!said.text.is_empty()).then(|| Head::of(&said.text, max)),
                    calls: calls.collect(),
                });
                step.over(now, usage, end);
            });
        });
    }

    /// Its answer ended early.
    pub(crate) fn ended_early(&self, key: StepKey<'_>, now: Millis, usage: Usage, end: StepEnd) {
        self.change_known(key, |ring| ring.edit(key.id, |step| step.over(now, usage, end)));
    }

    /// A hook saw a tool end, or was refused one by which its agent was stopped.
    pub(crate) fn hooked(&self, key: StepKey<'_>, mode: EvidenceMode, at: StepTime, seen: &HookedStep<'_>) {
        let Some(max) = ring::head_max(mode) else { return };
        let tool = ToolHeads {
            tool: ring::tool_name(seen.tool),
            args: Head::of(seen.args, max),
            result: seen.result.map(|result| Head::of(result, max)),
            ended: seen.ended,
        };
        let end = if seen.stopped { StepEnd::Refused } else { StepEnd::Ok };
        let step = Step { id: key.id, did: vec![tool], end, ended_at: Some(at.mono), ..Step::at(mode, at) };
        self.change(key, |ring| ring.push(step));
    }

    /// What led to a stop, masked as the agent's policy said when each step was kept. `None` if nothing is known of it.
    pub fn before(&self, stop: &StopPoint<'_>, masker: &Masker) -> Option<IncidentSteps> {
        // Copied, so that no worker waits while it is masked.
        let copied = self.part(stop.agent).agents.get(stop.agent).map(|rings| stop.copy(rings))?;
        copied.map(|copied| copied.shown(stop, masker))
    }

    /// Forgets all of an agent.
    pub fn forget(&self, agent: &str) {
        let mut part = self.part(agent);
        if let Some(rings) = part.agents.remove(agent) {
            part.conversations -= rings.len();
            part.bytes -= rings.values().map(Ring::bytes).sum::<usize>();
        }
    }

    /// Changes a conversation, begun if it is new.
    fn change(&self, key: StepKey<'_>, change: impl FnOnce(&mut Ring)) {
        let mut part = self.part(key.agent);
        part.open(key);
        part.change(key, change);
    }

    /// The same of one that is known.
    fn change_known(&self, key: StepKey<'_>, change: impl FnOnce(&mut Ring)) {
        self.part(key.agent).change(key, change);
    }

    fn part(&self, agent: &str) -> MutexGuard<'_, Part> {
        self.0.of(signature::text(agent)).lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What becomes of a step that was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    Admitted,
    /// Its agent was stopped by it.
    Stopped,
    /// It was refused: an agent that asks again and again would push out what it did.
    No,
}

/// What a hook says of a tool.
pub(crate) struct HookedStep<'a> {
    pub(crate) tool: &'a str,
    pub(crate) args: &'a str,
    pub(crate) result: Option<&'a str>,
    pub(crate) ended: Ended,
    pub(crate) stopped: bool,
}

impl Part {
    fn ring(&mut self, key: StepKey<'_>) -> Option<&mut Ring> {
        self.agents.get_mut(key.agent)?.get_mut(&key.conversation)
    }

    fn open(&mut self, key: StepKey<'_>) {
        if self.ring(key).is_some() {
            return;
        }
        while self.conversations >= CONVERSATIONS_MAX && self.forget_quietest() {}
        let ring = Ring::default();
        self.bytes += ring.bytes();
        self.agents.entry(key.agent.into()).or_default().insert(key.conversation, ring);
        self.conversations += 1;
    }

    fn change(&mut self, key: StepKey<'_>, change: impl FnOnce(&mut Ring)) {
        self.turn += 1;
        let turn = self.turn;
        let Some(ring) = self.ring(key) else { return };
        let before = ring.bytes();
        change(ring);
        ring.turn = turn;
        let (after, is_empty) = (ring.bytes(), ring.steps.is_empty());
        self.bytes = self.bytes + after - before;
        if is_empty {
            // Nothing was admitted in it: it takes the place of no other, and its text is nobody's evidence.
            self.forget(key.agent, key.conversation);
        }
        while self.bytes > BYTES_MAX && self.conversations > 1 && self.forget_quietest() {}
    }

    /// Forgets the conversation in which nothing happened for longest; whether there was one.
    fn forget_quietest(&mut self) -> bool {
        let all = self.agents.iter().flat_map(|(agent, rings)| rings.iter().map(move |ring| (agent, ring)));
        let quietest =
            all.min_by_key(|(_, (_, ring))| ring.turn).map(|(agent, (key, _))| (agent.clone(), *key));
        let Some((agent, conversation)) = quietest else { return false };
        self.forget(&agent, conversation);
        true
    }

    fn forget(&mut self, agent: &str, conversation: Hash64) {
        let Some(rings) = self.agents.get_mut(agent) else { return };
        if let Some(ring) = rings.remove(&conversation) {
            self.bytes -= ring.bytes();
            self.conversations -= 1;
        }
        if rings.is_empty() {
            self.agents.remove(agent);
        }
    }
}
