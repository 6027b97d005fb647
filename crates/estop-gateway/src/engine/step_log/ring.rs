//! The latest steps of one conversation.

use std::collections::VecDeque;

use estop_core::ended::Ended;
use estop_core::event::Usage;
use estop_core::ids::Name;
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

/// The latest steps of one conversation.
#[derive(Clone, Default)]
pub(super) struct Ring {
    pub(super) task: Option<Head>,
    pub(super) steps: VecDeque<Step>,
    /// Steps that made room.
    pub(super) older: u32,
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

    /// Changes the newest step of this number.
    pub(super) fn edit(&mut self, id: u64, change: impl FnOnce(&mut Step)) {
        let Some(step) = self.steps.iter_mut().rev().find(|step| step.id == id) else { return };
        let before = step.bytes();
        change(step);
        self.bytes = self.bytes + step.bytes() - before;
        self.bound();
    }

    pub(super) fn remove(&mut self, id: u64) {
        let Some(at) = self.steps.iter().rposition(|step| step.id == id) else { return };
        if let Some(step) = self.steps.remove(at) {
            self.bytes -= step.bytes();
        }
    }

    fn bound(&mut self) {
        while self.steps.len() > STEPS_MAX || self.bytes > BYTES_MAX && self.steps.len() > 1 {
            if let Some(step) = self.steps.pop_front() {
                self.bytes -= step.bytes();
                self.older = self.older.saturating_add(1);
            }
        }
    }
}
