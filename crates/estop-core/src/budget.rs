//! Spending (PO-2): reserved before a request is forwarded, settled with what it really used.
//!
//! Conservation: what is reserved is exactly the sum of open reservations, and every reservation ends once,
//! by [`Budget::settle`], whether its request completed, was cut or was never heard of again.
//!
//! Bound: what is booked never exceeds a cap by more than one request does. Reservations that fit add up to at most the
//! cap, and what a request uses is at most what it reserved. A request whose bound does not fit runs alone: it starts
//! only while nothing else is reserved, and its own reservation keeps all others out until it is settled.

mod finding;
mod period;

use serde::{Deserialize, Serialize};

use crate::money::NanoUsd;
use crate::policy::BudgetPolicy;
use crate::time::Now;
use finding::share_bp;
pub use finding::{BudgetCap, BudgetFinding, Fit};
use period::{Begins, Calendar};

/// Money and tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Money.
    pub usd: NanoUsd,
    /// Tokens.
    pub tokens: u64,
}

impl Amount {
    /// Both together.
    pub fn plus(self, other: Amount) -> Amount {
        Amount {
            usd: NanoUsd(self.usd.0.saturating_add(other.usd.0)),
            tokens: self.tokens.saturating_add(other.tokens),
        }
    }

    /// What is more here than in `other`.
    pub fn beyond(self, other: Amount) -> Amount {
        Amount {
            usd: NanoUsd(self.usd.0.saturating_sub(other.usd.0)),
            tokens: self.tokens.saturating_sub(other.tokens),
        }
    }

    /// The larger of each.
    pub fn max(self, other: Amount) -> Amount {
        Amount { usd: self.usd.max(other.usd), tokens: self.tokens.max(other.tokens) }
    }
}

/// What a request may need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Need {
    /// At most: this is reserved.
    pub most: Amount,
    /// Of that, what is only a bound and nobody asked for: if it does not fit, the request may still run alone.
    pub open: Amount,
}

impl From<Amount> for Need {
    fn from(most: Amount) -> Need {
        Need { most, open: Amount::default() }
    }
}

/// A share of a cap was reached, once a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BudgetWarning {
    /// Which cap.
    pub account: BudgetCap,
    /// 50, 80, 95 or 100.
    pub percent: u8,
    /// Settled so far.
    pub spent: u64,
    /// The cap.
    pub cap: u64,
}

/// The shares a person is told about.
const WARN_AT_PERCENT: [u8; 4] = [50, 80, 95, 100];

/// What was spent in one period, and which shares were told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spent {
    pub(crate) amount: Amount,
    /// How many of the shares were told, for money and for tokens.
    told_usd: u8,
    told_tokens: u8,
    /// One bit for each account and kind of refusal that was told.
    #[serde(default)]
    told_refusals: u32,
}

impl Spent {
    /// Tells shares that were reached and not told yet; several at once are told as the highest.
    fn warn(
        &mut self,
        usd: (BudgetCap, Option<NanoUsd>),
        tokens: (BudgetCap, Option<u64>),
        out: &mut Vec<BudgetWarning>,
    ) {
        push_warning(usd.0, self.amount.usd.0, usd.1.map(|cap| cap.0), &mut self.told_usd, out);
        push_warning(tokens.0, self.amount.tokens, tokens.1, &mut self.told_tokens, out);
    }

    /// Whether a refusal is the first of its account and kind in this period.
    pub(crate) fn is_first_refusal(&mut self, finding: &BudgetFinding) -> bool {
        let bit = 1_u32 << (2 * finding.account as u32 + u32::from(finding.fit == Fit::Waits));
        let is_first = self.told_refusals & bit == 0;
        self.told_refusals |= bit;
        is_first
    }

    pub(crate) fn warn_run(&mut self, policy: &BudgetPolicy, out: &mut Vec<BudgetWarning>) {
        self.warn(
            (BudgetCap::UsdPerRun, policy.usd_per_run),
            (BudgetCap::TokensPerRun, policy.tokens_per_run),
            out,
        );
    }
}

fn push_warning(
    account: BudgetCap,
    spent: u64,
    cap: Option<u64>,
    told: &mut u8,
    out: &mut Vec<BudgetWarning>,
) {
    let Some(cap) = cap else { return };
    let reached =
        WARN_AT_PERCENT.iter().filter(|p| share_bp(spent, cap) >= u64::from(**p) * 100).count() as u8;
    if reached > *told {
        *told = reached;
        out.push(BudgetWarning { account, percent: WARN_AT_PERCENT[usize::from(reached) - 1], spent, cap });
    }
}

/// The sum of what is reserved, wide enough that ending one reservation never eats into another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Reserved {
    usd: u128,
    tokens: u128,
}

impl Reserved {
    fn plus(self, other: Reserved) -> Reserved {
        Reserved { usd: self.usd.saturating_add(other.usd), tokens: self.tokens.saturating_add(other.tokens) }
    }

    fn beyond(self, other: Reserved) -> Reserved {
        Reserved { usd: self.usd.saturating_sub(other.usd), tokens: self.tokens.saturating_sub(other.tokens) }
    }
}

impl From<Amount> for Reserved {
    fn from(amount: Amount) -> Reserved {
        Reserved { usd: amount.usd.0.into(), tokens: amount.tokens.into() }
    }
}

impl From<Reserved> for Amount {
    fn from(sum: Reserved) -> Amount {
        let at_most = |sum: u128| u64::try_from(sum).unwrap_or(u64::MAX);
        Amount { usd: NanoUsd(at_most(sum.usd)), tokens: at_most(sum.tokens) }
    }
}

/// One agent's money, or the fleet's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    day: i32,
    month: i32,
    today: Spent,
    this_month: Spent,
    reserved: Reserved,
    #[serde(default)]
    calendar: Calendar,
    /// Everything that was ever settled.
    #[serde(default)]
    settled: Reserved,
}

/// What was spent in the present day and month.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeriodSpend {
    /// Today.
    pub today: Amount,
    /// This month.
    pub this_month: Amount,
}

/// What an account holds and has settled in all: what an event changed is the difference of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    reserved: Reserved,
    settled: Reserved,
}

impl Budget {
    /// Begins a new day or month when the calendar says so (`budget/period.rs`). A clock set back gives no money back.
    pub fn turn(&mut self, now: Now, policy: &BudgetPolicy) {
        if self.calendar.is_latest(policy.zone.day(now.wall), self.day, self.month) {
            return;
        }
        let local = policy.zone.local(now.wall);
        let Begins { day, month } = self.calendar.turn(now, local, &mut self.day, &mut self.month);
        if day {
            self.today = Spent::default();
        }
        if month {
            self.this_month = Spent::default();
        }
    }

    /// The latest day this account has seen, in days since 1970, if it is more than a day after the present one: the clock
    /// was ahead, and was put back since. Until then a day or month begins only where the clock comes to it by ticking.
    pub fn latest_day_ahead(&self, now: Now, policy: &BudgetPolicy) -> Option<i32> {
        self.calendar.latest_day_after(policy.zone.day(now.wall), self.day)
    }

    /// Begins the present day and month with what was spent in them, if the clock was ahead. Says whether it did; an
    /// account that is in the present stays as it is.
    pub fn renew(&mut self, now: Now, policy: &BudgetPolicy, spent: PeriodSpend) -> bool {
        if self.latest_day_ahead(now, policy).is_none() {
            return false;
        }
        let local = policy.zone.local(now.wall);
        (self.day, self.month, self.calendar) = (local.day, local.month, Calendar::at(local));
        self.today = Spent { amount: spent.today, ..Spent::default() };
        self.this_month = Spent { amount: spent.this_month, ..Spent::default() };
        true
    }

    /// The account that is fullest if what is needed were granted; `None` without any cap. Call [`Budget::turn`] first.
    pub fn tightest(
        &self,
        need: impl Into<Need>,
        run: RunSpend,
        policy: &BudgetPolicy,
    ) -> Option<BudgetFinding> {
        let Need { most, open } = need.into();
        let held = self.reserved();
        self.fullest(held, run, policy, |account, stands, cap| {
            if account.is_money() {
                BudgetFinding::of(account, stands, most.usd.0, open.usd.0, cap)
            } else {
                BudgetFinding::of(account, stands, most.tokens, open.tokens, cap)
            }
        })
    }

    /// The fullest account while a stream runs that has not used `unused` of what it holds: what it has used so far
    /// decides, and all that others hold.
    pub fn tightest_running(
        &self,
        unused: Amount,
        run: RunSpend,
        policy: &BudgetPolicy,
    ) -> Option<BudgetFinding> {
        let held = Reserved::from(unused);
        let run = RunSpend { spent: run.spent, reserved: run.reserved.beyond(unused) };
        self.fullest(self.reserved.beyond(held).into(), run, policy, |account, (spent, reserved), cap| {
            BudgetFinding::running(account, spent, reserved, cap)
        })
    }

    fn fullest(
        &self,
        held: Amount,
        run: RunSpend,
        policy: &BudgetPolicy,
        find: impl Fn(BudgetCap, (u64, u64), u64) -> BudgetFinding,
    ) -> Option<BudgetFinding> {
        let usd = |account, cap: Option<NanoUsd>, spent: Amount, reserved: Amount| {
            Some(find(account, (spent.usd.0, reserved.usd.0), cap?.0))
        };
        let tokens = |account, cap: Option<u64>, spent: Amount, reserved: Amount| {
            Some(find(account, (spent.tokens, reserved.tokens), cap?))
        };
        let (today, month) = (self.today.amount, self.this_month.amount);
        let accounts = [
            usd(BudgetCap::UsdPerDay, policy.usd_per_day, today, held),
            usd(BudgetCap::UsdPerMonth, policy.usd_per_month, month, held),
            usd(BudgetCap::UsdPerRun, policy.usd_per_run, run.spent, run.reserved),
            tokens(BudgetCap::TokensPerDay, policy.tokens_per_day, today, held),
            tokens(BudgetCap::TokensPerMonth, policy.tokens_per_month, month, held),
            tokens(BudgetCap::TokensPerRun, policy.tokens_per_run, run.spent, run.reserved),
        ];
        let found = accounts.into_iter().flatten();
        // One that refuses comes before any that does not; of equals the first, so that the order above decides.
        let tightness = |f: &BudgetFinding| (f.fit, f.fullness_bp());
        found.reduce(|best, next| if tightness(&next) > tightness(&best) { next } else { best })
    }

    /// Whether a refusal is the first of its account and kind in its period.
    pub(crate) fn is_first_refusal(&mut self, finding: &BudgetFinding) -> bool {
        let period = if finding.account.is_monthly() { &mut self.this_month } else { &mut self.today };
        period.is_first_refusal(finding)
    }

    /// Holds `amount` until it is settled.
    pub fn reserve(&mut self, amount: Amount) {
        self.reserved.usd += u128::from(amount.usd.0);
        self.reserved.tokens += u128::from(amount.tokens);
    }

    /// Ends a reservation of `held` with what was really `used`.
    pub fn settle(&mut self, held: Amount, used: Amount) {
        self.reserved.usd = self.reserved.usd.saturating_sub(u128::from(held.usd.0));
        self.reserved.tokens = self.reserved.tokens.saturating_sub(u128::from(held.tokens));
        self.today.amount = self.today.amount.plus(used);
        self.this_month.amount = self.this_month.amount.plus(used);
        self.settled.usd += u128::from(used.usd.0);
        self.settled.tokens += u128::from(used.tokens);
    }

    /// What it holds and has settled in all.
    pub fn totals(&self) -> Totals {
        Totals { reserved: self.reserved, settled: self.settled }
    }

    /// Takes over what another account did between two moments; `ahead` was reserved for it before.
    pub fn follow(&mut self, before: Totals, after: Totals, ahead: Amount) {
        let held = before.reserved.plus(ahead.into());
        let used = after.settled.beyond(before.settled);
        self.reserved = self.reserved.plus(after.reserved).beyond(held);
        self.settle(Amount::default(), used.into());
    }

    /// Nothing is held any more.
    pub fn release_all(&mut self) {
        self.reserved = Reserved::default();
    }

    /// Shares reached since the last call.
    pub fn warnings(&mut self, policy: &BudgetPolicy) -> Vec<BudgetWarning> {
        let mut out = Vec::new();
        self.today.warn(
            (BudgetCap::UsdPerDay, policy.usd_per_day),
            (BudgetCap::TokensPerDay, policy.tokens_per_day),
            &mut out,
        );
        self.this_month.warn(
            (BudgetCap::UsdPerMonth, policy.usd_per_month),
            (BudgetCap::TokensPerMonth, policy.tokens_per_month),
            &mut out,
        );
        out
    }

    /// Held for requests under way.
    pub fn reserved(&self) -> Amount {
        self.reserved.into()
    }

    /// Settled today.
    pub fn spent_today(&self) -> Amount {
        self.today.amount
    }

    /// Settled this month.
    pub fn spent_this_month(&self) -> Amount {
        self.this_month.amount
    }
}

/// What one run spent and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSpend {
    /// Settled.
    pub spent: Amount,
    /// Held for requests under way.
    pub reserved: Amount,
}
