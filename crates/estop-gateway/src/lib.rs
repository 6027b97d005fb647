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
//! Read `pipeline.rs` first: one request from its head to its answer.

// One request.
mod account;
mod answer;
mod body_in;
mod cross_site;
mod dispatch;
mod forward;
mod hooks;
mod identity;
mod inbound;
mod mcp;
mod mcp_servers;
mod names;
mod pipeline;
mod pricing;
mod recall;
mod refuse;
mod relay;
mod relays;
mod remembered;
mod response_body;
mod rulebook;
mod screen;
mod tags;
mod upload;
mod upstream;

// Who is judged, and where.
mod agents;
mod apart;
mod clock;
mod fleet;
mod flight;
mod hook_memory;
mod host;
mod job_canceller;
mod jobs;
mod journal_queue;
mod latch;
mod registry;
mod resting;
mod sync;
mod tickets;
mod tools;
mod watch;
mod words;

// Sockets, threads and time.
mod connection;
mod connections;
mod gateway;
mod heartbeat;
mod listener;
mod shut_if_panicking;
mod socket;
mod start_error;
mod sweep;
mod worker;

pub mod settings;

pub use agents::{Agent, Judged};
pub use fleet::Fleet;
pub use flight::{Flight, Phase};
pub use gateway::Gateway;
pub use heartbeat::{Heartbeat, Heartbeats, PartChange};
pub use host::button::{LatchKeeper, NotKept};
pub use host::canary::{AGENT as CANARY, Drill, HEADER as CANARY_HEADER, LetIn, PROVIDER as CANARY_PROVIDER};
pub use host::{Host, Keeping};
pub use identity::KeyRing;
pub use jobs::{JOBS_MAX, JOBS_PER_AGENT_MAX, Job, JobStanding, Jobs};
pub use journal_queue::{Decided, Handover, JournalQueue, Portion, Recorded, Tail, TailMark};
pub use names::{NAME_MAX, is_agent_name, is_name};
pub use remembered::Remembered;
pub use resting::{Rest, Resting, States};
pub use rulebook::{Over, Rulebook};
pub use start_error::StartError;
pub use tools::{RegisteredTool, RunningTool, Tools};
pub use words::Place;
