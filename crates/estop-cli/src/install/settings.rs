//! Where each client keeps its hooks, and how ours get there and away again (TL-1): texts in, texts out.
//!
//! Adding is idempotent, and keeps everything else with its order and comments. Removing takes out exactly what was
//! added: our commands end in `hook <client> <event> --installed`. Reading, backing up and writing files is the
//! caller's business.
//!
//! ```
//! use estop_wire::hooks::HookClient;
//! use estop_cli::install::settings::{Removed, Scope, targets};
//!
//! let estop = ["/usr/bin/estop".to_owned()];
//! let [target] = &targets(HookClient::GeminiCli, Scope::User, &estop).expect("it has such a place")[..] else {
//!     unreachable!("Gemini CLI has one file")
//! };
//! assert_eq!(target.path, "~/.gemini/settings.json");
//! let mine = "{\n  // my theme\n  \"theme\": \"dark\"\n}\n";
//! let with_hooks = target.add(Some(mine)).expect("good JSON");
//! assert_eq!(target.remove(&with_hooks), Ok(Removed::Text(mine.to_owned())));
//! ```

mod codex_config;
mod entries;
mod jsonc;
mod mcp;
mod mcp_toml;
mod owned_file;
mod places;
mod words;

use anyhow::Context;
use estop_wire::hooks::HookClient;

use crate::clients::{Descriptor, SwitchKey};
use entries::Entries;
use owned_file::OwnedFile;

pub use crate::clients::Scope;
pub use codex_config::{CodexTrust, distrust_codex, trust_codex};
pub use mcp::{McpEntry, McpGate, McpLocation, McpOutcome, mcp_locations};
pub use places::{survives_repository, targets};
pub use words::estop_words;

/// Says that a command was written by `estop install`; `estop hook` ignores it.
pub const INSTALLED: &str = "--installed";

/// One file to change.
#[derive(Clone, Debug)]
pub struct Target {
    /// Where it is: from the person's home (`~/…`), from the project (`.claude/…`), or absolute.
    pub path: String,
    /// It is a program, and must be executable.
    pub is_executable: bool,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    /// Entries in a file that has other things, too.
    Entries(Entries),
    /// A file that is ours alone.
    OwnedFile(OwnedFile),
}

/// What is left of a file without our hooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removed {
    /// We have nothing in it.
    Unchanged,
    /// This text.
    Text(String),
    /// Nothing: delete it.
    Delete,
}

/// Why a file is left as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// Not JSON, nor JSON with comments, nor TOML.
    #[error("it cannot be read, line {line}: {what}. Correct it, then try again")]
    Broken {
        /// From 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// Something else stands where hooks belong.
    #[error("`{key}` is not {expected}: correct it, then try again")]
    Shape {
        /// Where.
        key: String,
        /// What belongs there.
        expected: &'static str,
    },
    /// A file of this name is there and not ours.
    #[error("there is a hook that estop did not write; move it away or call estop from it, then try again")]
    SomeoneElses,
    /// No settings file is so large.
    #[error("it has {bytes} bytes, which is no settings file")]
    TooLarge {
        /// How many.
        bytes: usize,
    },
}

/// There is no such place for this client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} has no hooks for the scope {scope:?}: choose another scope", client.name())]
pub struct UnsupportedScope {
    client: HookClient,
    scope: Scope,
}

impl Target {
    /// The file with our hooks. `existing` is its text, if it is there.
    pub fn add(&self, existing: Option<&str>) -> Result<String, SettingsError> {
        match &self.content {
            Content::Entries(entries) => entries.add(existing),
            Content::OwnedFile(whole) => whole.add(existing),
        }
    }

    /// The file without our hooks.
    pub fn remove(&self, existing: &str) -> Result<Removed, SettingsError> {
        match &self.content {
            Content::Entries(entries) => entries.remove(existing),
            Content::OwnedFile(whole) => Ok(whole.remove(existing)),
        }
    }
}

/// The key in a settings file that keeps this client's hooks from running, if it is set so.
///
/// `text` is a file of any scope: the repository's own can switch off what stands in the person's. What cannot be read
/// switches nothing off.
pub fn switched_off(client: HookClient, text: &str) -> Option<&'static str> {
    match Descriptor::of(client)?.switch.key {
        SwitchKey::None => None,
        SwitchKey::CodexToml => codex_config::is_switched_off(text).then_some("features.hooks"),
        SwitchKey::Json { name, path, off } => {
            let root = entries::read(text).ok()?;
            let node = path.iter().try_fold(&root, |node, key| node.get(key))?;
            (text.get(node.span.clone()) == Some(off)).then_some(name)
        }
    }
}

/// The client's own file as it would be with our hooks.
pub(crate) fn with_hooks(
    client: HookClient,
    scope: Scope,
    estop: &[String],
    existing: Option<&str>,
) -> anyhow::Result<String> {
    let targets = targets(client, scope, estop)?;
    let target = targets.first().context("there is no place for them")?;
    Ok(target.add(existing)?)
}

/// `estop hook claude-code PreToolUse --installed` as one line for a shell.
fn command_line(estop: &[String], client: HookClient, event: &str) -> String {
    let mut line = estop.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    line.push_str(&mark(client, event));
    line
}

/// How our commands end.
fn mark(client: HookClient, event: &str) -> String {
    format!(" hook {} {event} {INSTALLED}", client.name())
}

/// Whether we wrote this command, for whichever event and from whichever place estop was at then.
fn is_marked(command: &str, client: HookClient) -> bool {
    client.events().iter().any(|(event, _)| command.ends_with(&mark(client, event)))
}

/// One word for a POSIX shell, and for Windows where it needs no more than double quotes.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    // Inside double quotes a backslash is itself unless one of these follows.
    let needs_single = |c: char| "\"$`!\n".contains(c);
    if word.chars().any(needs_single) || word.ends_with('\\') || word.contains("\\\\") {
        return format!("'{}'", word.replace('\'', r"'\''"));
    }
    format!("\"{word}\"")
}
