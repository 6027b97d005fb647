//! `estop install CLIENT`: tells a coding agent to ask estop before its tools (TL-1). `uninstall` takes it back.
//!
//! What stands in which file is [`settings`]; here files are read, shown and written. A file that
//! cannot be understood is left alone.

mod codex;
mod detect;
mod diff;
mod edit;
mod file;
mod list;
mod mcp;
mod paths;
mod program;
pub mod settings;
mod strict;

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use estop_config::Env;
use estop_wire::agent_name::{NAME_MAX, is_agent_name};
use estop_wire::hooks::HookClient;
use serde::Serialize;
use serde_json::json;

use super::{Exit, say, say_json};
use crate::client::OnUnreachable;
use crate::clients::{self, Descriptor};
pub(super) use codex::is_trusted as codex_trusts;
use edit::{Edit, Outcome};
pub(super) use list::{Installed, Standing, standings};
pub(super) use mcp::{McpArgs, gated_servers};
pub(super) use paths::resolved as place_of;
pub(super) use program::{find as find_program, of_this as this_program};
use settings::{Scope, survives_repository, switched_off};

/// Add estop's tool-approval hooks to a coding agent; without a client, list the clients found here
///
/// Adds estop's hooks to the client's settings and shows what it changed. Everything else in the files stays as it is,
/// a copy is kept beside them (FILE.estop-backup), and installing twice changes nothing.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(help = format!("{}; or `mcp`, for a client's MCP servers", clients::names()))]
    client: Option<String>,
    #[command(flatten)]
    mcp: McpArgs,
    #[command(flatten)]
    where_to: WhereArgs,
    /// The agent that works with this client, instead of `default`
    #[arg(long, value_name = "AGENT", requires = "client")]
    agent: Option<String>,
    /// What tools do when estop cannot be asked: deny = none runs until estop is back, allow = they run unseen. Without it
    /// you are asked on a terminal; elsewhere, and for everybody on the machine (--scope system), it is deny
    #[arg(long, value_name = "deny|allow", requires = "client")]
    on_unreachable: Option<OnUnreachable>,
    /// The data directory of the estop to ask, if it is not the usual one
    #[arg(long, value_name = "FOLDER", requires = "client")]
    data_dir: Option<PathBuf>,
}

/// Which file, and how to answer. Shared with `uninstall`.
#[derive(Debug, clap::Args)]
pub(super) struct WhereArgs {
    /// Whose settings: the user's, those of the project in this folder, or everybody's on this machine
    #[arg(long, value_enum, default_value_t = ScopeArg::User)]
    scope: ScopeArg,
    /// Show what would be changed, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ScopeArg {
    User,
    Project,
    System,
}

impl From<ScopeArg> for Scope {
    fn from(scope: ScopeArg) -> Scope {
        match scope {
            ScopeArg::User => Scope::User,
            ScopeArg::Project => Scope::Project,
            ScopeArg::System => Scope::System,
        }
    }
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<Exit> {
    let Some(name) = &args.client else {
        return list::main(args.where_to.json);
    };
    if name == mcp::WORD {
        let mut words = words(args)?;
        words.insert(1, mcp::WORD.to_owned());
        let (mcp, place, agent) = (&args.mcp, &args.where_to, args.agent.as_deref());
        let data_dir = args.data_dir.as_deref();
        return mcp::main(&mcp::Asked { mcp, place, agent, data_dir, words, removes: false });
    }
    args.mcp.must_be_empty()?;
    let client = client(name)?;
    let scope = args.where_to.scope.into();
    let words = words(args)?;
    let edits = targets(client, scope, &words)?
        .into_iter()
        .map(|(path, target)| Edit::to_add(client, path, &target))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut report = Report::of(client, &args.where_to);
    report.carry_out(edits, args.where_to.dry_run)?;
    if needs_trust(client) {
        codex::trust(&mut report, scope, args.where_to.dry_run)?;
    }
    report.note_repository(client, scope);
    report.note_unreachable(&words);
    report.answer(args.where_to.json)
}

/// Runs `estop uninstall`.
pub(super) fn remove(name: &str, mcp: &McpArgs, where_from: &WhereArgs) -> anyhow::Result<Exit> {
    if name == mcp::WORD {
        let words = vec!["estop".to_owned(), mcp::WORD.to_owned()];
        let place = where_from;
        return mcp::main(&mcp::Asked { mcp, place, agent: None, data_dir: None, words, removes: true });
    }
    mcp.must_be_empty()?;
    let client = client(name)?;
    let scope = where_from.scope.into();
    // Whatever the words were then: our commands are known by their end.
    let targets = targets(client, scope, &["estop".to_owned()])?;
    let mut edits = Vec::new();
    if needs_trust(client) {
        edits.extend(codex::distrust(&targets)?);
    }
    for (path, target) in targets {
        edits.push(Edit::to_remove(path, &target)?);
    }
    let mut report = Report::of(client, where_from);
    report.removes = true;
    report.carry_out(edits, where_from.dry_run)?;
    report.answer(where_from.json)
}

fn needs_trust(client: HookClient) -> bool {
    Descriptor::of(client).is_some_and(|descriptor| descriptor.needs_trust)
}

fn client(name: &str) -> anyhow::Result<HookClient> {
    let found = clients::ALL.iter().map(|descriptor| descriptor.client).find(|client| client.name() == name);
    found.with_context(|| {
        let known: Vec<&str> = clients::ALL.iter().map(|descriptor| descriptor.client.name()).collect();
        format!(
            "there is nothing to install for `{name}`. Known are: {}. Every other framework calls `estop hook generic` \
             or POST /api/hooks/…: see docs/hooks.md",
            known.join(", ")
        )
    })
}

/// The words that start estop, as they stand in the client's settings.
fn words(args: &Args) -> anyhow::Result<Vec<String>> {
    let mut words = vec![program::of_this()?];
    let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
    if let Some(agent) = &args.agent {
        anyhow::ensure!(
            is_agent_name(agent),
            "--agent {}: a name has letters, digits, `.`, `_` and `-`, at most {NAME_MAX}, and is not `system`",
            estop_config::printable::escaped(agent)
        );
        option("--agent", agent.clone());
    }
    option("--on-unreachable", on_unreachable(args).name().to_owned());
    // Always written: what is written goes before what the environment of a hook says.
    let folder = match &args.data_dir {
        Some(folder) => folder.clone(),
        None => estop_config::usual_data_dir(&Env::of_process())
            .context("nobody says where estop keeps its data: set HOME, or name it with --data-dir")?,
    };
    let folder = std::path::absolute(folder).context("--data-dir cannot be used")?;
    option("--data-dir", folder.to_str().context("--data-dir is not UTF-8 text")?.to_owned());
    Ok(words)
}

/// What somebody chose; nobody is let through because nobody was asked.
fn on_unreachable(args: &Args) -> OnUnreachable {
    if let Some(told) = args.on_unreachable {
        return told;
    }
    let (input, mut asked) = (std::io::stdin(), std::io::stderr());
    let is_asked = input.is_terminal() && asked.is_terminal() && !args.where_to.json;
    if args.where_to.scope == ScopeArg::System || !is_asked {
        return OnUnreachable::Deny;
    }
    let question = "When estop cannot be asked (it does not run), what shall tools do?\n  \
        deny   no tool runs until estop is back\n  allow  tools run, and nobody sees them\ndeny or allow? [deny] ";
    let mut line = String::new();
    let answered = write!(asked, "{question}").and_then(|()| asked.flush());
    if answered.and_then(|()| input.lock().read_line(&mut line)).is_ok() && line.trim() == "allow" {
        OnUnreachable::Allow
    } else {
        OnUnreachable::Deny
    }
}

fn targets(
    client: HookClient,
    scope: Scope,
    words: &[String],
) -> anyhow::Result<Vec<(PathBuf, settings::Target)>> {
    let targets = settings::targets(client, scope, words)?;
    targets.into_iter().map(|target| Ok((paths::resolved(&target.path)?, target))).collect()
}

/// What was done, and what the person must know.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    client: &'static str,
    scope: &'static str,
    dry_run: bool,
    files: Vec<Outcome>,
    /// Whether the client will ask estop from now on, as far as can be seen.
    works: bool,
    /// What a file of a repository can do about it, and everything that keeps the hooks from running.
    notes: Vec<String>,
    #[serde(skip)]
    removes: bool,
}

impl Report {
    fn of(client: HookClient, args: &WhereArgs) -> Report {
        let scope = match args.scope {
            ScopeArg::User => "user",
            ScopeArg::Project => "project",
            ScopeArg::System => "system",
        };
        Report {
            client: client.name(),
            scope,
            dry_run: args.dry_run,
            files: Vec::new(),
            works: true,
            notes: Vec::new(),
            removes: false,
        }
    }

    /// Writes all of it. Everything was read and understood before, so that a file that is broken changes none.
    fn carry_out(&mut self, edits: Vec<Edit>, dry_run: bool) -> anyhow::Result<()> {
        for edit in edits {
            let outcome = edit.outcome();
            if !dry_run {
                edit.carry_out().with_context(|| self.done_so_far())?;
            }
            self.files.push(outcome);
        }
        Ok(())
    }

    /// For an error in the middle: what was written before it.
    fn done_so_far(&self) -> String {
        let done: Vec<String> = self
            .files
            .iter()
            .filter(|file| file.is_change())
            .map(|file| file.path.display().to_string())
            .collect();
        if done.is_empty() {
            "nothing was changed".to_owned()
        } else {
            format!("changed already: {}", done.join(", "))
        }
    }

    /// The hooks are there and will not run.
    fn warn(&mut self, note: String) {
        self.works = false;
        self.notes.push(note);
    }

    /// What can switch the hooks off, and whether something does.
    fn note_repository(&mut self, client: HookClient, scope: Scope) {
        for (path, key) in switches_set(client) {
            let path = path.display();
            if survives_repository(client, scope) {
                self.notes.push(format!("{path} has `{key}` to switch hooks off: these run all the same."));
            } else {
                self.warn(format!("`{key}` in {path} keeps these hooks from running. Take it out."));
            }
        }
        if survives_repository(client, scope) {
            self.notes.push("No file of a repository can switch these hooks off.".to_owned());
            return;
        }
        let stronger = if survives_repository(client, Scope::System) {
            format!(" `estop install {} --scope system`, as root, puts them where it cannot.", client.name())
        } else {
            String::new()
        };
        let how = Descriptor::of(client).map_or("", |descriptor| descriptor.switch.how);
        self.notes.push(format!("A repository can switch these hooks off {how}.{stronger}"));
    }

    /// What was chosen for the time when estop cannot be asked, and how to choose again.
    fn note_unreachable(&mut self, words: &[String]) {
        let denies = words.iter().any(|word| word == OnUnreachable::Deny.name());
        let (what, other) = if denies {
            ("no tool runs", OnUnreachable::Allow)
        } else {
            ("tools run unseen", OnUnreachable::Deny)
        };
        let client = self.client;
        self.notes.push(format!(
            "While estop cannot be asked, {what}. `estop install {client} --scope {} --on-unreachable {}` changes that.",
            self.scope,
            other.name()
        ));
    }

    fn answer(&self, as_json: bool) -> anyhow::Result<Exit> {
        if as_json {
            say_json(&json!(self))?;
        } else {
            say(&self.text())?;
        }
        Ok(if self.works { Exit::Fine } else { Exit::No })
    }

    fn text(&self) -> String {
        let mut parts: Vec<String> = self.files.iter().map(Outcome::text).collect();
        let is_changed = self.files.iter().any(Outcome::is_change);
        let what = match (self.dry_run, is_changed, self.removes) {
            (_, false, false) => format!("{} is told to ask estop already: nothing to change.", self.client),
            (_, false, true) => format!("{} has no hooks of estop here: nothing to change.", self.client),
            (true, true, _) => "Nothing was changed (--dry-run).".to_owned(),
            (false, true, false) => format!(
                "{} asks estop from its next session on. `estop uninstall {} --scope {}` takes it back.",
                self.client, self.client, self.scope
            ),
            (false, true, true) => format!("{} does not ask estop any more.", self.client),
        };
        parts.push(what);
        parts.extend(self.notes.iter().cloned());
        parts.join("\n")
    }
}

/// Files that switch this client's hooks off, each with the key that does.
pub(super) fn switches_set(client: HookClient) -> Vec<(PathBuf, &'static str)> {
    let set = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        switched_off(client, &text).map(|key| (path, key))
    };
    Descriptor::of(client).map(paths::switches).into_iter().flatten().filter_map(set).collect()
}

fn shown(path: &Path) -> String {
    estop_config::printable::escaped(&path.display().to_string())
}
