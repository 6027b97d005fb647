//! What the output of a test run says about its end, for clients that tell no exit code (CB-4): the summary that the known
//! runners print last.

/// The summary stands at the end: of a long output only this much is looked at.
const END_BYTES: usize = 8_192;

/// At the beginning of a line.
const FAILED_LINES: &[&str] = &[
    "test result: FAILED",
    "error: test failed",
    "error: could not compile",
    "FAIL",
    "--- FAIL",
    "FAILED",
    "ERROR",
    "BUILD FAILED",
    "BUILD FAILURE",
    "[ERROR]",
    "npm error",
    "npm ERR!",
    "Failed!",
    "FAILURES!",
    "ERRORS!",
    "make: ***",
];
const PASSED_LINES: &[&str] = &[
    "test result: ok.",
    "ok  \t",
    "OK (",
    "BUILD SUCCESSFUL",
    "[INFO] BUILD SUCCESS",
    "Passed!",
    "100% tests passed",
];
/// After a number.
const FAILED_COUNTS: &[&str] = &["failed", "failing", "failures", "failure", "errors", "error"];
const PASSED_COUNTS: &[&str] = &["passed", "passing", "examples"];

/// Whether the output of a test run says that it passed: a summary says so, and no line of it tells of a failure.
pub fn says_passed(output: &str) -> bool {
    let end = &output[output.ceil_char_boundary(output.len().saturating_sub(END_BYTES))..];
    let mut passed = false;
    // Each line is compared with each known beginning and split twice: a constant number of looks at 8 KiB.
    crate::steps::add(end.len());
    for line in end.lines().map(str::trim_start) {
        let begins = |lines: &[&str]| lines.iter().any(|with| line.starts_with(with));
        let counts = |names: &[&str]| count(line, names);
        if begins(FAILED_LINES) || counts(FAILED_COUNTS).is_some_and(|n| n > 0) {
            return false;
        }
        passed |= begins(PASSED_LINES) || counts(PASSED_COUNTS).is_some_and(|n| n > 0);
    }
    passed
}

/// The number before one of these words, or after it and a colon: `3 passed`, `Failed: 0`.
fn count(line: &str, names: &[&str]) -> Option<u64> {
    let words: Vec<&str> =
        line.split_whitespace().map(|word| word.trim_matches([',', ';', '.', '='])).collect();
    let is_name = |word: &str| names.contains(&word.to_ascii_lowercase().trim_end_matches(':'));
    words.windows(2).find_map(|pair| match pair {
        [number, name] if is_name(name) && !name.ends_with(':') => number.parse().ok(),
        [name, number] if name.ends_with(':') && is_name(name) => number.parse().ok(),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cb_4_the_summary_of_a_known_runner_says_that_it_passed() {
        let passed = [
            "running 3 tests\n...\ntest result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
            "tests/test_a.py ..\n======= 12 passed, 1 warning in 0.31s =======",
            "5 passed in 0.12s",
            "Test Suites: 1 passed, 1 total\nTests:       3 passed, 3 total\nTime: 1 s",
            " Test Files  2 passed (2)\n      Tests  7 passed (7)",
            "ok  \texample.com/a\t0.2s\nok  \texample.com/b\t(cached)",
            "  3 passing (12ms)",
            "Passed!  - Failed:     0, Passed:    12, Skipped:     0, Total:    12",
            "4 examples, 0 failures",
            "OK (4 tests, 9 assertions)",
            "100% tests passed, 0 tests failed out of 8",
            "BUILD SUCCESSFUL in 3s",
        ];
        for output in passed {
            assert!(says_passed(output), "{output}");
        }
        let failed = [
            "test result: ok. 3 passed; 0 failed\ntest result: FAILED. 1 passed; 2 failed",
            "======= 1 failed, 12 passed in 0.31s =======",
            "12 passed, 2 errors in 0.3s",
            "Tests:       1 failed, 2 passed, 3 total",
            "--- FAIL: TestA\nok  \tb\t0.1s",
            "  2 passing (12ms)\n  1 failing",
            "Failed!  - Failed:     1, Passed:    11",
            "4 examples, 1 failure",
            "error: could not compile `a`",
        ];
        for output in failed {
            assert!(!says_passed(output), "{output}");
        }
        for output in ["", "compiling a", "42", "passed", "0 passed in 0.1s", "all tests passed, I think"] {
            assert!(!says_passed(output), "{output}");
        }
        let long = format!("{}\n5 passed in 1s", "ü".repeat(20_000));
        assert!(says_passed(&long));
    }
}
