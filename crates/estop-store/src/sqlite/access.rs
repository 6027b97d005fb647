//! Tokens, keys and sessions in SQLite.

use estop_core::ids::Name;
use rusqlite::{Connection, Row, params};

use super::Sqlite;
use super::convert::Named;
use super::query::{all, change, one};
use crate::access::{Access, AgentKey, SESSIONS_MAX, Session, Token, TokenKind, TokenRole};
use crate::error::StoreError;
use crate::journal::Durability;

impl Access for Sqlite {
    fn insert_token(&self, token: &Token) -> Result<(), StoreError> {
        let token = token.clone();
        self.write_settings(move |connection| insert_token(connection, &token))
    }

    fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        let sql =
            "SELECT id, name, role, kind, hash, created_at, expires_at, revoked_at, last_used_at FROM token
            ORDER BY created_at, id";
        self.read(|connection| all(connection, sql, [], token))
    }

    fn revoke_token(&self, id: &str, at: i64) -> Result<(), StoreError> {
        let id = id.to_owned();
        self.write_settings(move |connection| {
            let revoke = "UPDATE token SET revoked_at = ifnull(revoked_at, ?) WHERE id = ?";
            expect_one(change(connection, revoke, params![at, id])?, "token", &id)?;
            change(connection, "DELETE FROM session WHERE token = ?", [id])?;
            Ok(())
        })
    }

    fn touch_token(&self, id: &str, at: i64) -> Result<(), StoreError> {
        let id = id.to_owned();
        self.write(Durability::Process, move |connection| {
            let touch = "UPDATE token SET last_used_at = max(ifnull(last_used_at, ?1), ?1) WHERE id = ?2";
            change(connection, touch, params![at, id])?;
            Ok(())
        })
    }

    fn insert_key(&self, key: &AgentKey) -> Result<(), StoreError> {
        let key = key.clone();
        self.write_settings(move |connection| insert_key(connection, &key))
    }

    fn keys(&self) -> Result<Vec<AgentKey>, StoreError> {
        let sql = "SELECT id, agent, sha256, prefix, created_at, revoked_at, last_used_at FROM agent_key
            ORDER BY created_at, id";
        self.read(|connection| all(connection, sql, [], key))
    }

    fn revoke_key(&self, id: &str, at: i64) -> Result<(), StoreError> {
        let id = id.to_owned();
        self.write_settings(move |connection| {
            let revoke = "UPDATE agent_key SET revoked_at = ifnull(revoked_at, ?) WHERE id = ?";
            expect_one(change(connection, revoke, params![at, id])?, "key", &id)
        })
    }

    fn touch_keys(&self, used: Vec<(Name, i64)>) -> Result<(), StoreError> {
        self.write(Durability::Process, move |connection| {
            let touch = "UPDATE agent_key SET last_used_at = max(ifnull(last_used_at, ?1), ?1) WHERE id = ?2";
            for (id, at) in used {
                change(connection, touch, params![at, id])?;
            }
            Ok(())
        })
    }

    fn insert_session(&self, session: &Session) -> Result<(), StoreError> {
        let session = session.clone();
        self.write(Durability::Process, move |connection| {
            let sql = "INSERT INTO session (sha256, token, csrf_sha256, created_at, expires_at, used_at, user_agent)
                VALUES (?, ?, ?, ?, ?, ?, ?)";
            let Session { sha256, token, csrf_sha256, created_at, expires_at, used_at, user_agent } = session;
            let row = params![sha256, token, csrf_sha256, created_at, expires_at, used_at, user_agent];
            change(connection, sql, row)?;
            let rest = "DELETE FROM session WHERE sha256 IN
                (SELECT sha256 FROM session ORDER BY used_at DESC LIMIT -1 OFFSET ?)";
            change(connection, rest, [SESSIONS_MAX])?;
            Ok(())
        })
    }

    fn session(&self, sha256: &[u8; 32], now: i64) -> Result<Option<Session>, StoreError> {
        let sql = format!("{GOOD_SESSIONS} AND s.sha256 = ?2");
        self.read(|connection| one(connection, &sql, params![now, sha256], session))
    }

    fn sessions(&self, now: i64) -> Result<Vec<Session>, StoreError> {
        let sql = format!("{GOOD_SESSIONS} ORDER BY s.created_at DESC, s.sha256");
        self.read(|connection| all(connection, &sql, [now], session))
    }

    fn touch_session(&self, sha256: &[u8; 32], at: i64) -> Result<(), StoreError> {
        let sha256 = *sha256;
        self.write(Durability::Process, move |connection| {
            let touch = "UPDATE session SET used_at = max(used_at, ?) WHERE sha256 = ?";
            change(connection, touch, params![at, sha256])?;
            Ok(())
        })
    }

    fn delete_session(&self, sha256: &[u8; 32]) -> Result<(), StoreError> {
        let sha256 = *sha256;
        self.write(Durability::Disk, move |connection| {
            change(connection, "DELETE FROM session WHERE sha256 = ?", [sha256])?;
            Ok(())
        })
    }

    fn sweep_sessions(&self, now: i64) -> Result<usize, StoreError> {
        self.write(Durability::Process, move |connection| {
            change(connection, "DELETE FROM session WHERE expires_at <= ?", [now])
        })
    }
}

/// Sessions that are good at `?1`.
const GOOD_SESSIONS: &str =
    "SELECT s.sha256, s.token, s.csrf_sha256, s.created_at, s.expires_at, s.used_at, s.user_agent
    FROM session AS s JOIN token ON token.id = s.token
    WHERE s.expires_at > ?1 AND token.revoked_at IS NULL AND ifnull(token.expires_at, ?1 + 1) > ?1";

fn insert_token(connection: &Connection, token: &Token) -> Result<(), StoreError> {
    let sql =
        "INSERT INTO token (id, name, role, kind, hash, created_at, expires_at, revoked_at, last_used_at)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING";
    let Token { id, name, role, kind, hash, created_at, expires_at, revoked_at, last_used_at } = token;
    let params =
        params![id, name, role.text(), kind.text(), hash, created_at, expires_at, revoked_at, last_used_at];
    expect_new(change(connection, sql, params)?, "token", id)
}

fn insert_key(connection: &Connection, key: &AgentKey) -> Result<(), StoreError> {
    let sql = "INSERT INTO agent_key (id, agent, sha256, prefix, created_at, revoked_at, last_used_at)
        VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING";
    let AgentKey { id, agent, sha256, prefix, created_at, revoked_at, last_used_at } = key;
    let params = params![id, agent, sha256, prefix, created_at, revoked_at, last_used_at];
    expect_new(change(connection, sql, params)?, "key", id)
}

fn expect_one(changed: usize, what: &'static str, id: &str) -> Result<(), StoreError> {
    if changed == 0 { Err(StoreError::NotFound { what, id: id.to_owned() }) } else { Ok(()) }
}

fn expect_new(changed: usize, what: &'static str, id: &str) -> Result<(), StoreError> {
    if changed == 0 { Err(StoreError::Exists { what, id: id.to_owned() }) } else { Ok(()) }
}

fn token(row: &Row<'_>) -> Result<Token, StoreError> {
    Ok(Token {
        id: row.get(0)?,
        name: row.get(1)?,
        role: TokenRole::parse(&row.get::<_, Box<str>>(2)?)?,
        kind: TokenKind::parse(&row.get::<_, Box<str>>(3)?)?,
        hash: row.get(4)?,
        created_at: row.get(5)?,
        expires_at: row.get(6)?,
        revoked_at: row.get(7)?,
        last_used_at: row.get(8)?,
    })
}

fn key(row: &Row<'_>) -> Result<AgentKey, StoreError> {
    Ok(AgentKey {
        id: row.get(0)?,
        agent: row.get(1)?,
        sha256: row.get(2)?,
        prefix: row.get(3)?,
        created_at: row.get(4)?,
        revoked_at: row.get(5)?,
        last_used_at: row.get(6)?,
    })
}

fn session(row: &Row<'_>) -> Result<Session, StoreError> {
    Ok(Session {
        sha256: row.get(0)?,
        token: row.get(1)?,
        csrf_sha256: row.get(2)?,
        created_at: row.get(3)?,
        expires_at: row.get(4)?,
        used_at: row.get(5)?,
        user_agent: row.get(6)?,
    })
}
