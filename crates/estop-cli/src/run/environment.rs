//! What a program is given so that its model calls and tools go through estop: variables, options, files.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};

use estop_config::{SecretVariables, is_own_secret};

use super::folder::Folder;

/// Stands where a provider's key was: estop puts the real one into each request, and clients do not start without any.
const INJECTED: &str = "estop-injected";

/// What the program gets.
pub(super) struct Environment {
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

impl Environment {
    /// Nothing yet but the program's own arguments.
    pub(super) fn new(args: &[OsString], folder: Folder) -> Environment {
        Environment {
            args: args.to_vec(),
            variables: BTreeMap::new(),
            removed: BTreeSet::new(),
            said: Vec::new(),
            folder,
        }
    }

    /// The program inherits none of estop's secrets (SE-3).
    pub(super) fn keep_secrets(&mut self, secrets: &SecretVariables) {
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

    /// Puts options right after the program, before its own arguments.
    pub(super) fn put_first(&mut self, options: Vec<OsString>) {
        self.args.splice(0..0, options);
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
