//! The library an agent asks through: what the provider failed it sends again, in the same words. That of an agent that
//! goes in circles at times says the same again for no reason.

use estop_core::decision::{Decision, Outcome};
use estop_core::event::{AbortedBy, Ended, Event, EventKind, RequestReceived};
use estop_core::ids::{Name, RequestId};

use crate::model::Model;
use crate::prng::Rng;
use crate::temperament::mind::Mind;
use crate::temperament::{Act, Deed};

/// One agent's client.
#[derive(Debug, Default)]
pub(super) struct Client {
    /// The newest request that was let through, with its run.
    newest: Option<(Option<Name>, RequestReceived)>,
    /// The provider failed it.
    failed: bool,
    /// The latest retry.
    retry: Option<RequestId>,
}

impl Client {
    /// Hears what was decided, before the model takes it in: of what was given up nobody hears.
    pub(super) fn hear(&mut self, event: &Event, decision: &Decision, model: &Model) {
        if let (EventKind::RequestReceived(r), Outcome::Allow) = (&event.what, decision.outcome) {
            self.newest = Some((event.run.clone(), r.clone()));
            self.failed = false;
        }
        let Some(failed) = failed_by_provider(&event.what) else { return };
        let is_newest = self.newest.as_ref().is_some_and(|(_, newest)| newest.request == failed);
        self.failed |= is_newest && model.open.contains_key(&failed);
    }

    /// What it does before its agent goes on: mostly it tries again, at times it gives up.
    pub(super) fn act(&mut self, mind: &mut Mind, rng: &mut Rng) -> Option<Act> {
        let (run, newest) = self.newest.as_ref()?;
        let stutters = !mind.kind.is_healthy() && !self.failed && rng.per_mille(150);
        let retries = self.failed && rng.per_mille(800);
        if !(stutters || retries) {
            self.failed = false;
            return None;
        }
        let again = mind.ask_again(newest, rng);
        if let Deed::Ask(request, _) = &again {
            self.retry = Some(request.request);
        }
        Some(Act { deeds: vec![(run.clone(), again)], rest_ms: mind.rest(rng) })
    }

    /// Whether it is the client that asks, not its agent.
    pub(super) fn asks(&self, what: &EventKind) -> bool {
        matches!(what, EventKind::RequestReceived(r) if self.retry == Some(r.request))
    }
}

fn failed_by_provider(what: &EventKind) -> Option<RequestId> {
    if let EventKind::ResponseCompleted(r) = what {
        return (r.ended == Ended::Failed).then_some(r.request);
    }
    let EventKind::StreamAborted(a) = what else { return None };
    (a.by == AbortedBy::Upstream).then_some(a.request)
}
