//! The sections of a configuration that only a start reads: a running estop cannot take them up.

use super::shape::FileIn;

/// What the sections said, to see whether they changed. They name variables and files, never keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartupOnly(Vec<(&'static str, String)>);

impl StartupOnly {
    pub(super) fn of(file: &FileIn) -> StartupOnly {
        let FileIn { listen, data_dir, tls, behind_tls_proxy, triggers, .. } = file;
        StartupOnly(vec![
            ("listen", format!("{listen:?}")),
            ("data_dir", format!("{data_dir:?}")),
            ("tls", format!("{tls:?}")),
            ("behind_tls_proxy", format!("{behind_tls_proxy:?}")),
            ("triggers", format!("{triggers:?}")),
        ])
    }

    /// The sections that differ.
    pub fn changed(&self, other: &StartupOnly) -> Vec<&'static str> {
        let pairs = self.0.iter().zip(&other.0);
        pairs.filter(|(ours, theirs)| ours != theirs).map(|(ours, _)| ours.0).collect()
    }
}
