//! TL-1: hooks of coding agents. Payloads are recorded from the real programs (Cursor's: from its documentation).

#[path = "hooks/answers.rs"]
mod answers;
#[path = "hooks/hostile.rs"]
mod hostile;
#[path = "hooks/payloads.rs"]
mod payloads;
