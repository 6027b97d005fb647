//! What the log of steps is told of an answer (EV-1).

use estop_core::ended::Ended;
use estop_core::event::{AbortedBy, Usage};
use estop_core::operator::StepEnd;
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

    fn step_key(&self) -> StepKey<'_> {
        StepKey { agent: &self.agent.name, conversation: self.summary.conversation, id: self.request.0 }
    }
}
