//! Clients that need more than variables for their model calls to go through estop. Their own files stay as they are.

use super::base_urls::BaseUrls;
use super::environment::Environment;
use super::{codex, opencode};
use crate::clients::{Descriptor, ModelCalls};

/// Gives a client what it needs beside variables, and says what cannot be given.
pub(super) fn configure(client: &Descriptor, environment: &mut Environment, urls: &BaseUrls<'_>) {
    match client.model_calls {
        ModelCalls::Variables => {}
        ModelCalls::VariablesWith { any_of, otherwise } => {
            if !any_of.iter().any(|variable| environment.variable(variable).is_some()) {
                environment.say(otherwise);
            }
        }
        ModelCalls::Said(text) => {
            let agent = environment.variable("ESTOP_AGENT").unwrap_or_default();
            environment.say(text.replace("{base}", &format!("{}/agents/{agent}", urls.data_url)));
        }
        ModelCalls::Codex => codex::point(environment, urls),
        ModelCalls::Opencode => opencode::point(environment, urls),
    }
}
