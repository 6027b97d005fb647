//! MCP servers in Codex's `config.toml`: `[mcp_servers.NAME]` with `command` and `args`, or `url`.

use toml_edit::{Array, DocumentMut, Item, TableLike, Value};

use super::SettingsError;
use super::mcp::{McpEntry, McpGate, McpOutcome, own_begins};

pub(super) fn add(text: &str, gate: &McpGate<'_>) -> Result<(String, Vec<McpEntry>), SettingsError> {
    let mut document = read(text)?;
    let mut all = Vec::new();
    for (name, server) in servers(&mut document, gate) {
        let outcome = add_one(&name, server, gate);
        all.push(McpEntry { name, outcome });
    }
    Ok((document.to_string(), all))
}

pub(super) fn remove(text: &str, gate: &McpGate<'_>) -> Result<String, SettingsError> {
    let mut document = read(text)?;
    for (name, server) in servers(&mut document, gate) {
        remove_one(&name, server, gate);
    }
    Ok(document.to_string())
}

pub(super) fn programs(text: &str) -> Result<Vec<(String, String)>, SettingsError> {
    let document = read(text)?;
    let all = document.get("mcp_servers").and_then(Item::as_table_like);
    let program = |(name, item): (&str, &Item)| {
        let words = words(item.as_table_like()?)?;
        begins(&words)?;
        Some((name.to_owned(), words.into_iter().next()?))
    };
    Ok(all.into_iter().flat_map(|all| all.iter()).filter_map(program).collect())
}

fn read(text: &str) -> Result<DocumentMut, SettingsError> {
    text.parse().map_err(|error: toml_edit::TomlError| {
        let at = error.span().map_or(0, |span| span.start);
        let line = text.get(..at).unwrap_or_default().lines().count().max(1);
        SettingsError::Broken { line, what: "it is not TOML".to_owned() }
    })
}

fn servers<'d>(document: &'d mut DocumentMut, gate: &McpGate<'_>) -> Vec<(String, &'d mut dyn TableLike)> {
    let Some(all) = document.get_mut("mcp_servers").and_then(Item::as_table_like_mut) else {
        return Vec::new();
    };
    let one = |(name, item): (toml_edit::KeyMut<'_>, &'d mut Item)| {
        let name = name.get().to_owned();
        Some((name, item.as_table_like_mut()?))
    };
    all.iter_mut().filter_map(one).filter(|(name, _)| gate.takes(name)).collect()
}

fn words(server: &dyn TableLike) -> Option<Vec<String>> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let command = server.get("command")?.as_str()?.to_owned();
    let args = match server.get("args") {
        Some(args) => args.as_array()?.iter().map(text).collect::<Option<Vec<_>>>()?,
        None => Vec::new(),
    };
    Some([vec![command], args].concat())
}

fn begins(words: &[String]) -> Option<usize> {
    own_begins(words.iter().map(|word| Some(word.as_str())))
}

fn add_one(name: &str, server: &mut dyn TableLike, gate: &McpGate<'_>) -> McpOutcome {
    if server.get("command").is_some() {
        let Some(words) = words(server) else { return McpOutcome::Unreadable };
        if begins(&words).is_some() {
            return McpOutcome::Already;
        }
        let old = words.first().cloned().unwrap_or_default();
        set(server, "command", gate.program());
        let ours = gate.options(name).into_iter().chain([old]);
        match server.get_mut("args").and_then(Item::as_array_mut) {
            Some(args) => ours.enumerate().for_each(|(nth, word)| args.insert(nth, word)),
            None => drop(server.insert("args", Item::Value(Value::Array(ours.collect::<Array>())))),
        }
        return McpOutcome::Gated;
    }
    let Some(url) = server.get("url").and_then(Item::as_str).map(str::to_owned) else {
        return McpOutcome::Unreadable;
    };
    if (gate.behind)(name, &url).is_some() {
        return McpOutcome::Already;
    }
    match (gate.url)(name, &url) {
        Some(new) => {
            set(server, "url", &new);
            McpOutcome::Gated
        }
        None => McpOutcome::UnknownUrl(url),
    }
}

fn remove_one(name: &str, server: &mut dyn TableLike, gate: &McpGate<'_>) {
    if let Some(words) = words(server) {
        let Some(begin) = begins(&words) else { return };
        set(server, "command", words.get(begin).map_or("", String::as_str));
        let Some(args) = server.get_mut("args").and_then(Item::as_array_mut) else { return };
        for _ in 0..begin {
            args.remove(0);
        }
        if args.is_empty() {
            server.remove("args");
        }
        return;
    }
    let behind = server.get("url").and_then(Item::as_str).and_then(|url| (gate.behind)(name, url));
    if let Some(old) = behind {
        set(server, "url", &old);
    }
}

/// A new value where the old one stands, with the space and the comment around it.
fn set(server: &mut dyn TableLike, key: &str, text: &str) {
    if let Some(value) = server.get_mut(key).and_then(Item::as_value_mut) {
        let decor = value.decor().clone();
        *value = Value::from(text);
        *value.decor_mut() = decor;
    }
}
