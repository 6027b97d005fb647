//! How requests end, as the journal's records say it: for the request log and for metrics.

use std::collections::BTreeMap;
use std::sync::Arc;

use estop_core::decision::Decision;
use estop_core::ended::Ended;
use estop_core::event::{AbortedBy, Event, EventKind, Usage};
use estop_core::guard::Guard;
use estop_core::ids::{Name, RequestId};
use estop_core::time::Now;

/// Requests in progress that are remembered. Of one that finds no place, model and duration are not known.
const OPEN_MAX: usize = 100_000;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestOutcome {
    /// The provider answered.
    Answered,
    /// The provider failed, or broke off.
    Failed,
    /// The client went away before the end.
    ClientGone,
    /// A guard cut the answer.
    CutByGuard,
    /// The emergency stop cut the answer.
    CutByStop,
    /// It never reached the provider.
    Refused(Guard),
}

impl RequestOutcome {
    /// For people, in the log.
    pub(crate) fn text(self) -> &'static str {
        match self {
            RequestOutcome::Answered => "answered",
            RequestOutcome::Failed => "failed",
            RequestOutcome::ClientGone => "client went away",
            RequestOutcome::CutByGuard => "cut by a guard",
            RequestOutcome::CutByStop => "cut by a stop",
            RequestOutcome::Refused(_) => "refused",
        }
    }

    /// As the label of a metric.
    pub(crate) fn label(self) -> &'static str {
        match self {
            RequestOutcome::Answered => "answered",
            RequestOutcome::Failed => "failed",
            RequestOutcome::ClientGone => "client_gone",
            RequestOutcome::CutByGuard => "cut_by_guard",
            RequestOutcome::CutByStop => "cut_by_stop",
            RequestOutcome::Refused(_) => "refused",
        }
    }

    /// The guard that refused it.
    pub(crate) fn refused_by(self) -> Option<Guard> {
        if let RequestOutcome::Refused(guard) = self { Some(guard) } else { None }
    }
}

/// A request that came to its end.
#[derive(Clone, Debug)]
pub(crate) struct EndedRequest<'r> {
    pub(crate) agent: &'r str,
    pub(crate) run: Option<&'r str>,
    pub(crate) request: RequestId,
    pub(crate) model: Option<Name>,
    pub(crate) outcome: RequestOutcome,
    /// From its arrival to its last byte.
    pub(crate) duration_ms: Option<u64>,
    /// From the moment it was sent on to the first byte of its answer.
    pub(crate) first_byte_ms: Option<u32>,
    pub(crate) usage: Usage,
}

/// Requests in progress.
#[derive(Default)]
pub(crate) struct OpenRequests {
    open: BTreeMap<(Arc<str>, RequestId), Open>,
}

struct Open {
    since: Now,
    model: Option<Name>,
}

impl OpenRequests {
    /// Takes in a record; gives the request that ended by it.
    pub(crate) fn follow<'r>(
        &mut self,
        agent: &'r Arc<str>,
        now: Now,
        event: &'r Event,
        decision: &Decision,
    ) -> Option<EndedRequest<'r>> {
        let run = event.run.as_deref();
        let (request, outcome, usage, first_byte_ms) = match &event.what {
            EventKind::RequestReceived(received) => {
                let model = received.model.clone();
                let Some(guard) = decision.refused_by() else {
                    if self.open.len() < OPEN_MAX {
                        self.open.insert((Arc::clone(agent), received.request), Open { since: now, model });
                    }
                    return None;
                };
                let (request, outcome) = (received.request, RequestOutcome::Refused(guard));
                let usage = Usage::default();
                return Some(EndedRequest {
                    agent,
                    run,
                    request,
                    model,
                    outcome,
                    duration_ms: None,
                    first_byte_ms: None,
                    usage,
                });
            }
            EventKind::ResponseCompleted(done) => {
                let outcome = match done.ended {
                    Ended::Ok | Ended::Unknown => RequestOutcome::Answered,
                    Ended::Failed => RequestOutcome::Failed,
                };
                (done.request, outcome, done.usage, done.first_byte_ms)
            }
            EventKind::StreamAborted(cut) => {
                let outcome = match cut.by {
                    AbortedBy::Client => RequestOutcome::ClientGone,
                    AbortedBy::Upstream => RequestOutcome::Failed,
                    AbortedBy::Guard => RequestOutcome::CutByGuard,
                    AbortedBy::Kill => RequestOutcome::CutByStop,
                };
                (cut.request, outcome, cut.usage, None)
            }
            EventKind::StreamProgressed(_)
            | EventKind::ChantDetected(_)
            | EventKind::ToolRequested(_)
            | EventKind::ToolFinished(_)
            | EventKind::PromptSubmitted
            | EventKind::RunStarted { .. }
            | EventKind::RunSlept
            | EventKind::RunWoke
            | EventKind::RunCompleted
            | EventKind::RunExtended { .. }
            | EventKind::MessageIn { .. }
            | EventKind::MessageOut { .. }
            | EventKind::PolicyChanged { .. }
            | EventKind::AgentActivated { .. }
            | EventKind::AgentDeactivated { .. }
            | EventKind::AgentPaused { .. }
            | EventKind::AgentResumed { .. }
            | EventKind::GuardSnoozed { .. }
            | EventKind::GuardWoken { .. }
            | EventKind::BudgetRenewed { .. }
            | EventKind::Restarted { .. }
            | EventKind::Tick => return None,
        };
        let open = self.open.remove(&(Arc::clone(agent), request));
        let duration_ms = open.as_ref().map(|open| now.mono.0.saturating_sub(open.since.mono.0));
        let model = open.and_then(|open| open.model);
        Some(EndedRequest { agent, run, request, model, outcome, duration_ms, first_byte_ms, usage })
    }
}

#[cfg(test)]
mod tests {
    use estop_core::decision::Outcome;
    use estop_core::event::{CallKind, Estimate, RequestReceived, ResponseCompleted};
    use estop_core::fingerprint::{RequestFingerprint, ResponseFingerprint};
    use estop_core::time::Millis;

    use super::*;

    fn received(request: u64) -> Event {
        Event::open(EventKind::RequestReceived(RequestReceived {
            request: RequestId(request),
            call: CallKind::Generation,
            model: Some("m".into()),
            other_models: Vec::new(),
            path: None,
            print: RequestFingerprint::default(),
            estimate: Estimate::default(),
            fleet: None,
            tags: None,
        }))
    }

    fn completed(request: u64) -> Event {
        Event::open(EventKind::ResponseCompleted(ResponseCompleted {
            request: RequestId(request),
            ended: Ended::Ok,
            print: ResponseFingerprint::default(),
            usage: Usage::default(),
            first_byte_ms: None,
        }))
    }

    fn at(ms: u64) -> Now {
        Now { mono: Millis(ms), wall: 1 }
    }

    #[test]
    fn ob_1_a_request_ends_once_with_its_model_and_duration() {
        let mut open = OpenRequests::default();
        let (agent, allowed) = (Arc::from("coder"), Decision::plain(Outcome::Allow));
        assert!(open.follow(&agent, at(5), &received(1), &allowed).is_none());
        let noted = Decision::plain(Outcome::Noted);
        let event = completed(1);
        let ended = open.follow(&agent, at(30), &event, &noted).expect("it ended");
        assert_eq!((ended.model.as_deref(), ended.duration_ms), (Some("m"), Some(25)));
        assert!(open.open.is_empty(), "it is forgotten");
    }

    #[test]
    fn ob_1_requests_in_progress_are_bounded() {
        let mut open = OpenRequests::default();
        let (agent, allowed) = (Arc::from("coder"), Decision::plain(Outcome::Allow));
        for request in 0..OPEN_MAX as u64 + 5 {
            open.follow(&agent, at(0), &received(request), &allowed);
        }
        assert_eq!(open.open.len(), OPEN_MAX);
    }
}
