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
    if status["ending"] == true {
        return format!("{state}, BUT ENDING: no new connection is taken; answers in progress may end");
    }
    match status["journalProblem"].as_str() {
        Some(problem) if status["state"] == "running" => format!("{state}, BUT NOTHING PASSES: {problem}"),
        _ => match status["stuckParts"][0]["problem"].as_str() {
            Some(problem) => format!("{state}, BUT STUCK: {problem}"),
            None => state,
        },
    }
}

/// What to add if it is not on the disk.
pub(super) fn persisted(done: &Value) -> &'static str {
    if done["persisted"] == false {
        "\nNOT SAVED: it is in force, but a restart would not know of it. Fix the disk; estop tries again every second."
    } else {
        ""
    }
}
