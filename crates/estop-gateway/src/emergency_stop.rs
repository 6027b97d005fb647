//! What a kill reads and closes: the gate word, the requests in flight, their sockets. Nothing here waits for anything.

pub(crate) mod connection;
pub(crate) mod connections;
pub(crate) mod gate_word;
pub(crate) mod heartbeat;
pub(crate) mod in_flight;
pub(crate) mod registry;
pub(crate) mod socket;
