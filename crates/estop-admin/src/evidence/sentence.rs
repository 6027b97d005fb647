//! What an incident was, in one sentence.

use estop_core::fingerprint::signature::action_in_text;
use estop_core::operator::{IncidentSteps, KeptStep};
use estop_core::printable::{escaped, escaped_within, named};
use estop_core::system::SYSTEM;
use estop_store::Incident;
use serde_json::Value;

use super::SETTING;

/// Characters of arguments and results in the sentence.
const IN_SENTENCE: usize = 60;

/// Which agent did what, how often.
pub(super) fn sentence(incident: &Incident, proof: &Value, kept: &IncidentSteps) -> String {
    let agent = escaped(&incident.agent);
    let Some(tool) = proof["tool"].as_str().filter(|tool| !tool.is_empty()) else {
        if let Some(said) = acted_again(kept).or_else(|| said_again(kept)) {
            return format!("{agent} {said}");
        }
        if &*incident.agent == SYSTEM {
            let summary = escaped(incident.summary.trim_end_matches('.'));
            return format!("{summary}.{}", in_progress(&proof["in_progress"]));
        }
        // What would have spared it is among the things to do.
        let summary = incident.summary.split(SETTING).next().unwrap_or_default();
        let summary = escaped(summary.trim_end());
        return if summary.contains(&agent) { summary } else { format!("{agent} was stopped. {summary}") };
    };
    let repeated = kept.steps.iter().rev().flat_map(|step| step.did.iter().rev());
    let repeated = repeated.chain(kept.steps.iter().rev().flat_map(|step| step.calls.iter().rev()));
    let call = repeated.into_iter().find(|used| *used.tool == *tool);
    let args = call.map(|call| format!("({})", escaped_within(&call.args.text, IN_SENTENCE)));
    let rule = &proof["repetition"];
    let count = |rule: &Value| rule["repeats"].as_u64();
    let times = match () {
        () if rule["back_to_back"]["period"].as_u64().is_some_and(|period| period > 1) => {
            let times = count(&rule["back_to_back"]).unwrap_or(0);
            let period = rule["back_to_back"]["period"].as_u64().unwrap_or(0);
            format!(", in the same {period} steps {times} times in a row")
        }
        () => {
            let times = [&rule["back_to_back"], &rule["within_window"], &rule["unbroken"], &proof["stretch"]];
            match times.into_iter().find_map(count).filter(|times| *times > 1) {
                Some(times) => format!(" {times} times"),
                None => String::new(),
            }
        }
    };
    let result = call.and_then(|call| call.result.as_ref()).map(|result| result.text.trim());
    let result = result.filter(|result| !result.is_empty() && !times.is_empty());
    let result =
        result.map(|result| format!(", the latest result was “{}”", escaped_within(result, IN_SENTENCE)));
    let (args, result) = (args.unwrap_or_default(), result.unwrap_or_default());
    format!("{agent} called {}{args}{times}{result}.", named(tool))
}

/// The requests to models that the pressed button found in progress; nothing if it left them alone.
fn in_progress(found: &Value) -> String {
    let requests = match found["requests"].as_u64() {
        None => return String::new(),
        Some(0) => return " No request to a model was in progress.".to_owned(),
        Some(1) => "1 request to a model was".to_owned(),
        Some(requests) => format!("{requests} requests to models were"),
    };
    let agents = found["agents"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut agents: Vec<String> = agents
        .iter()
        .map(|of| format!("{} {}", escaped(of["agent"].as_str().unwrap_or_default()), of["requests"]))
        .collect();
    match found["more_agents"].as_u64() {
        None | Some(0) => {}
        Some(more) => agents.push(format!("{more} more agents")),
    }
    format!(" {requests} in progress and ended: {}.", agents.join(", "))
}

/// The text that came again and again, if the steps that count are talk.
fn said_again(kept: &IncidentSteps) -> Option<String> {
    let repeats = |step: &&KeptStep| step.counts.prompt && step.counts.response;
    let times = kept.steps.iter().filter(repeats).count();
    let latest = kept.steps.iter().rev().find(repeats).filter(|_| times > 1)?;
    let (asked, answer) = (latest.asked.as_ref()?, latest.answer.as_ref()?);
    let [asked, answer] = [asked, answer].map(|said| escaped_within(said.text.trim(), IN_SENTENCE));
    Some(format!("was asked the same and answered the same {times} times: “{asked}” – “{answer}”."))
}

/// The action in text that came again and again, and what came of it.
fn acted_again(kept: &IncidentSteps) -> Option<String> {
    let acts = |step: &&KeptStep| step.counts.step && step.did.last().is_some_and(|did| did.tool.is_empty());
    let times = kept.steps.iter().filter(acts).count();
    let latest = kept.steps.iter().rev().find(acts).filter(|_| times > 1)?.did.last()?;
    let (wrote, told) = (latest.args.text.trim(), latest.result.as_ref()?.text.trim());
    // Its thoughts come first, and differ. Whoever only talks has no action.
    let (_, action) = action_in_text(wrote)?;
    let [action, told] = [action, told].map(|text| escaped_within(text, IN_SENTENCE));
    Some(format!("did “{action}” {times} times in its answers, and was told “{told}” each time."))
}
