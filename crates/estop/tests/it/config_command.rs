//! Which configuration file is read, and `estop config` (OB-3): the real binary in homes of its own.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::house::person::finish;
use crate::house::ran::Ran;
use tempfile::TempDir;

/// A home whose own configuration says this.
fn home(configuration: &str) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join(".config/estop");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("estop.yaml"), configuration).unwrap();
    home
}

fn estop(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_estop"));
    command.args(args).env_clear().env("HOME", home).current_dir(home);
    command
}

fn run(home: &Path, args: &[&str]) -> Ran {
    finish(&mut estop(home, args))
}

#[test]
fn ob_3_serve_and_every_command_read_the_file_in_its_usual_place() {
    let home = home("data_dir: ~/kept\nlisten: {data: '127.0.0.1:0', admin: '127.0.0.1:0'}\n");
    let mut serve =
        estop(home.path(), &["serve"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut said = BufReader::new(serve.stdout.take().unwrap()).lines().map_while(Result::ok);
    let configuration =
        said.find(|line| line.starts_with("Configuration: ")).expect("it says which file it read");
    assert!(configuration.ends_with("/.config/estop/estop.yaml"), "{configuration}");
    // No option: the command reads the same file for the data directory.
    let status = run(home.path(), &["status", "--json"]);
    assert_eq!((status.code, status.json()["state"].as_str()), (0, Some("running")), "{status:?}");
    assert!(home.path().join("kept").is_dir());
    assert!(Command::new("kill").args(["-TERM", &serve.id().to_string()]).status().unwrap().success());
    assert!(serve.wait().unwrap().success());
}

#[test]
fn ks_1_a_file_that_cannot_be_read_keeps_no_kill_from_the_usual_place() {
    let home = tempfile::tempdir().unwrap();
    let other = home.path().join("other.yaml");
    fs::write(&other, "listen: {data: '127.0.0.1:0', admin: '127.0.0.1:0'}\n").unwrap();
    let mut serve = estop(home.path(), &["serve", "--config", "other.yaml"]);
    let mut serve = serve.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut said = BufReader::new(serve.stdout.take().unwrap()).lines().map_while(Result::ok);
    said.find(|line| line.starts_with("Dashboard: ")).expect("it runs");
    fs::create_dir_all(home.path().join(".config/estop/estop.yaml")).unwrap();
    let ran = run(home.path(), &["kill"]);
    assert!(ran.code == 0 && ran.out.contains("Everything is stopped"), "{ran:?}");
    serve.kill().unwrap();
    serve.wait().unwrap();
}

#[test]
fn ob_3_a_file_that_is_found_names_no_relative_data_dir() {
    let home = home("data_dir: data\n");
    let ran = run(home.path(), &["config", "check"]);
    assert!(ran.code == 2 && ran.err.contains("must begin with / or ~/"), "{ran:?}");
    assert_eq!(
        run(home.path(), &["config", "check", ".config/estop/estop.yaml"]).code,
        0,
        "named, it may be"
    );
}

#[test]
fn ob_3_check_names_file_line_and_fix() {
    let fine = home("preset: strict\n");
    let ran = run(fine.path(), &["config", "check"]);
    assert!(ran.code == 0 && ran.out.contains("estop.yaml can be used"), "{ran:?}");
    let wrong = home("polcy: {}\n");
    let ran = run(wrong.path(), &["config", "check"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    for part in ["estop.yaml:1:1", "unknown key `polcy`", "did you mean `policy`"] {
        assert!(ran.err.contains(part), "{part}: {ran:?}");
    }
    let ran = finish(estop(fine.path(), &["config", "check"]).env("ESTOP_CONFIG", "missing.yaml"));
    assert!(ran.code == 2 && ran.err.contains("missing.yaml: no such file"), "{ran:?}");
    let none = tempfile::tempdir().unwrap();
    let ran = run(none.path(), &["config", "check"]);
    assert!(ran.code == 0 && ran.out.contains("There is no configuration file"), "{ran:?}");
}

#[test]
fn ob_3_show_says_where_each_value_was_set_and_hides_secrets() {
    const SECRET: &str = "T00CANARY/B00/hunter2hunter2";
    let home = home(&format!(
        "preset: watch\nagents:\n  coder: {{policy: {{exempt_tools: [wait, poll]}}}}\nalerts:\n  channels:\n    \
         ops:\n      type: webhook\n      url: https://hooks.example.com/{SECRET}\n"
    ));
    let env = [
        ("ESTOP_PRESET", "strict"),
        ("ESTOP_LISTEN__DATA", "[::1]:4100"),
        ("ESTOP_AGENTS__CODER__POLICY__BUDGET", "{usd_per_day: 5}"),
    ];
    let ran = finish(estop(home.path(), &["config", "show", "--json"]).envs(env));
    let shown = ran.json();
    let of = |key: &str| {
        let all = shown.as_array().unwrap();
        let found = all.iter().find(|value| value["key"] == key);
        let found = found.unwrap_or_else(|| panic!("{key} is not there: {shown:#}"));
        (found["value"].as_str().unwrap().to_owned(), found["origin"].as_str().unwrap().to_owned())
    };
    assert_eq!(of("preset"), ("strict".into(), "environment variable ESTOP_PRESET".into()));
    assert_eq!(of("listen.data"), ("[::1]:4100".into(), "environment variable ESTOP_LISTEN__DATA".into()));
    let (value, origin) = of("agents.coder.policy.exempt_tools[1]");
    assert!(value == "poll" && origin.ends_with("estop.yaml:3"), "{value} {origin}");
    let (value, origin) = of("agents.coder.policy.budget.usd_per_day");
    assert_eq!((&*value, &*origin), ("5", "environment variable ESTOP_AGENTS__CODER__POLICY__BUDGET"));
    assert!(of("alerts.channels.ops.url").0.starts_with("https://hooks.example.com/***"), "{shown:#}");
    let table = finish(estop(home.path(), &["config", "show"]).envs(env));
    for ran in [&ran, &table] {
        assert!(ran.code == 0 && !ran.out.contains("CANARY") && !ran.out.contains("hunter2"), "{ran:?}");
    }
    assert!(table.out.contains("Set by"), "{table:?}");
}

#[test]
fn ob_3_check_takes_the_file_with_and_without_an_option() {
    let home = home("");
    fs::write(home.path().join("mine.yaml"), "preset: strict\n").unwrap();
    run(home.path(), &["config", "check", "mine.yaml"]).is(0, "mine.yaml can be used.");
    run(home.path(), &["config", "check", "--config", "mine.yaml"]).is(0, "mine.yaml can be used.");
    run(home.path(), &["config", "show", "--config", "mine.yaml"]).is(0, "strict");
    run(home.path(), &["config", "check", "a.yaml", "--config", "mine.yaml"]).is(2, "cannot be used with");
}

#[test]
fn ob_3_a_file_with_another_ending_is_named_where_none_is_found() {
    let home = home("");
    let folder = home.path().join(".config/estop");
    fs::rename(folder.join("estop.yaml"), folder.join("estop.yml")).unwrap();
    run(home.path(), &["config", "check"]).is(0, "estop.yml is not read: call it estop.yaml");
}
