//! A hook of a coding agent, as it reaches the running estop, and what its client reads back (TL-1).

/// A larger body is not taken in. Above what any reader of payloads reads, so that whoever sends too much is refused in
/// the words of its client.
pub const HOOK_BODY_MAX: usize = 33 * 1024 * 1024;

/// A hook that somebody's client called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HookCall<'a> {
    /// Whose contract it follows: `claude-code`, `generic`, …
    pub client: &'a str,
    /// The event in the client's own words; empty if only the payload names it.
    pub event: &'a str,
    /// What the client wrote.
    pub body: &'a [u8],
    /// Who works, as far as the way the call came in tells.
    pub agent: Option<&'a str>,
    /// At which task.
    pub run: Option<&'a str>,
    /// Agent (and run) come from a key or a ticket; the body cannot name others.
    pub bound: bool,
    /// They come from a ticket: a supervisor begins and ends the run.
    pub supervised: bool,
    /// The branch it works on.
    pub branch: Option<&'a str>,
    /// Why there is no body: it is refused for that in the client's words.
    pub lost: Option<&'a str>,
}

/// What the client of a hook reads: its standard output, standard error and exit code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookReply {
    /// For standard output: the answer in the client's own words.
    pub stdout: String,
    /// For standard error.
    pub stderr: String,
    /// The exit code.
    pub exit_code: u8,
    /// It could not be answered for what it is; the rest is then what keeps a tool from running.
    pub fault: Option<HookFault>,
}

/// Why a hook could not be answered for what it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HookFault {
    /// No such client.
    #[error("{0}")]
    UnknownClient(String),
    /// The payload could not be read, or names what nobody can be called.
    #[error("{why}")]
    Unread {
        /// Which field; empty = all of it.
        field: String,
        /// What is wrong with it.
        why: String,
    },
    /// Whoever calls may not act as the one the payload names.
    #[error("{0}")]
    NotYours(String),
}
