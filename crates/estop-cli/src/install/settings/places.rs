//! Which files hold each client's hooks, by scope, and what we write into them.

use estop_wire::hooks::{HookClient, HookEvent};

use super::entries::Entries;
use super::whole::Whole;
use super::{Content, INSTALLED, NoPlace, Target, command_line, mark, registered};
use crate::install::plugins;

/// Seconds a client waits for the hook. `estop hook` answers or gives up far sooner; at a time-out most clients run the
/// tool, so this must never be the shorter one.
const TIMEOUT_S: u32 = 60;

/// Whose hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One person's, in all projects.
    User,
    /// One project's, for all who work in it.
    Project,
    /// Everybody's on this machine; only an administrator can change it.
    System,
}

/// Whether a file in a repository cannot switch these hooks off. Measured for Claude Code and Gemini CLI, documented for
/// Cursor.
pub fn survives_repository(client: HookClient, scope: Scope) -> bool {
    match client {
        HookClient::ClaudeCode | HookClient::GeminiCli | HookClient::Cursor => scope == Scope::System,
        // Codex: `-c features.hooks=true` on its command line wins; no file does. Copilot and Qwen Code:
        // `disableAllHooks`. The others: an option skips plugins, or nothing is known.
        HookClient::Codex
        | HookClient::Copilot
        | HookClient::Qwen
        | HookClient::Cline
        | HookClient::Opencode
        | HookClient::OpenClaw
        | HookClient::Generic => false,
    }
}

/// The files to change so that a client asks estop. `estop` are the words that start it.
pub fn targets(client: HookClient, scope: Scope, estop: &[String]) -> Result<Vec<Target>, NoPlace> {
    let path = path(client, scope).ok_or(NoPlace { client, scope })?;
    let one = |content| Ok(vec![Target { path: path.to_owned(), is_executable: false, content }]);
    match client {
        HookClient::ClaudeCode
        | HookClient::Codex
        | HookClient::GeminiCli
        | HookClient::Qwen
        | HookClient::Cursor => one(Content::Entries(entries(client, scope, estop))),
        HookClient::Copilot => {
            let mark = format!(" hook copilot preToolUse {INSTALLED}");
            one(Content::Whole(Whole { text: copilot(estop), mark }))
        }
        HookClient::Opencode => {
            let text = plugins::with_command(plugins::OPENCODE_PLUGIN, estop);
            one(Content::Whole(Whole { text, mark: "`estop install opencode`".to_owned() }))
        }
        HookClient::Cline => Ok(registered(client).map(|(event, _)| script(path, event, estop)).collect()),
        HookClient::OpenClaw => Ok(openclaw(path, estop)),
        HookClient::Generic => Err(NoPlace { client, scope }),
    }
}

fn path(client: HookClient, scope: Scope) -> Option<&'static str> {
    Some(match (client, scope) {
        (HookClient::ClaudeCode, Scope::User) => "~/.claude/settings.json",
        (HookClient::ClaudeCode, Scope::Project) => ".claude/settings.json",
        // Linux; on macOS it is below /Library/Application Support/ClaudeCode.
        (HookClient::ClaudeCode, Scope::System) => "/etc/claude-code/managed-settings.json",
        (HookClient::Codex, Scope::User) => "~/.codex/hooks.json",
        (HookClient::Codex, Scope::Project) => ".codex/hooks.json",
        (HookClient::GeminiCli, Scope::User) => "~/.gemini/settings.json",
        (HookClient::GeminiCli, Scope::Project) => ".gemini/settings.json",
        (HookClient::GeminiCli, Scope::System) => "/etc/gemini-cli/settings.json",
        (HookClient::Qwen, Scope::User) => "~/.qwen/settings.json",
        (HookClient::Qwen, Scope::Project) => ".qwen/settings.json",
        (HookClient::Qwen, Scope::System) => "/etc/qwen-code/settings.json",
        (HookClient::Copilot, Scope::User) => "~/.copilot/hooks/estop.json",
        (HookClient::Copilot, Scope::Project) => ".github/hooks/estop.json",
        (HookClient::Cline, Scope::User) => "~/.cline/hooks",
        (HookClient::Cline, Scope::Project) => ".clinerules/hooks",
        (HookClient::Cursor, Scope::User) => "~/.cursor/hooks.json",
        (HookClient::Cursor, Scope::Project) => ".cursor/hooks.json",
        (HookClient::Cursor, Scope::System) => "/etc/cursor/hooks.json",
        (HookClient::Opencode, Scope::User) => "~/.config/opencode/plugins/estop.js",
        (HookClient::Opencode, Scope::Project) => ".opencode/plugins/estop.js",
        (HookClient::OpenClaw, Scope::User) => "~/.openclaw/extensions/estop",
        (
            HookClient::Codex | HookClient::Copilot | HookClient::Cline | HookClient::Opencode,
            Scope::System,
        )
        | (HookClient::OpenClaw, Scope::Project | Scope::System)
        | (HookClient::Generic, _) => return None,
    })
}

fn entries(client: HookClient, scope: Scope, estop: &[String]) -> Entries {
    let entry = |(name, event): (&'static str, HookEvent)| {
        let command = serde_json::json!(command_line(estop, client, name)).to_string();
        (name, entry(client, event, &command))
    };
    Entries {
        client,
        template: if client == HookClient::Cursor { "{\n  \"version\": 1\n}\n" } else { "{}\n" },
        entries: registered(client).map(entry).collect(),
        // In the system's file this wins over a project that switches hooks off.
        switch: (client == HookClient::GeminiCli && scope == Scope::System).then_some((
            "hooksConfig",
            "enabled",
            "true",
        )),
    }
}

/// One entry, as the client wants it. `command` is JSON text already.
fn entry(client: HookClient, event: HookEvent, command: &str) -> String {
    // Where a failure of the hook can be made a refusal, it is, at the moments where we can refuse at all.
    let can_refuse = matches!(event, HookEvent::ToolRequested | HookEvent::PromptSubmitted);
    let plain = format!(r#""type": "command", "command": {command}"#);
    match client {
        HookClient::ClaudeCode => {
            let closed = if can_refuse { r#", "onFailure": "block""# } else { "" };
            format!(r#"{{"matcher": "*", "hooks": [{{{plain}, "timeout": {TIMEOUT_S}{closed}}}]}}"#)
        }
        // No key more than needed: what it does not know makes it drop the whole file.
        HookClient::Codex => format!(r#"{{"hooks": [{{{plain}, "timeout": {TIMEOUT_S}}}]}}"#),
        HookClient::Cursor => {
            let closed = if can_refuse { r#", "failClosed": true"# } else { "" };
            format!(r#"{{"command": {command}, "timeout": {TIMEOUT_S}{closed}}}"#)
        }
        // Milliseconds.
        HookClient::GeminiCli | HookClient::Qwen => {
            format!(
                r#"{{"matcher": "*", "hooks": [{{"name": "estop", {plain}, "timeout": {}}}]}}"#,
                TIMEOUT_S * 1000
            )
        }
        HookClient::Copilot
        | HookClient::Cline
        | HookClient::Opencode
        | HookClient::OpenClaw
        | HookClient::Generic => plain,
    }
}

/// A file of its own in Copilot's folder of hooks.
fn copilot(estop: &[String]) -> String {
    let hook = |(event, _): (&str, HookEvent)| {
        let command = serde_json::json!(command_line(estop, HookClient::Copilot, event));
        let keys = format!(r#""type": "command", "bash": {command}, "powershell": {command}"#);
        format!(r#"    "{event}": [{{{keys}, "timeoutSec": {TIMEOUT_S}}}]"#)
    };
    let hooks: Vec<String> = registered(HookClient::Copilot).map(hook).collect();
    format!("{{\n  \"version\": 1,\n  \"hooks\": {{\n{}\n  }}\n}}\n", hooks.join(",\n"))
}

/// One program for each event, named like it.
fn script(folder: &str, event: &str, estop: &[String]) -> Target {
    let client = HookClient::Cline;
    let text = format!(
        "#!/bin/sh\n# Installed by `estop install cline`; `estop uninstall cline` removes it.\nexec {}\n",
        command_line(estop, client, event)
    );
    let content = Content::Whole(Whole { text, mark: mark(client, event) });
    Target { path: format!("{folder}/{event}"), is_executable: true, content }
}

fn openclaw(folder: &str, estop: &[String]) -> Vec<Target> {
    let file = |name: &str, text: String, mark: &str| Target {
        path: format!("{folder}/{name}"),
        is_executable: false,
        content: Content::Whole(Whole { text, mark: mark.to_owned() }),
    };
    let code = plugins::with_command(plugins::OPENCLAW_PLUGIN, estop);
    vec![
        file("index.js", code, "`estop install openclaw`"),
        file("package.json", plugins::OPENCLAW_PACKAGE.to_owned(), "\"estop-openclaw\""),
        file("openclaw.plugin.json", plugins::OPENCLAW_MANIFEST.to_owned(), "Installed by estop"),
    ]
}
