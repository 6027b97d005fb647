//! From what is kept in memory to what is stored with an incident: masked, cut, and marked where a step is evidence.

use std::collections::BTreeMap;

use estop_core::decision::Decision;
use estop_core::event::{Event, EventKind, ToolFinished, ToolRequested};
use estop_core::fingerprint::signature::hook_conversation;
use estop_core::ids::{Hash64, RequestId};
use estop_core::loop_detector::MatchedEntry;
use estop_core::operator::{Excerpt, InFlightStep, IncidentSteps, KeptStep, StepCounts, StepEnd, ToolUse};
use estop_core::policy::EvidenceMode;
use estop_core::time::Millis;
use estop_wire::mask::Masker;

use super::ring::{Head, Pending, Ring, Step, ToolHeads};

/// Characters of a text whose secrets are masked.
const EXCERPT_CHARS: usize = 300;
/// Characters of a text as it was.
const WHOLE_CHARS: usize = 2_000;
/// Requests under way that are named.
const IN_FLIGHT_MAX: usize = 50;

/// The event by which an agent was stopped.
pub struct StopPoint<'a> {
    /// Whose.
    pub agent: &'a str,
    /// When.
    pub at: Millis,
    /// What happened.
    pub event: &'a Event,
    /// What was decided: what speaks for a loop, and whether this was refused.
    pub decision: &'a Decision,
    /// The most that the agent's policy lets people see of its texts.
    pub most: EvidenceMode,
}

/// What is known of a stop, copied.
pub(super) struct Copied {
    ring: Ring,
    in_flight: Vec<InFlightStep>,
}

impl StopPoint<'_> {
    pub(super) fn copy(
        &self,
        rings: Option<&BTreeMap<Hash64, Ring>>,
        pending: Option<&Pending>,
    ) -> Option<Copied> {
        let none = BTreeMap::new();
        let rings = rings.unwrap_or(&none);
        // Whoever decided it may not have come to say so.
        let undecided = pending.filter(|pending| self.completed_by() == Some(pending.step.known_by()));
        let known = match undecided {
            Some(pending) => rings.get(&pending.conversation),
            None => Some(self.ring(rings)?),
        };
        let mut ring = known.cloned().unwrap_or_default();
        if let Some(Pending { task, step, .. }) = undecided {
            ring.task = ring.task.or_else(|| task.clone());
            ring.steps.push_back(step.clone());
        }
        ring.steps.retain(|step| step.at.mono <= self.at);
        let all = rings.values().flat_map(|ring| ring.steps.iter());
        let in_flight =
            all.filter(|step| self.was_under_way(step)).take(IN_FLIGHT_MAX).map(|step| InFlightStep {
                request: step.id,
                since: step.at.wall,
                model: step.model.clone(),
                was_cut: step.end == StepEnd::Cut,
            });
        Some(Copied { in_flight: in_flight.collect(), ring })
    }

    /// The step that this event is, if it is one: whether it is a request, and its number.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are no steps")]
    fn completed_by(&self) -> Option<(bool, u64)> {
        match &self.event.what {
            EventKind::RequestReceived(received) => Some((true, received.request.0)),
            EventKind::ToolRequested(call) => Some((false, call.call.0)),
            EventKind::ToolFinished(call) => Some((false, call.call.0)),
            _ => None,
        }
    }

    /// What speaks for a loop, newest first.
    fn matched(&self) -> &[MatchedEntry] {
        self.decision.evidence().map(|evidence| &*evidence.matched).unwrap_or_default()
    }

    /// The conversation it happened in: that of the request, of the run's hooks, or the one that moved last.
    fn ring<'r>(&self, rings: &'r BTreeMap<Hash64, Ring>) -> Option<&'r Ring> {
        let asked = |request: RequestId| holding(rings, true, request.0).map(|(_, ring)| ring);
        let named = match &self.event.what {
            EventKind::RequestReceived(received) => rings.get(&received.print.conversation),
            EventKind::ResponseCompleted(done) => asked(done.request),
            EventKind::StreamProgressed(progress) => asked(progress.request),
            EventKind::StreamAborted(aborted) => asked(aborted.request),
            EventKind::ChantDetected(chant) => asked(chant.request),
            EventKind::ToolRequested(ToolRequested { call, .. })
            | EventKind::ToolFinished(ToolFinished { call, .. }) => {
                let known = holding(rings, false, call.0).map(|(_, ring)| ring);
                known.or_else(|| rings.get(&hook_conversation(self.event.run.as_deref())))
            }
            EventKind::PromptSubmitted
            | EventKind::MessageIn { .. }
            | EventKind::MessageOut { .. }
            | EventKind::AgentActivated { .. }
            | EventKind::AgentDeactivated { .. }
            | EventKind::AgentPaused { .. }
            | EventKind::AgentResumed { .. }
            | EventKind::PolicyChanged { .. }
            | EventKind::RunStarted { .. }
            | EventKind::RunSlept
            | EventKind::RunWoke
            | EventKind::RunCompleted
            | EventKind::RunExtended { .. }
            | EventKind::GuardSnoozed { .. }
            | EventKind::GuardWoken { .. }
            | EventKind::BudgetRenewed { .. }
            | EventKind::Restarted { .. }
            | EventKind::Tick => None,
        };
        named.or_else(|| rings.values().filter(|ring| !ring.steps.is_empty()).max_by_key(|ring| ring.turn))
    }

    fn was_under_way(&self, step: &Step) -> bool {
        let is_open = match step.end {
            StepEnd::UnderWay => true,
            StepEnd::Ok | StepEnd::Failed | StepEnd::Aborted | StepEnd::Cut => {
                step.ended_at.is_some_and(|ended| ended >= self.at)
            }
            StepEnd::Refused => false,
        };
        step.is_request && step.at.mono <= self.at && is_open
    }
}

/// The conversation in which this request is, or this call.
pub(super) fn holding(rings: &BTreeMap<Hash64, Ring>, is_request: bool, id: u64) -> Option<(Hash64, &Ring)> {
    let known_by = (is_request, id);
    let found = rings.iter().find(|(_, ring)| ring.steps.iter().any(|step| step.known_by() == known_by));
    found.map(|(conversation, ring)| (*conversation, ring))
}

impl Copied {
    pub(super) fn shown(self, stop: &StopPoint<'_>, masker: &Masker) -> IncidentSteps {
        let Copied { mut ring, in_flight } = self;
        for step in &mut ring.steps {
            if stop.most != EvidenceMode::Full {
                step.mode = EvidenceMode::Redacted;
            }
        }
        // A policy may have changed on the way: what is shown follows the most that any step says.
        let is_full = ring.steps.iter().any(|step| step.mode == EvidenceMode::Full);
        let is_all_full = is_full && ring.steps.iter().all(|step| step.mode == EvidenceMode::Full);
        let of = |is_full| if is_full { EvidenceMode::Full } else { EvidenceMode::Redacted };
        let mode = of(is_full);
        let completed_by = stop.completed_by();
        let is_refused = !stop.decision.is_allowed();
        // The newest of its number: clients may use one again.
        let last = ring.steps.iter().rposition(|step| Some(step.known_by()) == completed_by);
        let last_judged = last.and_then(|at| ring.steps.get(at)?.judged);
        let nth = last_judged.unwrap_or_else(|| ring.judged.wrapping_add(1));
        let shower = Shower { masker };
        let steps = ring.steps.iter().enumerate().map(|(at, step)| {
            let is_last = Some(at) == last;
            let counts = if is_last { completing(stop) } else { counts(stop, step, nth) };
            let shown = shower.step(step, counts);
            if is_last && is_refused { KeptStep { end: StepEnd::Refused, ..shown } } else { shown }
        });
        IncidentSteps {
            mode,
            steps: steps.collect(),
            task: ring.task.as_ref().map(|task| shower.excerpt(task, of(is_all_full))),
            older: ring.older,
            in_flight,
            reason: None,
        }
    }
}

/// What the core found in this step. Requests are known by their moment, calls by how many were judged between them and the
/// `nth`, which completed it.
fn counts(stop: &StopPoint<'_>, step: &Step, nth: u32) -> StepCounts {
    let back = step.judged.map(|judged| nth.wrapping_sub(judged));
    let found = stop.matched().iter().find(|found| match found.ago_ms {
        Some(ago) => step.is_request && stop.at.since(step.at.mono) == ago && step.end != StepEnd::Refused,
        None => back == Some(u32::from(found.back)),
    });
    found.map_or(StepCounts::default(), |found| StepCounts {
        prompt: found.prompt,
        response: found.response,
        step: found.step,
    })
}

/// The step that completes what the others began.
fn completing(stop: &StopPoint<'_>) -> StepCounts {
    let any = |is: fn(&MatchedEntry) -> bool| stop.matched().iter().any(is);
    StepCounts { prompt: any(|found| found.prompt), response: false, step: any(|found| found.step) }
}

/// Steps that were kept in full, as `redacted` keeps them.
pub fn redacted(steps: IncidentSteps, masker: &Masker) -> IncidentSteps {
    let shower = Shower { masker };
    let text = |kept: Excerpt| {
        let whole =
            kept.of_bytes.map_or(kept.text.len(), |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        shower.excerpt(&Head { text: kept.text.into(), whole }, EvidenceMode::Redacted)
    };
    let used = |used: ToolUse| ToolUse { args: text(used.args), result: used.result.map(text), ..used };
    let step = |step: KeptStep| KeptStep {
        asked: step.asked.map(text),
        did: step.did.into_iter().map(used).collect(),
        answer: step.answer.map(text),
        calls: step.calls.into_iter().map(used).collect(),
        ..step
    };
    IncidentSteps {
        mode: EvidenceMode::Redacted,
        task: steps.task.map(text),
        steps: steps.steps.into_iter().map(step).collect(),
        ..steps
    }
}

struct Shower<'a> {
    masker: &'a Masker,
}

impl Shower<'_> {
    fn step(&self, step: &Step, counts: StepCounts) -> KeptStep {
        let mode = step.mode;
        let excerpt = |head: &Head| self.excerpt(head, mode);
        let tool = |tool: &ToolHeads| ToolUse {
            tool: self.masker.text(&tool.tool).into(),
            args: excerpt(&tool.args),
            result: tool.result.as_ref().map(excerpt),
            ended: tool.result.as_ref().map(|_| tool.ended),
        };
        let answer = step.answer.as_ref();
        KeptStep {
            at: step.at.wall,
            request: step.is_request.then_some(step.id),
            model: step.model.as_ref().map(|model| self.masker.text(model).into()),
            asked: step.asked.as_ref().map(excerpt),
            did: step.did.iter().map(tool).collect(),
            more: step.more,
            answer: answer.and_then(|answer| answer.text.as_ref()).map(excerpt),
            calls: answer.map(|answer| answer.calls.iter().map(tool).collect()).unwrap_or_default(),
            input_tokens: step.input_tokens,
            output_tokens: step.output_tokens,
            usd: step.usd,
            took_ms: step.ended_at.filter(|_| step.is_request).map(|ended| ended.since(step.at.mono)),
            end: step.end,
            counts,
        }
    }

    /// Masked first, cut then: half a secret is not known by its form.
    fn excerpt(&self, head: &Head, mode: EvidenceMode) -> Excerpt {
        let (text, chars) = match mode {
            EvidenceMode::Off => return Excerpt::default(),
            EvidenceMode::Redacted => (self.masker.text(whole_words(head)), EXCERPT_CHARS),
            EvidenceMode::Full => ((&*head.text).into(), WHOLE_CHARS),
        };
        let end = text.char_indices().nth(chars).map(|(end, _)| end);
        let is_cut = head.is_cut() || end.is_some();
        Excerpt {
            text: text[..end.unwrap_or(text.len())].to_owned(),
            of_bytes: is_cut.then_some(head.whole as u64),
        }
    }
}

/// A text without its last word, if that was cut off: it could be the first half of a secret.
fn whole_words(head: &Head) -> &str {
    if !head.is_cut() {
        return &head.text;
    }
    let last = head.text.rfind(|c: char| c.is_whitespace() || "\"'`,;&<>(){}[]|".contains(c));
    last.map_or("", |last| &head.text[..last])
}
