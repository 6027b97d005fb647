//! The keys in force: those of the configuration, and those made while estop runs.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use estop_core::ids::Name;
use estop_core::operator::AgentKeyHash;

use super::failed_attempts::FailedAttempts;
use super::keys::Keys;
use crate::settings::AgentKey;

/// The keys in force. Clones share them.
#[derive(Clone)]
pub struct KeyRing(Arc<Inner>);

struct Inner {
    configured: RwLock<Keys>,
    made: RwLock<Vec<AgentKeyHash>>,
    current: RwLock<Arc<Keys>>,
    /// Counts how often they changed.
    changes: AtomicU64,
    /// Wrong keys that were sent.
    failed_attempts: FailedAttempts,
}

impl KeyRing {
    pub(crate) fn new(configured: &[AgentKey], made: Vec<AgentKeyHash>) -> KeyRing {
        let configured = RwLock::new(Keys::new(configured));
        let ring = KeyRing(Arc::new(Inner {
            configured,
            made: RwLock::new(made),
            current: RwLock::default(),
            changes: AtomicU64::new(0),
            failed_attempts: FailedAttempts::default(),
        }));
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
        self.0.changes.fetch_add(1, Ordering::SeqCst);
    }

    fn current(&self) -> Arc<Keys> {
        Arc::clone(&self.0.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The same for one worker.
    pub(crate) fn cached(&self) -> CachedKeys {
        CachedKeys { ring: self.clone(), seen: Mutex::default() }
    }
}

/// The keys in force, as one worker has them at hand: locks and counts that all workers write with each request would go
/// from core to core all the time.
pub(crate) struct CachedKeys {
    ring: KeyRing,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// How often they had changed then; at first never.
    changes: u64,
    keys: Arc<Keys>,
}

impl CachedKeys {
    /// The keys in force, to look at here and now.
    pub(crate) fn look(&self) -> impl Deref<Target = Arc<Keys>> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // Asked first: what changes after it is read again the next time.
        let changes = self.ring.0.changes.load(Ordering::SeqCst);
        if seen.changes != changes {
            *seen = Seen { changes, keys: self.ring.current() };
        }
        CachedKeysRef(seen)
    }

    /// Wrong keys that were sent to any worker.
    pub(crate) fn failed_attempts(&self) -> &FailedAttempts {
        &self.ring.0.failed_attempts
    }
}

struct CachedKeysRef<'k>(MutexGuard<'k, Seen>);

impl Deref for CachedKeysRef<'_> {
    type Target = Arc<Keys>;

    fn deref(&self) -> &Arc<Keys> {
        &self.0.keys
    }
}
