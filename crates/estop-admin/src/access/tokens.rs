//! Tokens of people, in memory: whoever presents one is recognised without a database.
//!
//! A token estop made is found by its SHA-256 at once. A token somebody chose goes through the slow hash the first
//! time, and is remembered by the SHA-256 of what was presented.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError, RwLock};

use estop_core::ids::Name;
use estop_store::{Store, StoreError, Token, TokenKind, TokenRole};
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

use super::secret::{looks_made, random_id, sha256};
use super::slow_hash::{self, Chosen, SlowHash, Verified};
use super::{Attempts, Peer, role_name};
use crate::problem::{Kind, Problem};

/// The name of the token that comes from the environment.
pub(crate) const ENV_NAME: &str = "ESTOP_ADMIN_TOKEN";
/// A longer one is not looked at.
const CHOSEN_MAX: usize = 256;
/// Good tokens at a time; comparing with each of them must stay quick.
pub(crate) const TOKENS_MAX: usize = 1000;

/// All good tokens.
pub(crate) struct Tokens {
    known: RwLock<Vec<Known>>,
    /// SHA-256 of chosen tokens that were verified, and whose they are.
    verified: Mutex<BTreeMap<[u8; 32], Name>>,
    slow: SlowHash,
    attempts: Attempts,
}

/// A good token.
#[derive(Clone)]
pub(crate) struct Known {
    pub(crate) id: Name,
    pub(crate) name: Name,
    pub(crate) role: TokenRole,
    expires_at: Option<i64>,
    proof: Proof,
}

#[derive(Clone)]
enum Proof {
    Made([u8; 32]),
    Chosen(String),
}

impl Known {
    fn of(token: Token) -> Option<Known> {
        let proof = match token.kind {
            TokenKind::Sha256 => Proof::Made(token.hash.try_into().ok()?),
            TokenKind::Argon2 => Proof::Chosen(String::from_utf8(token.hash).ok()?),
        };
        let Token { id, name, role, expires_at, .. } = token;
        Some(Known { id, name, role, expires_at, proof })
    }

    fn is_good(&self, now: i64) -> bool {
        self.expires_at.is_none_or(|end| end > now)
    }
}

impl Tokens {
    /// Reads all good tokens.
    pub(crate) fn load(store: &dyn Store) -> Result<Tokens, StoreError> {
        let tokens = Tokens {
            known: RwLock::default(),
            verified: Mutex::default(),
            slow: SlowHash::default(),
            attempts: Attempts::default(),
        };
        tokens.reload(store)?;
        Ok(tokens)
    }

    /// Reads them again after a change.
    pub(crate) fn reload(&self, store: &dyn Store) -> Result<(), StoreError> {
        let good = store.tokens()?.into_iter().filter(|token| token.revoked_at.is_none());
        let known: Vec<Known> = good.filter_map(Known::of).collect();
        let is_known = |id: &Name| known.iter().any(|token| token.id == *id);
        self.verified.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, id| is_known(id));
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known;
        Ok(())
    }

    /// This chosen token is that one, as was just looked at: its next use needs neither a slow hash nor an attempt.
    pub(crate) fn remember(&self, chosen: &SecretString, id: Name) {
        let digest = sha256(chosen.expose_secret());
        self.verified.lock().unwrap_or_else(PoisonError::into_inner).insert(digest, id);
    }

    /// Whose token this is. `stops`: it is shown to press the button, from which nobody else's guesses keep a token that is
    /// known already.
    pub(crate) async fn find(
        &self,
        presented: &SecretString,
        peer: Peer,
        now: i64,
        stops: bool,
    ) -> Result<Known, Problem> {
        let digest = sha256(presented.expose_secret());
        if let Some(known) = self.made(&digest, now) {
            return Ok(known);
        }
        let verified = self.verified(&digest, now);
        if let Some(known) = verified.clone().filter(|_| stops) {
            return Ok(known);
        }
        self.may_try(peer, now)?;
        if let Some(known) = verified {
            return Ok(known);
        }
        if let Some(known) = self.find_slowly(presented, digest, now).await? {
            return Ok(known);
        }
        self.failed(peer, now);
        let text = presented.expose_secret();
        Err(Problem::unauthenticated(if text.starts_with(super::AGENT_KEY_PREFIX) {
            "This is an agent's key: revoked, or not valid here. It opens the data plane, hooks and the agent's own runs."
        } else {
            "Unknown, revoked or expired token."
        }))
    }

    /// A good token by its id.
    pub(crate) fn by_id(&self, id: &str, now: i64) -> Option<Known> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|known| *known.id == *id && known.is_good(now)).cloned()
    }

    /// Whether this address may try at all.
    pub(crate) fn may_try(&self, peer: Peer, now: i64) -> Result<(), Problem> {
        match self.attempts.wait_s(peer, now) {
            0 => Ok(()),
            seconds => {
                let detail = format!("Too many attempts failed. Try again in {seconds} s.");
                Err(Problem::new(Kind::TooManyAttempts, detail).retry_after(seconds))
            }
        }
    }

    /// An attempt failed.
    pub(crate) fn failed(&self, peer: Peer, now: i64) {
        self.attempts.note(peer, now);
    }

    /// Compares with every token, however early it matches, so that time tells nothing.
    fn made(&self, digest: &[u8; 32], now: i64) -> Option<Known> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut found = None;
        for known in known.iter() {
            if let Proof::Made(hash) = &known.proof
                && bool::from(hash.ct_eq(digest))
            {
                found = Some(known.clone());
            }
        }
        found.filter(|known| known.is_good(now))
    }

    fn verified(&self, digest: &[u8; 32], now: i64) -> Option<Known> {
        let verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        let id = verified.get(digest)?.clone();
        drop(verified);
        self.by_id(&id, now)
    }

    async fn find_slowly(
        &self,
        presented: &SecretString,
        digest: [u8; 32],
        now: i64,
    ) -> Result<Option<Known>, Problem> {
        let text = presented.expose_secret();
        let chosen = self.chosen();
        if chosen.is_empty() || text.is_empty() || text.len() > CHOSEN_MAX || looks_made(text) {
            return Ok(None);
        }
        match self.slow.find(presented.clone(), chosen).await {
            Verified::No => Ok(None),
            Verified::Busy => {
                let detail = "Too many people are logging in. Try again in a second.";
                Err(Problem::new(Kind::TooManyAttempts, detail).retry_after(1))
            }
            Verified::Yes(id) => {
                let known = self.by_id(&id, now);
                if known.is_some() {
                    self.verified.lock().unwrap_or_else(PoisonError::into_inner).insert(digest, id);
                }
                Ok(known)
            }
        }
    }

    fn chosen(&self) -> Vec<Chosen> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let chosen = |known: &Known| match &known.proof {
            Proof::Chosen(hash) => Some(Chosen { id: known.id.clone(), hash: hash.clone() }),
            Proof::Made(_) => None,
        };
        known.iter().filter_map(chosen).collect()
    }
}

/// A token estop makes, as it is kept. The plain text is shown once.
pub(crate) fn made_token(name: &str, role: TokenRole, now: i64) -> Result<(Token, SecretString), Problem> {
    let made = super::make(&format!("estop_{}_", role_name(role)))?;
    Ok((token(name, role, TokenKind::Sha256, made.sha256.to_vec(), now)?, made.plain))
}

/// A token somebody chose, as it is kept. One with the form of a made token has 256 bits and needs no slow hash.
pub(crate) fn chosen_token(chosen: &SecretString, now: i64) -> Result<Token, Problem> {
    let text = chosen.expose_secret();
    if looks_made(text) {
        return token(ENV_NAME, TokenRole::Admin, TokenKind::Sha256, sha256(text).to_vec(), now);
    }
    let hash = slow_hash::hash(chosen)
        .ok_or_else(|| Problem::new(Kind::Internal, "The system gave no random numbers."))?;
    token(ENV_NAME, TokenRole::Admin, TokenKind::Argon2, hash.into_bytes(), now)
}

/// Whether a chosen token is the one that is kept.
pub(crate) fn is_kept_as(chosen: &SecretString, kept: &Token) -> bool {
    match kept.kind {
        TokenKind::Sha256 => bool::from(kept.hash.ct_eq(&sha256(chosen.expose_secret()))),
        TokenKind::Argon2 => std::str::from_utf8(&kept.hash).is_ok_and(|hash| slow_hash::is(chosen, hash)),
    }
}

fn token(name: &str, role: TokenRole, kind: TokenKind, hash: Vec<u8>, now: i64) -> Result<Token, Problem> {
    Ok(Token {
        id: format!("t-{}", random_id()?).into(),
        name: name.into(),
        role,
        kind,
        hash,
        created_at: now,
        expires_at: None,
        revoked_at: None,
        last_used_at: None,
    })
}
