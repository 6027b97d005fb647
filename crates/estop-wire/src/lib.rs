//! estop-wire: what models, tools and clients say on the wire.
//!
//! Empty so far. It will hold the formats, as pure functions from bytes to meaning and back:
//!
//! - requests and answers, plain and streamed, of OpenAI Chat Completions and Responses, Anthropic Messages,
//!   Gemini and Ollama: read into the core's `RequestText` and `ResponseText`, with usage (ID-5, FP-3..5)
//! - server-sent events, read beside the bytes that pass through (ID-6)
//! - refusals in the shape each protocol and client understands (AN-1..4)
//! - the hook contracts of coding agents (TL-1) and MCP messages (TL-3)
//!
//! What it never does: open a socket, wait, read a clock or a file, change a byte that is forwarded, or judge.
//! It has no tokio and no SQL. Duplicate keys in what it inspects are an error, never a choice.
//!
//! It may use `estop-core`, and is used by `estop-gateway` and `estop`.
