//! Who asks, and whom: agent, run and provider, from the path, its ticket, the key and the headers (ID-1..4, ID-7).
//!
//! The upstream comes from the configuration alone; nothing the client says can choose another.

use std::collections::{BTreeMap, BTreeSet};

use estop_core::ids::Name;
use estop_core::operator::AgentKeyHash;
use estop_core::tags::Tags;
use http::header::{AUTHORIZATION, HeaderName};
use http::{HeaderMap, HeaderValue, Uri};
use sha2::{Digest, Sha256};

use crate::agents::{is_agent_name, is_name};
use crate::forward::OURS;
use crate::settings::AgentKey;
use crate::tags::{self, BadTags};
use crate::tickets::Tickets;

/// The agent that is meant when nobody says which.
pub(crate) const DEFAULT_AGENT: &str = "default";
/// Names the agent.
pub(crate) const AGENT_HEADER: HeaderName = HeaderName::from_static("x-estop-agent");
/// Names the run.
pub(crate) const RUN_HEADER: HeaderName = HeaderName::from_static("x-estop-run");
/// Carries the agent's key, where it does not travel as the provider's.
pub(crate) const KEY_HEADER: HeaderName = HeaderName::from_static("x-estop-key");
/// Where clients put the provider's key.
pub(crate) const CREDENTIAL_HEADERS: [&str; 4] = ["authorization", "x-api-key", "x-goog-api-key", "api-key"];

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

/// Keys of agents, by their hash.
#[derive(Clone, Default)]
pub(crate) struct Keys(BTreeMap<[u8; 32], Box<str>>);

impl Keys {
    /// Remembers the hashes of these keys.
    pub(crate) fn new(keys: &[AgentKey]) -> Keys {
        use secrecy::ExposeSecret;
        let hashed = |key: &AgentKey| (digest(key.key.expose_secret().as_bytes()), key.agent.clone());
        Keys(keys.iter().map(hashed).collect())
    }

    /// These and more.
    pub(crate) fn with(&self, more: Vec<AgentKeyHash>) -> Keys {
        let mut keys = self.0.clone();
        keys.extend(more.into_iter().map(|key| (key.sha256, key.agent)));
        Keys(keys)
    }

    /// The agents that have one.
    pub(crate) fn owners(&self) -> BTreeSet<Box<str>> {
        self.0.values().cloned().collect()
    }

    /// Whose key it is. Looked up by its SHA-256, so that how long it takes says nothing about any key.
    fn owner(&self, key: &[u8]) -> Option<&str> {
        self.0.get(&digest(key)).map(AsRef::as_ref)
    }

    /// Whose key has this SHA-256.
    pub(crate) fn owner_of(&self, sha256: &[u8; 32]) -> Option<&str> {
        self.0.get(sha256).map(AsRef::as_ref)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn digest(key: &[u8]) -> [u8; 32] {
    Sha256::digest(key).into()
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
}

/// Where a client put estop keys in place of the provider's: all places, as SDKs may send one in several. In
/// `x-estop-key` they never travel on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyIn {
    /// In these headers.
    pub headers: Vec<HeaderName>,
    /// As `?key=`.
    pub query: bool,
}

/// Finds out who asks.
pub(crate) fn caller(
    route: &Route<'_>,
    uri: &Uri,
    headers: &HeaderMap,
    keys: &Keys,
    tickets: &Tickets,
    require_keys: bool,
) -> Result<Caller, IdentityError> {
    let bound = match route.ticket {
        Some(ticket) => Some(tickets.of(ticket).ok_or(IdentityError::TicketUnknown)?),
        None => None,
    };
    // Most requests have none of ours: then nothing is looked up one by one.
    let none = HeaderMap::new();
    let ours = if headers.keys().any(|name| name.as_str().starts_with(OURS)) { headers } else { &none };
    let (owner, key_in) = key_owner(uri, headers, ours.get(KEY_HEADER), keys)?;
    // A ticket was given to its run by whoever owns the machine: it stands for a key.
    if owner.is_none() && bound.is_none() && require_keys {
        let sent_any = CREDENTIAL_HEADERS.iter().any(|name| headers.contains_key(*name));
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
        });
    }
    let agent = match (owner, named) {
        (Some(owner), Some(named)) if owner != named => {
            return Err(IdentityError::KeyOfAnother { agent: owner.into() });
        }
        (Some(name), _) | (None, Some(name)) => name,
        (None, None) => DEFAULT_AGENT,
    };
    Ok(Caller { agent: agent.into(), run: run.map(Name::from), tags, key_in })
}

/// A ticket can act only as its agent and in its run, whatever else is named.
fn of_ticket(
    agent: Name,
    run: Name,
    owner: Option<&str>,
    named: Option<&str>,
    named_run: Option<&str>,
) -> Result<(Name, Option<Name>), IdentityError> {
    if let Some(owner) = owner.filter(|owner| **owner != *agent) {
        return Err(IdentityError::KeyOfAnother { agent: owner.into() });
    }
    if named.is_some_and(|named| *named != *agent) {
        return Err(IdentityError::TicketOfAnother("agent"));
    }
    if named_run.is_some_and(|named| *named != *run) {
        return Err(IdentityError::TicketOfAnother("run"));
    }
    Ok((agent, Some(run)))
}

/// The owner of the key that came with the request. A key given as estop's own must be one.
fn key_owner<'k>(
    uri: &Uri,
    headers: &HeaderMap,
    own_key: Option<&HeaderValue>,
    keys: &'k Keys,
) -> Result<(Option<&'k str>, KeyIn), IdentityError> {
    let mut owner = match own_key {
        Some(key) => Some(keys.owner(key.as_bytes()).ok_or(IdentityError::KeyUnknown)?),
        None => None,
    };
    let mut key_in = KeyIn::default();
    if keys.is_empty() {
        return Ok((owner, key_in));
    }
    for name in CREDENTIAL_HEADERS {
        for value in headers.get_all(name) {
            let key =
                if name == AUTHORIZATION.as_str() { bearer(value.as_bytes()) } else { value.as_bytes() };
            if let Some(found) = keys.owner(key) {
                owner = owner.or(Some(found));
                key_in.headers.push(HeaderName::from_static(name));
            }
        }
    }
    for found in query_keys(uri).filter_map(|key| keys.owner(key.as_bytes())) {
        owner = owner.or(Some(found));
        key_in.query = true;
    }
    Ok((owner, key_in))
}

fn bearer(value: &[u8]) -> &[u8] {
    match value.split_at_checked(7) {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case(b"bearer ") => key.trim_ascii(),
        _ => value,
    }
}

/// `?key=…`, as Gemini clients may send it.
fn query_keys(uri: &Uri) -> impl Iterator<Item = &str> {
    uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.strip_prefix("key="))
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
mod tests {
    use super::*;

    #[test]
    fn id_1_the_path_names_agent_and_provider() {
        let route = |path| route(path).map(|r| (r.agent, r.provider, r.path));
        assert_eq!(route("/agents/a1/openai/v1/x"), Ok((Some("a1"), "openai", "/v1/x")));
        assert_eq!(route("/openai/v1/x"), Ok((None, "openai", "/v1/x")));
        assert_eq!(route("/openai"), Ok((None, "openai", "")));
        assert_eq!(route("/agents/a1"), Err(IdentityError::NoProvider));
        assert_eq!(route("/agents/a%31/openai/v1"), Err(IdentityError::BadName("agent")));
        assert_eq!(
            route("/agents/system/openai/v1"),
            Err(IdentityError::BadName("agent")),
            "the journal's own"
        );
        assert_eq!(route("/runs/00ff/openai/v1/x"), Ok((None, "openai", "/v1/x")));
        assert_eq!(route("/runs/00ff"), Err(IdentityError::NoProvider));
        assert_eq!(route("/"), Err(IdentityError::NoProvider));
        assert_eq!(route("*"), Err(IdentityError::NoProvider));
    }

    #[test]
    fn id_4_dot_segments_lead_nowhere() {
        for path in [
            "/openai/../x",
            "/openai/%2e%2E/x",
            "/openai/.%2e",
            "/openai/a%2f..%2fb",
            "/openai/a\\..\\b",
            "/openai/..;a/b",
        ] {
            assert_eq!(route(path).err(), Some(IdentityError::DotSegments), "{path}");
        }
        assert!(route("/openai/v1.5/..x").is_ok());
    }

    fn with_ticket(headers: &[(&'static str, &str)], require_keys: bool) -> Result<String, IdentityError> {
        let tickets = std::sync::Arc::new(Tickets::default());
        let held = tickets.hold(digest(b"secret"), "a1", "r1", std::time::Instant::now());
        let keys = Keys(BTreeMap::from([(digest(b"key"), "a1".into()), (digest(b"other"), "a2".into())]));
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().expect("a header"));
        }
        let uri = Uri::from_static("/runs/secret/openai/v1/x");
        let route = route(uri.path())?;
        let found = caller(&route, &uri, &map, &keys, &tickets, require_keys);
        drop(held);
        found.map(|caller| format!("{} {}", caller.agent, caller.run.as_deref().unwrap_or("-")))
    }

    #[test]
    fn id_7_a_ticket_acts_only_as_its_agent_and_in_its_run() {
        let ours = || Ok("a1 r1".to_owned());
        assert_eq!(with_ticket(&[], false), ours());
        assert_eq!(with_ticket(&[], true), ours(), "it stands for a key");
        assert_eq!(with_ticket(&[("x-estop-run", "r1"), ("x-estop-agent", "a1")], false), ours());
        assert_eq!(with_ticket(&[("x-estop-key", "key")], true), ours());
        let another = |what| Err(IdentityError::TicketOfAnother(what));
        assert_eq!(with_ticket(&[("x-estop-run", "r2")], false), another("run"));
        assert_eq!(with_ticket(&[("x-estop-agent", "a2")], false), another("agent"));
        let of_a2 = Err(IdentityError::KeyOfAnother { agent: "a2".into() });
        assert_eq!(with_ticket(&[("x-api-key", "other")], false), of_a2);
    }

    #[test]
    fn id_7_an_unknown_ticket_is_nobodys() {
        let uri = Uri::from_static("/runs/guess/openai/v1/x");
        let route = route(uri.path()).expect("a path");
        let found = caller(&route, &uri, &HeaderMap::new(), &Keys::default(), &Tickets::default(), false);
        assert_eq!(found, Err(IdentityError::TicketUnknown));
    }
}
