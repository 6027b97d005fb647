//! The latest steps of one conversation.

use std::collections::VecDeque;

use estop_core::ended::Ended;
use estop_core::event::Usage;
use estop_core::ids::{Hash64, Name};
use estop_core::money::NanoUsd;
use estop_core::operator::StepEnd;
use estop_core::policy::EvidenceMode;
use estop_core::time::Millis;

use crate::clock::Clock;
use crate::journal::short_name;

/// Steps of a conversation. Chosen: as many as the longest repetition that is stopped takes (LD-6).
const STEPS_MAX: usize = 20;
/// Bytes of a conversation; beyond it the oldest steps go.
const BYTES_MAX: usize = 64 << 10;
/// Tools of one step whose texts are kept, the newest.
pub(super) const TOOLS_MAX: usize = 8;
/// Bytes of a text before its secrets are masked: 300 characters take 1,200 at most, and a mark is mostly shorter than what it
/// stands for.
const HEAD_MAX: usize = 1_024;
/// The same of texts that are shown as they were.
const WHOLE_HEAD_MAX: usize = 4_096;
/// What a step takes beside its texts, about.
const STEP_BYTES: usize = size_of::<Step>() + 64;

/// How much of a text is kept; `None` = nothing of any.
pub(super) fn head_max(mode: EvidenceMode) -> Option<usize> {
    match mode {
        EvidenceMode::Off => None,
        EvidenceMode::Redacted => Some(HEAD_MAX),
        EvidenceMode::Full => Some(WHOLE_HEAD_MAX),
    }
}

/// A name as it is kept.
pub(super) fn tool_name(name: &str) -> Name {
    short_name(name)
}

/// When a step began, on both clocks.
#[derive(Clone, Copy)]
pub(crate) struct StepTime {
    pub(crate) mono: Millis,
    pub(crate) wall: i64,
}

impl StepTime {
    /// This moment, as it was last read.
    pub(crate) fn of(clock: &Clock) -> StepTime {
        StepTime { mono: clock.now_coarse(), wall: clock.wall_coarse() }
    }
}

/// The beginning of a text, as it was.
#[derive(Clone)]
pub(super) struct Head {
    pub(super) text: Box<str>,
    /// Bytes of all of it.
    pub(super) whole: usize,
}

impl Head {
    pub(super) fn of(text: &str, max: usize) -> Head {
        let head = &text[..text.floor_char_boundary(max)];
        Head { text: head.into(), whole: text.len() }
    }

    pub(super) fn is_cut(&self) -> bool {
        self.text.len() < self.whole
    }
}

/// A tool call.
#[derive(Clone)]
pub(super) struct ToolHeads {
    pub(super) tool: Name,
    pub(super) args: Head,
    pub(super) result: Option<Head>,
    pub(super) ended: Ended,
}

/// What a model said.
#[derive(Clone)]
pub(super) struct Answer {
    pub(super) text: Option<Head>,
    pub(super) calls: Vec<ToolHeads>,
}

/// A request with its answer, or a tool call that a hook saw.
#[derive(Clone)]
pub(super) struct Step {
    pub(super) id: u64,
    pub(super) is_request: bool,
    /// The how manieth call of its conversation the engine compared with those before.
    pub(super) judged: Option<u32>,
    pub(super) mode: EvidenceMode,
    pub(super) at: StepTime,
    pub(super) model: Option<Name>,
    pub(super) asked: Option<Head>,
    pub(super) did: Vec<ToolHeads>,
    pub(super) more: u32,
    pub(super) answer: Option<Answer>,
    pub(super) input_tokens: u32,
    pub(super) output_tokens: u32,
    pub(super) usd: NanoUsd,
    pub(super) ended_at: Option<Millis>,
    pub(super) end: StepEnd,
}

impl Step {
    /// One of which nothing else is known yet.
    pub(super) fn at(mode: EvidenceMode, at: StepTime) -> Step {
        Step {
            id: 0,
            is_request: false,
            judged: None,
            mode,
            at,
            model: None,
            asked: None,
            did: Vec::new(),
            more: 0,
            answer: None,
            input_tokens: 0,
            output_tokens: 0,
            usd: NanoUsd(0),
            ended_at: None,
            end: StepEnd::UnderWay,
        }
    }

    pub(super) fn over(&mut self, now: Millis, usage: Usage, end: StepEnd) {
        self.input_tokens = usage.input_tokens;
        self.output_tokens = usage.output_tokens;
        self.usd = usage.usd;
        self.ended_at = Some(now);
        self.end = end;
    }

    /// Whether it is a request, and its number.
    pub(super) fn known_by(&self) -> (bool, u64) {
        (self.is_request, self.id)
    }

    fn bytes(&self) -> usize {
        let tool = |tool: &ToolHeads| {
            size_of::<ToolHeads>()
                + tool.tool.len()
                + tool.args.text.len()
                + tool.result.as_ref().map_or(0, |result| result.text.len())
        };
        let answer = self.answer.as_ref().map_or(0, |answer| {
            answer.text.as_ref().map_or(0, |text| text.text.len())
                + answer.calls.iter().map(tool).sum::<usize>()
        });
        STEP_BYTES
            + self.asked.as_ref().map_or(0, |asked| asked.text.len())
            + self.did.iter().map(tool).sum::<usize>()
            + answer
    }
}

/// A step that is being decided.
pub(super) struct Pending {
    pub(super) conversation: Hash64,
    pub(super) task: Option<Head>,
    pub(super) step: Step,
}

/// The latest steps of one conversation.
#[derive(Clone, Default)]
pub(super) struct Ring {
    pub(super) task: Option<Head>,
    pub(super) steps: VecDeque<Step>,
    /// Steps that made room.
    pub(super) older: u32,
    /// Calls that the engine compared with those before.
    pub(super) judged: u32,
    /// Of all steps together.
    bytes: usize,
    /// When something last happened.
    pub(super) turn: u64,
}

impl Ring {
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.task.as_ref().map_or(0, |task| task.text.len()) + size_of::<Ring>()
    }

    pub(super) fn push(&mut self, step: Step) {
        self.bytes += step.bytes();
        self.steps.push_back(step);
        self.bound();
    }

    /// Whether this call was asked for and has not ended.
    pub(super) fn has_open_call_like(&self, call: &Step) -> bool {
        let same = |step: &Step| {
            let (known, asked) = (step.did.first(), call.did.first());
            known.zip(asked).is_some_and(|(a, b)| (&a.tool, &a.args.text) == (&b.tool, &b.args.text))
        };
        let mut open = self.steps.iter().filter(|step| !step.is_request && step.end == StepEnd::UnderWay);
        !call.is_request && open.any(|step| step.id == call.id && same(step))
    }

    /// Changes the newest step of this number.
    pub(super) fn edit(&mut self, id: u64, change: impl FnOnce(&mut Step)) {
        let Some(step) = self.steps.iter_mut().rev().find(|step| step.id == id) else { return };
        let before = step.bytes();
        change(step);
        self.bytes = self.bytes + step.bytes() - before;
        self.bound();
    }

    /// The engine compared this call with those before.
    pub(super) fn judge(&mut self, id: u64) {
        self.judged = self.judged.wrapping_add(1);
        let nth = self.judged;
        self.edit(id, |step| step.judged = Some(nth));
    }

    /// The request that was refused takes the room of no other: what led to it is what people want to see.
    fn bound(&mut self) {
        let refused = self.steps.back().filter(|newest| newest.end == StepEnd::Refused);
        let (more, bytes) = refused.map_or((0, 0), |refused| (1, refused.bytes()));
        let (steps_max, bytes_max) = (STEPS_MAX + more, BYTES_MAX + bytes);
        while self.steps.len() > steps_max || self.bytes > bytes_max && self.steps.len() > 1 + more {
            if let Some(step) = self.steps.pop_front() {
                self.bytes -= step.bytes();
                self.older = self.older.saturating_add(1);
            }
        }
    }
}
