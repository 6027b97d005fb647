//! Where to listen.

use std::net::SocketAddr;

/// Where to listen. The two differ, unless a port is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// For agents.
    pub data: SocketAddr,
    /// For people: API and dashboard.
    pub admin: SocketAddr,
}
