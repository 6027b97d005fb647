//! Which tool calls are test runs (CB-4).
//!
//! A test run is a call of a shell-like tool whose command *invokes* a test runner. The command is read the
//! way a shell reads it, so that `cd web && CI=1 npx jest | tail` is one, and `echo "npm test"`,
//! `pip install pytest` and a commit message that quotes `cargo test` are not. Nothing is ever executed,
//! expanded or looked up: `$RUNNER tests/` and `./ci.sh` are unknown programs unless a pattern names them.
//!
//! ```
//! use estop_core::run::test_command::is_test_run;
//! assert!(is_test_run("Bash", "cd api && timeout 60 cargo test 2>&1 | tail -5"));
//! assert!(!is_test_run("Bash", "pip install pytest"));
//! ```

mod output;
mod shell;
mod tables;

use std::borrow::Cow;

use crate::fingerprint::arguments::{Given, first_of};
use crate::steps;
pub use output::says_passed;
use shell::simple_commands;
use tables::{
    ALIASES, GOAL_PROGRAMS, KEYWORDS, MODULE_PROGRAMS, NOT_RUN_OPTIONS, NOT_RUNS, SHELL_TOOLS, STOP_OPTIONS,
    VALUE_OPTIONS, WRAPPERS, Wrapper,
};

pub use tables::DEFAULT_TEST_RUNNERS;

/// `bash -c "bash -c …"` inside one another.
const SCRIPTS_MAX: usize = 4;
/// `sudo env nice …` before one program.
const WRAPPERS_MAX: usize = 12;
/// Patterns a user may add.
const EXTRA_MAX: usize = 100;
/// Whether this call runs tests, by [`DEFAULT_TEST_RUNNERS`].
pub fn is_test_run(tool: &str, command: &str) -> bool {
    TestRunners::default().is_test_run(tool, command)
}

/// Whether a tool of this name takes a shell command. Prefixes of MCP servers and namespaces are ignored.
pub fn is_shell_tool(tool: &str) -> bool {
    steps::add(tool.len());
    let own_name = tool.rsplit(['.', ':', '/']).next().unwrap_or(tool);
    let own_name = own_name.rsplit("__").next().unwrap_or(own_name);
    let plain: String =
        own_name.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).map(|c| c.to_ascii_lowercase()).collect();
    SHELL_TOOLS.contains(&plain.as_str())
}

/// What counts as a test run: [`DEFAULT_TEST_RUNNERS`], and what a user adds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TestRunners {
    /// At most [`EXTRA_MAX`], none empty, each with the plain name of its program.
    extra: Vec<String>,
}

/// Why a list of patterns was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TestRunnersError {
    /// A pattern names no program.
    #[error("test runner pattern {0} is empty")]
    Empty(usize),
    /// More patterns than we look through on each call.
    #[error("{0} test runner patterns, at most {EXTRA_MAX} are allowed")]
    TooMany(usize),
}

impl TestRunners {
    /// Adds patterns in the form of [`DEFAULT_TEST_RUNNERS`], such as `./ci.sh` or `earthly +test`.
    pub fn new(extra: &[String]) -> Result<Self, TestRunnersError> {
        if extra.len() > EXTRA_MAX {
            return Err(TestRunnersError::TooMany(extra.len()));
        }
        let mut runners = TestRunners::default();
        for (index, pattern) in extra.iter().enumerate() {
            let mut words = pattern.split_whitespace();
            let program = words.next().ok_or(TestRunnersError::Empty(index))?;
            let plain: Vec<&str> = std::iter::once(plain_name(program)).chain(words).collect();
            runners.extra.push(plain.join(" "));
        }
        Ok(runners)
    }

    /// Whether this call runs tests.
    pub fn is_test_run(&self, tool: &str, command: &str) -> bool {
        is_shell_tool(tool) && self.script_invokes(command, 0)
    }

    /// Whether a tool call runs tests: looks at the command in a shell tool's arguments (JSON text), whatever the client
    /// calls the field.
    pub fn is_test_call(&self, tool: &str, args: &str) -> bool {
        if !is_shell_tool(tool) {
            return false;
        }
        match first_of(args, &["command", "cmd", "script"]) {
            Ok(Some((_, Given::Text(line)))) => self.is_test_run(tool, &line),
            Ok(Some((_, Given::Texts(words)))) => self.is_test_run_argv(tool, &words),
            Ok(Some((_, Given::Other)) | None) | Err(_) => false,
        }
    }

    /// The same for tools that take a list of words instead of a line (Codex: `["bash", "-lc", "cargo test"]`).
    pub fn is_test_run_argv(&self, tool: &str, argv: &[String]) -> bool {
        is_shell_tool(tool) && self.command_invokes(argv, 0)
    }

    fn script_invokes(&self, script: &str, depth: usize) -> bool {
        depth <= SCRIPTS_MAX && simple_commands(script).iter().any(|words| self.command_invokes(words, depth))
    }

    fn command_invokes(&self, words: &[String], depth: usize) -> bool {
        let mut words = words;
        for _ in 0..WRAPPERS_MAX {
            let Some((program, args)) = split_program(words) else { return false };
            if self.names(program, args) {
                return !runs_nothing(program, args);
            }
            if let Some(script) = script_of(program, args) {
                return self.script_invokes(&script, depth + 1);
            }
            let Some(rest) = unwrapped(program, args) else { return false };
            words = rest;
        }
        false
    }

    fn names(&self, program: &str, args: &[String]) -> bool {
        // Each word is compared with each word of the patterns for this program: a constant number.
        steps::add(args.iter().map(String::len).sum::<usize>() + args.len());
        let extra = self.extra.iter().map(String::as_str);
        DEFAULT_TEST_RUNNERS.iter().copied().chain(extra).any(|pattern| matches(pattern, program, args))
    }
}

fn runs_nothing(program: &str, args: &[String]) -> bool {
    args.iter().any(|arg| NOT_RUN_OPTIONS.contains(&option_name(arg)))
        || NOT_RUNS.iter().any(|pattern| matches(pattern, program, args))
}

/// The program's plain name and its arguments, without keywords and `NAME=value` before it.
fn split_program(words: &[String]) -> Option<(&str, &[String])> {
    let is_prefix = |word: &&String| KEYWORDS.contains(&word.as_str()) || is_assignment(word);
    let prefixes = words.iter().take_while(is_prefix).count();
    let (program, args) = words[prefixes..].split_first()?;
    Some((plain_name(program), args))
}

fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name.trim_end_matches('+'));
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// `./node_modules/.bin/jest`, `jest.cmd`, `jest@29` are `jest`; `python3.12` is `python`.
fn plain_name(program: &str) -> &str {
    let mut name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    for extension in [".exe", ".cmd", ".bat", ".ps1", ".js", ".mjs", ".cjs", ".py", ".phar"] {
        name = name.strip_suffix(extension).unwrap_or(name);
    }
    name = name.split_once('@').map_or(name, |(before, _)| before);
    for interpreter in ["python", "pypy"] {
        let version = name.strip_prefix(interpreter);
        if version.is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || c == '.')) {
            return "python";
        }
    }
    ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, same_as)| same_as)
}

fn matches(pattern: &str, program: &str, args: &[String]) -> bool {
    let mut words = pattern.split_whitespace();
    if words.next() != Some(program) {
        return false;
    }
    let mut operands = operands(program, args);
    let goals = GOAL_PROGRAMS.contains(&program);
    words.all(|word| {
        if is_option(word) {
            args.iter().any(|arg| option_name(arg) == word)
        } else if goals {
            // `:app:test` and `surefire:test` are the goal `test` of a project or plugin.
            operands.any(|operand| word_matches(word, operand.rsplit(':').next().unwrap_or(operand)))
        } else {
            operands.next().is_some_and(|operand| word_matches(word, operand))
        }
    })
}

fn word_matches(pattern: &str, word: &str) -> bool {
    if let Some(end) = pattern.strip_prefix('*') {
        return word.ends_with(end);
    }
    pattern.strip_suffix('*').map_or(pattern == word, |start| word.starts_with(start))
}

/// Arguments that are neither options nor their values, up to `--`.
fn operands<'a>(program: &'a str, args: &'a [String]) -> impl Iterator<Item = &'a str> {
    let mut args = args.iter().map(String::as_str).take_while(|arg| *arg != "--");
    std::iter::from_fn(move || {
        loop {
            let arg = args.next()?;
            if !is_option(arg) {
                return Some(arg);
            }
            if has_value(program, arg) {
                args.next();
            }
        }
    })
}

/// `+nightly` chooses a toolchain and stands where options stand.
fn is_option(arg: &str) -> bool {
    arg.len() > 1 && arg.starts_with(['-', '+'])
}

fn option_name(arg: &str) -> &str {
    arg.split_once('=').map_or(arg, |(name, _)| name)
}

fn has_value(program: &str, option: &str) -> bool {
    listed(VALUE_OPTIONS, program, option)
}

fn listed(table: &[(&str, &[&str])], program: &str, option: &str) -> bool {
    table.iter().any(|(listed_program, options)| *listed_program == program && options.contains(&option))
}

/// The script a program gets as a string: `bash -c "…"`, `eval …`.
fn script_of<'a>(program: &str, args: &'a [String]) -> Option<Cow<'a, str>> {
    match program {
        "eval" => Some(args.join(" ").into()),
        "bash" | "sh" | "zsh" | "dash" | "ksh" | "ash" | "fish" => {
            let (flag, _) = shell_options(args).find(|(_, arg)| is_cluster_with(arg, 'c'))?;
            args[flag + 1..].iter().find(|arg| !is_option(arg)).map(|script| script.as_str().into())
        }
        "su" | "script" | "nix-shell" => {
            let is_flag = |arg: &String| is_cluster_with(arg, 'c') || arg == "--run" || arg == "--command";
            let flag = args.iter().position(is_flag)?;
            args.get(flag + 1).map(|script| script.as_str().into())
        }
        "powershell" | "pwsh" | "cmd" => {
            let is_flag =
                |arg: &String| ["-command", "-c", "/c"].contains(&arg.to_ascii_lowercase().as_str());
            let flag = args.iter().position(is_flag)?;
            Some(args[flag + 1..].join(" ").into())
        }
        _ => None,
    }
}

/// The options of a shell up to its first operand; `-o pipefail` takes a value, also as `-euo pipefail`.
fn shell_options(args: &[String]) -> impl Iterator<Item = (usize, &str)> {
    let mut skip_value = false;
    args.iter()
        .map(String::as_str)
        .enumerate()
        .take_while(move |(_, arg)| {
            let is_value = std::mem::replace(&mut skip_value, is_cluster_with(arg, 'o'));
            is_value || is_option(arg)
        })
        .filter(|(_, arg)| is_option(arg))
}

/// `-lc` is a cluster with `c`, `--color` is not.
fn is_cluster_with(arg: &str, flag: char) -> bool {
    is_option(arg) && !arg.starts_with("--") && arg.contains(flag)
}

/// The command that a wrapper runs.
fn unwrapped<'a>(program: &str, args: &'a [String]) -> Option<&'a [String]> {
    WRAPPERS.iter().filter(|wrapper| wrapper.words[0] == program).find_map(|wrapper| wrapper.command_in(args))
}

impl Wrapper {
    fn command_in<'a>(&self, args: &'a [String]) -> Option<&'a [String]> {
        let program = self.words[0];
        let mut subcommands = self.words[1..].iter();
        let mut operands = self.operands;
        let mut at = 0;
        while let Some(arg) = args.get(at).map(String::as_str) {
            let in_front = subcommands.len() > 0;
            if arg == "--" {
                return (!in_front).then(|| &args[at + 1..]);
            }
            if !in_front && (arg == "-m" || arg == "--module") && MODULE_PROGRAMS.contains(&program) {
                return Some(&args[at + 1..]);
            }
            if is_option(arg) {
                if listed(STOP_OPTIONS, program, arg) {
                    return None;
                }
                at += usize::from(has_value(program, arg));
            } else if let Some(subcommand) = subcommands.next() {
                if arg != *subcommand {
                    return None;
                }
            } else if operands > 0 {
                operands -= 1;
            } else {
                return Some(&args[at..]);
            }
            at += 1;
        }
        None
    }
}
