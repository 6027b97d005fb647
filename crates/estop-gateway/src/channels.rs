//! The channels: requests to models, MCP servers, messages, hooks of coding agents.

pub(crate) mod hooks;
pub(crate) mod llm;
pub(crate) mod mcp;
pub(crate) mod relay;
