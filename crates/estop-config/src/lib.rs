//! Reading the configuration: one file for `serve`, and for `eval` and `replay`, which use its policy keys only.
//!
//! ```
//! let file = estop_config::parse("policy: {kill_switch_enabled: true}", "estop.yaml").unwrap();
//! assert_eq!(file.resolve(None, None).loops.window_size, 20);
//!
//! let refused = estop_config::parse("polcy: {}", "estop.yaml").unwrap_err();
//! assert!(refused.to_string().starts_with("estop.yaml:1:1: unknown key `polcy`"));
//!
//! let env = [("HOME", "/home/me"), ("ESTOP_LISTEN__DATA", "[::1]:0")].into_iter().collect();
//! let serve = estop_config::parse_serve("require_keys: false", "estop.yaml", &env).unwrap();
//! assert_eq!(serve.listen.data.to_string(), "[::1]:0");
//! assert_eq!(serve.providers["groq"].base_url.to_string(), "https://api.groq.com/openai");
//! ```
//!
//! A file is taken whole or not at all. What is refused is refused with one message that says where, what
//! and what else it could be.

pub mod data_dir;
pub mod descriptors;
pub use estop_core::printable;
pub use estop_core::printed_command;

mod serve;

mod alerts;
mod base_url;
mod limits;
mod listen;
mod log;
mod log_variable;
mod mcp;
mod opentelemetry;
mod prices;
mod providers;
mod relays;
mod request_share;
mod retention;
mod triggers;

mod schema;

mod shape;
mod values;

mod env;
mod find_file;
mod given;
mod include;
mod overlay;
mod overrides;
mod paths;
mod pem_files;
mod secret_variables;
mod secrets;

mod explain;
mod fault;
mod known_keys;
mod origin;
mod problem;
mod redact;
mod startup_only;
mod suggest;
mod tree;
mod typed;
mod yaml;
mod yaml_options;
mod zones;

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use estop_core::policy_file::{PolicyFile, PolicyIn};
use rustix::fs::OFlags;
use serde::Deserialize;

use include::Texts;
use origin::{Origin, SourceText};
use overrides::Override;
use printed_command::Commands;
use shape::{DataDirIn, FileIn};
use tree::Node;

pub use alerts::Alerts;
pub use base_url::BaseUrl;
pub use env::Env;
pub use given::GivenValue;
pub use limits::Limits;
pub use listen::Listen;
pub use log::{Log, LogFormat, LogLevel, LogTarget};
pub use mcp::McpServer;
pub use opentelemetry::SpanCollector;
pub use overrides::OF_A_RUN;
pub use pem_files::{PemFiles, certificate};
pub use problem::{Problem, Spot};
pub use providers::{AuthStyle, Protocol, Provider};
pub use relays::{Relay, RelayKind};
pub use request_share::RequestShare;
pub use retention::Retention;
pub use schema::schema;
pub use secret_variables::{SecretVariables, is_own_secret};
pub use serve::{ServeConfig, TlsFiles, UnknownAgents};
pub use shape::OnStuckWorker;
pub use startup_only::StartupOnly;
pub use suggest::closest;
pub use triggers::{ButtonConfig, FileSetting, GpioConfig, Key, OnLost, TriggersConfig, WhichDevice};
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

/// Reads a configuration file for its policies.
pub fn load(path: &Path) -> Result<PolicyFile, ConfigError> {
    policies_of(&Texts::read(path)?)
}

/// Reads a configuration's text for its policies; `name` stands in messages.
pub fn parse(text: &str, name: &str) -> Result<PolicyFile, ConfigError> {
    policies_of(&Texts::alone(text, name)?)
}

fn policies_of(texts: &Texts) -> Result<PolicyFile, ConfigError> {
    let texts = texts.all();
    let tree = include::tree(&texts)?;
    let file = read_file(&tree, &texts, &[])?;
    Ok(policies(file, Origin { texts: &texts, tree: Some(&tree), overrides: &[] })?)
}

/// Reads the configuration of `estop serve`: the file that is named, else the one found in the usual places, if there is
/// one, and what the environment sets.
pub fn load_serve(named: Option<&Path>, env: &Env) -> Result<ServeConfig, ConfigError> {
    match file(named, env)? {
        Some(path) => {
            let config = serve_of(&Texts::read(&path)?, env)?;
            if named.is_none() && env.get("ESTOP_DATA_DIR").is_none() {
                check_absolute(&path, &config.data_dir)?;
            }
            Ok(ServeConfig { file: Some(path), ..config })
        }
        None => parse_serve("", "configuration", env),
    }
}

/// The configuration file: the one that is named, else that of `ESTOP_CONFIG`, else `$XDG_CONFIG_HOME/estop/estop.yaml`
/// (`~/.config` without the variable), else `/etc/estop/estop.yaml`, else none.
pub fn file(named: Option<&Path>, env: &Env) -> Result<Option<PathBuf>, ConfigError> {
    find_file::find(named, env)
}

/// Where no file is found: what is added to that, if one is there whose name ends with `.yml`.
pub fn overlooked(env: &Env) -> Option<String> {
    let file = find_file::overlooked(env)?;
    let (file, right) = (printable::escaped(&file.display().to_string()).to_string(), "estop.yaml");
    Some(format!("{file} is not read: call it {right}, or name it with --config or ESTOP_CONFIG"))
}

/// What file and environment set, each value with its place. All of it can be used: what cannot is refused as by
/// [`load_serve`].
pub fn given(named: Option<&Path>, env: &Env) -> Result<Vec<GivenValue>, ConfigError> {
    let config = load_serve(named, env)?;
    let texts = match &config.file {
        Some(path) => Texts::read(path)?,
        None => Texts::alone("", "configuration")?,
    };
    let texts = texts.all();
    let mut tree = include::tree(&texts)?;
    let overrides = overrides::overrides(env)?;
    overlay::lay(&mut tree, &overrides);
    Ok(given::values(&tree, &texts, &overrides))
}

/// Reads the configuration of `estop serve` from a file's text; `name` stands in messages.
pub fn parse_serve(text: &str, name: &str, env: &Env) -> Result<ServeConfig, ConfigError> {
    serve_of(&Texts::alone(text, name)?, env)
}

/// A configuration file, and the files and folders that it includes, as far as they can be found: whoever looks for changes
/// looks at all of them.
pub fn watched(path: &Path) -> Vec<PathBuf> {
    include::watched(path)
}

fn serve_of(texts: &Texts, env: &Env) -> Result<ServeConfig, ConfigError> {
    let texts = texts.all();
    // The files alone first, so that each mistake has its own place.
    let tree = include::tree(&texts)?;
    let mut file = read_file(&tree, &texts, &[])?;
    let overrides = overrides::overrides(env)?;
    if !overrides.is_empty() {
        let mut laid = tree.clone();
        overlay::lay(&mut laid, &overrides);
        file = read_file(&laid, &texts, &overrides)?;
    }
    let origin = Origin { texts: &texts, tree: Some(&tree), overrides: &overrides };
    let llm_enabled = serve::llm_enabled(env)?;
    let log = log_variable::log(&file.log, env)?;
    let policies = policies(file.clone(), origin)?;
    serve::check(&file, policies, env, llm_enabled, log).map_err(|fault| origin.problem(fault).into())
}

/// Where estop keeps everything by a configuration, whatever else is wrong with that: commands for a running estop must
/// reach it though its file has a mistake since, or a variable is set for the daemon alone.
pub fn data_dir(named: Option<&Path>, env: &Env) -> Result<PathBuf, ConfigError> {
    if let Some(Ok(given)) = env.get("ESTOP_DATA_DIR")
        && !given.is_empty()
    {
        return found_data_dir(Some(&values::FilePath(given.to_owned())), "configuration", env);
    }
    let usual = || found_data_dir(None, "configuration", env);
    match data_dir_of_file(named, env) {
        // A file that nobody named keeps no command, `estop kill` least of all, from the estop in the usual place.
        Err(error) if named.is_none() => usual().ok().filter(|folder| folder.is_dir()).ok_or(error),
        Ok(None) => usual(),
        Ok(Some(folder)) => Ok(folder),
        Err(error) => Err(error),
    }
}

/// What the configuration file says; `None` if there is none.
fn data_dir_of_file(named: Option<&Path>, env: &Env) -> Result<Option<PathBuf>, ConfigError> {
    let Some(path) = file(named, env)? else { return Ok(None) };
    let (text, name) = (text_of(&path)?, path.display().to_string());
    let given = match yaml::read::<DataDirIn>(&text, &name) {
        Ok(read) => read.data_dir,
        Err(_) => data_dir_line(&text),
    };
    let folder = found_data_dir(given.as_ref(), &name, env)?;
    if named.is_none() {
        check_absolute(&path, &folder)?;
    }
    Ok(Some(folder))
}

/// A file that is found by itself is read from any folder: a relative path would be another one each time, and in an agent's
/// own folder an agent could put a socket there.
fn check_absolute(file: &Path, data_dir: &Path) -> Result<(), ConfigError> {
    if data_dir.is_absolute() {
        return Ok(());
    }
    let reason = format!(
        "`data_dir: {}` is relative; in a file that is read from any folder it must begin with / or ~/",
        data_dir.display()
    );
    Err(ConfigError::Unreadable { path: file.to_owned(), reason })
}

fn found_data_dir(given: Option<&values::FilePath>, name: &str, env: &Env) -> Result<PathBuf, ConfigError> {
    let origin = Origin { texts: &[SourceText { name, text: "" }], tree: None, overrides: &[] };
    paths::data_dir(given, env).map_err(|fault| origin.problem(fault).into())
}

/// `data_dir` of a file that is no YAML, if it stands in a line of its own.
fn data_dir_line(text: &str) -> Option<values::FilePath> {
    let value = text.lines().find_map(|line| line.strip_prefix("data_dir:"))?;
    let value = value.split(" #").next().unwrap_or_default().trim().trim_matches(['"', '\'']);
    (!value.is_empty()).then(|| values::FilePath(value.to_owned()))
}

/// Where estop keeps everything if the command line names neither folder nor file.
pub fn usual_data_dir(env: &Env) -> Option<PathBuf> {
    data_dir(None, env).ok()
}

/// The commands that find an estop with this data directory. In the usual place they find it by themselves.
pub fn commands(data_dir: &Path, env: &Env) -> Commands {
    let folder = std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.to_owned());
    if usual_data_dir(env).is_some_and(|usual| usual == folder) {
        return Commands::default();
    }
    Commands::of_data_dir(&folder.to_string_lossy())
}

/// Reads a text for rules alone, as they stand below `policy:`.
pub fn read_policy(text: &str, name: &str) -> Result<PolicyIn, Problem> {
    yaml::read(text, name)
}

/// The keys at the top of a configuration.
pub fn top_keys() -> Vec<&'static str> {
    known_keys::keys_of::<FileIn>()
}

fn policies(file: FileIn, origin: Origin<'_>) -> Result<PolicyFile, Problem> {
    let checked = file.into_policy().check(&zones::find);
    checked.map_err(|error| origin.problem(explain::policy_fault(&error)))
}

fn read_tree(text: &str, name: &str) -> Result<Node, Problem> {
    if text.len() > FILE_BYTES_MAX {
        return Err(Problem::whole_file(name, too_large()));
    }
    yaml::tree(text, name)
}

fn read_file(tree: &Node, texts: &[SourceText<'_>], overrides: &[Override]) -> Result<FileIn, Problem> {
    FileIn::deserialize(tree).map_err(|refusal| explain::refused(&refusal, texts, overrides))
}

/// The text of a file that is one.
fn text_of(path: &Path) -> Result<String, ConfigError> {
    let name = path.display().to_string();
    let bytes = bytes_of(path)?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(Problem::whole_file(&name, too_large()).into());
    }
    if bytes.contains(&0) {
        return Err(Problem::whole_file(&name, "the file is not text: it has a NUL byte in it".into()).into());
    }
    Ok(String::from_utf8(bytes).map_err(|error| Problem::not_utf8(&name, &error))?)
}

/// The bytes of a file that is one, up to one more than a configuration may have. Nobody waits for the other end of a pipe.
pub fn bytes_of(path: &Path) -> Result<Vec<u8>, ConfigError> {
    let unreadable = |reason: String| ConfigError::Unreadable { path: path.to_owned(), reason };
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path);
    let file = file.map_err(|error| unreadable(open_reason(&error)))?;
    let about = file.metadata().map_err(|error| unreadable(open_reason(&error)))?;
    if about.is_dir() {
        return Err(unreadable("is a directory; name the YAML file in it".into()));
    }
    if !about.is_file() {
        return Err(unreadable("is not a regular file".into()));
    }
    let mut bytes = Vec::new();
    let read = file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| unreadable(format!("cannot be read: {error}")))?;
    Ok(bytes)
}

/// The bytes of a whole file of certificates or keys: one that is cut would trust fewer than it names.
fn pem_of(path: &Path) -> Result<Vec<u8>, ConfigError> {
    let bytes = bytes_of(path)?;
    if bytes.len() > FILE_BYTES_MAX {
        let reason = format!("is larger than {FILE_BYTES_MAX} bytes");
        return Err(ConfigError::Unreadable { path: path.to_owned(), reason });
    }
    Ok(bytes)
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
