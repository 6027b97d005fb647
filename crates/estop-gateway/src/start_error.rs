//! Why the data plane cannot start.

/// Why the data plane cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A name or key that cannot be sent.
    #[error("providers.{provider}: {problem}")]
    Provider {
        /// Which.
        provider: Box<str>,
        /// What is wrong.
        problem: String,
    },
    /// A relay's target that cannot be spoken to.
    #[error("relays.{relay}.{problem}")]
    Relay {
        /// Which.
        relay: Box<str>,
        /// What is wrong.
        problem: String,
    },
    /// An MCP server that cannot be spoken to.
    #[error("mcp.servers.{server}: {problem}")]
    Mcp {
        /// Which.
        server: Box<str>,
        /// What is wrong.
        problem: String,
    },
    /// The listener cannot be opened.
    #[error("listen.data: {address} cannot be opened: {error}")]
    Listen {
        /// Which address.
        address: std::net::SocketAddr,
        /// Why.
        error: std::io::Error,
    },
    /// A thread or runtime cannot be started.
    #[error("the data plane cannot be started: {0}")]
    Runtime(#[from] std::io::Error),
}
