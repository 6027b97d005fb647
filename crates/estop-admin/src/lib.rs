//! estop-admin: looking and steering.
//!
//! Empty so far. It will hold the admin plane, on its own port and thread:
//!
//! - the API with its access control, problem documents and OpenAPI page (KS-5, KS-6, UI-3)
//! - the dashboard with live updates and the red button on every page (UI-1)
//! - incidents, escalations, spend, journal search and export
//!
//! What it never does: touch traffic of agents, reach into the gateway (it speaks to the core's `Operator`), put
//! anything slow before a kill, or load a script from another host.
//!
//! It may use `estop-store` and `estop-core`, and is used by `estop`.
