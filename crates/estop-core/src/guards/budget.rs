//! Whether a request may spend what it asks for (PO-2). The accounts are kept in [`crate::budget`].

use crate::budget::{Amount, BudgetCap, BudgetFinding, Need};
use crate::event::{CallKind, RequestReceived};
use crate::judgement::Judgement;
use crate::policy::{BudgetPolicy, Unpriced};

/// Requests under way end at any moment; this is when a client is told to ask again. Chosen: most answers end within
/// it, and no SDK gives up on a wait this short.
pub(crate) const WAIT_MS: u64 = 10_000;

/// Whether a request may spend what it asks for, by its agent's accounts and the fleet's.
pub(crate) fn judge(
    own: Option<BudgetFinding>,
    request: &RequestReceived,
    policy: &BudgetPolicy,
) -> Judgement<Option<BudgetFinding>> {
    let RequestReceived { fleet, estimate, .. } = *request;
    let unpriced = estimate.unpriced;
    let is_path = request.call == CallKind::Other;
    if is_path && !unpriced && Need::from(estimate).most == Amount::default() {
        // Looking at something, deleting and cancelling cost nothing, and must work when nothing is left.
        return Judgement::CLEAR;
    }
    let is_named = || request.path.as_deref().is_some_and(|path| policy.paths.allows(path));
    let caps_usd = || policy.caps_usd() || fleet.is_some_and(|fleet| fleet.account.is_money());
    let denies = match policy.unpriced {
        Unpriced::Deny => true,
        // What becomes of paths under a cap is decided below.
        Unpriced::DenyUnderCap => !is_path && caps_usd(),
        Unpriced::Count => false,
    };
    if unpriced && denies && !(is_path && is_named()) {
        return Judgement::stop(Some(BudgetFinding::unpriced(BudgetCap::Unpriced)));
    }
    if is_path && unpriced && own.or(fleet).is_some() && !is_named() {
        return Judgement::stop(Some(BudgetFinding::unpriced(BudgetCap::UnpricedPath)));
    }
    let tighter = |best: BudgetFinding, next: BudgetFinding| if next.fit > best.fit { next } else { best };
    match [own, fleet].into_iter().flatten().reduce(tighter) {
        Some(finding) => Judgement::stop_if(finding.is_over(), Some(finding)),
        None => Judgement::CLEAR,
    }
}
