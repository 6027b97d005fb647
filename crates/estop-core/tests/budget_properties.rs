//! PO-2: whatever happens, what is reserved is what is open, and nothing is spent twice.

use std::collections::BTreeMap;

use estop_core::budget::{Amount, Budget, Fit, RunSpend};
use estop_core::decision::{Guard, Outcome, Retry};
use estop_core::engine::AgentState;
use estop_core::event::{
    CallKind, Ended, Estimate, Event, EventKind, RequestReceived, ResponseCompleted, StreamProgressed, Usage,
};
use estop_core::fingerprint::{RequestFingerprint, ResponseFingerprint};
use estop_core::ids::{Hash64, RequestId};
use estop_core::money::NanoUsd;
use estop_core::policy::{BudgetPolicy, Mode, Policy};
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
            let spent = budget.spent_today().usd.0;
            prop_assert_eq!(finding.fit == Fit::Over, spent >= cap || spent + ask > cap);
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

/// What becomes of a request, all of it chosen before: how much it reserves and uses, and whether it streams.
#[derive(Clone, Debug)]
struct Plan {
    most: u64,
    /// It names no limit.
    unbounded: bool,
    streams: bool,
    /// Percent of `most` that it would use.
    uses: u64,
    /// It ends after so many further steps of the schedule.
    ends_after: usize,
}

fn plan() -> impl Strategy<Value = Plan> {
    (1..400_000_000u64, any::<bool>(), any::<bool>(), 0..=300u64, 0..12usize).prop_map(
        |(most, unbounded, streams, uses, ends_after)| Plan { most, unbounded, streams, uses, ends_after },
    )
}

/// A request that was let through.
struct Open {
    number: u64,
    plan: Plan,
    used: u64,
    left_at_start: u64,
    ends_at: usize,
}

impl Plan {
    fn will_use(&self) -> u64 {
        self.most * self.uses / 100
    }

    fn event(&self, number: u64) -> Event {
        let usd = NanoUsd(self.most);
        let open_usd = if self.unbounded { usd } else { NanoUsd(0) };
        Event::open(EventKind::RequestReceived(RequestReceived {
            request: RequestId(number),
            call: CallKind::Generation,
            model: None,
            other_models: Vec::new(),
            path: None,
            print: RequestFingerprint { conversation: Hash64(number), ..RequestFingerprint::default() },
            estimate: Estimate { usd, open_usd, ..Estimate::default() },
            fleet: None,
            tags: None,
            route: None,
        }))
    }
}

fn used(usd: u64) -> Usage {
    Usage { usd: NanoUsd(usd), ..Usage::default() }
}

fn only_a_budget(cap: u64) -> Policy {
    let mut policy = Policy::default();
    policy.budget.usd_per_day = Some(NanoUsd(cap));
    policy.modes[Guard::Budget] = Mode::Enforce;
    policy.modes[Guard::Watchdog] = Mode::Off;
    policy.modes[Guard::Gate] = Mode::Off;
    policy
}

proptest! {
    /// For any schedule of parallel plain and streamed requests: booked ≤ cap + the excess of one request.
    #[test]
    fn po_2_no_schedule_books_more_than_the_cap_and_the_excess_of_one(
        cap in 1..1_000_000_000u64,
        plans in prop::collection::vec(plan(), 1..80),
    ) {
        let policy = only_a_budget(cap);
        let mut state = AgentState::default();
        let mut open: Vec<Open> = Vec::new();
        let (mut excess, mut alone) = (0, 0);
        let steps = plans.len() + 16;
        let mut plans = plans.into_iter();
        for step in 0..steps {
            let now = Now { mono: Millis(1_000 * step as u64), wall: 1_767_225_600_000 };
            if let Some(plan) = plans.next() {
                let left = cap.saturating_sub(state.budget().spent_today().usd.0);
                let number = step as u64;
                let mut plan = plan;
                let decision = state.handle(now, &plan.event(number), &policy);
                if decision.is_allowed() {
                    prop_assert!(left > 0, "nothing starts when all is spent");
                    if plan.most > left {
                        prop_assert!(plan.unbounded, "what names its limit must fit");
                        prop_assert!(open.is_empty(), "alone means alone");
                        alone += 1;
                    } else {
                        // What fits is a bound: what a request asks for, or what its model writes at most. Only of what
                        // runs alone is nothing believed.
                        plan.uses = plan.uses.min(100);
                    }
                    let ends_at = step + plan.ends_after;
                    open.push(Open { number, plan, used: 0, left_at_start: left, ends_at });
                }
            }
            // Streams report; one that is cut ends with what it has used.
            for request in open.iter_mut().filter(|request| request.plan.streams) {
                let will_use = request.plan.will_use();
                request.used = (request.used + will_use / 5).min(will_use);
                let progress = StreamProgressed {
                    request: RequestId(request.number),
                    usage: used(request.used),
                    fleet: None,
                };
                let decision = state.handle(now, &Event::open(EventKind::StreamProgressed(progress)), &policy);
                if !decision.is_allowed() {
                    request.plan.uses = 0;
                    request.plan.most = 0;
                    request.ends_at = step;
                }
            }
            let (ended, going): (Vec<Open>, Vec<Open>) = open.into_iter().partition(|o| o.ends_at <= step);
            open = going;
            for request in ended {
                let usage = request.plan.will_use().max(request.used);
                excess = excess.max(usage.saturating_sub(request.left_at_start));
                let completed = ResponseCompleted {
                    request: RequestId(request.number),
                    ended: Ended::Ok,
                    print: ResponseFingerprint::default(),
                    usage: used(usage),
                    first_byte_ms: None,
                };
                state.handle(now, &Event::open(EventKind::ResponseCompleted(completed)), &policy);
            }
            let booked = state.budget().spent_today().usd.0;
            prop_assert!(booked <= cap + excess, "{booked} of {cap}, one may exceed by {excess}");
            prop_assert_eq!(state.budget().reserved(), state.reservations_sum());
        }
        prop_assert!(open.is_empty());
        prop_assert!(excess == 0 || alone > 0);
    }
}

#[test]
fn po_2_forty_parallel_requests_without_a_limit_under_one_dollar() {
    // gpt-5: 128,000 tokens at $10 a million.
    let plan = Plan { most: 1_281_000_000, unbounded: true, streams: false, uses: 100, ends_after: 0 };
    let policy = only_a_budget(NanoUsd::DOLLAR.0);
    let mut state = AgentState::default();
    let now = Now { mono: Millis(1_000), wall: 1_767_225_600_000 };
    let decisions: Vec<_> = (0..40).map(|number| state.handle(now, &plan.event(number), &policy)).collect();
    assert_eq!(decisions.iter().filter(|decision| decision.is_allowed()).count(), 1);
    let waits = Outcome::Refuse { by: Guard::Budget, retry: Retry::AfterMs(10_000) };
    assert!(decisions[1..].iter().all(|decision| decision.outcome == waits));
}
