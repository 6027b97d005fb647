//! Drives one recorded trace through the core, as if the agent were live.

use estop_core::chant::ChantDetector;
use estop_core::decision::Decision;
use estop_core::engine::AgentState;
use estop_core::event::{
    CallKind, ChantDetected, Estimate, Event, RequestReceived, ResponseCompleted, Usage, What,
};
use estop_core::fingerprint::{RequestPrint, ResponsePrint};
use estop_core::ids::{Hash64, RequestId};
use estop_core::policy::Policy;
use estop_core::signature::mix;
use estop_core::time::{Millis, Now};

use crate::journal_writer::JournalWriter;
use crate::trace::Trace;

/// Traces carry no times: a request every five seconds, answered after two, is a usual pace.
const STEP_MS: u64 = 5_000;
const ANSWER_MS: u64 = 2_000;
/// 2026-01-01, so that journals look like journals.
const START_WALL_MS: i64 = 1_767_225_600_000;
/// Characters to a token, roughly.
const CHARS_PER_TOKEN: usize = 4;

/// What became of a trace.
pub struct Run {
    /// Answers in the trace.
    pub steps: usize,
    /// Where it was stopped, if it was.
    pub stopped: Option<Stopped>,
}

/// Where a trace was stopped.
pub struct Stopped {
    /// The request that was refused, from 0: so many steps were made.
    pub step: usize,
    /// How often the most frequent step had been made until then.
    pub repeats: usize,
    /// Why.
    pub reason: String,
}

/// Runs the trace until it is stopped or ends.
pub fn run(trace: &Trace, policy: &Policy, journal: Option<&mut JournalWriter>) -> Run {
    let mut driver = Driver { policy, state: AgentState::default(), journal, agent: &trace.id };
    driver.start();
    let steps = trace.exchanges().count();
    let mut made: Vec<Hash64> = Vec::new();
    for (step, exchange) in trace.exchanges().enumerate() {
        let print = RequestPrint::of(&exchange.request);
        made.extend(print.steps.iter().map(|s| mix(&[s.action, s.result])));
        let asked = driver.tell(step, 0, What::RequestReceived(request(step, print, exchange.input_chars)));
        if let Some(reason) = stop_reason(&asked) {
            return Run { steps, stopped: Some(Stopped { step, repeats: most_frequent(&mut made), reason }) };
        }
        if let Some(chant) = ChantDetector::default().push(exchange.response.text) {
            let cut = driver.tell(
                step,
                ANSWER_MS / 2,
                What::ChantDetected(ChantDetected { request: id(step), chant }),
            );
            if let Some(reason) = stop_reason(&cut) {
                return Run {
                    steps,
                    stopped: Some(Stopped { step, repeats: chant.repeats as usize, reason }),
                };
            }
        }
        let print = ResponsePrint::of(&exchange.response);
        let output_tokens = tokens(exchange.response.text.len());
        let input_tokens = tokens(exchange.input_chars);
        let usage = Usage { input_tokens, output_tokens, estimated: true, ..Usage::default() };
        let answer = ResponseCompleted { request: id(step), ended: Default::default(), print, usage };
        let answered = driver.tell(step, ANSWER_MS, What::ResponseCompleted(answer));
        if let Some(reason) = stop_reason(&answered) {
            // The action stands in the answer; what stops is whatever comes after it.
            let repeats = most_frequent(&mut made) + 1;
            return Run { steps, stopped: Some(Stopped { step: step + 1, repeats, reason }) };
        }
    }
    Run { steps, stopped: None }
}

struct Driver<'a> {
    policy: &'a Policy,
    state: AgentState,
    journal: Option<&'a mut JournalWriter>,
    agent: &'a str,
}

impl Driver<'_> {
    /// A journal begins with the rules.
    fn start(&mut self) {
        let policy = Box::new(self.policy.clone());
        self.tell(0, 0, What::PolicyChanged { by: "eval".into(), policy });
    }

    fn tell(&mut self, step: usize, after_ms: u64, what: What) -> Decision {
        let mono = step as u64 * STEP_MS + after_ms;
        let now = Now { mono: Millis(mono), wall: START_WALL_MS + mono as i64 };
        let event = Event::from(what);
        let decision = self.state.handle(now, &event, self.policy);
        if let Some(journal) = &mut self.journal {
            journal.write(self.agent, now, &event, &decision);
        }
        decision
    }
}

fn id(step: usize) -> RequestId {
    RequestId(step as u64 + 1)
}

fn tokens(chars: usize) -> u32 {
    u32::try_from(chars / CHARS_PER_TOKEN + 1).unwrap_or(u32::MAX)
}

fn request(step: usize, print: RequestPrint, input_chars: usize) -> RequestReceived {
    let estimate = Estimate { input_tokens: tokens(input_chars), output_tokens: 4096, ..Estimate::default() };
    RequestReceived {
        request: id(step),
        call: CallKind::Generation,
        model: None,
        print,
        estimate,
        fleet: None,
    }
}

/// A refusal, or a trip that refuses what comes next.
fn stop_reason(decision: &Decision) -> Option<String> {
    if !decision.is_allowed() {
        return Some(decision.reason());
    }
    let cause = decision.deactivated()?;
    let said = decision.verdicts.get(cause.guard()).map(|verdict| verdict.finding.to_string());
    Some(said.unwrap_or_else(|| cause.name().to_owned()))
}

fn most_frequent(made: &mut [Hash64]) -> usize {
    made.sort_unstable();
    made.chunk_by(|a, b| a == b).map(<[Hash64]>::len).max().unwrap_or(0)
}
