//! `ESTOP_LOG`, which goes before `log.level` and `log.targets`: `debug`, or `warn,agents=debug`.

use super::env::{Env, NotText};
use super::log::{Log, LogIn, LogLevel, LogTarget};
use super::overrides::{self, LOG_VARIABLE as VARIABLE};
use super::problem::{Problem, printable};

/// The defaults with what the file and the variable say.
pub(super) fn log(given: &LogIn, env: &Env) -> Result<Log, Problem> {
    let mut log = Log::from(given);
    let Some(value) = env.get(VARIABLE) else { return Ok(log) };
    let value = value.map_err(|NotText| overrides::problem(VARIABLE, "is not UTF-8 text".into()))?;
    for part in value.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        match part.split_once('=') {
            None => log.level = level(part).ok_or_else(|| refused(part))?,
            Some((name, text)) => {
                let named = |target: &LogTarget| target.name() == name.trim();
                let target = LogTarget::ALL.into_iter().find(named).ok_or_else(|| refused(part))?;
                log.targets.insert(target, level(text.trim()).ok_or_else(|| refused(part))?);
            }
        }
    }
    Ok(log)
}

fn level(text: &str) -> Option<LogLevel> {
    match text {
        "off" => Some(LogLevel::Off),
        "error" => Some(LogLevel::Error),
        "warn" => Some(LogLevel::Warn),
        "info" => Some(LogLevel::Info),
        "debug" => Some(LogLevel::Debug),
        "trace" => Some(LogLevel::Trace),
        _ => None,
    }
}

fn refused(part: &str) -> Problem {
    let targets = LogTarget::ALL.map(LogTarget::name).join(", ");
    let message = format!(
        "must be a level (off, error, warn, info, debug, trace) or a list such as info,requests=debug; found {}",
        printable(part)
    );
    overrides::problem(VARIABLE, message).with_help(Some(format!("Targets: {targets}")))
}
