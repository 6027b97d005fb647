//! MCP under the gate (TL-3): which message is a tool call, and what is said in its place.
//!
//! A gate between a client and a server passes every message on as it came, byte for byte, and looks for one thing:
//! `tools/call`. So this reads no more than it must, and that strictly: whatever a client sends is refused if another
//! reader could find a call in it that this one does not see (keys that are there twice, other cases, half a batch).
//!
//! What it never does: change or write again a message that passes, know a revision of the protocol beyond what a
//! denial needs, wait, or judge.
//!
//! ```
//! use estop_wire::mcp::{self, Part};
//!
//! let line = br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add","arguments":{"a":1}}}"#;
//! let message = mcp::read_line(line).expect("a good message");
//! let [Part::Call(call)] = message.parts() else { panic!("one call") };
//! assert_eq!((&*call.name, &*call.arguments), ("add", r#"{"a":1}"#));
//! assert!(mcp::denied(call, "max tool calls reached").contains(r#""isError":true"#));
//! ```

mod answer;
mod hook;
mod id;
mod message;
mod write;

pub use answer::{Answered, answered};
pub use hook::{asks, refusal, tells};
pub use id::Id;
pub use message::{Call, Message, Part, Unread, cannot_be_call, read, read_line};
pub use write::{CANCELLED, SERVER_ERROR, batch, cancelled, denied, error, tool_name};

/// The largest message that is looked at. Results with files in them have some megabytes; calls are small. The same as for
/// payloads of hooks, and for the same reason.
pub const MESSAGE_BYTES_MAX: usize = crate::hooks::PAYLOAD_BYTES_MAX;
