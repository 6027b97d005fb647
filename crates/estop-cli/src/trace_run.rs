//! Drives one recorded trace through the core, as if the agent were live.

use estop_core::decision::{Decision, Finding, Outcome, Retry};
use estop_core::engine::AgentState;
use estop_core::event::{
    AbortedBy, CallKind, ChantDetected, Estimate, Event, EventKind, RequestReceived, ResponseCompleted,
    StreamAborted, Usage,
};
use estop_core::fingerprint::signature::mix;
use estop_core::fingerprint::{RequestFingerprint, ResponseFingerprint};
use estop_core::guard::Guard;
use estop_core::ids::{Hash64, RequestId};
use estop_core::loop_detector::LoopFinding;
use estop_core::loop_detector::chant::ChantDetector;
use estop_core::policy::Policy;
use estop_core::run::test_command::TestRunners;
use estop_core::time::{Millis, Now};

use crate::journal_writer::JournalWriter;
use crate::trace::{Exchange, Trace};

/// Where a trace carries no times: a request every five seconds, answered after two, is a usual pace.
const STEP_MS: u64 = 5_000;
const ANSWER_MS: u64 = 2_000;
/// 2026-01-01, so that journals look like journals.
const START_WALL_MS: i64 = 1_767_225_600_000;
/// Characters to a token, roughly.
const CHARS_PER_TOKEN: usize = 4;
/// An agent that is told to wait more often than this in a row is stopped, whatever it is called.
const WAITS_MAX: u32 = 3;

/// What became of a trace.
pub struct Run {
    /// Answers in the trace.
    pub steps: usize,
    /// Where it was stopped, if it was.
    pub stopped: Option<Stopped>,
    /// What the loop guard saw at each request.
    pub seen: Vec<LoopFinding>,
}

/// Where a trace was stopped.
pub struct Stopped {
    /// So many steps were made.
    pub step: usize,
    /// How often the most frequent step had been made until then.
    pub repeats: usize,
    /// Why.
    pub reason: String,
}

/// Runs the trace until it is stopped or ends. `runners` is what the policy takes for test runs.
pub fn run(
    trace: &Trace,
    policy: &Policy,
    runners: &TestRunners,
    journal: Option<&mut JournalWriter>,
) -> Run {
    let mut driver = Driver {
        policy,
        state: AgentState::default(),
        journal,
        agent: &trace.id,
        requests: 0,
        mono: 0,
        answer_ms: ANSWER_MS,
        seen: Vec::new(),
    };
    driver.start();
    let mut made: Vec<Hash64> = Vec::new();
    let stopped = trace.exchanges(runners).enumerate().find_map(|(step, exchange)| {
        driver.begin(trace.asked_at(step), trace.answered_at(step), trace.asked_at(step + 1));
        driver.exchange(step, &exchange, &mut made)
    });
    Run { steps: trace.steps(), stopped, seen: driver.seen }
}

struct Driver<'a> {
    policy: &'a Policy,
    state: AgentState,
    journal: Option<&'a mut JournalWriter>,
    agent: &'a str,
    /// Made so far; the last one's id.
    requests: u64,
    /// When the exchange begins.
    mono: u64,
    /// How long its answer takes.
    answer_ms: u64,
    seen: Vec<LoopFinding>,
}

impl Driver<'_> {
    /// A journal begins with the rules.
    fn start(&mut self) {
        let policy = Box::new(self.policy.clone());
        self.tell(0, EventKind::PolicyChanged { by: "eval".into(), policy });
    }

    /// The next exchange begins: when its trace says, or as long after the one before as is usual.
    fn begin(&mut self, at: Option<u64>, answered: Option<u64>, next: Option<u64>) {
        let usual = if self.requests == 0 { 0 } else { self.mono + STEP_MS };
        self.mono = at.map_or(usual, |at| at.max(self.mono));
        // It is answered before the next one is asked.
        let left = next.map_or(STEP_MS, |next| next.saturating_sub(self.mono));
        self.answer_ms = match answered {
            Some(answered) => answered.saturating_sub(self.mono),
            None => ANSWER_MS.min(left / 2),
        };
    }

    fn exchange(&mut self, step: usize, exchange: &Exchange<'_>, made: &mut Vec<Hash64>) -> Option<Stopped> {
        let print = RequestFingerprint::of(&exchange.request);
        made.extend(print.steps.iter().map(|s| mix(&[s.action, s.result])));
        let input_tokens = tokens(exchange.input_chars);
        let decision = self.ask(&print, input_tokens);
        if let Some(Finding::Loop(finding)) = decision.verdicts.get(Guard::Loop).map(|v| &v.finding) {
            self.seen.push(*finding);
        }
        if let Some(reason) = stop_reason(&decision) {
            return Some(Stopped { step, repeats: most_frequent(made), reason });
        }
        let request = RequestId(self.requests);
        if let Some(chant) = ChantDetector::default().push(exchange.response.text) {
            let cut =
                self.tell(self.answer_ms / 2, EventKind::ChantDetected(ChantDetected { request, chant }));
            if let Some(reason) = stop_reason(&cut) {
                return Some(Stopped { step, repeats: chant.repeats as usize, reason });
            }
        }
        let print = ResponseFingerprint::of(&exchange.response);
        let output_tokens = tokens(exchange.response.text.len());
        let usage = Usage { input_tokens, output_tokens, estimated: true, ..Usage::default() };
        let what = match exchange.ended {
            Some(ended) => EventKind::ResponseCompleted(ResponseCompleted {
                request,
                ended,
                print,
                usage,
                first_byte_ms: None,
            }),
            None => EventKind::StreamAborted(StreamAborted { request, by: AbortedBy::Client, usage }),
        };
        let reason = stop_reason(&self.tell(self.answer_ms, what))?;
        Some(Stopped { step: step + 1, repeats: most_frequent(made), reason })
    }

    /// Asks for a request. Told to wait, the agent waits and asks again, as a live one would.
    fn ask(&mut self, print: &RequestFingerprint, input_tokens: u32) -> Decision {
        let mut waits = 0;
        loop {
            self.requests += 1;
            let request = request(RequestId(self.requests), print.clone(), input_tokens);
            let decision = self.tell(0, EventKind::RequestReceived(request));
            let Some(wait_ms) = wait_ms(&decision).filter(|_| waits < WAITS_MAX) else { return decision };
            waits += 1;
            self.mono += wait_ms;
        }
    }

    fn tell(&mut self, after_ms: u64, what: EventKind) -> Decision {
        let mono = self.mono + after_ms;
        let now = Now { mono: Millis(mono), wall: START_WALL_MS + mono as i64 };
        let event = Event::open(what);
        let decision = self.state.handle(now, &event, self.policy);
        if let Some(journal) = &mut self.journal {
            journal.write(self.agent, now, &event, &decision);
        }
        decision
    }
}

/// How long a refused agent should wait, if waiting is all it takes.
fn wait_ms(decision: &Decision) -> Option<u64> {
    match decision.outcome {
        Outcome::Refuse { retry: Retry::AfterMs(ms), .. } if decision.deactivated().is_none() => {
            Some(ms.max(1))
        }
        Outcome::Refuse { .. } | Outcome::Allow | Outcome::Noted => None,
    }
}

fn tokens(chars: usize) -> u32 {
    u32::try_from(chars / CHARS_PER_TOKEN + 1).unwrap_or(u32::MAX)
}

fn request(request: RequestId, print: RequestFingerprint, input_tokens: u32) -> RequestReceived {
    let estimate = Estimate { input_tokens, output_tokens: 4096, ..Estimate::default() };
    RequestReceived {
        request,
        call: CallKind::Generation,
        model: None,
        other_models: Vec::new(),
        path: None,
        print,
        estimate,
        fleet: None,
        tags: None,
        route: None,
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
