//! Whose hook it is: agent and run (ID-1, ID-2, ID-7).

use estop_core::fingerprint::signature;
use estop_core::ids::Name;
use estop_core::operator::{HookCall, HookFault};
use estop_wire::hooks::{HookClient, HookIn};
use http::{HeaderMap, HeaderName};

use crate::names::{DEFAULT_AGENT, NAME_MAX, is_agent_name, is_name};

/// Longest branch or session that is kept, in characters, as everywhere where runs are told of.
const LINE_CHARS_MAX: usize = 256;

/// Who works, and at what.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Who {
    pub(super) agent: Name,
    pub(super) run_of: RunOf,
    /// A session is a person's, unless an agent's key says so: agents do not vouch for people.
    pub(super) attended: bool,
    pub(super) branch: Option<Name>,
}

/// The run, and who says so.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RunOf {
    /// A ticket: its supervisor begins and ends it.
    Supervised(Name),
    /// The caller named it.
    Named(Name),
    /// Nobody did: the client's session is the run.
    Session(Name),
    /// There is not even a session.
    Implicit,
}

impl Who {
    pub(super) fn run(&self) -> Option<&Name> {
        match &self.run_of {
            RunOf::Supervised(run) | RunOf::Named(run) | RunOf::Session(run) => Some(run),
            RunOf::Implicit => None,
        }
    }
}

/// Finds out. What a key or a ticket says cannot be overruled.
pub(super) fn of(call: &HookCall<'_>, hook: &HookIn) -> Result<Who, HookFault> {
    let agent = call.agent.or(hook.agent.as_deref()).unwrap_or(DEFAULT_AGENT);
    if let (true, Some(named)) =
        (call.bound, hook.agent.as_deref().filter(|named| !named.eq_ignore_ascii_case(agent)))
    {
        let named: String = named.chars().take(NAME_MAX).collect();
        let why = format!("This key or ticket belongs to the agent {agent}; it cannot act as {named}.");
        return Err(HookFault::NotYours(why));
    }
    // Both are looked at: a name that cannot be meant is a mistake also where the other one counts.
    if [Some(agent), hook.agent.as_deref()].into_iter().flatten().any(|name| !is_agent_name(name)) {
        let must =
            "must have letters, digits, `.`, `_` and `-`, at most 64, and be no name estop keeps for itself";
        return Err(unread("agent", must));
    }
    let run_of = match (call.run, hook.run.as_deref()) {
        (Some(run), _) if call.supervised => RunOf::Supervised(named(run)?),
        (Some(run), _) | (None, Some(run)) => RunOf::Named(named(run)?),
        (None, None) if hook.session.is_empty() => RunOf::Implicit,
        (None, None) => RunOf::Session(of_session(hook.client.name(), &hook.session)),
    };
    Ok(Who { agent: agent.into(), run_of, attended: !call.bound, branch: call.branch.map(line) })
}

/// Clients that say in each request to a model which session it is of, as their hooks say it.
const SESSION_HEADERS: [(HookClient, HeaderName); 3] = [
    (HookClient::ClaudeCode, HeaderName::from_static("x-claude-code-session-id")),
    (HookClient::Codex, HeaderName::from_static("session-id")),
    (HookClient::Opencode, HeaderName::from_static("x-session-id")),
];

/// The run that hooks of a request's session have, if there are any.
pub(crate) fn session_run(headers: &HeaderMap) -> Option<Name> {
    let session = |(client, name): &(HookClient, HeaderName)| {
        let session = headers.get(name)?.to_str().ok().filter(|session| !session.is_empty())?;
        Some(of_session(client.name(), session))
    };
    SESSION_HEADERS.iter().find_map(session)
}

fn named(run: &str) -> Result<Name, HookFault> {
    let must = "must have letters, digits, `.`, `_` and `-`, at most 64, and not begin with `.` or `-`";
    is_name(run).then(|| run.into()).ok_or_else(|| unread("run", must))
}

fn unread(field: &str, must: &str) -> HookFault {
    HookFault::Unread { field: field.to_owned(), why: format!("`{field}` {must}") }
}

/// `{client}-{session}`. One that would not be a name is cut, and told apart by its hash.
fn of_session(client: &str, session: &str) -> Name {
    let plain = format!("{client}-{session}");
    if is_name(&plain) {
        return plain.into();
    }
    let fits = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' };
    let hash = format!("-{:016x}", signature::text(session).0);
    let cut: String = plain.chars().take(NAME_MAX - hash.len()).map(fits).collect();
    format!("{cut}{hash}").into()
}

/// A text on one line, of bounded length.
pub(super) fn line(text: &str) -> Name {
    text.chars().filter(|c| !c.is_control()).take(LINE_CHARS_MAX).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_7_a_session_names_its_run() {
        assert_eq!(&*of_session("codex", "0199-ab"), "codex-0199-ab");
        let odd = of_session("openclaw", "agent:main:main");
        assert!(is_name(&odd) && odd.starts_with("openclaw-agent-main-main-"), "{odd}");
        assert_ne!(odd, of_session("openclaw", "agent:main-main"), "two sessions are two runs");
        let long = of_session("claude-code", &"ü".repeat(500));
        assert!(is_name(&long), "{long}");
    }
}
