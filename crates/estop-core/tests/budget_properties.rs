//! PO-2: whatever happens, what is reserved is what is open, and nothing is spent twice.

use std::collections::BTreeMap;

use estop_core::budget::{Amount, Budget, RunSpend};
use estop_core::money::NanoUsd;
use estop_core::policy::BudgetPolicy;
use estop_core::time::{Millis, Now};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Act {
    Reserve(u64, u64),
    Settle(usize, u64, u64),
    Turn(i64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        (0..2_000_000_000u64, 0..50_000u64).prop_map(|(usd, tokens)| Act::Reserve(usd, tokens)),
        (any::<usize>(), 0..3_000_000_000u64, 0..90_000u64)
            .prop_map(|(at, usd, tokens)| Act::Settle(at, usd, tokens)),
        (-40i64..40).prop_map(|days| Act::Turn(days * 86_400_000)),
    ]
}

fn amount(usd: u64, tokens: u64) -> Amount {
    Amount { usd: NanoUsd(usd), tokens }
}

proptest! {
    #[test]
    fn po_2_reservations_are_conserved(acts in prop::collection::vec(act(), 1..200)) {
        let policy = BudgetPolicy::default();
        let mut budget = Budget::default();
        let mut open: BTreeMap<usize, Amount> = BTreeMap::new();
        let mut settled_today = Amount::default();
        let mut wall = 1_767_225_600_000i64;
        let at_wall = |wall| Now { mono: Millis(0), wall };
        let mut latest = policy.zone.local(wall).day;
        budget.turn(at_wall(wall), &policy);
        for (at, act) in acts.into_iter().enumerate() {
            match act {
                Act::Reserve(usd, tokens) => {
                    budget.reserve(amount(usd, tokens));
                    open.insert(at, amount(usd, tokens));
                }
                Act::Settle(pick, usd, tokens) => {
                    let Some(key) = open.keys().nth(pick % open.len().max(1)).copied() else { continue };
                    let held = open.remove(&key).expect("the key was just found");
                    budget.settle(held, amount(usd, tokens));
                    settled_today = settled_today.plus(amount(usd, tokens));
                }
                Act::Turn(by) => {
                    wall += by;
                    budget.turn(at_wall(wall), &policy);
                    // No time passes here: only a day that nobody has seen yet begins anew.
                    let today = policy.zone.local(wall).day;
                    if today > latest {
                        settled_today = Amount::default();
                        latest = today;
                    }
                }
            }
            let sum = open.values().fold(Amount::default(), |sum, held| sum.plus(*held));
            prop_assert_eq!(budget.reserved(), sum);
            prop_assert_eq!(budget.spent_today(), settled_today);
        }
    }

    /// A request that fits never makes spent + reserved exceed the cap; one that does not fit says so.
    #[test]
    fn po_2_what_is_granted_stays_within_the_cap(
        cap in 1..10_000_000_000u64,
        asks in prop::collection::vec((0..2_000_000_000u64, any::<bool>(), 0..=100u64), 1..100),
    ) {
        let policy = BudgetPolicy { usd_per_day: Some(NanoUsd(cap)), ..BudgetPolicy::default() };
        let mut budget = Budget::default();
        budget.turn(Now::default(), &policy);
        let mut open = Vec::new();
        for (ask, ends, used_percent) in asks {
            let asked = amount(ask, 0);
            let finding = budget.tightest(asked, RunSpend::default(), &policy).expect("there is a cap");
            let committed = budget.spent_today().usd.0 + budget.reserved().usd.0;
            prop_assert_eq!(finding.is_over(), committed >= cap || committed + ask > cap);
            if !finding.is_over() {
                budget.reserve(asked);
                open.push(ask);
            }
            if let Some(held) = ends.then(|| open.pop()).flatten() {
                budget.settle(amount(held, 0), amount(held * used_percent / 100, 0));
            }
            prop_assert!(budget.spent_today().usd.0 + budget.reserved().usd.0 <= cap);
        }
    }

    /// Each share is told once a period, in rising order.
    #[test]
    fn po_2_shares_are_told_once(steps in prop::collection::vec(1..30u64, 1..40)) {
        let policy = BudgetPolicy { tokens_per_day: Some(100), ..BudgetPolicy::default() };
        let mut budget = Budget::default();
        budget.turn(Now::default(), &policy);
        let mut told = Vec::new();
        for step in steps {
            budget.settle(Amount::default(), amount(0, step));
            told.extend(budget.warnings(&policy).into_iter().map(|w| w.percent));
        }
        prop_assert!(told.is_sorted_by(|a, b| a < b), "{told:?}");
        let reached = |percent: u64| budget.spent_today().tokens >= percent;
        prop_assert_eq!(told.last().copied(), [100u8, 95, 80, 50].into_iter().find(|p| reached(u64::from(*p))));
    }
}
