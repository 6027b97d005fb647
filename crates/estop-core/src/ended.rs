//! How an execution ended: an answer, a tool call, a test run.

use serde::{Deserialize, Serialize};

/// How an execution ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// It worked.
    #[default]
    Ok,
    /// It failed: an error, a timeout, a non-zero exit.
    Failed,
    /// Nobody said.
    Unknown,
}

impl Ended {
    pub(crate) fn is_ok(&self) -> bool {
        *self == Ended::Ok
    }
}
