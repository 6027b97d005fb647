//! The accounts of a budget, and how one stands.

use serde::{Deserialize, Serialize};

use crate::money::NanoUsd;

/// Which cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetCap {
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
    /// What the path costs cannot be known, and a cap stands over it.
    UnpricedPath,
    /// Money a day, of all agents together.
    FleetUsdPerDay,
    /// Money a month, of all agents together.
    FleetUsdPerMonth,
    /// Tokens a day, of all agents together.
    FleetTokensPerDay,
    /// Tokens a month, of all agents together.
    FleetTokensPerMonth,
}

impl BudgetCap {
    /// Its key in the policy.
    pub fn name(self) -> &'static str {
        match self {
            BudgetCap::UsdPerDay | BudgetCap::FleetUsdPerDay => "usd_per_day",
            BudgetCap::UsdPerMonth | BudgetCap::FleetUsdPerMonth => "usd_per_month",
            BudgetCap::UsdPerRun => "usd_per_run",
            BudgetCap::TokensPerDay | BudgetCap::FleetTokensPerDay => "tokens_per_day",
            BudgetCap::TokensPerMonth | BudgetCap::FleetTokensPerMonth => "tokens_per_month",
            BudgetCap::TokensPerRun => "tokens_per_run",
            BudgetCap::Unpriced => "unpriced",
            BudgetCap::UnpricedPath => "paths.allow",
        }
    }

    /// The same cap, of all agents together.
    pub fn of_fleet(self) -> BudgetCap {
        match self {
            BudgetCap::UsdPerDay | BudgetCap::FleetUsdPerDay => BudgetCap::FleetUsdPerDay,
            BudgetCap::UsdPerMonth | BudgetCap::FleetUsdPerMonth => BudgetCap::FleetUsdPerMonth,
            BudgetCap::TokensPerDay | BudgetCap::FleetTokensPerDay => BudgetCap::FleetTokensPerDay,
            BudgetCap::TokensPerMonth | BudgetCap::FleetTokensPerMonth => BudgetCap::FleetTokensPerMonth,
            // A run is nobody's but its agent's.
            BudgetCap::UsdPerRun
            | BudgetCap::TokensPerRun
            | BudgetCap::Unpriced
            | BudgetCap::UnpricedPath => self,
        }
    }

    /// Whether it is an account of all agents together.
    pub fn is_fleet(self) -> bool {
        matches!(
            self,
            BudgetCap::FleetUsdPerDay
                | BudgetCap::FleetUsdPerMonth
                | BudgetCap::FleetTokensPerDay
                | BudgetCap::FleetTokensPerMonth
        )
    }

    /// Whether it is an account of one run.
    pub(crate) fn is_run(self) -> bool {
        matches!(self, BudgetCap::UsdPerRun | BudgetCap::TokensPerRun)
    }

    /// Whether it is an account of this agent that begins anew with the day or the month.
    pub(crate) fn has_period(self) -> bool {
        matches!(
            self,
            BudgetCap::UsdPerDay
                | BudgetCap::UsdPerMonth
                | BudgetCap::TokensPerDay
                | BudgetCap::TokensPerMonth
        )
    }

    /// Whether it begins anew with the month.
    pub(super) fn is_monthly(self) -> bool {
        matches!(
            self,
            BudgetCap::UsdPerMonth
                | BudgetCap::TokensPerMonth
                | BudgetCap::FleetUsdPerMonth
                | BudgetCap::FleetTokensPerMonth
        )
    }

    pub(crate) fn is_money(self) -> bool {
        matches!(
            self,
            BudgetCap::UsdPerDay
                | BudgetCap::UsdPerMonth
                | BudgetCap::UsdPerRun
                | BudgetCap::FleetUsdPerDay
                | BudgetCap::FleetUsdPerMonth
        )
    }
}

/// Whether a request fits into an account. In order: of several accounts the last of these decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fit {
    /// The most it may need is there.
    #[default]
    Fits,
    /// The most it may need is not there, but nothing else is under way: it may run alone.
    Alone,
    /// There is money, but requests under way hold it: it ends by itself.
    Waits,
    /// There is not enough left for what it asks for.
    Over,
}

impl Fit {
    fn is_fits(&self) -> bool {
        *self == Fit::Fits
    }
}

/// How an account stands: nano-dollars or tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetFinding {
    /// Which cap.
    pub account: BudgetCap,
    /// Settled so far.
    pub spent: u64,
    /// Held for requests under way.
    pub reserved: u64,
    /// What this request asks for.
    pub asked: u64,
    /// The cap.
    pub cap: u64,
    /// Whether it fits.
    #[serde(default, skip_serializing_if = "Fit::is_fits")]
    pub fit: Fit,
}

impl BudgetFinding {
    /// How an account stands if a request asks for `most`, of which `open` is only a bound and nobody asked for it.
    pub fn of(account: BudgetCap, (spent, reserved): (u64, u64), most: u64, open: u64, cap: u64) -> Self {
        let least = most.saturating_sub(open);
        let committed = spent.saturating_add(reserved);
        // A spent account refuses even what costs nothing.
        let fit = if spent >= cap || spent.saturating_add(least) > cap {
            Fit::Over
        } else if committed < cap && committed.saturating_add(most) <= cap {
            Fit::Fits
        } else if reserved == 0 {
            Fit::Alone
        } else {
            Fit::Waits
        };
        BudgetFinding { account, spent, reserved, asked: most, cap, fit }
    }

    /// How an account stands while a stream runs: reaching the cap exactly is allowed, going beyond is not.
    pub(super) fn running(account: BudgetCap, spent: u64, reserved: u64, cap: u64) -> Self {
        let fit = if spent.saturating_add(reserved) > cap { Fit::Over } else { Fit::Fits };
        BudgetFinding { account, spent, reserved, asked: 0, cap, fit }
    }

    /// A refusal for what has no price.
    pub(crate) fn unpriced(account: BudgetCap) -> Self {
        BudgetFinding { account, spent: 0, reserved: 0, asked: 0, cap: 0, fit: Fit::Over }
    }

    /// Whether the request is refused.
    pub fn is_over(&self) -> bool {
        matches!(self.fit, Fit::Waits | Fit::Over)
    }

    /// How full the account would be, in basis points; the tightest account is the one to show.
    pub(super) fn fullness_bp(&self) -> u64 {
        let wanted = self.spent.saturating_add(self.reserved).saturating_add(self.asked);
        share_bp(wanted, self.cap)
    }
}

pub(super) fn share_bp(part: u64, whole: u64) -> u64 {
    (u128::from(part) * 10_000 / u128::from(whole.max(1))).min(u128::from(u64::MAX)) as u64
}

impl std::fmt::Display for BudgetFinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.account.name();
        let whose = if self.account.is_fleet() { "Budget of all agents together," } else { "Budget" };
        if self.account == BudgetCap::Unpriced {
            return f.write_str("Budget: this model has no price, so a dollar cap cannot count it. Give it one under `prices:`, or say `unpriced: count` in the policy's budget to count its tokens alone.");
        }
        if self.account == BudgetCap::UnpricedPath {
            return f.write_str(
                "Budget: what this path costs cannot be known, so under a budget cap it is refused unless `budget.paths.allow` of the policy names it.",
            );
        }
        let end = match self.fit {
            Fit::Waits => ", which requests in progress reserve until they end",
            Fit::Alone => ", so it runs alone",
            Fit::Fits | Fit::Over => "",
        };
        if self.account.is_money() {
            let usd = NanoUsd;
            let (spent, reserved, asked, cap) =
                (usd(self.spent), usd(self.reserved), usd(self.asked), usd(self.cap));
            return write!(
                f,
                "{whose} {name}: {spent} spent and {reserved} reserved of {cap}; this request may need {asked}{end}."
            );
        }
        let BudgetFinding { spent, reserved, asked, cap, .. } = self;
        write!(
            f,
            "{whose} {name}: {spent} tokens spent and {reserved} reserved of {cap}; this request may need {asked}{end}."
        )
    }
}
