//! What a run is for (PO-6) and where its work is (CB-8): issue, labels, branch, session. Nothing is judged by them; spend is summed up by them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::Name;

/// An issue and labels. Whoever lets them in bounds them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tags {
    /// The issue that is worked on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issue: Option<Name>,
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<Name, Name>,
    /// The role it runs under, if it is another than the agent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Name>,
    /// The branch that is worked on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<Name>,
    /// The client's session, where the conversation is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Name>,
}

impl Tags {
    /// Whether they say nothing.
    pub fn is_empty(&self) -> bool {
        *self == Tags::default()
    }

    /// Lays others over these: what they say counts, labels key by key.
    pub fn lay(&mut self, over: &Tags) {
        let set = |slot: &mut Option<Name>, given: &Option<Name>| {
            if given.is_some() {
                slot.clone_from(given);
            }
        };
        set(&mut self.issue, &over.issue);
        set(&mut self.role, &over.role);
        set(&mut self.branch, &over.branch);
        set(&mut self.session, &over.session);
        self.labels.extend(over.labels.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
}
