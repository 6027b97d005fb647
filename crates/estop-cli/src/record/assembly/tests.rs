//! What becomes of requests that do not follow from what was recorded before.

use estop_core::run::test_command::TestRunners;

use super::*;
use crate::trace::Trace as Read;

fn assembled(lines: &[Value]) -> Vec<Value> {
    let mut assembly = Assembly::new("coder", jiff::Timestamp::UNIX_EPOCH);
    lines.iter().for_each(|line| assembly.add(line));
    assembly.finish()
}

fn request(n: u64, last_user: &str, continues: bool, steps: &Value) -> Value {
    json!({"request": n, "at_ms": n * 1_000, "conversation": "c", "dropped": 0, "last_user": last_user,
        "continues": continues, "text_bytes": 100 * n, "steps": steps})
}

fn answer(n: u64, text: &str, ended: &str) -> Value {
    json!({"answer": n, "at_ms": n * 1_000 + 500, "text": text, "calls": [], "ended": ended})
}

fn step(tool: &str, args: &str, result: &str) -> Value {
    json!({"tool": tool, "args": args, "result": result, "ended": "ok"})
}

/// What `estop eval` sees of each request: the newest words, whether it continues, and its steps.
fn judged(trace: &Value) -> Vec<(String, bool, Vec<[String; 3]>)> {
    let read = Read::parse(trace.to_string().as_bytes()).expect("a trace");
    let runners = TestRunners::default();
    let seen = read.exchanges(&runners).map(|exchange| {
        let request = exchange.request;
        let steps = request.steps.iter().map(|step| [step.tool, step.args, step.result].map(str::to_owned));
        (request.last_user.to_owned(), request.continues, steps.collect())
    });
    seen.collect()
}

fn owned(steps: &[[&str; 3]]) -> Vec<[String; 3]> {
    steps.iter().map(|step| step.map(str::to_owned)).collect()
}

#[test]
fn ld_7_what_was_done_before_it_was_recorded_is_no_step() {
    let traces = assembled(&[
        request(1, "go", true, &json!([step("ls", "{}", "a")])),
        answer(1, "", "ok"),
        request(2, "go", true, &json!([step("cat", "{}", "b"), step("cat", "{\"n\":1}", "c")])),
    ]);
    let expected = [
        ("go".to_owned(), true, owned(&[["ls", "{}", "a"]])),
        ("go".to_owned(), true, owned(&[["cat", "{}", "b"], ["cat", "{\"n\":1}", "c"]])),
    ];
    assert_eq!(judged(&traces[0]), expected, "{}", traces[0]);
    assert_eq!(
        (&traces[0]["meta"]["earlier"], traces[0]["meta"]["at"].clone()),
        (&json!(1), json!([0.0, 1.0]))
    );
    assert_eq!(traces[0]["meta"]["answered"], json!([0.5, null]));
}

#[test]
fn ld_7_a_history_that_was_rewritten_goes_on_in_a_new_part_and_says_so() {
    let traces = assembled(&[
        request(1, "go", false, &json!([])),
        answer(1, "I will look.", "ok"),
        request(2, "something else", false, &json!([])),
        answer(2, "Fine.", "ok"),
        request(3, "thanks", false, &json!([step("", "Fine.", "thanks")])),
    ]);
    assert_eq!(traces.len(), 2, "{traces:?}");
    assert_eq!(judged(&traces[0]), [("go".to_owned(), false, owned(&[]))]);
    let expected = [
        ("something else".to_owned(), false, owned(&[])),
        ("thanks".to_owned(), false, owned(&[["", "Fine.", "thanks"]])),
    ];
    assert_eq!(judged(&traces[1]), expected);
    let meta = &traces[1]["meta"];
    assert_eq!((&meta["part"], &meta["after"]), (&json!(2), &json!("the history was rewritten")));
    assert_ne!(traces[0]["id"], traces[1]["id"]);
}

#[test]
fn ld_7_a_gap_begins_a_new_part_and_a_shorter_history_is_noted() {
    let mut gap = request(3, "go", true, &json!([step("ls", "{}", "a")]));
    gap["dropped"] = json!(1);
    let mut shorter = request(2, "go", true, &json!([step("ls", "{}", "a")]));
    shorter["text_bytes"] = json!(10);
    let traces = assembled(&[
        request(1, "go", false, &json!([])),
        answer(1, "", "ok"),
        shorter,
        answer(2, "", "ok"),
        gap,
    ]);
    assert_eq!(traces[0]["meta"]["shortened"], json!([2]));
    assert_eq!(traces[1]["meta"]["after"], "something was left out");
    assert_eq!(judged(&traces[1]), [("go".to_owned(), true, owned(&[["ls", "{}", "a"]]))]);
}

#[test]
fn ld_7_results_alone_find_their_calls_and_a_retry_stands_once() {
    let mut called = answer(1, "", "ok");
    called["calls"] = json!([{"id": "x", "tool": "ls", "args": "{\"a\":1}"}]);
    let result = json!([{"tool": "", "args": "", "result": "b", "ended": "failed", "call_id": "x"}]);
    let again = request(2, "go", true, &result);
    let traces = assembled(&[
        request(1, "go", false, &json!([])),
        called,
        again.clone(),
        answer(2, "", "failed"),
        again,
        answer(2, "Done.", "ok"),
    ]);
    let expected =
        [("go".to_owned(), false, owned(&[])), ("go".to_owned(), true, owned(&[["ls", "{\"a\":1}", "b"]]))];
    assert_eq!(judged(&traces[0]), expected, "{}", traces[0]);
    assert_eq!(traces[0]["meta"]["retried"], 1);
    let messages = traces[0]["messages"].as_array().expect("messages");
    assert_eq!((&messages[2]["ended"], &messages[3]["content"]), (&json!("failed"), &json!("Done.")));
}
