//! Clients that need more than variables for their model calls to go through estop. Their own files stay as they are.

use super::base_urls::BaseUrls;
use super::outfit::Outfit;
use super::{codex, opencode};
use crate::clients::{Descriptor, ModelCalls};

/// Gives a client what it needs beside variables, and says what cannot be given.
pub(super) fn configure(client: &Descriptor, outfit: &mut Outfit, urls: &BaseUrls<'_>) {
    match client.model_calls {
        ModelCalls::Variables => {}
        ModelCalls::VariablesWith { any_of, otherwise } => {
            if !any_of.iter().any(|variable| outfit.variable(variable).is_some()) {
                outfit.say(otherwise);
            }
        }
        ModelCalls::Said(text) => {
            let agent = outfit.variable("ESTOP_AGENT").unwrap_or_default();
            outfit.say(text.replace("{base}", &format!("{}/agents/{agent}", urls.data_url)));
        }
        ModelCalls::Codex => codex::point(outfit, urls),
        ModelCalls::Opencode => opencode::point(outfit, urls),
    }
}
