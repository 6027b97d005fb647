//! Codex: its base URL and its hooks go on its command line, and hooks that it was not told to trust are skipped without a
//! word. Only Codex knows what its trust is bound to, so it is asked.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use estop_wire::hooks::HookClient;
use serde_json::{Map, Value, json};

use super::base_urls::BaseUrls;
use super::environment::Environment;
use crate::install::settings::{Scope, with_hooks};

/// Where it says that hooks of its command line are from.
const COMMAND_LINE: &str = "/<session-flags>/config.toml";
/// It answers within a second; a person waits for it.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Points its model calls at estop: it ignores the variable that others read.
pub(super) fn point(environment: &mut Environment, urls: &BaseUrls<'_>) {
    let has_key = ["OPENAI_API_KEY", "CODEX_API_KEY"].iter().any(|key| environment.variable(key).is_some());
    let url = if !has_key && has_login(environment) {
        environment
            .say("Codex is logged in with ChatGPT: its model calls go through estop's provider `chatgpt`.");
        urls.of("chatgpt", "")
    } else {
        urls.of("openai", "/v1")
    };
    environment.put_first(vec!["-c".into(), format!("openai_base_url={}", json!(url)).into()]);
}

/// Whether it is logged in with ChatGPT, not with a key. Only that is looked at.
fn has_login(environment: &Environment) -> bool {
    let home = environment.variable("CODEX_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(environment.variable("HOME")?).join(".codex")));
    let text = home.and_then(|home| std::fs::read_to_string(home.join("auth.json")).ok()).unwrap_or_default();
    let auth: Value = serde_json::from_str(&text).unwrap_or_default();
    auth["tokens"].is_object() && !auth["OPENAI_API_KEY"].is_string()
}

/// Its hooks, with its trust in them, all for this run.
pub(super) fn hooks(program: &OsStr, environment: &mut Environment, estop: &[String]) -> anyhow::Result<()> {
    let text = with_hooks(HookClient::Codex, Scope::User, estop, None)?;
    let file: Value = serde_json::from_str(&text)?;
    let mut options = on();
    for (event, entries) in file["hooks"].as_object().into_iter().flatten() {
        options.extend(["-c".into(), format!("hooks.{event}={}", toml(entries)).into()]);
    }
    let trusted = ask(program, &options, &commands(&file))?;
    options.extend(["-c".into(), format!("hooks.state={}", toml(&Value::Object(trusted))).into()]);
    environment.put_first(options);
    Ok(())
}

/// Hooks that are installed, in spite of a project's file.
pub(super) fn switch_on(environment: &mut Environment) {
    environment.put_first(on());
}

/// A project's file may switch hooks off; this wins.
fn on() -> Vec<OsString> {
    vec!["-c".into(), "features.hooks=true".into()]
}

/// The command lines of our hooks.
fn commands(file: &Value) -> BTreeSet<&str> {
    let events = file["hooks"].as_object().into_iter().flatten();
    let entries = events.flat_map(|(_, entries)| entries.as_array().into_iter().flatten());
    let hooks = entries.flat_map(|entry| entry["hooks"].as_array().into_iter().flatten());
    hooks.filter_map(|hook| hook["command"].as_str()).collect()
}

/// A value as TOML in one line.
fn toml(value: &Value) -> String {
    match value {
        Value::Array(all) => format!("[{}]", all.iter().map(toml).collect::<Vec<_>>().join(",")),
        Value::Object(all) => {
            let pairs = all.iter().map(|(key, value)| format!("{}={}", json!(key), toml(value)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
        }
        // TOML's basic strings are JSON's, as far as commands go.
        Value::String(_) | Value::Number(_) | Value::Bool(_) => value.to_string(),
        Value::Null => "\"\"".to_owned(),
    }
}

/// The hashes it knows our hooks by.
fn ask(program: &OsStr, options: &[OsString], ours: &BTreeSet<&str>) -> anyhow::Result<Map<String, Value>> {
    let child = Command::new(program)
        .arg("app-server")
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.map_err(|error| anyhow!("`codex app-server` cannot be started: {error}"))?;
    let trusted = converse(&mut child, ours);
    // It has nothing to save.
    let _ = child.kill();
    let _ = child.wait();
    trusted
}

/// JSON-RPC, one message a line.
fn converse(child: &mut Child, ours: &BTreeSet<&str>) -> anyhow::Result<Map<String, Value>> {
    let silent = || anyhow!("`codex app-server` does not speak");
    let (mut to, from) = child.stdin.take().zip(child.stdout.take()).ok_or_else(silent)?;
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        BufReader::new(from)
            .lines()
            .map_while(Result::ok)
            .take_while(|line| tell.send(line.clone()).is_ok())
            .count()
    });
    let folder = std::env::current_dir()?;
    let about = json!({"name": "estop", "version": env!("CARGO_PKG_VERSION")});
    for message in [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"clientInfo": about}}),
        json!({"jsonrpc": "2.0", "method": "initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "hooks/list", "params": {"cwds": [folder]}}),
    ] {
        writeln!(to, "{message}").map_err(|_| silent())?;
    }
    let deadline = Instant::now() + TIME_LIMIT;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let line =
            told.recv_timeout(left).map_err(|_| anyhow!("`codex app-server` did not answer in time"))?;
        let answer: Value = serde_json::from_str(&line).unwrap_or_default();
        if answer["id"] == 2 {
            return read(&answer["result"], ours);
        }
    }
}

/// Trust in exactly what we put on its command line: a repository's own file may have commands that look like ours, or are.
fn read(answer: &Value, ours: &BTreeSet<&str>) -> anyhow::Result<Map<String, Value>> {
    let folders = answer["data"].as_array().context("this Codex is too old for hooks")?;
    let all = folders.iter().filter_map(|folder| folder["hooks"].as_array()).flatten();
    let is_ours = |hook: &&Value| {
        hook["sourcePath"] == COMMAND_LINE && hook["command"].as_str().is_some_and(|line| ours.contains(line))
    };
    let trusted: Map<String, Value> = all
        .filter(is_ours)
        .filter_map(|hook| {
            Some((hook["key"].as_str()?.to_owned(), json!({"trusted_hash": hook["currentHash"].as_str()?})))
        })
        .collect();
    ensure!(!trusted.is_empty(), "Codex does not see them");
    Ok(trusted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tl_2_hooks_are_written_as_codex_reads_them_on_its_command_line() {
        let entries =
            json!([{"hooks": [{"type": "command", "command": "/a \"b\" hook codex X", "timeout": 60}]}]);
        assert_eq!(
            toml(&entries),
            r#"[{"hooks"=[{"command"="/a \"b\" hook codex X","timeout"=60,"type"="command"}]}]"#
        );
    }

    #[test]
    fn tl_2_codex_is_told_to_trust_nothing_but_what_estop_put_on_its_command_line() {
        let line = "/a/estop hook codex PreToolUse --installed";
        let file = json!({"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": line}]}]}});
        let hook = |key: &str, source: &str, command: &str| json!({"key": key, "sourcePath": source, "command": command, "currentHash": key});
        let repository = "/p/.codex/hooks.json";
        let foreign = [
            hook("1", repository, "/tmp/evil hook codex PreToolUse --installed"),
            hook("2", repository, line),
            hook("3", COMMAND_LINE, "/tmp/evil hook codex PreToolUse --installed"),
            json!({"key": "4", "command": line, "currentHash": "4"}),
        ];
        let answer = |hooks: &[Value]| json!({"data": [{"cwd": "/p", "hooks": hooks}]});
        assert!(read(&answer(&foreign), &commands(&file)).is_err());
        let all = [&foreign[..], &[hook("5", COMMAND_LINE, line)]].concat();
        let trusted = read(&answer(&all), &commands(&file)).expect("one is ours");
        assert_eq!(Value::Object(trusted), json!({"5": {"trusted_hash": "5"}}));
    }
}
