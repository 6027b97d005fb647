//! Which configuration file is read.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::ConfigError;
use super::env::Env;
use super::overrides;
use super::paths::directory;

/// It names the file.
const VARIABLE: &str = "ESTOP_CONFIG";
const SYSTEM_FILE: &str = "/etc/estop/estop.yaml";

/// The file that is named, else that of `ESTOP_CONFIG`, else the person's own, else the machine's. One that is there and
/// cannot be read is meant too: whoever reads it says why, and nothing starts by default rules instead.
pub(super) fn find(named: Option<&Path>, env: &Env) -> Result<Option<PathBuf>, ConfigError> {
    find_among(named, env, Path::new(SYSTEM_FILE))
}

/// A file in one of those places whose name ends with `.yml`: nobody reads it, and whoever wrote it thinks otherwise.
pub(super) fn overlooked(env: &Env) -> Option<PathBuf> {
    overlooked_among(env, Path::new(SYSTEM_FILE))
}

fn overlooked_among(env: &Env, system: &Path) -> Option<PathBuf> {
    if env.get(VARIABLE).is_some() {
        return None;
    }
    places(env, system).map(|file| file.with_extension("yml")).find(|file| is_there(file))
}

/// The person's own file, and the machine's.
fn places(env: &Env, system: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let settings =
        directory("XDG_CONFIG_HOME", env).or_else(|| directory("HOME", env).map(|home| home.join(".config")));
    let own = settings.map(|folder| folder.join("estop/estop.yaml"));
    own.into_iter().chain([system.to_owned()])
}

fn find_among(named: Option<&Path>, env: &Env, system: &Path) -> Result<Option<PathBuf>, ConfigError> {
    if let Some(named) = named {
        return Ok(Some(named.to_owned()));
    }
    match env.get(VARIABLE) {
        None => {}
        Some(Ok("")) => return Err(problem("has no value; name a file or unset it")),
        Some(Ok(path)) => return Ok(Some(path.into())),
        Some(Err(_)) => return Err(problem("is not UTF-8 text")),
    }
    Ok(places(env, system).find(|file| is_there(file)))
}

fn is_there(file: &Path) -> bool {
    // Of a link itself: what it leads to may not be mounted yet.
    match std::fs::symlink_metadata(file) {
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
    }
}

fn problem(message: &str) -> ConfigError {
    overrides::problem(VARIABLE, message.to_owned()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ob_3_the_named_file_goes_before_the_variable_the_persons_and_the_machines() {
        let folder = tempfile::tempdir().expect("a folder");
        let system = folder.path().join("system.yaml");
        let own = folder.path().join("settings/estop/estop.yaml");
        let settings = folder.path().join("settings");
        let env: Env = [("XDG_CONFIG_HOME", settings.as_os_str())].into_iter().collect();
        let found = |named: Option<&str>, env: &Env| {
            find_among(named.map(Path::new), env, &system).expect("nothing is wrong with it")
        };
        assert_eq!(found(None, &env), None);
        std::fs::write(&system, "").expect("written");
        assert_eq!(found(None, &env).as_ref(), Some(&system));
        std::fs::create_dir_all(settings.join("estop")).expect("made");
        std::fs::write(&own, "").expect("written");
        assert_eq!(found(None, &env), Some(own));
        let told = env.with(VARIABLE, "of-variable.yaml");
        assert_eq!(found(None, &told), Some("of-variable.yaml".into()), "there or not: reading says so");
        assert_eq!(found(Some("named.yaml"), &told), Some("named.yaml".into()));
    }

    #[test]
    fn ob_3_a_file_with_another_ending_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let other = folder.path().join("estop.yml");
        std::fs::write(&other, "").expect("written");
        let (system, env) = (folder.path().join("estop.yaml"), Env::default());
        assert_eq!(find_among(None, &env, &system).expect("found"), None);
        assert_eq!(overlooked_among(&env, &system), Some(other));
        assert_eq!(overlooked_among(&env.with(VARIABLE, "mine.yaml"), &system), None);
    }

    #[test]
    fn ob_3_without_xdg_the_persons_file_is_below_home() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = folder.path().join(".config/estop/estop.yaml");
        std::fs::create_dir_all(own.parent().expect("a parent")).expect("made");
        std::fs::write(&own, "").expect("written");
        let env: Env = [("HOME", folder.path().as_os_str())].into_iter().collect();
        assert_eq!(find_among(None, &env, Path::new("/nowhere")).expect("found"), Some(own));
    }

    #[test]
    fn ob_3_a_file_that_cannot_be_looked_at_is_not_passed_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let looped = folder.path().join("estop.yaml");
        std::os::unix::fs::symlink(&looped, &looped).expect("linked");
        assert_eq!(find_among(None, &Env::default(), &looped).expect("found"), Some(looped));
    }

    #[test]
    fn ob_3_a_link_to_nothing_is_not_passed_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let link = folder.path().join("estop.yaml");
        std::os::unix::fs::symlink(folder.path().join("not-mounted-yet"), &link).expect("linked");
        assert_eq!(find_among(None, &Env::default(), &link).expect("found"), Some(link));
    }

    #[test]
    fn ob_3_an_empty_variable_is_refused() {
        let env: Env = [(VARIABLE, " ")].into_iter().collect();
        let error = find(None, &env).expect_err("refused").to_string();
        assert_eq!(error, "environment variable ESTOP_CONFIG: has no value; name a file or unset it");
    }
}
