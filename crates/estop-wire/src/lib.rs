//! estop-wire: what models, tools and clients say on the wire.
//!
//! Pure functions from bytes to meaning and back:
//!
//! - which call a path is ([`protocol`]), and which program made it ([`client`])
//! - what a request says ([`request`]) and what an answer says, plain or streamed ([`response`]): read into the
//!   core's `RequestText` and `ResponseText`, with usage (ID-5, FP-3..5)
//! - work that goes on at a provider after its request ([`jobs`])
//! - texts without their secrets, for what a person asked to keep ([`mask`])
//! - hooks of coding agents ([`hooks`], TL-1), and MCP's tool calls ([`mcp`], TL-3)
//! - refusals in the shape each protocol and client understands ([`refusal`], AN-1..3)
//!
//! What it never does: open a socket, wait, read a clock or a file, change a byte that is forwarded, or judge.
//! It has no tokio and no SQL. Duplicate keys in what it inspects are an error, never a choice.
//!
//! It may use `estop-core`, and is used by `estop-gateway`, `estop-daemon` and `estop-cli`.

pub mod agent_name;
pub mod client;
pub mod decode;
pub mod hooks;
pub mod jobs;
mod json;
pub mod mask;
pub mod mcp;
pub mod protocol;
pub mod refusal;
pub mod request;
pub mod response;
pub mod sse;
