//! Any event with any number: unknown ids, doubles, zeros, the largest there is.

use estop_core::event::{
    AbortedBy, CallKind, ChantDetected, Ended, Estimate, EventKind, RequestReceived, ResponseCompleted,
    StreamAborted, StreamProgressed, ToolFinished, ToolGate, ToolRequested, Usage,
};
use estop_core::fingerprint::features::{Features, Numbers};
use estop_core::fingerprint::result_kind::ResultKind;
use estop_core::fingerprint::simhash::SimHash;
use estop_core::fingerprint::step_words::{StepKind, StepWords};
use estop_core::fingerprint::{CallFingerprint, RequestFingerprint, ResponseFingerprint, StepFingerprint};
use estop_core::guard::Guard;
use estop_core::ids::{CallId, Hash64, Name, RequestId};
use estop_core::loop_detector::chant::Chant;
use estop_core::money::NanoUsd;

use super::mind::{Mind, plain};
use super::{Act, Deed};
use crate::prng::Rng;

/// One to five of anything.
pub(super) fn chaos(mind: &mut Mind, rng: &mut Rng) -> Act {
    let deeds = (0..rng.between(1, 5)).map(|_| (any_run(rng), any_deed(mind, rng))).collect();
    Act { deeds, rest_ms: rng.between(0, mind.pace_ms * 2) }
}

fn any_deed(mind: &mut Mind, rng: &mut Rng) -> Deed {
    if rng.per_mille(200) {
        return mind.ask_deed(vec![any_step(rng)], rng);
    }
    let by: fn() -> Name = || "ann".into();
    plain(match rng.below(24) {
        0..=5 => EventKind::RequestReceived(any_request(rng)),
        6 => EventKind::ResponseCompleted(ResponseCompleted {
            request: any_id(rng),
            ended: any_end(rng),
            print: any_answer(rng),
            usage: any_usage(rng),
            first_byte_ms: None,
        }),
        7 | 8 => EventKind::StreamProgressed(StreamProgressed {
            request: any_id(rng),
            usage: any_usage(rng),
            fleet: None,
        }),
        9 => EventKind::StreamAborted(StreamAborted {
            request: any_id(rng),
            by: rng.pick(&[AbortedBy::Client, AbortedBy::Upstream, AbortedBy::Guard, AbortedBy::Kill]),
            usage: any_usage(rng),
        }),
        10 => EventKind::ChantDetected(ChantDetected { request: any_id(rng), chant: any_chant(rng) }),
        11 | 12 => EventKind::ToolRequested(ToolRequested {
            call: CallId(any_id(rng).0),
            tool: any_tool(rng),
            action: any_hash(rng),
            test_run: rng.per_mille(500),
            gate: ToolGate::Hook,
        }),
        13 => EventKind::ToolFinished(ToolFinished {
            call: CallId(any_id(rng).0),
            result: any_hash(rng),
            ended: any_end(rng),
            reports: false,
            words: any_step_words(rng),
        }),
        14 => EventKind::PromptSubmitted,
        15 => EventKind::RunStarted { attended: rng.per_mille(500), tags: None, limits: None },
        16 => EventKind::RunSlept,
        17 => EventKind::RunWoke,
        18 => EventKind::RunCompleted,
        19 => EventKind::RunExtended { by: by() },
        20 => EventKind::MessageIn { relay: any_tool(rng) },
        21 => EventKind::AgentActivated { by: by() },
        22 => EventKind::AgentResumed { by: by() },
        23 => EventKind::GuardSnoozed {
            by: by(),
            guard: rng.pick(&Guard::ALL),
            for_ms: rng.pick(&[0, 1, 60_000, u64::MAX]),
            until: i64::MIN,
            note: None,
        },
        _ => EventKind::Tick,
    })
}

fn any_request(rng: &mut Rng) -> RequestReceived {
    let print = RequestFingerprint {
        conversation: Hash64(rng.below(100)),
        ask: any_hash(rng),
        prompt: rng.per_mille(700).then(|| any_simhash(rng)),
        continues: rng.per_mille(500),
        asked: any_words(rng),
        steps: (0..rng.pick(&[0, 0, 1, 2, 32])).map(|_| any_step(rng)).collect(),
    };
    let estimate = Estimate {
        input_tokens: any_u32(rng),
        output_tokens: any_u32(rng),
        usd: NanoUsd(any_u64(rng)),
        unpriced: rng.per_mille(100),
        more_input_tokens: if rng.per_mille(500) { any_u32(rng) } else { 0 },
        ..Estimate::default()
    };
    let call = rng.pick(&[CallKind::Generation, CallKind::Generation, CallKind::Embedding, CallKind::Other]);
    RequestReceived {
        request: any_id(rng),
        call,
        model: Some(any_tool(rng)),
        other_models: rng.per_mille(100).then(|| any_tool(rng)).into_iter().collect(),
        path: rng.per_mille(300).then(|| "/v1/batches".into()),
        print,
        estimate,
        fleet: None,
        tags: None,
        route: None,
    }
}

fn any_step(rng: &mut Rng) -> StepFingerprint {
    let (tool, action, result) = (any_tool(rng), any_hash(rng), any_hash(rng));
    StepFingerprint { tool, action, result, ended: any_end(rng), test_run: false, words: any_step_words(rng) }
}

fn any_answer(rng: &mut Rng) -> ResponseFingerprint {
    let call = |rng: &mut Rng| CallFingerprint {
        tool: any_tool(rng),
        action: any_hash(rng),
        test_run: rng.per_mille(500),
    };
    let calls = (0..rng.pick(&[0, 1, 32])).map(|_| call(rng)).collect();
    ResponseFingerprint { text: Some(any_simhash(rng)), exact: Some(any_simhash(rng)), calls, more_calls: 0 }
}

fn any_usage(rng: &mut Rng) -> Usage {
    Usage {
        input_tokens: any_u32(rng),
        output_tokens: any_u32(rng),
        usd: NanoUsd(any_u64(rng)),
        estimated: rng.per_mille(500),
        ..Usage::default()
    }
}

fn any_chant(rng: &mut Rng) -> Chant {
    Chant { period_chars: any_u32(rng), repeats: any_u32(rng), at_char: any_u64(rng) }
}

/// Few, so that doubles and hits are common; or one nobody ever had.
fn any_id(rng: &mut Rng) -> RequestId {
    RequestId(if rng.per_mille(50) { any_u64(rng) } else { rng.below(30) })
}

fn any_hash(rng: &mut Rng) -> Hash64 {
    Hash64(if rng.per_mille(500) { rng.below(4) } else { rng.bits() })
}

fn any_simhash(rng: &mut Rng) -> SimHash {
    SimHash(if rng.per_mille(500) { rng.below(4) } else { rng.bits() })
}

fn any_u32(rng: &mut Rng) -> u32 {
    match rng.below(4) {
        0 => 0,
        1 => u32::MAX,
        _ => rng.spread(1, u64::from(u32::MAX)) as u32,
    }
}

fn any_u64(rng: &mut Rng) -> u64 {
    match rng.below(4) {
        0 => 0,
        1 => rng.pick(&[u64::MAX, u64::MAX - 1, u64::MAX / 2]),
        _ => rng.spread(1, 1 << 40),
    }
}

fn any_end(rng: &mut Rng) -> Ended {
    rng.pick(&[Ended::Ok, Ended::Failed, Ended::Unknown])
}

fn any_tool(rng: &mut Rng) -> Name {
    rng.pick(&["bash", "", "poll", "report_complete", "a \"quoted\" \u{7}name,\"decision\":"]).into()
}

fn any_run(rng: &mut Rng) -> Option<Name> {
    (!rng.per_mille(300)).then(|| format!("c{}", rng.below(6)).into())
}

/// Up to some two hundred words of a thousand.
fn any_words(rng: &mut Rng) -> Features {
    let words: String = (0..rng.pick(&[0, 1, 5, 200])).map(|_| format!("w{} ", rng.below(1_000))).collect();
    Features::of(&words, Numbers::Count)
}

fn any_step_words(rng: &mut Rng) -> StepWords {
    StepWords {
        result: any_words(rng),
        said: any_words(rng),
        failure: rng.pick(&[0, 1, 2]),
        result_kind: rng.pick(&[ResultKind::Content, ResultKind::Nothing, ResultKind::Failure]),
        kind: rng.pick(&[StepKind::Act, StepKind::Talk, StepKind::Wait, StepKind::Plan]),
    }
}
