//! The relays, made ready: where each goes, who may come in, and how many messages are under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

use crate::settings;
use crate::start_error::StartError;
use crate::upstream::{ProviderTarget, Shared, Upstream};

/// A relay, ready to be used. Shared by all workers.
pub(crate) struct RelayTarget {
    agent: Box<str>,
    secret: Option<Secret>,
    into: Option<RelaySideTarget>,
    out: Option<RelaySideTarget>,
}

struct RelaySideTarget {
    ready: Arc<ProviderTarget>,
    places: ConcurrencyLimit,
}

/// A relay, as one worker sees it.
pub(crate) struct Relay {
    /// Whose messages they are.
    pub(crate) agent: Box<str>,
    /// What must stand in the path of what comes in.
    pub(crate) secret: Option<Secret>,
    /// The app.
    pub(crate) into: Option<Side>,
    /// The platform.
    pub(crate) out: Option<Side>,
}

/// One of the two ways.
pub(crate) struct Side {
    pub(crate) upstream: Arc<Upstream>,
    places: ConcurrencyLimit,
}

impl RelayTarget {
    /// Makes a relay ready.
    pub(crate) fn new(name: &str, given: settings::Relay) -> Result<RelayTarget, StartError> {
        let settings::Relay { agent, into, out, secret, concurrency } = given;
        let side = |key: &str, target: Option<settings::Provider>| {
            let wrong = |error: StartError| match error {
                StartError::Provider { problem, .. } => {
                    StartError::Relay { relay: name.into(), problem: format!("{key}: {problem}") }
                }
                other @ (StartError::Relay { .. }
                | StartError::Mcp { .. }
                | StartError::Listen { .. }
                | StartError::Runtime(_)) => other,
            };
            let ready = target.map(|target| ProviderTarget::new(name, target)).transpose().map_err(wrong)?;
            let places = || ConcurrencyLimit { taken: Arc::default(), max: concurrency };
            Ok::<_, StartError>(
                ready.map(|ready| RelaySideTarget { ready: Arc::new(ready), places: places() }),
            )
        };
        let (into, out) = (side("in", into)?, side("out", out)?);
        Ok(RelayTarget { agent, secret: secret.as_ref().map(Secret::new), into, out })
    }

    /// The relay for one worker, with no connections yet.
    pub(crate) fn for_worker(&self, shared: &Arc<Shared>) -> Relay {
        let side = |side: &RelaySideTarget| Side {
            upstream: Upstream::new(Arc::clone(&side.ready), shared),
            places: side.places.clone(),
        };
        Relay {
            agent: self.agent.clone(),
            secret: self.secret,
            into: self.into.as_ref().map(side),
            out: self.out.as_ref().map(side),
        }
    }

    /// Whose messages they are.
    pub(crate) fn agent(&self) -> &str {
        &self.agent
    }
}

impl Relay {
    /// This worker's connections.
    pub(crate) fn upstreams(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        self.into.iter().chain(&self.out).map(|side| &side.upstream)
    }
}

impl Side {
    /// One of the places there are; `None` if all are taken.
    pub(crate) fn take(&self) -> Option<Permit> {
        let ConcurrencyLimit { taken, max } = &self.places;
        let room = |count: usize| (count < *max).then_some(count + 1);
        taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).ok()?;
        Some(Permit(Arc::clone(taken)))
    }
}

/// How many messages may be under way at once, on all workers together.
#[derive(Clone)]
struct ConcurrencyLimit {
    taken: Arc<AtomicUsize>,
    max: usize,
}

/// A message under way; gives its place back when dropped.
pub(crate) struct Permit(Arc<AtomicUsize>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The SHA-256 of what must stand in the path.
#[derive(Clone, Copy)]
pub(crate) struct Secret([u8; 32]);

impl Secret {
    fn new(secret: &SecretString) -> Secret {
        Secret(Sha256::digest(secret.expose_secret().as_bytes()).into())
    }

    /// Whether this is it. Hashes are compared, and to their ends: how long it takes says nothing about the secret.
    pub(crate) fn is(&self, said: &str) -> bool {
        let said: [u8; 32] = Sha256::digest(said.as_bytes()).into();
        self.0.iter().zip(said).fold(0, |differ, (ours, theirs)| differ | (ours ^ theirs)) == 0
    }
}
