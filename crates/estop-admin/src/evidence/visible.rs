//! Which steps a role may see, or why there are none.

use estop_core::operator::IncidentSteps;
use estop_core::policy::EvidenceMode;
use estop_core::printable::escaped;
use estop_core::system::SYSTEM;
use estop_store::{Evidence, Incident, TokenRole};

use crate::access::rank;
use crate::output::moment;
use crate::state::App;

const DAY_MS: i64 = 86_400_000;
/// Steps are saved some moments after their incident.
const SAVED_WITHIN_MS: i64 = 10_000;

/// What steps are of.
pub(super) struct Subject<'a> {
    pub(super) id: &'a str,
    pub(super) agent: &'a str,
    pub(super) at: i64,
    /// Nobody was stopped.
    pub(super) is_watched: bool,
}

impl Subject<'_> {
    pub(super) fn of(incident: &Incident) -> Subject<'_> {
        Subject { id: &incident.id, agent: &incident.agent, at: incident.opened_at, is_watched: false }
    }
}

/// The steps, or none and why.
pub(super) fn visible(
    kept: Option<&Evidence>,
    role: TokenRole,
    app: &App,
    of: &Subject<'_>,
) -> (IncidentSteps, Option<String>) {
    let none = |why: String| (IncidentSteps::default(), Some(why));
    let Some(kept) = kept else { return none(not_kept(app, of)) };
    if let Some((by, at)) = &kept.deleted {
        return none(format!("The steps were deleted by {} at {}.", escaped(by), moment(*at)));
    }
    let read = kept.steps.as_deref().map(serde_json::from_str::<IncidentSteps>);
    match read {
        Some(Ok(steps)) if steps.steps.is_empty() => {
            let missing = none_known(steps.mode, of.agent);
            (steps, Some(missing))
        }
        Some(Ok(steps)) if steps.mode == EvidenceMode::Full && rank(role) < rank(TokenRole::Operator) => {
            none(
                "The steps were kept in full (`evidence: full`): operators and admins may see them."
                    .to_owned(),
            )
        }
        Some(Ok(steps)) => (steps, None),
        Some(Err(_)) | None => none("The steps cannot be read.".to_owned()),
    }
}

/// Why a stop was saved without steps.
fn none_known(mode: EvidenceMode, agent: &str) -> String {
    let agent = escaped(agent);
    match mode {
        EvidenceMode::Off => {
            format!("No steps were kept of this: the policy of {agent} said `evidence: off`.")
        }
        EvidenceMode::Redacted | EvidenceMode::Full => format!(
            "No steps of {agent} were in memory then: it had made no request and no tool call since estop was started, or others \
             had made too many since."
        ),
    }
}

/// Why nothing was saved, as far as it is known.
fn not_kept(app: &App, of: &Subject<'_>) -> String {
    if let Some(why) = app.operator.steps_unsaved(of.id) {
        return format!("Evidence could not be saved: {}.", escaped(&why));
    }
    if of.agent == SYSTEM {
        return "The emergency stop is no agent's: no steps belong to it.".to_owned();
    }
    let age = app.now().saturating_sub(of.at);
    match app.place.evidence_days {
        Some(days) if age >= i64::from(days) * DAY_MS => {
            format!("The steps are too old: they are deleted after {days} days (`retention.evidence_days`).")
        }
        Some(_) | None if of.is_watched => {
            "The steps were not kept: of what is only watched they are kept once in ten minutes of each agent, and the newest 1,000 \
             of all."
                .to_owned()
        }
        Some(_) | None if age < SAVED_WITHIN_MS => {
            "The steps are about to be saved: look again in a moment.".to_owned()
        }
        Some(_) | None => {
            "The steps are not there: estop ended before they were saved, or its database has only newer ones.".to_owned()
        }
    }
}
