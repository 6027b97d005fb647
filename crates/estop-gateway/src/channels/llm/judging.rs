//! A request as the core sees it: its fingerprint, what it may cost, and its usage meter if it is let through.

use std::sync::Arc;

use bytes::Bytes;
use estop_core::decision::{Decision, Finding, Guard};
use estop_core::ended::Ended;
use estop_core::event::{CallKind, Estimate, Event, EventKind, RequestReceived, Route};
use estop_core::fingerprint::RequestFingerprint;
use estop_core::ids::Name;
use estop_core::run::RunState;
use estop_core::run::test_command::TestRunners;
use estop_core::system::GateView;
use estop_wire::protocol::Protocol;
use estop_wire::request::RequestIn;

use super::LlmRequest;
use crate::auth::identity::Caller;
use crate::engine::agents::Agent;
use crate::engine::previous_responses::RequestSummary;
use crate::engine::recorder::CapturedRequest;
use crate::engine::step_log::{Kept, StepHeads, StepKey, StepTime};
use crate::exchange::exchange::ExchangeContext;
use crate::exchange::pricing::{ModelPrices, Size};
use crate::exchange::usage_meter::{Opened, UsageMeter};
use crate::exchange::worker::Worker;
use crate::journal::{short_name, shorten};

impl LlmRequest {
    /// Asks the core. The account is open only if the request was let through.
    pub(super) fn judge(
        &self,
        context: &ExchangeContext<'_>,
        gate: GateView,
        said: &RequestIn<'_>,
        body: Option<&Bytes>,
    ) -> (Arc<Decision>, Box<UsageMeter>) {
        let ExchangeContext { worker, target, agent, flight } = *context;
        let caller = &target.caller;
        let run = self.run(agent, caller);
        flight.set_run(run.clone());
        let mut print = match self.kind() {
            // A session has many conversations, of sub-agents and helpers: only a run that was named is one.
            CallKind::Generation => RequestFingerprint::of(&said.text(caller.run.as_deref())),
            CallKind::Embedding | CallKind::Other => RequestFingerprint::default(),
        };
        print.steps.iter_mut().for_each(|step| shorten(&mut step.tool));
        let prices = self.prices(worker, said);
        let estimate = self.estimate(worker, said, body.map_or(0, Bytes::len), &prices);
        let engine = &worker.engine;
        let (runners, evidence) = {
            let judged = agent.lock_state();
            (Arc::clone(&judged.runners), judged.policy.evidence)
        };
        // Commands are read and texts copied before the lock is taken: nobody else waits for them.
        note_test_runs(&runners, said, &mut print);
        let heads = match self.kind() {
            CallKind::Generation => {
                StepHeads::of_request(evidence, said, self.model(said), StepTime::of(&engine.clock))
            }
            CallKind::Embedding | CallKind::Other => None,
        };
        let mut judged = agent.lock_state();
        judged.previous_responses.complete(said, &mut print);
        let summary = RequestSummary::of(&print);
        let received = RequestReceived {
            request: flight.request,
            call: self.kind(),
            model: self.model(said).map(short_name),
            other_models: self.other_models(said).map(short_name).collect(),
            path: self.unread_path.as_deref().filter(|_| estimate.unpriced).map(short_name),
            print,
            estimate,
            fleet: None,
            tags: caller.tags.clone(),
            route: Some(Box::new(Route { provider: self.provider.clone(), trace_parent: self.trace_parent })),
        };
        let what = EventKind::RequestReceived(received);
        let key = StepKey { agent: &agent.name, conversation: summary.conversation, id: flight.request.0 };
        // Its policy may have changed since the texts were copied.
        let heads = heads.filter(|heads| heads.mode() == judged.policy.evidence);
        let is_kept = heads.is_some();
        heads.into_iter().for_each(|heads| engine.step_log.begin(key, heads));
        let decision = engine.apply_under(agent, &mut judged, Event { run: run.clone(), gate, what });
        if is_kept {
            engine.step_log.decided(key, judged.last, Kept::of(&decision));
        }
        drop(judged);
        let recording = if decision.is_allowed() { engine.recorder.of(&agent.name) } else { None };
        if let (Some(recording), Some(body)) = (&recording, body) {
            recording.request(CapturedRequest {
                request: flight.request,
                at: engine.clock.mono(),
                protocol: self.call.protocol,
                body: body.clone(),
                conversation: summary.conversation,
                run: run.clone(),
            });
        }
        let mut account = UsageMeter::open(Opened {
            engine: engine.clone(),
            agent: Arc::clone(agent),
            run,
            request: flight.request,
            summary,
            estimate,
            prices,
            streams: self.stream,
            flight: flight.handle(),
            recording,
        });
        if !decision.is_allowed() {
            account.never_opened();
        } else if has_cap(&decision) {
            // A reservation that a killed process forgets would be money over the cap.
            engine.journal.flush();
        }
        (decision, account)
    }

    /// The run it names, or that of its client's session, if hooks of that session have begun one: a run that is refused
    /// its tools is refused here, too (TL-1). A session that ended may have something to say all the same.
    fn run(&self, agent: &Agent, caller: &Caller) -> Option<Name> {
        let has_begun = |run: &Name| {
            let state = agent.lock_state().state.run_state(Some(run));
            matches!(state, Some(RunState::Active | RunState::Sleeping | RunState::Escalated))
        };
        caller.run.clone().or_else(|| self.session_run.clone().filter(has_begun))
    }

    pub(super) fn kind(&self) -> CallKind {
        match self.call.protocol {
            Protocol::Embeddings(_) => CallKind::Embedding,
            Protocol::Other(_) => CallKind::Other,
            Protocol::OpenAiChat
            | Protocol::OpenAiResponses
            | Protocol::OpenAiCompletions
            | Protocol::AnthropicMessages
            | Protocol::Gemini
            | Protocol::OllamaChat
            | Protocol::OllamaGenerate => CallKind::Generation,
        }
    }

    pub(super) fn model<'s>(&'s self, said: &'s RequestIn<'_>) -> Option<&'s str> {
        said.model.as_deref().or(self.call.model.as_deref())
    }

    /// The path's model, where the body names another: Azure takes the path's, others the body's.
    fn path_model<'s>(&'s self, said: &RequestIn<'_>) -> Option<&'s str> {
        let (body, path) = (said.model.as_deref()?, self.call.model.as_deref()?);
        let bare = |model: &str| model.strip_prefix("models/").unwrap_or(model).to_ascii_lowercase();
        (bare(body) != bare(path)).then_some(path)
    }

    /// All models it names but the first.
    fn other_models<'s>(&'s self, said: &'s RequestIn<'_>) -> impl Iterator<Item = &'s str> {
        self.path_model(said).into_iter().chain(said.other_models.iter().map(AsRef::as_ref))
    }

    fn prices(&self, worker: &Worker, said: &RequestIn<'_>) -> ModelPrices {
        let find = |model: &str| worker.prices.find(&self.provider, model);
        ModelPrices::new(self.model(said).and_then(find), self.other_models(said).map(find).collect())
    }

    fn estimate(
        &self,
        worker: &Worker,
        said: &RequestIn<'_>,
        body_bytes: usize,
        prices: &ModelPrices,
    ) -> Estimate {
        if self.kind() == CallKind::Other {
            // Nobody reads it: what it costs is either nothing or not to be known.
            return Estimate { unpriced: !self.is_free, ..Estimate::default() };
        }
        let size = Size {
            text_bytes: said.text_bytes,
            body_bytes,
            refers_to_more: said.refers_to_more,
            output_limit: said.max_output_tokens,
            answers: said.answers,
            generates: self.kind() == CallKind::Generation,
        };
        prices.estimate(size, worker.limits.output_reserve)
    }
}

/// Notes which results are of test runs that say how they ended: hooks may not have said it (CB-4).
fn note_test_runs(runners: &TestRunners, said: &RequestIn<'_>, print: &mut RequestFingerprint) {
    for (step, said) in print.steps.iter_mut().zip(&said.steps) {
        step.test_run = step.ended != Ended::Unknown && runners.is_test_call(&said.tool, &said.args);
    }
}

/// Whether a budget stands over the request.
fn has_cap(decision: &Decision) -> bool {
    let verdict = decision.verdicts.get(Guard::Budget);
    verdict.is_some_and(|verdict| matches!(verdict.finding, Finding::Budget(_)))
}
