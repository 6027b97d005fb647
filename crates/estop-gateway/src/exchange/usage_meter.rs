//! One forwarded request's meter: what its answer says, what it uses, and the word to the core when it ends.
//!
//! A meter is settled exactly once. Dropped unsettled, it says who cut the request, or else that its client went away.

mod job_watch;
mod kept_steps;

use std::sync::Arc;

use estop_core::ended::Ended;
use estop_core::event::{
    AbortedBy, ChantDetected, Estimate, EventKind, ResponseCompleted, StreamAborted, StreamProgressed, Usage,
};
use estop_core::fingerprint::{ResponseFingerprint, ResponseText};
use estop_core::ids::{Name, RequestId};
use estop_core::loop_detector::chant::ChantDetector;
use estop_core::prices::{MODEL_TOKENS_MAX, TokenUse};
use estop_core::time::Millis;
use estop_wire::response::{Observed, Observer, UsageIn};

use crate::emergency_stop::in_flight::InFlightRequest;
use crate::engine::Engine;
use crate::engine::agents::Agent;
use crate::engine::background::OpenMeter;
use crate::engine::previous_responses::RequestSummary;
use crate::engine::recorder::Tap;
use crate::exchange::pricing::{self, ModelPrices};
use crate::journal::shorten;
use job_watch::MeterEnd;
pub(crate) use job_watch::{JobWatch, MayNotBegin, Sending};

/// Bytes to a token where nobody says how many there were. English has four and more, code three to four, most other
/// scripts about three: what is estimated is rather too much.
const BOOKED_BYTES_PER_TOKEN: u64 = 3;
/// Tokens a model makes in a second at most, for what a broken-off stream may have made unseen. Models whose tokens cost
/// dollars a million make 50 to 300.
const TOKENS_PER_SECOND: u64 = 1_000;
/// A stream reports each time it has made this many tokens more. Chosen: a cut comes at most this late; half doubles
/// the records of long answers.
const PROGRESS_TOKENS: u64 = 1_024;

/// One forwarded request's meter.
pub(crate) struct UsageMeter {
    engine: Arc<Engine>,
    agent: Arc<Agent>,
    run: Option<Name>,
    request: RequestId,
    summary: RequestSummary,
    estimate: Estimate,
    prices: ModelPrices,
    /// The client asked for a stream.
    streams: bool,
    began: Millis,
    /// `None` once its answer is over and its result is awaited.
    flight: Option<Arc<InFlightRequest>>,
    /// When the first byte of its answer came.
    first_byte: Option<Millis>,
    /// An answer has begun.
    answered: bool,
    failed: bool,
    reading: Option<Box<Reading>>,
    /// It begins work at the provider, or asks about some.
    job: Option<Box<JobWatch>>,
    /// A person records its agent.
    recording: Option<Arc<Tap>>,
    settled: bool,
}

struct Reading {
    observer: Observer,
    chant: Option<ChantDetector>,
    /// Report when this many tokens are made.
    next_report: u64,
}

/// Whose meter it is.
pub(crate) struct Opened {
    /// What applies events.
    pub engine: Arc<Engine>,
    /// Which agent.
    pub agent: Arc<Agent>,
    /// Which run.
    pub run: Option<Name>,
    /// Which request.
    pub request: RequestId,
    /// What it asked, in short.
    pub summary: RequestSummary,
    /// What it may cost.
    pub estimate: Estimate,
    /// What its models cost, as far as that is known.
    pub prices: ModelPrices,
    /// The client asked for a stream.
    pub streams: bool,
    /// Its place among the requests under way.
    pub flight: Arc<InFlightRequest>,
    /// A person records its agent.
    pub recording: Option<Arc<Tap>>,
}

impl UsageMeter {
    /// Opens the meter of a request that was let through. Boxed: it goes from hand to hand until the answer ends.
    pub(crate) fn open(of: Opened) -> Box<UsageMeter> {
        let Opened { engine, agent, run, request, summary, estimate, prices, streams, flight, recording } =
            of;
        Box::new(UsageMeter {
            began: engine.clock.now_coarse(),
            engine,
            agent,
            run,
            request,
            summary,
            estimate,
            prices,
            streams,
            flight: Some(flight),
            first_byte: None,
            answered: false,
            failed: false,
            reading: None,
            job: None,
            recording,
            settled: false,
        })
    }

    /// The request was not let through: there is nothing to settle.
    pub(crate) fn never_opened(&mut self) {
        self.settled = true;
    }

    /// Watches for work at the provider.
    pub(crate) fn watch_job(&mut self, job: Option<Box<JobWatch>>) {
        self.job = job;
    }

    /// What applies events.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Which run.
    pub(crate) fn run(&self) -> Option<&Name> {
        self.run.as_ref()
    }

    /// The same meter, to be settled when the result is seen: what is reserved stays so, no longer than the core keeps a
    /// reservation without a sign of life.
    pub(crate) fn parked(&self) -> Box<UsageMeter> {
        Box::new(UsageMeter {
            engine: self.engine.clone(),
            agent: Arc::clone(&self.agent),
            run: self.run.clone(),
            request: self.request,
            summary: self.summary,
            estimate: self.estimate,
            prices: self.prices.clone(),
            streams: self.streams,
            began: self.began,
            flight: None,
            first_byte: self.first_byte,
            answered: true,
            failed: false,
            reading: None,
            job: None,
            recording: self.recording.clone(),
            settled: false,
        })
    }

    /// The head of the answer came, and this is how the rest is read.
    pub(crate) fn begin(&mut self, observer: Option<Observer>, streams: bool, head: &http::response::Parts) {
        if let Some(job) = &mut self.job {
            job.begin(head);
        }
        self.failed = head.status.as_u16() >= 400;
        self.answered = true;
        self.reading = observer.map(|observer| {
            let chant = streams.then(ChantDetector::default);
            Box::new(Reading { observer, chant, next_report: PROGRESS_TOKENS })
        });
    }

    /// Reads what passes.
    pub(crate) fn observe(&mut self, bytes: &[u8]) {
        if self.first_byte.is_none() {
            self.first_byte = Some(self.engine.clock.mono());
        }
        if let Some(job) = &mut self.job {
            job.push(bytes);
        }
        let Some(reading) = &mut self.reading else { return };
        let text = reading.observer.push(bytes);
        let chant = reading.chant.as_mut().and_then(|detector| detector.push(text));
        let (usage, output_bytes) = reading.observer.progress();
        let told = usage.map_or(0, |usage| usage.output);
        let tokens = told.max(output_bytes / BOOKED_BYTES_PER_TOKEN);
        if let Some(chant) = chant {
            let what = EventKind::ChantDetected(ChantDetected { request: self.request, chant });
            self.engine.apply(&self.agent, self.run.clone(), what);
        }
        if let Some(reading) = self.reading.as_mut().filter(|reading| tokens >= reading.next_report) {
            reading.next_report = tokens + PROGRESS_TOKENS;
            let usage = self.usage(usage, tokens, UsageKnown::SoFar);
            let progress = StreamProgressed { request: self.request, usage, fleet: None };
            self.engine.apply(&self.agent, self.run.clone(), EventKind::StreamProgressed(progress));
        }
    }

    /// Whether an error event could follow here without breaking into a half-sent one.
    pub(crate) fn at_boundary(&self) -> bool {
        self.reading.as_ref().is_none_or(|reading| reading.observer.at_boundary())
    }

    /// Whether an error could follow here as an element of a JSON array, and whether a comma is due before it.
    pub(crate) fn array_gap(&self) -> Option<bool> {
        self.reading.as_ref().and_then(|reading| reading.observer.array_gap())
    }

    /// The answer is complete.
    pub(crate) fn complete(&mut self) {
        if std::mem::replace(&mut self.settled, true) {
            return;
        }
        let said = self.reading.take().map(|reading| reading.observer.finish()).unwrap_or_default();
        if self.end_job(Some(&said)) == MeterEnd::Settle {
            self.book(&said);
        }
    }

    /// The result of work in the background was seen.
    pub(crate) fn settle_with(&mut self, said: &Observed) {
        if !std::mem::replace(&mut self.settled, true) {
            self.book(said);
        }
    }

    /// Its result was never seen: what was reserved is booked as an estimate.
    pub(crate) fn settle_reserved(&mut self) {
        if std::mem::replace(&mut self.settled, true) {
            return;
        }
        let usage = self.all_reserved();
        let what =
            EventKind::StreamAborted(StreamAborted { request: self.request, by: AbortedBy::Kill, usage });
        self.engine.apply(&self.agent, self.run.clone(), what);
    }

    /// Remembers work that began and settles what ended; whether this meter is settled too.
    fn end_job(&mut self, said: Option<&Observed>) -> MeterEnd {
        let was_sent = self.was_sent();
        self.job.take().map_or(MeterEnd::Settle, |job| job.end(self, said, was_sent))
    }

    fn was_sent(&self) -> bool {
        self.flight.as_ref().is_none_or(|flight| flight.was_sent())
    }

    fn was_cut(&self) -> bool {
        self.flight.as_ref().is_some_and(|flight| flight.why_cut().is_some())
    }

    fn book(&mut self, said: &Observed) {
        // What the provider says at the end is exact; without an end, or without a word, the bytes are counted.
        let is_exact = said.usage.is_some() && said.finish.is_some();
        let usage = if is_exact {
            self.usage(said.usage, 0, UsageKnown::InFull)
        } else {
            // What a model thought unseen, or wrote where nobody could read it, is billed all the same.
            let is_unseen = self.prices.reasons() || said.output_bytes == 0;
            let unseen = if is_unseen { self.estimate.output_tokens.into() } else { 0 };
            self.usage(said.usage, unseen.max(said.output_bytes / BOOKED_BYTES_PER_TOKEN), UsageKnown::SoFar)
        };
        let ended = if self.failed || said.failed { Ended::Failed } else { Ended::Ok };
        let agent = Arc::clone(&self.agent);
        if let Some(recording) = &self.recording {
            recording.answer(self.request, self.engine.clock.mono(), said, ended);
        }
        if ended == Ended::Ok {
            self.record_output(said);
        }
        self.log_answer(said, usage, ended);
        let print = self.print(said);
        let mut judged = agent.lock_state();
        judged.previous_responses.remember(self.summary, said, &print);
        let first_byte_ms =
            self.first_byte.map(|first| u32::try_from(first.since(self.began)).unwrap_or(u32::MAX));
        let completed = ResponseCompleted { request: self.request, ended, print, usage, first_byte_ms };
        self.engine.apply_locked(
            &agent,
            &mut judged,
            self.run.clone(),
            EventKind::ResponseCompleted(completed),
        );
    }

    fn print(&self, said: &Observed) -> ResponseFingerprint {
        let runners =
            if said.calls.is_empty() { None } else { Some(Arc::clone(&self.agent.lock_state().runners)) };
        let is_test = |name: &str, args: &str| runners.as_ref().is_some_and(|r| r.is_test_call(name, args));
        let calls = said.calls.iter();
        let calls = calls.map(|c| (c.name.as_str(), c.args.as_str(), is_test(&c.name, &c.args))).collect();
        let mut print = ResponseFingerprint::of(&ResponseText { text: &said.text, calls });
        print.calls.iter_mut().for_each(|call| shorten(&mut call.tool));
        print
    }

    /// The answer ended early, or never came.
    pub(crate) fn abort(&mut self, by: AbortedBy) {
        if std::mem::replace(&mut self.settled, true) {
            return;
        }
        let (usage, output_bytes) = match self.reading.take() {
            Some(reading) => reading.observer.progress(),
            None => (None, 0),
        };
        if self.end_job(None) == MeterEnd::StaysOpen {
            return;
        }
        let usage = if self.was_sent() {
            self.usage_broken_off(by, usage, output_bytes / BOOKED_BYTES_PER_TOKEN)
        } else {
            Usage::default()
        };
        if let Some(recording) = &self.recording {
            recording.aborted(self.request, self.engine.clock.mono(), by);
        }
        self.log_end(by, usage);
        let what = EventKind::StreamAborted(StreamAborted { request: self.request, by, usage });
        self.engine.apply(&self.agent, self.run.clone(), what);
    }

    /// What a request used whose answer did not come to its end.
    fn usage_broken_off(&self, by: AbortedBy, told: Option<UsageIn>, made: u64) -> Usage {
        let closed_first = by == AbortedBy::Upstream && !self.was_cut() && !self.answered;
        if self.failed || closed_first {
            return self.usage(told, made, UsageKnown::SoFar);
        }
        if !self.streams {
            // A provider goes on with an answer that nobody waits for, and bills it.
            return match told {
                Some(_) => self.usage(told, made, UsageKnown::SoFar),
                None => self.all_reserved(),
            };
        }
        let unseen = if self.prices.reasons() {
            let seconds = self.engine.clock.now_coarse().since(self.began).div_ceil(1_000);
            seconds.saturating_mul(TOKENS_PER_SECOND).min(self.estimate.output_tokens.into())
        } else {
            0
        };
        self.usage(told, made.max(unseen), UsageKnown::SoFar)
    }

    /// All that was reserved.
    fn all_reserved(&self) -> Usage {
        Usage {
            input_tokens: bounded(self.estimate.input_reserved()).0,
            output_tokens: self.estimate.output_tokens,
            usd: self.estimate.usd,
            estimated: true,
            ..Usage::default()
        }
    }

    /// What the provider said, and at least the `made` tokens that were seen; else an estimate. An answer that failed
    /// and says nothing used nothing.
    fn usage(&self, said: Option<UsageIn>, made: u64, known_by: UsageKnown) -> Usage {
        let known = match said {
            Some(said) => said,
            // It failed, or there was nothing to pay for.
            None if self.failed || self.estimate == Estimate::default() => return Usage::default(),
            None => {
                let bytes = u64::from(self.estimate.input_tokens) * pricing::RATE_BYTES_PER_TOKEN;
                UsageIn { input: bytes.div_ceil(BOOKED_BYTES_PER_TOKEN), ..UsageIn::default() }
            }
        };
        let is_guess = known_by == UsageKnown::SoFar && (said.is_none() || made > known.output);
        let used = UsageIn { output: known.output.max(made), ..known };
        let (used, is_beyond) = bounded_usage(&used);
        let whole = |tokens: u64| bounded(tokens).0;
        Usage {
            input_tokens: whole(used.input),
            output_tokens: whole(used.output),
            usd: self.prices.cost(&tokens(&used)),
            cache_read_tokens: whole(used.cache_read),
            cache_write_tokens: whole(used.cache_write),
            reasoning_tokens: whole(used.reasoning),
            estimated: is_guess || is_beyond,
        }
    }
}

/// How much a provider has said of what was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UsageKnown {
    /// All of it, at the end.
    InFull,
    /// Nothing, or what it knew by then.
    SoFar,
}

/// Tokens as many as one answer can have, and whether there were said to be more.
fn bounded(tokens: u64) -> (u32, bool) {
    let whole = u32::try_from(tokens).unwrap_or(u32::MAX);
    (whole.min(MODEL_TOKENS_MAX), whole > MODEL_TOKENS_MAX)
}

/// The same of all kinds: one wrong number must not use up every budget.
fn bounded_usage(said: &UsageIn) -> (UsageIn, bool) {
    let mut is_beyond = false;
    let mut bound = |tokens: u64| {
        let (tokens, beyond) = bounded(tokens);
        is_beyond |= beyond;
        u64::from(tokens)
    };
    let UsageIn { input, cache_read, cache_write, cache_write_1h, output, reasoning } = *said;
    let used = UsageIn {
        input: bound(input),
        cache_read: bound(cache_read),
        cache_write: bound(cache_write),
        cache_write_1h: bound(cache_write_1h),
        output: bound(output),
        reasoning: bound(reasoning),
    };
    (used, is_beyond)
}

/// What was used, as it is priced: tokens of a cache have their own price and are no input beside it.
fn tokens(told: &UsageIn) -> TokenUse {
    let UsageIn { input, cache_read, cache_write, cache_write_1h, output, reasoning } = *told;
    let input = input.saturating_sub(cache_read).saturating_sub(cache_write);
    let cache_write = cache_write.saturating_sub(cache_write_1h);
    TokenUse { input, cache_read, cache_write, cache_write_1h, output, reasoning }
}

impl OpenMeter for UsageMeter {
    fn settle(mut self: Box<Self>, said: Option<Observed>) {
        match said.filter(|said| said.usage.is_some()) {
            Some(said) => self.settle_with(&said),
            None => self.settle_reserved(),
        }
    }

    fn close(&mut self) {
        self.never_opened();
    }
}

impl Drop for UsageMeter {
    fn drop(&mut self) {
        // Nobody asks any more: its client is gone, unless it was cut and could not be told.
        let cut = self.flight.as_ref().and_then(|flight| flight.why_cut());
        let by = cut.map_or(AbortedBy::Client, |cut| cut.by);
        self.abort(by);
    }
}

#[cfg(test)]
mod tests {
    use estop_core::money::NanoUsd;
    use estop_core::prices::{Price, RatesIn};

    use super::*;

    #[test]
    fn po_2_an_hour_in_the_cache_has_its_own_price() {
        let dollar = NanoUsd::DOLLAR.0;
        // $3 a million in, $3.75 into a cache for minutes, $6 for an hour, $0.30 out of it, $15 out.
        let price = Price::flat(RatesIn {
            input: 3 * dollar,
            output: 15 * dollar,
            cache_read: Some(dollar * 3 / 10),
            cache_write: Some(dollar * 15 / 4),
            cache_write_1h: Some(6 * dollar),
            reasoning: None,
        });
        let told = UsageIn {
            input: 1_000_000,
            cache_read: 400_000,
            cache_write: 500_000,
            cache_write_1h: 300_000,
            output: 0,
            reasoning: 0,
        };
        // 100k plain, 400k read, 200k for minutes, 300k for an hour.
        let cents = 30 + 12 + 75 + 180;
        assert_eq!(price.cost(&tokens(&told)), NanoUsd(dollar / 100 * cents));
    }

    #[test]
    fn po_2_one_answer_has_no_more_tokens_than_any_model_makes() {
        let most = u64::from(MODEL_TOKENS_MAX);
        let said = UsageIn { input: u64::MAX, output: most, ..UsageIn::default() };
        let (used, is_beyond) = bounded_usage(&said);
        assert_eq!((used.input, used.output, is_beyond), (most, most, true));
        let (used, is_beyond) = bounded_usage(&UsageIn { input: most, ..UsageIn::default() });
        assert_eq!((used.input, is_beyond), (most, false));
    }
}
