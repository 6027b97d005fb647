//! Who may do what. One table says which role each route needs; one guard asks it before any handler runs.

mod attempts;
mod secret;
mod sessions;
mod slow_hash;
mod table;
mod tokens;

pub(crate) use secret::{AGENT_KEY_PREFIX, make, random_id, sha256};
pub(crate) use sessions::{Found, SESSION_MS, Sessions, csrf_fits, is_idle, shown_id};
pub(crate) use table::{Needs, ROUTES, allow, methods_of, needs};
pub(crate) use tokens::{ENV_NAME, TOKENS_MAX, Tokens, chosen_token, is_kept_as, made_token};

use std::net::IpAddr;

use estop_core::ids::Name;
use estop_store::TokenRole;

use crate::problem::{Kind, Problem};
use attempts::Attempts;

/// Who asks. There is no default: whoever is not recognised is refused.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// For the journal: the token's name, or `owner`.
    pub(crate) by: Name,
    /// What it may do.
    pub(crate) role: TokenRole,
    /// It showed no token, but came through the owner's socket.
    pub(crate) is_owner: bool,
    /// The dashboard session it came with.
    pub(crate) session: Option<SessionKey>,
    /// It is no person but an agent, and may do what it does for itself alone.
    pub(crate) only: Option<Only>,
}

/// Whom a key or a ticket acts for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Only {
    /// The agent.
    pub(crate) agent: Name,
    /// With a ticket, its run.
    pub(crate) run: Option<Name>,
}

impl Caller {
    /// A person with a token.
    pub(crate) fn person(by: Name, role: TokenRole) -> Caller {
        Caller { by, role, is_owner: false, session: None, only: None }
    }

    /// Whoever can open the owner's socket, without a token.
    pub(crate) fn owner() -> Caller {
        Caller { is_owner: true, ..Caller::person("owner".into(), TokenRole::Admin) }
    }

    /// An agent by its key or ticket. What a person's least role may do is the most it could do by rank.
    pub(crate) fn agent(only: Only) -> Caller {
        let by = format!("agent {}", only.agent).into();
        Caller { only: Some(only), ..Caller::person(by, TokenRole::Viewer) }
    }

    /// Whether it may act for this agent, and this run if one is named.
    pub(crate) fn may_act_for(&self, agent: &str, run: Option<&str>) -> Result<(), Problem> {
        let Some(only) = &self.only else { return Ok(()) };
        if !only.agent.eq_ignore_ascii_case(agent) {
            let detail = format!("This key or ticket acts for the agent {} alone.", only.agent);
            return Err(Problem::new(Kind::Forbidden, detail));
        }
        match (&only.run, run) {
            (Some(own), Some(run)) if **own != *run => {
                Err(Problem::new(Kind::Forbidden, format!("This ticket acts for the run {own} alone.")))
            }
            (Some(_) | None, _) => Ok(()),
        }
    }
}

/// A session as a caller carries it. Its id does not show itself.
#[derive(Clone)]
pub(crate) struct SessionKey {
    pub(crate) sha256: [u8; 32],
    pub(crate) expires_at: i64,
}

impl std::fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionKey")
    }
}

/// Where a request comes from.
pub(crate) type Peer = Option<IpAddr>;

/// How much a role may do; more includes less.
pub(crate) fn rank(role: TokenRole) -> u8 {
    match role {
        TokenRole::Viewer => 1,
        TokenRole::Operator => 2,
        TokenRole::Admin => 3,
    }
}

/// A role's name.
pub(crate) fn role_name(role: TokenRole) -> &'static str {
    match role {
        TokenRole::Viewer => "viewer",
        TokenRole::Operator => "operator",
        TokenRole::Admin => "admin",
    }
}
