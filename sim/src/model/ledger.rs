//! What an agent or the fleet spent, booked by a second bookkeeper who never looks into the core's books.

use estop_core::budget::Amount;
use estop_core::policy::BudgetPolicy;

use super::calendar::Local;

/// Money and tokens without a ceiling: the model must not saturate where the core might.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Nano-dollars.
    pub usd: u128,
    /// Tokens.
    pub tokens: u128,
}

impl From<Amount> for Total {
    fn from(amount: Amount) -> Total {
        Total { usd: amount.usd.0.into(), tokens: amount.tokens.into() }
    }
}

impl Total {
    /// As far as 64 bits can say it.
    pub fn saturated(self) -> Total {
        let max = u128::from(u64::MAX);
        Total { usd: self.usd.min(max), tokens: self.tokens.min(max) }
    }
}

impl std::ops::AddAssign for Total {
    fn add_assign(&mut self, other: Total) {
        self.usd += other.usd;
        self.tokens += other.tokens;
    }
}

impl std::ops::SubAssign for Total {
    /// Only what was added is ever taken away again.
    fn sub_assign(&mut self, other: Total) {
        self.usd -= other.usd;
        self.tokens -= other.tokens;
    }
}

/// Days and months.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    day: Period,
    month: Period,
    /// Held for requests under way.
    pub held: Total,
    /// When the clock was put back, by both clocks.
    believed_from: Option<(u64, i64)>,
}

/// A clock that is corrected or goes to summer time still ticks.
const MAY_RUN_AHEAD_MS: i128 = 2 * 3_600_000;

impl Ledger {
    /// The calendar shows this day and month. What was put back is believed from there on as far as it ticks.
    pub fn turn(&mut self, local: Local, mono: u64, wall: i64) {
        let jumps = self.believed_from.is_some_and(|(mono_then, wall_then)| {
            i128::from(wall) - i128::from(wall_then) > i128::from(mono - mono_then) + MAY_RUN_AHEAD_MS
        });
        let moved = [self.day.turn(local.day, jumps), self.month.turn(local.month, jumps)];
        if moved.contains(&true) {
            self.believed_from = Some((mono, wall));
        } else if self.day.is_latest() && self.month.is_latest() {
            self.believed_from = None;
        }
    }

    /// Books what was used.
    pub fn book(&mut self, used: Total) {
        self.day.book(used);
        self.month.book(used);
    }

    /// The first cap that `asked` does not fit under, in words. `run` is what its run spent and holds.
    pub fn overdrawn(&self, asked: Total, run: (Total, Total), caps: &BudgetPolicy) -> Option<String> {
        let (day, month) = (self.day.spent, self.month.spent);
        let (run_spent, run_held) = run;
        let usd = |cap: Option<estop_core::money::NanoUsd>| cap.map(|cap| u128::from(cap.0));
        let tokens = |cap: Option<u64>| cap.map(u128::from);
        let accounts = [
            ("usd_per_day", usd(caps.usd_per_day), day.usd, self.held.usd, asked.usd),
            ("usd_per_month", usd(caps.usd_per_month), month.usd, self.held.usd, asked.usd),
            ("usd_per_run", usd(caps.usd_per_run), run_spent.usd, run_held.usd, asked.usd),
            ("tokens_per_day", tokens(caps.tokens_per_day), day.tokens, self.held.tokens, asked.tokens),
            ("tokens_per_month", tokens(caps.tokens_per_month), month.tokens, self.held.tokens, asked.tokens),
            ("tokens_per_run", tokens(caps.tokens_per_run), run_spent.tokens, run_held.tokens, asked.tokens),
        ];
        accounts.into_iter().find_map(|(name, cap, spent, held, asked)| {
            let cap = cap?;
            (spent + held + asked > cap)
                .then(|| format!("{name}: spent {spent} + held {held} + asked {asked} is more than {cap}"))
        })
    }
}

/// One kind of period. A clock that goes back never gives money back: by one period it wavers around midnight and
/// nothing changes; by more it is followed, and of the periods it comes to a second time none begins by a jump.
#[derive(Clone, Debug, Default)]
struct Period {
    current: i64,
    latest: i64,
    spent: Total,
}

impl Period {
    /// Whether the clock was moved: put back, or forth by a jump to where it has been.
    fn turn(&mut self, shown: i64, jumps: bool) -> bool {
        if shown == self.current || shown == self.current - 1 {
            return false;
        }
        let (before, unseen) = (self.current, shown > self.latest);
        self.current = shown;
        self.latest = self.latest.max(shown);
        let forth = shown > before;
        if unseen || (forth && !jumps && shown < self.latest) {
            self.spent = Total::default();
            return false;
        }
        !forth || jumps
    }

    fn is_latest(&self) -> bool {
        self.current == self.latest
    }

    fn book(&mut self, used: Total) {
        self.spent += used;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_midnight_that_comes_twice_begins_nothing_new() {
        let dollar = Total { usd: 1, tokens: 1 };
        let mut period = Period::default();
        let mut spend_on = |(day, jumps)| {
            period.turn(day, jumps);
            period.book(dollar);
            period.spent.usd
        };
        let ticks = [(10, false), (9, false), (10, false), (11, false), (8, false), (9, false)];
        assert_eq!(ticks.map(&mut spend_on), [1, 2, 3, 1, 2, 1]);
        let jumps = [(10, true), (11, true), (12, true)];
        assert_eq!(jumps.map(&mut spend_on), [2, 3, 1]);
    }
}
