//! The coding agents we know: one descriptor each, with all that differs between them outside of their hooks' contract
//! (`estop_wire::hooks`). `estop hook`, `install`, `doctor` and `run` read it here.

mod descriptor;

use estop_wire::hooks::{HookClient, HookEvent};

pub use descriptor::Scope;
pub(crate) use descriptor::{
    Descriptor, HookForm, McpForm, McpPaths, ModelCalls, Paths, PluginFile, RunHooks, Switch, SwitchKey,
};

/// Seconds a client waits for the hook. `estop hook` answers or gives up far sooner; at a time-out most clients run the
/// tool, so this must never be the shorter one.
pub(crate) const TIMEOUT_S: u32 = 60;

impl Descriptor {
    /// Of a client; `None` for our own form, which no program has.
    pub(crate) fn of(client: HookClient) -> Option<&'static Descriptor> {
        ALL.iter().find(|descriptor| descriptor.client == client)
    }

    /// Of the program of this name.
    pub(crate) fn of_program(name: &str) -> Option<&'static Descriptor> {
        ALL.iter().find(|descriptor| descriptor.program == name)
    }

    /// Every program that says it is here.
    pub(crate) fn programs(&self) -> impl Iterator<Item = &'static str> {
        self.other_programs.iter().copied().chain([self.program])
    }

    /// Events we register: those we have a use for, in the client's newest form.
    pub(crate) fn registered(&'static self) -> impl Iterator<Item = (&'static str, HookEvent)> {
        let events = self.client.events().iter().copied();
        events.filter(|(name, event)| !self.older_events.contains(name) && *event != HookEvent::SubagentEnded)
    }
}

/// The names of all that can be installed, as `a, b or c`.
pub(crate) fn names() -> String {
    let mut names: Vec<&str> = ALL.iter().map(|descriptor| descriptor.client.name()).collect();
    let last = names.pop().unwrap_or_default();
    format!("{} or {last}", names.join(", "))
}

const MCP_SERVERS: &[&[&str]] = &[&["mcpServers"]];
const JSON: McpForm = McpForm::Json { under: MCP_SERVERS, url: "url" };
const JSON_HTTP_URL: McpForm = McpForm::Json { under: MCP_SERVERS, url: "httpUrl" };
const OPENCODE_MCP: McpForm = McpForm::Json { under: &[&["mcp"]], url: "url" };
const NO_MCP: McpPaths = McpPaths { user: None, project: None, user_form: JSON, project_form: JSON };
const UNKNOWN_SWITCH: Switch =
    Switch { files: &[], key: SwitchKey::None, how: "in ways nobody has looked for so far" };
const DISABLE_ALL: SwitchKey =
    SwitchKey::Json { name: "disableAllHooks", path: &["disableAllHooks"], off: "true" };

/// All of them, in the order of [`HookClient::ALL`].
pub(crate) const ALL: &[Descriptor] = &[
    Descriptor {
        client: HookClient::ClaudeCode,
        program: "claude",
        other_programs: &[],
        home: "~/.claude/",
        hooks: Paths {
            user: Some("~/.claude/settings.json"),
            project: Some(".claude/settings.json"),
            // Linux; on macOS it is below /Library/Application Support/ClaudeCode.
            system: Some("/etc/claude-code/managed-settings.json"),
        },
        hook_form: HookForm::Entries {
            template: "{}\n",
            entry: |event, command| {
                let closed = if can_refuse(event) { r#", "onFailure": "block""# } else { "" };
                let plain = plain(command);
                format!(r#"{{"matcher": "*", "hooks": [{{{plain}, "timeout": {TIMEOUT_S}{closed}}}]}}"#)
            },
            system_switch: None,
            comments: false,
        },
        older_events: &["StopFailure"],
        system_hooks_survive: true,
        switch: Switch {
            files: &[
                "~/.claude/settings.json",
                ".claude/settings.json",
                ".claude/settings.local.json",
                "/etc/claude-code/managed-settings.json",
            ],
            key: DISABLE_ALL,
            how: "with `disableAllHooks` in its .claude/settings.json",
        },
        needs_trust: false,
        caveat: "",
        mcp: McpPaths {
            user: Some("~/.claude.json"),
            project: Some(".mcp.json"),
            user_form: McpForm::Json {
                under: &[&["mcpServers"], &["projects", "*", "mcpServers"]],
                url: "url",
            },
            project_form: JSON,
        },
        model_calls: ModelCalls::Variables,
        run_hooks: RunHooks::SettingsOption("--settings"),
    },
    Descriptor {
        client: HookClient::Codex,
        program: "codex",
        other_programs: &[],
        home: "~/.codex/",
        hooks: Paths { user: Some("~/.codex/hooks.json"), project: Some(".codex/hooks.json"), system: None },
        hook_form: HookForm::Entries {
            template: "{}\n",
            // No key more than needed: what it does not know makes it drop the whole file.
            entry: |_, command| {
                let plain = plain(command);
                format!(r#"{{"hooks": [{{{plain}, "timeout": {TIMEOUT_S}}}]}}"#)
            },
            system_switch: None,
            comments: false,
        },
        older_events: &[],
        // `-c features.hooks=true` on its command line wins; no file does.
        system_hooks_survive: false,
        switch: Switch {
            files: &["~/.codex/config.toml", ".codex/config.toml"],
            key: SwitchKey::CodexToml,
            how: "with `[features] hooks = false` in its .codex/config.toml; `codex -c features.hooks=true` wins over that",
        },
        needs_trust: true,
        caveat: "",
        mcp: McpPaths {
            user: Some("~/.codex/config.toml"),
            project: Some(".codex/config.toml"),
            user_form: McpForm::Toml,
            project_form: McpForm::Toml,
        },
        model_calls: ModelCalls::Codex,
        run_hooks: RunHooks::Codex,
    },
    Descriptor {
        client: HookClient::GeminiCli,
        program: "gemini",
        other_programs: &[],
        home: "~/.gemini/",
        hooks: Paths {
            user: Some("~/.gemini/settings.json"),
            project: Some(".gemini/settings.json"),
            system: Some("/etc/gemini-cli/settings.json"),
        },
        hook_form: HookForm::Entries {
            template: "{}\n",
            entry: |_, command| in_milliseconds(command),
            system_switch: Some(("hooksConfig", "enabled", "true")),
            comments: true,
        },
        older_events: &[],
        system_hooks_survive: true,
        switch: Switch {
            files: &["~/.gemini/settings.json", ".gemini/settings.json", "/etc/gemini-cli/settings.json"],
            key: SwitchKey::Json {
                name: "hooksConfig.enabled",
                path: &["hooksConfig", "enabled"],
                off: "false",
            },
            how: "with `hooksConfig.enabled` in its .gemini/settings.json",
        },
        needs_trust: false,
        caveat: "",
        mcp: McpPaths {
            user: Some("~/.gemini/settings.json"),
            project: Some(".gemini/settings.json"),
            user_form: JSON_HTTP_URL,
            project_form: JSON_HTTP_URL,
        },
        model_calls: ModelCalls::VariablesWith {
            any_of: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
            otherwise: "Gemini CLI with a Google login asks Google's own servers: those model calls do NOT go through \
                        estop. With GEMINI_API_KEY they do.",
        },
        run_hooks: RunHooks::SystemSettings {
            variable: "GEMINI_CLI_SYSTEM_SETTINGS_PATH",
            file: "/etc/gemini-cli/settings.json",
        },
    },
    Descriptor {
        client: HookClient::Copilot,
        program: "copilot",
        other_programs: &[],
        home: "~/.copilot/",
        hooks: Paths {
            user: Some("~/.copilot/hooks/estop.json"),
            project: Some(".github/hooks/estop.json"),
            system: None,
        },
        hook_form: HookForm::OwnFile,
        // Its second form.
        older_events: &["PreToolUse"],
        system_hooks_survive: false,
        switch: Switch {
            files: &["~/.copilot/settings.json", ".github/copilot/settings.json"],
            key: DISABLE_ALL,
            how: "with `disableAllHooks` in its .github/copilot/settings.json",
        },
        needs_trust: false,
        caveat: "",
        mcp: McpPaths { user: Some("~/.copilot/mcp-config.json"), ..NO_MCP },
        model_calls: ModelCalls::VariablesWith {
            any_of: &["COPILOT_PROVIDER_BASE_URL"],
            otherwise: "Copilot with a GitHub login asks GitHub's own servers: those model calls do NOT go through estop. \
                        With COPILOT_PROVIDER_BASE_URL and a model of your own they do.",
        },
        run_hooks: RunHooks::None,
    },
    Descriptor {
        client: HookClient::Cline,
        program: "cline",
        other_programs: &[],
        home: "~/.cline/",
        hooks: Paths { user: Some("~/.cline/hooks"), project: Some(".clinerules/hooks"), system: None },
        hook_form: HookForm::Scripts,
        older_events: &["TaskError"],
        system_hooks_survive: false,
        switch: UNKNOWN_SWITCH,
        needs_trust: false,
        caveat: "",
        mcp: McpPaths { user: Some("~/.cline/data/settings/cline_mcp_settings.json"), ..NO_MCP },
        model_calls: ModelCalls::Said(
            "Cline keeps its base URL in its own settings: model calls go through estop after `cline auth -p openai -k KEY \
             -m MODEL -b {base}/openai/v1`.",
        ),
        run_hooks: RunHooks::None,
    },
    Descriptor {
        client: HookClient::Qwen,
        program: "qwen",
        other_programs: &[],
        home: "~/.qwen/",
        hooks: Paths {
            user: Some("~/.qwen/settings.json"),
            project: Some(".qwen/settings.json"),
            system: Some("/etc/qwen-code/settings.json"),
        },
        hook_form: HookForm::Entries {
            template: "{}\n",
            entry: |_, command| in_milliseconds(command),
            system_switch: None,
            comments: true,
        },
        older_events: &["StopFailure"],
        system_hooks_survive: false,
        switch: Switch {
            files: &["~/.qwen/settings.json", ".qwen/settings.json", "/etc/qwen-code/settings.json"],
            key: DISABLE_ALL,
            how: "with `disableAllHooks` in its .qwen/settings.json",
        },
        needs_trust: false,
        caveat: "",
        mcp: McpPaths {
            user: Some("~/.qwen/settings.json"),
            project: Some(".qwen/settings.json"),
            user_form: JSON_HTTP_URL,
            project_form: JSON_HTTP_URL,
        },
        model_calls: ModelCalls::Variables,
        run_hooks: RunHooks::None,
    },
    Descriptor {
        client: HookClient::Cursor,
        program: "cursor-agent",
        other_programs: &["cursor"],
        home: "~/.cursor/",
        hooks: Paths {
            user: Some("~/.cursor/hooks.json"),
            project: Some(".cursor/hooks.json"),
            system: Some("/etc/cursor/hooks.json"),
        },
        hook_form: HookForm::Entries {
            template: "{\n  \"version\": 1\n}\n",
            entry: |event, command| {
                let closed = if can_refuse(event) { r#", "failClosed": true"# } else { "" };
                format!(r#"{{"command": {command}, "timeout": {TIMEOUT_S}{closed}}}"#)
            },
            system_switch: None,
            comments: false,
        },
        older_events: &[
            "beforeShellExecution",
            "beforeMCPExecution",
            "afterShellExecution",
            "afterMCPExecution",
        ],
        system_hooks_survive: true,
        switch: UNKNOWN_SWITCH,
        needs_trust: false,
        caveat: "",
        mcp: McpPaths {
            user: Some("~/.cursor/mcp.json"),
            project: Some(".cursor/mcp.json"),
            user_form: JSON,
            project_form: JSON,
        },
        model_calls: ModelCalls::Said(
            "Cursor asks its own servers: its model calls do NOT go through estop.",
        ),
        run_hooks: RunHooks::None,
    },
    Descriptor {
        client: HookClient::Opencode,
        program: "opencode",
        other_programs: &[],
        home: "~/.config/opencode/",
        hooks: Paths {
            user: Some("~/.config/opencode/plugins/estop.js"),
            project: Some(".opencode/plugins/estop.js"),
            system: None,
        },
        hook_form: HookForm::Plugin(&[PluginFile {
            name: "",
            text: include_str!("install/plugins/opencode.js"),
            mark: "`estop install opencode`",
        }]),
        older_events: &[],
        system_hooks_survive: false,
        switch: Switch { how: "with nothing we know of; `opencode --pure` does", ..UNKNOWN_SWITCH },
        needs_trust: false,
        caveat: "; `opencode --pure` skips it",
        mcp: McpPaths {
            user: Some("~/.config/opencode/opencode.json"),
            project: Some("opencode.json"),
            user_form: OPENCODE_MCP,
            project_form: OPENCODE_MCP,
        },
        model_calls: ModelCalls::Opencode,
        run_hooks: RunHooks::Opencode,
    },
    Descriptor {
        client: HookClient::OpenClaw,
        program: "openclaw",
        other_programs: &[],
        home: "~/.openclaw/",
        hooks: Paths { user: Some("~/.openclaw/extensions/estop"), project: None, system: None },
        hook_form: HookForm::Plugin(&[
            PluginFile {
                name: "index.js",
                text: include_str!("install/plugins/openclaw/index.js"),
                mark: "`estop install openclaw`",
            },
            PluginFile {
                name: "package.json",
                text: include_str!("install/plugins/openclaw/package.json"),
                mark: "\"estop-openclaw\"",
            },
            PluginFile {
                name: "openclaw.plugin.json",
                text: include_str!("install/plugins/openclaw/openclaw.plugin.json"),
                mark: "Installed by estop",
            },
        ]),
        older_events: &[],
        system_hooks_survive: false,
        switch: UNKNOWN_SWITCH,
        needs_trust: false,
        caveat: "",
        mcp: NO_MCP,
        model_calls: ModelCalls::Said(
            "OpenClaw keeps its base URLs in its own settings: model calls go through estop once \
             models.providers.NAME.baseUrl in openclaw.json is {base}/openai/v1.",
        ),
        run_hooks: RunHooks::None,
    },
];

/// Where a failure of the hook can be made a refusal, it is, at the moments where we can refuse at all.
fn can_refuse(event: HookEvent) -> bool {
    matches!(event, HookEvent::ToolRequested | HookEvent::PromptSubmitted)
}

fn plain(command: &str) -> String {
    format!(r#""type": "command", "command": {command}"#)
}

/// Gemini CLI and what follows it.
fn in_milliseconds(command: &str) -> String {
    let (plain, timeout) = (plain(command), TIMEOUT_S * 1000);
    format!(r#"{{"matcher": "*", "hooks": [{{"name": "estop", {plain}, "timeout": {timeout}}}]}}"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_but_our_own_form_has_a_descriptor_in_order() {
        let described: Vec<HookClient> = ALL.iter().map(|descriptor| descriptor.client).collect();
        let known = HookClient::ALL.into_iter().filter(|client| *client != HookClient::Generic);
        assert_eq!(described, known.collect::<Vec<_>>());
    }
}
