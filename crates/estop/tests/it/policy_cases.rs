//! `estop policy test`: rules against recorded work.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::house::person::finish;
use crate::house::ran::Ran;

fn estop(folder: &Path, arguments: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_estop"));
    finish(command.current_dir(folder).env_clear().env("HOME", folder).args(arguments))
}

/// A folder with a run that asks the same ten times, a run that does not, and a journal of both.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let trace = |id: &str, result_of: &dyn Fn(usize) -> String| {
        let mut messages = vec![json!({"role": "user", "content": "Is the build done?"})];
        for n in 0..10 {
            let call = json!({"id": n.to_string(), "type": "function", "function": {"name": "get_build", "arguments": "{}"}});
            messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
            messages.push(json!({"role": "tool", "tool_call_id": n.to_string(), "content": result_of(n)}));
        }
        format!("{}\n", json!({"id": id, "messages": messages}))
    };
    let stuck = trace("stuck", &|_| "error: no such build".to_owned());
    let words =
        ["fetched", "unpacked", "compiled", "linked", "tested", "signed", "packed", "sent", "seen", "done"];
    let healthy =
        trace("healthy", &|n| format!("step {} of the build: {} {}", n, words[n], words[n].repeat(n + 1)));
    fs::write(folder.path().join("runs.jsonl"), format!("{stuck}{healthy}")).unwrap();
    fs::write(folder.path().join("empty.jsonl"), "{\"id\": \"empty\", \"messages\": []}\n").unwrap();
    fs::write(folder.path().join("estop.yaml"), "policy: {kill_switch_enabled: true}\n").unwrap();
    fs::write(folder.path().join("watch.yaml"), "policy: {kill_switch_enabled: false}\n").unwrap();
    let journal = ["eval", "runs.jsonl", "--policy", "watch.yaml", "--journal", "journal.jsonl"];
    assert_eq!(estop(folder.path(), &journal).code, 0);
    let journal = ["eval", "runs.jsonl", "--policy", "estop.yaml", "--journal", "stopped.jsonl"];
    assert_eq!(estop(folder.path(), &journal).code, 0);
    folder
}

fn tested(folder: &Path, cases: &str, more: &[&str]) -> Ran {
    fs::create_dir_all(folder.join("cases")).unwrap();
    fs::write(folder.join("cases/cases.yaml"), cases).unwrap();
    estop(folder, &[&["policy", "test", "cases/cases.yaml"], more].concat())
}

const HOLD: &str = "config: ../estop.yaml
cases:
- {name: stuck work is refused, traces: ../runs.jsonl, id: stuck, expect: refused, by_step: 8, because: the same}
- {name: healthy work goes on, traces: ../runs.jsonl, id: healthy, agent: coder, expect: passes}
- {name: so it was last night, journal: ../journal.jsonl, agent: healthy, expect: passes}
- {name: and so is what was stuck, journal: ../journal.jsonl, agent: stuck, expect: refused}
";

#[test]
fn ob_3_rules_are_tested_against_recorded_work() {
    let folder = folder();
    let ran = tested(folder.path(), HOLD, &[]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.out.contains("ok      stuck work is refused: trace stuck was refused after 5 steps: "),
        "{ran:?}"
    );
    assert!(ran.out.ends_with("4 of 4 cases hold.\n"), "{ran:?}");

    // What was refused when it was recorded is refused by stricter rules before.
    let stricter = "cases: [{name: x, journal: ../stopped.jsonl, agent: stuck, expect: refused}]";
    fs::write(
        folder.path().join("strict.yaml"),
        "policy: {kill_switch_enabled: true, kill_switch_threshold: 3}\n",
    )
    .unwrap();
    let ran = tested(folder.path(), stricter, &["--config", "strict.yaml"]);
    assert!(ran.code == 0, "{ran:?}");

    // Where loops are only watched, nothing is refused, and the cases say so.
    let ran = tested(folder.path(), HOLD, &["--config", "watch.yaml", "--json"]);
    let said = ran.json();
    let holds: Vec<bool> =
        said["cases"].as_array().unwrap().iter().map(|case| case["holds"].as_bool().unwrap()).collect();
    assert_eq!((ran.code, holds, &said["held"]), (1, vec![false, true, true, false], &json!(2)), "{ran:?}");
    assert_eq!(
        said["cases"][0]["found"],
        "trace stuck was not refused in 10 steps (loops are only watched under these rules)"
    );
}

#[test]
fn ob_3_a_case_that_is_late_or_for_another_reason_or_finds_nothing_does_not_hold() {
    let folder = folder();
    for (case, found) in [
        ("traces: ../runs.jsonl, id: stuck, expect: refused, by_step: 2", "It had to be by step 2."),
        (
            "traces: ../runs.jsonl, id: stuck, expect: refused, because: budget",
            "The reason had to have the words `budget`.",
        ),
        ("traces: ../runs.jsonl, expect: refused", "trace healthy was not refused in 10 steps"),
        ("traces: ../runs.jsonl, id: other, expect: passes", "has no trace `other`"),
        ("journal: ../journal.jsonl, agent: other, expect: passes", "has no records of agent other"),
    ] {
        let ran = tested(folder.path(), &format!("config: ../estop.yaml\ncases: [{{name: x, {case}}}]"), &[]);
        assert!(
            ran.code == 1 && ran.out.starts_with("FAILED  x: ") && ran.out.contains(found),
            "{case}: {ran:?}"
        );
    }
}

#[test]
fn ob_3_cases_that_cannot_be_tested_are_refused_by_name() {
    let folder = folder();
    for (cases, said) in [
        ("cases: []", "cases: there is none"),
        (
            "cases: [{name: x, expect: stopped, traces: a}]",
            "cases.yaml:1:27: expect must be refused or passes",
        ),
        (
            "cases: [{name: x, expect: passes}]",
            "cases[0] (x): name recorded work: `traces: FILE` or `journal: FILE`",
        ),
        ("cases: [{name: x, expect: passes, traces: a, journal: b}]", "leave one out"),
        (
            "cases: [{name: x, expect: passes, traces: a, by_step: 3}]",
            "`by_step` goes with `expect: refused`",
        ),
        (
            "cases: [{name: x, expect: refused, journal: a, agent: a, by_step: 3}]",
            "`by_step` goes with `traces`",
        ),
        ("cases: [{name: x, expect: refused, journal: a}]", "`agent` is missing"),
        ("cases: [{name: x, expect: passes, traces: missing.jsonl}]", "missing.jsonl"),
        ("cases: [{name: x, expect: passes, journal: ../runs.jsonl, agent: a}]", "runs.jsonl:1: "),
        (
            "cases: [{name: x, expect: passes, journal: ../stopped.jsonl, agent: stuck}]",
            "requests were refused when this was recorded",
        ),
        ("cases: [{name: x, traces: ../empty.jsonl, expect: passes}]", "trace empty has no step to judge"),
        ("cases: [{name: x, traces: \"a\\n::error b\", expect: passes}]", "cannot open cases/a\\n::error b"),
        ("config: missing.yaml\ncases: [{name: x, expect: passes, traces: a}]", "missing.yaml: no such file"),
    ] {
        let ran = tested(folder.path(), cases, &[]);
        assert!(ran.code == 2 && ran.err.contains(said) && ran.out.is_empty(), "{cases}: {ran:?}");
    }
}
