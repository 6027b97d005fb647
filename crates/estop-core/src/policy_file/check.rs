//! What one value alone cannot tell: keys that must agree with each other, and names only the caller knows.

use std::collections::BTreeMap;

use super::PolicyFileIn;
use super::resolve;
use super::rules::PolicyIn;
use super::shape::{AllowedHoursIn, SafetyGateIn, WatchdogIn};
use super::values::{Decimal, clock_text};
use crate::guard::{Guard, Mode};
use crate::ids::Name;
use crate::policy::WatchdogScope;
use crate::run::test_command::{TestRunners, TestRunnersError};
use crate::system::SYSTEM;
use crate::time::Zone;
use crate::tripwire::health::AFTER_ACTIVATION;

/// Why a policy file is refused, and which key is to blame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", keys.join("."))]
pub struct PolicyError {
    /// The way to the key, from the top of the file.
    pub keys: Vec<Name>,
    /// What is wrong with it.
    pub problem: PolicyProblem,
}

/// What is wrong with a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum PolicyProblem {
    #[error("unknown time zone `{0}`")]
    UnknownZone(Name),
    #[error(
        "`kill_switch_enabled: {enabled}` and `guards.loop: {loops}` contradict each other: they are the same switch"
    )]
    LoopSwitch { enabled: bool, loops: &'static str },
    #[error("`guards.watchdog: {guard}` and `watchdog.scope: off` contradict each other")]
    WatchdogSwitch { guard: &'static str },
    #[error("the preset of all agents stands at the top of the file: write `preset: …` there")]
    PresetAtTop,
    #[error("an agent needs a name")]
    NoName,
    #[error("no agent may be called `{SYSTEM}`: the journal keeps the system's own chain under this name")]
    ReservedName,
    #[error(
        "`{name}` cannot be a model's name: it has 1 to {max} letters, digits and signs, no spaces; `*` stands for any run of them"
    )]
    BadModel { name: Name, max: usize },
    #[error("at most {max} models can be listed; use `*` to name many at once")]
    TooManyModels { max: usize },
    #[error("{found} tools are listed; at most {max} are allowed")]
    TooManyTools { found: usize, max: usize },
    #[error("a tool's name has 1 to {max} characters; one has {found}")]
    BadTool { found: usize, max: usize },
    #[error(
        "`{name}` cannot be a path: it begins with `/`, as it follows the provider's name, and has at most {max} letters, digits and signs, no spaces; `*` stands for any run of them"
    )]
    BadPath { name: Name, max: usize },
    #[error("at most {max} paths can be listed; use `*` to name many at once")]
    TooManyPaths { max: usize },
    #[error("test_runners: {0}")]
    TestRunners(#[from] TestRunnersError),
    #[error(
        "soft_suspend_threshold ({value}) must not be above 0.8: a person who activates an agent sets its health to 0.8, and it would be suspended at once"
    )]
    SuspendsAtOnce { value: String },
    #[error("allowed_hours needs both `from` and `to`; `{missing}` is missing")]
    HoursIncomplete { missing: &'static str },
    #[error("`from` and `to` are both {time}, which allows no hours at all")]
    HoursEmpty { time: String },
    #[error("{key} ({value}) must not be above {bound_key} ({bound})")]
    Above { key: &'static str, value: String, bound_key: &'static str, bound: String },
    #[error("{key} ({value}) must be below {bound_key} ({bound})")]
    NotBelow { key: &'static str, value: String, bound_key: &'static str, bound: String },
}

/// Looks at everything and returns every time zone the file names.
pub(super) fn check(
    file: &PolicyFileIn,
    find_zone: &dyn Fn(&str) -> Option<Zone>,
) -> Result<BTreeMap<Name, Zone>, PolicyError> {
    check_gate(&file.gate).map_err(|(key, problem)| at(&["gate", key], problem))?;

    let section = Section { watchdog: &file.watchdog, find_zone };
    let mut zones = BTreeMap::new();
    if let Some(name) = &file.budget.timezone {
        let unknown = || at(&["budget", "timezone"], PolicyProblem::UnknownZone(name.clone()));
        zones.insert(name.clone(), find_zone(name).ok_or_else(unknown)?);
    }
    if file.policy.preset.is_some() {
        return Err(at(&["policy", "preset"], PolicyProblem::PresetAtTop));
    }
    section.check(&["policy"], &file.policy, &file.policy.allowed_hours, &mut zones)?;
    for (name, agent) in &file.agents {
        check_name(name).map_err(|problem| at(&["agents", name], problem))?;
        let Some(agent) = agent else { continue };
        let hours = resolve::hours_of(file, &[&agent.policy]);
        section.check(&["agents", name, "policy"], &agent.policy, &hours, &mut zones)?;
    }
    Ok(zones)
}

/// Looks at rules that will lie over `below`, and returns every time zone they name. Keys are blamed from the top of
/// the rules.
pub(super) fn check_over(
    file: &PolicyFileIn,
    below: &PolicyIn,
    over: &PolicyIn,
    find_zone: &dyn Fn(&str) -> Option<Zone>,
) -> Result<BTreeMap<Name, Zone>, PolicyError> {
    let section = Section { watchdog: &file.watchdog, find_zone };
    let mut zones = BTreeMap::new();
    section.check(&[], over, &resolve::hours_of(file, &[below, over]), &mut zones)?;
    Ok(zones)
}

/// What a section of rules is checked against.
struct Section<'a> {
    watchdog: &'a WatchdogIn,
    find_zone: &'a dyn Fn(&str) -> Option<Zone>,
}

impl Section<'_> {
    /// `hours` are those of the section over those below it.
    fn check(
        &self,
        path: &[&str],
        policy: &PolicyIn,
        hours: &AllowedHoursIn,
        zones: &mut BTreeMap<Name, Zone>,
    ) -> Result<(), PolicyError> {
        let blame = |keys: &[&str], problem| at(&[path, keys].concat(), problem);
        check_loop_switch(policy).map_err(|problem| blame(&["guards", "loop"], problem))?;
        check_watchdog_switch(policy, self.watchdog)
            .map_err(|problem| blame(&["guards", "watchdog"], problem))?;
        if policy.allowed_hours != AllowedHoursIn::default() {
            check_hours(hours).map_err(|problem| blame(&["allowed_hours"], problem))?;
        }
        check_models(policy).map_err(|(key, problem)| blame(&["models", key], problem))?;
        check_tools(policy).map_err(|(key, problem)| blame(&[key], problem))?;
        check_paths(policy).map_err(|problem| blame(&["budget", "paths", "allow"], problem))?;
        check_test_runners(policy).map_err(|problem| blame(&["test_runners"], problem))?;
        for (section, name) in
            [("budget", &policy.budget.timezone), ("allowed_hours", &policy.allowed_hours.timezone)]
        {
            let Some(name) = name else { continue };
            let zone = (self.find_zone)(name)
                .ok_or_else(|| blame(&[section, "timezone"], PolicyProblem::UnknownZone(name.clone())))?;
            zones.insert(name.clone(), zone);
        }
        Ok(())
    }
}

fn at(keys: &[&str], problem: PolicyProblem) -> PolicyError {
    PolicyError { keys: keys.iter().map(|key| Name::from(*key)).collect(), problem }
}

fn check_name(agent: &str) -> Result<(), PolicyProblem> {
    match agent {
        "" => Err(PolicyProblem::NoName),
        SYSTEM => Err(PolicyProblem::ReservedName),
        _ => Ok(()),
    }
}

/// Patterns of models in one list. Each request is held against all of them.
const MODELS_MAX: usize = 100;
/// Longest pattern of a model.
const MODEL_BYTES_MAX: usize = 128;

fn check_models(policy: &PolicyIn) -> Result<(), (&'static str, PolicyProblem)> {
    for (key, list) in [("allow", &policy.models.allow), ("deny", &policy.models.deny)] {
        let list = list.as_deref().unwrap_or_default();
        if list.len() > MODELS_MAX {
            return Err((key, PolicyProblem::TooManyModels { max: MODELS_MAX }));
        }
        let fits = |name: &Name| {
            (1..=MODEL_BYTES_MAX).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
        };
        if let Some(name) = list.iter().find(|name| !fits(name)) {
            return Err((key, PolicyProblem::BadModel { name: name.clone(), max: MODEL_BYTES_MAX }));
        }
    }
    Ok(())
}

/// Tools in one list. Each step is held against all of them.
const TOOLS_MAX: usize = 100;
/// Longest name of a tool, in characters.
const TOOL_CHARS_MAX: usize = 128;

fn check_tools(policy: &PolicyIn) -> Result<(), (&'static str, PolicyProblem)> {
    for (key, list) in [("exempt_tools", &policy.exempt_tools), ("wrap_up_tools", &policy.wrap_up_tools)] {
        let list = list.as_deref().unwrap_or_default();
        if list.len() > TOOLS_MAX {
            return Err((key, PolicyProblem::TooManyTools { found: list.len(), max: TOOLS_MAX }));
        }
        let lengths = list.iter().map(|name| name.chars().count());
        if let Some(found) = lengths.into_iter().find(|length| !(1..=TOOL_CHARS_MAX).contains(length)) {
            return Err((key, PolicyProblem::BadTool { found, max: TOOL_CHARS_MAX }));
        }
    }
    Ok(())
}

fn check_paths(policy: &PolicyIn) -> Result<(), PolicyProblem> {
    let list = policy.budget.paths.allow.as_deref().unwrap_or_default();
    if list.len() > MODELS_MAX {
        return Err(PolicyProblem::TooManyPaths { max: MODELS_MAX });
    }
    let fits = |path: &Name| {
        let is_graphic = path.bytes().all(|byte| byte.is_ascii_graphic());
        path.starts_with('/') && path.len() <= MODEL_BYTES_MAX && is_graphic
    };
    match list.iter().find(|path| !fits(path)) {
        Some(name) => Err(PolicyProblem::BadPath { name: name.clone(), max: MODEL_BYTES_MAX }),
        None => Ok(()),
    }
}

fn check_test_runners(policy: &PolicyIn) -> Result<(), PolicyProblem> {
    let patterns: Vec<String> = policy.test_runners.iter().flatten().map(ToString::to_string).collect();
    TestRunners::new(&patterns)?;
    Ok(())
}

/// Only within one section: an agent may well decide otherwise than the defaults.
fn check_loop_switch(policy: &PolicyIn) -> Result<(), PolicyProblem> {
    let (Some(enabled), Some(loops)) = (policy.kill_switch_enabled, policy.guards[Guard::Loop]) else {
        return Ok(());
    };
    if enabled == (loops == Mode::Enforce) {
        return Ok(());
    }
    Err(PolicyProblem::LoopSwitch { enabled, loops: mode_text(loops) })
}

fn check_watchdog_switch(policy: &PolicyIn, watchdog: &WatchdogIn) -> Result<(), PolicyProblem> {
    match (policy.guards[Guard::Watchdog], watchdog.scope) {
        (Some(guard @ (Mode::Enforce | Mode::Shadow)), Some(WatchdogScope::Off)) => {
            Err(PolicyProblem::WatchdogSwitch { guard: mode_text(guard) })
        }
        _ => Ok(()),
    }
}

fn mode_text(mode: Mode) -> &'static str {
    match mode {
        Mode::Enforce => "enforce",
        Mode::Shadow => "shadow",
        Mode::Off => "off",
    }
}

fn check_hours(hours: &AllowedHoursIn) -> Result<(), PolicyProblem> {
    match (hours.from, hours.to) {
        (None, _) => Err(PolicyProblem::HoursIncomplete { missing: "from" }),
        (_, None) => Err(PolicyProblem::HoursIncomplete { missing: "to" }),
        (Some(from), Some(to)) if from.minute() == to.minute() => {
            Err(PolicyProblem::HoursEmpty { time: clock_text(from.minute()) })
        }
        (Some(_), Some(_)) => Ok(()),
    }
}

/// On the numbers after the defaults are filled in: one key alone can be wrong for the default of another.
/// Blames a key that stands in the file.
fn check_gate(layer: &SafetyGateIn) -> Result<(), (&'static str, PolicyProblem)> {
    let gate = resolve::gate(layer);
    let above = |key, value: u32, bound_key, bound: u32| {
        let problem =
            PolicyProblem::Above { key, value: value.to_string(), bound_key, bound: bound.to_string() };
        if value > bound { Err((key, problem)) } else { Ok(()) }
    };
    above(
        "token_warning_threshold",
        gate.token_warning_threshold,
        "max_tokens_per_minute",
        gate.max_tokens_per_minute,
    )?;
    above(
        "tool_call_warning_threshold",
        gate.tool_call_warning_threshold,
        "max_tool_calls_per_minute",
        gate.max_tool_calls_per_minute,
    )?;
    let share = |thousandths: u16| Decimal(u64::from(thousandths), 3).to_string();
    if gate.soft_suspend_threshold > AFTER_ACTIVATION {
        let value = share(gate.soft_suspend_threshold);
        return Err(("soft_suspend_threshold", PolicyProblem::SuspendsAtOnce { value }));
    }
    if gate.hard_stop_threshold < gate.soft_suspend_threshold {
        return Ok(());
    }
    let (key, bound_key) = ("hard_stop_threshold", "soft_suspend_threshold");
    let problem = PolicyProblem::NotBelow {
        key,
        value: share(gate.hard_stop_threshold),
        bound_key,
        bound: share(gate.soft_suspend_threshold),
    };
    Err((if layer.hard_stop_threshold.is_some() { key } else { bound_key }, problem))
}
