//! Random events for property tests: small id ranges, so that events meet each other.
#![allow(dead_code, reason = "each test file uses its own part")]

use estop_core::event::*;
use estop_core::fingerprint::features::{Features, Numbers};
use estop_core::fingerprint::simhash::SimHash;
use estop_core::fingerprint::step_words::StepWords;
use estop_core::fingerprint::{CallFingerprint, RequestFingerprint, ResponseFingerprint, StepFingerprint};
use estop_core::guard::Guard;
use estop_core::ids::{CallId, Hash64, RequestId};
use estop_core::loop_detector::chant::Chant;
use estop_core::money::NanoUsd;
use estop_core::policy::{Limit, Mode, Modes, Policy, Preset};
use estop_core::system::{Channel, Channels, GateView, SystemState};
use estop_core::time::{Millis, Now};

/// SplitMix64: the same numbers on every machine, for ever.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }
}

/// Time goes on, mostly; now and then it stands still, jumps or goes back.
pub(crate) fn tick(random: &mut Random, now: &mut Now) {
    let step = match random.below(100) {
        0 => 0,
        1 => random.below(3_600_000),
        2 => random.below(40 * 86_400_000),
        _ => random.below(4_000),
    };
    now.mono = Millis(now.mono.0 + step);
    now.wall += step as i64;
    if random.one_in(500) {
        now.mono = Millis(now.mono.0.saturating_sub(random.below(100_000)));
    }
    if random.one_in(500) {
        now.wall -= random.below(5 * 86_400_000) as i64;
    }
}

pub(crate) fn policy(random: &mut Random) -> Policy {
    let mut policy =
        Policy { modes: Modes::of(random.pick(&[Preset::Watch, Preset::Strict])), ..Policy::default() };
    let modes = [Mode::Enforce, Mode::Shadow, Mode::Off];
    policy.modes[Guard::Loop] = random.pick(&modes);
    policy.modes[Guard::Gate] = random.pick(&modes);
    policy.modes[Guard::Health] = random.pick(&modes);
    policy.modes[Guard::Breaker] = random.pick(&modes);
    policy.modes[Guard::Churn] = random.pick(&modes);
    policy.loops.window_size = random.pick(&[5, 20, 100]);
    policy.limits.max_tool_calls = random.pick(&[Limit::max(3), Limit::max(200), Limit::Off]);
    policy.limits.max_turns = random.pick(&[Limit::max(4), Limit::max(50), Limit::Off]);
    policy.budget.usd_per_day =
        random.pick(&[None, Some(NanoUsd(5_000_000_000)), Some(NanoUsd(50_000_000_000))]);
    policy.budget.tokens_per_run = random.pick(&[None, Some(100_000), Some(u64::MAX)]);
    policy.rate.requests_per_minute = random.pick(&[None, Some(3), Some(40)]);
    policy.rate.tokens_per_minute = random.pick(&[None, Some(50_000)]);
    policy
}

pub(crate) fn event(random: &mut Random) -> Event {
    let run = random.pick(&[None, None, Some("r1".into()), Some("r2".into())]);
    let gate = if random.one_in(40) { gate(random) } else { GateView::OPEN };
    Event { run, gate, what: what(random) }
}

fn gate(random: &mut Random) -> GateView {
    let states = [SystemState::Running, SystemState::Shutdown, SystemState::SafeMode, SystemState::Starting];
    let shut = random.pick(&[Channels::NONE, Channels::ALL, Channels::NONE.with(Channel::Llm)]);
    GateView { epoch: random.below(9), state: random.pick(&states), shut }
}

fn what(random: &mut Random) -> EventKind {
    let by = "someone";
    match random.below(100) {
        0..=34 => EventKind::RequestReceived(request(random)),
        35..=62 => EventKind::ResponseCompleted(response(random)),
        63..=66 => EventKind::StreamProgressed(StreamProgressed {
            request: request_id(random),
            usage: usage(random),
            fleet: None,
        }),
        67..=69 => EventKind::StreamAborted(StreamAborted {
            request: request_id(random),
            by: random.pick(&[AbortedBy::Client, AbortedBy::Upstream, AbortedBy::Guard, AbortedBy::Kill]),
            usage: usage(random),
        }),
        70 => EventKind::ChantDetected(ChantDetected {
            request: request_id(random),
            chant: Chant { period_chars: 10, repeats: 60, at_char: 600 },
        }),
        71..=78 => EventKind::ToolRequested(ToolRequested {
            call: CallId(random.below(8)),
            tool: random.pick(&["Bash".into(), "Read".into(), "report_complete".into()]),
            action: hash(random),
            test_run: random.one_in(4),
            gate: ToolGate::Hook,
        }),
        79..=85 => EventKind::ToolFinished(ToolFinished {
            call: CallId(random.below(8)),
            result: hash(random),
            ended: ended(random),
            reports: false,
            words: step_words(random),
        }),
        86 => EventKind::PromptSubmitted,
        87 => EventKind::RunStarted { attended: random.one_in(2), tags: None, limits: None },
        88 => EventKind::RunSlept,
        89 => EventKind::RunWoke,
        90 => EventKind::RunCompleted,
        91 => EventKind::RunExtended { by: by.into() },
        92 => EventKind::MessageIn { relay: "telegram".into() },
        93 => EventKind::MessageOut { relay: "telegram".into() },
        94 => EventKind::PolicyChanged { by: by.into(), policy: Box::new(policy(random)) },
        95 | 96 => EventKind::AgentActivated { by: by.into() },
        97 => random
            .pick(&[EventKind::AgentDeactivated { by: by.into() }, EventKind::AgentPaused { by: by.into() }]),
        98 => EventKind::AgentResumed { by: by.into() },
        _ => EventKind::Tick,
    }
}

fn request_id(random: &mut Random) -> RequestId {
    RequestId(random.below(12))
}

fn hash(random: &mut Random) -> Hash64 {
    Hash64(random.below(3) + 1)
}

fn ended(random: &mut Random) -> Ended {
    random.pick(&[Ended::Ok, Ended::Failed, Ended::Unknown])
}

fn simhash(random: &mut Random) -> Option<SimHash> {
    random.pick(&[None, Some(SimHash(1)), Some(SimHash(3)), Some(SimHash(u64::MAX))])
}

fn usage(random: &mut Random) -> Usage {
    Usage {
        input_tokens: random.below(30_000) as u32,
        output_tokens: random.pick(&[0, 500, 9_000, u32::MAX]),
        usd: NanoUsd(random.below(400_000_000)),
        estimated: random.one_in(9),
        ..Usage::default()
    }
}

fn request(random: &mut Random) -> RequestReceived {
    let steps = (0..random.below(3)).map(|_| StepFingerprint {
        tool: random.pick(&["Bash".into(), "".into()]),
        action: hash(random),
        result: hash(random),
        ended: ended(random),
        test_run: false,
        words: step_words(random),
    });
    let steps = steps.collect();
    RequestReceived {
        request: request_id(random),
        call: random.pick(&[
            CallKind::Generation,
            CallKind::Generation,
            CallKind::Embedding,
            CallKind::Other,
        ]),
        model: None,
        other_models: Vec::new(),
        path: random.one_in(3).then(|| "/v1/batches".into()),
        print: RequestFingerprint {
            conversation: hash(random),
            ask: hash(random),
            prompt: simhash(random),
            continues: random.one_in(2),
            asked: words(random),
            steps,
        },
        estimate: Estimate {
            input_tokens: random.pick(&[100, 20_000, u32::MAX]),
            output_tokens: 4_096,
            usd: NanoUsd(random.below(400_000_000)),
            unpriced: random.one_in(20),
            open_usd: NanoUsd(random.below(400_000_000)),
            ..Estimate::default()
        },
        fleet: None,
        tags: None,
        route: None,
    }
}

fn response(random: &mut Random) -> ResponseCompleted {
    let calls = (0..random.below(2)).map(|_| CallFingerprint {
        tool: "Bash".into(),
        action: hash(random),
        test_run: random.one_in(3),
    });
    let calls = calls.collect();
    ResponseCompleted {
        request: request_id(random),
        ended: random.pick(&[Ended::Ok, Ended::Ok, Ended::Ok, Ended::Failed]),
        print: ResponseFingerprint {
            text: simhash(random),
            exact: simhash(random),
            more_calls: if random.one_in(50) { 500 } else { 0 },
            calls,
        },
        usage: usage(random),
        first_byte_ms: None,
    }
}

/// Some words of a hundred.
fn words(random: &mut Random) -> Features {
    let words: String = (0..random.below(6)).map(|_| format!("w{} ", random.below(100))).collect();
    Features::of(&words, Numbers::Count)
}

fn step_words(random: &mut Random) -> StepWords {
    StepWords { result: words(random), said: words(random), ..StepWords::default() }
}
