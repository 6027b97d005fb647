//! `estop install` without a client: which clients are on this machine, and how each stands.

use std::path::PathBuf;

use estop_config::printable::escaped;
use estop_wire::hooks::HookClient;
use serde::{Serialize, Serializer};
use serde_json::json;

use super::settings::{Removed, Scope, targets};
use super::{file, paths, program, strict};
use crate::clients::{self, Descriptor};
use crate::table::table;
use crate::{Exit, say, say_json};

/// How a client stands. Shared with `doctor`.
#[derive(Debug, Serialize)]
pub(crate) struct Standing {
    #[serde(rename = "client", serialize_with = "as_name")]
    pub(crate) client: HookClient,
    /// Its program, if it is in PATH.
    pub(crate) program: Option<String>,
    /// Its program or its folder is here.
    pub(crate) found: bool,
    /// Scopes in which it has our hooks.
    #[serde(serialize_with = "as_names")]
    pub(crate) installed: Vec<Installed>,
    /// What cannot be read.
    pub(crate) problem: Option<String>,
}

/// Our hooks in one scope.
#[derive(Debug)]
pub(crate) struct Installed {
    pub(crate) scope: Scope,
    /// The files they are in, with their texts.
    pub(crate) files: Vec<(PathBuf, String)>,
}

impl Installed {
    /// As `--scope` takes it.
    pub(crate) fn name(&self) -> &'static str {
        match self.scope {
            Scope::User => "user",
            Scope::Project => "project",
            Scope::System => "system",
        }
    }
}

fn as_name<S: Serializer>(client: &HookClient, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(client.name())
}

fn as_names<S: Serializer>(scopes: &[Installed], s: S) -> Result<S::Ok, S::Error> {
    s.collect_seq(scopes.iter().map(Installed::name))
}

/// Every client there is, and how it stands.
pub(crate) fn standings() -> Vec<Standing> {
    clients::ALL.iter().map(standing).collect()
}

pub(super) fn main(as_json: bool) -> anyhow::Result<Exit> {
    let all = standings();
    if as_json {
        say_json(&json!({"clients": all}))?;
        return Ok(Exit::Fine);
    }
    let row = |standing: &Standing| {
        let found = match (&standing.program, standing.found) {
            (Some(program), _) => program.clone(),
            (None, true) => "its folder is here".to_owned(),
            (None, false) => "not found".to_owned(),
        };
        let asks = match (&standing.problem, standing.installed.as_slice()) {
            (Some(problem), _) => problem.clone(),
            (None, []) => "no".to_owned(),
            (None, scopes) => {
                let names: Vec<&str> = scopes.iter().map(Installed::name).collect();
                format!("yes ({})", names.join(", "))
            }
        };
        [standing.client.name().to_owned(), escaped(&found), escaped(&asks)]
    };
    say(&table(["client", "found", "asks estop"], all.iter().map(row)))?;
    say("`estop install CLIENT` has a client ask estop before its tools.")?;
    Ok(Exit::Fine)
}

fn standing(descriptor: &Descriptor) -> Standing {
    let client = descriptor.client;
    let program = descriptor.programs().find_map(program::find);
    let has_folder = paths::resolved(descriptor.home).is_ok_and(|folder| folder.is_dir());
    let mut standing = Standing {
        client,
        found: program.is_some() || has_folder,
        program: program.map(|path| path.display().to_string()),
        installed: Vec::new(),
        problem: None,
    };
    for scope in [Scope::User, Scope::Project, Scope::System] {
        match installed(client, scope) {
            Ok(found) => standing.installed.extend(found),
            Err(error) => standing.problem = Some(format!("{error:#}")),
        }
    }
    standing
}

fn installed(client: HookClient, scope: Scope) -> anyhow::Result<Option<Installed>> {
    let Ok(targets) = targets(client, scope, &["estop".to_owned()]) else { return Ok(None) };
    let mut files = Vec::new();
    for target in targets {
        let path = paths::resolved(&target.path)?;
        let found = file::read(&path)?;
        let Some(text) = found.text() else { return Ok(None) };
        let removed = target.remove(text).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
        if removed == Removed::Unchanged {
            return Ok(None);
        }
        strict::check(client, &path, text)?;
        files.push((path, text.to_owned()));
    }
    Ok(Some(Installed { scope, files }))
}
