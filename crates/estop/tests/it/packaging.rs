//! What packages bring along fits the daemon. `tests/distribution` installs and uses the packages themselves.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::house::person::finish;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The value of a key in a unit.
fn setting(unit: &str, key: &str) -> String {
    let text = std::fs::read_to_string(root().join("packaging/systemd").join(unit)).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    value.unwrap_or_else(|| panic!("{unit} has no {key}")).to_owned()
}

/// The value of a key in the configuration that packages bring along.
fn configured(key: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_estop"));
    command.args(["config", "show", "--json", "--config"]).arg(root().join("samples/estop.yaml"));
    let shown = finish(&mut command).json();
    let found = shown.as_array().unwrap().iter().find(|value| value["key"] == key).unwrap();
    found["value"].as_str().map_or_else(|| found["value"].to_string(), str::to_owned)
}

#[test]
fn pk_1_the_systemd_units_fit_the_daemon() {
    let started = setting("estop.service", "ExecStart");
    let mut words = started.split(' ');
    assert_eq!(words.next(), Some("/usr/bin/estop"));
    finish(Command::new(env!("CARGO_BIN_EXE_estop")).args(words).arg("--help")).is(0, "estop serve");
    // Answers in progress may end before systemd kills.
    let (stop, drain) = (setting("estop.service", "TimeoutStopSec"), configured("limits.drain_s"));
    assert!(stop.parse::<f64>().unwrap() >= 2.0 * drain.parse::<f64>().unwrap(), "{stop} s, {drain} s");
    // Another address is refused at the start.
    assert_eq!(setting("estop.socket", "ListenStream"), configured("listen.data"));
}
