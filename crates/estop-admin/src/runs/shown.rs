//! What is shown of a run.

use estop_core::policy::RunLimits;
use estop_core::run::{RunState, RunView};
use estop_store::Run;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, OneOfBuilder, Schema, Type};

use crate::input::make_whole;
use crate::output::{dollars, kept_json, moment};

/// A state, as seed 3 writes it.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schema(as = RunState)]
pub(super) enum RunStateName {
    Active,
    Sleeping,
    Completed,
    Escalated,
}

impl From<RunStateName> for RunState {
    fn from(name: RunStateName) -> RunState {
        match name {
            RunStateName::Active => RunState::Active,
            RunStateName::Sleeping => RunState::Sleeping,
            RunStateName::Completed => RunState::Completed,
            RunStateName::Escalated => RunState::Escalated,
        }
    }
}

/// Labels: at most 32, each key and value one line.
pub(super) fn labels_schema() -> Schema {
    let line = |max| {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .min_length(Some(1))
            .max_length(Some(max))
            .pattern(Some("^[^\\u0000-\\u001f\\u007f-\\u009f]+$"))
    };
    ObjectBuilder::new()
        .property_names(Some(line(64)))
        .additional_properties(Some(line(256)))
        .max_properties(Some(32))
        .into()
}

/// Limits for one run: each a whole number from 1 on, `off`, or null for what the agent's rules say.
pub(super) fn limits_schema() -> Schema {
    let number = || ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).maximum(Some(u32::MAX));
    let off = || ObjectBuilder::new().schema_type(Type::String).enum_values(Some(["off"]));
    let null = || ObjectBuilder::new().schema_type(Type::Null);
    let limit = || OneOfBuilder::new().item(number()).item(off()).item(null());
    ObjectBuilder::new()
        .property("max_iterations", limit())
        .property("max_tool_calls", limit())
        .property("max_turns", limit())
        .property("max_active_duration", limit())
        .property("max_sleep_duration", limit())
        .additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(false)))
        .into()
}

/// Reads limits as the schema has them: an object, never a list of its values; `5.0` is a whole number.
pub(super) fn read_limits<'de, D: Deserializer<'de>>(d: D) -> Result<RunLimits, D::Error> {
    let mut value = Value::Object(serde_json::Map::deserialize(d)?);
    make_whole(&mut value);
    serde_path_to_error::deserialize(&value)
        .map_err(|error| D::Error::custom(format!("{}: {}", error.path(), error.inner())))
}

/// A run.
#[derive(Serialize, ToSchema)]
#[schema(as = Run)]
pub(super) struct RunOut {
    /// `agent:run`.
    id: String,
    agent: String,
    /// Its name; null = the implicit run.
    run: Option<String>,
    /// `ACTIVE`, `SLEEPING`, `COMPLETED` or `ESCALATED`.
    state: String,
    /// A person sits at it.
    attended: bool,
    role: Option<String>,
    issue: Option<String>,
    branch: Option<String>,
    /// The client's session.
    session: Option<String>,
    #[schema(value_type = Object)]
    labels: Value,
    started_at: Option<String>,
    ended_at: Option<String>,
    /// It reached a limit.
    tripped: Option<bool>,
    iterations: Option<u32>,
    tool_calls: Option<u32>,
    turns: Option<u32>,
    active_ms: Option<u64>,
    spent_usd: f64,
    tokens: u64,
    /// What the agent said at its end.
    summary: Option<String>,
}

impl RunOut {
    /// What lives is newer than what is stored.
    pub(super) fn of(view: Option<&RunView>, row: Run) -> RunOut {
        let usd = view.map_or(row.spent, |view| view.spent.usd);
        // What the journal told last of a run that is not in memory any more.
        let counters = kept_json(&row.counters);
        let counted = |key: &str| counters[key].as_u64();
        let small = |key: &str| counted(key).and_then(|count| u32::try_from(count).ok());
        RunOut {
            state: view.map_or(row.state.into(), |view| view.state.name().to_owned()),
            attended: view.map_or(row.attended, |view| view.attended),
            tripped: view.map(|view| view.tripped).or_else(|| counters["tripped"].as_bool()),
            iterations: view.map(|view| view.iterations).or_else(|| small("iterations")),
            tool_calls: view.map(|view| view.tool_calls).or_else(|| small("tool_calls")),
            turns: view.map(|view| view.turns).or_else(|| small("turns")),
            active_ms: view.map(|view| view.active_ms).or_else(|| counted("active_ms")),
            spent_usd: dollars(usd),
            tokens: view.map_or(row.tokens, |view| view.spent.tokens),
            id: row.id.into(),
            agent: row.agent.into(),
            run: row.name.map(Into::into),
            role: row.role.map(Into::into),
            issue: row.issue.map(Into::into),
            branch: row.branch.map(Into::into),
            session: row.session.map(Into::into),
            labels: kept_json(&row.labels),
            started_at: (row.started_at != 0).then(|| moment(row.started_at)),
            ended_at: row.ended_at.map(moment),
            summary: row.summary,
        }
    }

    pub(super) fn state(&self) -> &str {
        &self.state
    }

    pub(super) fn agent(&self) -> &str {
        &self.agent
    }

    pub(super) fn name(&self) -> Option<&str> {
        self.run.as_deref()
    }
}
