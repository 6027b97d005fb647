//! From what a hook said to what the core is told: the tool, its arguments and result as hashes, whether it runs tests.

use estop_core::ended::Ended;
use estop_core::event::{ToolFinished, ToolRequested};
use estop_core::fingerprint::arguments::{Given, first_of};
use estop_core::fingerprint::{StepFingerprint, StepText, signature};
use estop_core::ids::{CallId, Hash64, Name};
use estop_core::run::report_tool::{is_report, reported};
use estop_core::run::test_command::{TestRunners, is_shell_tool, says_passed};

use super::{HookEvent, HookIn, ToolCall, calls};

/// Names of tools as the core keeps them; MCP servers make long ones, nobody makes these.
const TOOL_NAME_CHARS_MAX: usize = 256;

/// Where a shell-like tool keeps its commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Commands {
    /// It is no shell.
    NoShell,
    /// Lines for a shell, one after the other. None if there is no command where one is expected.
    Lines(Vec<String>),
    /// One program with its words.
    Words(Vec<String>),
}

/// The keys under which the shell-like tools of the known clients keep their command.
const COMMAND_KEYS: &[&str] = &["command", "cmd", "commands", "script", "input"];

/// All that takes a look at the texts of a hook: its hashes, and what its command is. Made before anything is locked, so
/// that nobody waits for a text that is long or meant to be slow (SE-1).
#[derive(Clone, Debug, Default)]
pub struct HookFingerprint {
    /// The number of a call that has an id.
    pub(super) named: Option<CallId>,
    /// The session, the tool and its arguments: what a call without an id is known by.
    pub(super) asked: Hash64,
    before: Option<ToolRequested>,
    after: Option<ToolFinished>,
    /// What the agent says in a report, if the call is one (CB-6).
    pub report: Option<String>,
}

impl HookFingerprint {
    /// What the core is told before a tool. `call` is the number of the call ([`super::CallNumbers`]).
    pub fn tool_requested(&self, call: CallId) -> Option<ToolRequested> {
        self.before.clone().map(|before| ToolRequested { call, ..before })
    }

    /// What the core is told after a tool.
    pub fn tool_finished(&self, call: CallId) -> Option<ToolFinished> {
        self.after.clone().map(|after| ToolFinished { call, ..after })
    }
}

/// In the place of a number that is given later.
const NO_CALL: CallId = CallId(0);

impl HookIn {
    /// Reads its texts, each a bounded number of times.
    pub fn print(&self, runners: &TestRunners) -> HookFingerprint {
        let Some(tool) = &self.tool else { return HookFingerprint::default() };
        let action = signature::action(&name(tool), &tool.args);
        let asks = self.event == HookEvent::ToolRequested;
        HookFingerprint {
            named: calls::named(self),
            asked: calls::asked(self, action),
            before: asks.then(|| ToolRequested {
                call: NO_CALL,
                tool: name(tool),
                action,
                test_run: self.runs_tests(runners),
                gate: self.gate,
            }),
            after: self.finished(),
            report: if asks { reported(&tool.name, &tool.args) } else { None },
        }
    }

    fn finished(&self) -> Option<ToolFinished> {
        let result = self.result.as_ref()?;
        let reports = self.tool.as_ref().is_some_and(|tool| is_report(&tool.name));
        // Codex tells no exit code; the runner's own summary may say that all went well.
        let is_open = result.ended == Ended::Unknown;
        let passed = is_open && self.runs_tests(&TestRunners::default()) && says_passed(&result.text);
        let ended = if passed { Ended::Ok } else { result.ended };
        let (tool, args) = self.tool.as_ref().map_or(("", ""), |tool| (&*tool.name, &*tool.args));
        let step = StepText { tool, args, result: &result.text, ended };
        let (result, words) = StepFingerprint::result_of(&step);
        Some(ToolFinished { call: NO_CALL, result, ended, reports, words })
    }

    /// The commands of a shell-like tool.
    pub fn commands(&self) -> Commands {
        match &self.tool {
            Some(tool) if self.is_shell(tool) => commands(&tool.args),
            Some(_) | None => Commands::NoShell,
        }
    }

    fn is_shell(&self, tool: &ToolCall) -> bool {
        let of_client = self.client.contract().shell_tools;
        is_shell_tool(&tool.name) || of_client.contains(&tool.name.as_str())
    }

    /// Whether the call runs tests (CB-4).
    fn runs_tests(&self, runners: &TestRunners) -> bool {
        // The name is checked already, and may be one that only this client has.
        match self.commands() {
            Commands::NoShell => false,
            Commands::Lines(lines) => lines.iter().any(|line| runners.is_test_run("shell", line)),
            Commands::Words(words) => runners.is_test_run_argv("shell", &words),
        }
    }
}

fn name(tool: &ToolCall) -> Name {
    tool.name.chars().take(TOOL_NAME_CHARS_MAX).collect::<String>().into()
}

fn commands(args: &str) -> Commands {
    match first_of(args, COMMAND_KEYS) {
        // A tool that takes a plain text takes the command itself.
        Err(_) => Commands::Lines(vec![args.to_owned()]),
        Ok(Some((_, Given::Text(line)))) => Commands::Lines(vec![line.into_owned()]),
        // Cline: a list of lines. Everybody else: one program with its words.
        Ok(Some(("commands", Given::Texts(lines)))) => Commands::Lines(lines),
        Ok(Some((_, Given::Texts(words)))) => Commands::Words(words),
        Ok(Some((_, Given::Other)) | None) => Commands::Lines(Vec::new()),
    }
}
