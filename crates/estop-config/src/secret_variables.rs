//! Which variables of the environment hold estop's secrets: a program under `estop run` gets none of them (SE-3).

use std::collections::BTreeSet;

use super::shape::FileIn;
use super::values::VariableName;

/// What estop's own variables with secrets are called.
const OWN: [&str; 2] = ["ESTOP_TOKEN", "ESTOP_ADMIN_TOKEN"];
/// How variables with keys of agents begin, as the documentation calls them.
const OWN_PREFIX: &str = "ESTOP_KEY_";

/// Whether a variable holds a secret of estop, whatever the configuration says.
pub fn is_own_secret(name: &str) -> bool {
    OWN.contains(&name) || name.starts_with(OWN_PREFIX)
}

/// The variables that a configuration names for secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretVariables {
    /// Keys of providers, which estop puts into requests itself.
    pub provider_keys: BTreeSet<String>,
    /// Keys of agents, secrets of relays, of those who are told and of the collector of spans.
    pub others: BTreeSet<String>,
}

impl SecretVariables {
    /// All that a file names.
    pub(super) fn of(file: &FileIn) -> SecretVariables {
        let name = |variable: &VariableName| variable.0.clone();
        let providers = file.providers.values().flatten();
        let agents = file.agents.values().flatten().filter_map(|agent| agent.key_env.as_ref());
        let relays = file.relays.values().filter_map(|relay| relay.secret_path_env.as_ref());
        let told = file.alerts.channels.values().flat_map(|channel| {
            let single = [&channel.url_env, &channel.token_env, &channel.password_env];
            single.into_iter().flatten().chain(&channel.secret_env).cloned()
        });
        let collector = file.opentelemetry.headers_env.values();
        SecretVariables {
            provider_keys: providers.filter_map(|provider| provider.api_key_env.as_ref()).map(name).collect(),
            others: agents.chain(relays).chain(collector).map(name).chain(told).collect(),
        }
    }

    /// These and those.
    #[must_use]
    pub fn and(mut self, more: SecretVariables) -> SecretVariables {
        self.provider_keys.extend(more.provider_keys);
        self.others.extend(more.others);
        self
    }
}
