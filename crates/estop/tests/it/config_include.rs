//! `include:`: agents in files of their own.

use std::fs;
use std::path::Path;
use std::time::Duration;

use estop_config::{Env, FILE_BYTES_MAX, given, load, load_serve, watched};
use estop_core::guard::Guard;
use estop_core::policy::Mode;
use tempfile::TempDir;

use crate::house::House;

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("it has one")).expect("made");
        fs::write(path, text).expect("written");
    }
    folder
}

fn env() -> Env {
    [("HOME", "/home/me"), ("KEY_OF_B", "a-key-of-sixteen-characters")].into_iter().collect()
}

fn refused(folder: &Path) -> String {
    let error = load_serve(Some(&folder.join("estop.yaml")), &env()).expect_err("it is refused").to_string();
    error.replace(&folder.display().to_string(), "")
}

#[test]
fn ob_3_agents_stand_in_files_and_folders_of_their_own() {
    let folder = folder(&[
        ("estop.yaml", "include: [one.yaml, agents.d]\npolicy: {profile: batch}\nagents:\n  a: {}\n"),
        ("one.yaml", "agents: {b: {key_env: KEY_OF_B}}\n"),
        ("agents.d/20.yaml", "agents:\n  d: {policy: {kill_switch_enabled: true}}\n"),
        ("agents.d/10.yml", "# nobody yet\n"),
        ("agents.d/notes.txt", "no YAML: ["),
        ("agents.d/.hidden.yaml", "no YAML: ["),
    ]);
    let file = folder.path().join("estop.yaml");
    let config = load_serve(Some(&file), &env()).expect("it is accepted");
    assert!(config.agent_keys.contains_key("b"));
    let policies = load(&file).expect("eval reads the same");
    let loops_of = |agent| policies.resolve(Some(agent), None).modes[Guard::Loop];
    assert_eq!((loops_of("d"), loops_of("b")), (Mode::Enforce, Mode::Shadow));

    let values = given(Some(&file), &env()).expect("it is accepted");
    let of_d =
        values.iter().find(|value| value.key == "agents.d.policy.kill_switch_enabled").expect("it is listed");
    assert_eq!(of_d.origin, format!("{}:2", folder.path().join("agents.d/20.yaml").display()));
    let looked_at: Vec<_> = watched(&file)
        .iter()
        .map(|path| path.strip_prefix(folder.path()).expect("in it").to_owned())
        .collect();
    let expected = ["estop.yaml", "one.yaml", "agents.d", "agents.d/10.yml", "agents.d/20.yaml"];
    assert_eq!(looked_at, expected.map(std::path::PathBuf::from));
}

#[test]
fn ob_3_what_is_wrong_in_an_included_file_is_said_with_its_place() {
    let main = "include: [b.yaml]\nagents: {a: {}}\n";
    for (file, text, expected) in [
        ("b.yaml", "agents:\n  b: {polcy: {}}", "/b.yaml:2:7: unknown key `polcy` in agents.b"),
        ("b.yaml", "agents: {b: [}", "/b.yaml:1:1"),
        ("b.yaml", "agents:\n  b: {policy: {budget: {timezone: Mars}}}", "/b.yaml:2:35: unknown time zone"),
        ("b.yaml", "agents:\n  b: {key_env: KEY_THAT_IS_NOT_SET}", "/b.yaml:2:16: agents.b.key_env"),
        ("b.yaml", "agents:\n  A: {}", "/estop.yaml:2:13: `A` and `a` are one agent"),
        ("b.yaml", "agents:\n  c: {}\n  a: {}", "/b.yaml:3:3: agent `a` is in /estop.yaml:2 too"),
        ("b.yaml", "policy: {profile: batch}", "/b.yaml:1:1: unknown key `policy`"),
        ("b.yaml", "include: [c.yaml]", "/b.yaml:1:1: unknown key `include`"),
        ("b.yaml", "- a", "/b.yaml:1:1: the file must be "),
        ("b.yaml", "agents: [coder]", "/b.yaml:1:9: agents must be "),
        ("b.yaml", "KEY=a-secret\0PATH=/bin\0", "/b.yaml: the file is not text: it has a NUL byte in it"),
        ("b.yaml", "agents: coder", "/b.yaml:1:9: agents must be "),
        ("c.yaml", "", "/estop.yaml:1:11: include: /b.yaml: no such file or folder"),
    ] {
        let folder = folder(&[("estop.yaml", main), (file, text)]);
        let said = refused(folder.path());
        assert!(said.starts_with(expected), "{text}: {said}");
    }
    // What is no configuration may be a secret: a link to one in an included folder shows none of it.
    for text in [
        "a-secret",
        "https://hooks.slack.com/services/T0/a-secret",
        "login x password a-secret",
        "x: [a-secret\n",
    ] {
        let folder = folder(&[("estop.yaml", main), ("b.yaml", text)]);
        let said = refused(folder.path());
        assert!(said.starts_with("/b.yaml:") && !said.contains("a-secret"), "{text}: {said}");
    }
    let folder = folder(&[("estop.yaml", main), ("b.yaml", &"# ".repeat(FILE_BYTES_MAX / 2))]);
    assert!(refused(folder.path()).starts_with("/b.yaml: larger than 1048576 bytes"), "all files together");
}

#[test]
fn ob_3_what_cannot_be_included_is_refused() {
    for (main, expected) in [
        ("include: agents.d", "/estop.yaml:1:10: include must be a list"),
        ("include: ['~/agents.d']", "/estop.yaml:1:11: include: `~/agents.d`: `~` is not filled in here"),
        ("include: ['']", "/estop.yaml:1:11: include[0] must be "),
    ] {
        let folder = folder(&[("estop.yaml", main)]);
        let said = refused(folder.path());
        assert!(said.starts_with(expected), "{main}: {said}");
    }
    let said =
        estop_config::parse("include: [a.yaml]", "estop.yaml").expect_err("it is in no folder").to_string();
    assert!(said.starts_with("estop.yaml:1:11: include works in a file only"), "{said}");
    let with = [("HOME", "/home/me"), ("ESTOP_INCLUDE", "[a.yaml]")].into_iter().collect();
    let said = estop_config::parse_serve("", "estop.yaml", &with).expect_err("no meaning").to_string();
    assert!(said.starts_with("environment variable ESTOP_INCLUDE: has no meaning"), "{said}");
}

#[test]
fn ob_3_a_changed_or_new_included_file_is_taken_up_and_a_wrong_one_is_not() {
    let house = House::new("include: [agents.d]");
    let agents = house.folder.path().join("agents.d");
    fs::create_dir(&agents).expect("made");
    let (estop, log) = house.start_heard();
    assert_eq!(estop.ask("a", "Hello").expect("an answer").0, 200);
    let begun = std::time::Instant::now();
    let until = |status: u16| {
        while estop.ask("a", "Hello").expect("an answer").0 != status {
            assert!(begun.elapsed() < crate::house::PATIENCE, "{status} never came");
            std::thread::sleep(Duration::from_millis(200));
        }
    };
    fs::write(agents.join("a.yaml"), "agents: {a: {policy: {budget: {tokens_per_day: 1}}}}")
        .expect("written");
    until(400);
    fs::write(agents.join("a.yaml"), "agents: {a: {}}").expect("written");
    until(200);
    fs::write(agents.join("b.yaml"), "agents: {a: {policy: {budget: {tokens_per_day: 1}}}}")
        .expect("written");
    // It is looked at every second.
    std::thread::sleep(Duration::from_millis(2_500));
    assert_eq!(estop.ask("a", "Hello").expect("an answer").0, 200, "what was read before stays in force");
    fs::rename(agents.join("b.yaml"), agents.join("a.yaml")).expect("moved");
    until(400);
    estop.end();
    house.verified();
    let log = log.join().expect("the log");
    assert_eq!(log.matches("reload failed").count(), 1, "{log}");
    assert!(log.contains("agents.d/b.yaml:1:10: agent `a` is in"), "{log}");
}
