//! The sections of a configuration that only a start reads: a running estop cannot take them up.

use super::shape::FileIn;

/// What the sections said, to see whether they changed. They name variables and files, never keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartupOnly(Vec<(&'static str, String)>);

impl StartupOnly {
    pub(super) fn of(file: &FileIn) -> StartupOnly {
        let FileIn {
            listen,
            data_dir,
            tls,
            behind_tls_proxy,
            providers,
            relays,
            mcp,
            require_keys,
            unknown_agents,
            limits,
            retention,
            prooftest,
            prices,
            triggers,
            ..
        } = file;
        StartupOnly(vec![
            ("listen", format!("{listen:?}")),
            ("data_dir", format!("{data_dir:?}")),
            ("tls", format!("{tls:?}")),
            ("behind_tls_proxy", format!("{behind_tls_proxy:?}")),
            ("providers", format!("{providers:?}")),
            ("relays", format!("{relays:?}")),
            ("mcp", format!("{mcp:?}")),
            ("require_keys", format!("{require_keys:?}")),
            ("unknown_agents", format!("{unknown_agents:?}")),
            ("limits", format!("{limits:?}")),
            ("retention", format!("{retention:?}")),
            ("prooftest", format!("{prooftest:?}")),
            ("prices", format!("{prices:?}")),
            ("triggers", format!("{triggers:?}")),
        ])
    }

    /// The sections that differ.
    pub fn changed(&self, other: &StartupOnly) -> Vec<&'static str> {
        let pairs = self.0.iter().zip(&other.0);
        pairs.filter(|(ours, theirs)| ours != theirs).map(|(ours, _)| ours.0).collect()
    }
}
