//! Spend, summed up by day, agent, run, model, role, issue and labels (PO-6).

use std::collections::BTreeMap;

use estop_core::ids::Name;
use estop_core::money::NanoUsd;

use crate::error::StoreError;

/// Something was spent: who and for what, and how much.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spend {
    /// Days since 1970-01-01, UTC. A budget counts its own days, in its own time zone.
    pub day: i32,
    /// Who.
    pub agent: Name,
    /// Which run; empty = none was named.
    pub run: Name,
    /// Which model.
    pub model: Name,
    /// Which role; empty = none.
    pub role: Name,
    /// Which issue; empty = none.
    pub issue: Name,
    /// Labels.
    pub labels: BTreeMap<Name, Name>,
    /// How much.
    pub sum: SpendSum,
}

/// How much was spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpendSum {
    /// Requests.
    pub requests: u64,
    /// Tokens sent, those from the cache included.
    pub input_tokens: u64,
    /// Tokens received, reasoning included.
    pub output_tokens: u64,
    /// Tokens read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Tokens written to the provider's cache.
    pub cache_write_tokens: u64,
    /// Tokens of reasoning.
    pub reasoning_tokens: u64,
    /// Money.
    pub usd: NanoUsd,
    /// Requests whose model has no price; they are not in `usd`.
    pub unpriced: u64,
    /// Requests whose use was estimated: the provider did not say, or nobody lived to hear it.
    pub estimated: u64,
}

/// What sums are made by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpendBy {
    /// One sum for each day.
    Day,
    /// One for each agent.
    Agent,
    /// One for each model.
    Model,
    /// One for each run.
    Run,
    /// One for each issue.
    Issue,
    /// One for each role.
    Role,
    /// One for each `key=value`; spend with several labels counts under each of them.
    Label,
}

/// Which spend, and how it is summed up.
#[derive(Clone, Debug)]
pub struct SpendQuery {
    /// What sums are made by.
    pub by: SpendBy,
    /// First day.
    pub from_day: i32,
    /// Last day.
    pub to_day: i32,
    /// Of this agent only.
    pub agent: Option<Name>,
    /// Sums at most: by day the latest, otherwise the dearest.
    pub limit: usize,
}

/// One sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpendGroup {
    /// The day's number, the agent, the model, …
    pub key: Name,
    /// How much.
    pub sum: SpendSum,
}

/// What keeps the sums.
pub trait Ledger: Send + Sync {
    /// Adds to the sums.
    fn add_spend(&self, spend: Vec<Spend>) -> Result<(), StoreError>;

    /// Reads sums: by day the latest first, otherwise the dearest first.
    fn spend(&self, query: &SpendQuery) -> Result<Vec<SpendGroup>, StoreError>;
}
