//! `log:`: what the daemon writes on its standard error, and how (OB-1).

use std::collections::BTreeMap;

use serde::Deserialize;

use super::request_share::RequestShare;
use super::values::given;

/// `log:`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct LogIn {
    #[serde(deserialize_with = "given")]
    format: Option<LogFormat>,
    #[serde(deserialize_with = "given")]
    level: Option<LogLevel>,
    targets: BTreeMap<LogTarget, LogLevel>,
    #[serde(deserialize_with = "given")]
    requests: Option<RequestShare>,
}

/// How the daemon logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// For people or for machines.
    pub format: LogFormat,
    /// The least level that is logged.
    pub level: LogLevel,
    /// Levels of single targets.
    pub targets: BTreeMap<LogTarget, LogLevel>,
    /// Which requests have a line of their own.
    pub requests: RequestShare,
}

/// How a line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    #[default]
    Auto,
    /// Text with time, level and fields.
    Text,
    /// One JSON object a line.
    Json,
}

/// The least severity that is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// estop does not do its job.
    Error,
    /// Somebody may have to look.
    Warn,
    /// A state changed.
    #[default]
    Info,
    /// A step.
    Debug,
    /// Every detail.
    Trace,
}

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogTarget {
    /// Starts, listeners, shutdown.
    Serve,
    /// The emergency stop and its triggers.
    Emergency,
    /// What guards and people did to agents.
    Agents,
    /// Single requests.
    Requests,
    /// What providers failed.
    Upstream,
    /// Alerts and escalations.
    Alerts,
    /// Reloads, rules, tokens, keys.
    Configuration,
    /// Journal, database and the files of the data directory.
    Storage,
}

impl LogTarget {
    /// All of them.
    pub const ALL: [LogTarget; 8] = [
        LogTarget::Serve,
        LogTarget::Emergency,
        LogTarget::Agents,
        LogTarget::Requests,
        LogTarget::Upstream,
        LogTarget::Alerts,
        LogTarget::Configuration,
        LogTarget::Storage,
    ];

    /// Its name in the configuration and in each line.
    pub fn name(self) -> &'static str {
        match self {
            LogTarget::Serve => "serve",
            LogTarget::Emergency => "emergency",
            LogTarget::Agents => "agents",
            LogTarget::Requests => "requests",
            LogTarget::Upstream => "upstream",
            LogTarget::Alerts => "alerts",
            LogTarget::Configuration => "configuration",
            LogTarget::Storage => "storage",
        }
    }
}

impl From<&LogIn> for Log {
    fn from(given: &LogIn) -> Log {
        Log {
            format: given.format.unwrap_or_default(),
            level: given.level.unwrap_or_default(),
            targets: given.targets.clone(),
            requests: given.requests.unwrap_or_default(),
        }
    }
}
