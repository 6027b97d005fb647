//! An agent's rules as a form: the common keys with their values, where each comes from, and what it may be.

use estop_core::guard::Guard;
use estop_core::policy::{Policy, WatchdogScope};
use estop_core::policy_file::{PolicyFileIn, PolicyIn, PolicyOrigin};
use serde_json::{Map, Value};

use crate::agents::overrides;
use crate::agents::row::Found;
use crate::input::etag;
use crate::policy::in_file_shape;
use crate::state::App;

/// The form.
pub(super) struct Rules {
    pub(super) sections: Vec<Section>,
    /// The version that is shown: whoever saves an older one is told.
    pub(super) etag: String,
    pub(super) watchdog: String,
}

pub(super) struct Section {
    pub(super) title: &'static str,
    pub(super) hint: &'static str,
    pub(super) fields: Vec<Field>,
}

/// One rule.
pub(super) struct Field {
    /// `limits.max_turns`
    pub(super) key: String,
    pub(super) label: &'static str,
    /// What is in force; empty = no value.
    pub(super) value: String,
    pub(super) bounds: &'static str,
    pub(super) origin: &'static str,
    /// It was set here and can be taken back.
    pub(super) is_set: bool,
    pub(super) kind: Kind,
}

/// How it is typed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Mode,
    /// A whole number or `off`.
    Limit,
    Whole,
    Decimal,
}

impl Field {
    pub(super) fn is_mode(&self) -> bool {
        self.kind == Kind::Mode
    }

    pub(super) fn inputmode(&self) -> &'static str {
        match self.kind {
            Kind::Mode | Kind::Limit => "text",
            Kind::Whole => "numeric",
            Kind::Decimal => "decimal",
        }
    }
}

type Row = (&'static str, &'static str, &'static str, Kind);

const LIMITS: [Row; 6] = [
    ("max_tool_calls", "Tool calls", "a whole number from 1, or off", Kind::Limit),
    ("max_iterations", "Test runs", "a whole number from 1, or off", Kind::Limit),
    ("max_turns", "Turns", "a whole number from 1, or off", Kind::Limit),
    ("max_active_duration", "Active time", "seconds, from 1, or off", Kind::Limit),
    ("max_sleep_duration", "Sleep", "seconds, from 1, or off", Kind::Limit),
    ("warning_threshold", "Warn at", "share of a limit, up to 1", Kind::Decimal),
];
const BUDGET: [Row; 6] = [
    ("usd_per_day", "Dollars a day", "up to 100,000,000, six decimals", Kind::Decimal),
    ("usd_per_month", "Dollars a month", "up to 100,000,000, six decimals", Kind::Decimal),
    ("usd_per_run", "Dollars a run", "up to 100,000,000, six decimals", Kind::Decimal),
    ("tokens_per_day", "Tokens a day", "a whole number from 1", Kind::Whole),
    ("tokens_per_month", "Tokens a month", "a whole number from 1", Kind::Whole),
    ("tokens_per_run", "Tokens a run", "a whole number from 1", Kind::Whole),
];
const RATE: [Row; 2] = [
    ("requests_per_minute", "Requests a minute", "a whole number from 1", Kind::Whole),
    ("tokens_per_minute", "Tokens a minute", "a whole number from 1", Kind::Whole),
];

impl Rules {
    pub(super) fn of(app: &App, found: &Found, policy: &Policy) -> Rules {
        let layers = Layers::of(app, found, policy);
        let section = |key: &'static str, title, hint, rows: &[Row]| Section {
            title,
            hint,
            fields: rows.iter().map(|row| layers.field(key, *row)).collect(),
        };
        Rules {
            sections: vec![
                section(
                    "guards",
                    "Guards",
                    "enforce stops, shadow only watches, off does not look",
                    &guards(),
                ),
                section("limits", "Limits of a run", "the call that reaches one is refused", &LIMITS),
                section("budget", "Budgets", "empty: as the file says; no cap if it has none", &BUDGET),
                section("rate_limit", "Rates", "empty: as the file says; no limit if it has none", &RATE),
            ],
            etag: etag(found.version()),
            watchdog: watchdog(policy),
        }
    }
}

/// The loop guard has a switch of its own on the page.
fn guards() -> Vec<Row> {
    let row = |guard: Guard| {
        guard.info().switch.map(|switch| (guard.name(), switch.label, switch.hint, Kind::Mode))
    };
    Guard::SWITCHES.into_iter().filter(|guard| *guard != Guard::Loop).filter_map(row).collect()
}

fn watchdog(policy: &Policy) -> String {
    let calls = policy.watchdog.max_calls_per_minute;
    match policy.watchdog.scope {
        WatchdogScope::Agent => format!("More than {calls} model calls in a minute stop this agent."),
        WatchdogScope::System => format!("More than {calls} model calls in a minute stop everything."),
        WatchdogScope::Off => "The runaway watchdog is off.".to_owned(),
    }
}

/// An agent's rules, layer by layer, in the shape of the file.
struct Layers {
    preset: Map<String, Value>,
    file: Map<String, Value>,
    api: Map<String, Value>,
    effective: Map<String, Value>,
    /// Where a section has its values from, the API left out.
    below: Vec<(&'static str, PolicyOrigin)>,
}

impl Layers {
    fn of(app: &App, found: &Found, policy: &Policy) -> Layers {
        let file = (app.policy_file)();
        let stored = found.stored.as_ref();
        let role = found.live.as_ref().and_then(|view| view.role.as_deref());
        let role = role.or(stored.and_then(|agent| agent.role.as_deref()));
        let bare = PolicyFileIn { preset: Some(policy.preset), ..PolicyFileIn::default() };
        let bare = bare.check(&|_| None).unwrap_or_default();
        Layers {
            preset: in_file_shape(&bare.resolve(None, None)),
            file: in_file_shape(&file.resolve(Some(found.name()), role)),
            api: stored.map(overrides::read).unwrap_or_default(),
            effective: in_file_shape(policy),
            below: file.origins(found.name(), role, &PolicyIn::default()),
        }
    }

    fn field(&self, section: &'static str, (key, label, bounds, kind): Row) -> Field {
        let of =
            |layer: &Map<String, Value>| layer.get(section).and_then(|section| section.get(key)).cloned();
        let is_set = of(&self.api).is_some();
        let differs = of(&self.file) != of(&self.preset);
        let by_file = self.below.iter().any(|(at, origin)| *at == section && *origin != PolicyOrigin::Preset);
        Field {
            key: format!("{section}.{key}"),
            label,
            value: of(&self.effective).map(|value| text(&value)).unwrap_or_default(),
            bounds,
            origin: match (is_set, by_file, differs) {
                (true, _, _) => "set here",
                (false, true, true) => "from the file",
                // Nobody wrote it, and yet it is not the default: the built-in role says so.
                (false, false, true) if section == "limits" => "from its role",
                (false, _, _) => "default",
            },
            is_set,
            kind,
        }
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64() {
            Some(whole) if whole.fract() == 0.0 && whole.abs() < 1e15 => format!("{whole:.0}"),
            Some(_) | None => number.to_string(),
        },
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}
