//! What is kept of an answer: its step (EV-1), and the agent's last words (CB-6).

use estop_core::ended::Ended;
use estop_core::event::{AbortedBy, Usage};
use estop_core::operator::StepEnd;
use estop_core::run::report_tool::reported;
use estop_wire::response::Observed;

use super::UsageMeter;
use crate::engine::step_log::StepKey;

impl UsageMeter {
    /// Its answer is complete.
    pub(super) fn log_answer(&self, said: &Observed, usage: Usage, ended: Ended) {
        self.engine.step_log.answered(self.step_key(), self.engine.clock.mono(), said, usage, ended);
    }

    /// Its answer ended early.
    pub(super) fn log_end(&self, by: AbortedBy, usage: Usage) {
        let end = match by {
            AbortedBy::Guard | AbortedBy::Kill => StepEnd::Cut,
            AbortedBy::Client | AbortedBy::Upstream => StepEnd::Aborted,
        };
        self.engine.step_log.ended_early(self.step_key(), self.engine.clock.mono(), usage, end);
    }

    /// Keeps what the agent said last: in a report, or else in its text (CB-6).
    pub(super) fn record_output(&self, said: &Observed) {
        let report = said.calls.iter().find_map(|call| reported(&call.name, &call.args));
        let text = report.as_deref().unwrap_or(&said.text);
        self.engine.record_output(&self.agent.name, self.run.as_deref(), text);
    }

    fn step_key(&self) -> StepKey<'_> {
        StepKey { agent: &self.agent.name, conversation: self.summary.conversation, id: self.request.0 }
    }
}
