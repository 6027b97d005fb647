//! How a command ended, as tests look at it.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    unreachable_pub,
    reason = "a test fails by panicking"
)]

use std::process::Output;

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
