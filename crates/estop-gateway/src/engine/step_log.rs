//! The latest steps of each conversation (EV-1), so that whoever looks at an incident sees what the agent did.
//!
//! In memory alone. A worker copies the beginnings of texts that it has read anyway; secrets are masked when an incident is
//! written, not for each request. Nothing waits for it, no decision depends on it, and none of it is in the journal.

mod ring;
mod shown;
#[cfg(test)]
mod tests;
mod unsaved;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use estop_core::decision::Decision;
use estop_core::ended::Ended;
use estop_core::event::Usage;
use estop_core::fingerprint::signature;
use estop_core::ids::{Hash64, Name};
use estop_core::operator::{IncidentSteps, StepEnd};
use estop_core::policy::EvidenceMode;
use estop_core::time::Millis;
use estop_wire::hooks::{ToolCall, ToolResult};
use estop_wire::mask::Masker;
use estop_wire::request::RequestIn;
use estop_wire::response::Observed;

use crate::engine::shards::Shards;
pub(crate) use ring::StepTime;
use ring::{Answer, Head, Pending, Ring, Step, ToolHeads};
pub use shown::{StopPoint, redacted};
pub use unsaved::{StepsToSave, UnsavedSteps, WAITING_MAX};

/// Conversations of one part: 64 × 64 in all. Beyond it the one that was quiet longest is forgotten.
const CONVERSATIONS_MAX: usize = 64;
/// Bytes of one part: 32 MiB in all.
const BYTES_MAX: usize = 512 << 10;

/// The latest steps of all agents.
#[derive(Default)]
pub struct StepLog {
    parts: Shards<Mutex<Part>>,
    /// What is to be saved of stops, and why some of it could not be.
    pub unsaved: UnsavedSteps,
}

/// An agent's conversations are in one part.
#[derive(Default)]
struct Part {
    agents: BTreeMap<Name, BTreeMap<Hash64, Ring>>,
    /// What is being decided: one for each agent at most, since its lock is held meanwhile. It takes the room of no other step
    /// before it is admitted.
    pending: Vec<(Arc<str>, Pending)>,
    conversations: usize,
    bytes: usize,
    /// Counts what happened, to tell which is older.
    turn: u64,
}

/// Which step of which conversation.
#[derive(Clone, Copy)]
pub(crate) struct StepKey<'a> {
    pub(crate) agent: &'a Arc<str>,
    pub(crate) conversation: Hash64,
    /// The request's number, or the call's.
    pub(crate) id: u64,
}

/// The texts of a request or of a tool call as they are kept, made before anything is locked.
pub(crate) struct StepHeads {
    task: Option<Head>,
    step: Step,
}

impl StepHeads {
    /// Of a request that was read; `None` where nothing is to be kept.
    pub(crate) fn of_request(
        mode: EvidenceMode,
        said: &RequestIn<'_>,
        model: Option<&str>,
        at: StepTime,
    ) -> Option<StepHeads> {
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
        Some(StepHeads {
            task: (!said.first_user.is_empty()).then(|| Head::of(&said.first_user, max)),
            step: Step {
                is_request: true,
                model: model.map(ring::tool_name),
                asked,
                did: did.collect(),
                more: u32::try_from(more).unwrap_or(u32::MAX),
                ..Step::at(mode, at)
            },
        })
    }

    /// Of a tool call that a hook tells of, before or after it; `None` where nothing is to be kept.
    pub(crate) fn of_call(
        mode: EvidenceMode,
        tool: &ToolCall,
        result: Option<&ToolResult>,
        at: StepTime,
    ) -> Option<StepHeads> {
        let max = ring::head_max(mode)?;
        let call = ToolHeads {
            tool: ring::tool_name(&tool.name),
            args: Head::of(&tool.args, max),
            result: result.map(|result| Head::of(&result.text, max)),
            ended: result.map_or(Ended::Unknown, |result| result.ended),
        };
        Some(StepHeads { task: None, step: Step { did: vec![call], ..Step::at(mode, at) } })
    }

    /// How much of each text is kept.
    pub(crate) fn mode(&self) -> EvidenceMode {
        self.step.mode
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
    /// A request or a tool call is about to be decided, under its agent's lock. Whoever hears of a stop finds what completed it.
    pub(crate) fn begin(&self, key: StepKey<'_>, heads: StepHeads) {
        let StepHeads { task, step } = heads;
        let pending = Pending { conversation: key.conversation, task, step: Step { id: key.id, ..step } };
        let mut part = self.part(key.agent);
        // One whose decision was never said.
        part.take_pending(key.agent);
        part.pending.push((Arc::clone(key.agent), pending));
    }

    /// It was decided. One that was refused is kept only if its agent was stopped by it.
    pub(crate) fn decided(&self, key: StepKey<'_>, at: Millis, kept: Kept) {
        let mut part = self.part(key.agent);
        let Some(Pending { task, step, .. }) = part.take_pending(key.agent) else { return };
        let end = match kept {
            Kept::Admitted => step.end,
            Kept::Stopped => StepEnd::Refused,
            Kept::No => return,
        };
        part.open(key);
        part.change(key, |ring| {
            if ring.task.is_none() {
                ring.task = task;
            }
            if kept == Kept::Admitted && ring.has_open_call_like(&step) {
                // Two hooks of a client ask about one call.
                return;
            }
            ring.push(Step { at: StepTime { mono: at, ..step.at }, end, ..step });
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

    /// A hook saw a tool end, which is about to be judged: its call, wherever it was asked for, has its result. One that is not
    /// known (it began before estop did) is a step of its own.
    pub(crate) fn call_ended(&self, key: StepKey<'_>, heads: StepHeads) {
        let StepHeads { step: mut ended, .. } = heads;
        let now = ended.at.mono;
        let mut part = self.part(key.agent);
        let known = part.conversation_of_call(key.agent, key.id);
        let key = StepKey { conversation: known.unwrap_or(key.conversation), ..key };
        if known.is_none() {
            part.open(key);
        }
        part.change(key, |ring| {
            if known.is_none() {
                let step = Step { id: key.id, ended_at: Some(now), end: StepEnd::Ok, ..ended };
                return ring.push(step);
            }
            ring.edit(key.id, |step| {
                if let (Some(call), Some(ended)) = (step.did.first_mut(), ended.did.pop()) {
                    (call.result, call.ended) = (ended.result, ended.ended);
                    // Some clients tell arguments only here, others only before.
                    if call.args.text.is_empty() {
                        call.args = ended.args;
                    }
                }
                (step.ended_at, step.end) = (Some(now), StepEnd::Ok);
            });
        });
    }

    /// The engine compared this call with those before. The core counts back from the newest of these.
    pub(crate) fn call_judged(&self, key: StepKey<'_>) {
        let mut part = self.part(key.agent);
        let Some(conversation) = part.conversation_of_call(key.agent, key.id) else { return };
        part.change(StepKey { conversation, ..key }, |ring| ring.judge(key.id));
    }

    /// What led to a stop, masked as the agent's policy says. `None` if nothing is known of it, or nothing may be kept.
    pub fn before(&self, stop: &StopPoint<'_>, masker: &Masker) -> Option<IncidentSteps> {
        if stop.most == EvidenceMode::Off {
            return None;
        }
        // Copied, so that no worker waits while it is masked.
        let copied = {
            let part = self.part(stop.agent);
            let pending = part.pending.iter().find(|(agent, _)| **agent == *stop.agent);
            stop.copy(part.agents.get(stop.agent), pending.map(|(_, pending)| pending))
        };
        copied.map(|copied| copied.shown(stop, masker))
    }

    /// Forgets all of an agent, what waits to be saved too.
    pub fn forget(&self, agent: &str, why: &str) {
        self.unsaved.forget_all(agent, why);
        let mut part = self.part(agent);
        part.take_pending(agent);
        if let Some(rings) = part.agents.remove(agent) {
            part.conversations -= rings.len();
            part.bytes -= rings.values().map(Ring::bytes).sum::<usize>();
        }
    }

    fn change_known(&self, key: StepKey<'_>, change: impl FnOnce(&mut Ring)) {
        self.part(key.agent).change(key, change);
    }

    fn part(&self, agent: &str) -> MutexGuard<'_, Part> {
        self.parts.of(signature::text(agent)).lock().unwrap_or_else(PoisonError::into_inner)
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

impl Part {
    fn take_pending(&mut self, agent: &str) -> Option<Pending> {
        let at = self.pending.iter().position(|(of, _)| **of == *agent)?;
        Some(self.pending.swap_remove(at).1)
    }

    fn ring(&mut self, key: StepKey<'_>) -> Option<&mut Ring> {
        self.agents.get_mut(&**key.agent)?.get_mut(&key.conversation)
    }

    /// Where a hook's call is, wherever it was asked for.
    fn conversation_of_call(&self, agent: &str, call: u64) -> Option<Hash64> {
        shown::holding(self.agents.get(agent)?, false, call).map(|(conversation, _)| conversation)
    }

    fn open(&mut self, key: StepKey<'_>) {
        if self.ring(key).is_some() {
            return;
        }
        while self.conversations >= CONVERSATIONS_MAX && self.forget_quietest() {}
        let ring = Ring::default();
        self.bytes += ring.bytes();
        self.agents.entry((&**key.agent).into()).or_default().insert(key.conversation, ring);
        self.conversations += 1;
    }

    fn change(&mut self, key: StepKey<'_>, change: impl FnOnce(&mut Ring)) {
        self.turn += 1;
        let turn = self.turn;
        let Some(ring) = self.ring(key) else { return };
        let before = ring.bytes();
        change(ring);
        ring.turn = turn;
        let after = ring.bytes();
        self.bytes = self.bytes + after - before;
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
