//! Which branch a folder is on, read from `.git/HEAD` (CB-8): an escalation names it. Reads two small files at most.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Deeper than any project; a loop of links must not cost more.
const FOLDERS_MAX: usize = 64;
/// A reference is shorter; what follows is none.
const HEAD_BYTES_MAX: u64 = 1024;
const BRANCH_BYTES_MAX: usize = 200;
/// Enough digits of a commit to find it.
const COMMIT_DIGITS: usize = 12;

/// The branch of the repository around a folder, or the start of the commit where no branch is checked out.
pub(crate) fn branch(folder: &Path) -> Option<String> {
    let head = folder.ancestors().take(FOLDERS_MAX).find_map(head)?;
    let head = head.trim();
    let name = match head.strip_prefix("ref:") {
        Some(reference) => {
            let reference = reference.trim();
            reference.strip_prefix("refs/heads/").unwrap_or(reference)
        }
        None if head.bytes().all(|byte| byte.is_ascii_hexdigit()) => head.get(..COMMIT_DIGITS)?,
        None => return None,
    };
    let is_fit = !name.is_empty() && name.len() <= BRANCH_BYTES_MAX;
    is_fit.then(|| name.to_owned())
}

/// What `HEAD` says, if this folder is a repository's or a worktree's.
fn head(folder: &Path) -> Option<String> {
    let git = folder.join(".git");
    let inside = if git.is_dir() { git } else { linked(folder, &text(&git)?)? };
    text(&inside.join("HEAD"))
}

/// In a worktree or submodule `.git` is a file: `gitdir: <path>`.
fn linked(folder: &Path, text: &str) -> Option<PathBuf> {
    let path = text.strip_prefix("gitdir:")?.trim();
    Some(folder.join(path))
}

fn text(path: &Path) -> Option<String> {
    // A pipe of this name would never end.
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    File::open(path).ok()?.take(HEAD_BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}
