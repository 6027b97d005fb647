//! How an execution ended: an answer, a tool call, a test run.

use serde::{Deserialize, Serialize};

use crate::steps;

/// How an execution ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// It worked.
    #[default]
    Ok,
    /// It failed: an error, a timeout, a non-zero exit.
    Failed,
    /// Nobody said.
    Unknown,
}

impl Ended {
    pub(crate) fn is_ok(&self) -> bool {
        *self == Ended::Ok
    }
}

/// What a tool's result says about how the call ended, where the protocol does not say it.
///
/// Only an exit code where clients put one, or plain words at the start of the text count: a log that mentions errors is
/// not a failure.
pub fn ended_by_text(result: &str) -> Ended {
    let whole = result.len();
    let result = result.trim_start();
    steps::add(whole - result.len() + START);
    let mut start = [0; START];
    let usual = result.as_bytes().get(..result.len().min(START)).filter(|start| start.is_ascii());
    match usual {
        Some(usual) => {
            let start = &mut start[..usual.len()];
            start.copy_from_slice(usual);
            start.make_ascii_lowercase();
            ended_by_start(std::str::from_utf8(start).unwrap_or_default(), result)
        }
        None => ended_by_start(&lower_start(result), result),
    }
}

/// Characters at the start of a text in which a failure is told.
const START: usize = 40;

fn lower_start(result: &str) -> String {
    result.chars().take(START).flat_map(char::to_lowercase).collect()
}

/// The same with the start of the text in lower case.
fn ended_by_start(start: &str, result: &str) -> Ended {
    const FAILED: &[&str] = &[
        "error",
        "traceback (most recent call last)",
        "fatal:",
        "exception:",
        "command failed",
        "failed to ",
    ];
    match exit_code(start).or_else(|| code_above(result)).or_else(|| code_beside(result)) {
        Some(0) => Ended::Ok,
        Some(_) => Ended::Failed,
        None if FAILED.iter().any(|word| start.starts_with(word)) => Ended::Failed,
        None => Ended::Unknown,
    }
}

/// Whether a result only says that the command goes on in the background (Claude Code): nobody knows its end yet.
pub fn is_still_running(result: &str) -> bool {
    result.trim_start().starts_with("Command running in background")
}

/// `exit code 1`, `exit code: 1`, `exit status 1` at the start of a result.
fn exit_code(start: &str) -> Option<i64> {
    let rest = start.strip_prefix("exit code").or_else(|| start.strip_prefix("exit status"))?;
    leading_number(rest.trim_start_matches([':', ' ']))
}

/// The code in the lines Codex puts above a command's output. The output itself is the agent's own and is not believed.
fn code_above(result: &str) -> Option<i64> {
    const ABOVE: &[&str] = &["Chunk ID:", "Wall time:", "Original token count:", EXITED];
    const EXITED: &str = "Process exited with code ";
    let is_above = |line: &&str| ABOVE.iter().any(|start| line.starts_with(start));
    // Most results have no such lines: where theirs end need not be looked for.
    if !is_above(&result) {
        return None;
    }
    let mut lines = result.lines().take(ABOVE.len()).take_while(is_above);
    lines.find_map(|line| leading_number(line.strip_prefix(EXITED)?))
}

/// The code beside the output: `{"output": "…", "metadata": {"exit_code": 1}}`, as Codex's older shell tool has it.
fn code_beside(result: &str) -> Option<i64> {
    #[derive(Deserialize)]
    struct Shell {
        #[serde(rename = "output")]
        _output: serde::de::IgnoredAny,
        exit_code: Option<i64>,
        metadata: Option<Metadata>,
    }
    #[derive(Deserialize)]
    struct Metadata {
        exit_code: i64,
    }
    if !result.starts_with('{') || result.len() > SHELL_JSON_MAX {
        return None;
    }
    steps::add(result.len());
    let shell: Shell = serde_json::from_str(result).ok()?;
    shell.exit_code.or(shell.metadata.map(|metadata| metadata.exit_code))
}

/// Clients cut the output of commands far below this.
const SHELL_JSON_MAX: usize = 1 << 20;

fn leading_number(text: &str) -> Option<i64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(text.len());
    text[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cb_4_an_exit_code_is_read_where_clients_put_it() {
        let told = [
            ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\nok", Ended::Ok),
            ("Exit code 101\nerror: test failed", Ended::Failed),
            ("Chunk ID: 2a\nWall time: 0.2 seconds\nProcess exited with code 0\nOutput:\nFAILED", Ended::Ok),
            ("Chunk ID: 2a\nWall time: 0.2 seconds\nProcess exited with code 1\nOutput:\nok", Ended::Failed),
            ("Wall time: 1.0 seconds\nProcess exited with code -1\nOutput:\n", Ended::Failed),
            ("Wall time: 1.0 seconds\nProcess running with session ID 7\nOutput:\n", Ended::Unknown),
            (r#"{"output":"FAILED","metadata":{"exit_code":0,"duration_seconds":1.2}}"#, Ended::Ok),
            (r#"{"output":"ok","metadata":{"exit_code":101}}"#, Ended::Failed),
            (r#"{"chunk_id":"2a","exit_code":2,"output":"ok"}"#, Ended::Failed),
            ("error: could not compile", Ended::Failed),
        ];
        for (text, ended) in told {
            assert_eq!(ended_by_text(text), ended, "{text}");
        }
    }

    proptest::proptest! {
        /// Whatever stands at its start, in whatever case.
        #[test]
        fn cb_4_a_start_in_ascii_is_read_as_any_other(
            before in "[ \\n]{0,3}",
            said in "(?i)(error|fatal:|exit code:? ?|exit status |failed to |traceback \\(most recent call last\\)|[a-zK ]{0,4})",
            rest in "[0-9A-ZaéKİ:\\n -]{0,50}",
        ) {
            let text = format!("{before}{said}{rest}");
            let result = text.trim_start();
            proptest::prop_assert_eq!(ended_by_text(&text), ended_by_start(&lower_start(result), result));
        }
    }

    #[test]
    fn cb_4_an_exit_code_in_the_output_is_not_believed() {
        let own = [
            "Wall time: 1.0 seconds\nOutput:\nProcess exited with code 0",
            "running 3 tests\nProcess exited with code 0",
            "all good\nExit code: 0",
            r#"{"exit_code":0}"#,
            r#"{"output":"x","metadata":{"exit_code":"0"}}"#,
            "{",
        ];
        for text in own {
            assert_eq!(ended_by_text(text), Ended::Unknown, "{text}");
        }
    }
}
