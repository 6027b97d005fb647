//! Which models an agent may ask (PO-7): a list of names, `*` stands for any run of characters.
//!
//! A model that is not allowed is refused before anything is spent. Who sends no model on a path that may cost
//! something is refused too once there is a list of allowed ones: what cannot be seen cannot be allowed.

use serde::Serialize;

use crate::event::{CallKind, RequestReceived};
use crate::ids::Name;
use crate::judgement::Judgement;
use crate::policy::ModelRules;
use crate::policy::pattern::matches;
use crate::printable::name_in_quotes;

/// The model that was asked, and what the rules say of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModelsFinding {
    /// As the client sent it; `None` = it named none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Name>,
    /// The pattern that denies it; `None` = it is not among those allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denied_by: Option<Name>,
}

impl std::fmt::Display for ModelsFinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.model.as_deref().map(name_in_quotes), &self.denied_by) {
            (Some(model), Some(pattern)) => {
                write!(f, "The model `{model}` is not allowed: the policy denies `{pattern}`.")
            }
            (Some(model), None) => {
                write!(f, "The model `{model}` is not allowed: it is not in the policy's `models.allow`.")
            }
            (None, _) => f.write_str(
                "The request does not show which model it asks, and the policy allows only those in `models.allow`.",
            ),
        }
    }
}

/// Whether the request's model may be asked; `None` if there are no rules about models.
pub(crate) fn judge(request: &RequestReceived, rules: &ModelRules) -> Option<Judgement<ModelsFinding>> {
    if rules.is_empty() {
        return None;
    }
    // It may name several, and nobody knows which of them the provider takes: the first that is refused decides.
    let mut named = request.model.iter().chain(&request.other_models);
    let refused = named.find_map(|model| judge_one(request, Some(model), rules));
    let nameless = || judge_one(request, None, rules).filter(|_| request.model.is_none());
    let refused = refused.or_else(nameless);
    let passing = || Judgement::pass(ModelsFinding { model: request.model.clone(), denied_by: None });
    Some(refused.map_or_else(passing, Judgement::stop))
}

/// Why a model is refused, if it is.
fn judge_one(request: &RequestReceived, model: Option<&Name>, rules: &ModelRules) -> Option<ModelsFinding> {
    let denied_by = model.and_then(|model| rules.deny.iter().find(|pattern| matches(pattern, model)));
    let is_allowed = match model {
        _ if rules.allow.is_empty() => true,
        Some(model) => rules.allow.iter().any(|pattern| matches(pattern, model)),
        // Looking at a list of models asks none of them.
        None => request.call == CallKind::Other && !request.estimate.unpriced,
    };
    let finding = ModelsFinding { model: model.cloned(), denied_by: denied_by.cloned() };
    (denied_by.is_some() || !is_allowed).then_some(finding)
}
