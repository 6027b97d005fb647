//! Paths of the configuration. A relative one is relative to the directory estop starts in.

use std::path::{Path, PathBuf};

use super::env::Env;
use super::fault::ValueError;
use super::values::FilePath;

/// The path with `~/` filled in.
pub(super) fn expanded(path: &FilePath, keys: &[&str], env: &Env) -> Result<PathBuf, ValueError> {
    let Some(below_home) = path.0.strip_prefix("~/") else {
        return Ok(PathBuf::from(&path.0));
    };
    let home = directory("HOME", env).ok_or_else(|| {
        ValueError::new(keys, format!("{}: `~` means nothing here, because HOME is not set", keys.join(".")))
    })?;
    Ok(home.join(below_home))
}

/// `data_dir`, else `$XDG_STATE_HOME/estop`, else `~/.local/state/estop`.
pub(super) fn data_dir(given: Option<&FilePath>, env: &Env) -> Result<PathBuf, ValueError> {
    if let Some(path) = given {
        return expanded(path, &["data_dir"], env);
    }
    let state = directory("XDG_STATE_HOME", env)
        .or_else(|| directory("HOME", env).map(|home| home.join(".local/state")));
    state.map(|state| state.join("estop")).ok_or_else(|| {
        let help = "Set `data_dir` or ESTOP_DATA_DIR.".to_owned();
        ValueError::new(
            &["data_dir"],
            "data_dir has no default, because neither HOME nor XDG_STATE_HOME is set",
        )
        .with_help(help)
    })
}

/// A variable that names a directory. The XDG rules say that a relative path is to be ignored.
pub(super) fn directory(variable: &str, env: &Env) -> Option<PathBuf> {
    let path = env.get(variable)?.ok()?;
    Path::new(path).is_absolute().then(|| PathBuf::from(path))
}
