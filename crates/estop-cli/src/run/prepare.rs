//! Puts together what a program is given: secrets kept back, addresses of models, and hooks.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use estop_config::{Provider, SecretVariables};

use super::base_urls::{self, BaseUrls};
use super::environment::Environment;
use super::folder::Folder;
use super::project::base_name;
use super::{hooks, model_calls};
use crate::clients::Descriptor;

/// Where the program runs, and as what.
pub(super) struct Place {
    pub(super) agent: String,
    pub(super) run: String,
    /// The data plane.
    pub(super) data_url: String,
    pub(super) data_dir: PathBuf,
    pub(super) socket: PathBuf,
    /// Whoever shows it acts as this run.
    pub(super) ticket: String,
    /// Whether hooks are wanted.
    pub(super) hooks: bool,
    /// Which variables hold secrets.
    pub(super) secrets: SecretVariables,
}

impl Place {
    /// What all model calls of this run begin with.
    pub(super) fn base_url(&self) -> String {
        format!("{}/runs/{}", self.data_url, self.ticket)
    }
}

/// For this program.
pub(super) fn environment(
    program: &OsStr,
    args: &[OsString],
    place: &Place,
    providers: &BTreeMap<String, Provider>,
) -> Environment {
    let mut environment = Environment::new(args, Folder::of(&place.data_dir, &place.run));
    environment.keep_secrets(&place.secrets);
    let base = place.base_url();
    for (name, value) in [
        ("ESTOP_AGENT", place.agent.as_str()),
        ("ESTOP_RUN", &place.run),
        ("ESTOP_TICKET", &place.ticket),
        ("ESTOP_BASE_URL", &base),
    ] {
        environment.set(name, value);
    }
    environment.variables.insert("ESTOP_SOCKET".into(), place.socket.clone().into());
    if place.data_url.starts_with("https:") {
        environment.say(
            "this daemon speaks TLS: the program must trust its certificate (SSL_CERT_FILE, NODE_EXTRA_CA_CERTS).",
        );
    }
    let urls = BaseUrls { data_url: &place.data_url, base: &base, providers };
    base_urls::set(&mut environment, &urls);
    // Any other program: the variables do, or nothing does.
    if let Some(client) = Descriptor::of_program(&base_name(program)) {
        model_calls::configure(client, &mut environment, &urls);
        if place.hooks {
            hooks::inject(client, program, &place.data_dir, &mut environment);
        }
    }
    environment
}
