//! From what a hook said to what the core is told: the tool, its arguments and result as hashes, whether it runs tests.

use estop_core::ended::Ended;
use estop_core::event::{ToolFinished, ToolRequested};
use estop_core::ids::{CallId, Hash64, Name};
use estop_core::iteration::{TestRunners, is_shell_tool, says_passed};
use estop_core::report_tool::is_report;
use estop_core::signature;
use serde_json::Value;

use super::{HookClient, HookIn, ToolCall};

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

/// Shell-like tools of each client, for those the core does not know by name.
const SHELL_TOOLS: &[(HookClient, &[&str])] = &[
    // The same tool on Windows, and text typed into a shell that is open.
    (HookClient::Copilot, &["powershell", "write_bash", "write_powershell"]),
    (HookClient::Codex, &["write_stdin"]),
];

impl HookIn {
    /// What the core is told before a tool. `call` is the number of the call ([`super::CallNumbers`]).
    pub fn tool_requested(&self, call: CallId, runners: &TestRunners) -> Option<ToolRequested> {
        let tool = self.tool.as_ref()?;
        let (test_run, action) = (self.runs_tests(runners), self.action()?);
        Some(ToolRequested { call, tool: name(tool), action, test_run, gate: self.gate })
    }

    /// What the core is told after a tool.
    pub fn tool_finished(&self, call: CallId) -> Option<ToolFinished> {
        let result = self.result.as_ref()?;
        let reports = self.tool.as_ref().is_some_and(|tool| is_report(&tool.name));
        // Codex tells no exit code; the runner's own summary may say that all went well.
        let is_open = result.ended == Ended::Unknown;
        let passed = is_open && self.runs_tests(&TestRunners::default()) && says_passed(&result.text);
        let ended = if passed { Ended::Ok } else { result.ended };
        Some(ToolFinished { call, result: signature::result(&result.text), ended, reports })
    }

    /// The tool and its arguments, as the core compares them.
    pub fn action(&self) -> Option<Hash64> {
        self.tool.as_ref().map(|tool| signature::action(&name(tool), &tool.args))
    }

    /// The commands of a shell-like tool.
    pub fn commands(&self) -> Commands {
        match &self.tool {
            Some(tool) if self.is_shell(tool) => commands(&tool.args),
            Some(_) | None => Commands::NoShell,
        }
    }

    fn is_shell(&self, tool: &ToolCall) -> bool {
        let mut of_client = SHELL_TOOLS.iter().filter(|(client, _)| *client == self.client);
        is_shell_tool(&tool.name) || of_client.any(|(_, names)| names.contains(&tool.name.as_str()))
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
    let Ok(Value::Object(fields)) = serde_json::from_str(args) else {
        // A tool that takes a plain text takes the command itself.
        return Commands::Lines(vec![args.to_owned()]);
    };
    let found = COMMAND_KEYS.iter().find_map(|key| fields.get(*key).map(|value| (*key, value)));
    match found {
        Some((_, Value::String(line))) => Commands::Lines(vec![line.clone()]),
        // Cline: a list of lines. Everybody else: one program with its words.
        Some(("commands", Value::Array(lines))) => Commands::Lines(texts(lines)),
        Some((_, Value::Array(words))) => Commands::Words(texts(words)),
        Some((_, Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_))) | None => {
            Commands::Lines(Vec::new())
        }
    }
}

/// Texts of a list; an object with a `command` counts as that (Cline: `{"command": …, "args": […]}`).
fn texts(list: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().or_else(|| value.get("command")?.as_str()).map(str::to_owned);
    list.iter().filter_map(text).collect()
}
