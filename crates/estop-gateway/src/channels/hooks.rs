//! Hooks of coding agents, answered (TL-1): read by `estop-wire`, judged by the core, answered in the client's words.
//!
//! Fail closed: what cannot be read, whoever has no room and whoever calls himself what nobody may be called is refused
//! before a tool. Everything of one hook is judged under the agent's lock, so that no other hook comes in between; its texts
//! are read and hashed before, so that nobody else who needs the lock waits for them.

#[cfg(test)]
mod tests;
mod verdict;
mod who;

use std::sync::Arc;

use estop_core::agent::standing::Standing;
use estop_core::decision::{Decision, Guard};
use estop_core::event::EventKind;
use estop_core::fingerprint::signature::hook_conversation;
use estop_core::ids::{Hash64, Name};
use estop_core::operator::{HOOK_BODY_MAX, HookCall, HookFault, HookReply, RunStep};
use estop_core::policy::RunLimits;
use estop_core::run::RunState;
use estop_core::system::Channel;
use estop_core::tags::Tags;
use estop_wire::hooks::{
    self, HookAnswer, HookClient, HookError, HookEvent, HookFingerprint, HookIn, HookOut, HookVerdict,
};

use crate::engine::Engine;
use crate::engine::agents::{Agent, AgentInner};
use crate::engine::last_output::RunLocation;
use crate::engine::step_log::{Kept, StepHeads, StepKey, StepTime};
use crate::journal::shorten;

pub(crate) use who::session_run;
use who::{RunOf, Who};

const _: () = assert!(HOOK_BODY_MAX > hooks::PAYLOAD_BYTES_MAX, "too large is for the reader to say");

/// Who begins, ends and puts runs to sleep, where a hook brings it about.
const BY: &str = "hook";

impl Engine {
    /// Answers a hook. May wait for the disk: if its agent is at rest, and if it switches its agent off.
    pub fn hook(&self, call: HookCall<'_>) -> HookReply {
        let (reply, stops) = self.hook_unsynced(call);
        // Nobody is told what a dead process would not remember.
        if stops {
            self.journal.sync();
        }
        reply
    }

    /// The same for a runtime's thread; whether it switched its agent off, and the journal is to be synced elsewhere.
    pub(crate) fn hook_unsynced(&self, call: HookCall<'_>) -> (HookReply, bool) {
        let Some(client) = HookClient::from_name(call.client) else { return (unknown(call.client), false) };
        let event = Some(call.event).filter(|event| !event.is_empty());
        let read = match call.lost {
            Some(why) => Err(hooks::lost(client, event, why)),
            None => hooks::read(client, event, call.body),
        };
        let hook = match read {
            Ok(hook) => hook,
            Err(error) => {
                return (reply(hooks::refuse_unread(client, &error), Some(unread(&error))), false);
            }
        };
        let who = match who::of(&call, &hook) {
            Ok(who) => who,
            Err(fault) => return (refused(&hook, fault), false),
        };
        let (out, stops) = self.hook_of(&who, &hook);
        (reply(hooks::write(&hook, &out), None), stops)
    }

    fn hook_of(&self, who: &Who, hook: &HookIn) -> (HookOut, bool) {
        let asks = matches!(hook.event, HookEvent::ToolRequested | HookEvent::PromptSubmitted);
        if asks && self.journal.is_full() {
            return (verdict::no_journal(self.journal.has_failed()), false);
        }
        let Some(agent) = self.agent(&who.agent) else { return (verdict::no_room(), false) };
        let (runners, evidence) = {
            let judged = agent.lock_state();
            (Arc::clone(&judged.runners), judged.policy.evidence)
        };
        let print = &hook.print(&runners);
        let at = StepTime::of(&self.clock);
        let tool = hook.tool.as_ref();
        let heads = tool.and_then(|tool| StepHeads::of_call(evidence, tool, hook.result.as_ref(), at));
        let mut judged = agent.lock_state();
        // Its policy may have changed since the texts were copied.
        let heads = heads.filter(|heads| heads.mode() == judged.policy.evidence);
        let mut request = HookRequest {
            engine: self,
            agent: &agent,
            judged: &mut judged,
            who,
            hook,
            print,
            heads,
            stops: false,
        };
        #[cfg(test)]
        let before = estop_core::steps::taken();
        let (out, stops) = (request.answer(), request.stops);
        #[cfg(test)]
        tests::LOCKED_STEPS.set(estop_core::steps::taken() - before);
        drop(judged);
        if !stops && out.verdict != HookVerdict::Allow {
            self.journal.flush();
        }
        (out, stops)
    }
}

fn reply(answer: HookAnswer, fault: Option<HookFault>) -> HookReply {
    let HookAnswer { stdout, stderr, exit_code } = answer;
    HookReply { stdout, stderr, exit_code, fault }
}

/// What is wrong, and where. Readers name the place first, in backticks.
fn unread(error: &HookError) -> HookFault {
    let why = error.why().to_string();
    let place = why.strip_prefix('`').and_then(|rest| rest.split_once('`'));
    let field = match place {
        // Each client has another key for it; this is ours.
        Some(("tool name", _)) => "tool",
        Some((place, _)) => place,
        None => "",
    };
    HookFault::Unread { field: field.to_owned(), why }
}

fn refused(hook: &HookIn, fault: HookFault) -> HookReply {
    reply(hooks::write(hook, &verdict::fault(&fault)), Some(fault))
}

/// Nobody knows how such a client is refused; exit code 2 is what most obey.
fn unknown(client: &str) -> HookReply {
    let known: Vec<&str> = HookClient::ALL.into_iter().map(HookClient::name).collect();
    let client: String = client.chars().take(64).collect();
    let why = format!("There is no client {client}; known are {}.", known.join(", "));
    HookReply {
        stderr: why.clone(),
        exit_code: 2,
        fault: Some(HookFault::UnknownClient(why)),
        ..HookReply::default()
    }
}

/// One hook and everything it takes to answer it.
struct HookRequest<'a> {
    engine: &'a Engine,
    agent: &'a Agent,
    judged: &'a mut AgentInner,
    who: &'a Who,
    hook: &'a HookIn,
    print: &'a HookFingerprint,
    /// What is kept of its tool call, in case it leads to a stop (EV-1).
    heads: Option<StepHeads>,
    /// The agent was switched off by it.
    stops: bool,
}

impl HookRequest<'_> {
    fn answer(&mut self) -> HookOut {
        self.locate();
        let out = match self.hook.event {
            HookEvent::SessionStarted => self.session_started(),
            HookEvent::PromptSubmitted => self.prompt_submitted(),
            HookEvent::ToolRequested => self.tool_requested(),
            HookEvent::ToolFinished => self.tool_finished(),
            HookEvent::TurnEnded => self.turn_ended(),
            HookEvent::SessionEnded => self.session_ended(),
            // A sub-agent belongs to its session's run: its end is nobody's end.
            HookEvent::SubagentEnded | HookEvent::Other => HookOut::allow(),
        };
        self.heard(out)
    }

    /// A warning that the client drops at this event waits for one it passes on.
    fn heard(&mut self, out: HookOut) -> HookOut {
        let run = self.who.run();
        let is_refusal = out.verdict != HookVerdict::Allow;
        if is_refusal || !(self.judged.hooks.is_waiting(run) || out.context.is_some()) {
            return out;
        }
        if !self.hook.hears_context() {
            if let Some(text) = &out.context {
                self.judged.hooks.wait(run, text);
            }
            return HookOut { context: None, ..out };
        }
        // What waited is older than what is said here.
        let waited = self.judged.hooks.take(run);
        HookOut { context: out.context.or(waited), ..out }
    }

    fn session_started(&mut self) -> HookOut {
        match self.begin() {
            Some(refused) => verdict::of(&refused, self.hook, self.agent),
            None => self.standing(),
        }
    }

    fn prompt_submitted(&mut self) -> HookOut {
        if let Some(refused) = self.begin() {
            return verdict::of(&refused, self.hook, self.agent);
        }
        let decision = self.apply(EventKind::PromptSubmitted);
        verdict::of(&decision, self.hook, self.agent)
    }

    fn tool_requested(&mut self) -> HookOut {
        if let Some(refused) = self.begin() {
            return verdict::of(&refused, self.hook, self.agent);
        }
        let call = self.judged.hooks.calls(self.judged.told).requested(self.print);
        let Some(mut told) = self.print.tool_requested(call) else {
            // The reader refuses a payload without a tool: nothing comes here.
            return HookOut::deny("estop refused this: it names no tool.");
        };
        shorten(&mut told.tool);
        let (agent, conversation, heads) = (self.agent, self.conversation(), self.heads.take());
        let key = StepKey { agent: &agent.name, conversation, id: call.0 };
        let is_kept = heads.is_some();
        heads.into_iter().for_each(|heads| self.engine.step_log.begin(key, heads));
        let decision = self.apply(EventKind::ToolRequested(told));
        if is_kept {
            self.engine.step_log.decided(key, self.judged.last, Kept::of(&decision));
        }
        if decision.is_allowed() {
            self.say(self.print.report.as_deref());
        } else {
            self.judged.hooks.calls(self.judged.told).refused(call);
        }
        verdict::of(&decision, self.hook, self.agent)
    }

    /// What ran cannot be refused. Whoever was stopped meanwhile, or by this, is told at once where the client can end.
    fn tool_finished(&mut self) -> HookOut {
        let call = self.judged.hooks.calls(self.judged.told).finished(self.print);
        if let Some(told) = call.and_then(|call| self.print.tool_finished(call)) {
            let (agent, conversation, heads) = (self.agent, self.conversation(), self.heads.take());
            let key = StepKey { agent: &agent.name, conversation, id: told.call.0 };
            heads.into_iter().for_each(|heads| self.engine.step_log.call_ended(key, heads));
            let decision = self.apply(EventKind::ToolFinished(told));
            // Neither a tool that is exempt nor a call that is not open is compared with others.
            if decision.verdicts.get(Guard::Loop).is_some() {
                self.engine.step_log.call_judged(key);
            }
            if decision.deactivated().is_some() {
                return verdict::of(&decision, self.hook, self.agent);
            }
            let standing = self.standing();
            let context = standing.context.or_else(|| verdict::warning(&decision));
            return HookOut { context, ..standing };
        }
        self.standing()
    }

    /// The agent waits for a person. A tripped run does not sleep: its time to sum up goes on.
    fn turn_ended(&mut self) -> HookOut {
        self.say(self.hook.last_message.as_deref());
        let is_awake = self.state() == Some(RunState::Active) && !self.is_tripped();
        if is_awake {
            self.apply(RunStep::Sleep.into_event(BY));
        }
        HookOut::allow()
    }

    /// Its run is done, unless somebody else ends it: a supervisor, or (the implicit run) time.
    fn session_ended(&mut self) -> HookOut {
        let is_open = matches!(self.state(), Some(RunState::Active | RunState::Sleeping));
        if is_open && matches!(self.who.run_of, RunOf::Named(_) | RunOf::Session(_)) {
            self.apply(RunStep::Complete.into_event(BY));
        }
        self.judged.hooks.forget(self.who.run());
        HookOut::allow()
    }

    /// Begins the run at its first hook; the refusal, if it may not begin. A stopped agent begins nothing: what it asks
    /// is refused anyway.
    fn begin(&mut self) -> Option<Arc<Decision>> {
        let attended = match (&self.who.run_of, self.state()) {
            (RunOf::Session(_), None | Some(RunState::Completed)) => self.who.attended,
            // A run that somebody named and that is over stays over, unless a session says that it begins.
            (RunOf::Named(_), None) => false,
            (RunOf::Named(_), Some(RunState::Completed)) if self.hook.event == HookEvent::SessionStarted => {
                false
            }
            // Escalated is for good: told so at once, also by the first word of a resumed session.
            (RunOf::Session(_) | RunOf::Named(_) | RunOf::Supervised(_), _) | (RunOf::Implicit, _) => {
                return None;
            }
        };
        let may_work = self.judged.state.standing() == Standing::Active
            && self.engine.gate(&self.agent.name).lets_pass(Channel::Tools);
        if !may_work {
            return None;
        }
        let decision = self.apply(self.start(attended).into_event(BY));
        (!decision.is_allowed()).then_some(decision)
    }

    fn start(&self, attended: bool) -> RunStep {
        let RunLocation { session, branch } = self.place();
        RunStep::Start {
            attended,
            tags: Tags { branch, session, ..Tags::default() },
            limits: RunLimits::default(),
        }
    }

    fn place(&self) -> RunLocation {
        let session = Some(&*self.hook.session).filter(|session| !session.is_empty());
        RunLocation { session: session.map(who::line), branch: self.who.branch.clone() }
    }

    /// Whoever began the run may not know where it works; its hooks do (CB-8).
    fn locate(&self) {
        if let RunOf::Supervised(run) | RunOf::Named(run) = &self.who.run_of {
            self.engine.last_output.locate(&self.agent.name, Some(run), self.place());
        }
    }

    /// What the agent's standing, the button and the run say though nothing was asked.
    fn standing(&self) -> HookOut {
        let gate = self.engine.gate(&self.agent.name);
        let run = self.judged.state.run_finding(self.who.run().map(|run| &**run));
        verdict::standing(gate, (self.agent, self.judged.state.standing()), run, self.hook)
    }

    /// The agent's words, in case they are the last of a run that is stopped (CB-6).
    fn say(&self, text: Option<&str>) {
        if let Some(text) = text {
            self.engine.record_output(&self.agent.name, self.who.run().map(|run| &**run), text);
        }
    }

    /// Where its steps are kept.
    fn conversation(&self) -> Hash64 {
        hook_conversation(self.who.run().map(|run| &**run))
    }

    fn state(&self) -> Option<RunState> {
        self.judged.state.run_state(self.who.run().map(|run| &**run))
    }

    fn is_tripped(&self) -> bool {
        let run = self.who.run();
        self.judged.state.run_views().iter().any(|view| view.name.as_ref() == run && view.tripped)
    }

    fn apply(&mut self, what: EventKind) -> Arc<Decision> {
        let run: Option<Name> = self.who.run().cloned();
        let decision = self.engine.apply_locked(self.agent, self.judged, run, what);
        self.stops |= decision.deactivated().is_some();
        decision
    }
}
