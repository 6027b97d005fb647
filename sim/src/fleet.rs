//! The fleet's account: the core's `Budget`, used by all agents together, beside a ledger of the model's.

use estop_core::budget::{Budget, BudgetFinding, RunSpend};
use estop_core::event::Estimate;
use estop_core::money::NanoUsd;
use estop_core::policy::BudgetPolicy;
use estop_core::time::{Millis, Now};

use crate::broken::{Breach, Holds, ensure};
use crate::model::calendar::{self, Local};
use crate::model::ledger::{Ledger, Total};
use crate::model::{Booking, asked};

/// The account, kept twice.
#[derive(Debug)]
pub struct Fleet {
    caps: BudgetPolicy,
    account: Budget,
    ledger: Ledger,
    local: Local,
    mono: Millis,
}

impl Fleet {
    /// An account that `agents` agents can use up in a day or two.
    pub fn new(agents: usize) -> Fleet {
        let agents = agents as u64;
        let caps = BudgetPolicy {
            usd_per_day: Some(NanoUsd(NanoUsd::DOLLAR.0 / 2 * agents)),
            usd_per_month: Some(NanoUsd(NanoUsd::DOLLAR.0 * 2 * agents)),
            tokens_per_day: Some(200_000 * agents),
            ..BudgetPolicy::default()
        };
        Fleet {
            caps,
            account: Budget::default(),
            ledger: Ledger::default(),
            local: Local::default(),
            mono: Millis::default(),
        }
    }

    /// The calendar shows another moment.
    pub fn turn(&mut self, now: Now) {
        // Agents come with clocks of one machine: time only goes on.
        let now = Now { mono: self.mono.max(now.mono), wall: now.wall };
        self.mono = now.mono;
        self.account.turn(now, &self.caps);
        self.local = calendar::local(&self.caps.zone, now.wall, self.local);
        self.ledger.turn(self.local, now.mono.0, now.wall);
    }

    /// How the account stands with one more request.
    pub fn view(&self, estimate: &Estimate) -> Option<BudgetFinding> {
        self.account.tightest(asked(estimate), RunSpend::default(), &self.caps)
    }

    /// A request was let through by an agent whose budget is enforced: it must fit.
    pub fn check_admission(&self, estimate: &Estimate) -> Holds {
        match self.ledger.overdrawn(asked(estimate).into(), Default::default(), &self.caps) {
            Some(over) => Err(Breach::new("fleet_budget_holds", over)),
            None => Ok(()),
        }
    }

    /// Books what happened, in both books, and compares them.
    pub fn book(&mut self, bookings: &[Booking]) -> Holds {
        for booking in bookings {
            match *booking {
                Booking::Held(amount) => {
                    self.account.reserve(amount);
                    self.ledger.held += amount.into();
                }
                Booking::Settled { held, used } => {
                    self.account.settle(held, used);
                    self.ledger.held -= held.into();
                    self.ledger.book(used.into());
                }
            }
        }
        let reserved = Total::from(self.account.reserved());
        ensure(reserved == self.ledger.held, "fleet_reservations_are_conserved", || {
            format!("the account holds {reserved:?}, the agents {:?}", self.ledger.held)
        })
    }
}
