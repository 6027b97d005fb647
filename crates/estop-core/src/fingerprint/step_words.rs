//! The words of a step, to tell what is new in it (LD-8).

use serde::{Deserialize, Serialize};

use crate::ended::Ended;
use crate::fingerprint::features::{CallWords, Features, Numbers, digest_of_words};
use crate::fingerprint::result_kind::ResultKind;
use crate::fingerprint::{signature, volatile};
use crate::steps;

/// The words of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepWords {
    /// What its result says, and its call did not; of a step in text, the reply.
    #[serde(default, skip_serializing_if = "Features::is_empty")]
    pub result: Features,
    /// What the agent said: where it only talks, in text or in a plan, and where it writes a long text with a call.
    #[serde(default, skip_serializing_if = "Features::is_empty")]
    pub said: Features,
    /// Of a failure, a hash of all its words: the same whatever its numbers.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failure: u32,
    /// What came back of it.
    #[serde(default, skip_serializing_if = "ResultKind::is_content")]
    pub result_kind: ResultKind,
    /// What kind of step it is.
    #[serde(default, skip_serializing_if = "StepKind::is_act")]
    pub kind: StepKind,
}

fn is_zero(hash: &u32) -> bool {
    *hash == 0
}

/// What kind of step it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// The agent does something.
    #[default]
    Act,
    /// It only talks.
    Talk,
    /// It waits on purpose.
    Wait,
    /// It only writes down what it is going to do.
    Plan,
}

impl StepKind {
    fn is_act(&self) -> bool {
        *self == StepKind::Act
    }

    fn of(tool: &str, args: &str) -> StepKind {
        // `mcp__server__tool`
        let own = tool.rsplit("__").next().unwrap_or(tool);
        let name: String =
            own.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
        if PLANS.contains(&name.as_str()) {
            return StepKind::Plan;
        }
        let start = &args[..args.floor_char_boundary(WAIT_WITHIN)];
        steps::add(start.len());
        let start = start.to_ascii_lowercase();
        let is_wait = |word: &str| WAITS.contains(&word);
        let named =
            tool.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| is_wait(&word.to_ascii_lowercase()));
        // `sleep 30`, in a command of a shell; `sleep 1` is no wait.
        let sleeps = start.match_indices("sleep ").any(|(at, said)| {
            let is_word = !start[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
            let digits: String =
                start[at + said.len()..].chars().take_while(char::is_ascii_digit).take(9).collect();
            is_word && digits.parse::<u32>().is_ok_and(|seconds| seconds >= WAIT_SECONDS_MIN)
        });
        let waits = named && !is_short_wait(&start) || sleeps || watches(&start);
        if waits { StepKind::Wait } else { StepKind::Act }
    }
}

/// `--watch` as a word of its own: `--watch=false` and `--watchAll` say something else.
fn watches(args: &str) -> bool {
    args.match_indices("--watch").any(|(at, said)| {
        !args[at + said.len()..]
            .starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '=' | '-' | '_'))
    })
}

/// Whether the first number in the arguments of a waiting tool is a short time.
fn is_short_wait(args: &str) -> bool {
    let Some(at) = args.find(|c: char| c.is_ascii_digit()) else { return false };
    let digits: String = args[at..].chars().take_while(char::is_ascii_digit).take(9).collect();
    let seconds = digits.parse::<u32>().unwrap_or(u32::MAX);
    let seconds =
        if args[..at].contains("ms") || args[..at].contains("milli") { seconds / 1_000 } else { seconds };
    seconds < WAIT_SECONDS_MIN
}

/// Tools of the known clients that keep a plan, without `_` and `-`.
const PLANS: &[&str] = &[
    "managetodolist",
    "plan",
    "sequentialthinking",
    "think",
    "todowrite",
    "updateplan",
    "updatetodolist",
    "writetodos",
];
/// Arguments of fewer bytes are a command, not a text that is written.
const LONG_CALL: usize = 400;
const WAITS: &[&str] = &["sleep", "wait"];
const WAIT_SECONDS_MIN: u32 = 2;
/// Bytes of a call's arguments in which a wait is looked for.
const WAIT_WITHIN: usize = 300;

impl StepWords {
    /// There is nothing to say.
    pub fn is_usual(&self) -> bool {
        *self == StepWords::default()
    }

    /// The words of a call; `stripped` is its result without ids and times.
    pub fn of_call(tool: &str, args: &str, result: &str, stripped: &str, ended: Ended) -> StepWords {
        let kind = StepKind::of(tool, args);
        if kind == StepKind::Plan {
            let said = Features::words_of(&signature::head_and_tail(args));
            return StepWords { said, kind, ..StepWords::default() };
        }
        let args = signature::head_and_tail(args);
        let call = CallWords::of(&args);
        let result_kind = ResultKind::of(&call, result, ended);
        let numbers = if result_kind.is_content() { Numbers::Count } else { Numbers::Ignore };
        let result = Features::beside(stripped, numbers, &call);
        let said = if args.len() < LONG_CALL { Features::default() } else { Features::written(&args) };
        let failure = if result_kind.is_content() { 0 } else { digest_of_words(stripped) };
        StepWords { result, said, failure, result_kind, kind }
    }

    /// The words of a step in text: what the agent said, and what was replied.
    pub fn of_text(said: &str, reply: &str) -> StepWords {
        let strip = |text: &str| volatile::strip(&signature::head_and_tail(text));
        StepWords {
            result: Features::of(&strip(reply), Numbers::All),
            said: Features::words_of(&strip(said)),
            kind: StepKind::Talk,
            ..StepWords::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ld_8_waits_and_plans_are_known_by_their_names() {
        let kind = |tool, args| StepKind::of(tool, args);
        assert_eq!(kind("TodoWrite", "{}"), StepKind::Plan);
        assert_eq!(kind("update_plan", "{}"), StepKind::Plan);
        assert_eq!(kind("sleep", "{}"), StepKind::Wait);
        assert_eq!(kind("Bash", r#"{"command": "sleep 30 && kubectl get pods"}"#), StepKind::Wait);
        assert_eq!(kind("Bash", r#"{"command": "gh run watch --watch"}"#), StepKind::Wait);
        assert_eq!(kind("browser_wait_for", "{}"), StepKind::Wait);
        assert_eq!(kind("wait_for", r##"{"selector": "#a", "timeout_ms": 5000}"##), StepKind::Wait);
        assert_eq!(kind("wait", r#"{"seconds": 1}"#), StepKind::Act, "too short to wait for anything");
        assert_eq!(kind("Bash", r#"{"command": "sleep 1; ls"}"#), StepKind::Act);
        assert_eq!(kind("Bash", r#"{"command": "npx jest --watchAll=false --watch=false"}"#), StepKind::Act);
        for act in [r#"{"command": "grep -rn sleep src"}"#, r#"{"wait": false}"#, "please wait, asleep 3"] {
            assert_eq!(kind("Bash", act), StepKind::Act, "{act}");
        }
    }
}
