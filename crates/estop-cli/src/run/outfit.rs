//! What a program is given so that its model calls and tools go through estop: variables, options, files.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use estop_config::{Provider, SecretVariables, is_own_secret};

use super::base_urls::{self, BaseUrls};
use super::clients::{self, Client};
use super::folder::Folder;
use super::hooks;

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

/// Stands where a provider's key was: estop puts the real one into each request, and clients do not start without any.
const INJECTED: &str = "estop-injected";

impl Place {
    /// What all model calls of this run begin with.
    pub(super) fn base_url(&self) -> String {
        format!("{}/runs/{}", self.data_url, self.ticket)
    }
}

/// What the program gets.
pub(super) struct Outfit {
    /// All its arguments.
    pub(super) args: Vec<OsString>,
    /// Variables over its environment.
    pub(super) variables: BTreeMap<OsString, OsString>,
    /// Variables it does not get: they hold secrets of estop.
    pub(super) removed: BTreeSet<OsString>,
    /// What the person should know.
    pub(super) said: Vec<String>,
    /// Files it reads.
    pub(super) folder: Folder,
}

impl Outfit {
    /// For this program.
    pub(super) fn of(
        program: &OsStr,
        args: &[OsString],
        place: &Place,
        providers: &BTreeMap<String, Provider>,
    ) -> Outfit {
        let mut outfit = Outfit {
            args: args.to_vec(),
            variables: BTreeMap::new(),
            removed: BTreeSet::new(),
            said: Vec::new(),
            folder: Folder::of(&place.data_dir, &place.run),
        };
        outfit.keep_secrets(&place.secrets);
        let base = place.base_url();
        for (name, value) in [
            ("ESTOP_AGENT", place.agent.as_str()),
            ("ESTOP_RUN", &place.run),
            ("ESTOP_TICKET", &place.ticket),
            ("ESTOP_BASE_URL", &base),
        ] {
            outfit.set(name, value);
        }
        outfit.variables.insert("ESTOP_SOCKET".into(), place.socket.clone().into());
        if place.data_url.starts_with("https:") {
            outfit.say(
                "this daemon speaks TLS: the program must trust its certificate (SSL_CERT_FILE, NODE_EXTRA_CA_CERTS).",
            );
        }
        let urls = BaseUrls { data_url: &place.data_url, base: &base, providers };
        base_urls::set(&mut outfit, &urls);
        let client = Client::of(program);
        clients::dress(client, &mut outfit, &urls);
        if place.hooks {
            hooks::inject(client, program, &place.data_dir, &mut outfit);
        }
        outfit
    }

    /// The program inherits none of estop's secrets (SE-3).
    fn keep_secrets(&mut self, secrets: &SecretVariables) {
        let is_set = |name: &&String| std::env::var_os(name.as_str()).is_some();
        let own = std::env::vars_os().map(|(name, _)| name);
        self.removed.extend(own.filter(|name| name.to_str().is_some_and(is_own_secret)));
        self.removed.extend(secrets.others.iter().filter(is_set).map(OsString::from));
        for name in secrets.provider_keys.iter().filter(is_set) {
            self.set(name, INJECTED);
        }
    }

    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.variables.insert(name.into(), value.into());
    }

    pub(super) fn say(&mut self, said: impl Into<String>) {
        self.said.push(said.into());
    }

    /// A variable as the program will see it.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        let set = self.variables.get(OsStr::new(name)).cloned();
        let inherited = || std::env::var_os(name).filter(|_| !self.removed.contains(OsStr::new(name)));
        set.or_else(inherited).and_then(|value| value.into_string().ok()).filter(|v| !v.is_empty())
    }
}
