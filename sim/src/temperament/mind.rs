//! What an agent keeps in mind between two acts, and the pieces its acts are made of.

use estop_core::event::{
    AbortedBy, CallKind, Ended, Estimate, EventKind, RequestReceived, ToolGate, ToolRequested, Usage,
};
use estop_core::fingerprint::simhash::SimHash;
use estop_core::fingerprint::{CallFingerprint, RequestFingerprint, ResponseFingerprint, StepFingerprint};
use estop_core::ids::{CallId, Hash64, Name, RequestId};
use estop_core::money::NanoUsd;

use super::{Act, Deed, Fate, Kind, Plan, ToolPlan};
use crate::prng::Rng;

/// Three dollars for a million tokens.
const NANO_PER_TOKEN: u64 = 3_000;

/// An agent's mind.
#[derive(Clone, Debug)]
pub struct Mind {
    /// Its temperament.
    pub kind: Kind,
    /// How long it rests between two acts, roughly.
    pub pace_ms: u64,
    /// Acts in the present task.
    pub turn: u64,
    /// How many acts the task will take.
    pub task: u64,
    /// The task's run; `None` = it has no name.
    pub run: Option<Name>,
    tasks: u64,
    requests: u64,
    calls: u64,
    conversation: Hash64,
    ask: Hash64,
    prompt: SimHash,
    input_tokens: u32,
    /// What it repeats, if it repeats.
    pub habit: [Hash64; 4],
}

impl Mind {
    /// A fresh mind.
    pub fn new(kind: Kind, rng: &mut Rng) -> Mind {
        let mut mind = Mind {
            kind,
            pace_ms: rng.spread(5_000, 400_000),
            turn: 0,
            task: 0,
            run: None,
            tasks: 0,
            requests: 0,
            calls: 0,
            conversation: Hash64(0),
            ask: Hash64(0),
            prompt: SimHash(0),
            input_tokens: 0,
            habit: [Hash64(0); 4],
        };
        mind.begin_task(1, rng);
        mind
    }

    /// Something else: another conversation, another ask, other habits.
    pub fn begin_task(&mut self, acts: u64, rng: &mut Rng) {
        self.tasks += 1;
        self.turn = 0;
        self.task = acts;
        self.conversation = Hash64(rng.bits());
        self.input_tokens = rng.between_u32(200, 3_000);
        self.habit = std::array::from_fn(|_| Hash64(rng.bits()));
        self.begin_ask(rng);
    }

    /// A person's next sentence.
    pub fn begin_ask(&mut self, rng: &mut Rng) {
        self.ask = Hash64(rng.bits());
        self.prompt = SimHash(rng.bits());
    }

    /// Names the task's run, or leaves it without a name.
    pub fn name_run(&mut self, named: bool) {
        self.run = named.then(|| format!("task-{}", self.tasks).into());
    }

    /// One of the deeds, alone, and the usual rest.
    pub fn only(&self, deed: Deed, rng: &mut Rng) -> Act {
        Act { deeds: vec![(self.run.clone(), deed)], rest_ms: self.rest(rng) }
    }

    /// The usual rest: mostly about its pace, sometimes none.
    pub fn rest(&self, rng: &mut Rng) -> u64 {
        if rng.per_mille(20) { 0 } else { rng.between(self.pace_ms / 2, self.pace_ms * 2) }
    }

    /// A request in the present conversation, with what was done since the last one.
    pub fn ask(&mut self, steps: Vec<StepFingerprint>, rng: &mut Rng) -> (RequestReceived, Plan) {
        let continues = !steps.is_empty();
        let print = RequestFingerprint {
            conversation: self.conversation,
            ask: self.ask,
            prompt: Some(self.prompt),
            continues,
            asked: Default::default(),
            steps,
        };
        self.input_tokens = self.input_tokens.saturating_add(rng.between_u32(20, 1_500));
        let estimate = self.estimate(rng);
        let request = RequestReceived {
            request: self.next_request(),
            call: CallKind::Generation,
            model: Some(rng.pick(&["large-1", "large-1", "large-dear", "small"]).into()),
            other_models: Vec::new(),
            path: None,
            print,
            estimate,
            fleet: None,
            tags: None,
            route: None,
        };
        let plan = self.plan(&estimate, rng);
        (request, plan)
    }

    fn plan(&self, estimate: &Estimate, rng: &mut Rng) -> Plan {
        Plan {
            answer: answer(rng),
            ended: if rng.per_mille(30) { Ended::Failed } else { Ended::Ok },
            usage: usage(estimate, rng),
            took_ms: rng.spread(50, self.pace_ms / 2 + 100),
            fate: fate(rng),
        }
    }

    /// A request that the provider failed, once more. A provider that failed once mostly fails again.
    pub fn ask_again(&mut self, failed: &RequestReceived, rng: &mut Rng) -> Deed {
        let request = RequestReceived { request: self.next_request(), ..failed.clone() };
        let mut plan = self.plan(&request.estimate, rng);
        if rng.per_mille(700) {
            plan.ended = Ended::Failed;
            plan.fate = rng.pick(&[Fate::Plain, Fate::Aborted { pieces: 0, by: AbortedBy::Upstream }]);
        }
        Deed::Ask(request, plan)
    }

    /// The same as a deed.
    pub fn ask_deed(&mut self, steps: Vec<StepFingerprint>, rng: &mut Rng) -> Deed {
        let (request, plan) = self.ask(steps, rng);
        Deed::Ask(request, plan)
    }

    /// A request in a conversation of its own.
    pub fn ask_aside(&mut self, rng: &mut Rng) -> Deed {
        let (mut request, plan) = self.ask(Vec::new(), rng);
        request.print.conversation = Hash64(rng.bits());
        request.print.ask = Hash64(rng.bits());
        request.print.prompt = Some(SimHash(rng.bits()));
        Deed::Ask(request, plan)
    }

    /// The number of the next request.
    pub fn next_request(&mut self) -> RequestId {
        self.requests += 1;
        RequestId(self.requests)
    }

    /// A tool call as a hook sees it.
    pub fn tool(&mut self, tool: &str, action: Hash64, rng: &mut Rng) -> (ToolRequested, ToolPlan) {
        self.calls += 1;
        let test_run = rng.per_mille(100);
        let (call, gate) = (CallId(self.calls), ToolGate::Hook);
        let requested = ToolRequested { call, tool: tool.into(), action, test_run, gate };
        let ended = rng.pick(&[Ended::Ok, Ended::Ok, Ended::Ok, Ended::Failed, Ended::Unknown]);
        let took_ms = (!rng.per_mille(20)).then(|| rng.spread(10, self.pace_ms + 100));
        (requested, ToolPlan { result: Hash64(rng.bits()), ended, took_ms })
    }

    fn estimate(&self, rng: &mut Rng) -> Estimate {
        let factor = if self.kind == Kind::Spender { 40 } else { 1 };
        let input_tokens = self.input_tokens.saturating_mul(factor);
        let output_tokens = rng.between_u32(100, 4_096).saturating_mul(factor);
        let unpriced = rng.per_mille(20);
        let tokens = u64::from(input_tokens) + u64::from(output_tokens);
        let usd = if unpriced { NanoUsd(0) } else { NanoUsd(tokens * NANO_PER_TOKEN) };
        Estimate { input_tokens, output_tokens, usd, unpriced, ..Estimate::default() }
    }
}

/// A new step: nothing like it was done before.
pub fn new_step(tool: &str, rng: &mut Rng) -> StepFingerprint {
    let ended = if rng.per_mille(50) { Ended::Failed } else { Ended::Unknown };
    let (action, result) = (Hash64(rng.bits()), Hash64(rng.bits()));
    StepFingerprint { tool: tool.into(), action, result, ended, test_run: false, words: Default::default() }
}

/// A plain event.
pub fn plain(what: EventKind) -> Deed {
    Deed::Plain(what)
}

fn answer(rng: &mut Rng) -> ResponseFingerprint {
    let call = |rng: &mut Rng| CallFingerprint {
        tool: "bash".into(),
        action: Hash64(rng.bits()),
        test_run: rng.per_mille(80),
    };
    let calls = (0..rng.pick(&[0, 1, 1, 1, 2])).map(|_| call(rng)).collect();
    let text = rng.per_mille(800).then(|| SimHash(rng.bits()));
    ResponseFingerprint { text, exact: text, calls, more_calls: 0 }
}

/// Mostly less than was estimated, at times more: estimates are wrong.
fn usage(estimate: &Estimate, rng: &mut Rng) -> Usage {
    let output_tokens = (u64::from(estimate.output_tokens) * rng.between(0, 120) / 100) as u32;
    let tokens = u64::from(estimate.input_tokens) + u64::from(output_tokens);
    let usd = if estimate.unpriced { NanoUsd(0) } else { NanoUsd(tokens * NANO_PER_TOKEN) };
    let estimated = rng.per_mille(50);
    Usage { input_tokens: estimate.input_tokens, output_tokens, usd, estimated, ..Usage::default() }
}

fn fate(rng: &mut Rng) -> Fate {
    let pieces = rng.between(1, 4);
    let by = rng.pick(&[AbortedBy::Client, AbortedBy::Upstream]);
    match rng.below(1000) {
        0..500 => Fate::Plain,
        500..800 => Fate::Streamed { pieces },
        800..900 => Fate::Aborted { pieces, by },
        900..920 => Fate::Aborted { pieces: 0, by },
        920..940 => Fate::Twice,
        940..955 => Fate::TooLate,
        955..960 => Fate::Chants,
        _ => Fate::Lost,
    }
}
