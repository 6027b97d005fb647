//! Who asks, and whom: agent, run and provider, from the path, its ticket, the key and the headers (ID-1..4, ID-7).
//!
//! The upstream comes from the configuration alone; nothing the client says can choose another.

mod credentials;
mod failed_attempts;
mod key_ring;
mod keys;

use std::time::Instant;

use estop_core::ids::Name;
use estop_core::tags::Tags;
use http::header::HeaderName;
use http::{HeaderMap, Uri};

use crate::auth::tags::{self, BadTags};
use crate::engine::policies::Rulebook;
use crate::engine::tickets::Tickets;
use crate::names::{DEFAULT_AGENT, folded, is_agent_name, is_name};
use crate::settings::UnknownAgents;
pub(crate) use credentials::{CREDENTIAL_HEADERS, KeyIn};
use credentials::{Shown, key_owner, sends_any};
pub(crate) use key_ring::CachedKeys;
pub use key_ring::KeyRing;
use keys::Keys;

/// How estop's own headers begin: never forwarded, never believed when an upstream sends them.
pub(crate) const OURS: &str = "x-estop-";
/// Names the agent.
pub(crate) const AGENT_HEADER: HeaderName = HeaderName::from_static("x-estop-agent");
/// Names the run.
pub(crate) const RUN_HEADER: HeaderName = HeaderName::from_static("x-estop-run");
/// Carries the agent's key, where it does not travel as the provider's.
pub(crate) const KEY_HEADER: HeaderName = HeaderName::from_static("x-estop-key");
/// A path, taken apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route<'a> {
    /// The agent the path names.
    pub agent: Option<&'a str>,
    /// The ticket it shows. Goes nowhere from here: to no log, no answer, no provider.
    pub ticket: Option<&'a str>,
    /// The provider it names.
    pub provider: &'a str,
    /// What is the provider's: empty, or a path that begins with a slash.
    pub path: &'a str,
}

/// Why it cannot be told who asks, or whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IdentityError {
    /// The path leads nowhere.
    NoProvider,
    /// The path has `.` or `..` in it.
    DotSegments,
    /// An agent or run name that cannot be one; says which.
    BadName(&'static str),
    /// A key is needed and there is none.
    KeyMissing,
    /// This agent has a key, and whoever asks does not show it.
    KeyNeeded {
        /// Whose.
        agent: Box<str>,
        /// There was another credential.
        sent_any: bool,
    },
    /// Too many wrong keys were sent for this agent: chosen ones wait.
    TooManyAttempts,
    /// Nobody named this agent, and such are refused.
    AgentUnknown {
        /// Which.
        agent: Box<str>,
    },
    /// The key is no agent's.
    KeyUnknown,
    /// A header that says what the run is for cannot be read.
    BadTags(BadTags),
    /// The key belongs to another agent than the one named.
    KeyOfAnother {
        /// Whose key it is.
        agent: Box<str>,
    },
    /// The ticket is no run's, or its run is over.
    TicketUnknown,
    /// The ticket is of another agent or run than the one named; says which.
    TicketOfAnother(&'static str),
}

/// For whoever names an agent that has a key, and shows none.
pub(crate) fn key_needed(agent: &str) -> String {
    format!(
        "The agent `{agent}` has an estop key, and requests in its name need it: send it as the API key, or in the header \
         x-estop-key. `estop agents key {agent}` makes another."
    )
}

/// For whoever names an agent that no person named.
pub(crate) fn agent_unknown(agent: &str) -> String {
    format!(
        "estop does not know the agent `{agent}`, and `unknown_agents` is deny, as it is by default once an agent has a key. \
         Name it under `agents:`, add it by the API, or give it a key: `estop agents key {agent}`."
    )
}

/// For chosen keys while somebody guesses.
pub(crate) const TOO_MANY_ATTEMPTS: &str = "Too many wrong keys were sent for this agent: wait a minute. Keys that estop makes (`estop agents key NAME`) never wait.";

/// Takes a path apart: `/agents/{agent}/{provider}/…`, `/runs/{ticket}/{provider}/…` or `/{provider}/…`.
pub(crate) fn route<'p>(path: &'p str) -> Result<Route<'p>, IdentityError> {
    if has_dot_segments(path) {
        return Err(IdentityError::DotSegments);
    }
    let rest = path.strip_prefix('/').ok_or(IdentityError::NoProvider)?;
    let named = |rest: &'p str| rest.split_once('/').ok_or(IdentityError::NoProvider);
    let (agent, ticket, rest) = if let Some(rest) = rest.strip_prefix("agents/") {
        let (agent, rest) = named(rest)?;
        if !is_agent_name(agent) {
            return Err(IdentityError::BadName("agent"));
        }
        (Some(agent), None, rest)
    } else if let Some(rest) = rest.strip_prefix("runs/") {
        let (ticket, rest) = named(rest)?;
        (None, Some(ticket), rest)
    } else {
        (None, None, rest)
    };
    let end = rest.find('/').unwrap_or(rest.len());
    let (provider, path) = rest.split_at(end);
    if provider.is_empty() {
        Err(IdentityError::NoProvider)
    } else {
        Ok(Route { agent, ticket, provider, path })
    }
}

/// Whether a segment is `.` or `..` once it is decoded: such a path leads elsewhere than it seems to.
fn has_dot_segments(path: &str) -> bool {
    // Without an early end the compiler looks at many bytes at once.
    if !path.bytes().fold(false, |any, b| any | matches!(b, b'.' | b'%' | b'\\')) {
        return false;
    }
    let decoded = decode(path);
    // Some servers drop what follows a semicolon before they look at the dots.
    let is_dots = |segment: &[u8]| matches!(segment.split(|b| *b == b';').next(), Some(b"." | b".."));
    decoded.split(|b| matches!(b, b'/' | b'\\')).any(is_dots)
}

fn decode(path: &str) -> Vec<u8> {
    let hex = |b: u8| (b as char).to_digit(16).map(|digit| digit as u8);
    let bytes = path.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let escaped = match (byte, bytes.get(at + 1), bytes.get(at + 2)) {
            (b'%', Some(&high), Some(&low)) => hex(high).zip(hex(low)).map(|(high, low)| high << 4 | low),
            _ => None,
        };
        out.push(escaped.unwrap_or(byte));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    out
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The agent.
    pub agent: Name,
    /// The run, if the client named one.
    pub run: Option<Name>,
    /// What the run is for, if the client says it.
    pub tags: Option<Box<Tags>>,
    /// Where the client put its estop key; it must not travel on.
    pub key_in: KeyIn,
    /// Its key was chosen by a person, and might be guessed.
    pub by_chosen_key: bool,
}

impl Caller {
    /// An agent that is known without a key: by a relay's secret, or by a drill's.
    pub(crate) fn of(agent: &str) -> Caller {
        Caller { agent: agent.into(), run: None, tags: None, key_in: KeyIn::default(), by_chosen_key: false }
    }
}

/// Who may call as whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdentityRules {
    /// Refuse requests without a valid key.
    pub require_keys: bool,
    /// What becomes of agents that nobody named.
    pub unknown_agents: UnknownAgents,
}

/// What holds for one request.
struct Holds<'a> {
    require_keys: bool,
    /// Whom the configuration means where nobody says who calls; counts as named.
    configured: Option<&'a str>,
    /// Whether an agent without a key may call under this name.
    may_call: &'a dyn Fn(&str) -> bool,
}

/// What says who may call as whom.
pub(crate) struct IdentityContext<'a> {
    /// Keys of agents.
    pub keys: &'a CachedKeys,
    /// Who may call as whom.
    pub rules: IdentityRules,
    /// Which agents people named.
    pub rulebook: &'a Rulebook,
    /// Addresses that were made for runs.
    pub tickets: &'a Tickets,
}

/// Finds out who asks. `configured`: the agent the configuration gives to what is asked, if it does.
pub(crate) fn identify(
    authority: &IdentityContext<'_>,
    route: &Route<'_>,
    uri: &Uri,
    headers: &HeaderMap,
    configured: Option<&str>,
) -> Result<Caller, IdentityError> {
    let keys = authority.keys.look();
    let IdentityRules { require_keys, unknown_agents } = authority.rules;
    let denies = match unknown_agents {
        UnknownAgents::Allow => false,
        UnknownAgents::Deny => true,
        UnknownAgents::DenyIfKeys => !keys.is_empty(),
    };
    let may_call = |agent: &str| !denies || authority.rulebook.is_named(agent);
    let holds = Holds { require_keys, configured, may_call: &may_call };
    let found = caller(route, uri, headers, &keys, authority.tickets, &holds);
    let failed_attempts = authority.keys.failed_attempts();
    let named = route.agent.or_else(|| headers.get(AGENT_HEADER)?.to_str().ok()).or(configured);
    // Whom a guess is about: an agent that has a key, or whoever the key is of.
    let about = named.filter(|named| keys.has(named)).map(folded).unwrap_or_default();
    let is_guess =
        matches!(found, Err(IdentityError::KeyUnknown | IdentityError::KeyNeeded { sent_any: true, .. }));
    if is_guess && failed_attempts.note(&about, Instant::now()) {
        return Err(IdentityError::TooManyAttempts);
    }
    let by_chosen_key = found.as_ref().is_ok_and(|caller| caller.by_chosen_key);
    if by_chosen_key && failed_attempts.is_too_many(&about, Instant::now) {
        return Err(IdentityError::TooManyAttempts);
    }
    found
}

fn caller(
    route: &Route<'_>,
    uri: &Uri,
    headers: &HeaderMap,
    keys: &Keys,
    tickets: &Tickets,
    holds: &Holds<'_>,
) -> Result<Caller, IdentityError> {
    let bound = match route.ticket {
        Some(ticket) => Some(tickets.of(ticket).ok_or(IdentityError::TicketUnknown)?),
        None => None,
    };
    // Most requests have none of ours: then nothing is looked up one by one.
    let none = HeaderMap::new();
    let ours = if headers.keys().any(|name| name.as_str().starts_with(OURS)) { headers } else { &none };
    let Shown { owner, key_in, by_chosen_key } = key_owner(uri, headers, ours.get(KEY_HEADER), keys)?;
    let sent_any = || sends_any(uri, headers);
    // A ticket was given to its run by whoever owns the machine: it stands for a key.
    if owner.is_none() && bound.is_none() && holds.require_keys {
        let sent_any = sent_any();
        return Err(if sent_any { IdentityError::KeyUnknown } else { IdentityError::KeyMissing });
    }
    let named = match route.agent {
        Some(agent) => Some(agent),
        None => name_in(ours, AGENT_HEADER, "agent", is_agent_name)?,
    };
    let run = name_in(ours, RUN_HEADER, "run", is_name)?;
    let tags = tags::read(ours).map_err(IdentityError::BadTags)?;
    if let Some((agent, name)) = bound {
        return of_ticket(agent, name, owner, named, run).map(|(agent, run)| Caller {
            agent,
            run,
            tags,
            key_in,
            by_chosen_key: false,
        });
    }
    let agent = match (owner, named) {
        (Some(owner), Some(named)) if !owner.eq_ignore_ascii_case(named) => {
            return Err(IdentityError::KeyOfAnother { agent: owner.into() });
        }
        (Some(owner), _) => owner,
        (None, named) => {
            let agent = named.or(holds.configured).unwrap_or(DEFAULT_AGENT);
            // A name is no identity: whoever has a key is only reached by it.
            if keys.has(agent) {
                return Err(IdentityError::KeyNeeded { agent: agent.into(), sent_any: sent_any() });
            }
            if holds.configured != Some(agent) && !(holds.may_call)(agent) {
                return Err(IdentityError::AgentUnknown { agent: agent.into() });
            }
            agent
        }
    };
    Ok(Caller { agent: agent.into(), run: run.map(Name::from), tags, key_in, by_chosen_key })
}

/// A ticket can act only as its agent and in its run, whatever else is named.
fn of_ticket(
    agent: Name,
    run: Name,
    owner: Option<&str>,
    named: Option<&str>,
    named_run: Option<&str>,
) -> Result<(Name, Option<Name>), IdentityError> {
    if let Some(owner) = owner.filter(|owner| !owner.eq_ignore_ascii_case(&agent)) {
        return Err(IdentityError::KeyOfAnother { agent: owner.into() });
    }
    if named.is_some_and(|named| !named.eq_ignore_ascii_case(&agent)) {
        return Err(IdentityError::TicketOfAnother("agent"));
    }
    if named_run.is_some_and(|named| *named != *run) {
        return Err(IdentityError::TicketOfAnother("run"));
    }
    Ok((agent, Some(run)))
}

fn name_in<'h>(
    headers: &'h HeaderMap,
    header: HeaderName,
    what: &'static str,
    fits: fn(&str) -> bool,
) -> Result<Option<&'h str>, IdentityError> {
    let mut values = headers.get_all(header).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let name = value.to_str().ok().filter(|name| fits(name) && values.next().is_none());
    name.map(Some).ok_or(IdentityError::BadName(what))
}

#[cfg(test)]
mod tests;
