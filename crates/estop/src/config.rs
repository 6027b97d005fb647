//! Reading policy files.
//!
//! ```
//! let file = estop::config::parse("policy: {kill_switch_enabled: true}", "estop.yaml").unwrap();
//! assert_eq!(file.resolve(None, None).loops.window_size, 20);
//!
//! let refused = estop::config::parse("polcy: {}", "estop.yaml").unwrap_err();
//! assert!(refused.to_string().starts_with("estop.yaml:1:1: unknown key `polcy`"));
//! ```
//!
//! A file is taken whole or not at all. What is refused is refused with one message that says where, what
//! and what else it could be.

mod explain;
mod place;
mod problem;
mod suggest;
mod yaml;
mod zones;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use estop_core::policy_file::{PolicyFile, PolicyFileIn};

pub use problem::{Problem, Spot};
pub use suggest::closest;
pub use yaml::read as read_yaml;
pub use zones::find as find_zone;

/// A configuration of a thousand agents has some 200 kB; more than this is not a configuration.
pub const FILE_BYTES_MAX: usize = 1024 * 1024;

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read at all.
    #[error("{}: {reason}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why, for people.
        reason: String,
    },
    /// The file says something it must not say.
    #[error(transparent)]
    Invalid(#[from] Box<Problem>),
}

/// Reads a policy file.
pub fn load(path: &Path) -> Result<PolicyFile, ConfigError> {
    let name = path.display().to_string();
    let unreadable = |reason: String| ConfigError::Unreadable { path: path.to_owned(), reason };

    // Asked before it is opened: opening a pipe waits for somebody to write into it.
    let about = std::fs::metadata(path).map_err(|error| unreadable(open_reason(&error)))?;
    if about.is_dir() {
        return Err(unreadable("is a directory; name the YAML file in it".into()));
    }
    if !about.is_file() {
        return Err(unreadable("is not a regular file".into()));
    }
    let file = File::open(path).map_err(|error| unreadable(open_reason(&error)))?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(format!("cannot be read: {error}")))?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(Problem::whole_file(&name, too_large()).into());
    }
    let text = String::from_utf8(bytes).map_err(|error| Problem::not_utf8(&name, &error))?;
    parse(&text, &name)
}

/// Reads a policy file's text; `name` stands in messages.
pub fn parse(text: &str, name: &str) -> Result<PolicyFile, ConfigError> {
    if text.len() > FILE_BYTES_MAX {
        return Err(Problem::whole_file(name, too_large()).into());
    }
    let file: PolicyFileIn = yaml::read(text, name)?;
    let checked = file.check(&zones::find).map_err(|error| explain::policy_error(&error, text, name))?;
    Ok(checked)
}

fn open_reason(error: &std::io::Error) -> String {
    if error.kind() == std::io::ErrorKind::NotFound {
        "no such file".into()
    } else {
        format!("cannot be opened: {error}")
    }
}

fn too_large() -> String {
    format!("larger than {FILE_BYTES_MAX} bytes, the most a configuration may have")
}

impl From<Problem> for ConfigError {
    fn from(problem: Problem) -> ConfigError {
        ConfigError::Invalid(Box::new(problem))
    }
}
