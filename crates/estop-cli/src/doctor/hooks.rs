//! Coding agents: whether those on this machine ask estop, whether they would be kept from it, and which estop they ask.

use std::path::{Path, PathBuf};

use estop_config::{Env, usual_data_dir};
use estop_wire::hooks::HookClient;

use super::{Area, Finding};
use crate::clients::Descriptor;
use crate::install::settings::{Scope, estop_words, survives_repository};
use crate::install::{self, Installed, Standing};

const AREA: Area = Area("hooks");
const MCP: Area = Area("mcp servers");

/// All clients. `folder` is the data directory they should ask.
pub(super) fn check(folder: Option<&Path>, env: &Env) -> Vec<Finding> {
    let mut findings = Vec::new();
    for standing in install::standings() {
        findings.extend(of_client(&standing, folder, env));
        findings.extend(servers(standing.client));
    }
    if findings.is_empty() {
        findings.push(AREA.ok("no coding agent was found here"));
    }
    findings
}

fn of_client(standing: &Standing, folder: Option<&Path>, env: &Env) -> Vec<Finding> {
    let client = standing.client;
    let name = client.name();
    if let Some(problem) = &standing.problem {
        return vec![AREA.wrong(format!("{name}: {problem}"), "correct the file it names")];
    }
    if standing.installed.is_empty() {
        return not_asking(standing).into_iter().collect();
    }
    let mut findings = switched_off(client, &standing.installed);
    for installed in &standing.installed {
        findings.extend(programs(client, installed, folder, env));
        findings.extend(trust(client, installed));
    }
    if findings.is_empty() {
        let scopes: Vec<&str> = standing.installed.iter().map(Installed::name).collect();
        let but = Descriptor::of(client).map_or("", |descriptor| descriptor.caveat);
        findings.push(AREA.ok(format!("{name} asks estop ({}){but}", scopes.join(", "))));
    }
    findings
}

fn not_asking(standing: &Standing) -> Option<Finding> {
    let name = standing.client.name();
    match (&standing.program, standing.found) {
        (Some(_), _) => Some(AREA.warning(
            format!("{name} is on this machine and does not ask estop before its tools"),
            format!("`estop install {name}`, or run it under `estop run`"),
        )),
        (None, true) => Some(AREA.ok(format!("{name} left its folder here, and is not in PATH"))),
        (None, false) => None,
    }
}

/// Switches that keep all hooks of ours from running.
fn switched_off(client: HookClient, installed: &[Installed]) -> Vec<Finding> {
    if installed.iter().any(|one| survives_repository(client, one.scope)) {
        return Vec::new();
    }
    let name = client.name();
    let stronger = if survives_repository(client, Scope::System) {
        format!(", or put them where it cannot reach: `estop install {name} --scope system`, as root")
    } else {
        String::new()
    };
    let one = |(path, key): (PathBuf, &str)| {
        AREA.wrong(
            format!(
                "{name} will not run estop's hooks here: `{key}` in {} switches them off",
                path.display()
            ),
            format!("take it out{stronger}"),
        )
    };
    install::switches_set(client).into_iter().map(one).collect()
}

/// The estop that the hooks start, and the data directory it asks.
fn programs(client: HookClient, installed: &Installed, folder: Option<&Path>, env: &Env) -> Vec<Finding> {
    let (name, scope) = (client.name(), installed.name());
    let again = format!("`estop install {name} --scope {scope}` writes them anew");
    let mut found: Vec<Vec<String>> =
        installed.files.iter().flat_map(|(_, text)| estop_words(client, text)).collect();
    found.sort();
    found.dedup();
    let mut findings = Vec::new();
    for words in found {
        match standing_of(words.first().map_or("estop", String::as_str)) {
            Program::This => {}
            Program::Other(path) => findings.push(AREA.warning(
                format!("the hooks of {name} ({scope}) start another estop than this one: {}", path.display()),
                format!("if it is not meant: {again}"),
            )),
            Program::Missing(path) => findings.push(AREA.wrong(
                format!("the hooks of {name} ({scope}) start {path}, which is not there: tools are refused or unseen"),
                again.clone(),
            )),
        }
        findings.extend(asks(&words, folder, env).map(|asked| {
            let folder = folder.map(|folder| folder.display().to_string()).unwrap_or_default();
            AREA.warning(
                format!("the hooks of {name} ({scope}) ask the estop of {asked}, not that of {folder}"),
                format!("if it is not meant: `estop install {name} --scope {scope} --data-dir {folder}`"),
            )
        }));
    }
    findings
}

/// A program that clients were told to start.
enum Program {
    This,
    Other(PathBuf),
    Missing(String),
}

fn standing_of(word: &str) -> Program {
    let path = if word.contains('/') { Some(PathBuf::from(word)) } else { install::find_program(word) };
    let Some(path) = path.filter(|path| path.is_file()) else { return Program::Missing(word.to_owned()) };
    let same = |a: &Path, b: &Path| a.canonicalize().ok() == b.canonicalize().ok();
    match install::this_program() {
        Ok(this) if !same(Path::new(&this), &path) => Program::Other(path),
        Ok(_) | Err(_) => Program::This,
    }
}

/// Whom these words ask, if it is not the estop of this data directory.
fn asks(words: &[String], folder: Option<&Path>, env: &Env) -> Option<String> {
    let option = |name: &str| {
        let at = words.iter().position(|word| word == name)?;
        words.get(at + 1).cloned()
    };
    if let Some(url) = option("--url") {
        return Some(url);
    }
    let asked = option("--data-dir").map(PathBuf::from).or_else(|| usual_data_dir(env))?;
    let whole = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path)).ok();
    (whole(&asked) != whole(folder?)).then(|| asked.display().to_string())
}

/// Codex skips hooks it does not trust, without a word.
fn trust(client: HookClient, installed: &Installed) -> Option<Finding> {
    Descriptor::of(client).filter(|descriptor| descriptor.needs_trust)?;
    let (path, _) = installed.files.first()?;
    let fix = format!(
        "`estop install codex --scope {}`, or start `codex`, open /hooks and trust them",
        installed.name()
    );
    match install::codex_trusts(path) {
        Ok(true) => None,
        Ok(false) => {
            Some(AREA.wrong(
                format!("codex does not trust estop's hooks in {}, and skips them", path.display()),
                fix,
            ))
        }
        Err(error) => {
            let what = format!("codex cannot be asked whether it trusts estop's hooks: {error:#}");
            Some(AREA.warning(what, fix))
        }
    }
}

/// MCP servers behind the gate.
fn servers(client: HookClient) -> Vec<Finding> {
    let name = client.name();
    let one = |(file, server, program): (PathBuf, String, String)| match standing_of(&program) {
        Program::This | Program::Other(_) => MCP.ok(format!("{server} of {name} is behind the gate")),
        Program::Missing(path) => MCP.wrong(
            format!("{server} of {name} cannot start: its gate {path} is not there ({})", file.display()),
            format!("`estop uninstall mcp --client {name}`, then `estop install mcp --client {name}`"),
        ),
    };
    install::gated_servers(client).into_iter().map(one).collect()
}
