//! Keys of the configuration that the environment sets: `ESTOP_LISTEN__DATA` is `listen.data`.

use super::env::{Env, NotText};
use super::known_keys::keys_of;
use super::problem::Problem;
use super::shape::FileIn;

const PREFIX: &str = "ESTOP_";
/// What a program under `estop run` has in its environment, and nobody else: never about the configuration, whatever keys
/// there are.
pub const OF_A_RUN: &[&str] =
    &["ESTOP_AGENT", "ESTOP_RUN", "ESTOP_TICKET", "ESTOP_SOCKET", "ESTOP_BASE_URL", "ESTOP_TREE"];

/// It names levels, not the keys of `log:`.
pub(super) const LOG_VARIABLE: &str = "ESTOP_LOG";

/// One variable that sets a key.
#[derive(Clone, Debug)]
pub(super) struct Override {
    pub(super) variable: String,
    /// From the top; at least one. Small letters.
    pub(super) keys: Vec<String>,
    /// Not empty.
    pub(super) value: String,
}

impl Override {
    /// Whether this variable sets the key at `path` or a section around it.
    pub(super) fn sets(&self, path: &[String]) -> bool {
        self.keys.len() <= path.len() && self.keys.iter().zip(path).all(|(key, name)| is_meant(key, name))
    }

    /// Whether this variable sets something below `path`.
    pub(super) fn is_below(&self, path: &[String]) -> bool {
        self.keys.len() > path.len() && self.keys.iter().zip(path).all(|(key, name)| is_meant(key, name))
    }

    /// What is wrong with it.
    pub(super) fn problem(&self, message: String) -> Problem {
        problem(&self.variable, message)
    }
}

/// A message whose place is a variable.
pub(super) fn problem(variable: &str, message: String) -> Problem {
    Problem::at(&format!("environment variable {variable}"), None, message)
}

/// Variables have no dashes and one case: `MY_AGENT` is `my-agent`, if the file has one, or `My Agent`.
pub(super) fn is_meant(key: &str, name: &str) -> bool {
    let plain = |c: char| if "- ".contains(c) { '_' } else { c };
    key.chars().map(plain).eq(name.chars().flat_map(char::to_lowercase).map(plain))
}

/// All variables that set a key, in order of name. `ESTOP_ADMIN_TOKEN` and others that name no key are left alone.
pub(super) fn overrides(env: &Env) -> Result<Vec<Override>, Problem> {
    let mut found: Vec<Override> = Vec::new();
    for variable in env.names() {
        let Some(keys) = keys(variable) else { continue };
        if keys[0] == "include" {
            return Err(problem(variable, "has no meaning: `include` stands in the file".into()));
        }
        let value = match env.get(variable) {
            Some(Ok("")) => return Err(problem(variable, "has no value; give one or unset it".into())),
            Some(Ok(value)) => value.to_owned(),
            Some(Err(NotText)) => return Err(problem(variable, "is not UTF-8 text".into())),
            None => continue,
        };
        if let Some(other) = found.iter().find(|other| other.keys == keys) {
            let message = format!("sets {}, and so does {}; unset one", keys.join("."), other.variable);
            return Err(problem(variable, message));
        }
        found.push(Override { variable: variable.to_owned(), keys, value });
    }
    Ok(found)
}

/// The keys a variable names; `None` if it is not about the configuration.
fn keys(variable: &str) -> Option<Vec<String>> {
    if OF_A_RUN.contains(&variable) || variable == LOG_VARIABLE {
        return None;
    }
    let path = variable.strip_prefix(PREFIX)?.to_lowercase();
    let is_ours = path.contains("__") || keys_of::<FileIn>().contains(&path.as_str());
    is_ours.then(|| path.split("__").map(str::to_owned).collect())
}
