//! LD-6(e) chanting and CB-4 test runs, from outside.
#![allow(clippy::disallowed_methods, reason = "the judged code reads no files; its tests read their scripts")]

use std::path::PathBuf;

use estop_core::loop_detector::chant::{Chant, ChantDetector};
use estop_core::run::test_command::{TestRunners, TestRunnersError, is_shell_tool, is_test_run};
use proptest::prelude::*;

fn chant_in(text: &str) -> Option<Chant> {
    ChantDetector::default().push(text)
}

/// What `line` makes for 0, 1, 2, …, one per line.
fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(|i| line(i) + "\n").collect()
}

fn fenced(text: &str) -> String {
    format!("Here it is:\n\n```text\n{text}\n```\n")
}

/// Numbers that look random and are always the same.
fn scrambled(seed: usize) -> u64 {
    let mut x = (seed as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x ^= x >> 29;
    x = x.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x ^ (x >> 32)
}

const PARAGRAPH: &str = "I will now read the configuration file again, because the earlier attempt did not show \
    the value that I was looking for. Once I have it I can compare it with the expected one and decide whether \
    the service has to be restarted, or whether the problem lies somewhere else entirely. Let me do that.\n\n";

#[test]
fn ld_6e_a_repeated_unit_of_any_length_is_found() {
    let long = PARAGRAPH.repeat(3);
    let page: String = (0..980).map(|i| char::from(b"etaoin shrdlu"[scrambled(i) as usize % 13])).collect();
    for unit in ["ha ", "yes agree\n", "I should check again. ", "重试一次，", PARAGRAPH, &long, &page] {
        let text = format!("Let me think about it first.\n{}", unit.repeat(1_000));
        let chant = chant_in(&text);
        assert!(chant.is_some(), "{unit:?} was not found");
        let Some(chant) = chant else { continue };
        let normalised = unit.split_whitespace().collect::<Vec<_>>().join(" ").chars().count() as u32;
        assert!(chant.period_chars.abs_diff(normalised) <= 1 || unit == long, "{unit:?}: {chant:?}");
        assert!(chant.repeats >= 5, "{unit:?}: {chant:?}");
        assert!(chant.at_char <= 29 + 512.max(unit.chars().count() as u64 * 10) + 512, "{unit:?}: {chant:?}");
    }
}

#[test]
fn ld_6e_the_evidence_names_period_repeats_and_place() {
    let text = format!("Well.\n{}", "yes agree\n".repeat(400));
    assert_eq!(chant_in(&text), Some(Chant { period_chars: 10, repeats: 51, at_char: 517 }));
}

#[test]
fn ld_6e_a_chant_is_told_once() {
    let mut detector = ChantDetector::default();
    assert!(detector.push(&"yes agree ".repeat(200)).is_some());
    assert_eq!(detector.push(&"yes agree ".repeat(2_000)), None);
}

#[test]
fn ld_6e_whitespace_may_differ_and_numbers_may_count() {
    let ragged = lines(300, |i| format!("yes{}agree", " ".repeat(1 + i % 7)));
    assert!(chant_in(&ragged).is_some());
    let counted = lines(100, |i| format!("Step {i}: I will run the build once more and look at the log."));
    assert!(chant_in(&counted).is_some());
    let short = lines(1_000, |i| format!("Step {i}: think"));
    assert!(chant_in(&short).is_some());
}

#[test]
fn ld_6e_one_slip_does_not_hide_a_chant() {
    let text = format!("{}Hm. {}", "yes agree ".repeat(40), "yes agree ".repeat(100));
    assert!(chant_in(&text).is_some());
}

#[test]
fn ld_6e_a_unit_with_repetition_inside_is_found() {
    let unit = format!("{}then the other thing happened, and we start over. ", "no way ".repeat(60));
    assert!(chant_in(&unit.repeat(20)).is_some());
    let nested: String = ["yes ", "yes ", "yes ", "no ", "yes ", "no ", "no ", "no "].concat();
    assert!(chant_in(&nested.repeat(40)).is_some());
}

#[test]
fn ld_6e_a_code_fence_takes_four_times_as_much() {
    assert!(chant_in(&"lorem ipsum dolor\n".repeat(40)).is_some());
    assert_eq!(chant_in(&fenced(&"lorem ipsum dolor\n".repeat(40))), None);
    assert!(chant_in(&fenced(&"lorem ipsum dolor\n".repeat(200))).is_some());
    let after = format!("{}{}", fenced("let x = 1;"), "lorem ipsum dolor\n".repeat(40));
    assert!(chant_in(&after).is_some(), "the fence was closed");
    let inline = format!("```not a fence```\n{}", "lorem ipsum dolor\n".repeat(40));
    assert!(chant_in(&inline).is_some(), "nothing was opened");
}

#[test]
fn ld_6e_endless_code_blocks_are_found() {
    assert!(chant_in(&"```bash\ncargo build\n```\n\nLet me try again.\n\n".repeat(60)).is_some());
}

#[test]
fn ld_6e_healthy_text_is_left_alone() {
    let words = ["alpha", "bravo", "carol", "delta", "echo", "fox", "golf", "hotel"];
    let word = |i: usize| words[scrambled(i) as usize % words.len()];
    let cases = [
        ("horizontal rules", ["-", "=", "*", "_ ", "- - ", "~"].map(|mark| mark.repeat(900)).join("\n")),
        ("blank lines and indentation", format!("{}{}", "\n \t".repeat(3_000), " ".repeat(20_000))),
        ("markdown table", lines(80, |i| format!("| {} | {} | yes | yes | no |", word(i), i * 7))),
        ("table rule", format!("|{}\n", "---|".repeat(300))),
        ("empty table", lines(80, |_| "|      |      |      |      |".into())),
        ("box drawing", lines(60, |_| format!("│{}│", " ".repeat(30)) + "\n├──────┼──────┤")),
        ("closing braces", lines(200, |_| "        });\n    }\n}".into())),
        ("csv with other values", lines(300, |i| format!("{i},{},{}.5,true", scrambled(i) % 99, i * 3))),
        ("json with other values", {
            lines(300, |i| format!("  {{\"id\": {i}, \"x\": {}, \"ok\": true}},", scrambled(i) % 1_000))
        }),
        ("json with one counter", lines(300, |i| format!("  {{\"id\": {i}, \"kind\": \"user account\"}},"))),
        ("numbers", lines(500, |i| format!("{}, ", scrambled(i) % 100))),
        ("zeros", "0, ".repeat(1_000)),
        ("nulls", "null, ".repeat(300)),
        ("labels", "\"spam\", ".repeat(200)),
        ("bytes", "0x00, ".repeat(400)),
        ("hex dump", lines(300, |i| format!("{:08x}: 0000 0000 0000 0000  ................", i * 16))),
        ("base64", (0..4_000).map(|i| char::from(b'A' + (scrambled(i) % 26) as u8)).collect()),
        ("base64 of zeros", "A".repeat(3_000)),
        ("dna", "CAG".repeat(200)),
        ("progress", lines(100, |i| format!("[{:<100}] {i}%", "#".repeat(i)))),
        ("count to 100", lines(100, |i| format!("Line {i}"))),
        ("list of results", lines(50, |i| format!("Test case {i}: passed"))),
        (
            "log",
            lines(60, |i| format!("12:{:02}:{:02} INFO served request {i} in {} ms", i, i * 7 % 60, i * 3)),
        ),
        (
            "similar items",
            lines(100, |i| format!("- Update `{}_{}` to use the new API", word(i), word(i + 500))),
        ),
        ("ten equal lines", "assert_eq!(parse(input), expected);\n".repeat(10)),
        ("song", "na na na na na na na, na na na na, hey Jude\n".repeat(9)),
        ("fixture in a fence", fenced(&"the quick brown fox\n".repeat(90))),
        ("ascii art", lines(40, |i| format!("{}/\\{}", " ".repeat(40 - i), "__".repeat(i)))),
        ("checkerboard", lines(30, |_| "#.#.#.#.#.#.#.#.#.#.".into())),
        (
            "imports",
            lines(60, |i| format!("import {{ {} }} from './{}/{}';", word(i), word(i + 90), word(i + 7))),
        ),
    ];
    for (name, text) in cases {
        assert_eq!(chant_in(&text), None, "{name}");
        assert_eq!(chant_in(&fenced(&text)), None, "{name}, fenced");
    }
}

/// Assistant texts of a trace file by trace id; `None` where the traces are not at hand.
fn assistant_texts(file: &str) -> Option<Vec<(String, String)>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces").join(file);
    let Ok(traces) = std::fs::read_to_string(&path) else {
        println!("skipped: {} is not here", path.display());
        return None;
    };
    let mut texts = Vec::new();
    for line in traces.lines() {
        let trace: serde_json::Value = serde_json::from_str(line).expect("a trace is JSON");
        let id = trace["id"].as_str().unwrap_or_default();
        for message in trace["messages"].as_array().into_iter().flatten() {
            if let ("assistant", Some(text)) =
                (message["role"].as_str().unwrap_or(""), message["content"].as_str())
            {
                texts.push((id.to_owned(), text.to_owned()));
            }
        }
    }
    Some(texts)
}

#[test]
fn ld_6e_no_healthy_trace_chants() {
    let Some(texts) = assistant_texts("healthy.jsonl") else { return };
    assert!(texts.len() > 1_000);
    for (id, text) in texts {
        assert_eq!(chant_in(&text), None, "{id}");
    }
}

#[test]
fn ld_6e_the_reported_chant_is_found_and_nothing_else() {
    let Some(texts) = assistant_texts("incidents.jsonl") else { return };
    let mut found = 0;
    for (id, text) in texts {
        let chant = chant_in(&text);
        assert_eq!(chant.is_some(), id == "syn:chant", "{id}: {chant:?}");
        found += usize::from(chant.is_some());
    }
    assert!(found > 0);
}

/// Feeds `text` in pieces of the given lengths, over and over.
fn chant_in_pieces(text: &str, lengths: &[usize]) -> Option<Chant> {
    let mut detector = ChantDetector::default();
    let mut chars = text.chars();
    lengths.iter().cycle().find_map(|&length| {
        let piece: String = chars.by_ref().take(length).collect();
        if piece.is_empty() { Some(None) } else { detector.push(&piece).map(Some) }
    })?
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn ld_6e_the_cuts_between_pieces_do_not_matter(
        before in "[a-z0-9 \n`]{0,400}",
        unit in "[a-zé重 0-9\n`|]{1,60}",
        lengths in prop::collection::vec(1_usize..90, 1..6),
    ) {
        let text = before + &unit.repeat(100);
        prop_assert_eq!(chant_in(&text), chant_in_pieces(&text, &lengths));
    }

    #[test]
    fn ld_6e_random_text_never_chants(text in "\\PC{0,3000}", words in "([a-z]{1,8}[ ,.\n]){0,600}") {
        prop_assert_eq!(chant_in(&text), None);
        prop_assert_eq!(chant_in(&words), None);
    }

    /// 40 copies of prose are enough, as long as they are 512 chars.
    #[test]
    fn ld_6e_forty_copies_of_prose_chant(before in "\\PC{0,300}", unit in "[A-Z][a-z']{1,9}( [a-z]{1,9}){2,40}[.!] ") {
        let copies = 40.max(512 / unit.len() + 2);
        let text = before + "\n" + &unit.repeat(copies);
        prop_assert!(chant_in(&text).is_some());
    }

    /// Anything with two letters chants in the end, whatever stands between them.
    #[test]
    fn ld_6e_any_unit_chants_in_the_end(unit in "[^`~]{1,300}") {
        let mut letters: Vec<char> = unit.chars().filter(char::is_ascii_alphabetic).collect();
        letters.dedup();
        prop_assume!(letters.len() >= 2);
        let text = unit.repeat(42.max(6_000 / unit.chars().count()));
        prop_assert!(chant_in(&text).is_some());
    }
}

#[test]
fn cb_4_invocations_of_test_runners_are_test_runs() {
    for command in TEST_RUNS {
        assert!(is_test_run("bash", command), "should be a test run: {command}");
    }
}

#[test]
fn cb_4_mentions_of_test_runners_are_not_test_runs() {
    for command in NO_TEST_RUNS {
        assert!(!is_test_run("bash", command), "should not be a test run: {command}");
    }
}

const TEST_RUNS: &[&str] = &[
    // Python.
    "pytest",
    "pytest -q tests/test_api.py::test_login -x",
    "py.test -n 4",
    "python -m pytest",
    "python3 -m unittest discover -s tests",
    "python3.12 -u -X dev -m pytest -q",
    ".venv/bin/python -m pytest",
    ".venv/bin/pytest -q",
    "python .venv/bin/pytest",
    "uv run pytest",
    "uv run --with pytest-xdist --extra dev pytest -n 4",
    "uv run --directory api -- pytest",
    "uv run python -m pytest -q",
    "uvx tox -e py312",
    "poetry run pytest",
    "poetry -C api run pytest",
    "pipenv run pytest",
    "tox",
    "nox -s tests",
    "coverage run -m pytest && coverage report",
    "python -m coverage run --source src -m unittest",
    "python manage.py test accounts",
    "./manage.py test",
    // JavaScript.
    "npm test",
    "npm t",
    "npm run test",
    "npm run test:unit -- --watch=false",
    "npm --prefix web test",
    "npm run -s test",
    "npm -w packages/a test",
    "pnpm test",
    "pnpm --filter web test",
    "pnpm -r run test",
    "pnpm exec jest",
    "pnpm vitest run",
    "yarn test",
    "yarn jest --ci",
    "yarn run vitest",
    "yarn workspace web test",
    "bun test",
    "bun run test",
    "bunx vitest",
    "npx jest",
    "npx --yes vitest@latest run",
    "npx playwright test",
    "jest --runInBand",
    "vitest run",
    "./node_modules/.bin/jest src",
    "node node_modules/jest/bin/jest.js",
    "node --test",
    "deno test -A",
    "cross-env CI=1 jest",
    // Rust, Go, .NET, Swift, Zig.
    "cargo test",
    "cargo t -p core",
    "cargo +nightly test",
    "cargo --locked test",
    "cargo --manifest-path api/Cargo.toml test",
    "cargo nextest run --workspace",
    "go test ./...",
    "go -C dir test ./...",
    "dotnet test",
    "swift test",
    "zig build test",
    // JVM.
    "mvn test",
    "mvn -q -f pom.xml clean test",
    "./mvnw -pl core surefire:test",
    "gradle test",
    "./gradlew :app:testDebugUnitTest --info",
    "./gradlew clean :core:test",
    "bash ./gradlew test",
    r".\gradlew.bat test",
    // Build tools, Ruby, PHP and others.
    "make test",
    "make -j4 test",
    "make -C build -j 4 clean check",
    "ctest --output-on-failure",
    "ctest -V",
    "bazel test //...",
    "bazelisk test //core:all",
    "mise run test:integration -- -run TestX",
    "bundle exec rspec spec/models",
    "rspec",
    "bundle exec rake spec",
    "phpunit",
    "vendor/bin/phpunit --filter Login",
    "php artisan test",
    "mix test",
    // Around it.
    "cd x && cargo test 2>&1 | tail",
    "cd \"$(git rev-parse --show-toplevel)\" && go test ./... >/tmp/log 2>&1; echo $?",
    "CI=1 FOO='a b' pytest",
    "sudo -u app env -u HOME CI=1 pytest",
    "time cargo test",
    "timeout 60 npm test",
    "timeout -k 5 60s bash -lc 'cd api && pytest'",
    "nice -n 10 stdbuf -oL nohup cargo test &",
    "xvfb-run -a npx cypress run",
    "command pytest",
    "exec cargo test",
    "bash -c \"cargo test\"",
    "sh -lc 'npm ci && npm test'",
    "bash -euo pipefail -c 'cargo test | tee log'",
    "bash -c \"bash -c 'cargo test'\"",
    "eval 'cargo test'",
    "su - app -c 'pytest -q'",
    "docker exec -it web pytest",
    "docker exec -w /app -e CI=1 web bash -lc \"pytest -q\"",
    "docker compose -f dev.yml run --rm web npm test",
    "docker run --rm -v $PWD:/w -w /w rust:1 cargo test",
    "kubectl exec -n dev pod/web -- pytest",
    "git ls-files '*_test.py' | xargs -n 1 pytest",
    "(cd web; npm test)",
    "{ cargo test; } 2>&1",
    "if ! cargo test; then echo failed; fi",
    "for i in 1 2 3; do cargo test || break; done",
    "out=$(cargo test 2>&1)",
    "echo \"result: $(pytest -q | tail -1)\"",
    "echo `go test ./...`",
    "diff <(pytest -q) expected.txt",
    "pytest \\\n  -q \\\n  tests",
    "# first the tests\ncargo test",
    "cat > a.py <<'EOF'\nprint('it''s')\nEOF\npytest",
    "cat <<-EOF > x\n\tpip install pytest\n\tEOF\nnpm test",
    "2>/dev/null pytest",
    "echo $((1 << 8))\ncargo test",
    "git bisect run cargo test",
    "npm test `\n  -- --ci",
];

const NO_TEST_RUNS: &[&str] = &[
    "",
    "pip install pytest",
    "python -m pip install pytest",
    "uv add --dev pytest",
    "uv run --with pytest python script.py",
    "npm install --save-dev jest vitest",
    "npm ci",
    "npm run build",
    "npm run lint:test-utils",
    "yarn add jest",
    "pnpm why vitest",
    "cargo build --tests",
    "cargo test --no-run",
    "cargo +nightly test --no-run --workspace",
    "cargo test --help",
    "cargo test -- --list",
    "cargo help test",
    "cargo add test",
    "cargo nextest list",
    "cargo run -- test",
    "pytest --version",
    "pytest --collect-only -q",
    "pytest --co",
    "npx jest --listTests",
    "ctest -N",
    "go test -c ./cmd/... -o /dev/null",
    "go test -list . ./...",
    "go vet ./...",
    "go build ./test",
    "dotnet test --list-tests",
    "mvn verify -DskipTests",
    "mvn package",
    "gradle build -x test",
    "make",
    "make -C test all",
    "make -n test",
    "make testdata.json",
    "tox list",
    "vitest list",
    "echo \"run pytest\"",
    "echo run pytest",
    "echo 'a; cargo test'",
    "echo a \\; cargo test",
    "printf 'cargo test\\n' > run.sh",
    "grep pytest requirements.txt",
    "grep -rn \"cargo test\" . | head",
    "rg 'npm test|jest' --files-with-matches",
    "cat pytest.ini",
    "git commit -m \"cargo test\"",
    "git commit -m \"fix: x; cargo test\"",
    "git commit -m \"$(cat <<'EOF'\nFix it\n\nChecked with:\ncargo test\nit's done; npm test\nEOF\n)\"",
    "git commit -am 'run\npytest\nfirst'",
    "cat > ci.sh <<EOF\ncargo test\nEOF",
    "cat <<A <<B\npytest\nA\npytest\nB\nls",
    "which jest",
    "command -v pytest",
    "type -p jest",
    "man pytest",
    "# cargo test",
    "ls # && cargo test",
    "vim test_x.py",
    "python test_x.py",
    "python -c 'import pytest' pytest",
    "node -e 'jest' jest",
    "test -f Cargo.toml",
    "[ -d test ] && ls test",
    "mkdir pytest && cd pytest",
    "ls > pytest",
    "cat < jest",
    "ls 2>&1 | tee cargo test",
    "RUNNERS=(pytest jest); echo ${RUNNERS[0]}",
    "for r in pytest jest; do echo $r; done",
    "case $x in pytest) echo one;; esac",
    "docker build -t pytest .",
    "docker logs pytest",
    "docker run --rm --name pytest alpine ls",
    "sudo apt-get install -y python3-pytest",
    "kill $(pgrep -f pytest)",
    "pkill -f pytest",
    "tail -f pytest.log",
    "alias t='cargo test'",
    "export TEST='npm test'",
    "$(pick) pytest",
    "gh pr create --body \"Run \\`cargo test\\` first\"",
    "sed -i 's/npm test/npm run check/' package.json",
    "bash deploy.sh",
    "jest_config=1 ls",
    "timeout 60",
    "sudo",
    "bash -c",
    "rspec --dry-run",
];

#[test]
fn cb_4_only_shell_like_tools_run_tests() {
    for tool in [
        "bash",
        "Bash",
        "shell",
        "terminal",
        "run_command",
        "run_commands",
        "run_shell_command",
        "exec",
        "execute_command",
        "local_shell",
        "container.exec",
        "exec_command",
        "run_terminal_cmd",
        "powershell",
        "runInTerminal",
        "run_in_terminal",
        "developer__shell",
        "mcp__box__execute_bash",
        "functions.shell",
        "Execute",
        "launch-process",
    ] {
        assert!(is_shell_tool(tool), "{tool}");
        assert!(is_test_run(tool, "cargo test"), "{tool}");
    }
    for tool in
        ["", "Read", "Write", "Edit", "search", "think", "message", "BashOutput", "kill_shell", "process"]
    {
        assert!(!is_test_run(tool, "cargo test"), "{tool}");
    }
}

#[test]
fn cb_4_a_user_may_add_runners() {
    let patterns = ["./ci.sh", "earthly +test", "inv * unit", "bin/check --all"].map(str::to_owned);
    let runners = TestRunners::new(&patterns).expect("the patterns are fine");
    for command in
        ["bash ci.sh", "cd x && ./ci.sh fast", "earthly -P +test", "inv api unit", "check -v --all"]
    {
        assert!(runners.is_test_run("bash", command), "{command}");
        assert!(!is_test_run("bash", command), "{command}");
    }
    for command in ["cat ci.sh", "earthly +build", "inv api lint", "check -v", "./ci.sh --help"] {
        assert!(!runners.is_test_run("bash", command), "{command}");
    }
    assert!(runners.is_test_run("bash", "cargo test"));
    assert_eq!(TestRunners::new(&["tox".into(), " ".into()]), Err(TestRunnersError::Empty(1)));
    assert_eq!(TestRunners::new(&vec!["x".into(); 101]), Err(TestRunnersError::TooMany(101)));
}

#[test]
fn cb_4_a_command_may_come_as_words() {
    let runs = |argv: &[&str]| {
        let argv: Vec<String> = argv.iter().map(|&word| word.to_owned()).collect();
        TestRunners::default().is_test_run_argv("shell", &argv)
    };
    assert!(runs(&["bash", "-lc", "cd api && cargo test"]));
    assert!(runs(&["pytest", "-q"]));
    assert!(!runs(&["echo", "; cargo test"]));
    assert!(!runs(&[]));
}

#[test]
fn cb_4_nesting_without_end_is_read_in_bounded_depth() {
    let nested = |depth: usize| format!("{}cargo test{}", "echo $(".repeat(depth), ")".repeat(depth));
    assert!(is_test_run("bash", &nested(20)));
    is_test_run("bash", &nested(50_000));
    let mut quoted = "cargo test".to_owned();
    for _ in 0..12 {
        quoted = format!("bash -c \"{}\"", quoted.replace('\\', "\\\\").replace('"', "\\\""));
    }
    assert!(!is_test_run("bash", &quoted), "deeper than anyone writes");
    assert!(!is_test_run("bash", &"sudo ".repeat(20_000)));
    assert!(!is_test_run("bash", &"\"`".repeat(20_000)));
}

proptest! {
    #[test]
    fn cb_4_no_command_panics(tool in "\\PC{0,12}", any in ".{0,200}", odd in "[\"'`$(){}<>&|;#\\\\\n a=c-]{0,200}") {
        is_test_run(&tool, &any);
        is_test_run("bash", &any);
        is_test_run("bash", &odd);
        is_test_run("bash", &format!("bash -c {odd}"));
        is_test_run("bash", &format!("cat <<{odd}\n{any}"));
    }

    /// Whatever is quoted as one word of `echo` is no command.
    #[test]
    fn cb_4_a_quoted_word_is_never_a_command(text in "[^']{0,60}") {
        let command = format!("echo '{text}; cargo test\npytest'");
        prop_assert!(!is_test_run("bash", &command));
    }

    /// A test run stays one whatever harmless command stands before it.
    #[test]
    fn cb_4_commands_before_do_not_hide_a_test_run(words in "[a-z0-9 ./_-]{0,60}", glue in "( && |; |\n| \\|\\| )") {
        let command = format!("echo {words}{glue}cargo test");
        prop_assert!(is_test_run("bash", &command));
    }
}
