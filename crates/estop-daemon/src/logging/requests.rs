//! The request log (`log.requests`): one line for each request that ended, or for one in so many. What was refused or failed
//! has its line in any case.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use estop_config::RequestLog as Chosen;
use estop_core::decision::Decision;
use estop_core::ended::Ended;
use estop_core::event::{AbortedBy, Event, EventKind, RequestReceived, Usage};
use estop_core::ids::{Name, RequestId};
use estop_core::time::Now;

/// Requests in progress that are remembered. Of one that finds no place, the line has no model and no duration.
const OPEN_MAX: usize = 100_000;

/// One in how many requests is logged; 0 = none. Of the process, as its log is.
static ONE_IN: AtomicU32 = AtomicU32::new(0);

/// Takes up what the configuration says.
pub(super) fn choose(chosen: Chosen) {
    let one_in = match chosen {
        Chosen::Off => 0,
        Chosen::OneIn(number) => number,
    };
    ONE_IN.store(one_in, Ordering::Relaxed);
}

/// Logs requests.
#[derive(Default)]
pub(crate) struct RequestLog {
    ended: u64,
    open: BTreeMap<(Arc<str>, RequestId), Open>,
}

struct Open {
    since: Now,
    model: Option<Name>,
}

impl RequestLog {
    /// Logs what a record says of a request.
    pub(crate) fn note(&mut self, agent: &Arc<str>, now: Now, event: &Event, decision: &Decision) {
        self.note_one_in(ONE_IN.load(Ordering::Relaxed), agent, now, event, decision);
    }

    fn note_one_in(&mut self, one_in: u32, agent: &Arc<str>, now: Now, event: &Event, decision: &Decision) {
        if one_in == 0 {
            self.open.clear();
            return;
        }
        let run = event.run.as_deref();
        match &event.what {
            EventKind::RequestReceived(received) => match decision.refused_by() {
                Some(guard) => refused(agent, run, received, guard.name()),
                None => self.begin(agent, now, received),
            },
            EventKind::ResponseCompleted(done) => {
                let outcome = match done.ended {
                    Ended::Ok | Ended::Unknown => "answered",
                    Ended::Failed => "failed",
                };
                self.end(one_in, agent, run, now, done.request, outcome, done.usage);
            }
            EventKind::StreamAborted(cut) => {
                let outcome = match cut.by {
                    AbortedBy::Client => "client went away",
                    AbortedBy::Upstream => "failed",
                    AbortedBy::Guard => "cut by a guard",
                    AbortedBy::Kill => "cut by a stop",
                };
                self.end(one_in, agent, run, now, cut.request, outcome, cut.usage);
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
            | EventKind::Tick => {}
        }
    }

    fn begin(&mut self, agent: &Arc<str>, now: Now, received: &RequestReceived) {
        if self.open.len() < OPEN_MAX {
            let open = Open { since: now, model: received.model.clone() };
            self.open.insert((Arc::clone(agent), received.request), open);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one line")]
    fn end(
        &mut self,
        one_in: u32,
        agent: &Arc<str>,
        run: Option<&str>,
        now: Now,
        request: RequestId,
        outcome: &str,
        usage: Usage,
    ) {
        let open = self.open.remove(&(Arc::clone(agent), request));
        let is_chosen = self.ended.is_multiple_of(one_in.into());
        self.ended += 1;
        if !is_chosen && outcome == "answered" {
            return;
        }
        let duration_ms = open.as_ref().map(|open| now.mono.0.saturating_sub(open.since.mono.0));
        let model = open.as_ref().and_then(|open| open.model.as_deref());
        let (tokens_in, tokens_out) = (usage.input_tokens, usage.output_tokens);
        let usd = usage.usd.to_string();
        let (agent, request) = (&**agent, request.0);
        tracing::info!(
            target: "requests", agent, run, request, model, outcome, duration_ms, tokens_in, tokens_out, usd, "request"
        );
    }
}

fn refused(agent: &str, run: Option<&str>, received: &RequestReceived, guard: &str) {
    let (request, model) = (received.request.0, received.model.as_deref());
    tracing::info!(target: "requests", agent, run, request, model, outcome = "refused", guard, "request");
}

#[cfg(test)]
mod tests {
    use estop_core::decision::Outcome;
    use estop_core::event::{CallKind, Estimate, ResponseCompleted};
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
        }))
    }

    #[test]
    fn ob_1_requests_in_progress_are_forgotten_when_they_end_or_the_log_is_off() {
        let mut log = RequestLog::default();
        let (agent, allowed) = (Arc::from("coder"), Decision::plain(Outcome::Allow));
        let now = Now { mono: Millis(1), wall: 1 };
        log.note_one_in(0, &agent, now, &received(1), &allowed);
        assert!(log.open.is_empty(), "the log is off");
        log.note_one_in(3, &agent, now, &received(1), &allowed);
        log.note_one_in(3, &agent, now, &received(2), &allowed);
        assert_eq!(log.open.len(), 2);
        log.note_one_in(3, &agent, now, &completed(1), &Decision::plain(Outcome::Noted));
        assert_eq!(log.open.len(), 1);
        log.note_one_in(0, &agent, now, &completed(2), &Decision::plain(Outcome::Noted));
        assert!(log.open.is_empty());
    }

    #[test]
    fn ob_1_requests_in_progress_are_bounded() {
        let mut log = RequestLog::default();
        let (agent, allowed) = (Arc::from("coder"), Decision::plain(Outcome::Allow));
        for request in 0..OPEN_MAX as u64 + 5 {
            log.note_one_in(1, &agent, Now::default(), &received(request), &allowed);
        }
        assert_eq!(log.open.len(), OPEN_MAX);
    }
}
