//! A request as the core is asked about it: its prints, what it may cost, and its account if it is let through.

use std::sync::Arc;

use estop_core::decision::{Decision, Finding, Guard};
use estop_core::ended::Ended;
use estop_core::event::{CallKind, Estimate, Event, RequestReceived, What};
use estop_core::fingerprint::RequestPrint;
use estop_core::ids::Name;
use estop_core::iteration::TestRunners;
use estop_core::money::NanoUsd;
use estop_core::prices::{Price, TokenUse};
use estop_core::run::RunState;
use estop_core::system::GateView;
use estop_wire::protocol::Protocol;
use estop_wire::request::RequestIn;

use super::Asking;
use crate::account::{Account, BYTES_PER_TOKEN, Opened};
use crate::agents::Agent;
use crate::flight::Registered;
use crate::journal_queue::{short_name, shorten};
use crate::recall::Asked;

/// Tokens reserved for an answer that names no limit, and the most reserved for a streamed one, whose reservation is
/// extended while it runs (PO-2).
const OUTPUT_RESERVE: u32 = 4_096;

impl Asking<'_> {
    /// Asks the core. The account is open only if the request was let through.
    pub(super) fn judge(
        &self,
        agent: &Arc<Agent>,
        flight: &Registered,
        said: &RequestIn<'_>,
        body_bytes: usize,
    ) -> (Arc<Decision>, Box<Account>) {
        self.judge_under(self.worker.host.gate(&agent.name), agent, flight, said, body_bytes)
    }

    pub(super) fn judge_under(
        &self,
        gate: GateView,
        agent: &Arc<Agent>,
        flight: &Registered,
        said: &RequestIn<'_>,
        body_bytes: usize,
    ) -> (Arc<Decision>, Box<Account>) {
        let run = self.run(agent);
        flight.set_run(run.clone());
        let mut print = match self.kind() {
            // A session has many conversations, of sub-agents and helpers: only a run that was named is one.
            CallKind::Generation => RequestPrint::of(&said.text(self.caller.run.as_deref())),
            CallKind::Embedding | CallKind::Other => RequestPrint::default(),
        };
        print.steps.iter_mut().for_each(|step| shorten(&mut step.tool));
        let price = self.model(said).and_then(|model| self.worker.prices.find(self.provider, model));
        let estimate = self.estimate(said, body_bytes, price.as_ref());
        let host = &self.worker.host;
        let mut judged = agent.judged();
        note_test_runs(&judged.runners, said, &mut print);
        judged.recall.complete(said, &mut print);
        let asked = Asked::of(&print);
        let received = RequestReceived {
            request: flight.request,
            call: self.kind(),
            model: self.model(said).map(short_name),
            print,
            estimate,
            fleet: None,
            tags: self.caller.tags.clone(),
        };
        let what = What::RequestReceived(received);
        let decision = host.tell_under(agent, &mut judged, Event { run: run.clone(), gate, what });
        drop(judged);
        let mut account = Account::open(Opened {
            host: host.clone(),
            agent: Arc::clone(agent),
            run,
            request: flight.request,
            asked,
            estimate,
            price,
            flight: flight.handle(),
        });
        if !decision.is_allowed() {
            account.never_opened();
        } else if has_cap(&decision) {
            // A reservation that a killed process forgets would be money over the cap.
            host.journal.flush();
        }
        (decision, account)
    }

    /// The run it names, or that of its client's session, if hooks of that session have begun one: a run that is refused
    /// its tools is refused here, too (TL-1). A session that ended may have something to say all the same.
    fn run(&self, agent: &Agent) -> Option<Name> {
        let has_begun = |run: &Name| {
            let state = agent.judged().state.run_state(Some(run));
            matches!(state, Some(RunState::Active | RunState::Sleeping | RunState::Escalated))
        };
        self.caller.run.clone().or_else(|| self.session_run.clone().filter(has_begun))
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

    fn estimate(&self, said: &RequestIn<'_>, body_bytes: usize, price: Option<&Price>) -> Estimate {
        let tokens = |bytes: usize| u32::try_from(bytes as u64 / BYTES_PER_TOKEN).unwrap_or(u32::MAX);
        let output_tokens = match self.kind() {
            CallKind::Generation => {
                let wanted = said.max_output_tokens.unwrap_or(OUTPUT_RESERVE);
                let extends = said.stream || self.call.stream;
                if extends { wanted.min(OUTPUT_RESERVE) } else { wanted }
            }
            CallKind::Embedding | CallKind::Other => 0,
        };
        let input = if said.text_bytes > 0 { said.text_bytes } else { body_bytes };
        let input_tokens = tokens(input);
        let used =
            TokenUse { input: input_tokens.into(), output: output_tokens.into(), ..TokenUse::default() };
        Estimate {
            input_tokens,
            output_tokens,
            usd: price.map_or(NanoUsd(0), |price| price.cost(&used)),
            // Looking at a list of models costs nothing; what else a path costs nobody knows.
            unpriced: price.is_none() && !(self.kind() == CallKind::Other && self.only_reads),
        }
    }
}

/// Notes which results are of test runs that say how they ended: hooks may not have said it (CB-4).
fn note_test_runs(runners: &TestRunners, said: &RequestIn<'_>, print: &mut RequestPrint) {
    for (step, said) in print.steps.iter_mut().zip(&said.steps) {
        step.test_run = step.ended != Ended::Unknown && runners.is_test_call(&said.tool, &said.args);
    }
}

/// Whether a budget stands over the request.
fn has_cap(decision: &Decision) -> bool {
    let verdict = decision.verdicts.get(Guard::Budget);
    verdict.is_some_and(|verdict| matches!(verdict.finding, Finding::Budget(_)))
}
