//! What test runners, shells and wrappers are called, and which of their options take a value.

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
pub(super) const NOT_RUNS: &[&str] = &[
    "pytest -V", "go test -c", "go test -list", "go test -n", "make -n", "gradle -m", "ctest -N", "tox -l",
    "tox list", "tox config", "nox -l", "mvn -DskipTests", "mvn -Dmaven.test.skip", "dotnet test -t",
    "swift test list", "vitest list", "cargo llvm-cov report", "cargo llvm-cov clean", "cargo llvm-cov show-env",
];

/// Options with which no runner runs anything.
#[rustfmt::skip]
pub(super) const NOT_RUN_OPTIONS: &[&str] = &[
    "--help", "-h", "--version", "--no-run", "--collect-only", "--co", "--list", "--list-tests", "--listTests",
    "--show-only", "--dry-run", "--just-print", "--fixtures", "--markers",
];

/// Programs whose operands are targets, in any order and number: `make clean test`.
pub(super) const GOAL_PROGRAMS: &[&str] =
    &["make", "gradle", "mvn", "ant", "ninja", "rake", "sbt", "xcodebuild"];

/// Names of tools that take a shell command, as clients use them: lower case, without `_` and `-`.
#[rustfmt::skip]
pub(super) const SHELL_TOOLS: &[&str] = &[
    "bash", "shell", "sh", "zsh", "cmd", "powershell", "pwsh", "terminal", "console", "exec", "execute",
    "executebash", "executecmd", "executecommand", "executeshell", "executeshellcommand", "execcommand",
    "shellexec", "shellcommand", "localshell", "localshellcall", "containerexec", "unifiedexec", "runbash",
    "runcommand", "runcommands", "runinbashsession", "runinterminal", "runshell", "runshellcommand", "runterminal",
    "runterminalcmd", "runterminalcommand", "bashtool", "shelltool", "launchprocess",
];

/// Options whose value is the next word, by program. An unknown one makes its value look like an operand.
#[rustfmt::skip]
pub(super) const VALUE_OPTIONS: &[(&str, &[&str])] = &[
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
pub(super) struct Wrapper {
    /// The program and its subcommands.
    pub(super) words: &'static [&'static str],
    /// Operands before the command: a duration, a container.
    pub(super) operands: usize,
}

const fn wrapper(words: &'static [&'static str]) -> Wrapper {
    Wrapper { words, operands: 0 }
}

const fn wrapper_after_operand(words: &'static [&'static str]) -> Wrapper {
    Wrapper { words, operands: 1 }
}

/// The longer form of a program stands first: `yarn run jest` before `yarn jest`.
#[rustfmt::skip]
pub(super) const WRAPPERS: &[Wrapper] = &[
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
pub(super) const STOP_OPTIONS: &[(&str, &[&str])] = &[
    ("command", &["-v", "-V"]), ("python", &["-c"]), ("node", &["-e", "--eval", "-p", "--print"]),
    ("php", &["-r"]), ("ruby", &["-e"]), ("sudo", &["-l", "-v", "-e"]),
];

/// Wrappers whose `-m` names a module to run: `python -m pytest`.
pub(super) const MODULE_PROGRAMS: &[&str] = &["python", "coverage", "uv"];

/// Words of the shell's grammar that may stand before a command.
pub(super) const KEYWORDS: &[&str] = &["if", "then", "elif", "else", "while", "until", "do", "!", "{", "}"];

/// Other names of the same program.
#[rustfmt::skip]
pub(super) const ALIASES: &[(&str, &str)] = &[
    ("gradlew", "gradle"), ("mvnw", "mvn"), ("mvnd", "mvn"), ("gmake", "make"), ("mingw32-make", "make"),
    ("nodejs", "node"), ("py", "python"), ("pypy", "python"), ("bazelisk", "bazel"), ("podman", "docker"),
    ("gtimeout", "timeout"), ("bunx", "npx"), ("pnpx", "npx"),
];
