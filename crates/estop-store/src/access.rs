//! Who may come in: tokens of people, keys of agents, sessions of the dashboard.
//!
//! Only hashes are kept, and they are made elsewhere.

use estop_core::ids::Name;

use crate::error::StoreError;

/// What a token allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenRole {
    /// Everything.
    Admin,
    /// Look, and stop things.
    Operator,
    /// Look.
    Viewer,
}

/// How a token was hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// 256 random bits, hashed once: quick to check.
    Sha256,
    /// A password, hashed slowly.
    Argon2,
}

/// A person's token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its id, shown to people.
    pub id: Name,
    /// What people call it.
    pub name: Name,
    /// What it allows.
    pub role: TokenRole,
    /// How it was hashed.
    pub kind: TokenKind,
    /// The hash.
    pub hash: Vec<u8>,
    /// When it was made.
    pub created_at: i64,
    /// When it ends.
    pub expires_at: Option<i64>,
    /// When it was taken back.
    pub revoked_at: Option<i64>,
    /// When it was last used.
    pub last_used_at: Option<i64>,
}

/// An agent's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentKey {
    /// Its id, shown to people.
    pub id: Name,
    /// Whose.
    pub agent: Name,
    /// The hash.
    pub sha256: [u8; 32],
    /// The first characters, for people to recognise it.
    pub prefix: Name,
    /// When it was made.
    pub created_at: i64,
    /// When it was taken back.
    pub revoked_at: Option<i64>,
    /// When it was last used.
    pub last_used_at: Option<i64>,
}

/// Someone is logged in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Hash of the session's id.
    pub sha256: [u8; 32],
    /// The token behind it.
    pub token: Name,
    /// Hash of the second secret, which unsafe requests carry beside the cookie.
    pub csrf_sha256: [u8; 32],
    /// When it began.
    pub created_at: i64,
    /// When it ends.
    pub expires_at: i64,
    /// When it was last used, to the minute.
    pub used_at: i64,
    /// The browser it was begun in, as it calls itself.
    pub user_agent: String,
}

/// Sessions that are kept; of more, those that were used longest ago are dropped.
pub const SESSIONS_MAX: usize = 1000;

/// What keeps tokens, keys and sessions. Tokens and keys are on the disk before they are acknowledged.
pub trait Access: Send + Sync {
    /// Adds a token.
    fn insert_token(&self, token: &Token) -> Result<(), StoreError>;
    /// All tokens, revoked ones too, the oldest first.
    fn tokens(&self) -> Result<Vec<Token>, StoreError>;
    /// Takes a token back and ends its sessions; doing it twice changes nothing.
    fn revoke_token(&self, id: &str, at: i64) -> Result<(), StoreError>;
    /// Notes that a token was used.
    fn touch_token(&self, id: &str, at: i64) -> Result<(), StoreError>;

    /// Adds an agent's key.
    fn insert_key(&self, key: &AgentKey) -> Result<(), StoreError>;
    /// All keys, revoked ones too, the oldest first.
    fn keys(&self) -> Result<Vec<AgentKey>, StoreError>;
    /// Takes a key back; doing it twice changes nothing.
    fn revoke_key(&self, id: &str, at: i64) -> Result<(), StoreError>;
    /// Notes that keys were used.
    fn touch_keys(&self, used: Vec<(Name, i64)>) -> Result<(), StoreError>;

    /// Begins a session. At most [`SESSIONS_MAX`] are kept.
    fn insert_session(&self, session: &Session) -> Result<(), StoreError>;
    /// All sessions that have not ended by `now`, and whose tokens are still good; the newest first.
    fn sessions(&self, now: i64) -> Result<Vec<Session>, StoreError>;
    /// Notes that a session was used.
    fn touch_session(&self, sha256: &[u8; 32], at: i64) -> Result<(), StoreError>;
    /// A session that has not ended by `now`, and whose token is still good.
    fn session(&self, sha256: &[u8; 32], now: i64) -> Result<Option<Session>, StoreError>;
    /// Ends a session.
    fn delete_session(&self, sha256: &[u8; 32]) -> Result<(), StoreError>;
    /// Forgets sessions that have ended; how many.
    fn sweep_sessions(&self, now: i64) -> Result<usize, StoreError>;
}
