//! What came back of a call, as far as it can be told from its text (LD-8): codes first, words last.
//!
//! It only weighs how much a new call is worth as progress. Whether a test failed or a tool's health suffers is told by
//! [`crate::ended`], which believes less.

use serde::{Deserialize, Serialize};

use crate::ended::Ended;
use crate::fingerprint::features::CallWords;
use crate::steps;

/// What came back of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultKind {
    /// Something, or a word that it is done.
    #[default]
    Content,
    /// An empty list, or another value without anything in it. Silence is none: commands that work say nothing.
    Nothing,
    /// A failure.
    Failure,
}

/// Bytes at either end of a result in which a failure is looked for.
const ENDS: usize = 300;
/// In a result no longer than this, a word is enough.
const SHORT: usize = 600;
/// JSON up to this size is looked through for a value.
const JSON_MAX: usize = 4096;

/// Words that tell of a failure.
const WORDS: &[&str] = &[
    "cannot",
    "could not",
    "denied",
    "does not exist",
    "error",
    "errors",
    "exception",
    "failed",
    "failure",
    "fatal",
    "forbidden",
    "invalid",
    "no matches",
    "no result",
    "no results",
    "no such",
    "not found",
    "not match",
    "refused",
    "timed out",
    "timeout",
    "unable",
    "unauthorized",
];
/// Words that tell of a failure at the beginning of a line, also in a long result.
const AT_LINE_START: &[&str] = &["error", "failed", "fatal", "traceback"];

impl ResultKind {
    pub(crate) fn is_content(&self) -> bool {
        *self == ResultKind::Content
    }

    /// What a result is, of a call that ended so.
    pub(crate) fn of(call: &CallWords, result: &str, ended: Ended) -> ResultKind {
        let text = result.trim_ascii();
        if is_empty_json(call, text) {
            return ResultKind::Nothing;
        }
        match ended {
            Ended::Failed => ResultKind::Failure,
            Ended::Ok => ResultKind::Content,
            Ended::Unknown if tells_failure(text) => ResultKind::Failure,
            Ended::Unknown => ResultKind::Content,
        }
    }
}

/// `[]`, `{"results": [], "count": 0, "page": 7}`: an empty list, and nothing beside it but what the call said itself. Fields that
/// are all empty are what a command says that worked in silence.
fn is_empty_json(call: &CallWords, text: &str) -> bool {
    let may_be = matches!(text.as_bytes(), [b'[' | b'{', ..]);
    if !may_be || text.len() > JSON_MAX {
        return false;
    }
    steps::add(text.len());
    let value = serde_json::from_str::<serde_json::Value>(text);
    value.is_ok_and(|value| is_empty(call, &value) && has_list(&value))
}

fn is_empty(call: &CallWords, value: &serde_json::Value) -> bool {
    use serde_json::Value;
    match value {
        Value::Null => true,
        Value::Bool(_) => false,
        Value::Number(number) => number.as_u64() == Some(0) || call.says(&number.to_string()),
        Value::String(text) => call.says(text),
        Value::Array(list) => list.iter().all(|value| is_empty(call, value)),
        Value::Object(fields) => fields.values().all(|value| is_empty(call, value)),
    }
}

fn has_list(value: &serde_json::Value) -> bool {
    use serde_json::Value;
    match value {
        Value::Array(_) => true,
        Value::Object(fields) => fields.values().any(has_list),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn tells_failure(text: &str) -> bool {
    let is_short = text.len() <= SHORT;
    let head = &text[..text.floor_char_boundary(ENDS)];
    let tail = &text[text.ceil_char_boundary(text.len().saturating_sub(ENDS))..];
    let ends = [head, tail].map(str::to_ascii_lowercase);
    steps::add(16 * ENDS);
    // An exit code says it all.
    if let Some(code) = ends.iter().find_map(|part| exit_code(part)) {
        return code != 0;
    }
    ends.iter().any(|part| {
        has_code(part)
            || part.lines().any(|line| AT_LINE_START.iter().any(|word| begins_with(line.trim_start(), word)))
            || (is_short && WORDS.iter().any(|word| has_word(part, word)))
    })
}

fn exit_code(text: &str) -> Option<u64> {
    let said = ["exit code", "exit status", "exited with code", "exited with status", "exited with"];
    said.iter().find_map(|said| number_after(text, said, 3))
}

/// An HTTP status of 400 or more, or JSON that says so.
fn has_code(text: &str) -> bool {
    let json =
        ["\"success\":false", "\"success\": false", "\"ok\":false", "\"ok\": false", "\"is_error\":true"];
    let http = ["http", "status"];
    json.iter().any(|said| text.contains(said))
        || http.iter().any(|said| number_after(text, said, 12).is_some_and(|code| (400..600).contains(&code)))
        || has_error_field(text)
}

/// The number after a word, with at most `gap` characters between that are no letters but of `code`.
fn number_after(text: &str, word: &str, gap: usize) -> Option<u64> {
    text.match_indices(word).take(8).find_map(|(at, _)| {
        let rest = &text.as_bytes()[at + word.len()..];
        let is_between = |byte: &u8| {
            matches!(byte, b' ' | b':' | b'=' | b'"' | b'_' | b'/' | b'.' | b'c' | b'o' | b'd' | b'e')
        };
        let between = rest.iter().take(gap).take_while(|byte| is_between(byte)).count();
        // `HTTP/1.1 404`: the version is passed over.
        let rest = rest[between..]
            .strip_prefix(b"1.1 ")
            .or_else(|| rest[between..].strip_prefix(b"2 "))
            .unwrap_or(&rest[between..]);
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if !(1..=9).contains(&digits) {
            return None;
        }
        std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
    })
}

/// `"error": …` with something in it.
fn has_error_field(text: &str) -> bool {
    text.match_indices("\"error\"").take(8).any(|(at, said)| {
        let Some(value) = text[at + said.len()..].trim_start().strip_prefix(':') else { return false };
        let value = value.trim_start();
        !["null", "false", "\"\"", "0", "{}", "[]"].iter().any(|none| value.starts_with(none))
    })
}

fn begins_with(line: &str, word: &str) -> bool {
    line.strip_prefix(word).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
}

fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        // In quotes it may be the name of a field that is empty.
        let is_letter = |c: char| c.is_alphanumeric() || c == '_' || c == '"';
        let before = &text[..at];
        let none = ["0", "no", "without"]
            .iter()
            .any(|none| before.trim_end().strip_suffix(none).is_some_and(|rest| !rest.ends_with(is_letter)));
        !none && !before.ends_with(is_letter) && !text[at + word.len()..].starts_with(is_letter)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(result: &str, ended: Ended) -> ResultKind {
        ResultKind::of(&CallWords::of(r#"{"page": 41, "sort": "name"}"#), result, ended)
    }

    #[test]
    fn ld_8_nothing_a_failure_and_content_are_told_apart() {
        for empty in [
            "[]",
            "[[], []]",
            r#"{"results": []}"#,
            r#"{"count": 0, "items": [], "next": null}"#,
            r#"{"data": [], "page": 41, "request": "f3a9c27b10"}"#,
        ] {
            assert_eq!(of(empty, Ended::Unknown), ResultKind::Nothing, "{empty}");
        }
        for failed in [
            "HTTP 429 Too Many Requests",
            "HTTP/1.1 503 Service Unavailable",
            r#"{"status":404,"title":"x"}"#,
            r#"{"status_code": 500}"#,
            r#"{"error":"customer_unknown"}"#,
            r#"{"success": false}"#,
            "404 Not Found",
            "Process exited with code 2\nOutput:\nx",
            "Your search did not match any documents.",
            "cat: /x: No such file or directory",
            "Error: boom",
        ] {
            assert_eq!(of(failed, Ended::Unknown), ResultKind::Failure, "{failed}");
        }
        for fine in [
            "",
            "OK",
            "ok\nexit code: 0",
            "Command: git add a.rs\nOutput: \nError: (none)\nExit Code: 0\nSignal: (none)",
            "200 fine",
            "512 src/main.rs",
            "test result: ok. 12 passed; 0 failed",
            "Compiled with no errors.",
            "null",
            "{}",
            r#"{"stdout": "", "stderr": "", "exit_code": 0}"#,
            r#"{"error": null, "rows": 3}"#,
            r#"{"errors": [], "files": 42}"#,
            "3 files changed",
            "The terrors of the deep, unfailing",
            "You go west. Position (-4, 0), energy 196.",
        ] {
            assert_eq!(of(fine, Ended::Unknown), ResultKind::Content, "{fine}");
        }
        assert_eq!(of("error", Ended::Ok), ResultKind::Content, "an exit code of 0 is believed");
        let log = format!("{} error {}", "line of a log\n".repeat(60), "more lines\n".repeat(60));
        assert_eq!(of(&log, Ended::Unknown), ResultKind::Content, "a log that mentions an error");
    }
}
