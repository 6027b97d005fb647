//! What led to an incident, printed: the sentence, what to do, cost and waste, the steps, what was under way.

use estop_config::printable::{escaped, escaped_lines, named};
use serde_json::Value;

use super::table::{cell, each, moment};

/// An incident with its steps, for people.
pub(super) fn text(incident: &Value) -> String {
    let mut lines = vec![line(&incident["sentence"])];
    let run = incident["run"].as_str().map(|run| format!(", run {}", escaped(run))).unwrap_or_default();
    lines.push(format!(
        "{}: {}, {}, agent {}{run}, since {}",
        cell(&incident["id"]),
        cell(&incident["status"]),
        cell(&incident["kind"]),
        cell(&incident["agent"]),
        moment(&incident["opened_at"]),
    ));
    lines.push(format!("Cost: {}", cost(incident)));
    lines.push(format!("Why: {}", line(&incident["summary"])));
    put_story(&mut lines, incident, "the stop");
    lines.join("\n")
}

/// An event by which nobody was stopped, with its steps, for people.
pub(super) fn event_text(event: &Value) -> String {
    let mut lines = vec![line(&event["sentence"])];
    let kind = event["event_type"].as_str().unwrap_or_default().replace('_', " ");
    let (seq, agent, at) = (cell(&event["seq"]), cell(&event["agent"]), moment(&event["at"]));
    lines.push(format!("record {seq}: {}, agent {agent}, at {at}", escaped(&kind)));
    lines.push(format!("Cost: {}", cost(event)));
    put_story(&mut lines, event, "then");
    lines.join("\n")
}

fn put_story(lines: &mut Vec<String>, incident: &Value, until: &str) {
    lines.push("\nWhat to do:".to_owned());
    let todo = each(&incident["what_to_do"]).iter().enumerate();
    lines.extend(todo.map(|(at, step)| format!("  {}. {}", at + 1, line(step))));
    lines.push(format!("\nSteps up to {until} (those that count as repetition are marked *):"));
    if let Some(task) = incident["task"]["text"].as_str() {
        lines.push(format!("  task: {}", indented(task)));
    }
    match incident["older_steps"].as_u64() {
        None | Some(0) => {}
        Some(older) => lines.push(format!("  {older} older steps are not kept")),
    }
    lines.extend(incident["steps_missing"].as_str().map(|why| format!("  {}", escaped(why))));
    for step in each(&incident["steps"]) {
        put_step(lines, step);
    }
    if !each(&incident["in_flight"]).is_empty() {
        lines.push("\nIn progress when it was stopped:".to_owned());
    }
    for open in each(&incident["in_flight"]) {
        let end = if open["was_cut"] == true { "estop ended it" } else { "not over by then" };
        let (request, model) = (cell(&open["request"]), cell(&open["model"]));
        lines.push(format!("  request {request} since {}, {model}: {end}", moment(&open["since"])));
    }
}

fn cost(incident: &Value) -> String {
    let amount = |of: &Value| {
        let usd = of["usd"].as_f64().unwrap_or(0.0);
        format!("${usd:.4}, {} tokens", of["tokens"].as_u64().unwrap_or(0))
    };
    let steps = each(&incident["steps"]).len();
    let wasted = &incident["wasted"];
    let wasted = wasted["ms"]
        .as_u64()
        .map(|ms| format!("; wasted: {} in {} without anything new", amount(wasted), seconds(ms)));
    format!("{} for the {steps} steps below{}", amount(&incident["cost"]), wasted.unwrap_or_default())
}

/// A length of time; what is shorter than ten seconds to the tenth.
fn seconds(ms: u64) -> String {
    if ms < 10_000 { format!("{}.{} s", ms / 1_000, ms % 1_000 / 100) } else { format!("{} s", ms / 1_000) }
}

fn put_step(lines: &mut Vec<String>, step: &Value) {
    let counts: Vec<&str> = each(&step["counts"]).iter().filter_map(Value::as_str).collect();
    let mark = if counts.is_empty() { ' ' } else { '*' };
    let request = match step["request"].as_u64() {
        Some(request) => format!("request {request}"),
        None => "tool call".to_owned(),
    };
    let model = step["model"].as_str().map(|model| format!(", {}", named(model))).unwrap_or_default();
    let usd = step["usd"].as_f64().filter(|usd| *usd > 0.0).map(|usd| format!(", ${usd:.5}"));
    let end = step["end"].as_str().unwrap_or_default().replace('_', " ");
    let tokens = ["input_tokens", "output_tokens"].map(|key| step[key].as_u64().unwrap_or(0));
    let tokens =
        if tokens == [0, 0] { String::new() } else { format!(", {} + {} tokens", tokens[0], tokens[1]) };
    let counts = if counts.is_empty() { String::new() } else { format!(" (repeats: {})", counts.join(", ")) };
    let at = moment(&step["at"]);
    lines.push(format!("{mark} {at}  {request}, {end}{model}{tokens}{}{counts}", usd.unwrap_or_default()));
    let mut put = |label: String, excerpt: &Value| {
        if let Some(text) = excerpt["text"].as_str() {
            let more = excerpt["of_bytes"].as_u64().map(|bytes| format!(" … of {bytes} bytes"));
            lines.push(format!("      {label}: {}{}", indented(text), more.unwrap_or_default()));
        }
    };
    put("a person said".to_owned(), &step["asked"]);
    for used in each(&step["did"]) {
        let (did, got) = labels(used);
        put(did, &used["args"]);
        put(got, &used["result"]);
    }
    put("the model said".to_owned(), &step["answer"]);
    for call in each(&step["calls"]) {
        put(format!("the model calls {}", named(call["tool"].as_str().unwrap_or_default())), &call["args"]);
    }
}

/// How the texts of a tool call are introduced. Agents that act in their answers have no tools with names: the text is the answer,
/// and its result what they were told next.
fn labels(used: &Value) -> (String, String) {
    let failed = used["failed"] == true;
    match used["tool"].as_str().filter(|tool| !tool.is_empty()) {
        Some(tool) if failed => (named(tool), "failed with".to_owned()),
        Some(tool) => (named(tool), "returned".to_owned()),
        None if failed => ("it had answered".to_owned(), "and was told of a failure".to_owned()),
        None => ("it had answered".to_owned(), "and was told".to_owned()),
    }
}

fn line(text: &Value) -> String {
    text.as_str().map(escaped).unwrap_or_default()
}

/// A text whose further lines stand under its first.
fn indented(text: &str) -> String {
    escaped_lines(text).replace('\n', "\n        ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ev_1_an_incident_is_printed_with_its_steps_and_nothing_that_a_terminal_obeys() {
        let incident = json!({
            "id": "coder-7", "status": "open", "kind": "loop", "agent": "coder", "run": null,
            "opened_at": "2026-11-17T10:00:00Z", "summary": "Loop.",
            "sentence": "coder called get_weather({\"city\":\"Berlin\"}) 5 times.",
            "what_to_do": ["Look at the steps."], "task": {"text": "look\u{1b}[2J"}, "older_steps": 3,
            "steps_missing": null, "cost": {"usd": 0.25, "tokens": 900},
            "wasted": {"steps": 4, "ms": 12_000, "usd": 0.125, "tokens": 800},
            "steps": [{"at": "2026-11-17T10:00:00Z", "request": 4, "model": "m", "asked": null, "more": 0,
                "did": [{"tool": "get_weather", "args": {"text": "{}"}, "failed": false,
                    "result": {"text": "rain\nand\u{202e}wind", "of_bytes": 5_000}}],
                "answer": {"text": "It rains."}, "calls": [], "input_tokens": 5, "output_tokens": 3, "usd": 0.01,
                "took_ms": 5, "end": "ok", "counts": ["tool call"]}],
            "in_flight": [{"request": 9, "since": "2026-11-17T10:00:00Z", "model": null, "was_cut": true}],
        });
        let shown = text(&incident);
        for part in [
            "coder called get_weather",
            "$0.2500, 900 tokens for the 1 steps below; wasted: $0.1250, 800 tokens in 12 s",
            "1. Look at the steps.",
            "3 older steps",
            "request 4, ok, m, 5 + 3 tokens, $0.01000 (repeats: tool call)",
            "get_weather: {}",
            "rain\n        and\\u{202e}wind … of 5000 bytes",
            "the model said: It rains.",
            "request 9",
            "look\\u{1b}[2J",
        ] {
            assert!(shown.contains(part), "{part} is not in\n{shown}");
        }
        assert!(!shown.contains(['\u{1b}', '\u{202e}']));
    }
}
