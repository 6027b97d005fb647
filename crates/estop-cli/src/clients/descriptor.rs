//! What is known of a coding agent.

use estop_wire::hooks::{HookClient, HookEvent};

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
