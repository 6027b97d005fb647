//! The accounts of a budget, and how one stands.

use serde::{Deserialize, Serialize};

use crate::money::NanoUsd;

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
    /// Money a day, of all agents together.
    FleetUsdPerDay,
    /// Money a month, of all agents together.
    FleetUsdPerMonth,
    /// Tokens a day, of all agents together.
    FleetTokensPerDay,
    /// Tokens a month, of all agents together.
    FleetTokensPerMonth,
}

impl Account {
    /// Its key in the policy.
    pub fn name(self) -> &'static str {
        match self {
            Account::UsdPerDay | Account::FleetUsdPerDay => "usd_per_day",
            Account::UsdPerMonth | Account::FleetUsdPerMonth => "usd_per_month",
            Account::UsdPerRun => "usd_per_run",
            Account::TokensPerDay | Account::FleetTokensPerDay => "tokens_per_day",
            Account::TokensPerMonth | Account::FleetTokensPerMonth => "tokens_per_month",
            Account::TokensPerRun => "tokens_per_run",
            Account::Unpriced => "unpriced",
        }
    }

    /// The same cap, of all agents together.
    pub fn of_fleet(self) -> Account {
        match self {
            Account::UsdPerDay | Account::FleetUsdPerDay => Account::FleetUsdPerDay,
            Account::UsdPerMonth | Account::FleetUsdPerMonth => Account::FleetUsdPerMonth,
            Account::TokensPerDay | Account::FleetTokensPerDay => Account::FleetTokensPerDay,
            Account::TokensPerMonth | Account::FleetTokensPerMonth => Account::FleetTokensPerMonth,
            // A run is nobody's but its agent's.
            Account::UsdPerRun | Account::TokensPerRun | Account::Unpriced => self,
        }
    }

    fn is_fleet(self) -> bool {
        self == self.of_fleet()
            && !matches!(self, Account::UsdPerRun | Account::TokensPerRun | Account::Unpriced)
    }

    fn is_money(self) -> bool {
        matches!(
            self,
            Account::UsdPerDay
                | Account::UsdPerMonth
                | Account::UsdPerRun
                | Account::FleetUsdPerDay
                | Account::FleetUsdPerMonth
        )
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
        if self.account == Account::Unpriced {
            return f.write_str("Budget: this model has no price, and the policy says `unpriced: deny`.");
        }
        if self.account.is_money() {
            let usd = NanoUsd;
            let (spent, reserved, asked, cap) =
                (usd(self.spent), usd(self.reserved), usd(self.asked), usd(self.cap));
            return write!(
                f,
                "{whose} {name}: {spent} spent and {reserved} reserved of {cap}; this request may need {asked}."
            );
        }
        let BudgetFinding { spent, reserved, asked, cap, .. } = self;
        write!(
            f,
            "{whose} {name}: {spent} tokens spent and {reserved} reserved of {cap}; this request may need {asked}."
        )
    }
}
