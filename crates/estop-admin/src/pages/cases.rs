//! How an incident or an escalation stands, who did what with it, and the buttons (EV-3).

use estop_core::system::CaseStep;
use estop_store::{CaseEntry, CaseStatus};

use super::shown::when;
use crate::cases::status_name;
use crate::output::moment;

/// What the lifecycle's part of a page shows.
pub(super) struct Lifecycle {
    pub(super) id: String,
    /// The path of the API that changes it.
    pub(super) api: String,
    pub(super) status: &'static str,
    pub(super) open: bool,
    pub(super) resolved: bool,
    /// Who looks after it; `None` = nobody can be named.
    pub(super) owner: Option<String>,
    pub(super) history: Vec<Step>,
    /// What the button says that resolves it; `None` = clearing the emergency stop does.
    pub(super) resolve: Option<&'static str>,
}

pub(super) struct Step {
    pub(super) at: String,
    pub(super) when: String,
    pub(super) what: String,
    pub(super) by: String,
    pub(super) note: String,
}

impl Lifecycle {
    /// Of a case with this id and this path.
    pub(super) fn of(
        (id, api): (&str, String),
        status: CaseStatus,
        history: &[CaseEntry],
        resolve: Option<&'static str>,
        now: i64,
    ) -> Lifecycle {
        Lifecycle {
            id: id.to_owned(),
            api,
            status: status_name(status),
            open: status == CaseStatus::Open,
            resolved: status == CaseStatus::Resolved,
            owner: None,
            history: history.iter().map(|entry| Step::of(entry, now)).collect(),
            resolve,
        }
    }
}

impl Step {
    fn of(entry: &CaseEntry, now: i64) -> Step {
        let what = match (entry.step, &entry.owner) {
            (CaseStep::Assigned, Some(owner)) => format!("assigned to {owner}"),
            (CaseStep::Assigned, None) => "assigned to nobody".to_owned(),
            (CaseStep::Noted, _) => "note".to_owned(),
            (step @ (CaseStep::Acknowledged | CaseStep::Resolved | CaseStep::Reopened), _) => {
                step.name().to_owned()
            }
        };
        Step {
            at: moment(entry.at),
            when: when(entry.at, now),
            what,
            by: entry.by.to_string(),
            note: entry.note.clone().unwrap_or_default(),
        }
    }
}
