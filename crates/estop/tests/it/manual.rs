//! Manual pages and completions, which packages bring along: all commands are in them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::house::person::finish;
use crate::printed_commands::{help_of, subcommands};

/// Every command that a help names, as its words: `["agents", "list"]`. The first is estop itself.
fn every_command() -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut next = 0;
    while let Some(names) = commands.get(next).cloned() {
        let (code, help) = help_of(&names);
        assert_eq!(code, 0, "estop {} --help: {help}", names.join(" "));
        commands.extend(subcommands(&help).into_iter().map(|name| [&names[..], &[name]].concat()));
        next += 1;
    }
    assert!(commands.len() > 60, "only {} commands were found", commands.len());
    commands
}

fn estop(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_estop"));
    command.args(args);
    command
}

/// Whether there is such a program.
fn is_there(program: &str) -> bool {
    let asked = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

/// The page as text of 80 columns. Whatever groff has to say about its source fails.
fn shown(page: &Path) -> String {
    let ran = finish(
        Command::new("groff").args(["-man", "-ww", "-Kutf8", "-Tutf8", "-P-cbou", "-rLL=80n"]).arg(page),
    );
    assert_eq!((ran.code, &*ran.err), (0, ""), "{}", page.display());
    ran.out
}

#[test]
fn pk_3_every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("share/man1");
    let commands = every_command();
    let said = format!("Wrote {} pages", commands.len());
    finish(estop(&["manual"]).arg(&pages)).is(0, &said);
    let written: BTreeSet<String> = std::fs::read_dir(&pages)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let name_of = |names: &[String]| format!("{}.1", [&["estop".to_owned()], names].concat().join("-"));
    assert_eq!(written, commands.iter().map(|names| name_of(names)).collect());

    for name in commands.iter().map(|names| name_of(names)) {
        let source = std::fs::read_to_string(pages.join(&name)).unwrap();
        // What `man -k` reads: the command and, after a dash, what it does.
        let name_line = format!("\n.SH NAME\n{} \\- ", name.trim_end_matches(".1").replace('-', "\\-"));
        assert!(source.contains(&name_line), "{source}");
        assert!(source.contains(env!("CARGO_PKG_VERSION")), "{source}");
    }
    // The same twice: packages are reproducible.
    let first = std::fs::read(pages.join("estop-run.1")).unwrap();
    finish(estop(&["manual"]).arg(&pages)).is(0, &said);
    assert_eq!(std::fs::read(pages.join("estop-run.1")).unwrap(), first);
}

#[test]
fn pk_3_groff_reads_every_manual_page_without_a_warning() {
    if !is_there("groff") {
        println!("groff is not here: skipped");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    finish(estop(&["manual"]).arg(folder.path())).is(0, "pages");
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        shown(&entry.unwrap().path());
    }
    let root = shown(&folder.path().join("estop.1"));
    // Lines are filled with spaces.
    let words = root.split_whitespace().collect::<Vec<_>>().join(" ");
    for text in ["estop manual", "SYNOPSIS", "estop-agents(1)", "EXAMPLES", "NOTES", "Exit codes: 0 fine"] {
        assert!(words.contains(text), "{text}: {root}");
    }
    // An example is a line of its own.
    let example = root.lines().find(|line| line.contains("estop demo ")).unwrap();
    assert_eq!(example.matches("estop ").count(), 1, "{root}");
}

#[test]
fn pk_3_completions_know_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let script = finish(&mut estop(&["completions", shell])).out;
        for names in every_command() {
            let name = names.last().map_or("estop", String::as_str);
            assert!(script.contains(name), "{shell} does not know `estop {}`", names.join(" "));
        }
    }
}
