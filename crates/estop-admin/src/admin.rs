//! The admin plane as the binary sees it: opened once, served on two listeners.

use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use estop_store::{StoreError, Token, TokenRole};
use secrecy::{ExposeSecret, SecretString};

use crate::access::{ENV_NAME, chosen_token, is_kept_as, made_token};
use crate::auth::{AuthState, Origin, guard};
use crate::problem::Problem;
use crate::state::{AdminState, App, Shared};
use crate::{openapi, pages};

/// The admin plane.
#[derive(Clone)]
pub struct Admin {
    app: App,
}

/// Says nothing of what it holds.
impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Admin")
    }
}

/// Characters of a chosen token. Sixteen random letters and digits are out of reach for whoever may try ten times a minute;
/// a shorter one is a word somebody guesses.
const CHOSEN_MIN: usize = 16;
const CHOSEN_MAX: usize = 256;

/// Why nobody could be let in.
#[derive(Debug, thiserror::Error)]
pub enum FirstStartError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The chosen token is too short or too long.
    #[error(
        "ESTOP_ADMIN_TOKEN must have {CHOSEN_MIN} to {CHOSEN_MAX} characters: choose another (`openssl rand -hex 32` makes \
         one), or unset it to have one made"
    )]
    Unusable,
    /// The system gave no random numbers.
    #[error("no token could be made: the system gave no random numbers")]
    NoRandom,
}

impl Admin {
    /// Reads who is known, and tells the operator which keys are good. May wait for the disk.
    pub fn open(state: AdminState) -> Result<Admin, StoreError> {
        Ok(Admin { app: Arc::new(Shared::open(state)?) })
    }

    /// Sees to it that an admin can come in. `chosen` is `ESTOP_ADMIN_TOKEN`; without one, and if there is no admin
    /// token yet, one is made and given back to be shown once. May wait for the disk and the slow hash.
    ///
    /// A chosen token of an earlier start that is not chosen any more opens nothing.
    pub fn first_start(
        &self,
        chosen: Option<&SecretString>,
    ) -> Result<Option<SecretString>, FirstStartError> {
        let (store, now) = (self.app.store_here(), self.app.now());
        if chosen.is_some_and(|token| !(CHOSEN_MIN..=CHOSEN_MAX).contains(&token.expose_secret().len())) {
            return Err(FirstStartError::Unusable);
        }
        let is_good = |token: &Token| token.revoked_at.is_none();
        let good: Vec<Token> = store.tokens()?.into_iter().filter(is_good).collect();
        let from_env = good.iter().filter(|token| &*token.name == ENV_NAME);
        let mut is_kept = false;
        for token in from_env {
            if chosen.is_some_and(|chosen| is_kept_as(chosen, token)) {
                is_kept = true;
            } else {
                store.revoke_token(&token.id, now)?;
            }
        }
        let stays = |token: &Token| {
            token.role == TokenRole::Admin && token.expires_at.is_none() && &*token.name != ENV_NAME
        };
        let made = match chosen {
            Some(_) if is_kept => None,
            Some(chosen) => {
                store.insert_token(&chosen_token(chosen, now).map_err(no_random)?)?;
                None
            }
            None if good.iter().any(stays) => None,
            None => {
                let (token, plain) = made_token("admin", TokenRole::Admin, now).map_err(no_random)?;
                store.insert_token(&token)?;
                Some(plain)
            }
        };
        self.app.tokens.reload(store)?;
        let is_chosen = |token: &Token| is_good(token) && &*token.name == ENV_NAME;
        let kept = store.tokens()?.into_iter().find(is_chosen);
        if let Some((chosen, token)) = chosen.zip(kept) {
            // Nothing slow, and nobody's failed attempts, may stand before its first kill (KS-5).
            self.app.tokens.remember(chosen, token.id);
        }
        Ok(made)
    }

    /// Allows so many lines to supervisors at once: each takes a descriptor.
    pub fn limit_lines(&self, max: usize) {
        self.app.lines.limit(max);
    }

    /// For the admin port. Callers say who they are; serve it with `ConnectInfo<SocketAddr>`, so that failed attempts
    /// are counted for each address.
    pub fn router(&self) -> Router {
        self.through(Origin::Network)
    }

    /// For the owner-only socket: whoever can open it is an admin, `owner` in the journal, but for unlocking the button, which
    /// needs a token there too (KS-5).
    pub fn router_for_owner(&self) -> Router {
        self.through(Origin::Owner)
    }

    fn through(&self, origin: Origin) -> Router {
        let gate = AuthState::new(&self.app, origin);
        let api = openapi::handlers().layer(from_fn_with_state(gate.clone(), guard));
        let all = pages::routes(gate).merge(api).layer(from_fn(pages::for_browsers));
        all.with_state(Arc::clone(&self.app))
    }
}

fn no_random(_: Problem) -> FirstStartError {
    FirstStartError::NoRandom
}
