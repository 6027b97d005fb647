//! The commands as a user calls them: the real binary, real files, its output and its exit code.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

struct Ran {
    code: i32,
    out: String,
    err: String,
}

fn estop(args: &[&str]) -> Ran {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_estop")).args(args).output().expect("the binary starts");
    Ran {
        code: status.code().expect("it ends by itself"),
        out: String::from_utf8(stdout).expect("output is text"),
        err: String::from_utf8(stderr).expect("errors are text"),
    }
}

fn samples(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples").join(name).display().to_string()
}

/// A folder of its own for each test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("the folder can be made");
        Folder(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// A journal of the sample traces.
    fn journal(&self) -> String {
        let journal = self.file("journal.jsonl");
        let ran = estop(&["eval", &samples("traces.jsonl"), "--journal", &journal]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        journal
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn json(ran: &Ran) -> serde_json::Value {
    serde_json::from_str(&ran.out).expect("the output is JSON")
}

#[test]
fn ld_7_eval_finds_the_loops_and_spares_the_healthy() {
    let ran = estop(&["eval", &samples("traces.jsonl"), "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let report = json(&ran);
    assert_eq!(report["healthy"]["false_kills"], 0, "{report}");
    assert!(report["healthy"]["total"].as_u64() > Some(0));
    assert_eq!(report["loops"]["found"], report["loops"]["total"], "{report}");
    for key in ["by_class", "median_repeats", "saved_share"] {
        assert!(!report["loops"][key].is_null(), "{key} is missing");
    }
    let table = estop(&["eval", &samples("traces.jsonl")]);
    assert!(table.out.contains("healthy") && table.out.contains("all loops"), "{}", table.out);
}

#[test]
fn tw_7_a_journal_verifies_and_replays_equal() {
    let folder = Folder::new("equal");
    let journal = folder.journal();
    let verified = estop(&["verify", &journal]);
    assert_eq!(verified.code, 0, "{}", verified.out);
    assert!(verified.out.starts_with("Whole: "), "{}", verified.out);
    let replayed = estop(&["replay", &journal, "--json"]);
    assert_eq!(replayed.code, 0, "{}", replayed.out);
    assert_eq!(json(&replayed)["equal"], true);
}

#[test]
fn tw_7_a_changed_journal_is_found_with_its_line() {
    let folder = Folder::new("changed");
    let journal = folder.journal();
    let text = std::fs::read_to_string(&journal).expect("it was just written");
    let mut lines: Vec<&str> = text.lines().collect();
    let changed = lines[4].replacen("\"mono\":", "\"mono\":1", 1);
    lines[4] = &changed;
    std::fs::write(&journal, lines.join("\n") + "\n").expect("it can be written");
    for command in ["verify", "replay"] {
        let ran = estop(&[command, &journal]);
        assert_eq!(ran.code, 1, "{}", ran.out);
        assert!(ran.out.contains("journal.jsonl:5: record 5"), "{}", ran.out);
    }
}

#[test]
fn tw_7_a_cut_journal_is_not_vouched_for() {
    let folder = Folder::new("cut");
    let journal = folder.journal();
    let text = std::fs::read_to_string(&journal).expect("it was just written");
    let kept: Vec<&str> = text.lines().take(20).collect();
    std::fs::write(&journal, kept.join("\n") + "\n").expect("it can be written");
    let strict = estop(&["verify", &journal]);
    assert_eq!(strict.code, 1);
    assert!(strict.out.contains("does not end with a checkpoint"), "{}", strict.out);
    assert_eq!(estop(&["verify", &journal, "--allow-unsealed"]).code, 0);
}

#[test]
fn tw_8_a_backtest_says_who_would_have_been_stopped() {
    let folder = Folder::new("backtest");
    let journal = folder.journal();
    let policy = folder.file("tight.yaml");
    std::fs::write(&policy, "policy:\n  budget: {tokens_per_run: 3000}\n").expect("it can be written");
    let ran = estop(&["replay", &journal, "--policy", &policy, "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let report = json(&ran);
    let agents = report["agents"].as_object().expect("agents by name");
    assert!(agents.values().any(|a| a["stops"][0]["guard"] == "budget"), "{report}");
    let table = estop(&["replay", &journal, "--policy", &policy]);
    assert!(table.out.contains("would have been stopped"), "{}", table.out);
}

#[test]
fn ui_5_a_wrong_policy_is_refused_with_its_place() {
    let folder = Folder::new("policy");
    let journal = folder.journal();
    let policy = folder.file("wrong.yaml");
    std::fs::write(&policy, "policy:\n  kill_switch_enable: true\n").expect("it can be written");
    let ran = estop(&["replay", &journal, "--policy", &policy]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("wrong.yaml:2:3") && ran.err.contains("did you mean `kill_switch_enabled`?"),
        "{}",
        ran.err
    );
    assert_eq!(ran.out, "");
}

#[test]
fn ui_2_mistakes_end_with_code_two_and_say_what_to_mend() {
    let folder = Folder::new("mistakes");
    let missing = folder.file("missing.jsonl");
    for command in ["verify", "replay", "eval"] {
        let ran = estop(&[command, &missing]);
        assert_eq!(ran.code, 2);
        assert!(ran.err.contains("cannot open") && ran.err.contains("missing.jsonl"), "{}", ran.err);
    }
    assert_eq!(estop(&["frobnicate"]).code, 2);
    let not_a_trace = folder.file("bad.jsonl");
    std::fs::write(&not_a_trace, "{\"id\": 5}\n").expect("it can be written");
    let ran = estop(&["eval", &not_a_trace]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("bad.jsonl:1: this line is not a trace"), "{}", ran.err);
    let journal = folder.journal();
    let again = estop(&["eval", &samples("traces.jsonl"), "--journal", &journal]);
    assert_eq!(again.code, 2, "an existing journal is not overwritten");
}
