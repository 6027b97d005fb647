//! The coding agents we know: one descriptor each, with all that differs between them outside of their hooks' contract
//! (`estop_wire::hooks`). `estop hook`, `install`, `doctor` and `run` read it here.

use estop_wire::hooks::{HookClient, HookEvent};

/// Seconds a client waits for the hook. `estop hook` answers or gives up far sooner; at a time-out most clients run the
/// tool, so this must never be the shorter one.
pub(crate) const TIMEOUT_S: u32 = 60;

/// Whose settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One person's, in all projects.
    User,
    /// One project's, for all who work in it.
    Project,
    /// Everybody's on this machine; only an administrator can change it.
    System,
}

/// A coding agent.
#[derive(Debug)]
pub(crate) struct Descriptor {
    pub(crate) client: HookClient,
    /// Its program, by which `estop run` knows it.
    pub(crate) program: &'static str,
    /// Other programs that say it is on this machine.
    pub(crate) other_programs: &'static [&'static str],
    /// The folder it makes in the home folder.
    pub(crate) home: &'static str,
    /// Where its hooks are, by scope.
    pub(crate) hooks: Paths,
    pub(crate) hook_form: HookForm,
    /// Events that are not registered: with their newer forms a call would be counted twice.
    pub(crate) older_events: &'static [&'static str],
    /// A file in a repository cannot switch off hooks of the scope system. Measured for Claude Code and Gemini CLI,
    /// documented for Cursor.
    pub(crate) system_hooks_survive: bool,
    pub(crate) switch: Switch,
    /// Hooks it was not told to trust are skipped without a word; its command line wins over a project's switch.
    pub(crate) needs_trust: bool,
    /// What `doctor` says beside "asks estop".
    pub(crate) caveat: &'static str,
    /// Where its MCP servers are, by scope.
    pub(crate) mcp: McpPaths,
    pub(crate) model_calls: ModelCalls,
    pub(crate) run_hooks: RunHooks,
}

/// A path for each scope that a client has: from the person's home (`~/…`), from the project, or absolute.
#[derive(Debug)]
pub(crate) struct Paths {
    pub(crate) user: Option<&'static str>,
    pub(crate) project: Option<&'static str>,
    pub(crate) system: Option<&'static str>,
}

impl Paths {
    pub(crate) fn of(&self, scope: Scope) -> Option<&'static str> {
        match scope {
            Scope::User => self.user,
            Scope::Project => self.project,
            Scope::System => self.system,
        }
    }
}

/// How hooks are written.
#[derive(Debug)]
pub(crate) enum HookForm {
    /// Entries in a JSON file that has other things, too.
    Entries {
        /// What a new file has beside the hooks.
        template: &'static str,
        /// One entry; the command is JSON text already.
        entry: fn(HookEvent, &str) -> String,
        /// In the system's file this wins over a project that switches hooks off: object, key, value.
        system_switch: Option<(&'static str, &'static str, &'static str)>,
        /// Whether the client takes comments in it.
        comments: bool,
    },
    /// A JSON file of ours with one command for each event.
    OwnFile,
    /// A program for each event, named like it.
    Scripts,
    /// A JavaScript plugin: files in the folder, or one at the path itself. The first has the command in it.
    Plugin(&'static [PluginFile]),
}

/// A file of a plugin.
#[derive(Debug)]
pub(crate) struct PluginFile {
    /// Empty if the path of the hooks is the file's own.
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    /// Says that it is ours.
    pub(crate) mark: &'static str,
}

/// How hooks are switched off.
#[derive(Debug)]
pub(crate) struct Switch {
    /// Files that may hold it: the person's, the project's, the machine's.
    pub(crate) files: &'static [&'static str],
    pub(crate) key: SwitchKey,
    /// How a repository, or who starts the client, does it.
    pub(crate) how: &'static str,
}

/// Which key switches hooks off.
#[derive(Debug)]
pub(crate) enum SwitchKey {
    None,
    /// A JSON value under this path that says off.
    Json {
        name: &'static str,
        path: &'static [&'static str],
        off: &'static str,
    },
    /// Codex's `features.hooks`.
    CodexToml,
}

/// Where a client's MCP servers are.
#[derive(Debug)]
pub(crate) struct McpPaths {
    pub(crate) user: Option<&'static str>,
    pub(crate) project: Option<&'static str>,
    pub(crate) user_form: McpForm,
    pub(crate) project_form: McpForm,
}

/// How MCP servers are written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum McpForm {
    /// JSON, with the servers under these keys; `*` is any key. The URL of a server by streamable HTTP has this key.
    Json { under: &'static [&'static [&'static str]], url: &'static str },
    /// Codex's `config.toml`.
    Toml,
}

/// How a client's model calls go through estop in a run.
#[derive(Debug)]
pub(crate) enum ModelCalls {
    /// By the variables that all programs get.
    Variables,
    /// By the variables, if one of these is set; else this is said.
    VariablesWith { any_of: &'static [&'static str], otherwise: &'static str },
    /// They do not: this is said. `{base}` is estop's address for this agent.
    Said(&'static str),
    /// By options on Codex's command line.
    Codex,
    /// By opencode's configuration in a variable.
    Opencode,
}

/// How a client gets its hooks for one run, without editing anybody's files.
#[derive(Debug)]
pub(crate) enum RunHooks {
    /// It reads hooks from its own files alone.
    None,
    /// By an option that takes settings as JSON.
    SettingsOption(&'static str),
    /// By a variable that names the system's settings file, which is this one otherwise.
    SystemSettings {
        variable: &'static str,
        file: &'static str,
    },
    Codex,
    Opencode,
}

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
