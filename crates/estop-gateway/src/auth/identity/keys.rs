//! Keys of agents, by their hash.

use std::collections::{BTreeMap, BTreeSet};

use estop_core::operator::AgentKeyHash;
use sha2::{Digest, Sha256};

use crate::names::folded;
use crate::settings::AgentKey;

/// How keys that estop made begin.
const MADE_PREFIX: &[u8] = b"estop_key_";
/// And how many hexadecimal digits follow.
const MADE_DIGITS: usize = 64;

/// Keys of agents, by their hash.
#[derive(Clone, Default)]
pub(crate) struct Keys {
    by_hash: BTreeMap<[u8; 32], Box<str>>,
    /// Agents that have one, in small letters.
    owners: BTreeSet<Box<str>>,
}

impl Keys {
    /// Remembers the hashes of these keys.
    pub(crate) fn new(keys: &[AgentKey]) -> Keys {
        use secrecy::ExposeSecret;
        let hashed = |key: &AgentKey| (digest(key.key.expose_secret().as_bytes()), key.agent.clone());
        Keys::of(keys.iter().map(hashed).collect())
    }

    pub(super) fn of(by_hash: BTreeMap<[u8; 32], Box<str>>) -> Keys {
        let owners = by_hash.values().map(|agent| folded(agent).into()).collect();
        Keys { by_hash, owners }
    }

    /// These and more.
    pub(crate) fn with(&self, more: Vec<AgentKeyHash>) -> Keys {
        let mut keys = self.by_hash.clone();
        keys.extend(more.into_iter().map(|key| (key.sha256, key.agent)));
        Keys::of(keys)
    }

    /// The agents that have one.
    pub(crate) fn owners(&self) -> BTreeSet<Box<str>> {
        self.by_hash.values().cloned().collect()
    }

    /// Whether an agent has a key: then nobody is it without one (SE-5).
    pub(crate) fn has(&self, agent: &str) -> bool {
        !self.owners.is_empty() && self.owners.contains(&*folded(agent))
    }

    /// Whose key it is. Looked up by its SHA-256, so that how long it takes says nothing about any key.
    pub(super) fn owner(&self, key: &[u8]) -> Option<&str> {
        self.by_hash.get(&digest(key)).map(AsRef::as_ref)
    }

    /// Whose key has this SHA-256.
    pub(crate) fn owner_of(&self, sha256: &[u8; 32]) -> Option<&str> {
        self.by_hash.get(sha256).map(AsRef::as_ref)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_hash.is_empty()
    }
}

/// Whether a credential is meant as a key that estop made; what is meant so and is none is refused.
pub(super) fn is_meant_as_key(credential: &[u8]) -> bool {
    credential.starts_with(MADE_PREFIX)
}

/// Whether it has the form of one: 256 random bits, which nobody guesses.
pub(super) fn looks_made(credential: &[u8]) -> bool {
    let digits = credential.strip_prefix(MADE_PREFIX).unwrap_or_default();
    digits.len() == MADE_DIGITS && digits.iter().all(u8::is_ascii_hexdigit)
}

pub(super) fn digest(key: &[u8]) -> [u8; 32] {
    Sha256::digest(key).into()
}
