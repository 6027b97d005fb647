//! Which tool calls are test runs (CB-4).
//!
//! A test run is a call of a shell-like tool whose command *invokes* a test runner. The command is read the
//! way a shell reads it, so that `cd web && CI=1 npx jest | tail` is one, and `echo "npm test"`,
//! `pip install pytest` and a commit message that quotes `cargo test` are not. Nothing is ever executed,
//! expanded or looked up: `$RUNNER tests/` and `./ci.sh` are unknown programs unless a pattern names them.
//!
//! ```
//! use estop_core::iteration::is_test_run;
//! assert!(is_test_run("Bash", "cd api && timeout 60 cargo test 2>&1 | tail -5"));
//! assert!(!is_test_run("Bash", "pip install pytest"));
//! ```

use std::borrow::Cow;
use std::iter::Peekable;
use std::str::Chars;

/// Bytes of a command that are read; the rest is ignored. Chosen: far above any command seen.
const COMMAND_BYTES_MAX: usize = 256 * 1024;
/// Simple commands of one script that are looked at. Keeps a hostile `a;a;a;…` cheap.
const COMMANDS_MAX: usize = 1_000;
/// Substitutions and subshells inside one another; deeper ones are read as text.
const NESTING_MAX: usize = 32;
/// `bash -c "bash -c …"` inside one another.
const SCRIPTS_MAX: usize = 4;
/// `sudo env nice …` before one program.
const WRAPPERS_MAX: usize = 12;
/// Patterns a user may add.
const EXTRA_MAX: usize = 100;

/// What counts as running tests: a program, then the words that must follow it.
///
/// Options between the words are skipped. A word with `*` at one end matches by the other end, `*` alone
/// matches anything; a word that is an option must occur somewhere. The targets of `make`, `mvn` and the like may
/// stand anywhere.
#[rustfmt::skip]
pub const DEFAULT_TEST_RUNNERS: &[&str] = &[
    // Python (`python -m pytest` is pytest, `./manage.py` is manage).
    "pytest", "py.test", "unittest", "nosetests", "nose2", "tox", "nox", "hatch test", "behave",
    "manage test", "setup test",
    // JavaScript.
    "npm test", "npm t", "npm tst", "npm run test", "npm run test:*", "npm run-script test",
    "pnpm test", "pnpm t", "pnpm test:*", "pnpm run test", "pnpm run test:*",
    "yarn test", "yarn test:*", "yarn run test", "yarn run test:*", "yarn workspace * test",
    "yarn workspace * run test", "yarn workspaces foreach run test", "bun test", "bun run test", "bun run test:*",
    "jest", "vitest", "mocha", "ava", "jasmine", "karma start", "cypress run", "playwright test", "ng test",
    "react-scripts test", "nx test", "turbo test", "turbo run test", "lerna run test", "node --test",
    "deno test", "deno task test", "deno task test:*",
    // Rust, Go, .NET, Swift, Zig.
    "cargo test", "cargo t", "cargo nextest run", "cargo nextest r", "cargo miri test", "cargo llvm-cov",
    "cargo tarpaulin", "cargo xtask test", "cross test", "go test", "gotestsum", "ginkgo",
    "dotnet test", "dotnet watch test", "dotnet vstest", "swift test", "xcodebuild test", "zig build test", "zig test",
    // JVM.
    "mvn test", "mvn verify", "mvn integration-test", "gradle test", "gradle check", "gradle *Test", "ant test",
    "sbt test*", "lein test",
    // Build tools and task runners.
    "make test", "make tests", "make check", "make test-*", "make test_*", "ninja test", "ninja check", "ctest",
    "meson test", "bazel test", "bazel coverage", "just test", "task test", "task test:*", "mise run test",
    "mise run test:*", "mise r test",
    // Ruby, PHP, Elixir and others.
    "rspec", "rake test", "rake spec", "rails test", "phpunit", "pest", "artisan test", "composer test",
    "composer run test", "composer run-script test", "mix test", "stack test", "cabal test", "dart test",
    "flutter test", "rebar3 eunit", "rebar3 ct", "nimble test", "crystal spec", "prove", "bats", "busted",
];

/// Invocations of the above that list, compile or explain, but run nothing.
#[rustfmt::skip]
const NOT_RUNS: &[&str] = &[
    "pytest -V", "go test -c", "go test -list", "go test -n", "make -n", "gradle -m", "ctest -N", "tox -l",
    "tox list", "tox config", "nox -l", "mvn -DskipTests", "mvn -Dmaven.test.skip", "dotnet test -t",
    "swift test list", "vitest list", "cargo llvm-cov report", "cargo llvm-cov clean", "cargo llvm-cov show-env",
];

/// Options with which no runner runs anything.
#[rustfmt::skip]
const NOT_RUN_OPTIONS: &[&str] = &[
    "--help", "-h", "--version", "--no-run", "--collect-only", "--co", "--list", "--list-tests", "--listTests",
    "--show-only", "--dry-run", "--just-print", "--fixtures", "--markers",
];

/// Programs whose operands are targets, in any order and number: `make clean test`.
const GOAL_PROGRAMS: &[&str] = &["make", "gradle", "mvn", "ant", "ninja", "rake", "sbt", "xcodebuild"];

/// Names of tools that take a shell command, as clients use them: lower case, without `_` and `-`.
#[rustfmt::skip]
const SHELL_TOOLS: &[&str] = &[
    "bash", "shell", "sh", "zsh", "cmd", "powershell", "pwsh", "terminal", "console", "exec", "execute",
    "executebash", "executecmd", "executecommand", "executeshell", "executeshellcommand", "execcommand",
    "shellexec", "shellcommand", "localshell", "localshellcall", "containerexec", "unifiedexec", "runbash",
    "runcommand", "runcommands", "runinbashsession", "runinterminal", "runshell", "runshellcommand", "runterminal",
    "runterminalcmd", "runterminalcommand", "bashtool", "shelltool", "launchprocess",
];

/// Options whose value is the next word, by program. An unknown one makes its value look like an operand.
#[rustfmt::skip]
const VALUE_OPTIONS: &[(&str, &[&str])] = &[
    ("cargo", &["--manifest-path", "--config", "--color", "-C", "-Z", "--target-dir"]),
    ("go", &["-C"]),
    ("npm", &["--prefix", "-C", "-w", "--workspace", "--loglevel", "--userconfig"]),
    ("pnpm", &["-C", "--dir", "--prefix", "-F", "--filter", "--loglevel"]),
    ("yarn", &["--cwd", "--include", "--exclude", "--from", "-j", "--jobs"]),
    ("bun", &["--cwd", "-r", "--preload", "--env-file", "-F", "--filter"]),
    ("npx", &["-p", "--package", "-w", "--workspace"]),
    ("node", &["-r", "--require", "--import", "--loader", "--env-file"]),
    ("deno", &["-c", "--config", "--cwd"]),
    ("make", &["-C", "--directory", "-f", "--file", "--makefile", "-I", "--include-dir", "-o", "-W"]),
    ("ninja", &["-C", "-f", "-j", "-k", "-l"]),
    ("mvn", &["-f", "--file", "-pl", "--projects", "-P", "-s", "--settings", "-T", "--threads", "-rf"]),
    ("gradle", &["-p", "--project-dir", "-b", "-c", "-g", "-I", "--init-script", "-x", "--exclude-task", "--tests"]),
    ("ant", &["-f", "-file", "-buildfile", "-lib"]),
    ("xcodebuild", &["-project", "-workspace", "-scheme", "-destination", "-sdk", "-configuration"]),
    ("just", &["-f", "--justfile", "-d", "--working-directory"]),
    ("task", &["-t", "--taskfile", "-d", "--dir"]),
    ("mise", &["-C", "--cd", "-E", "--env", "-j", "--jobs"]),
    ("nx", &["--project", "--configuration"]),
    ("python", &["-W", "-X", "--check-hash-based-pycs"]),
    ("coverage", &["--source", "--include", "--omit", "--rcfile", "--data-file", "--context"]),
    ("uv", &["--directory", "--project", "-p", "--python", "--with", "--with-editable", "--with-requirements",
        "--extra", "--group", "--only-group", "--package", "--env-file", "--index", "--index-url"]),
    ("uvx", &["-p", "--python", "--with", "--from", "--index-url"]),
    ("poetry", &["-C", "--directory", "-P", "--project"]),
    ("pdm", &["-p", "--project"]),
    ("hatch", &["-e", "--env", "-p", "--project"]),
    ("pixi", &["-e", "--environment", "--manifest-path"]),
    ("conda", &["-n", "--name", "-p", "--prefix", "--cwd"]),
    ("docker", &["-e", "--env", "--env-file", "-u", "--user", "-w", "--workdir", "-v", "--volume", "--mount",
        "--name", "--network", "--entrypoint", "--platform", "-p", "--publish", "-f", "--file", "--context",
        "--project-name", "--profile", "-m", "--memory", "--cpus", "-l", "--label", "-h", "--hostname"]),
    ("docker-compose", &["-e", "--env", "-u", "--user", "-w", "--workdir", "-v", "--volume", "--name", "--entrypoint",
        "-f", "--file", "-p", "--project-name", "--profile"]),
    ("kubectl", &["-n", "--namespace", "-c", "--container", "--context", "--kubeconfig"]),
    ("sudo", &["-u", "--user", "-g", "--group", "-h", "--host", "-p", "-C", "-D", "--chdir", "-R", "-T", "-U"]),
    ("doas", &["-u", "-C"]),
    ("env", &["-u", "--unset", "-C", "--chdir"]),
    ("exec", &["-a"]),
    ("bash", &["-o", "-O", "--rcfile", "--init-file"]),
    ("time", &["-o", "--output", "-f", "--format"]),
    ("timeout", &["-s", "--signal", "-k", "--kill-after"]),
    ("nice", &["-n", "--adjustment"]),
    ("ionice", &["-c", "-n"]),
    ("stdbuf", &["-i", "-o", "-e"]),
    ("xvfb-run", &["-e", "-f", "-n", "-p", "-s", "-w", "--error-file", "--server-num", "--server-args", "--wait"]),
    ("xargs", &["-a", "-d", "-E", "-I", "-L", "-n", "-P", "-s"]),
    ("flock", &["-w", "--timeout", "-E"]),
];

/// A program that runs the command in its arguments.
struct Wrapper {
    /// The program and its subcommands.
    words: &'static [&'static str],
    /// Operands before the command: a duration, a container.
    operands: usize,
}

const fn wrapper(words: &'static [&'static str]) -> Wrapper {
    Wrapper { words, operands: 0 }
}

const fn wrapper_after_operand(words: &'static [&'static str]) -> Wrapper {
    Wrapper { words, operands: 1 }
}

/// The longer form of a program stands first: `yarn run jest` before `yarn jest`.
#[rustfmt::skip]
const WRAPPERS: &[Wrapper] = &[
    wrapper(&["sudo"]), wrapper(&["doas"]), wrapper(&["env"]), wrapper(&["cross-env"]), wrapper(&["dotenv"]),
    wrapper(&["command"]), wrapper(&["builtin"]), wrapper(&["exec"]), wrapper(&["time"]), wrapper(&["nohup"]),
    wrapper(&["setsid"]), wrapper(&["nice"]), wrapper(&["ionice"]), wrapper(&["stdbuf"]), wrapper(&["unbuffer"]),
    wrapper(&["chronic"]), wrapper(&["caffeinate"]), wrapper(&["xvfb-run"]), wrapper(&["dbus-run-session"]),
    wrapper(&["xargs"]), wrapper(&["wsl"]), wrapper(&["watchexec"]), wrapper(&["git", "bisect", "run"]),
    wrapper_after_operand(&["timeout"]), wrapper_after_operand(&["flock"]),
    // Language environments.
    wrapper(&["python"]), wrapper(&["coverage", "run"]), wrapper(&["uv", "run"]), wrapper(&["uv", "tool", "run"]),
    wrapper(&["uvx"]), wrapper(&["pipx", "run"]), wrapper(&["poetry", "run"]), wrapper(&["pipenv", "run"]),
    wrapper(&["pdm", "run"]), wrapper(&["hatch", "run"]), wrapper(&["rye", "run"]), wrapper(&["pixi", "run"]),
    wrapper(&["conda", "run"]), wrapper(&["mamba", "run"]), wrapper(&["micromamba", "run"]),
    wrapper(&["pyenv", "exec"]), wrapper(&["rbenv", "exec"]), wrapper(&["asdf", "exec"]), wrapper(&["mise", "exec"]),
    wrapper(&["mise", "x"]), wrapper_after_operand(&["direnv", "exec"]), wrapper(&["bundle", "exec"]),
    wrapper(&["ruby"]), wrapper(&["php"]), wrapper(&["composer", "exec"]), wrapper(&["node"]), wrapper(&["tsx"]),
    wrapper(&["npx"]), wrapper(&["nyc"]), wrapper(&["c8"]),
    wrapper(&["npm", "exec"]), wrapper(&["npm", "run"]), wrapper(&["pnpm", "exec"]), wrapper(&["pnpm", "dlx"]),
    wrapper(&["pnpm", "run"]), wrapper(&["pnpm"]), wrapper(&["yarn", "exec"]), wrapper(&["yarn", "dlx"]),
    wrapper(&["yarn", "run"]), wrapper(&["yarn"]), wrapper(&["bun", "x"]), wrapper(&["bun", "run"]),
    // Containers.
    wrapper_after_operand(&["docker", "exec"]), wrapper_after_operand(&["docker", "run"]),
    wrapper_after_operand(&["docker", "compose", "exec"]), wrapper_after_operand(&["docker", "compose", "run"]),
    wrapper_after_operand(&["docker-compose", "exec"]), wrapper_after_operand(&["docker-compose", "run"]),
    wrapper_after_operand(&["kubectl", "exec"]),
    // A script by its path: `bash ./gradlew test`. `bash -c` is [`script_of`].
    wrapper(&["bash"]), wrapper(&["sh"]), wrapper(&["zsh"]), wrapper(&["dash"]), wrapper(&["ksh"]), wrapper(&["fish"]),
];

/// Options after which a wrapper runs no program: inline code, or only a look.
#[rustfmt::skip]
const STOP_OPTIONS: &[(&str, &[&str])] = &[
    ("command", &["-v", "-V"]), ("python", &["-c"]), ("node", &["-e", "--eval", "-p", "--print"]),
    ("php", &["-r"]), ("ruby", &["-e"]), ("sudo", &["-l", "-v", "-e"]),
];

/// Wrappers whose `-m` names a module to run: `python -m pytest`.
const MODULE_PROGRAMS: &[&str] = &["python", "coverage", "uv"];

/// Words of the shell's grammar that may stand before a command.
const KEYWORDS: &[&str] = &["if", "then", "elif", "else", "while", "until", "do", "!", "{", "}"];

/// Other names of the same program.
#[rustfmt::skip]
const ALIASES: &[(&str, &str)] = &[
    ("gradlew", "gradle"), ("mvnw", "mvn"), ("mvnd", "mvn"), ("gmake", "make"), ("mingw32-make", "make"),
    ("nodejs", "node"), ("py", "python"), ("pypy", "python"), ("bazelisk", "bazel"), ("podman", "docker"),
    ("gtimeout", "timeout"), ("bunx", "npx"), ("pnpx", "npx"),
];

/// Whether this call runs tests, by [`DEFAULT_TEST_RUNNERS`].
pub fn is_test_run(tool: &str, command: &str) -> bool {
    TestRunners::default().is_test_run(tool, command)
}

/// Whether a tool of this name takes a shell command. Prefixes of MCP servers and namespaces are ignored.
pub fn is_shell_tool(tool: &str) -> bool {
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

/// The simple commands of a shell script, each as its words: quotes removed, redirections, comments and
/// here-documents dropped, commands inside `$( )` and backticks listed on their own.
fn simple_commands(script: &str) -> Vec<Vec<String>> {
    let script = &script[..script.floor_char_boundary(COMMAND_BYTES_MAX)];
    let mut lexer = Lexer {
        chars: script.chars().peekable(),
        current: Partial::default(),
        outer: Vec::new(),
        here_documents: Vec::new(),
        commands: Vec::new(),
    };
    lexer.read();
    lexer.commands
}

/// Reads a script once, from left to right. It is lenient: what a shell would refuse is read somehow.
struct Lexer<'a> {
    chars: Peekable<Chars<'a>>,
    current: Partial,
    /// What was interrupted by each `(` or backtick that is still open. At most [`NESTING_MAX`].
    outer: Vec<(Nesting, Partial)>,
    /// Here-documents announced on this line.
    here_documents: Vec<HereDocument>,
    /// At most [`COMMANDS_MAX`].
    commands: Vec<Vec<String>>,
}

/// A command that is being read.
#[derive(Default)]
struct Partial {
    words: Vec<String>,
    word: Option<String>,
    /// The next word is the file of a redirection.
    redirecting: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Nesting {
    /// `( … )`: commands of their own.
    Subshell,
    /// `$( … )`, `<( … )`: commands that make a word of another.
    Parentheses,
    /// The same inside double quotes, which go on after it.
    QuotedParentheses,
    Backticks,
    QuotedBackticks,
    /// `NAME=( … )`: words, not commands.
    Array,
}

struct HereDocument {
    delimiter: String,
    strip_tabs: bool,
}

impl Lexer<'_> {
    fn read(&mut self) {
        while let Some(c) = self.chars.next() {
            match c {
                '\\' => self.escape(),
                '\'' => self.single_quotes(),
                '"' => self.double_quotes(),
                '$' => self.dollar(),
                '`' => self.backtick(),
                '#' if self.current.word.is_none() => self.comment(),
                '\n' => {
                    self.end_command();
                    self.skip_here_documents();
                }
                ';' | '|' => self.end_command(),
                '&' if self.chars.peek() == Some(&'>') => self.end_word(),
                '&' => self.end_command(),
                '<' | '>' => self.redirection(c),
                '(' => self.open_parenthesis(),
                ')' => self.close_parenthesis(),
                c if c.is_whitespace() => self.end_word(),
                c => self.add(c),
            }
        }
        self.end_command();
        while let Some((_, outer)) = self.outer.pop() {
            self.current = outer;
            self.end_command();
        }
    }

    fn add(&mut self, c: char) {
        self.current.word.get_or_insert_default().push(c);
    }

    fn end_word(&mut self) {
        let Some(word) = self.current.word.take() else { return };
        if !std::mem::take(&mut self.current.redirecting) {
            self.current.words.push(word);
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        let words = std::mem::take(&mut self.current).words;
        let in_array = matches!(self.outer.last(), Some((Nesting::Array, _)));
        if !words.is_empty() && !in_array && self.commands.len() < COMMANDS_MAX {
            self.commands.push(words);
        }
    }

    /// A backslash before a letter is kept, for Windows paths; no program is spelled with one.
    fn escape(&mut self) {
        match self.chars.next() {
            Some('\n') | None => {}
            Some(c) if c.is_ascii_alphanumeric() || c == '.' || c == '_' => {
                self.add('\\');
                self.add(c);
            }
            Some(c) => self.add(c),
        }
    }

    fn single_quotes(&mut self) {
        self.current.word.get_or_insert_default();
        while let Some(c) = self.chars.next().filter(|c| *c != '\'') {
            self.add(c);
        }
    }

    /// Up to the closing quote, or up to a substitution; [`Lexer::leave`] comes back for the rest.
    fn double_quotes(&mut self) {
        self.current.word.get_or_insert_default();
        while let Some(c) = self.chars.next().filter(|c| *c != '"') {
            match c {
                '\\' => match self.chars.next() {
                    Some('\n') | None => {}
                    Some(c) if "\"\\$`".contains(c) => self.add(c),
                    Some(c) => {
                        self.add('\\');
                        self.add(c);
                    }
                },
                '$' if self.chars.peek() == Some(&'(') && self.enter(Nesting::QuotedParentheses) => {
                    self.chars.next();
                    return;
                }

                '`' if self.enter(Nesting::QuotedBackticks) => return,
                c => self.add(c),
            }
        }
    }

    fn dollar(&mut self) {
        match self.chars.peek().copied() {
            Some('(') if self.enter(Nesting::Parentheses) => {
                self.chars.next();
            }
            Some('{') => {
                self.add('$');
                while let Some(c) = self.chars.next() {
                    self.add(c);
                    if c == '}' {
                        return;
                    }
                }
            }
            Some('\'') => {
                self.chars.next();
                self.current.word.get_or_insert_default();
                while let Some(c) = self.chars.next().filter(|c| *c != '\'') {
                    self.add(c);
                    if c == '\\' {
                        self.chars.next();
                    }
                }
            }
            _ => self.add('$'),
        }
    }

    fn backtick(&mut self) {
        let open = self.outer.last().map(|(nesting, _)| *nesting);
        if matches!(open, Some(Nesting::Backticks | Nesting::QuotedBackticks)) {
            self.end_command();
            self.leave();
        } else {
            self.enter(Nesting::Backticks);
        }
    }

    fn comment(&mut self) {
        while self.chars.next_if(|c| *c != '\n').is_some() {}
    }

    fn redirection(&mut self, c: char) {
        // The `2` of `2>` is no argument.
        if self.current.word.as_ref().is_some_and(|word| word.bytes().all(|b| b.is_ascii_digit())) {
            self.current.word = None;
        }
        self.end_word();
        if self.chars.peek() == Some(&'(') && self.enter(Nesting::Parentheses) {
            self.chars.next();
            return;
        }
        if c == '<' && self.chars.next_if_eq(&'<').is_some() && self.chars.next_if_eq(&'<').is_none() {
            return self.here_document();
        }
        while self.chars.next_if(|c| matches!(c, '>' | '&' | '|')).is_some() {}
        self.current.redirecting = true;
    }

    fn here_document(&mut self) {
        let strip_tabs = self.chars.next_if_eq(&'-').is_some();
        while self.chars.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
        let mut delimiter = String::new();
        while let Some(c) = self.chars.next_if(|c| !c.is_whitespace() && !";|&<>()".contains(*c)) {
            if !matches!(c, '\'' | '"' | '\\') {
                delimiter.push(c);
            }
        }
        // `$((1 << 8))` is a shift.
        if delimiter.starts_with(|c: char| !c.is_ascii_digit()) {
            self.here_documents.push(HereDocument { delimiter, strip_tabs });
        }
    }

    fn skip_here_documents(&mut self) {
        for HereDocument { delimiter, strip_tabs } in std::mem::take(&mut self.here_documents) {
            while self.chars.peek().is_some() {
                let line: String = self.chars.by_ref().take_while(|c| *c != '\n').collect();
                let line = if strip_tabs { line.trim_start_matches('\t') } else { &line };
                if line.trim_end_matches('\r') == delimiter {
                    break;
                }
            }
        }
    }

    fn open_parenthesis(&mut self) {
        let is_array = self.current.word.as_ref().is_some_and(|word| word.ends_with('='));
        if is_array {
            self.enter(Nesting::Array);
        } else {
            self.end_command();
            self.enter(Nesting::Subshell);
        }
    }

    fn close_parenthesis(&mut self) {
        self.end_command();
        let open = self.outer.last().map(|(nesting, _)| *nesting);
        if !matches!(open, Some(Nesting::Backticks | Nesting::QuotedBackticks)) {
            self.leave();
        }
    }

    /// Sets the current command aside to read one inside it. False when nested too deep.
    fn enter(&mut self, nesting: Nesting) -> bool {
        if self.outer.len() >= NESTING_MAX {
            return false;
        }
        let mut interrupted = std::mem::take(&mut self.current);
        if nesting != Nesting::Subshell {
            interrupted.word.get_or_insert_default();
        }
        self.outer.push((nesting, interrupted));
        true
    }

    fn leave(&mut self) {
        let Some((nesting, interrupted)) = self.outer.pop() else { return };
        self.current = interrupted;
        if matches!(nesting, Nesting::QuotedParentheses | Nesting::QuotedBackticks) {
            self.double_quotes();
        }
    }
}
