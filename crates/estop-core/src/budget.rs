//! Spending (PO-2): reserved before a request is forwarded, settled with what it really used.
//!
//! Conservation: what is reserved is exactly the sum of open reservations, and every reservation ends once,
//! by [`Budget::settle`], whether its request completed, was cut or was never heard of again.

use serde::{Deserialize, Serialize};

use crate::judgement::Judgement;
use crate::money::NanoUsd;
use crate::policy::{BudgetPolicy, Unpriced};

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
    pub(crate) fn beyond(self, other: Amount) -> Amount {
        Amount {
            usd: NanoUsd(self.usd.0.saturating_sub(other.usd.0)),
            tokens: self.tokens.saturating_sub(other.tokens),
        }
    }

    /// The larger of each.
    pub(crate) fn max(self, other: Amount) -> Amount {
        Amount { usd: self.usd.max(other.usd), tokens: self.tokens.max(other.tokens) }
    }
}

/// Which cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Account {
    /// Money a day.
    UsdPerDay,
    /// Money a month.
    UsdPerMonth,
    /// Money for the run.
    UsdPerRun,
    /// Tokens a day.
    TokensPerDay,
    /// Tokens a month.
    TokensPerMonth,
    /// Tokens for the run.
    TokensPerRun,
    /// The model has no price and the policy refuses that.
    Unpriced,
}

impl Account {
    /// Its key in the policy.
    pub fn name(self) -> &'static str {
        match self {
            Account::UsdPerDay => "usd_per_day",
            Account::UsdPerMonth => "usd_per_month",
            Account::UsdPerRun => "usd_per_run",
            Account::TokensPerDay => "tokens_per_day",
            Account::TokensPerMonth => "tokens_per_month",
            Account::TokensPerRun => "tokens_per_run",
            Account::Unpriced => "unpriced",
        }
    }

    fn is_money(self) -> bool {
        matches!(self, Account::UsdPerDay | Account::UsdPerMonth | Account::UsdPerRun)
    }
}

/// How an account stands: nano-dollars or tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetFinding {
    /// Which cap.
    pub account: Account,
    /// Settled so far.
    pub spent: u64,
    /// Held for requests under way.
    pub reserved: u64,
    /// What this request asks for.
    pub asked: u64,
    /// The cap.
    pub cap: u64,
}

impl BudgetFinding {
    /// Whether the request does not fit. A spent account refuses even what costs nothing.
    pub fn is_over(&self) -> bool {
        let committed = self.spent.saturating_add(self.reserved);
        committed >= self.cap || committed.saturating_add(self.asked) > self.cap
    }

    /// How full the account would be, in basis points; the tightest account is the one to show.
    fn fullness_bp(&self) -> u64 {
        let wanted = self.spent.saturating_add(self.reserved).saturating_add(self.asked);
        share_bp(wanted, self.cap)
    }
}

fn share_bp(part: u64, whole: u64) -> u64 {
    (u128::from(part) * 10_000 / u128::from(whole.max(1))).min(u128::from(u64::MAX)) as u64
}

impl std::fmt::Display for BudgetFinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.account.name();
        if self.account == Account::Unpriced {
            return f.write_str("Budget: this model has no price, and the policy says `unpriced: deny`.");
        }
        if self.account.is_money() {
            let usd = NanoUsd;
            let (spent, reserved, asked, cap) =
                (usd(self.spent), usd(self.reserved), usd(self.asked), usd(self.cap));
            return write!(
                f,
                "Budget {name}: {spent} spent and {reserved} reserved of {cap}; this request may need {asked}."
            );
        }
        let BudgetFinding { spent, reserved, asked, cap, .. } = self;
        write!(
            f,
            "Budget {name}: {spent} tokens spent and {reserved} reserved of {cap}; this request may need {asked}."
        )
    }
}

/// A share of a cap was reached, once a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BudgetWarning {
    /// Which cap.
    pub account: Account,
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
}

impl Spent {
    /// Tells shares that were reached and not told yet; several at once are told as the highest.
    fn warn(
        &mut self,
        usd: (Account, Option<NanoUsd>),
        tokens: (Account, Option<u64>),
        out: &mut Vec<BudgetWarning>,
    ) {
        tell(usd.0, self.amount.usd.0, usd.1.map(|cap| cap.0), &mut self.told_usd, out);
        tell(tokens.0, self.amount.tokens, tokens.1, &mut self.told_tokens, out);
    }

    pub(crate) fn warn_run(&mut self, policy: &BudgetPolicy, out: &mut Vec<BudgetWarning>) {
        self.warn(
            (Account::UsdPerRun, policy.usd_per_run),
            (Account::TokensPerRun, policy.tokens_per_run),
            out,
        );
    }
}

fn tell(account: Account, spent: u64, cap: Option<u64>, told: &mut u8, out: &mut Vec<BudgetWarning>) {
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

/// Goes on to the period `next`; whether it is a new one. Back by one is a clock that wavers around midnight: the
/// later period goes on. Back by more is a clock that was wrong: it is followed.
fn turns(period: &mut i32, next: i32) -> bool {
    let is_new = next > *period;
    if next != period.saturating_sub(1) {
        *period = next;
    }
    is_new
}

/// One agent's money, or the fleet's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    day: i32,
    month: i32,
    today: Spent,
    this_month: Spent,
    reserved: Reserved,
}

impl Budget {
    /// Begins a new day or month when the calendar says so.
    ///
    /// A clock set back gives no money back: what was spent stays, and a midnight that comes a second time begins
    /// nothing new. A clock that ran days ahead did begin new days; that cannot be told from days that passed.
    pub fn turn(&mut self, wall_ms: i64, policy: &BudgetPolicy) {
        let local = policy.zone.local(wall_ms);
        if turns(&mut self.day, local.day) {
            self.today = Spent::default();
        }
        if turns(&mut self.month, local.month) {
            self.this_month = Spent::default();
        }
    }

    /// The account that is fullest if `asked` were granted; `None` without any cap. Call [`Budget::turn`] first.
    pub fn tightest(&self, asked: Amount, run: RunSpend, policy: &BudgetPolicy) -> Option<BudgetFinding> {
        let usd = |account, cap: Option<NanoUsd>, spent: Amount, reserved: Amount| {
            Some(BudgetFinding {
                account,
                spent: spent.usd.0,
                reserved: reserved.usd.0,
                asked: asked.usd.0,
                cap: cap?.0,
            })
        };
        let tokens = |account, cap: Option<u64>, spent: Amount, reserved: Amount| {
            Some(BudgetFinding {
                account,
                spent: spent.tokens,
                reserved: reserved.tokens,
                asked: asked.tokens,
                cap: cap?,
            })
        };
        let (today, month, held) = (self.today.amount, self.this_month.amount, self.reserved());
        let accounts = [
            usd(Account::UsdPerDay, policy.usd_per_day, today, held),
            usd(Account::UsdPerMonth, policy.usd_per_month, month, held),
            usd(Account::UsdPerRun, policy.usd_per_run, run.spent, run.reserved),
            tokens(Account::TokensPerDay, policy.tokens_per_day, today, held),
            tokens(Account::TokensPerMonth, policy.tokens_per_month, month, held),
            tokens(Account::TokensPerRun, policy.tokens_per_run, run.spent, run.reserved),
        ];
        let found = accounts.into_iter().flatten();
        // One that is over comes before any that is not; of equals the first, so that the order above decides.
        let tightness = |f: &BudgetFinding| (f.is_over(), f.fullness_bp());
        found.reduce(|best, next| if tightness(&next) > tightness(&best) { next } else { best })
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
    }

    /// Shares reached since the last call.
    pub fn warnings(&mut self, policy: &BudgetPolicy) -> Vec<BudgetWarning> {
        let mut out = Vec::new();
        self.today.warn(
            (Account::UsdPerDay, policy.usd_per_day),
            (Account::TokensPerDay, policy.tokens_per_day),
            &mut out,
        );
        self.this_month.warn(
            (Account::UsdPerMonth, policy.usd_per_month),
            (Account::TokensPerMonth, policy.tokens_per_month),
            &mut out,
        );
        out
    }

    /// Held for requests under way.
    pub fn reserved(&self) -> Amount {
        let at_most = |sum: u128| u64::try_from(sum).unwrap_or(u64::MAX);
        Amount { usd: NanoUsd(at_most(self.reserved.usd)), tokens: at_most(self.reserved.tokens) }
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

/// Whether a request may spend what it asks for, by its agent's accounts and the fleet's.
pub(crate) fn judge(
    own: Option<BudgetFinding>,
    fleet: Option<BudgetFinding>,
    unpriced: bool,
    policy: &BudgetPolicy,
) -> Judgement<Option<BudgetFinding>> {
    if unpriced && policy.unpriced == Unpriced::Deny {
        let finding = BudgetFinding { account: Account::Unpriced, spent: 0, reserved: 0, asked: 0, cap: 0 };
        return Judgement::stop(Some(finding));
    }
    let over = [own, fleet].into_iter().flatten().find(BudgetFinding::is_over);
    match over.or(own).or(fleet) {
        Some(finding) => Judgement::stop_if(over.is_some(), Some(finding)),
        None => Judgement::CLEAR,
    }
}
