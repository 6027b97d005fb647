//! `estop doctor` (UI-2, TL-1): the real binary on machines that are new, fine, or broken in one way each.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::house::House;
use crate::house::person::finish;
use crate::house::ran::Ran;
use crate::ran::write_program;
use serde_json::Value;
use tempfile::TempDir;

/// `estop …` as a person of this home has it, with no client of this machine in the way.
fn estop(program: &Path, home: &Path, folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).env_clear().env("HOME", home).current_dir(folder);
    command.env("PATH", format!("{}:/nowhere", home.join("bin").display()));
    // Other estops may have the usual ports.
    command.env("ESTOP_LISTEN__DATA", "127.0.0.1:0").env("ESTOP_LISTEN__ADMIN", "127.0.0.1:0");
    command
}

fn this() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_estop"))
}

/// A doctor's visit to a house.
fn visit(house: &House, args: &[&str]) -> Ran {
    let home = house.folder.path();
    let mut command = estop(this(), home, home, &["doctor", "--config", "estop.yaml", "--data-dir", "data"]);
    finish(command.args(args))
}

/// Findings of a level that say this.
fn findings<'f>(report: &'f Value, level: &str, says: &str) -> Vec<&'f Value> {
    let all = report["findings"].as_array().unwrap().iter();
    let says = |finding: &&Value| finding["what"].as_str().unwrap().contains(says);
    all.filter(|finding| finding["level"] == level).filter(says).collect()
}

/// Exactly this is wrong, with this fix; the command ends with 1.
#[track_caller]
fn only_wrong(ran: &Ran, area: &str, says: &str, fix: &str) {
    let report = ran.json();
    let wrong = findings(&report, "wrong", "");
    let [one] = wrong[..] else { panic!("not one: {wrong:#?}") };
    assert_eq!(one["area"], area, "{one}");
    assert!(one["what"].as_str().unwrap().contains(says), "{one}");
    assert!(one["fix"].as_str().unwrap().contains(fix), "{one}");
    assert_eq!((ran.code, report["wrong"].as_u64()), (1, Some(1)));
}

/// A person's home with a project in it, without any estop.
struct Home(TempDir);

impl Home {
    fn new() -> Home {
        let home = Home(TempDir::new().unwrap());
        for folder in ["project", "bin"] {
            fs::create_dir(home.path(folder)).unwrap();
        }
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    fn run(&self, args: &[&str]) -> Ran {
        finish(&mut estop(this(), self.0.path(), &self.path("project"), args))
    }

    fn doctor(&self) -> Ran {
        self.run(&["doctor", "--json"])
    }

    /// Through a link to this estop, as an installed one is.
    fn run_linked(&self, args: &[&str]) -> Ran {
        let link = self.path("bin/estop");
        if !link.exists() {
            symlink(this(), &link).unwrap();
        }
        finish(&mut estop(&link, self.0.path(), &self.path("project"), args))
    }
}

#[test]
fn ui_2_a_fresh_machine_does_not_look_broken_and_stays_as_it_is() {
    let home = Home::new();
    home.run(&["doctor"])
        .is(0, "nothing here yet")
        .is(0, "start with `estop serve`")
        .is(0, "Nothing is wrong");
    let report = home.doctor().json();
    assert_eq!(report["wrong"], 0, "{report:#}");
    assert!(!home.path(".local").exists(), "a doctor makes nothing");
    home.run(&["doctor", "--all"]).is(0, "no coding agent was found here");
    home.run(&["doctor", "--nothing"]).is(2, "--nothing");
}

#[test]
fn ui_2_a_running_estop_with_everything_in_place_is_fine() {
    let house = House::new("");
    let _estop = house.start();
    house.estop(&["prooftest"]).is(0, "");
    let ran = visit(&house, &["--json"]);
    let report = ran.json();
    assert_eq!((ran.code, &report["wrong"]), (0, &Value::from(0)), "{report:#}");
    for fine in [
        "estop.yaml can be used",
        "it runs and answers",
        "its store answers",
        "the emergency stop was tested",
        "the database is whole",
        "the journal has ",
        "the latch can be read",
        "only its owner can open",
        "openai: 127.0.0.1:",
        "trigger signal",
        "after everything that is known to be over",
    ] {
        assert_eq!(findings(&report, "ok", fine).len(), 1, "{fine}: {report:#}");
    }
    // Nobody is told of stops in this configuration.
    assert_eq!(findings(&report, "warning", "nobody is notified").len(), 1, "{report:#}");
    let text = visit(&house, &[]);
    text.is(0, "Nothing is wrong");
    assert!(!text.out.contains("it runs and answers"), "{}", text.out);
}

#[test]
fn ui_2_a_pressed_button_is_found_with_who_and_why_while_estop_runs_and_after() {
    let house = House::new("");
    let estop = house.start();
    house.estop(&["kill", "--reason", "security_incident", "--note", "it \u{1b}deletes mail"]).is(0, "");
    let ran = visit(&house, &["--json"]);
    only_wrong(&ran, "daemon", "SHUTDOWN since ", "`estop emergency unlock --data-dir data`");
    for word in ["by owner (cli, ann)", "security_incident", "deletes mail"] {
        assert_eq!(findings(&ran.json(), "wrong", word).len(), 1, "{word}");
    }
    let text = visit(&house, &[]);
    text.is(1, "1 wrong");
    assert!(!text.out.contains('\u{1b}'), "{}", text.out);
    estop.end();
    let ran = visit(&house, &["--json"]);
    only_wrong(&ran, "data directory", "the button is pressed since", "emergency clear");
    assert_eq!(findings(&ran.json(), "wrong", "by owner (cli, ann)").len(), 1, "{ran:?}");
}

#[test]
fn ui_2_a_data_directory_that_others_can_read_is_wrong() {
    let house = House::new("");
    house.start().end();
    assert_eq!(visit(&house, &["--json"]).json()["wrong"], 0);
    fs::set_permissions(house.data(), PermissionsExt::from_mode(0o755)).unwrap();
    only_wrong(
        &visit(&house, &["--json"]),
        "data directory",
        "others can open data (mode 755)",
        "chmod 700 data",
    );
}

#[test]
fn ui_2_a_broken_configuration_is_a_finding_with_its_place_and_without_its_secrets() {
    let house = House::new("");
    let config = house.folder.path().join("estop.yaml");
    fs::write(&config, "providers: {openai: {api_key: sk-geheim}}\n").unwrap();
    let ran = visit(&house, &["--json"]);
    only_wrong(&ran, "configuration", "estop.yaml:1:", "docs/configuration.md");
    assert!(!ran.out.contains("sk-geheim"), "{}", ran.out);

    fs::write(&config, "providers: {openai: {api_key_env: MY_KEY}}\n").unwrap();
    let with = |name: &str, value: &str| {
        let home = house.folder.path();
        let mut command =
            estop(this(), home, home, &["doctor", "--json", "--offline", "--config", "estop.yaml"]);
        finish(command.env(name, value))
    };
    only_wrong(&with("MY_KEY", ""), "configuration", "MY_KEY", "correct it");
    let ran = with("MY_KEY", "sk-geheim");
    assert_eq!((ran.code, ran.json()["wrong"].as_u64()), (0, Some(0)), "{ran:?}");
    assert!(!ran.out.contains("sk-geheim"), "{}", ran.out);

    let home = Home::new();
    let mut command = estop(this(), home.0.path(), home.0.path(), &["doctor", "--json"]);
    let report =
        finish(command.env("ESTOP_LISTEN_DATA", "127.0.0.1:1").env("ESTOP_URL", "http://x:1")).json();
    let stray = findings(&report, "warning", "ESTOP_LISTEN_DATA is not read");
    assert!(stray[0]["fix"].as_str().unwrap().contains("ESTOP_LISTEN__DATA"), "{report:#}");
    assert_eq!(findings(&report, "warning", "ESTOP_URL is set").len(), 1, "{report:#}");
}

#[test]
fn ui_2_a_port_of_somebody_else_and_a_provider_that_is_gone_are_wrong() {
    let home = Home::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap();
    let visit = |args: &[&str]| {
        let mut command = estop(this(), home.0.path(), home.0.path(), &["doctor", "--json"]);
        command.env_remove("ESTOP_LISTEN__ADMIN").env_remove("ESTOP_LISTEN__DATA");
        finish(command.args(["--config", "estop.yaml"]).args(args))
    };
    home.write("estop.yaml", &format!("listen: {{data: \"127.0.0.1:0\", admin: \"{at}\"}}\n"));
    only_wrong(&visit(&[]), "ports", &format!("listen.admin: {at} is taken"), "listen.admin to another port");
    drop(taken);
    assert_eq!(visit(&[]).json()["wrong"], 0);

    let config = "listen: {data: \"127.0.0.1:0\", admin: \"127.0.0.1:0\"}\n";
    home.write("estop.yaml", &format!("{config}providers: {{mine: {{base_url: \"http://{at}\"}}}}\n"));
    only_wrong(&visit(&[]), "providers", &format!("mine: {at} cannot be reached"), "--offline");
    assert_eq!(visit(&["--offline"]).json()["wrong"], 0);
}

#[test]
fn ui_2_what_a_killed_or_a_frozen_estop_leaves_is_told_apart() {
    let house = House::new("");
    let estop = house.start();
    estop.freeze();
    let silent = visit(&house, &["--json"]).json();
    estop.signal("-CONT");
    let found = findings(&silent, "wrong", "holds the data directory and does not answer");
    assert_eq!(found.len(), 1, "{silent:#}");
    let pid = estop.process.id();
    assert!(found[0]["what"].as_str().unwrap().contains(&format!("process {pid} ")), "{silent:#}");
    estop.kill_9();
    let ran = visit(&house, &["--json"]);
    let report = ran.json();
    assert_eq!((ran.code, &report["wrong"]), (0, &Value::from(0)), "{report:#}");
    assert_eq!(findings(&report, "warning", "its socket is left").len(), 1, "{report:#}");

    fs::write(house.data().join("estop.db"), "not a database, but long enough to be one".repeat(9)).unwrap();
    only_wrong(
        &visit(&house, &["--json"]),
        "data directory",
        "the database cannot be used",
        "estop restore FILE",
    );
}

#[test]
fn tl_1_hooks_that_a_repository_switches_off_are_wrong() {
    let home = Home::new();
    home.run(&["install", "claude-code"]).is(0, "");
    let report = home.doctor().json();
    assert_eq!(findings(&report, "ok", "claude-code asks estop (user)").len(), 1, "{report:#}");
    home.write("project/.claude/settings.json", "{\"disableAllHooks\": true}");
    only_wrong(&home.doctor(), "hooks", "`disableAllHooks` in ", "--scope system");
    home.write("project/.claude/settings.json", "{\"disableAllHooks\": tru");
    only_wrong(&home.doctor(), "hooks", ".claude/settings.json", "correct the file");
}

#[test]
fn tl_1_hooks_and_servers_whose_estop_is_gone_are_wrong_and_another_data_directory_is_told() {
    let home = Home::new();
    home.run_linked(&["install", "gemini-cli", "--data-dir", "/elsewhere"]).is(0, "");
    home.write(
        "project/.mcp.json",
        "{\"mcpServers\": {\"files\": {\"command\": \"npx\", \"args\": [\"files\"]}}}",
    );
    home.run_linked(&["install", "mcp", "--client", "claude-code", "--scope", "project"]).is(0, "");
    home.write(".codex/config.toml", "[mcp_servers.notes]\ncommand = \"npx\"\nargs = [\"notes\"]\n");
    home.write(".config/opencode/opencode.json", "{\"mcp\": {\"web\": {\"command\": [\"npx\", \"web\"]}}}");
    for client in ["codex", "opencode"] {
        home.run_linked(&["install", "mcp", "--client", client]).is(0, "");
    }
    let report = home.doctor().json();
    assert_eq!(report["wrong"], 0, "{report:#}");
    assert_eq!(findings(&report, "warning", "ask the estop of /elsewhere").len(), 1, "{report:#}");
    assert_eq!(findings(&report, "ok", "files of claude-code is behind the gate").len(), 1, "{report:#}");

    fs::remove_file(home.path("bin/estop")).unwrap();
    let ran = home.doctor();
    assert_eq!(ran.code, 1);
    let report = ran.json();
    let link = home.path("bin/estop").display().to_string();
    assert_eq!(findings(&report, "wrong", &link).len(), 4, "{report:#}");
    assert_eq!(findings(&report, "wrong", "the hooks of gemini-cli (user) start").len(), 1, "{report:#}");
    for server in ["files of claude-code", "notes of codex", "web of opencode"] {
        assert_eq!(findings(&report, "wrong", &format!("{server} cannot start")).len(), 1, "{report:#}");
    }
}

#[test]
fn tl_1_clients_that_do_not_ask_and_a_codex_that_does_not_trust_are_told() {
    let home = Home::new();
    let program = |name: &str, text: &str| write_program(&home.path(&format!("bin/{name}")), text);
    program("qwen", "#!/bin/sh\n");
    home.run(&["install", "codex"]).is(1, "not in PATH");
    let report = home.doctor().json();
    assert_eq!(findings(&report, "warning", "qwen is on this machine and does not ask estop").len(), 1);
    assert_eq!(findings(&report, "warning", "codex cannot be asked").len(), 1, "{report:#}");

    let says = |status: &str| {
        let file = home.path(".codex/hooks.json").display().to_string();
        let hook = format!(
            r#"{{"key":"k","sourcePath":"{file}","command":"estop hook codex PreToolUse --installed","currentHash":"sha256:a","trustStatus":"{status}"}}"#
        );
        let answer = format!(r#"{{"id":2,"result":{{"data":[{{"hooks":[{hook}]}}]}}}}"#);
        program(
            "codex",
            &format!(
                "#!/bin/sh\necho '{{\"id\":1,\"result\":{{\"codexHome\":\"/c\"}}}}'\necho '{answer}'\nwhile read -r line; do :; done\n"
            ),
        );
    };
    says("untrusted");
    only_wrong(&home.doctor(), "hooks", "codex does not trust estop's hooks", "/hooks");
    says("trusted");
    assert_eq!(home.doctor().json()["wrong"], 0);
}
