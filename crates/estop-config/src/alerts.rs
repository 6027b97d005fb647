//! Who is told of what, and how: the section `alerts:`, with its secrets and certificates.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use estop_core::ids::Name;
use estop_notify::{AlertsIn, Lookup, Settings};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use secrecy::SecretString;

use super::env::Env;
use super::fault::ValueError;
use super::paths;
use super::pem_of;
use super::values::FilePath;

/// The section `alerts:`, complete.
#[derive(Clone, Debug, Default)]
pub struct Alerts {
    /// Channels, rules and words.
    pub settings: Settings,
    /// Agents that should call, and after how many seconds of silence they are told as down.
    pub agent_down_after_s: BTreeMap<Name, u32>,
}

/// What the section means; the first thing that is wrong with it.
pub(super) fn alerts(given: &AlertsIn, env: &Env) -> Result<Alerts, ValueError> {
    let secret = |name: &str| env.get(name).and_then(Result::ok).map(SecretString::from);
    let lookup = Lookup { secret: &secret, certificates: &|path| Ok(certificates(path, env)?) };
    let settings = given.resolve(&lookup).map_err(|problems| {
        let (keys, problem) =
            problems.into_iter().next().map(|first| (first.keys, first.problem)).unwrap_or_default();
        let keys: Vec<&str> = std::iter::once("alerts").chain(keys.iter().map(String::as_str)).collect();
        ValueError::new(&keys, format!("{}: {problem}", keys.join(".")))
    })?;
    Ok(Alerts { settings, agent_down_after_s: given.agent_down_after_s.clone() })
}

/// Why a file gives no certificates.
#[derive(Debug, thiserror::Error)]
pub(super) enum CertificateError {
    #[error("`~` means nothing here, because HOME is not set")]
    Home,
    #[error("{} cannot be read as PEM", .0.display())]
    Unreadable(PathBuf),
    #[error("{} has no certificate in it", .0.display())]
    Empty(PathBuf),
}

pub(super) fn certificates(path: &Path, env: &Env) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let given = FilePath(path.to_string_lossy().into_owned());
    let path = paths::expanded(&given, &["ca_file"], env).map_err(|_| CertificateError::Home)?;
    let cannot = |_| CertificateError::Unreadable(path.clone());
    // A regular file, and of a bounded length: a reload must not wait for the other end of a pipe.
    let pem = pem_of(&path).map_err(|_| CertificateError::Unreadable(path.clone()))?;
    let found = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>().map_err(cannot)?;
    if found.is_empty() { Err(CertificateError::Empty(path)) } else { Ok(found) }
}
