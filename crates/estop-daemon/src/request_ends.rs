//! How requests end, as the journal's records say it: for the request log, metrics and spans.

use std::collections::BTreeMap;
use std::sync::Arc;

use estop_core::decision::Decision;
use estop_core::ended::Ended;
use estop_core::event::{AbortedBy, CallKind, Event, EventKind, Route, Usage};
use estop_core::guard::Guard;
use estop_core::ids::{Name, RequestId};
use estop_core::time::Now;
use estop_core::trace_parent::TraceParent;

/// Requests in progress that are remembered. Of one that finds no place, model, duration and trace are not known.
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
    /// When it ended: wall-clock milliseconds.
    pub(crate) at: i64,
    pub(crate) call: CallKind,
    /// As the configuration calls it.
    pub(crate) provider: Option<Name>,
    /// Where it stands in its client's trace.
    pub(crate) trace_parent: Option<TraceParent>,
}

/// Requests in progress.
#[derive(Default)]
pub(crate) struct OpenRequests {
    open: BTreeMap<(Arc<str>, RequestId), Open>,
}

#[derive(Clone, Default)]
struct Open {
    /// When it arrived; `None` if it is not remembered.
    since: Option<Now>,
    model: Option<Name>,
    call: CallKind,
    route: Option<Box<Route>>,
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
        let ended = match &event.what {
            EventKind::RequestReceived(received) => {
                let open = Open {
                    since: Some(now),
                    model: received.model.clone(),
                    call: received.call,
                    route: received.route.clone(),
                };
                let Some(guard) = decision.refused_by() else {
                    if self.open.len() < OPEN_MAX {
                        self.open.insert((Arc::clone(agent), received.request), open);
                    }
                    return None;
                };
                let open = Open { since: None, ..open };
                let ended = Ending {
                    request: received.request,
                    outcome: RequestOutcome::Refused(guard),
                    usage: Usage::default(),
                    first_byte_ms: None,
                };
                return Some(open.end(agent, run, now, ended));
            }
            EventKind::ResponseCompleted(done) => {
                let outcome = match done.ended {
                    Ended::Ok | Ended::Unknown => RequestOutcome::Answered,
                    Ended::Failed => RequestOutcome::Failed,
                };
                Ending {
                    request: done.request,
                    outcome,
                    usage: done.usage,
                    first_byte_ms: done.first_byte_ms,
                }
            }
            EventKind::StreamAborted(cut) => {
                let outcome = match cut.by {
                    AbortedBy::Client => RequestOutcome::ClientGone,
                    AbortedBy::Upstream => RequestOutcome::Failed,
                    AbortedBy::Guard => RequestOutcome::CutByGuard,
                    AbortedBy::Kill => RequestOutcome::CutByStop,
                };
                Ending { request: cut.request, outcome, usage: cut.usage, first_byte_ms: None }
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
        let open = self.open.remove(&(Arc::clone(agent), ended.request)).unwrap_or_default();
        Some(open.end(agent, run, now, ended))
    }
}

/// What the record of its end says.
#[derive(Clone, Copy)]
struct Ending {
    request: RequestId,
    outcome: RequestOutcome,
    usage: Usage,
    first_byte_ms: Option<u32>,
}

impl Open {
    fn end<'r>(self, agent: &'r str, run: Option<&'r str>, now: Now, ended: Ending) -> EndedRequest<'r> {
        let Open { since, model, call, route } = self;
        let trace_parent = route.as_ref().and_then(|route| route.trace_parent);
        let provider = route.map(|route| route.provider);
        let Ending { request, outcome, usage, first_byte_ms } = ended;
        let duration_ms = since.map(|since| now.mono.0.saturating_sub(since.mono.0));
        EndedRequest {
            agent,
            run,
            request,
            model,
            outcome,
            duration_ms,
            first_byte_ms,
            usage,
            at: now.wall,
            call,
            provider,
            trace_parent,
        }
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
            route: None,
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
