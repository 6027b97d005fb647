//! estop-gateway: the places where traffic is held or let through.
//!
//! Empty so far. It will hold the enforcement points, which all ask the core the same way:
//!
//! - the LLM proxy: listen, identify, read, decide, forward, observe, settle (ID-1..6)
//! - the tool gate for hooks and MCP (TL-1, TL-3) and the message relay (KS-10)
//! - the latch: one atomic word with epoch and channels, and the registry of what is in flight (KS-2)
//!
//! What it never does: write to a database, wait for one, re-serialise a body it inspected, choose an upstream by
//! what the client says, or allow anything because an answer is missing. It knows neither the admin API nor the
//! alerts; events and decisions leave it through a bounded channel.
//!
//! It may use `estop-wire` and `estop-core`, and is used by `estop`.
