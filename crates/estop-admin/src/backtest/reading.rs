//! Reads an agent's records for a backtest, within bounds of number and time. What does not fit is left out from the
//! oldest end: the newest say most about today.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use estop_journal::Record;
use estop_store::Store;

use super::DAY_MS;
use crate::problem::{Kind, Problem};

/// Requests before the first day fill the windows, and count nothing.
const WARM_UP_MS: i64 = DAY_MS;

/// What is read, and how much of it at most.
pub(super) struct Asked<'a> {
    pub(super) agent: &'a str,
    pub(super) since: i64,
    /// Records that are judged.
    pub(super) records_max: usize,
    /// Records that are in memory at a time.
    pub(super) page: usize,
    pub(super) within: Duration,
    /// How long it took so far.
    pub(super) spent: &'a dyn Fn() -> Duration,
    /// Nobody waits any more.
    pub(super) gone: &'a AtomicBool,
}

/// What whoever judges is told.
pub(super) enum Step<'a> {
    /// What was judged so far does not count: the time is not enough for so much.
    Afresh,
    /// The next record.
    Next(&'a Record<'a>),
}

/// What was read.
#[derive(Default)]
pub(super) struct Read {
    pub(super) records: u64,
    pub(super) from: Option<i64>,
    pub(super) to: Option<i64>,
    pub(super) complete: bool,
}

impl Asked<'_> {
    /// Gives the records to `each`, from the oldest that matters on. Only a page of them is in memory at a time: the
    /// journal is read backwards for the places of the pages, and then page by page forwards.
    pub(super) fn read(&self, store: &dyn Store, each: &mut dyn FnMut(Step<'_>)) -> Result<Read, Problem> {
        let Pages { before: mut places, mut complete } = self.pages(store)?;
        let mut done = Read::default();
        let mut is_first = true;
        while let Some(before) = places.pop() {
            let begun = (self.spent)();
            if begun > self.within {
                complete = false;
                break;
            }
            self.still_there()?;
            for line in store.records_of(self.agent, Some(before), self.page)?.iter().rev() {
                let record = record(line)?;
                each(Step::Next(&record));
                done.records += 1;
                done.from.get_or_insert(record.now.wall);
                done.to = Some(record.now.wall);
            }
            // The oldest page tells how fast it goes: whether all of them fit is known at once.
            let now = (self.spent)();
            let fit = fitting(now.saturating_sub(begun), self.within.saturating_sub(now));
            if std::mem::take(&mut is_first) && fit < places.len() {
                places.truncate(fit);
                complete = false;
                done = Read::default();
                each(Step::Afresh);
            }
        }
        Ok(Read { complete, ..done })
    }

    /// Places of the pages. A quarter of the time goes into this: each page is read again, and judged.
    fn pages(&self, store: &dyn Store) -> Result<Pages, Problem> {
        let mut pages = Pages { before: Vec::new(), complete: true };
        let mut before = None;
        loop {
            self.still_there()?;
            let page = store.records_of(self.agent, before, self.page)?;
            let (Some(newest), Some(oldest)) = (page.first(), page.last()) else { break };
            // More is written meanwhile: a page is named by its newest record.
            pages.before.push(record(newest)?.seq + 1);
            let oldest = record(oldest)?;
            if page.len() < self.page || oldest.now.wall < self.since - WARM_UP_MS {
                break;
            }
            let is_full = pages.before.len() * self.page >= self.records_max;
            if is_full || (self.spent)() > self.within / 4 {
                pages.complete = oldest.now.wall < self.since;
                break;
            }
            before = Some(oldest.seq);
        }
        Ok(pages)
    }

    fn still_there(&self) -> Result<(), Problem> {
        if self.gone.load(Ordering::Relaxed) {
            return Err(Problem::new(Kind::Unavailable, "Nobody waits for this answer."));
        }
        Ok(())
    }
}

/// Where pages begin, the newest first.
struct Pages {
    before: Vec<u64>,
    /// All records that matter are in them.
    complete: bool,
}

/// Pages that can be judged in the time that is left, with some to spare; one always.
fn fitting(pace: Duration, left: Duration) -> usize {
    let fit = (left * 3 / 4).as_nanos().checked_div(pace.as_nanos()).unwrap_or(u128::MAX);
    usize::try_from(fit).unwrap_or(usize::MAX).max(1)
}

fn record(line: &[u8]) -> Result<Record<'_>, Problem> {
    Record::parse(line).map_err(|error| {
        Problem::new(
            Kind::Internal,
            format!("The journal cannot be read: {error}. Run `estop verify` on an export."),
        )
    })
}

#[cfg(test)]
#[path = "../../../estop-store/tests/support/written_journal.rs"]
#[allow(unreachable_pub, reason = "it is a module of several test binaries")]
mod written_journal;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::cell::Cell;

    use estop_core::event::{Event, EventKind};
    use estop_core::time::{Millis, Now};
    use estop_store::{Sqlite, SqliteOptions};

    use super::written_journal::WrittenJournal;
    use super::*;

    /// Ten records of `a` in pages of two, with eighty seconds for all: what is judged if a look at the clock, and the
    /// judgement of a record, take so many seconds.
    fn judged(look_s: u32, judge_s: u32) -> (Vec<u64>, bool) {
        let folder = tempfile::tempdir().unwrap();
        let store = Sqlite::open(&folder.path().join("estop.db"), SqliteOptions::default()).unwrap();
        let mut journal = WrittenJournal::open(folder.path());
        for minute in 1..=10 {
            let now = Now { mono: Millis(1), wall: minute * 60_000 };
            journal.agent("a", now, &Event::open(EventKind::Tick), &());
        }
        let clock = Cell::new(Duration::ZERO);
        let pass = |seconds: u32| clock.set(clock.get() + Duration::from_secs(seconds.into()));
        let spent = || {
            pass(look_s);
            clock.get()
        };
        let asked = Asked {
            agent: "a",
            since: 0,
            records_max: 100,
            page: 2,
            within: Duration::from_secs(80),
            spent: &spent,
            gone: &AtomicBool::default(),
        };
        let mut seqs = Vec::new();
        let mut each = |step: Step<'_>| match step {
            Step::Afresh => seqs.clear(),
            Step::Next(record) => {
                pass(judge_s);
                seqs.push(record.seq);
            }
        };
        let read = asked.read(&store, &mut each).unwrap();
        assert_eq!(read.records, seqs.len() as u64);
        (seqs, read.complete)
    }

    #[test]
    fn tw_8_what_is_not_judged_in_time_is_the_oldest_and_it_is_said() {
        assert_eq!(judged(0, 0), ((1..=10).collect(), true));
        assert_eq!(judged(0, 6), ((1..=10).collect(), true), "a minute is enough");
        assert_eq!(judged(0, 10), ((7..=10).collect(), false), "the first page told how slow it is");
        assert_eq!(judged(25, 0), (vec![9, 10], false), "finding the pages took long");
        assert_eq!(judged(100, 0), (Vec::new(), false));
        assert_eq!(fitting(Duration::from_secs(1), Duration::from_secs(8)), 6);
        assert_eq!(fitting(Duration::from_secs(9), Duration::ZERO), 1);
    }
}
