//! Programs and calls that run in other processes, under a supervisor that holds a line to this one (TL-2, TL-3): they are
//! on the list of running tools as if they ran here.

use std::time::Instant;

use estop_core::agent::standing::Standing;
use estop_core::ids::Name;
use estop_core::operator::{OnEnd, OperatorError, Watch, Watched};
use estop_core::run::RunState;
use estop_core::system::Channel;

use crate::engine::incident::with_incident;
use crate::engine::tickets::{HeldTicket, NoTicket};
use crate::engine::tools::RunningTool;
use crate::engine::{Engine, reasons};

/// One that is watched.
struct RemoteTool {
    agent: Name,
    run: Option<Name>,
    attended: bool,
    on_end: OnEnd,
}

impl RunningTool for RemoteTool {
    fn end(&self, why: &str) {
        (self.on_end)(why);
    }

    fn agent(&self) -> Option<&str> {
        Some(&self.agent)
    }

    fn run(&self) -> Option<&str> {
        self.run.as_deref()
    }

    fn is_attended(&self) -> bool {
        self.attended
    }
}

impl Engine {
    /// Has `on_end` told when this one must end, for as long as the result is held.
    pub fn watch(&self, who: Watched, on_end: OnEnd) -> Result<Watch, OperatorError> {
        let Watched { agent, run, attended, ticket, supervisor: _ } = who;
        let mut held = match ticket {
            Some(sha256) => {
                let of = run.as_deref().unwrap_or_default();
                let held = self.tools.tickets.hold(sha256, &agent, of, Instant::now());
                Some(held.map_err(|no| match no {
                    NoTicket::Full => OperatorError::TooManyWatched,
                    NoTicket::OfAnother => {
                        OperatorError::MustNotRun("this ticket is another run's".to_owned())
                    }
                })?)
            }
            None => None,
        };
        let far = RemoteTool { agent: agent.clone(), run: run.clone(), attended, on_end };
        let listed = self.tools.register(std::sync::Arc::new(far)).ok_or(OperatorError::TooManyWatched)?;
        // After it is on the list: whoever stops it from here on finds it there, whoever did before is seen here.
        match self.must_end_reason(&agent, run.as_deref(), attended) {
            Some(why) => Err(OperatorError::MustNotRun(why)),
            None => {
                held.iter_mut().for_each(HeldTicket::keep);
                Ok(Box::new((listed, held)))
            }
        }
    }

    /// Why a program or call of a run must not go on.
    pub(crate) fn must_end_reason(&self, agent: &str, run: Option<&str>, attended: bool) -> Option<String> {
        let gate = self.gate(agent);
        if !gate.lets_pass(Channel::Tools) {
            return Some(reasons::system_sentence(gate));
        }
        // Where a person sits, they are refused what they ask for, and are not thrown out.
        if attended {
            return None;
        }
        let known = self.known_agent(agent)?;
        let judged = known.lock_state();
        if let Standing::Inactive { .. } = judged.state.standing() {
            let sentence = format!(
                "Stopped by estop: agent {agent} was deactivated. A person must review what it did and reactivate it."
            );
            return Some(with_incident(sentence, known.incident().as_ref()));
        }
        let is_over = judged.state.run_state(run) == Some(RunState::Escalated);
        is_over.then(|| {
            let run = run
                .filter(|run| !run.is_empty())
                .map_or_else(|| "its unnamed run".to_owned(), |run| format!("run {run}"));
            format!("Stopped by estop: agent {agent}, {run} reached a limit. A person can extend it.")
        })
    }

    /// Agent and run of a ticket, by its hash.
    pub fn ticket(&self, sha256: &[u8; 32]) -> Option<(Name, Name)> {
        self.tools.tickets.find(sha256, Instant::now())
    }
}
