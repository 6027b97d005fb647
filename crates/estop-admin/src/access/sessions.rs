//! Sessions of the dashboard: an opaque id in a cookie, kept as its SHA-256, in memory and in the store.
//!
//! What is in memory needs no database, so that a red button pressed in the browser waits for nothing.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use estop_core::ids::Name;
use estop_store::Session;
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

use super::secret::{csrf_of, make, sha256};
use crate::problem::Problem;

/// After this long a session ends, used or not (A14).
pub(crate) const SESSION_MS: i64 = 12 * 3_600_000;
/// An unused session ends (A14).
const IDLE_MS: i64 = 30 * 60_000;
/// Sessions in memory; the one that was used longest ago is forgotten first, and read again when it comes back.
const IN_MEMORY_MAX: usize = 1024;

/// Sessions in memory.
#[derive(Default)]
pub(crate) struct Sessions {
    live: Mutex<BTreeMap<[u8; 32], Live>>,
}

#[derive(Clone)]
struct Live {
    session: Session,
    used_at: i64,
}

/// A session that has just begun.
pub(crate) struct NewSession {
    /// For the cookie.
    pub(crate) id: SecretString,
    /// For the header of unsafe requests.
    pub(crate) csrf: SecretString,
    /// For the store.
    pub(crate) kept: Session,
}

/// What memory knows of a session.
pub(crate) enum Found {
    Live(Session),
    Ended,
    Unknown,
}

impl Sessions {
    /// A session for this token.
    pub(crate) fn begin(token: Name, now: i64) -> Result<NewSession, Problem> {
        let id = make("")?;
        let csrf = csrf_of(&id.plain);
        let kept = Session {
            sha256: id.sha256,
            token,
            csrf_sha256: sha256(csrf.expose_secret()),
            created_at: now,
            expires_at: now.saturating_add(SESSION_MS),
        };
        Ok(NewSession { id: id.plain, csrf, kept })
    }

    /// Remembers a session.
    pub(crate) fn remember(&self, session: Session, now: i64) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if live.len() >= IN_MEMORY_MAX {
            let oldest = live.iter().min_by_key(|(_, live)| live.used_at).map(|(sha256, _)| *sha256);
            oldest.map(|oldest| live.remove(&oldest));
        }
        live.insert(session.sha256, Live { session, used_at: now });
    }

    /// A session that was used now.
    pub(crate) fn find(&self, sha256: &[u8; 32], now: i64) -> Found {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(found) = live.get_mut(sha256) else { return Found::Unknown };
        let ended = found.session.expires_at <= now || found.used_at.saturating_add(IDLE_MS) <= now;
        if ended {
            return Found::Ended;
        }
        found.used_at = now;
        Found::Live(found.session.clone())
    }

    /// Forgets a session.
    pub(crate) fn forget(&self, sha256: &[u8; 32]) {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).remove(sha256);
    }
}

/// Whether a request carries the value its session asks for.
pub(crate) fn csrf_fits(session: &Session, presented: &str) -> bool {
    bool::from(session.csrf_sha256.ct_eq(&sha256(presented)))
}
