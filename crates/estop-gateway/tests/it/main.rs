//! Everything the data plane does, in one test binary: linking it once is what takes time.

mod blocked;
mod breakers;
mod budget;
mod button;
mod common;
mod edges;
mod ends;
mod evidence;
mod hooks;
mod hostile;
mod http1;
mod identity;
mod jobs;
mod limits;
mod loop_kill;
mod mcp;
mod passthrough;
mod races;
mod refusal_words;
mod relay;
mod settle;
mod smuggling;
mod stops;
mod tls_in;
