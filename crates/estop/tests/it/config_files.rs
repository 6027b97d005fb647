//! Files on disk: samples, and everything that is not a readable file.

use std::fs;
use std::path::{Path, PathBuf};

use estop_config::FILE_BYTES_MAX;
use estop_core::guard::Guard;
use estop_core::policy::{Mode, Modes, Preset, Profile, WatchdogScope};

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/policies").join(name)
}

fn refused(path: &Path) -> String {
    let error = estop_config::load(path).expect_err("the file is refused").to_string();
    error.replace(&path.display().to_string(), "FILE")
}

fn written(name: &str, bytes: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, bytes).expect("the target directory is writable");
    path
}

#[test]
fn po_5_the_strict_sample_enforces_everything() {
    let strict =
        estop_config::load(&sample("strict.yaml")).expect("a sample loads").resolve(Some("anyone"), None);
    assert_eq!((strict.preset, strict.modes), (Preset::Strict, Modes::of(Preset::Strict)));
    assert_eq!(strict.watchdog.scope, WatchdogScope::System);
}

#[test]
fn ld_2_the_loop_guard_sample_enforces_loops() {
    let policy =
        estop_config::load(&sample("loop_guard.yaml")).expect("a sample loads").resolve(Some("anyone"), None);
    assert_eq!((policy.modes[Guard::Loop], policy.modes[Guard::Gate]), (Mode::Enforce, Mode::Shadow));
}

#[test]
fn ld_6_the_batch_sample_lets_work_repeat() {
    let policy =
        estop_config::load(&sample("batch.yaml")).expect("a sample loads").resolve(Some("anyone"), None);
    assert_eq!(policy.loops.profile, Profile::Batch);
}

#[test]
fn ui_5_a_missing_file_or_a_directory_is_said_plainly() {
    assert_eq!(refused(&sample("no_such.yaml")), "FILE: no such file");
    assert_eq!(refused(&sample("")), "FILE: is a directory; name the YAML file in it");
}

#[cfg(unix)]
#[test]
fn ui_5_a_pipe_is_refused_and_not_waited_for() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pipe.yaml");
    let _ = fs::remove_file(&path);
    let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo is there");
    assert!(made.success());
    assert_eq!(refused(&path), "FILE: is not a regular file");
}

#[test]
fn ui_5_bytes_that_are_no_text_are_refused_with_their_line() {
    let path = written("latin1.yaml", b"# ok\npolicy: {profile: b\xe4tch}\n");
    let expected = "FILE:2:20: the file is not UTF-8 text; save it as UTF-8
  2 | policy: {profile: b
    |                    ^";
    assert_eq!(refused(&path), expected);
    assert!(refused(&written("first.yaml", b"\xff")).starts_with("FILE:1:1: the file is not UTF-8"));
}

#[test]
fn ui_5_a_file_over_a_mebibyte_is_refused() {
    let mut text = "# ".repeat(FILE_BYTES_MAX / 2);
    assert!(estop_config::parse(&text, "estop.yaml").is_ok(), "exactly the maximum is fine");
    text.push(' ');
    let expected = "larger than 1048576 bytes, the most a configuration may have";
    assert_eq!(refused(&written("large.yaml", text.as_bytes())), format!("FILE: {expected}"));
    let error = estop_config::parse(&text, "estop.yaml").expect_err("too large").to_string();
    assert_eq!(error, format!("estop.yaml: {expected}"));
}

#[test]
fn ui_5_windows_and_old_mac_line_ends_and_a_byte_order_mark_are_fine() {
    for text in
        ["policy:\r\n  profil: batch\r\n", "policy:\r  profil: batch\r", "\u{feff}policy:\n  profil: batch\n"]
    {
        let error = estop_config::parse(text, "estop.yaml").expect_err("an unknown key").to_string();
        let expected = "estop.yaml:2:3: unknown key `profil` in policy\n  2 |   profil: batch\n    |   ^\n";
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
}
