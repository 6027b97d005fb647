//! What led to an incident, as the page shows it. Texts of agents are made harmless where every page is.

use estop_core::printable::named;

use crate::evidence::{ExcerptOut, StepOut, Story, ToolUseOut};

/// What led to an incident.
pub(super) struct Shown {
    pub(super) sentence: String,
    pub(super) task: Option<String>,
    pub(super) what_to_do: Vec<String>,
    /// The minute of the stop.
    pub(super) since: String,
    /// What it cost in all, in one line; empty = it is no agent's.
    pub(super) costs: String,
    /// Cost and waste, in words.
    pub(super) cost: String,
    pub(super) wasted: Option<String>,
    pub(super) steps: Vec<StepRow>,
    pub(super) older: u32,
    pub(super) missing: Option<String>,
    /// How the steps are kept, in words; empty = there are none.
    pub(super) kept: String,
    pub(super) repeats: Vec<Compared>,
    pub(super) in_flight: Vec<InFlightRow>,
}

pub(super) struct StepRow {
    pub(super) at: String,
    /// The time of day.
    pub(super) clock: String,
    /// What of it counts as repetition; empty = nothing.
    pub(super) counts: String,
    pub(super) parts: Vec<Part>,
    pub(super) facts: String,
}

/// One text of a step.
pub(super) struct Part {
    pub(super) label: String,
    pub(super) text: String,
    /// How much of the text is not shown; empty = nothing.
    pub(super) cut: String,
}

/// The same part of two steps.
pub(super) struct Compared {
    pub(super) label: String,
    pub(super) earlier: String,
    pub(super) latest: String,
    pub(super) same: bool,
}

pub(super) struct InFlightRow {
    pub(super) request: u64,
    pub(super) since: String,
    pub(super) model: String,
    pub(super) end: &'static str,
}

impl Shown {
    pub(super) fn of(story: Story, opened_at: &str, is_system: bool) -> Shown {
        let repeats = story.repeats().map(|(latest, earlier)| compare(earlier, latest)).unwrap_or_default();
        let wasted = story.wasted.as_ref().map(|wasted| {
            let (seconds, tenths) = (wasted.ms / 1_000, wasted.ms % 1_000 / 100);
            let seconds = if seconds < 10 { format!("{seconds}.{tenths}") } else { seconds.to_string() };
            let steps = if wasted.steps > 0 { format!(" for {} steps", wasted.steps) } else { String::new() };
            format!("{}{steps} in {seconds} s without anything new", wasted.amount.words())
        });
        let costs = match &story.wasted {
            Some(_) | None if is_system => String::new(),
            Some(wasted) => format!("Cost {}; {} wasted.", story.cost.words(), wasted.amount.words()),
            None => format!("Cost {}.", story.cost.words()),
        };
        let steps = story.steps.len();
        let cost = if is_system {
            String::new()
        } else {
            format!("{} for the {steps} steps below", story.cost.words())
        };
        let kept = match story.evidence_mode {
            Some("full") => "Kept as they were, secrets included (evidence: full).",
            Some(_) => "Secrets are masked; each text is cut after 300 characters.",
            None => "",
        };
        Shown {
            since: format!("{} UTC", opened_at.get(..16).unwrap_or_default().replace('T', " ")),
            costs,
            cost,
            wasted,
            repeats,
            sentence: story.sentence,
            task: story.task.map(|task| task.text),
            what_to_do: story.what_to_do,
            steps: story.steps.iter().map(StepRow::of).collect(),
            older: story.older_steps,
            missing: story.steps_missing,
            kept: kept.to_owned(),
            in_flight: story
                .in_flight
                .into_iter()
                .map(|step| InFlightRow {
                    request: step.request,
                    since: step.since,
                    model: step.model.unwrap_or_default(),
                    end: if step.was_cut { "estop ended it" } else { "not over by then" },
                })
                .collect(),
        }
    }
}

impl StepRow {
    fn of(step: &StepOut) -> StepRow {
        let usd = if step.usd > 0.0 { format!(", ${:.5}", step.usd) } else { String::new() };
        let tokens = match step.input_tokens + step.output_tokens {
            0 => String::new(),
            _ => format!(", {} + {} tokens", step.input_tokens, step.output_tokens),
        };
        let took =
            step.took_ms.map(|ms| format!(", {}.{} s", ms / 1_000, ms % 1_000 / 100)).unwrap_or_default();
        let what = match (step.request, step.end) {
            (Some(request), "ok") => format!("request {request}"),
            (Some(request), end) => format!("request {request}: {}", end.replace('_', " ")),
            (None, "refused") => "tool call, refused".to_owned(),
            (None, _) => "tool call".to_owned(),
        };
        let model = step.model.as_deref().map(|model| format!(", {}", named(model))).unwrap_or_default();
        StepRow {
            at: step.at.clone(),
            clock: clock(&step.at),
            counts: step.counts.join(", "),
            parts: parts(step),
            facts: format!("{what}{model}{tokens}{usd}{took}"),
        }
    }
}

/// The time of day of a moment, to the millisecond.
fn clock(at: &str) -> String {
    at.parse::<jiff::Timestamp>().map(|at| at.strftime("%H:%M:%S%.3f").to_string()).unwrap_or_default()
}

fn parts(step: &StepOut) -> Vec<Part> {
    let mut parts = Vec::new();
    parts.extend(step.asked.as_ref().map(|asked| part("a person said".to_owned(), asked)));
    for used in &step.did {
        let (did, got) = used.labels();
        parts.push(part(did, &used.args));
        parts.extend(used.result.as_ref().map(|text| part(got, text)));
    }
    parts.extend(step.answer.as_ref().map(|answer| part("the model said".to_owned(), answer)));
    let wants = |used: &ToolUseOut| part(format!("the model calls {}", named(&used.tool)), &used.args);
    parts.extend(step.calls.iter().map(wants));
    parts
}

fn part(label: String, text: &ExcerptOut) -> Part {
    let cut = text.of_bytes.map(|bytes| format!("… of {bytes} bytes")).unwrap_or_default();
    Part { label, text: text.text.clone(), cut }
}

/// Two steps, part by part.
fn compare(earlier: &StepOut, latest: &StepOut) -> Vec<Compared> {
    let (mut left, mut right) = (parts(earlier).into_iter(), parts(latest).into_iter());
    let mut rows = Vec::new();
    loop {
        let (left, right) = (left.next(), right.next());
        if left.is_none() && right.is_none() {
            return rows;
        }
        let label = right.as_ref().or(left.as_ref()).map(|part| part.label.clone()).unwrap_or_default();
        let text = |part: Option<Part>| part.map(|part| part.text).unwrap_or_default();
        let (earlier, latest) = (text(left), text(right));
        rows.push(Compared { same: earlier == latest, label, earlier, latest });
    }
}

#[cfg(test)]
mod tests {
    use super::clock;

    #[test]
    fn ev_1_a_step_has_its_time_to_the_millisecond() {
        let times =
            ["2026-11-19T11:37:40.04Z", "2026-11-19T11:37:40Z", "2026-11-19T11:37:40.047Z"].map(clock);
        assert_eq!(times, ["11:37:40.040", "11:37:40.000", "11:37:40.047"]);
    }
}
