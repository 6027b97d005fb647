//! One forwarded request's account: what its answer says, what it uses, and the word to the core when it ends.
//!
//! An account is settled exactly once. Dropped unsettled, it says who cut the request, or else that its client went away.

use std::sync::Arc;

use estop_core::chant::ChantDetector;
use estop_core::ended::Ended;
use estop_core::event::{
    AbortedBy, ChantDetected, Estimate, ResponseCompleted, StreamAborted, StreamProgressed, Usage, What,
};
use estop_core::fingerprint::{ResponsePrint, ResponseText};
use estop_core::ids::{Name, RequestId};
use estop_core::money::NanoUsd;
use estop_core::prices::{Price, TokenUse};
use estop_core::report_tool::reported;
use estop_wire::response::{Observed, Observer, UsageIn};

use crate::agents::Agent;
use crate::flight::Flight;
use crate::host::Host;
use crate::journal_queue::shorten;
use crate::near::Near;
use crate::recall::Asked;

/// Bytes of text to a token, roughly: what is not told is estimated with it.
pub(crate) const BYTES_PER_TOKEN: u64 = 4;
/// A stream reports each time it has made this many tokens more. Chosen: a cut comes at most this late; half doubles
/// the records of long answers.
const PROGRESS_TOKENS: u64 = 1_024;

/// One forwarded request's account.
pub(crate) struct Account {
    host: Near<Host>,
    agent: Arc<Agent>,
    run: Option<Name>,
    request: RequestId,
    asked: Asked,
    estimate: Estimate,
    price: Option<Price>,
    flight: Arc<Flight>,
    failed: bool,
    reading: Option<Box<Reading>>,
    settled: bool,
}

struct Reading {
    observer: Observer,
    chant: Option<ChantDetector>,
    /// Report when this many tokens are made.
    next_report: u64,
}

/// Whose account it is.
pub(crate) struct Opened {
    /// Where the core is asked.
    pub host: Near<Host>,
    /// Which agent.
    pub agent: Arc<Agent>,
    /// Which run.
    pub run: Option<Name>,
    /// Which request.
    pub request: RequestId,
    /// What it asked.
    pub asked: Asked,
    /// What it may cost.
    pub estimate: Estimate,
    /// What its model costs, if that is known.
    pub price: Option<Price>,
    /// Its place among the requests under way.
    pub flight: Arc<Flight>,
}

impl Account {
    /// Opens the account of a request that was let through. Boxed: it goes from hand to hand until the answer ends.
    pub(crate) fn open(of: Opened) -> Box<Account> {
        let Opened { host, agent, run, request, asked, estimate, price, flight } = of;
        Box::new(Account {
            host,
            agent,
            run,
            request,
            asked,
            estimate,
            price,
            flight,
            failed: false,
            reading: None,
            settled: false,
        })
    }

    /// The request was not let through: there is nothing to settle.
    pub(crate) fn never_opened(&mut self) {
        self.settled = true;
    }

    /// The answer begins: how it is read, and whether its status says that it failed.
    pub(crate) fn begin(&mut self, observer: Option<Observer>, streams: bool, failed: bool) {
        self.failed = failed;
        self.reading = observer.map(|observer| {
            let chant = streams.then(ChantDetector::default);
            Box::new(Reading { observer, chant, next_report: PROGRESS_TOKENS })
        });
    }

    /// Reads what passes.
    pub(crate) fn observe(&mut self, bytes: &[u8]) {
        let Some(reading) = &mut self.reading else { return };
        let text = reading.observer.push(bytes);
        let chant = reading.chant.as_mut().and_then(|detector| detector.push(text));
        let (usage, output_bytes) = reading.observer.progress();
        let told = usage.map_or(0, |usage| usage.output);
        let tokens = told.max(output_bytes / BYTES_PER_TOKEN);
        if let Some(chant) = chant {
            let what = What::ChantDetected(ChantDetected { request: self.request, chant });
            self.host.tell(&self.agent, self.run.clone(), what);
        }
        if let Some(reading) = self.reading.as_mut().filter(|reading| tokens >= reading.next_report) {
            reading.next_report = tokens + PROGRESS_TOKENS;
            let usage = self.usage(usage, tokens);
            let progress = StreamProgressed { request: self.request, usage, fleet: None };
            self.host.tell(&self.agent, self.run.clone(), What::StreamProgressed(progress));
        }
    }

    /// Whether an error event could follow here without breaking into a half-sent one.
    pub(crate) fn at_boundary(&self) -> bool {
        self.reading.as_ref().is_none_or(|reading| reading.observer.at_boundary())
    }

    /// The answer is complete.
    pub(crate) fn complete(&mut self) {
        if std::mem::replace(&mut self.settled, true) {
            return;
        }
        let said = self.reading.take().map(|reading| reading.observer.finish()).unwrap_or_default();
        // What the provider says at the end is exact; without an end, or without a word, the bytes are counted.
        let is_exact = said.usage.is_some() && said.finish.is_some();
        let made = if is_exact { 0 } else { said.output_bytes / BYTES_PER_TOKEN };
        let usage = self.usage(said.usage, made);
        let ended = if self.failed || said.failed { Ended::Failed } else { Ended::Ok };
        let agent = Arc::clone(&self.agent);
        if ended == Ended::Ok {
            self.note_words(&said);
        }
        let print = self.print(&said);
        let mut judged = agent.judged();
        judged.recall.remember(self.asked, &said, &print);
        let completed = ResponseCompleted { request: self.request, ended, print, usage };
        self.host.tell_locked(&agent, &mut judged, self.run.clone(), What::ResponseCompleted(completed));
    }

    /// Keeps what the agent said last: in a report, or else in its text (CB-6).
    fn note_words(&self, said: &Observed) {
        let report = said.calls.iter().find_map(|call| reported(&call.name, &call.args));
        let text = report.as_deref().unwrap_or(&said.text);
        self.host.last_words(&self.agent.name, self.run.as_deref(), text);
    }

    fn print(&self, said: &Observed) -> ResponsePrint {
        let runners =
            if said.calls.is_empty() { None } else { Some(Arc::clone(&self.agent.judged().runners)) };
        let is_test = |name: &str, args: &str| runners.as_ref().is_some_and(|r| r.is_test_call(name, args));
        let calls = said.calls.iter();
        let calls = calls.map(|c| (c.name.as_str(), c.args.as_str(), is_test(&c.name, &c.args))).collect();
        let mut print = ResponsePrint::of(&ResponseText { text: &said.text, calls });
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
        let usage = if self.flight.was_sent() {
            self.usage(usage, output_bytes / BYTES_PER_TOKEN)
        } else {
            Usage::default()
        };
        let what = What::StreamAborted(StreamAborted { request: self.request, by, usage });
        self.host.tell(&self.agent, self.run.clone(), what);
    }

    /// What the provider said, and at least the `made` tokens that were seen; else an estimate. An answer that failed
    /// and says nothing used nothing.
    fn usage(&self, told: Option<UsageIn>, made: u64) -> Usage {
        let whole = |tokens: u64| u32::try_from(tokens).unwrap_or(u32::MAX);
        let (told, estimated) = match told {
            Some(told) => (UsageIn { output: told.output.max(made), ..told }, false),
            None if self.failed => return Usage::default(),
            None => {
                let input = self.estimate.input_tokens.into();
                (UsageIn { input, output: made, ..UsageIn::default() }, true)
            }
        };
        Usage {
            input_tokens: whole(told.input),
            output_tokens: whole(told.output),
            usd: self.price.as_ref().map_or(NanoUsd(0), |price| price.cost(&tokens(&told))),
            cache_read_tokens: whole(told.cache_read),
            cache_write_tokens: whole(told.cache_write),
            reasoning_tokens: whole(told.reasoning),
            estimated,
        }
    }
}

/// What was used, as it is priced: tokens of a cache have their own price and are no input beside it.
fn tokens(told: &UsageIn) -> TokenUse {
    let UsageIn { input, cache_read, cache_write, cache_write_1h, output, reasoning } = *told;
    let input = input.saturating_sub(cache_read).saturating_sub(cache_write);
    let cache_write = cache_write.saturating_sub(cache_write_1h);
    TokenUse { input, cache_read, cache_write, cache_write_1h, output, reasoning }
}

impl Drop for Account {
    fn drop(&mut self) {
        // Nobody asks any more: its client is gone, unless it was cut and could not be told.
        let by = self.flight.why_cut().map_or(AbortedBy::Client, |cut| cut.by);
        self.abort(by);
    }
}

#[cfg(test)]
mod tests {
    use estop_core::prices::RatesIn;

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
}
