//! Where the files of the clients are on this machine.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::clients::Descriptor;

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

/// Files that may hold a switch for this client's hooks.
pub(super) fn switches(descriptor: &Descriptor) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        descriptor.switch.files.iter().filter_map(|path| resolved(path).ok()).collect();
    // In the home folder the project's file is the person's.
    found.dedup();
    found
}
