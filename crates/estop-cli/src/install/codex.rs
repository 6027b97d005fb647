//! Codex's trust: `codex exec` skips a hook without a word unless `config.toml` has its hash, and only Codex knows it.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::Context;
use estop_wire::hooks::HookClient;
use serde_json::{Value, json};

use super::edit::Edit;
use super::settings::{CodexTrust, Removed, Scope, Target, distrust_codex, trust_codex};
use super::{Report, file, paths, program};

/// It answers within a second; a slow disk and a first start take some.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// Has Codex trust the hooks that were just written.
pub(super) fn trust(report: &mut Report, scope: Scope, dry_run: bool) -> anyhow::Result<()> {
    let by_hand =
        "Start `codex`, open /hooks and trust those of estop, or put `codex` into PATH and install again";
    let Some(codex) = program::find("codex") else {
        report.warn(format!(
            "Codex skips hooks it was not told to trust, and it is not in PATH to be asked. {by_hand}."
        ));
        return Ok(());
    };
    if dry_run {
        report
            .notes
            .push("Codex would be asked for the hashes of these hooks, and told to trust them.".to_owned());
        return Ok(());
    }
    let hooks = resolved_hooks(scope)?;
    let listed = match list(&codex, &hooks) {
        Ok(listed) => listed,
        Err(error) => {
            report.warn(format!(
                "Codex skips hooks it was not told to trust, and cannot be asked: {error:#}. {by_hand}."
            ));
            return Ok(());
        }
    };
    let path = listed.home.join("config.toml");
    let found = file::read(&path)?;
    let keys: Vec<String> = listed.hooks.iter().map(|hook| hook.key.clone()).collect();
    let left = || format!("{} was left as it is", path.display());
    let after = trust_codex(found.text(), &listed.hooks).with_context(left)?;
    let is_ours = found.text().is_some_and(|text| distrust_codex(text, &keys) != Ok(Removed::Unchanged));
    report.carry_out(vec![Edit::added(HookClient::Codex, path.clone(), found, after, is_ours)], false)?;
    match list(&codex, &hooks) {
        Ok(listed) if listed.is_trusted => Ok(()),
        Ok(_) | Err(_) => {
            report.warn(format!("Codex does not say that it trusts these hooks now. {by_hand}."));
            Ok(())
        }
    }
}

/// Whether Codex itself says that it trusts our hooks in this file. It is started and asked.
pub(crate) fn is_trusted(hooks: &Path) -> anyhow::Result<bool> {
    let codex = program::find("codex").context("it is not in PATH")?;
    Ok(list(&codex, hooks)?.is_trusted)
}

/// `config.toml` without the trust in our hooks. Before they are taken out: their places are their names.
pub(super) fn distrust(targets: &[(PathBuf, Target)]) -> anyhow::Result<Option<Edit>> {
    let [(hooks, _)] = targets else { return Ok(None) };
    let Some(text) = file::read(hooks)?.text().map(str::to_owned) else { return Ok(None) };
    let keys = keys(hooks, &text);
    let path = paths::resolved("~/.codex/config.toml")?;
    let found = file::read(&path)?;
    let Some(config) = found.text() else { return Ok(None) };
    let left = || format!("{} was left as it is", path.display());
    let removed = distrust_codex(config, &keys).with_context(left)?;
    // Blank lines between tables are all that can differ.
    let tight = |text: &str| text.trim().to_owned();
    let kept = match &removed {
        Removed::Text(text) => tight(text),
        Removed::Delete | Removed::Unchanged => String::new(),
    };
    let round = |copy: &str| (tight(copy) == kept).then(|| removed.clone());
    Edit::removed(path.clone(), found, &removed, round).map(Some)
}

/// Whether a `config.toml` with this text trusts hooks of ours.
pub(super) fn trusts_ours(text: &str) -> bool {
    [Scope::User, Scope::Project].into_iter().filter_map(|scope| resolved_hooks(scope).ok()).any(|hooks| {
        let found = file::read(&hooks).ok();
        let keys = found.and_then(|found| found.text().map(|text| keys(&hooks, text))).unwrap_or_default();
        distrust_codex(text, &keys).is_ok_and(|removed| removed != Removed::Unchanged)
    })
}

fn resolved_hooks(scope: Scope) -> anyhow::Result<PathBuf> {
    paths::resolved(match scope {
        Scope::User | Scope::System => "~/.codex/hooks.json",
        Scope::Project => ".codex/hooks.json",
    })
}

/// `<path>:pre_tool_use:0:0` for each of our hooks.
fn keys(path: &Path, text: &str) -> Vec<String> {
    let Ok(file) = serde_json::from_str::<Value>(text) else { return Vec::new() };
    let mut keys = Vec::new();
    for (event, entries) in file["hooks"].as_object().into_iter().flatten() {
        for (entry, value) in entries.as_array().into_iter().flatten().enumerate() {
            for (hook, value) in value["hooks"].as_array().into_iter().flatten().enumerate() {
                if value["command"].as_str().is_some_and(is_ours) {
                    keys.push(format!("{}:{}:{entry}:{hook}", path.display(), snake(event)));
                }
            }
        }
    }
    keys
}

fn is_ours(command: &str) -> bool {
    command.contains(&format!(" hook {} ", HookClient::Codex.name())) && command.ends_with("--installed")
}

/// `PreToolUse` is `pre_tool_use`.
fn snake(event: &str) -> String {
    let mut out = String::new();
    for c in event.chars() {
        if c.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    out
}

/// What Codex says about our hooks.
struct Listed {
    home: PathBuf,
    hooks: Vec<CodexTrust>,
    is_trusted: bool,
}

/// Asks `codex app-server`, which speaks JSON-RPC, one message a line.
fn list(codex: &Path, hooks: &Path) -> anyhow::Result<Listed> {
    let mut child = Command::new(codex)
        .arg("app-server")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {}", codex.display()))?;
    let listed = converse(&mut child, hooks);
    // It has nothing to save.
    let _ = child.kill();
    let _ = child.wait();
    listed
}

fn converse(child: &mut Child, hooks: &Path) -> anyhow::Result<Listed> {
    let mut to = child.stdin.take().context("it has no input")?;
    let from = child.stdout.take().context("it has no output")?;
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                return;
            }
        }
    });
    let cwd = std::env::current_dir().context("there is no current folder")?;
    let about = json!({"name": "estop", "version": env!("CARGO_PKG_VERSION")});
    for message in [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"clientInfo": about}}),
        json!({"jsonrpc": "2.0", "method": "initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "hooks/list", "params": {"cwds": [cwd]}}),
    ] {
        writeln!(to, "{message}").context("it does not listen")?;
    }
    to.flush().context("it does not listen")?;
    let deadline = Instant::now() + TIME_LIMIT;
    let answer = |id: u64| -> anyhow::Result<Value> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = told.recv_timeout(left).context("`codex app-server` did not answer in time")?;
            let message: Value = serde_json::from_str(&line).unwrap_or_default();
            if message["id"] != id {
                continue;
            }
            let why = message["error"]["message"].as_str();
            anyhow::ensure!(why.is_none(), "`codex app-server` says: {}", why.unwrap_or_default());
            return Ok(message["result"].clone());
        }
    };
    let home = answer(1)?["codexHome"].as_str().context("it does not say where its settings are")?.into();
    read_list(home, &answer(2)?, hooks)
}

fn read_list(home: PathBuf, answer: &Value, path: &Path) -> anyhow::Result<Listed> {
    let folders = answer["data"].as_array().context("it lists no hooks: this Codex is too old")?;
    let all = folders.iter().filter_map(|folder| folder["hooks"].as_array()).flatten();
    let is_here = |hook: &&Value| {
        hook["sourcePath"].as_str().is_some_and(|source| is_same(Path::new(source), path))
            && hook["command"].as_str().is_some_and(is_ours)
    };
    let ours: Vec<&Value> = all.filter(is_here).collect();
    let trust = |hook: &&Value| {
        Some(CodexTrust {
            key: hook["key"].as_str()?.to_owned(),
            hash: hook["currentHash"].as_str()?.to_owned(),
        })
    };
    let hooks: Vec<CodexTrust> = ours.iter().filter_map(trust).collect();
    anyhow::ensure!(!hooks.is_empty(), "it does not see the hooks in {}", path.display());
    let is_trusted = ours.iter().all(|hook| hook["trustStatus"] == "trusted");
    Ok(Listed { home, hooks, is_trusted })
}

fn is_same(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tl_1_codex_hooks_are_named_by_file_event_and_place() {
        let text = r#"{"hooks": {"PreToolUse": [
            {"hooks": [{"command": "mine"}]},
            {"hooks": [{"command": "/bin/estop hook codex PreToolUse --installed"}]}
        ], "Stop": [{"hooks": [{"command": "estop hook codex Stop --installed"}]}]}}"#;
        assert_eq!(
            keys(Path::new("/h/hooks.json"), text),
            ["/h/hooks.json:pre_tool_use:1:0", "/h/hooks.json:stop:0:0"]
        );
    }
}
