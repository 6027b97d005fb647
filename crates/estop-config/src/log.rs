//! `log:`: what the daemon writes on its standard error, and how (OB-1).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::Deserializer;

use super::values::{Reading, from_text, given};

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
    requests: Option<RequestLog>,
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
    pub requests: RequestLog,
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

/// Which requests have a line of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestLog {
    /// None.
    #[default]
    Off,
    /// One in so many; those that were refused or failed in any case.
    OneIn(u32),
}

impl<'de> Deserialize<'de> for RequestLog {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<RequestLog, D::Error> {
        from_text(d)
    }
}

/// More is as good as none.
const ONE_IN_MAX: u32 = 1_000_000;

impl Reading for RequestLog {
    fn read(text: &str) -> Result<RequestLog, &'static str> {
        const EXPECTED: &str = "off, all, or a share such as 1/100";
        match text {
            "off" => Ok(RequestLog::Off),
            "all" => Ok(RequestLog::OneIn(1)),
            _ => {
                let number = text.strip_prefix("1/").filter(|n| n.bytes().all(|byte| byte.is_ascii_digit()));
                let number = number.and_then(|number| number.parse().ok());
                let number = number.filter(|number| (1..=ONE_IN_MAX).contains(number));
                number.map(RequestLog::OneIn).ok_or(EXPECTED)
            }
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
