//! The slow hash, for tokens people choose: argon2id, two at a time, on threads that do nothing else.

use std::sync::Arc;

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use estop_core::ids::Name;
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::Semaphore;

/// One hash takes 19 MiB and some 20 ms; two leave room for everything else on a small machine.
const AT_ONCE: usize = 2;
/// Who waits behind those; more are sent away.
const WAITING_MAX: usize = 16;

/// The gate before the hash.
pub(super) struct SlowHash {
    working: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

/// A chosen token, as it is kept.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    pub(super) id: Name,
    /// A PHC string.
    pub(super) hash: String,
}

/// What came of a try.
pub(super) enum Verified {
    Yes(Name),
    No,
    /// Too many wait already.
    Busy,
}

impl Default for SlowHash {
    fn default() -> Self {
        SlowHash {
            working: Arc::new(Semaphore::new(AT_ONCE)),
            waiting: Arc::new(Semaphore::new(AT_ONCE + WAITING_MAX)),
        }
    }
}

impl SlowHash {
    /// Which of the chosen tokens this is.
    pub(super) async fn find(&self, presented: SecretString, chosen: Vec<Chosen>) -> Verified {
        let Ok(_place) = self.waiting.try_acquire() else { return Verified::Busy };
        let Ok(permit) = Arc::clone(&self.working).acquire_owned().await else { return Verified::No };
        let search = move || {
            let _permit = permit;
            chosen.into_iter().find(|known| is(&presented, &known.hash)).map(|known| known.id)
        };
        tokio::task::spawn_blocking(search).await.ok().flatten().map_or(Verified::No, Verified::Yes)
    }
}

/// Hashes a chosen token; `None` if the system gave no random salt.
pub(super) fn hash(chosen: &SecretString) -> Option<String> {
    let hash: PasswordHash = Argon2::default().hash_password(chosen.expose_secret().as_bytes()).ok()?;
    Some(hash.to_string())
}

/// Whether a token is the one with this hash.
pub(super) fn is(presented: &SecretString, hash: &str) -> bool {
    let Ok(hash) = PasswordHash::new(hash) else { return false };
    Argon2::default().verify_password(presented.expose_secret().as_bytes(), &hash).is_ok()
}
