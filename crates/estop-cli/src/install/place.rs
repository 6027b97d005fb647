//! Where the files of the clients are on this machine.

use std::path::{Path, PathBuf};

use anyhow::Context;
use estop_wire::hooks::HookClient;

/// Folders that a variable moves, as their clients document it.
const MOVED: &[(&str, &str)] =
    &[("~/.claude/", "CLAUDE_CONFIG_DIR"), ("~/.codex/", "CODEX_HOME"), ("~/.config/", "XDG_CONFIG_HOME")];

/// The file that `~/…`, a path of the project, or an absolute path means.
pub(crate) fn resolved(path: &str) -> anyhow::Result<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    for (folder, name) in MOVED {
        if let (Some(rest), Some(moved)) = (path.strip_prefix(folder), variable(name)) {
            return Ok(std::path::absolute(moved.join(rest))?);
        }
    }
    match path.strip_prefix("~/") {
        Some(rest) => {
            let home =
                variable("HOME").context("HOME is not set, so nobody knows whose settings are meant")?;
            Ok(std::path::absolute(home.join(rest))?)
        }
        None => Ok(std::path::absolute(Path::new(path))?),
    }
}

/// Files that may hold a switch for this client's hooks: the person's, the project's, the machine's.
pub(super) fn switches(client: HookClient) -> Vec<PathBuf> {
    let paths: &[&str] = match client {
        HookClient::ClaudeCode => &[
            "~/.claude/settings.json",
            ".claude/settings.json",
            ".claude/settings.local.json",
            "/etc/claude-code/managed-settings.json",
        ],
        HookClient::Codex => &["~/.codex/config.toml", ".codex/config.toml"],
        HookClient::GeminiCli => {
            &["~/.gemini/settings.json", ".gemini/settings.json", "/etc/gemini-cli/settings.json"]
        }
        HookClient::Copilot => &["~/.copilot/settings.json", ".github/copilot/settings.json"],
        HookClient::Qwen => &["~/.qwen/settings.json", ".qwen/settings.json", "/etc/qwen-code/settings.json"],
        HookClient::Cline
        | HookClient::Cursor
        | HookClient::Opencode
        | HookClient::OpenClaw
        | HookClient::Generic => &[],
    };
    let mut found: Vec<PathBuf> = paths.iter().filter_map(|path| resolved(path).ok()).collect();
    // In the home folder the project's file is the person's.
    found.dedup();
    found
}

/// How a repository, or who starts the client, switches the hooks off.
pub(super) fn way_to_switch_off(client: HookClient) -> &'static str {
    match client {
        HookClient::ClaudeCode => "with `disableAllHooks` in its .claude/settings.json",
        HookClient::Codex => {
            "with `[features] hooks = false` in its .codex/config.toml; `codex -c features.hooks=true` wins over that"
        }
        HookClient::GeminiCli => "with `hooksConfig.enabled` in its .gemini/settings.json",
        HookClient::Copilot => "with `disableAllHooks` in its .github/copilot/settings.json",
        HookClient::Qwen => "with `disableAllHooks` in its .qwen/settings.json",
        HookClient::Opencode => "with nothing we know of; `opencode --pure` does",
        HookClient::Cline | HookClient::Cursor | HookClient::OpenClaw | HookClient::Generic => {
            "in ways nobody has looked for so far"
        }
    }
}

/// How a client's program is called, and the folder it makes in the home folder.
pub(super) fn traces(client: HookClient) -> (&'static [&'static str], &'static str) {
    match client {
        HookClient::ClaudeCode => (&["claude"], "~/.claude/"),
        HookClient::Codex => (&["codex"], "~/.codex/"),
        HookClient::GeminiCli => (&["gemini"], "~/.gemini/"),
        HookClient::Copilot => (&["copilot"], "~/.copilot/"),
        HookClient::Cline => (&["cline"], "~/.cline/"),
        HookClient::Qwen => (&["qwen"], "~/.qwen/"),
        HookClient::Cursor => (&["cursor", "cursor-agent"], "~/.cursor/"),
        HookClient::Opencode => (&["opencode"], "~/.config/opencode/"),
        HookClient::OpenClaw => (&["openclaw"], "~/.openclaw/"),
        HookClient::Generic => (&[], ""),
    }
}
