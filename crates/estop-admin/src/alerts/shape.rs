//! Rules and mutes as people write them: the shape of `alerts.rules` in the configuration, bounded, each mistake with its
//! field. Which channels there are only the alerts API knows.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use utoipa::openapi::schema::{Array, ArrayBuilder, ObjectBuilder, Type};

use crate::input::{Checks, Whole, is_name};
use crate::problem::Problem;

/// Agents a rule or mute may name. Whoever has more means all of them.
const AGENTS_MAX: usize = 100;
/// The notifier has at most 64 channels.
const CHANNELS_MAX: usize = 64;
const SHARES_MAX: usize = 16;

/// What an alert is about (AL-1).
#[derive(Clone, Copy, Deserialize, Serialize, PartialEq, Eq, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = AlertType)]
pub(super) enum AlertTypeIn {
    /// A guard switched an agent off.
    KillSwitch,
    /// A run reached a limit and needs a human.
    CircuitBreaker,
    /// A share of a budget was reached.
    Budget,
    /// Many requests of an agent fail.
    ErrorRate,
    /// An agent that should call does not.
    AgentDown,
    /// An agent's health fell.
    Health,
    /// The red button was pressed.
    SystemKill,
    /// The runaway watchdog stopped somebody.
    Watchdog,
    /// The stop was not tried out for too long, or did not work.
    ProoftestOverdue,
    /// A part of estop itself stopped running.
    StuckWorker,
    /// Somebody made an admin token without having one, over the owner's socket.
    AdminToken,
    /// The journal's heads, to be kept elsewhere.
    Checkpoint,
}

impl AlertTypeIn {
    const ALL: [AlertTypeIn; 12] = [
        AlertTypeIn::KillSwitch,
        AlertTypeIn::CircuitBreaker,
        AlertTypeIn::Budget,
        AlertTypeIn::ErrorRate,
        AlertTypeIn::AgentDown,
        AlertTypeIn::Health,
        AlertTypeIn::SystemKill,
        AlertTypeIn::Watchdog,
        AlertTypeIn::ProoftestOverdue,
        AlertTypeIn::StuckWorker,
        AlertTypeIn::AdminToken,
        AlertTypeIn::Checkpoint,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            AlertTypeIn::KillSwitch => "kill_switch",
            AlertTypeIn::CircuitBreaker => "circuit_breaker",
            AlertTypeIn::Budget => "budget",
            AlertTypeIn::ErrorRate => "error_rate",
            AlertTypeIn::AgentDown => "agent_down",
            AlertTypeIn::Health => "health",
            AlertTypeIn::SystemKill => "system_kill",
            AlertTypeIn::Watchdog => "watchdog",
            AlertTypeIn::ProoftestOverdue => "prooftest_overdue",
            AlertTypeIn::StuckWorker => "stuck_worker",
            AlertTypeIn::AdminToken => "admin_token",
            AlertTypeIn::Checkpoint => "checkpoint",
        }
    }
}

/// The names of all types.
pub(crate) fn type_names() -> impl Iterator<Item = &'static str> {
    AlertTypeIn::ALL.into_iter().map(AlertTypeIn::name)
}

/// A name of an agent or channel.
#[derive(Clone, Deserialize, ToSchema)]
#[schema(value_type = String, as = AlertName, pattern = "^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$")]
pub(super) struct NameIn(pub(super) String);

/// A share of a budget.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[schema(value_type = u8, as = AlertShare, minimum = 1, maximum = 100)]
struct ShareIn(Whole);

/// What a rule says. `{}` tells everything but checkpoints to everybody.
#[derive(Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = AlertRuleBody)]
pub(super) struct RuleIn {
    /// Of these types; none = all but `checkpoint`.
    #[serde(default)]
    #[schema(max_items = 12)]
    types: Vec<AlertTypeIn>,
    /// Of these agents; none = all, and what concerns the whole system.
    #[serde(default)]
    #[schema(max_items = 100)]
    agents: Vec<NameIn>,
    /// To these channels; none = all.
    #[serde(default)]
    #[schema(max_items = 64)]
    channels: Vec<NameIn>,
    /// The same thing is told again after this many seconds at the earliest; 900 if left out.
    #[schema(value_type = Option<u32>, minimum = 60, maximum = 604800)]
    repeat_every_s: Option<Whole>,
    /// How often a thing that lasts is told again; 3 if left out.
    #[schema(value_type = Option<u32>, minimum = 0, maximum = 100)]
    reminders: Option<Whole>,
    /// Whether its end is told; yes if left out.
    recovery: Option<bool>,
    /// Of budgets, these shares in percent; none = 50, 80, 95 and 100.
    #[serde(default)]
    #[schema(max_items = 16)]
    budget_percent: Vec<ShareIn>,
}

impl RuleIn {
    /// Whether it fits; `prefix` stands before the names of the fields.
    pub(super) fn check(&self, prefix: &str) -> Result<(), Problem> {
        let mut checks = Checks::default();
        let field = |key: &str| format!("{prefix}{key}");
        types(&mut checks, &field("types"), &self.types);
        names(&mut checks, &field("agents"), &self.agents, AGENTS_MAX);
        names(&mut checks, &field("channels"), &self.channels, CHANNELS_MAX);
        let mut within = |key: &str, found: Option<Whole>, min: i64, max: i64| {
            let fits = found.is_none_or(|Whole(found)| (min..=max).contains(&found));
            checks.expect(fits, &field(key), &format!("must be from {min} to {max}"));
        };
        within("repeat_every_s", self.repeat_every_s, 60, 7 * 86_400);
        within("reminders", self.reminders, 0, 100);
        for ShareIn(share) in &self.budget_percent {
            within("budget_percent", Some(*share), 1, 100);
        }
        let few = self.budget_percent.len() <= SHARES_MAX;
        checks.expect(few, &field("budget_percent"), &format!("may have {SHARES_MAX} entries"));
        checks.done()
    }

    /// The channels it names.
    pub(super) fn channels(&self) -> impl Iterator<Item = &str> {
        self.channels.iter().map(|NameIn(name)| name.as_str())
    }

    /// As the store and the alerts API read it: what was left out stays out.
    pub(super) fn into_json(self) -> Value {
        let mut rule = Map::new();
        let mut put = |key: &str, value: Value| {
            if !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty()) {
                rule.insert(key.to_owned(), value);
            }
        };
        let texts = |names: Vec<NameIn>| names.into_iter().map(|NameIn(name)| name).collect::<Value>();
        put("types", json!(self.types));
        put("agents", texts(self.agents));
        put("channels", texts(self.channels));
        put("repeat_every_s", json!(self.repeat_every_s.map(|Whole(seconds)| seconds)));
        put("reminders", json!(self.reminders.map(|Whole(count)| count)));
        put("recovery", json!(self.recovery));
        put("budget_percent", self.budget_percent.iter().map(|ShareIn(Whole(share))| *share).collect());
        Value::Object(rule)
    }
}

/// What is to be muted, for how long and why.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = AlertMuteBody)]
pub(super) struct MuteIn {
    /// Of these types; none = all but `system_kill`, which must be named. `admin_token` cannot be muted.
    #[serde(default)]
    #[schema(schema_with = muted_types)]
    pub(super) types: Vec<AlertTypeIn>,
    /// Of these agents; none = all.
    #[serde(default)]
    #[schema(max_items = 100)]
    pub(super) agents: Vec<NameIn>,
    /// For how long; seven days at most.
    #[schema(value_type = u32, minimum = 1, maximum = 10080)]
    pub(super) minutes: Whole,
    /// Why.
    #[schema(min_length = 1, max_length = 256, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$")]
    pub(super) why: String,
}

impl MuteIn {
    pub(super) fn check(&self) -> Result<(), Problem> {
        let mut checks = Checks::default();
        types(&mut checks, "types", &self.types);
        let never = self.types.contains(&AlertTypeIn::AdminToken);
        checks.expect(!never, "types", "`admin_token` cannot be muted");
        names(&mut checks, "agents", &self.agents, AGENTS_MAX);
        let fits = (1..=7 * 24 * 60).contains(&self.minutes.0);
        checks.expect(fits, "minutes", "must be from 1 to 10080: a mute ends after seven days at most");
        checks.line("why", &self.why, 256);
        checks.done()
    }
}

fn muted_types() -> Array {
    let names = type_names().filter(|name| *name != AlertTypeIn::AdminToken.name());
    let one = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names));
    ArrayBuilder::new().items(one).max_items(Some(AlertTypeIn::ALL.len())).build()
}

fn types(checks: &mut Checks, field: &str, types: &[AlertTypeIn]) {
    checks.expect(types.len() <= AlertTypeIn::ALL.len(), field, "name each type once");
}

fn names(checks: &mut Checks, field: &str, names: &[NameIn], max: usize) {
    checks.expect(names.len() <= max, field, &format!("may have {max} entries"));
    let fits = names.iter().all(|NameIn(name)| is_name(name));
    checks.expect(fits, field, "must be names of 1 to 64 letters, digits, `.`, `_` and `-`");
}
