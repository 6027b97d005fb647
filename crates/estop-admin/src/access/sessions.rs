//! Sessions of the dashboard: an opaque id in a cookie, kept as its SHA-256, in memory and in the store.
//!
//! The cookie alone lets its bearer look. Browsers send it to every port of a host, so that a program behind another port may
//! have it; whatever changes something needs a second secret, which is given out once at login, has nothing to do with the
//! cookie, and stays in the page's own storage, which knows ports.
//!
//! What is in memory needs no database, so that a red button pressed in the browser waits for nothing.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use estop_core::ids::Name;
use estop_store::Session;
use secrecy::SecretString;
use subtle::ConstantTimeEq;

use super::secret::{make, sha256};
use crate::problem::Problem;

/// After this long a session ends, used or not (A14).
pub(crate) const SESSION_MS: i64 = 12 * 3_600_000;
/// An unused session ends (A14).
const IDLE_MS: i64 = 30 * 60_000;
/// How often a session's last use is written down.
const KEEP_USE_MS: i64 = 60_000;
/// Characters of a browser's name that are kept.
const USER_AGENT_MAX: usize = 200;
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
    /// The last use that was written down.
    kept_use: i64,
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
    /// It is good, and was used now.
    Live {
        session: Session,
        /// Its use is to be written down.
        keep_use: bool,
    },
    Ended,
    Unknown,
}

impl Sessions {
    /// A session for this token.
    pub(crate) fn begin(token: Name, user_agent: &str, now: i64) -> Result<NewSession, Problem> {
        let (id, csrf) = (make("")?, make("")?);
        let kept = Session {
            sha256: id.sha256,
            token,
            csrf_sha256: csrf.sha256,
            created_at: now,
            expires_at: now.saturating_add(SESSION_MS),
            used_at: now,
            user_agent: user_agent.chars().filter(|c| !c.is_control()).take(USER_AGENT_MAX).collect(),
        };
        Ok(NewSession { id: id.plain, csrf: csrf.plain, kept })
    }

    /// Remembers a session, with the last use it knows of: one that comes back from the store may have been idle for long.
    pub(crate) fn remember(&self, session: Session) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if live.len() >= IN_MEMORY_MAX {
            let oldest = live.iter().min_by_key(|(_, live)| live.used_at).map(|(sha256, _)| *sha256);
            oldest.map(|oldest| live.remove(&oldest));
        }
        let used_at = session.used_at;
        live.insert(session.sha256, Live { session, used_at, kept_use: used_at });
    }

    /// A session that was used now.
    pub(crate) fn find(&self, sha256: &[u8; 32], now: i64) -> Found {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(found) = live.get_mut(sha256) else { return Found::Unknown };
        let ended = found.session.expires_at <= now || is_idle(found.used_at, now);
        if ended {
            return Found::Ended;
        }
        found.used_at = now;
        let keep_use = found.kept_use.saturating_add(KEEP_USE_MS) <= now;
        if keep_use {
            found.kept_use = now;
        }
        Found::Live { session: found.session.clone(), keep_use }
    }

    /// When a session was last used, as far as memory knows.
    pub(crate) fn used_at(&self, sha256: &[u8; 32]) -> Option<i64> {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.get(sha256).map(|live| live.used_at)
    }

    /// Forgets a session.
    pub(crate) fn forget(&self, sha256: &[u8; 32]) {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).remove(sha256);
    }
}

/// Whether a session has been idle for too long.
pub(crate) fn is_idle(used_at: i64, now: i64) -> bool {
    used_at.saturating_add(IDLE_MS) <= now
}

/// What people call a session by: a part of the hash of its id, which opens nothing.
pub(crate) fn shown_id(sha256: &[u8; 32]) -> String {
    sha256.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a request carries the second secret of its session.
pub(crate) fn csrf_fits(session: &Session, presented: &str) -> bool {
    bool::from(session.csrf_sha256.ct_eq(&sha256(presented)))
}
