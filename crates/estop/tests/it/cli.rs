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

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.file(name);
        std::fs::write(&path, text).expect("it can be written");
        path
    }

    /// The sample journal, cut after some lines.
    fn cut_journal(&self, lines: usize) -> String {
        let text = std::fs::read_to_string(self.journal()).expect("it was just written");
        let kept: String = text.split_inclusive('\n').take(lines).collect();
        self.write("cut.jsonl", &kept)
    }

    /// The sample journal with one number changed.
    fn changed_journal(&self) -> String {
        let text = std::fs::read_to_string(self.journal()).expect("it was just written");
        let mut lines: Vec<&str> = text.lines().collect();
        let changed = lines[4].replacen("\"mono\":", "\"mono\":1", 1);
        lines[4] = &changed;
        self.write("changed.jsonl", &(lines.join("\n") + "\n"))
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

/// A trace that does the same `steps` times over.
fn looping(id: &str, steps: usize) -> String {
    let call = r#"{"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "ls", "arguments": "{}"}}]}"#;
    let result = r#"{"role": "tool", "tool_call_id": "c", "content": "x"}"#;
    let messages = vec![format!("{call}, {result}"); steps].join(", ");
    let id = serde_json::to_string(id).expect("a string");
    format!(r#"{{"id": {id}, "messages": [{{"role": "user", "content": "go"}}, {messages}]}}"#) + "\n"
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
    let journal = folder.changed_journal();
    for command in ["verify", "replay"] {
        let ran = estop(&[command, &journal]);
        assert_eq!(ran.code, 1, "{}", ran.out);
        assert!(ran.out.contains("changed.jsonl:5: the line after record 3 was changed"), "{}", ran.out);
    }
}

/// The ways to read a journal.
fn readers(policy: &str) -> [Vec<&str>; 3] {
    [vec!["verify"], vec!["replay"], vec!["replay", "--policy", policy]]
}

#[test]
fn tw_7_a_cut_or_empty_journal_is_not_vouched_for() {
    let folder = Folder::new("cut");
    let policy = folder.write("empty.yaml", "");
    for journal in [folder.cut_journal(20), folder.write("empty.jsonl", "")] {
        for reader in readers(&policy) {
            let strict = estop(&[&reader[..], &[&journal]].concat());
            assert_eq!(strict.code, 1, "{reader:?}");
            assert!(strict.out.contains("does not end with the last line of a segment"), "{}", strict.out);
            let told = json(&estop(&[&reader[..], &[&journal, "--json"]].concat()));
            assert_eq!(told["sealed"], false, "{told}");
            assert!(told["problem"].as_str().is_some_and(|p| p.contains("last line")), "{told}");
            let lenient = estop(&[&reader[..], &[&journal, "--allow-unsealed", "--json"]].concat());
            assert_eq!((lenient.code, &json(&lenient)["sealed"]), (0, &false.into()), "{reader:?}");
        }
    }
}

#[test]
fn tw_7_a_half_written_last_line_is_the_end_of_an_unsealed_journal() {
    let folder = Folder::new("half");
    let policy = folder.write("empty.yaml", "");
    let whole = std::fs::read_to_string(folder.cut_journal(20)).expect("it was just written");
    let half = folder.write("half.jsonl", &whole[..whole.len() - 100]);
    let in_the_middle = folder.write("middle.jsonl", &format!("{}\n{whole}", &whole[..100]));
    for reader in readers(&policy) {
        let ran = estop(&[&reader[..], &[&half, "--allow-unsealed"]].concat());
        assert_eq!(ran.code, 0, "{reader:?}: {}", ran.out);
        let strict = estop(&[&reader[..], &[&half]].concat());
        assert_eq!(strict.code, 1);
        assert!(strict.out.contains("half.jsonl:20: the journal does not end"), "{}", strict.out);
        assert_eq!(estop(&[&reader[..], &[&in_the_middle, "--allow-unsealed"]].concat()).code, 1);
    }
    let verified = estop(&["verify", &half, "--allow-unsealed"]);
    assert!(verified.out.contains("Whole: 18 records"), "{}", verified.out);
}

#[test]
fn ui_2_a_closed_pipe_does_not_change_the_exit_code() {
    let folder = Folder::new("pipe");
    let (policy, whole, changed) =
        (folder.write("empty.yaml", ""), folder.journal(), folder.file("changed.jsonl"));
    std::fs::remove_file(&whole).expect("it was just written");
    folder.changed_journal();
    for reader in readers(&policy) {
        for (journal, code) in [(&whole, 0), (&changed, 1)] {
            let (read, write) = std::io::pipe().expect("a pipe");
            drop(read);
            let args = [&reader[..], &[journal]].concat();
            let status = Command::new(env!("CARGO_BIN_EXE_estop")).args(&args).stdout(write).status();
            assert_eq!(status.expect("the binary starts").code(), Some(code), "{args:?}");
        }
    }
}

#[test]
fn ui_2_json_is_json_even_when_the_answer_is_no() {
    let folder = Folder::new("json_no");
    let (policy, journal) = (folder.write("empty.yaml", ""), folder.changed_journal());
    for reader in readers(&policy) {
        let ran = estop(&[&reader[..], &[&journal, "--json"]].concat());
        let told = json(&ran);
        assert_eq!((ran.code, &told["line"]), (1, &5.into()), "{told}");
        assert!(told["problem"].as_str().is_some_and(|p| p.contains("after record 3 was changed")), "{told}");
    }
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

#[test]
fn ui_2_help_says_what_it_is_and_where_failures_go() {
    let help = estop(&["--help"]).out;
    assert!(help.starts_with("The emergency stop for AI agents\n"), "{help}");
    assert!(help.contains("standard error"), "{help}");
}

#[test]
fn ld_7_a_list_of_traces_is_text_or_json() {
    let folder = Folder::new("list");
    let traces = folder.write("traces.jsonl", &(looping("long", 60) + "\n  \n" + &looping("short", 2)));
    let listed = json(&estop(&["eval", &traces, "--list", "--json"]));
    let expected = serde_json::json!({"id": "long", "label": null, "steps": 60, "stopped_after": 5, "repeats": 5,
        "reason": "Loop: the same action with the same result 5 times in a row."});
    assert_eq!(listed["traces"][0], expected);
    assert_eq!(listed["traces"][1]["stopped_after"], serde_json::Value::Null);
    assert_eq!(listed["unlabelled"], serde_json::json!({"total": 2, "stopped": 1, "ids": ["long"]}));
    let text = estop(&["eval", &traces, "--list"]).out;
    assert!(text.contains("long: stopped after 5 of 60 steps and 5 repeats. Loop:"), "{text}");
    assert!(text.contains("short: ran through all 2 steps."), "{text}");
    assert!(text.contains("unlabelled"), "{text}");
    assert!(json(&estop(&["eval", &traces, "--json"]))["traces"].is_null());
}

#[test]
fn ld_7_no_traces_are_said_to_be_none() {
    let folder = Folder::new("none");
    let ran = estop(&["eval", &folder.write("none.jsonl", "\n\n")]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "No traces.\n"));
}

#[test]
fn ld_7_messages_of_another_api_are_refused_with_their_line() {
    let folder = Folder::new("other_api");
    let anthropic = r#"{"id": "a", "messages": [{"role": "assistant", "content": [{"type": "tool_use"}]}]}"#;
    let traces = folder.write("traces.jsonl", &(looping("a", 1) + anthropic));
    let ran = estop(&["eval", &traces]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("traces.jsonl:2: messages[0] has a `tool_use` block"), "{}", ran.err);
    assert!(ran.err.contains("Supported are OpenAI chat messages"), "{}", ran.err);
}

#[test]
fn tw_7_a_trace_that_cannot_be_an_agent_is_kept_out_of_the_journal() {
    let folder = Folder::new("names");
    let journal = folder.file("j.jsonl");
    for (second, told) in [
        ("", "traces.jsonl:2: the id `` cannot stand in a journal"),
        ("system", "traces.jsonl:2: the id `system` cannot stand in a journal"),
        ("one", "traces.jsonl:2: the id `one` was used at "),
    ] {
        let traces = folder.write("traces.jsonl", &(looping("one", 1) + &looping(second, 1)));
        let ran = estop(&["eval", &traces, "--journal", &journal]);
        assert_eq!(ran.code, 2);
        assert!(ran.err.contains(told), "{}", ran.err);
        assert!(!Path::new(&journal).exists(), "an unfinished journal is removed");
        assert_eq!(estop(&["eval", &traces]).code, 0, "without a journal any name will do");
    }
    let good = folder.write("good.jsonl", &looping("one", 1));
    let missing = folder.file("missing.jsonl");
    assert_eq!(estop(&["eval", &good, &missing, "--journal", &journal]).code, 2);
    assert_eq!(
        estop(&["eval", &good, "--journal", &journal]).code,
        0,
        "nothing is in the way of a second try"
    );
    let again = estop(&["eval", &good, "--journal", &journal]);
    assert!(again.err.contains("already exists; choose another name or remove it"), "{}", again.err);
    assert!(Path::new(&journal).exists(), "what was there before stays");
}

#[test]
fn po_1_eval_judges_each_trace_by_its_own_policy() {
    let folder = Folder::new("own_policy");
    let policy = folder.write("p.yaml", "agents: {strict: {policy: {kill_switch_enabled: true}}}");
    let traces = folder.write("traces.jsonl", &(looping("strict", 9) + &looping("other", 9)));
    let report = json(&estop(&["eval", &traces, "--policy", &policy, "--json"]));
    assert_eq!(report["unlabelled"]["ids"], serde_json::json!(["strict"]));
}

#[test]
fn po_3_an_agent_that_is_told_to_wait_waits_and_goes_on() {
    let folder = Folder::new("waits");
    let policy =
        folder.write("p.yaml", "policy: {rate_limit: {requests_per_minute: 2}, guards: {loop: off}}");
    let (traces, journal) = (folder.write("traces.jsonl", &looping("a", 9)), folder.file("j.jsonl"));
    let ran = estop(&["eval", &traces, "--policy", &policy, "--journal", &journal, "--json"]);
    assert_eq!(json(&ran)["unlabelled"]["stopped"], 0, "{}", ran.out);
    let written = std::fs::read_to_string(&journal).expect("it was just written");
    assert!(written.contains(r#"{"refuse":{"by":"rate","retry":{"after_ms""#), "it had to wait");
    assert_eq!(estop(&["replay", &journal]).code, 0);
    let never = folder.write(
        "never.yaml",
        "policy: {guards: {gate: enforce}}\ngate: {max_tool_calls_per_minute: 1, cooldown_duration_ms: 1}",
    );
    let (again, journal) = (folder.file("never.jsonl"), "--journal");
    let ran = estop(&["eval", &traces, "--policy", &never, "--json", journal, &again]);
    assert_eq!(json(&ran)["unlabelled"]["stopped"], 1, "{}", ran.out);
    let written = std::fs::read_to_string(&again).expect("it was just written");
    assert_eq!(written.matches(r#""by":"gate","retry":{"after_ms""#).count(), 4, "it waited three times");
}

#[test]
fn ui_2_names_cannot_command_the_terminal() {
    let folder = Folder::new("escapes");
    let (journal, policy) = (folder.file("j.jsonl"), folder.write("p.yaml", "preset: strict"));
    let evil = "a\nhealthy  fake: fine\u{1b}[2J\u{9b}1m\u{202e}";
    let traces = folder.write("traces.jsonl", &looping(evil, 9));
    let listed = estop(&["eval", &traces, "--list", "--journal", &journal]);
    let backtest = estop(&["replay", &journal, "--policy", &policy]);
    let text = std::fs::read_to_string(&journal).expect("it was just written");
    // A record that says it is another of its agent's, as it would be written.
    let (first, _) = text.lines().nth(1).and_then(|line| line.rsplit_once(",\"crc\"")).expect("a record");
    let mut changed = text.lines().next().expect("a header").as_bytes().to_vec();
    changed.push(b'\n');
    let start = changed.len();
    changed.extend_from_slice(first.replacen("\"n\":1,", "\"n\":7,", 1).as_bytes());
    estop_journal::seal_line(&mut changed, start);
    let changed = folder.write("changed.jsonl", &String::from_utf8(changed).expect("text"));
    let twice = folder.write("twice.jsonl", &looping(evil, 1).repeat(2));
    let refused = estop(&["eval", &twice, "--journal", &folder.file("j2.jsonl")]);
    let printed = [listed.out, backtest.out, estop(&["verify", &changed]).out, refused.err];
    for text in printed {
        assert!(text.contains("\\n") && text.contains("fake"), "{text}");
        assert!(!text.lines().any(|line| line.starts_with("healthy  fake")), "{text}");
        assert!(!text.contains(|c: char| (c.is_control() && c != '\n') || c == '\u{202e}'), "{text:?}");
    }
}

#[cfg(unix)]
#[test]
fn ui_2_a_pipe_is_refused_and_not_waited_for() {
    let folder = Folder::new("fifo");
    let fifo = folder.file("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo is there").success());
    for args in [vec!["verify", &fifo], vec!["replay", &fifo], vec!["eval", &fifo]] {
        let ran = estop(&args);
        assert_eq!(ran.code, 2);
        assert!(ran.err.contains("fifo is not a regular file"), "{}", ran.err);
    }
}

#[test]
fn ui_2_the_table_is_as_wide_as_the_terminal() {
    let folder = Folder::new("columns");
    // A spent budget is told in a sentence longer than any of these widths leaves room for.
    let policy = folder.write("p.yaml", "policy:\n  budget: {tokens_per_run: 3000}\n");
    let journal = folder.journal();
    for columns in [70, 150] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_estop"));
        command.args(["replay", &journal, "--policy", &policy]).env("COLUMNS", columns.to_string());
        let out = String::from_utf8(command.output().expect("the binary starts").stdout).expect("text");
        let widest = out.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(columns) && widest > Some(columns - 20), "{columns}: {out}");
    }
}

#[test]
fn cb_4_eval_knows_the_policys_test_runners() {
    let folder = Folder::new("runners");
    let call =
        r#"[{"function": {"name": "shell", "arguments": {"command": ["bash", "-lc", "./ci.sh | tail"]}}}]"#;
    let trace = format!(r#"{{"id": "t", "messages": [{{"role": "assistant", "tool_calls": {call}}}]}}"#);
    let (traces, journal) = (folder.write("traces.jsonl", &trace), folder.file("j.jsonl"));
    for (policy, is_test_run) in [("", false), ("policy: {test_runners: [./ci.sh]}", true)] {
        let policy = folder.write("p.yaml", policy);
        let ran = estop(&["eval", &traces, "--policy", &policy, "--journal", &journal]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let written = std::fs::read_to_string(&journal).expect("it was just written");
        assert_eq!(written.contains(r#""test_run":true"#), is_test_run, "{written}");
        std::fs::remove_file(&journal).expect("it was just written");
    }
}

#[test]
fn ui_2_a_line_without_end_is_refused_with_its_file() {
    let folder = Folder::new("long_line");
    let path = folder.write("long.jsonl", "\n");
    let file = std::fs::OpenOptions::new().write(true).open(&path).expect("it was just written");
    file.set_len((64 << 20) + 2).expect("a hole costs no space");
    let ran = estop(&["eval", &path]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("long.jsonl:2: this line is longer than 67108864 bytes"), "{}", ran.err);
}
