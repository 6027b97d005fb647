//! estop-store: what must outlive the process.
//!
//! Empty so far. It will hold the traits `Journal`, `AgentRepo`, `SystemStateRepo`, `HotState` and their
//! implementations, all of which pass one contract test suite:
//!
//! - SQLite in the data directory, the default that needs no set-up (ST-1)
//! - PostgreSQL as the truth for more than one machine, Redis for hot agent state (ST-2)
//! - the latch file that keeps a pressed button pressed over kill -9 and power loss (KS-3)
//! - the outbox of alerts, the price table, backup, retention and migrations
//!
//! What it never does: judge, decide that a kill is over, or stand between a trigger and the gate. A failed write
//! never undoes a kill. It holds no prompt text unless the policy's `evidence` asks for it, and never a key.
//!
//! It is the only crate with SQL in it. It may use `estop-core`, and is used by `estop-admin`, `estop-notify` and
//! `estop`.
