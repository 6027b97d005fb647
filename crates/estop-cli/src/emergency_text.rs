//! How the red button stands, in words that several commands share.

use serde_json::Value;

use super::table::{cell, moment};

/// When the stop was last tried out, in one line.
pub(super) fn proof_test(tests: &Value) -> String {
    let last = &tests["last"];
    let mut text = if last.is_null() {
        "never".to_owned()
    } else {
        format!("{}, {}", if last["passed"] == true { "passed" } else { "FAILED" }, moment(&last["at"]))
    };
    if tests["overdue"] == true {
        text += "; due: run estop prooftest";
    }
    text
}

/// A state's name, as people say it.
pub(super) fn state(name: &Value) -> String {
    cell(name).to_uppercase()
}

/// How everything stands; and why nothing passes, if it is not the button.
pub(super) fn state_of(status: &Value) -> String {
    let state = state(&status["state"]);
    // What is broken is said first.
    match status["journalProblem"].as_str() {
        Some(problem) if status["state"] == "running" => format!("{state}, BUT NOTHING PASSES: {problem}"),
        _ => match status["stuckParts"][0]["problem"].as_str() {
            Some(problem) => format!("{state}, BUT STUCK: {problem}"),
            None if status["ending"] == true => {
                format!("{state}, BUT ENDING: no new connection is taken; answers in progress may end")
            }
            None => match shut(status).as_slice() {
                [] => state,
                [one] => format!("{state}, BUT {one} IS SHUT"),
                more => format!("{state}, BUT {} ARE SHUT", more.join(" AND ")),
            },
        },
    }
}

/// Channels on which nothing passes although the system runs.
fn shut(status: &Value) -> Vec<&'static str> {
    let channels = [("llm", "llmEnabled"), ("messaging", "messagingEnabled"), ("tools", "toolsEnabled")];
    let is_shut = |key: &str| status["state"] == "running" && status[key] == false;
    channels.into_iter().filter(|(_, key)| is_shut(key)).map(|(name, _)| name).collect()
}

/// What to add if it is not on the disk.
pub(super) fn persisted(done: &Value) -> &'static str {
    if done["persisted"] == false {
        "\nNOT SAVED: it is in force, but a restart would not know of it. Fix the disk; estop tries again every second."
    } else {
        ""
    }
}
