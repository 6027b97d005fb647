//! How a command ended, as tests look at it.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    unreachable_pub,
    reason = "a test fails by panicking"
)]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// How a command ended.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn of(output: &Output) -> Ran {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Ran { code: output.status.code().unwrap(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Ends so, and says this.
    #[track_caller]
    pub fn is(&self, code: i32, says: &str) -> &Ran {
        assert_eq!(self.code, code, "{self:?}");
        assert!(format!("{}{}", self.out, self.err).contains(says), "not `{says}`: {self:?}");
        self
    }
}

/// Writes a program that can be run at once. Another process writes it: a test that starts something at the same moment would
/// otherwise hold the file open for writing, and nobody could run it yet.
pub fn write_program(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "cat > \"$0\" && chmod 755 \"$0\""]).arg(path).stdin(Stdio::piped());
    let mut shell = shell.spawn().unwrap();
    shell.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(shell.wait().unwrap().success(), "{} was not written", path.display());
}
