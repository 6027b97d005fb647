//! The project a program runs in, and the program itself: names, and whether it is there.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::NotStarted;

/// The longest name of an agent or a run.
const NAME_MAX: usize = 64;
/// Deeper than any project.
const FOLDERS_MAX: usize = 64;

/// The agent's name when nobody gives one: the project folder's, made fit.
pub(super) fn agent_name(folder: &Path) -> String {
    let repository = folder.ancestors().take(FOLDERS_MAX).find(|folder| folder.join(".git").exists());
    let name = repository.unwrap_or(folder).file_name().map(base_name).unwrap_or_default();
    let name = fit(&name, NAME_MAX);
    // The journal's own name is nobody's.
    if name == "system" { "system-project".to_owned() } else { name }
}

/// A name with what no name may have replaced: letters, digits, `.`, `_` and `-`, and neither dot nor `-` first.
pub(super) fn fit(name: &str, max: usize) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let name: String = name.chars().map(|c| if fits(c) { c } else { '-' }).collect();
    let name: String = name.trim_start_matches(['.', '-']).chars().take(max).collect();
    if name.is_empty() { "project".to_owned() } else { name }
}

/// The last part of a path, as text.
pub(super) fn base_name(path: &OsStr) -> String {
    Path::new(path).file_name().unwrap_or(path).to_string_lossy().into_owned()
}

/// Whether a program is there, as a shell would find it.
pub(super) fn find_program(program: &OsStr) -> anyhow::Result<()> {
    let not_started = |code, why| Err(NotStarted { code, why }.into());
    let name = program.display();
    if Path::new(program).components().count() > 1 || program.as_encoded_bytes().contains(&b'/') {
        return match Path::new(program).metadata() {
            Err(_) => not_started(127, format!("there is no program {name}: check its path")),
            Ok(about) if !is_executable(&about) => {
                not_started(126, format!("{name} is not executable: chmod +x it, or name another program"))
            }
            Ok(_) => Ok(()),
        };
    }
    let folders = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let is_there =
        |folder: std::path::PathBuf| folder.join(program).metadata().is_ok_and(|about| is_executable(&about));
    if std::env::split_paths(&folders).any(is_there) {
        return Ok(());
    }
    not_started(127, format!("there is no program {name} in PATH: install it, or write its path"))
}

fn is_executable(about: &std::fs::Metadata) -> bool {
    about.is_file() && about.permissions().mode() & 0o111 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tl_2_a_folders_name_is_made_fit_for_an_agent() {
        let name = |path: &str| agent_name(Path::new(path));
        assert_eq!(name("/no/such/my-app"), "my-app");
        assert_eq!(name("/no/such/Größe & co"), "Gr--e---co");
        assert_eq!(name("/no/such/.dots"), "dots");
        assert_eq!(name("/no/such/system"), "system-project");
        assert_eq!(name("/no/such/..."), "project");
        assert_eq!(name(&format!("/no/such/{}", "a".repeat(80))).len(), 64);
    }
}
