//! `estop install mcp --client CLIENT`: puts the MCP servers in a client's settings behind the gate (TL-3).
//!
//! What stands in which file, and how it changes, is [`super::settings`].

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::Context;
use estop_config::{Env, McpServer, ServeConfig};
use estop_wire::hooks::HookClient;
use serde_json::{Value, json};

use super::edit::{Edit, Outcome};
use super::settings::{McpEntry, McpGate, McpLocation, McpOutcome, Removed, Scope, mcp_locations};
use super::{WhereArgs, client, file, paths};
use crate::{Exit, say, say_json};

/// The word in the client's place that means its MCP servers.
pub(super) const WORD: &str = "mcp";

/// Which MCP servers. Shared with `uninstall`.
#[derive(Debug, clap::Args)]
pub(crate) struct McpArgs {
    /// With `mcp`: whose MCP servers are put behind the gate
    #[arg(long = "client", id = "mcp_client", value_name = "CLIENT")]
    client: Option<String>,
    /// With `mcp`: only this server
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    server: Option<String>,
    /// With `mcp`: all servers of the client, which is also what happens without --server
    #[arg(long)]
    all: bool,
    /// With `mcp`: estop's configuration file, which names the servers that are URLs
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl McpArgs {
    /// Hooks have no servers to choose from.
    pub(super) fn must_be_empty(&self) -> anyhow::Result<()> {
        let is_empty = self.client.is_none() && self.server.is_none() && !self.all && self.config.is_none();
        anyhow::ensure!(is_empty, "--client, --server, --all and --config belong to `estop install mcp`");
        Ok(())
    }
}

/// What to do, and to whom.
pub(super) struct Asked<'a> {
    pub(super) mcp: &'a McpArgs,
    pub(super) place: &'a WhereArgs,
    pub(super) agent: Option<&'a str>,
    /// The estop to ask, if it is not the usual one.
    pub(super) data_dir: Option<&'a Path>,
    /// estop and its options; empty to take servers from behind the gate.
    pub(super) words: Vec<String>,
    pub(super) removes: bool,
}

/// estop's own MCP servers, and where its gate is.
#[derive(Default)]
struct Known {
    servers: std::collections::BTreeMap<String, McpServer>,
    base: String,
}

impl Known {
    /// Of the configuration file, or else of the environment. Where the environment's cannot be read none is known; nor
    /// where the estop of another data directory is meant, whose servers and address may be others.
    fn read(agent: Option<&str>, file: Option<&Path>, data_dir: Option<&Path>) -> anyhow::Result<Known> {
        let is_meant = |config: &ServeConfig| {
            let full = |path: &Path| std::path::absolute(path).ok();
            file.is_some() || data_dir.is_none_or(|folder| full(folder) == full(&config.data_dir))
        };
        let config = match estop_config::load_serve(file, &Env::of_process()) {
            Err(error) if file.is_some() => return Err(error.into()),
            read => read.ok().filter(is_meant),
        };
        let Some(config) = config else { return Ok(Known::default()) };
        let scheme = if config.tls.is_some() { "https" } else { "http" };
        let of = agent.map(|agent| format!("/agents/{agent}")).unwrap_or_default();
        let address = here(config.listen.data);
        Ok(Known { servers: config.mcp_servers, base: format!("{scheme}://{address}{of}/mcp/") })
    }

    fn address(server: &McpServer) -> String {
        format!("{}{}", server.url, if server.ends_with_slash { "/" } else { "" })
    }

    /// The gate's URL for a server that the configuration knows by this name and URL.
    fn gate(&self, name: &str, url: &str) -> Option<String> {
        let server = self.servers.get(name)?;
        let is_same = Known::address(server).trim_end_matches('/') == url.trim_end_matches('/');
        is_same.then(|| format!("{}{name}", self.base))
    }

    /// The URL behind the gate's.
    fn behind(&self, name: &str, url: &str) -> Option<String> {
        let server = self.servers.get(name)?;
        let is_gate = url.starts_with("http")
            && url.ends_with(&format!("/mcp/{name}"))
            && url != Known::address(server);
        let is_here = self.base.split("/mcp/").next().is_some_and(|base| {
            let host = base.split("/agents/").next().unwrap_or(base);
            !host.is_empty() && url.starts_with(host)
        });
        (is_gate && is_here).then(|| Known::address(server))
    }
}

/// Where programs of this machine reach one that listens everywhere.
fn here(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

/// Runs `estop install mcp` and `estop uninstall mcp`.
pub(super) fn main(asked: &Asked<'_>) -> anyhow::Result<Exit> {
    let name = asked.mcp.client.as_deref();
    let name =
        name.context("say whose MCP servers are meant: --client claude-code, codex, gemini-cli, cursor, …")?;
    let client = client(name)?;
    let scope = Scope::from(asked.place.scope);
    let known = Known::read(asked.agent, asked.mcp.config.as_deref(), asked.data_dir)?;
    let gate = McpGate {
        words: &asked.words,
        only: asked.mcp.server.as_deref(),
        url: &|name, url| known.gate(name, url),
        behind: &|name, url| known.behind(name, url),
    };
    let (mut outcomes, mut servers) = (Vec::new(), Vec::new());
    for mcp in mcp_locations(client, scope)? {
        let path = paths::resolved(mcp.path)?;
        let found = file::read(&path)?;
        let Some(text) = found.text().map(str::to_owned) else { continue };
        let untouched = || format!("{} was left as it is", path.display());
        let edit = if asked.removes {
            let removed = mcp.remove(&text, &gate).with_context(untouched)?;
            let round = |copy: &str| mcp.remove(&mcp.add(copy, &gate).ok()?.0, &gate).ok();
            Edit::removed(path.clone(), found, &removed, round)?
        } else {
            let (after, entries) = mcp.add(&text, &gate).with_context(untouched)?;
            let is_ours = entries.iter().any(|one| one.outcome == McpOutcome::Already);
            servers.extend(entries);
            Edit::added(client, path.clone(), found, after, is_ours)
        };
        let outcome = edit.outcome();
        if !asked.place.dry_run {
            edit.carry_out()?;
        }
        outcomes.push(outcome);
    }
    answer(asked, client.name(), &outcomes, &servers)
}

/// Whether a server in this text is behind the gate.
pub(super) fn has_gated(place: &McpLocation, text: &str) -> bool {
    let known = Known::read(None, None, None).unwrap_or_default();
    // The gate is on this machine, as a rule; which file named the server is not known any more.
    let is_here = |url: &str| {
        ["http://127.", "http://[::1]:", "https://127.", "https://[::1]:"]
            .iter()
            .any(|start| url.starts_with(start))
    };
    let behind = |name: &str, url: &str| {
        let is_gate = is_here(url) && url.ends_with(&format!("/mcp/{name}"));
        known.behind(name, url).or_else(|| is_gate.then(String::new))
    };
    let gate = McpGate { words: &[], only: None, url: &|_, _| None, behind: &behind };
    place.remove(text, &gate).is_ok_and(|removed| removed != Removed::Unchanged)
}

/// The MCP servers of a client that are behind the gate as commands: file, server, and the estop that is started.
pub(crate) fn gated_servers(client: HookClient) -> Vec<(PathBuf, String, String)> {
    let mut all = Vec::new();
    for mcp in
        [Scope::User, Scope::Project].into_iter().flat_map(|scope| mcp_locations(client, scope)).flatten()
    {
        let Ok(path) = paths::resolved(mcp.path) else { continue };
        let found = file::read(&path).ok();
        // What cannot be read is the client's business: it says so itself.
        let text = found.as_ref().and_then(|found| found.text());
        let servers = text.and_then(|text| mcp.programs(text).ok()).unwrap_or_default();
        all.extend(servers.into_iter().map(|(server, program)| (path.clone(), server, program)));
    }
    all
}

fn answer(asked: &Asked<'_>, client: &str, files: &[Outcome], servers: &[McpEntry]) -> anyhow::Result<Exit> {
    let is_changed = files.iter().any(Outcome::is_change);
    let mut notes: Vec<String> = servers.iter().filter_map(note).collect();
    let last = match (asked.removes, is_changed, asked.place.dry_run) {
        (_, true, true) => "Nothing was changed (--dry-run).".to_owned(),
        (false, true, false) => format!(
            "The MCP servers of {client} are behind the gate from its next start on. `estop uninstall mcp --client \
             {client}` takes them out again."
        ),
        (false, false, _) if servers.is_empty() => {
            format!("{client} has no such MCP server here: nothing to change.")
        }
        (false, false, _) => format!("Nothing to change for {client}."),
        (true, true, false) => format!("The MCP servers of {client} are as they were."),
        (true, false, _) => format!("No MCP server of {client} is behind the gate here: nothing to change."),
    };
    notes.push(last);
    let is_open = servers.iter().any(|one| is_left_open(&one.outcome));
    if asked.place.json {
        let shown = |one: &McpEntry| json!({"server": one.name, "outcome": word(&one.outcome)});
        let servers: Vec<Value> = servers.iter().map(shown).collect();
        say_json(
            &json!({"client": client, "dry_run": asked.place.dry_run, "files": files, "servers": servers, "notes": notes}),
        )?;
    } else {
        let mut parts: Vec<String> = files.iter().map(Outcome::text).collect();
        parts.extend(notes);
        say(&parts.join("\n"))?;
    }
    Ok(if is_open { Exit::No } else { Exit::Fine })
}

fn is_left_open(outcome: &McpOutcome) -> bool {
    match outcome {
        McpOutcome::Gated | McpOutcome::Already => false,
        McpOutcome::UnknownUrl(_) | McpOutcome::Unreadable => true,
    }
}

fn word(outcome: &McpOutcome) -> &'static str {
    match outcome {
        McpOutcome::Gated => "gated",
        McpOutcome::Already => "already",
        McpOutcome::UnknownUrl(_) => "unknown_url",
        McpOutcome::Unreadable => "unreadable",
    }
}

fn note(one: &McpEntry) -> Option<String> {
    let name = estop_config::printable::escaped(&one.name);
    match &one.outcome {
        McpOutcome::Gated | McpOutcome::Already => None,
        McpOutcome::UnknownUrl(url) => {
            let url = json!(url);
            Some(format!(
                "{name} is not behind the gate: estop's configuration does not know it. Add this to estop.yaml, restart \
                 estop, and run this again with --config estop.yaml:\n  mcp: {{servers: {{{name}: {{url: {url}}}}}}}"
            ))
        }
        McpOutcome::Unreadable => Some(format!(
            "{name} is not behind the gate: it has neither a command nor a URL of streamable HTTP."
        )),
    }
}
