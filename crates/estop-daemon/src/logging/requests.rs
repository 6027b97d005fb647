//! The request log (`log.requests`): one line for each request that ended, or for one in so many. What was refused or failed
//! has its line in any case.

use std::sync::atomic::{AtomicU32, Ordering};

use estop_config::RequestShare;

use crate::request_ends::{EndedRequest, RequestOutcome};

/// One in how many requests is logged; 0 = none. Of the process, as its log is.
static ONE_IN: AtomicU32 = AtomicU32::new(0);

/// Takes up what the configuration says.
pub(super) fn choose(chosen: RequestShare) {
    let one_in = match chosen {
        RequestShare::Off => 0,
        RequestShare::OneIn(number) => number,
    };
    ONE_IN.store(one_in, Ordering::Relaxed);
}

/// Logs requests.
#[derive(Default)]
pub(crate) struct RequestLog {
    ended: u64,
}

impl RequestLog {
    /// Logs a request that ended.
    pub(crate) fn log(&mut self, ended: &EndedRequest<'_>) {
        let one_in = ONE_IN.load(Ordering::Relaxed);
        if one_in == 0 {
            return;
        }
        let EndedRequest { agent, run, request, model, outcome, duration_ms, first_byte_ms, usage, .. } =
            ended;
        let (request, model, text) = (request.0, model.as_deref(), outcome.text());
        if let Some(guard) = outcome.refused_by() {
            let guard = guard.name();
            tracing::info!(target: "requests", agent, run, request, model, outcome = text, guard, "request");
            return;
        }
        let is_chosen = self.ended.is_multiple_of(one_in.into());
        self.ended += 1;
        if !is_chosen && *outcome == RequestOutcome::Answered {
            return;
        }
        let (tokens_in, tokens_out) = (usage.input_tokens, usage.output_tokens);
        let usd = usage.usd.to_string();
        tracing::info!(
            target: "requests", agent, run, request, model, outcome = text, duration_ms, first_byte_ms, tokens_in, tokens_out, usd, "request"
        );
    }
}
