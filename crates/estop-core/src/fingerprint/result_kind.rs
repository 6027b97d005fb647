//! What came back of a call, as far as it can be told from its text (LD-8): codes first, words last.
//!
//! It only weighs how much a new call is worth as progress. Whether a test failed or a tool's health suffers is told by
//! [`crate::ended`], which believes less.

use std::borrow::Cow;

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
/// A longer text says more than a count.
const COUNT_BYTES_MAX: usize = 80;

/// Words that tell of a failure.
const WORDS: &[&str] = &[
    "cannot",
    "could not",
    "denied",
    "does not exist",
    "error",
    "errors",
    "exception",
    "expired",
    "failed",
    "failure",
    "fatal",
    "forbidden",
    "incorrect",
    "invalid",
    "no such",
    "not allowed",
    "not found",
    "not match",
    "not permitted",
    "refused",
    "rejected",
    "timed out",
    "timeout",
    "unable",
    "unauthorized",
    "unavailable",
    "unknown",
    "wrong",
];
/// Words that tell of a failure at the beginning of the last line, also where the command is said to have worked.
const VERDICTS: &[&str] = &["error", "fail", "failed", "fatal"];
/// Words that tell of a failure at the beginning of a line, also in a long result.
const AT_LINE_START: &[&str] = &["error", "failed", "fatal", "traceback"];

impl ResultKind {
    pub(crate) fn is_content(&self) -> bool {
        *self == ResultKind::Content
    }

    /// What a result is, of a call that ended so.
    pub(crate) fn of(call: &CallWords, result: &str, ended: Ended) -> ResultKind {
        let payload = payload(result.trim_ascii());
        let text = payload.trim_ascii();
        if ended != Ended::Failed && (is_empty_json(call, text) || counts_nothing(text)) {
            return ResultKind::Nothing;
        }
        let failed = match ended {
            Ended::Failed => true,
            // A command that worked may have brought back an error of somebody else. Of a pipe only the last command has a say in
            // that: what a check says at its end is believed.
            Ended::Ok => has_code(&ends(text)) || ends_with_failure(text),
            Ended::Unknown => tells_failure(result.trim_ascii(), text),
        };
        if failed { ResultKind::Failure } else { ResultKind::Content }
    }
}

/// What a command printed, without what its client says about it: `{"output": …, "metadata": …}`, or all after a line `Output:`.
fn payload(text: &str) -> Cow<'_, str> {
    if text.starts_with('{') && text.len() <= JSON_MAX {
        steps::add(text.len());
        let fields =
            serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text).unwrap_or_default();
        let printed = ["output", "stdout"].iter().find_map(|key| fields.get(*key)?.as_str());
        if let Some(printed) = printed.filter(|printed| !printed.trim_ascii().is_empty()) {
            return Cow::Owned(printed.to_owned());
        }
    }
    let head = &text[..text.floor_char_boundary(ENDS)];
    steps::add(head.len());
    head.find("\nOutput:\n")
        .map_or(Cow::Borrowed(text), |at| Cow::Borrowed(&text[at + "\nOutput:\n".len()..]))
}

/// `(0 rows)`, `No results found.`, and nothing else.
fn counts_nothing(text: &str) -> bool {
    if text.len() > COUNT_BYTES_MAX {
        return false;
    }
    let text = text.to_ascii_lowercase();
    let mut words =
        text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty() && *word != "observation");
    let none = words.next().is_some_and(|word| matches!(word, "0" | "no"));
    let of = words.next().is_some_and(|word| {
        matches!(
            word,
            "files" | "hits" | "items" | "match" | "matches" | "records" | "results" | "result" | "rows"
        )
    });
    none && of && words.all(|word| matches!(word, "found" | "returned" | "selected"))
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
        Value::Object(fields) => fields.iter().all(|(key, value)| {
            is_empty(call, value)
                || value.is_number() && is_of_paging(key)
                || value.is_string() && is_status(key)
        }),
    }
}

/// Where in a list something is, or how long the list is.
fn is_of_paging(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    ["count", "last", "limit", "offset", "page", "size", "time", "took", "total"]
        .iter()
        .any(|word| key.contains(word))
}

fn is_status(key: &str) -> bool {
    ["code", "message", "status"].iter().any(|word| key.eq_ignore_ascii_case(word))
}

/// A list of what is wrong is empty if all is well.
fn is_of_problems(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    ["error", "fail", "issue", "problem", "violation", "warning"].iter().any(|word| key.contains(word))
}

fn has_list(value: &serde_json::Value) -> bool {
    use serde_json::Value;
    match value {
        Value::Array(_) => true,
        Value::Object(fields) => fields.iter().any(|(key, value)| !is_of_problems(key) && has_list(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn tells_failure(whole: &str, printed: &str) -> bool {
    let is_short = printed.len() <= SHORT;
    let ends = ends(printed);
    if has_code(&ends) {
        return true;
    }
    // An exit code says more than words do.
    if let Some(code) = self::ends(whole).iter().find_map(|part| exit_code(part)) {
        return code != 0;
    }
    ends.iter().any(|part| {
        part.lines().any(|line| AT_LINE_START.iter().any(|word| begins_with(line.trim_start(), word)))
            || (is_short && WORDS.iter().any(|word| has_word(part, word)))
    })
}

/// Whether the last line is a verdict: `FAILED (failures=2)`, `=== 1 failed, 3 passed ===`, `error: test failed`.
fn ends_with_failure(text: &str) -> bool {
    let tail = &text[text.ceil_char_boundary(text.len().saturating_sub(ENDS))..];
    steps::add(tail.len());
    let Some(line) = tail.lines().rev().find(|line| !line.trim().is_empty()) else { return false };
    let line = line.trim_matches(|c: char| matches!(c, '=' | '-' | '*' | '#' | '!') || c.is_whitespace());
    let line = line.to_ascii_lowercase();
    let counted = line.trim_start_matches("tests: ").split_once(' ');
    let counts_some = counted.is_some_and(|(count, of)| {
        count.parse().is_ok_and(|count: u32| count > 0) && begins_with(of, "failed")
    });
    counts_some || VERDICTS.iter().any(|word| begins_with(&line, word))
}

/// The beginning and the end of a text, in lower case.
fn ends(text: &str) -> [String; 2] {
    steps::add(16 * ENDS);
    let head = &text[..text.floor_char_boundary(ENDS)];
    let tail = &text[text.ceil_char_boundary(text.len().saturating_sub(ENDS))..];
    [head, tail].map(str::to_ascii_lowercase)
}

fn exit_code(text: &str) -> Option<u64> {
    let said = ["exit code", "exit status", "exited with code", "exited with status", "exited with"];
    said.iter().find_map(|said| number_after(text, said, 3))
}

/// An HTTP status of 400 or more, an exit code that is not 0, or JSON that says so.
fn has_code(ends: &[String; 2]) -> bool {
    ends.iter().any(|part| has_code_in(part))
}

fn has_code_in(text: &str) -> bool {
    let json = [("\"success\"", "false"), ("\"ok\"", "false"), ("\"is_error\"", "true")];
    let http = ["http", "status"];
    json.iter().any(|(key, value)| has_field(text, key, |said| said.starts_with(value)))
        || http.iter().any(|said| number_after(text, said, 12).is_some_and(|code| (400..600).contains(&code)))
        || ["\"exit_code\"", "\"returncode\""]
            .iter()
            .any(|key| has_field(text, key, |said| said.starts_with(|c: char| matches!(c, '1'..='9' | '-'))))
        || has_field(text, "\"error\"", |said| {
            !["null", "false", "\"\"", "0", "{}", "[]"].iter().any(|none| said.starts_with(none))
        })
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
        let is_whole = !rest.get(digits).is_some_and(u8::is_ascii_alphanumeric);
        // A host may begin with digits.
        if !(1..=9).contains(&digits) || !is_whole || text[at + word.len()..].starts_with("://") {
            return None;
        }
        std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
    })
}

/// Whether a field of JSON has such a value.
fn has_field(text: &str, key: &str, is: impl Fn(&str) -> bool) -> bool {
    text.match_indices(key).take(8).any(|(at, said)| {
        let value = text[at + said.len()..].trim_start().strip_prefix(':');
        value.is_some_and(|value| is(value.trim_start()))
    })
}

fn begins_with(line: &str, word: &str) -> bool {
    line.strip_prefix(word).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
}

fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let is_letter = |c: char| c.is_alphanumeric() || c == '_';
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        // Before a quote it may be the name of a field that is empty.
        let is_whole =
            !before.ends_with(is_letter) && !after.starts_with(is_letter) && !after.starts_with('"');
        // `0 failed`, `0 rows rejected`, `no errors`.
        let mut words = before.split_ascii_whitespace().rev().take(2);
        // `failed=0`, `errors: 0`.
        let count = after.trim_start_matches(['=', ':', ' ']);
        let counts_none =
            count.len() < after.len() && count.starts_with('0') && !count[1..].starts_with(is_letter);
        is_whole && !counts_none && !words.any(|word| matches!(word, "0" | "no" | "without"))
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
            r#"{"status": "ZERO_RESULTS", "results": []}"#,
        ] {
            assert_eq!(of(empty, Ended::Unknown), ResultKind::Nothing, "{empty}");
        }
        for empty in [
            "(0 rows)",
            "No results found.",
            "Observation: (0 rows)",
            "{\"output\": \"[]\\n\", \"metadata\": {\"exit_code\": 0}}",
        ] {
            assert_eq!(of(empty, Ended::Ok), ResultKind::Nothing, "{empty}");
        }
        for failed in [
            "(1054, \"Unknown column 'x' in 'field list'\")",
            "Chunk ID: 1\nProcess exited with code 0\nOutput:\nHTTP/2 401\ndate: x",
            "HTTP 429 Too Many Requests",
            "HTTP/1.1 503 Service Unavailable",
            r#"{"status":404,"title":"x"}"#,
            r#"{"status_code": 500}"#,
            r#"{"error":"customer_unknown"}"#,
            r#"{"success": false}"#,
            r#"{"is_error" : true}"#,
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
            "saved to http://500px.example/1",
            "status 404th of 900",
            "test result: ok. 12 passed; 0 failed",
            "Compiled with no errors.",
            "null",
            "{}",
            r#"{"stdout": "", "stderr": "", "exit_code": 0}"#,
            r#"{"error": null, "rows": 3}"#,
            r#"{"errors": [], "files": 42}"#,
            "3 files changed",
            "finished, 0 rows rejected",
            "till-12.store : ok=6 changed=2 unreachable=0 failed=0",
            r#"{"status": "ok", "errors": []}"#,
            r#"{"id": 17, "name": "Tove", "tags": []}"#,
            "The terrors of the deep, unfailing",
            "You go west. Position (-4, 0), energy 196.",
        ] {
            assert_eq!(of(fine, Ended::Unknown), ResultKind::Content, "{fine}");
        }
        assert_eq!(of("an error", Ended::Ok), ResultKind::Content, "an exit code of 0 is believed");
        for verdict in [
            "FAIL: test_tax\n----\nRan 3 tests in 0.001s\n\nFAILED (failures=2)\n",
            "==== 1 failed, 3 passed in 0.12s ====",
            "Tests: 2 failed, 5 passed\n",
            "running 3 tests\nerror: test failed, to rerun pass `--lib`",
            "--- FAIL: TestTax\nFAIL",
            "Script completed\nOutput:\n{\"chunk_id\":\"cbdc90\",\"exit_code\":1,\"output\":\"\"}",
            r#"{"returncode": -9, "stdout": ""}"#,
        ] {
            assert_eq!(of(verdict, Ended::Ok), ResultKind::Failure, "{verdict}");
        }
        for fine in [
            "FAILED login of root\n12:00 all is well",
            "=== 0 failed, 3 passed ===",
            "src/a.rs:3: error: in a string",
            "Tests: 5 passed",
            r#"{"exit_code": 0, "output": "x"}"#,
            "failover.md",
        ] {
            assert_eq!(of(fine, Ended::Ok), ResultKind::Content, "{fine}");
        }
        let log = format!("{} error {}", "line of a log\n".repeat(60), "more lines\n".repeat(60));
        assert_eq!(of(&log, Ended::Unknown), ResultKind::Content, "a log that mentions an error");
    }
}
