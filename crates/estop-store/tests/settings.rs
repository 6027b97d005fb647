//! Settings: each change is recorded, and what the journal says is put back into whatever database is there.

use std::sync::{Arc, Mutex};

use estop_core::system::SettingChange;
use estop_journal::Settings;
use estop_store::{
    Access, Agent, AgentKey, AgentRepo, AlertRule, Alerts, Meta, Origin, RestoredSettings, Session,
    SettingsJournal, SettingsRepo, Sqlite, SqliteOptions, StoreError, Token, TokenKind, TokenRole,
};

/// What the records add up to.
#[derive(Default)]
struct Recorded {
    settings: Mutex<Settings>,
    is_full: Mutex<bool>,
}

impl SettingsJournal for Recorded {
    fn record(&self, changes: Vec<SettingChange>) -> Result<(), StoreError> {
        if *self.is_full.lock().expect("not poisoned") {
            return Err(StoreError::Full);
        }
        let mut settings = self.settings.lock().expect("not poisoned");
        for SettingChange { kind, id, value } in changes {
            let of_kind = settings.entry(kind).or_default();
            match value {
                Some(value) => drop(of_kind.insert(id, value)),
                None => drop(of_kind.remove(&id)),
            }
        }
        settings.retain(|_, of_kind| !of_kind.is_empty());
        Ok(())
    }
}

impl Recorded {
    fn settings(&self) -> Settings {
        self.settings.lock().expect("not poisoned").clone()
    }
}

fn open(folder: &tempfile::TempDir) -> Sqlite {
    Sqlite::open(&folder.path().join("estop.db"), SqliteOptions::default()).expect("a database")
}

fn token(id: &str, kind: TokenKind, hash: &[u8]) -> Token {
    Token {
        id: id.into(),
        name: format!("name of {id}").into(),
        role: TokenRole::Operator,
        kind,
        hash: hash.to_vec(),
        created_at: 5,
        expires_at: Some(900),
        revoked_at: None,
        last_used_at: None,
    }
}

fn key(id: &str, byte: u8) -> AgentKey {
    AgentKey {
        id: id.into(),
        agent: "coder".into(),
        sha256: [byte; 32],
        prefix: "estop_key_ab".into(),
        created_at: 6,
        revoked_at: None,
        last_used_at: None,
    }
}

fn session() -> Session {
    Session {
        sha256: [3; 32],
        token: "t1".into(),
        csrf_sha256: [4; 32],
        created_at: 1,
        expires_at: 800,
        used_at: 1,
        user_agent: "a browser".to_owned(),
    }
}

/// A database with settings of every kind, and what was recorded of them.
fn filled(folder: &tempfile::TempDir) -> (Sqlite, Arc<Recorded>) {
    let (store, recorded) = (open(folder), Arc::new(Recorded::default()));
    store.record_settings(recorded.clone()).expect("nothing yet");
    store.insert_token(&token("t1", TokenKind::Sha256, &[1; 32])).expect("a token");
    store.insert_token(&token("t2", TokenKind::Argon2, b"$argon2id$...")).expect("a password");
    store.insert_key(&key("k1", 1)).expect("a key");
    store.insert_key(&key("k2", 2)).expect("a key");
    store.insert_agent(&Agent::new("added", Origin::Api, 7)).expect("an agent");
    let strict = Agent {
        policy_overrides: Some(r#"{"preset":"strict"}"#.to_owned()),
        kill_switch_enabled: Some(true),
        ..Agent::new("coder", Origin::Traffic, 8)
    };
    store.insert_agent(&strict).expect("an agent");
    store.put_meta("preset", "strict").expect("a preset");
    let rule = AlertRule { id: "r1".into(), rule: "{}".to_owned(), enabled: true, version: 0, updated_at: 9 };
    store.put_rule(&rule).expect("a rule");
    store.insert_session(&session()).expect("a session");
    (store, recorded)
}

#[test]
fn st_1_each_change_of_a_setting_is_recorded() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, recorded) = filled(&folder);
    let kinds: Vec<String> = recorded.settings().keys().map(ToString::to_string).collect();
    assert_eq!(kinds, ["agent", "agent_key", "alert_rule", "preset", "token"]);
    store.revoke_key("k1", 77).expect("revoked");
    assert_eq!(recorded.settings()["agent_key"]["k1"]["revoked_at"], 77);
    let coder = store.agent("coder").expect("read").expect("an agent");
    store.update_agent(&Agent { policy_overrides: None, ..coder }).expect("changed");
    assert!(recorded.settings()["agent"]["coder"]["policy_overrides"].is_null());
    store.delete_rule("r1").expect("deleted");
    assert!(!recorded.settings().contains_key("alert_rule"));
    // Neither is what is used, nor anybody's password.
    let before = recorded.settings();
    store.touch_token("t1", 99).expect("used");
    assert_eq!(recorded.settings(), before);
    assert!(!serde_json::to_string(&before).expect("JSON").contains(&hex(b"$argon2id$")), "{before:?}");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn st_1_what_cannot_be_recorded_is_refused_and_undone_by_the_next_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, recorded) = filled(&folder);
    *recorded.is_full.lock().expect("not poisoned") = true;
    assert_eq!(store.insert_key(&key("k3", 3)), Err(StoreError::Full));
    drop(store);
    let store = open(&folder);
    let restored = store.restore_settings(&recorded.settings()).expect("restored");
    assert_eq!(restored.changed, 1);
    assert_eq!(store.keys().expect("read").len(), 2, "nobody was told that it was made");
}

/// The database of yesterday, put in the place of today's.
#[test]
fn st_1_an_older_database_brings_back_no_key_no_token_and_no_rule() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, recorded) = filled(&folder);
    drop(store);
    let old = std::fs::read(folder.path().join("estop.db")).expect("a database");
    let store = open(&folder);
    store.restore_settings(&recorded.settings()).expect("nothing to do");
    store.record_settings(recorded.clone()).expect("nothing new");
    store.revoke_key("k1", 50).expect("revoked");
    store.revoke_token("t1", 51).expect("revoked");
    store.insert_key(&key("k4", 4)).expect("a key");
    let added = store.agent("added").expect("read").expect("an agent");
    store.delete_agent("added", added.version, 52).expect("deleted");
    store.put_meta("preset", "").expect("no preset");
    let (tokens, keys) = (store.tokens().expect("read"), store.keys().expect("read"));
    drop(store);
    std::fs::write(folder.path().join("estop.db"), old).expect("the older one");
    let store = open(&folder);
    assert!(store.session(&[3; 32], 60).expect("read").is_some());
    let restored = store.restore_settings(&recorded.settings()).expect("restored");
    assert_eq!(restored, RestoredSettings { changed: 5, lost_passwords: Vec::new() });
    assert_eq!((store.tokens().expect("read"), store.keys().expect("read")), (tokens, keys));
    assert!(store.agent("added").expect("read").expect("kept").deleted);
    assert_eq!(store.meta("preset").expect("read").as_deref(), Some(""));
    assert!(store.session(&[3; 32], 60).expect("read").is_none(), "whoever was logged in logs in again");
    assert_eq!(store.restore_settings(&recorded.settings()), Ok(RestoredSettings::default()));
}

#[test]
fn st_1_a_new_database_gets_everything_but_passwords() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, recorded) = filled(&folder);
    let keys = store.keys().expect("read");
    drop(store);
    let empty = tempfile::tempdir().expect("a folder");
    let store = open(&empty);
    let restored = store.restore_settings(&recorded.settings()).expect("restored");
    assert_eq!(restored.lost_passwords, ["name of t2".into()]);
    assert_eq!(store.keys().expect("read"), keys);
    let agent = store.agent("coder").expect("read").expect("an agent");
    assert_eq!(agent.policy_overrides.as_deref(), Some(r#"{"preset":"strict"}"#));
    assert_eq!((agent.kill_switch_enabled, agent.origin), (Some(true), Origin::Traffic));
    assert_eq!(store.rules().expect("read").len(), 1);
}
