//! A preset as pages show it: which, who says so, and what `strict` would have stopped.

use estop_core::policy::Preset;

use crate::agents::shown::preset_name;
use crate::backtest::DAYS;
use crate::presets::would_have;
use crate::problem::Problem;
use crate::state::App;

/// Everybody's preset, or one agent's.
pub(super) struct Shown {
    pub(super) name: &'static str,
    pub(super) origin: &'static str,
    /// The other one.
    pub(super) other: &'static str,
    /// It was set here and can be taken back.
    pub(super) is_set: bool,
    pub(super) is_strict: bool,
    /// What `strict` would have stopped.
    pub(super) guards: Vec<GuardRow>,
    pub(super) total: u64,
    /// All of them were counted.
    complete: bool,
    pub(super) days: i64,
}

pub(super) struct GuardRow {
    pub(super) guard: String,
    pub(super) stops: u64,
    pub(super) agents: u64,
}

impl Shown {
    /// `once`, `7 times`, `at least 5000 times`
    pub(super) fn times(&self) -> String {
        let at_least = if self.complete { "" } else { "at least " };
        match self.total {
            0 => "nothing".to_owned(),
            1 => format!("{at_least}once"),
            times => format!("{at_least}{times} times"),
        }
    }

    /// Of one agent, or of all.
    pub(super) fn of(
        app: &App,
        agent: Option<&str>,
        preset: Preset,
        origin: &'static str,
    ) -> Result<Shown, Problem> {
        let since = app.now() - DAYS * 86_400_000;
        let seen = would_have(app.store_here(), agent, since)?;
        let complete = seen.complete;
        let guards: Vec<GuardRow> = seen
            .guards
            .into_iter()
            .map(|seen| GuardRow { guard: seen.guard, stops: seen.stops, agents: seen.agents })
            .collect();
        let other = match preset {
            Preset::Watch => Preset::Strict,
            Preset::Strict => Preset::Watch,
        };
        Ok(Shown {
            name: preset_name(preset),
            origin: match origin {
                "api" => "set here",
                "default" => "nobody chose one",
                "everybody" => "set for everybody, in the settings",
                _ => "from the file",
            },
            other: preset_name(other),
            is_set: origin == "api",
            is_strict: preset == Preset::Strict,
            total: guards.iter().map(|row| row.stops).sum(),
            guards,
            complete,
            days: DAYS,
        })
    }
}
