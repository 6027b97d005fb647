//! What a real shell does: forwards what was allowed, hears of its end, and carries out what a decision asks for.

use estop_core::decision::{Decision, Effect, Outcome};
use estop_core::event::{
    AbortedBy, ChantDetected, EventKind, RequestReceived, ResponseCompleted, StreamAborted, StreamProgressed,
    ToolFinished, ToolGate, ToolRequested, Usage,
};
use estop_core::ids::{Name, RequestId};
use estop_core::loop_detector::chant::Chant;
use estop_core::money::NanoUsd;
use estop_core::run::report_tool::is_report;
use estop_core::system::Channels;

use super::{Due, World};
use crate::broken::Broken;
use crate::button;
use crate::judge::Judge;
use crate::temperament::{Fate, Plan, ToolPlan};

impl<J: Judge> World<J> {
    /// A request asks to be forwarded; if it may, its end is only a matter of time.
    pub(super) fn ask(
        &mut self,
        at: usize,
        run: Option<Name>,
        request: RequestReceived,
        plan: Plan,
    ) -> Result<(), Box<Broken>> {
        let id = request.request;
        let decision = self.judge(at, run, EventKind::RequestReceived(request))?;
        if decision.outcome == Outcome::Allow {
            self.forward(at, id, plan);
        }
        Ok(())
    }

    fn forward(&mut self, at: usize, request: RequestId, plan: Plan) {
        let Plan { answer, ended, usage, took_ms, fate } = plan;
        let completed = EventKind::ResponseCompleted(ResponseCompleted {
            request,
            ended,
            print: answer,
            usage,
            first_byte_ms: None,
        });
        match fate {
            Fate::Plain => self.tell(at, took_ms, completed),
            Fate::Streamed { pieces } => {
                self.stream(at, request, pieces, usage, took_ms);
                self.tell(at, took_ms, completed);
            }
            Fate::Aborted { pieces, by } => {
                self.stream(at, request, pieces, part(usage, 1, 2), took_ms);
                let usage = part(usage, 1, 2);
                self.tell(at, took_ms, EventKind::StreamAborted(StreamAborted { request, by, usage }));
            }
            Fate::Chants => {
                let chant = Chant { period_chars: 10, repeats: 60, at_char: 600 };
                self.tell(at, took_ms / 2, EventKind::ChantDetected(ChantDetected { request, chant }));
                self.tell(at, took_ms, completed);
            }
            Fate::Lost => {}
            Fate::Twice => {
                self.tell(at, took_ms, completed.clone());
                self.tell(at, took_ms * 2, completed);
            }
            Fate::TooLate => {
                self.stream(at, request, 1, usage, took_ms);
                let late = self.rng.between(10, 40) * 60_000;
                self.stream(at, request, 1, usage, late);
                self.tell(at, late + took_ms, completed);
            }
        }
    }

    fn stream(&mut self, at: usize, request: RequestId, pieces: u64, usage: Usage, took_ms: u64) {
        for piece in 1..=pieces {
            let usage = part(usage, piece, pieces);
            let progressed = EventKind::StreamProgressed(StreamProgressed { request, usage, fleet: None });
            self.tell(at, took_ms * piece / (pieces + 1), progressed);
        }
    }

    /// A hook asks for a tool; if it may run, its end is told later, or never.
    pub(super) fn call_tool(
        &mut self,
        at: usize,
        run: Option<Name>,
        requested: ToolRequested,
        plan: ToolPlan,
    ) -> Result<(), Box<Broken>> {
        let call = requested.call;
        // Reports of others are as silent as they were, so that old seeds mean what they meant.
        let reports = requested.gate == ToolGate::Mcp && is_report(&requested.tool);
        let decision = self.judge(at, run, EventKind::ToolRequested(requested))?;
        if let (Outcome::Allow, Some(took_ms)) = (decision.outcome, plan.took_ms) {
            let finished = ToolFinished {
                call,
                result: plan.result,
                ended: plan.ended,
                reports,
                words: Default::default(),
            };
            self.tell(at, took_ms, EventKind::ToolFinished(finished));
        }
        Ok(())
    }

    fn tell(&mut self, at: usize, after_ms: u64, what: EventKind) {
        self.agenda.add(self.at + after_ms, Due::Told(at, None, Box::new(what)));
    }

    /// Does what a decision asks for, not always well.
    pub(super) fn carry_out(&mut self, at: usize, decision: &Decision) -> Result<(), Box<Broken>> {
        for effect in &decision.effects {
            match effect {
                Effect::AbortInFlight => self.abort_in_flight(at, AbortedBy::Guard),
                Effect::Deactivated { .. } | Effect::Paused { .. } => {
                    let later = self.rng.spread(1_000, 600_000);
                    self.agenda.add(self.at + later, Due::Person(at));
                }
                Effect::CutStream { request } => self.abort(at, *request, AbortedBy::Guard),
                Effect::PressButton => self.system(&button::kill(Channels::ALL))?,
                Effect::RunTripped { run, .. } | Effect::RunEscalated { run, .. } => {
                    if self.rng.per_mille(200) {
                        let extended = EventKind::RunExtended { by: "ann".into() };
                        let later = self.rng.spread(1_000, 3_600_000);
                        self.agenda.add(self.at + later, Due::Told(at, run.clone(), Box::new(extended)));
                    }
                }
                Effect::HealthFell(_)
                | Effect::LoopEvidence(_)
                | Effect::Nudged { .. }
                | Effect::NudgeEnded { .. }
                | Effect::WouldHaveStopped { .. }
                | Effect::BudgetWarned(_)
                | Effect::BudgetRefused(_)
                | Effect::SnoozeEnded { .. }
                | Effect::ReservationExpired { .. } => {}
            }
        }
        Ok(())
    }

    /// Ends what an agent has under way. Their ends may come anyway: the two race.
    pub(super) fn abort_in_flight(&mut self, at: usize, by: AbortedBy) {
        let open: Vec<RequestId> = self.agents[at].model.open.keys().copied().collect();
        for request in open {
            if self.rng.per_mille(950) {
                self.abort(at, request, by);
            }
        }
    }

    fn abort(&mut self, at: usize, request: RequestId, by: AbortedBy) {
        let Some(open) = self.agents[at].model.open.get(&request) else { return };
        let input_tokens = u32::try_from(open.held.tokens / 2).unwrap_or(u32::MAX);
        let usage =
            Usage { input_tokens, usd: NanoUsd(open.held.usd.0 / 2), estimated: true, ..Usage::default() };
        let soon = self.rng.below(1_000);
        self.tell(at, soon, EventKind::StreamAborted(StreamAborted { request, by, usage }));
    }
}

fn part(usage: Usage, of: u64, parts: u64) -> Usage {
    Usage {
        output_tokens: (u64::from(usage.output_tokens) * of / parts.max(1)) as u32,
        usd: NanoUsd(usage.usd.0 / parts.max(1) * of),
        ..usage
    }
}
