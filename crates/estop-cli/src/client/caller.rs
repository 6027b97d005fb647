//! Who asks, for commands that clients start: hooks and MCP gates. What their command line names goes before the
//! environment: whoever sets that, such as a repository's settings, must not answer in the place of the estop that was
//! written into the command.

use std::path::{Path, PathBuf};

use estop_config::Env;
use http::header::{AUTHORIZATION, HeaderName};
use http::{HeaderMap, HeaderValue};

use super::endpoint::{BadTarget, Endpoint};
use super::transport::Transport;

/// The options that hooks and MCP gates share.
pub(crate) struct CallerOptions<'a> {
    pub(crate) agent: Option<&'a String>,
    pub(crate) run: Option<&'a String>,
    /// `estop install` wrote the command.
    pub(crate) installed: bool,
    pub(crate) data_dir: Option<&'a Path>,
    pub(crate) url: Option<&'a str>,
}

/// Who asks, and where.
pub(crate) struct Caller {
    pub(crate) agent: Option<String>,
    pub(crate) run: Option<String>,
    pub(crate) transport: Transport,
}

impl CallerOptions<'_> {
    /// Where estop is.
    pub(crate) fn endpoint(&self) -> Result<Endpoint, BadTarget> {
        match (self.data_dir, self.url) {
            (Some(folder), _) => return Ok(Endpoint::in_folder(folder)),
            (None, Some(url)) => return Endpoint::from_url_with_port(url),
            (None, None) => {}
        }
        if let Some(path) = variable("ESTOP_SOCKET") {
            return Ok(Endpoint::Socket(path.into()));
        }
        // In a run this is the address for models.
        let is_run = variable("ESTOP_TICKET").is_some();
        if let Some(url) = variable("ESTOP_URL").filter(|_| !is_run) {
            return Endpoint::from_url_with_port(&url);
        }
        let folder = estop_config::usual_data_dir(&Env::of_process());
        let missing = "nobody says where estop is: set HOME, or ESTOP_SOCKET to the path of its socket";
        folder.map(|folder| Endpoint::in_folder(&folder)).ok_or_else(|| BadTarget(missing.to_owned()))
    }

    /// With what the environment says of agent, run, ticket and token.
    pub(crate) fn caller(&self) -> Result<Caller, BadTarget> {
        let endpoint = self.endpoint()?;
        let env_counts = env_is_of(&endpoint);
        let agent = self.first(self.agent, "ESTOP_AGENT", env_counts);
        let run = self.first(self.run, "ESTOP_RUN", env_counts);
        // The owner's socket asks for none.
        let token = variable("ESTOP_TOKEN").filter(|_| matches!(endpoint, Endpoint::Tcp { .. }));
        let mut headers = HeaderMap::new();
        for (name, value) in [
            (HeaderName::from_static("x-estop-agent"), agent.clone()),
            (HeaderName::from_static("x-estop-run"), run.clone()),
            (HeaderName::from_static("x-estop-ticket"), variable("ESTOP_TICKET").filter(|_| env_counts)),
            (AUTHORIZATION, token.map(|token| format!("Bearer {token}"))),
        ] {
            let Some(value) = value else { continue };
            let bad = |_| BadTarget(format!("what is given for {name} has characters that cannot be sent"));
            let value = HeaderValue::from_str(&value).map_err(bad)?;
            headers.insert(name, value);
        }
        Ok(Caller { agent, run, transport: Transport { endpoint, headers } })
    }

    /// Which of an option and a variable counts. A run's supervisor knows better than an installed command what it runs,
    /// and its ticket proves it; without a ticket, what was written goes first.
    fn first(&self, option: Option<&String>, name: &str, env_counts: bool) -> Option<String> {
        let said = || variable(name).filter(|_| env_counts);
        let is_supervised = self.installed && env_counts && variable("ESTOP_TICKET").is_some();
        if is_supervised { said().or_else(|| option.cloned()) } else { option.cloned().or_else(said) }
    }
}

/// Whether the environment's agent, run and ticket are of the estop that is asked: a supervisor names its socket beside
/// them.
fn env_is_of(endpoint: &Endpoint) -> bool {
    let Some(named) = variable("ESTOP_SOCKET").map(PathBuf::from) else { return true };
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    match endpoint {
        Endpoint::Socket(asked) => real(asked) == real(&named),
        Endpoint::Tcp { .. } => false,
    }
}

/// A variable that says something.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
