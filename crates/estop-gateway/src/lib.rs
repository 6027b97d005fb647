//! estop-gateway: the places where traffic is held or let through.
//!
//! Today the LLM proxy: listen, identify, read, understand, decide, forward, observe, settle (ID-1..7, AN-1..4); and the
//! message relay (KS-10). Hooks and the gate before MCP servers (TL-1, TL-3) ask the core the same way.
//!
//! What it never does: write to a database, wait for one, re-serialise a body it inspected, choose an upstream by
//! what the client says, or allow anything because an answer is missing. It knows neither the admin API nor the
//! alerts; events and decisions leave it through a bounded queue.
//!
//! It may use `estop-wire` and `estop-core`, and is used by `estop`.
//!
//! Read `exchange/exchange.rs` first: one request from its head to the end of its response.

mod auth;
mod body;
mod channels;
mod clock;
mod emergency_stop;
mod engine;
mod exchange;
mod gateway;
mod journal;
mod names;
mod start_error;
mod sync;
mod upstream;

pub mod settings;

pub use auth::identity::KeyRing;
pub use emergency_stop::heartbeat::{Heartbeat, Heartbeats, PartChange};
pub use emergency_stop::in_flight::{InFlightRequest, Phase};
pub use engine::agents::{Agent, AgentCopy, AgentInner};
pub use engine::background::{JOBS_MAX, JOBS_PER_AGENT_MAX, Job, JobStanding, Jobs};
pub use engine::drill::{
    AGENT as CANARY, Drill, HEADER as CANARY_HEADER, LetIn, PROVIDER as CANARY_PROVIDER,
};
pub use engine::eviction::{Evicted, EvictedAgents, States};
pub use engine::fleet::Fleet;
pub use engine::last_output::RunLocation;
pub use engine::policies::{Over, Rulebook};
pub use engine::restored_state::RestoredState;
pub use engine::step_log::{StepLog, StepsToSave, StopPoint, UnsavedSteps, WAITING_MAX, redacted};
pub use engine::switch::{LatchStore, NotPersisted};
pub use engine::tools::{RegisteredTool, RunningTool, Tools};
pub use engine::{Engine, Stores};
pub use gateway::{Gateway, ReadySettings, Workers};
pub use journal::{Decided, JournalFile, JournalQueue, Portion, Queued, Recorded};
pub use names::{NAME_MAX, is_agent_name, is_name};
pub use start_error::StartError;
