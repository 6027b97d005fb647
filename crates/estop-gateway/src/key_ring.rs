//! The keys in force: those of the configuration, and those made while estop runs.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

use estop_core::ids::Name;
use estop_core::operator::AgentKeyHash;

use crate::identity::Keys;
use crate::settings::AgentKey;

/// The keys in force. Clones share them.
#[derive(Clone)]
pub struct KeyRing(Arc<Inner>);

struct Inner {
    configured: RwLock<Keys>,
    made: RwLock<Vec<AgentKeyHash>>,
    current: RwLock<Arc<Keys>>,
}

impl KeyRing {
    pub(crate) fn new(configured: &[AgentKey], made: Vec<AgentKeyHash>) -> KeyRing {
        let configured = RwLock::new(Keys::new(configured));
        let ring =
            KeyRing(Arc::new(Inner { configured, made: RwLock::new(made), current: RwLock::default() }));
        ring.put_together();
        ring
    }

    /// The configuration's keys, all of them.
    pub fn configure(&self, configured: &[AgentKey]) {
        *self.0.configured.write().unwrap_or_else(PoisonError::into_inner) = Keys::new(configured);
        self.put_together();
    }

    /// The keys made while estop runs, all of them. From here on no other key is good beside the configuration's.
    pub fn set(&self, made: Vec<AgentKeyHash>) {
        *self.0.made.write().unwrap_or_else(PoisonError::into_inner) = made;
        self.put_together();
    }

    /// The agents that have a key.
    pub fn owners(&self) -> BTreeSet<Box<str>> {
        self.current().owners()
    }

    /// Whose key has this SHA-256.
    pub fn owner_of(&self, sha256: &[u8; 32]) -> Option<Name> {
        self.current().owner_of(sha256).map(Name::from)
    }

    fn put_together(&self) {
        let configured = self.0.configured.read().unwrap_or_else(PoisonError::into_inner);
        let made = self.0.made.read().unwrap_or_else(PoisonError::into_inner);
        let keys = Arc::new(configured.with(made.clone()));
        *self.0.current.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    pub(crate) fn current(&self) -> Arc<Keys> {
        Arc::clone(&self.0.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}
