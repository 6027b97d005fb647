//! estop-admin: looking and steering.
//!
//! The API of the admin plane, on its own port and thread: agents and their kill switches, rules, runs, keys, tokens,
//! events, the journal, cases, spend and the red button, with problem documents and an OpenAPI page (KS-5, KS-6, UI-3).
//!
//! What it never does: touch traffic of agents, reach into the gateway (it speaks to the core's `Operator`), put
//! anything slow before a kill, or load a script from another host.
//!
//! It may use `estop-store` and `estop-core`, and is used by `estop-daemon`.

#![expect(unused_qualifications, reason = "utoipa's macros write whole paths")]

// Who may come in, and what they bring and get.
mod access;
mod auth;
mod connection_slot;
mod input;
mod output;
mod problem;
mod recent_activity;
mod state;
mod supervisor_connections;
mod time_range;
mod untrusted;

// The routes, the most urgent first.
mod background;
mod emergency;
mod prooftest;

mod agents;
mod backtest;
mod policy;
mod presets;

mod hooks;
mod recordings;
mod runs;

mod admin_tokens;
mod keys;
mod metrics;
mod sessions;

mod alerts;
mod alerts_api;
mod budgets;
mod cases;
mod events;
mod evidence;
mod journal;
mod mute;
mod spend;

mod health;
mod openapi;
mod pages;

mod admin;

pub use admin::{Admin, FirstStartError};
pub use agents::overrides::{UnreadableRules, overrides_of};
pub use alerts_api::{AlertsApi, AlertsError, ChannelView, MuteView, NoAlerts, RulesNotTaken, UnusableRule};
pub use connection_slot::ConnectionSlot;
pub use presets::kept_preset;
pub use state::{AdminState, Clock, Installation, MetricsText, Options, PolicyFileNow};
pub use untrusted::untrusted;
