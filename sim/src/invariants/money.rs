//! Money: caps hold at admission, and what is held is exactly what is under way.

use std::collections::BTreeSet;

use estop_core::budget::Amount;
use estop_core::decision::Effect;
use estop_core::event::{CallKind, EventKind};
use estop_core::guard::Guard;
use estop_core::ids::RequestId;
use estop_core::policy::Mode;

use super::Step;
use crate::broken::{Holds, ensure};
use crate::model::ledger::Total;
use crate::model::{Model, asked};

/// At admission: spent + held + asked is at most the cap, for each cap, by the model's own books.
pub(super) fn budget_caps_hold(step: &Step<'_>, model: &Model) -> Holds {
    let EventKind::RequestReceived(r) = &step.event.what else { return Ok(()) };
    if !step.is_allowed() || step.policy.modes[Guard::Budget] != Mode::Enforce {
        return Ok(());
    }
    let asked = asked(&r.estimate);
    if r.call == CallKind::Other && asked == Amount::default() {
        // What costs nothing passes, also when all is spent.
        return Ok(());
    }
    let run = if model.runs.lost_track() { Default::default() } else { model.run_money(&step.event.run) };
    let over = model.ledger.overdrawn(asked.into(), run, &step.policy.budget);
    ensure(over.is_none(), "budget_caps_hold", || over.unwrap_or_default())
}

/// A reservation is given up exactly when nothing was heard of it for its lifetime.
pub(super) fn reservations_expire_in_time(step: &Step<'_>, model: &Model) -> Holds {
    let told: BTreeSet<RequestId> = step.decision.effects.iter().filter_map(expired).collect();
    let due: BTreeSet<RequestId> = model.expired.iter().copied().collect();
    ensure(told == due, "reservations_expire_in_time", || format!("given up: {told:?}, due: {due:?}"))
}

fn expired(effect: &Effect) -> Option<RequestId> {
    if let Effect::ReservationExpired { request } = effect { Some(*request) } else { None }
}

/// What is reserved is the sum of what is under way, in the judge's two counts and in the model's; nothing under
/// way, nothing reserved.
pub(super) fn reservations_are_conserved(step: &Step<'_>, model: &Model) -> Holds {
    let (reserved, held) = (Total::from(step.after.reserved), Total::from(step.after.held));
    let conserved = step.after.in_flight == model.open.len()
        && reserved == model.ledger.held.saturated()
        && held == reserved;
    ensure(conserved, "reservations_are_conserved", || {
        format!(
            "the judge has {} requests under way, reserved {reserved:?}, their sum is {held:?}; the model has {} and {:?}",
            step.after.in_flight,
            model.open.len(),
            model.ledger.held
        )
    })
}
