//! The environment: read once, passed on as a value, so that tests bring their own.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;

/// Environment variables by name. Values may be keys: [`fmt::Debug`] shows names only.
#[derive(Clone, Default)]
pub struct Env(BTreeMap<String, OsString>);

impl Env {
    /// The environment of this process. A name that is not UTF-8 cannot be one of ours and is left out.
    pub fn of_process() -> Env {
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect()
    }

    /// The same with one more variable, for a command-line option that goes before the file.
    pub fn with(mut self, name: &str, value: impl Into<OsString>) -> Env {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// A variable's text, without space around it. `None` if it is not set.
    pub(super) fn get(&self, name: &str) -> Option<Result<&str, NotText>> {
        self.0.get(name).map(|value| value.to_str().map(str::trim).ok_or(NotText))
    }

    /// All names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// A variable's value is not UTF-8.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotText;

impl<N: Into<String>, V: Into<OsString>> FromIterator<(N, V)> for Env {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Env {
        Env(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
