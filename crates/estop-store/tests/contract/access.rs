//! Tokens, keys and sessions: kept as hashes, taken back for good.

use estop_store::{Access, AgentKey, Session, StoreError, Token, TokenKind, TokenRole};

use super::Place;

pub(super) fn token(id: &str, created_at: i64) -> Token {
    Token {
        id: id.into(),
        name: "night shift".into(),
        role: TokenRole::Operator,
        kind: TokenKind::Sha256,
        hash: vec![1, 2, 3],
        created_at,
        expires_at: Some(1000),
        revoked_at: None,
        last_used_at: None,
    }
}

pub(crate) fn ks_5_tokens_are_kept_and_taken_back(place: &impl Place) {
    let argon = Token { role: TokenRole::Admin, kind: TokenKind::Argon2, expires_at: None, ..token("t2", 2) };
    {
        let store = place.open();
        store.insert_token(&argon).expect("a new token");
        store.insert_token(&token("t1", 1)).expect("a new token");
        let taken = StoreError::Exists { what: "token", id: "t1".to_owned() };
        assert_eq!(store.insert_token(&token("t1", 3)), Err(taken));
        store.touch_token("t1", 50).expect("it was used");
        store.touch_token("t1", 40).expect("a report that comes late");
    }
    let store = place.open();
    assert_eq!(store.tokens(), Ok(vec![Token { last_used_at: Some(50), ..token("t1", 1) }, argon]));
    store.revoke_token("t1", 60).expect("taken back");
    store.revoke_token("t1", 70).expect("taken back twice");
    assert_eq!(store.tokens().expect("tokens")[0].revoked_at, Some(60));
    let nobody = StoreError::NotFound { what: "token", id: "t9".to_owned() };
    assert_eq!(store.revoke_token("t9", 60), Err(nobody));
}

pub(crate) fn st_1_agent_keys_are_kept_and_taken_back(place: &impl Place) {
    let key = |id: &str, byte| AgentKey {
        id: id.into(),
        agent: "coder".into(),
        sha256: [byte; 32],
        prefix: "es_1".into(),
        created_at: i64::from(byte),
        revoked_at: None,
        last_used_at: None,
    };
    {
        let store = place.open();
        store.insert_key(&key("k2", 2)).expect("a new key");
        store.insert_key(&key("k1", 1)).expect("a new key");
        assert!(matches!(store.insert_key(&key("k3", 1)), Err(StoreError::Exists { .. })), "the same secret");
        store.touch_keys(vec![("k1".into(), 9), ("unknown".into(), 9)]).expect("they were used");
    }
    let store = place.open();
    assert_eq!(store.keys(), Ok(vec![AgentKey { last_used_at: Some(9), ..key("k1", 1) }, key("k2", 2)]));
    store.revoke_key("k2", 60).expect("taken back");
    assert_eq!(store.keys().expect("keys")[1].revoked_at, Some(60));
    assert!(matches!(store.revoke_key("k9", 60), Err(StoreError::NotFound { .. })));
}

pub(crate) fn ui_1_a_session_ends_with_its_time_or_its_token(place: &impl Place) {
    let store = place.open();
    let session = |byte, token: &str, expires_at| Session {
        sha256: [byte; 32],
        token: token.into(),
        csrf_sha256: [0; 32],
        created_at: 1,
        expires_at,
        used_at: 1,
        user_agent: "a browser".to_owned(),
    };
    store.insert_token(&token("short", 1)).expect("a new token");
    store.insert_token(&Token { expires_at: None, ..token("long", 1) }).expect("a new token");
    for (byte, token, end) in [(1, "short", 5000), (2, "long", 5000), (3, "long", 100), (4, "nobody's", 5000)]
    {
        store.insert_session(&session(byte, token, end)).expect("a new session");
    }
    let good = |now| -> Vec<u8> {
        let is_good = |byte: &u8| store.session(&[*byte; 32], now).expect("a look").is_some();
        (1..=5).filter(is_good).collect()
    };
    assert_eq!(store.session(&[2; 32], 99), Ok(Some(session(2, "long", 5000))));
    assert_eq!(good(99), [1, 2, 3]);
    let listed = |now| -> Vec<u8> {
        let sessions = store.sessions(now).expect("a look");
        sessions.iter().map(|session| session.sha256[0]).collect()
    };
    assert_eq!(listed(99), [1, 2, 3]);
    store.touch_session(&[2; 32], 50).expect("it was used");
    store.touch_session(&[2; 32], 40).expect("an older use changes nothing");
    store.touch_session(&[9; 32], 40).expect("nobody's changes nothing");
    assert_eq!(store.session(&[2; 32], 99).expect("a look").map(|session| session.used_at), Some(50));
    assert_eq!(listed(100), [1, 2]);
    assert_eq!(good(100), [1, 2]);
    assert_eq!(good(1000), [2], "its token has ended");
    assert_eq!(store.sweep_sessions(100), Ok(1));
    store.revoke_token("long", 99).expect("taken back");
    assert_eq!(good(99), [1]);
    store.delete_session(&[1; 32]).expect("logged out");
    assert_eq!(good(99), [0; 0]);
}
