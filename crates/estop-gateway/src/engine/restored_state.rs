//! What is remembered of the time before this process began.

use std::collections::{BTreeMap, BTreeSet};

use estop_core::budget::Budget;
use estop_core::engine::Snapshot;
use estop_core::ids::Name;
use estop_core::operator::AgentKeyHash;
use estop_core::system::System;
use estop_core::system::button::Latched;
use estop_core::time::Millis;

use crate::engine::background::Job;
use crate::engine::eviction::EvictedAgents;
use crate::engine::policies::Over;

/// What is remembered of the time before this process began.
#[derive(Debug, Default)]
pub struct RestoredState {
    /// The button, as the journal tells it.
    pub system: System,
    /// Who brought that about, as the journal tells it.
    pub told: Option<Latched>,
    /// What the latch said; `None` on a first start.
    pub latch: Option<Latched>,
    /// Where monotonic time goes on.
    pub mono: Millis,
    /// How long nobody was there.
    pub away_ms: u64,
    /// The agents.
    pub agents: Vec<(Name, Snapshot)>,
    /// What was set for agents over the configuration.
    pub over: BTreeMap<Name, Over>,
    /// Agents that people added by the API.
    pub added: BTreeSet<Name>,
    /// The account of all agents together.
    pub fleet: Budget,
    /// Keys that were made while estop ran.
    pub made_keys: Vec<AgentKeyHash>,
    /// Agents that only the store has.
    pub evicted: EvictedAgents,
    /// Which record stopped or paused an agent, where a guard did.
    pub stopped_at: Vec<(Name, u64)>,
    /// Work that went on at providers.
    pub jobs: Vec<Job>,
}
