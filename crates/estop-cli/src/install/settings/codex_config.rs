//! Codex's `config.toml`: without a hash of its trust there, `codex exec` skips a hook and says nothing.
//!
//! The hash is Codex's own: `codex app-server` gives it (`hooks/list`). Everything else in the file stays as it is.

use toml_edit::{DocumentMut, Item, Table, TableLike, value};

use super::{Removed, SettingsError};

/// One hook that Codex is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodexTrust {
    /// The hook as Codex names it: `<path of the file>:pre_tool_use:0:0`.
    pub key: String,
    /// `sha256:…`.
    pub hash: String,
}

/// `config.toml` with these hooks trusted. `existing` is its text, if it is there.
pub fn trust_codex(existing: Option<&str>, hooks: &[CodexTrust]) -> Result<String, SettingsError> {
    let mut document = read(existing.unwrap_or_default())?;
    let is_there = |hook: &CodexTrust| state_of(&document, &hook.key) == Some(hook.hash.as_str());
    if hooks.iter().all(is_there) {
        return Ok(existing.unwrap_or_default().to_owned());
    }
    let states = table(table(document.as_table_mut(), "hooks")?, "state")?;
    for hook in hooks {
        let entry = states.entry(&hook.key).or_insert_with(|| Item::Table(Table::new()));
        let Some(entry) = entry.as_table_like_mut() else {
            return Err(SettingsError::Shape {
                key: format!("hooks.state.\"{}\"", hook.key),
                expected: "a table",
            });
        };
        entry.insert("trusted_hash", value(hook.hash.as_str()));
    }
    Ok(document.to_string())
}

/// `config.toml` without the trust in these hooks, and without the tables that held nothing else.
pub fn distrust_codex(existing: &str, keys: &[String]) -> Result<Removed, SettingsError> {
    let mut document = read(existing)?;
    if !keys.iter().any(|key| state_of(&document, key).is_some()) {
        return Ok(Removed::Unchanged);
    }
    let root = document.as_table_mut();
    if let Some(hooks) = root.get_mut("hooks").and_then(Item::as_table_like_mut) {
        if let Some(states) = hooks.get_mut("state").and_then(Item::as_table_like_mut) {
            for key in keys {
                states.remove(key);
            }
            if states.is_empty() {
                hooks.remove("state");
            }
        }
        if hooks.is_empty() {
            root.remove("hooks");
        }
    }
    let text = document.to_string();
    Ok(if text.trim().is_empty() { Removed::Delete } else { Removed::Text(text) })
}

/// `[features] hooks = false`: a trusted project's file with it switches the person's hooks off.
pub(super) fn is_switched_off(text: &str) -> bool {
    let Ok(document) = text.parse::<DocumentMut>() else { return false };
    let features = document.get("features").and_then(Item::as_table_like);
    features.and_then(|features| features.get("hooks")).and_then(Item::as_bool) == Some(false)
}

fn read(text: &str) -> Result<DocumentMut, SettingsError> {
    text.parse::<DocumentMut>().map_err(|error| SettingsError::Broken {
        line: error.span().map_or(1, |at| text.get(..at.start).unwrap_or_default().matches('\n').count() + 1),
        what: "this is not TOML".to_owned(),
    })
}

fn state_of<'a>(document: &'a DocumentMut, key: &str) -> Option<&'a str> {
    let states = document.get("hooks")?.as_table_like()?.get("state")?.as_table_like()?;
    states.get(key)?.as_table_like()?.get("trusted_hash")?.as_str()
}

/// A table inside another, made if it is not there, without a line of its own.
fn table<'a>(outer: &'a mut dyn TableLike, key: &str) -> Result<&'a mut dyn TableLike, SettingsError> {
    let made = || {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    };
    let shape = SettingsError::Shape { key: key.to_owned(), expected: "a table" };
    outer.entry(key).or_insert_with(made).as_table_like_mut().ok_or(shape)
}
