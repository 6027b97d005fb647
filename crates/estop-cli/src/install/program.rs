//! Programs on this machine: which estop is running, and whether a client is there.

use std::path::{Path, PathBuf};

use anyhow::Context;

/// The path of this estop for a client's settings. A link that leads here stays a link, so that an update of what it
/// leads to is taken up.
pub(crate) fn of_this() -> anyhow::Result<String> {
    let here = std::env::current_exe().context("cannot find out where estop is")?;
    let called = std::env::args_os().next().map(PathBuf::from);
    let called = called.and_then(|name| match name.components().count() {
        1 => find(name.to_str()?),
        _ => std::path::absolute(name).ok(),
    });
    let is_here = |path: &PathBuf| path.canonicalize().ok() == here.canonicalize().ok();
    let path = called.filter(is_here).unwrap_or(here);
    let path = path.to_str().context("the path of estop is not UTF-8 text: move it")?;
    anyhow::ensure!(
        Path::new(path).is_file(),
        "{path} is not there any more: start the estop that was put in its place"
    );
    Ok(path.to_owned())
}

/// A program in PATH.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    let found =
        std::env::split_paths(&paths).map(|folder| folder.join(name)).find(|path| is_program(path))?;
    std::path::absolute(found).ok()
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}
