//! The account of all agents together (PO-2): checked and reserved in one step, settled with what was really used.
//!
//! It follows the agents' own accounts: whatever an event reserves or books there, it books here too, under a lock that
//! is held for a sum or two. So the two can never differ by more than what is being judged at the moment.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use estop_core::budget::{Amount, Budget, BudgetFinding, Need, PeriodSpend, RunSpend, Totals};
use estop_core::engine::AgentState;
use estop_core::event::{Event, EventKind};
use estop_core::operator::FleetView;
use estop_core::policy::BudgetPolicy;
use estop_core::time::Now;

/// The account.
pub struct Fleet {
    inner: Mutex<Inner>,
    /// Whether there is any cap: without one nobody needs to be asked before a request is judged.
    capped: AtomicBool,
}

struct Inner {
    account: Budget,
    caps: BudgetPolicy,
}

/// What an event has reserved before it was judged, and how its agent's account stood.
#[must_use]
#[derive(Clone, Copy)]
pub(crate) struct Ahead {
    reserved: Amount,
    before: Totals,
}

impl Fleet {
    /// The account as it was left, under these caps. What requests of a dead process held is held by their agents, who
    /// say so when they are taken up.
    pub fn new(mut account: Budget, caps: BudgetPolicy) -> Fleet {
        account.release_all();
        let capped = AtomicBool::new(is_capped(&caps));
        Fleet { inner: Mutex::new(Inner { account, caps }), capped }
    }

    /// Other caps, from here on.
    pub fn set_caps(&self, caps: BudgetPolicy) {
        let mut inner = self.lock();
        self.capped.store(is_capped(&caps), Ordering::Relaxed);
        inner.caps = caps;
    }

    /// An agent of the time before is taken up with what its requests hold.
    pub(crate) fn restore(&self, state: &AgentState) {
        self.lock().account.reserve(state.budget().reserved());
    }

    /// Tells an event that spends how the account stands. What fits is reserved at once, so that of two who ask at the
    /// same time the second sees the first.
    pub(crate) fn show(&self, now: Now, state: &AgentState, event: &mut Event) -> Ahead {
        let before = state.budget().totals();
        let mut reserved = Amount::default();
        if !self.capped.load(Ordering::Relaxed) {
            return Ahead { reserved, before };
        }
        if let EventKind::RequestReceived(request) = &mut event.what {
            let need = Need::from(request.estimate);
            let mut inner = self.lock();
            inner.turn(now);
            request.fleet = inner.tightest(need, request.estimate.unpriced).map(of_fleet);
            // Also what runs alone: while it is reserved, nobody else finds room.
            if request.fleet.is_some_and(|finding| !finding.is_over()) {
                inner.account.reserve(need.most);
                reserved = need.most;
            }
        } else if let EventKind::StreamProgressed(progress) = &mut event.what
            && let Some(held) = state.held_by_request(progress.request)
        {
            // What a stream has used is used, whether it fits or not.
            let used = Amount::from(progress.usage);
            reserved = used.beyond(held);
            let unused = held.beyond(used);
            let mut inner = self.lock();
            inner.account.reserve(reserved);
            inner.turn(now);
            let found = inner.account.tightest_running(unused, RunSpend::default(), &inner.caps);
            progress.fleet = found.map(of_fleet);
        }
        Ahead { reserved, before }
    }

    /// Books what the event did to its agent's account.
    pub(crate) fn follow(&self, now: Now, ahead: Ahead, state: &AgentState) {
        let Ahead { reserved, before } = ahead;
        let after = state.budget().totals();
        if after != before || reserved != Amount::default() {
            let mut inner = self.lock();
            inner.turn(now);
            inner.account.follow(before, after, reserved);
        }
    }

    /// How it would stand with `asked` asked of it; `None` without any cap.
    pub fn outlook(&self, now: Now, asked: Need) -> Option<BudgetFinding> {
        if !self.capped.load(Ordering::Relaxed) {
            return None;
        }
        let mut inner = self.lock();
        inner.turn(now);
        inner.account.tightest(asked, RunSpend::default(), &inner.caps).map(of_fleet)
    }

    /// Begins the present day and month with what was spent in them, if the clock was ahead.
    pub(crate) fn renew(&self, now: Now, spent: PeriodSpend) {
        let mut inner = self.lock();
        let Inner { account, caps } = &mut *inner;
        account.renew(now, caps, spent);
    }

    /// How it stands.
    pub fn view(&self, now: Now) -> FleetView {
        let mut inner = self.lock();
        inner.turn(now);
        FleetView {
            caps: inner.caps.clone(),
            spent_today: inner.account.spent_today(),
            spent_this_month: inner.account.spent_this_month(),
            reserved: inner.account.reserved(),
            latest_day: inner.account.latest_day_ahead(now, &inner.caps),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_capped(caps: &BudgetPolicy) -> bool {
    let money = [caps.usd_per_day, caps.usd_per_month];
    let tokens = [caps.tokens_per_day, caps.tokens_per_month];
    money.iter().any(Option::is_some) || tokens.iter().any(Option::is_some)
}

impl Inner {
    fn turn(&mut self, now: Now) {
        self.account.turn(now, &self.caps);
    }

    /// The tightest account. What has no price is shown a cap in dollars if there is one: only that cannot count it.
    fn tightest(&self, need: Need, unpriced: bool) -> Option<BudgetFinding> {
        if unpriced && self.caps.caps_usd() {
            let caps = BudgetPolicy {
                tokens_per_day: None,
                tokens_per_month: None,
                tokens_per_run: None,
                ..self.caps.clone()
            };
            return self.account.tightest(need, RunSpend::default(), &caps);
        }
        self.account.tightest(need, RunSpend::default(), &self.caps)
    }
}

fn of_fleet(found: BudgetFinding) -> BudgetFinding {
    BudgetFinding { account: found.account.of_fleet(), ..found }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use estop_core::event::{Estimate, RequestReceived, ResponseCompleted, Usage};
    use estop_core::fingerprint::RequestFingerprint;
    use estop_core::ids::RequestId;
    use estop_core::money::NanoUsd;
    use estop_core::policy::Policy;

    use super::*;

    const NOW: Now = Now { mono: estop_core::time::Millis(1_000), wall: 1_763_164_800_000 };

    fn request(number: u64) -> Event {
        Event::open(EventKind::RequestReceived(RequestReceived {
            request: RequestId(number),
            call: Default::default(),
            model: None,
            other_models: Vec::new(),
            path: None,
            print: RequestFingerprint::default(),
            estimate: Estimate { usd: NanoUsd(10), ..Estimate::default() },
            fleet: None,
            tags: None,
            route: None,
        }))
    }

    fn tell(fleet: &Fleet, state: &mut AgentState, mut event: Event) -> bool {
        let ahead = fleet.show(NOW, state, &mut event);
        let decision = state.handle(NOW, &event, &Policy::default());
        fleet.follow(NOW, ahead, state);
        decision.is_allowed()
    }

    fn answer(number: u64) -> Event {
        Event::open(EventKind::ResponseCompleted(ResponseCompleted {
            request: RequestId(number),
            ended: Default::default(),
            print: Default::default(),
            usage: Usage { usd: NanoUsd(10), ..Usage::default() },
            first_byte_ms: None,
        }))
    }

    #[test]
    fn po_2_agents_in_parallel_never_overshoot_the_budget_of_all() {
        let caps = BudgetPolicy { usd_per_day: Some(NanoUsd(1_000)), ..BudgetPolicy::default() };
        let fleet = Fleet::new(Budget::default(), caps);
        let passed = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let mut state = AgentState::default();
                    for number in 0..50 {
                        if tell(&fleet, &mut state, request(number)) {
                            passed.fetch_add(1, Ordering::Relaxed);
                        }
                        let view = fleet.view(NOW);
                        assert!(view.reserved.usd.0 + view.spent_today.usd.0 <= 1_000, "{view:?}");
                        if number % 3 == 0 {
                            tell(&fleet, &mut state, answer(number));
                        }
                    }
                });
            }
        });
        assert_eq!(passed.into_inner(), 100, "each asks for a hundredth of it");
        let view = fleet.view(NOW);
        assert_eq!(view.reserved.usd.0 + view.spent_today.usd.0, 1_000);
    }

    #[test]
    fn po_2_what_another_guard_refuses_holds_nothing() {
        let caps = BudgetPolicy { usd_per_day: Some(NanoUsd(1_000)), ..BudgetPolicy::default() };
        let fleet = Fleet::new(Budget::default(), caps);
        let mut state = AgentState::default();
        assert!(!tell_deactivated(&fleet, &mut state));
        assert_eq!(fleet.view(NOW).reserved, Amount::default());
    }

    fn tell_deactivated(fleet: &Fleet, state: &mut AgentState) -> bool {
        tell(fleet, state, Event::open(EventKind::AgentDeactivated { by: "ann".into() }));
        tell(fleet, state, request(1))
    }

    #[test]
    fn po_2_a_person_renews_the_budget_of_all_after_the_clock_was_ahead() {
        const YEARS_MS: i64 = 10 * 365 * 86_400_000;
        let caps = BudgetPolicy { usd_per_day: Some(NanoUsd(10)), ..BudgetPolicy::default() };
        let fleet = Fleet::new(Budget::default(), caps);
        let ahead = Now { wall: NOW.wall + YEARS_MS, ..NOW };
        assert_eq!(fleet.view(ahead).latest_day, None, "nobody knows yet that the clock is wrong");
        let mut state = AgentState::default();
        assert!(tell(&fleet, &mut state, request(1)));
        tell(&fleet, &mut state, answer(1));
        assert!(!tell(&fleet, &mut state, request(2)));
        assert_eq!(fleet.view(NOW).latest_day, Some(20_407 + 3_650));
        let spent = Amount { usd: NanoUsd(0), tokens: 7 };
        fleet.renew(NOW, PeriodSpend { today: spent, this_month: spent });
        let view = fleet.view(NOW);
        assert_eq!((view.latest_day, view.spent_today, view.reserved), (None, spent, Amount::default()));
        assert!(tell(&fleet, &mut state, request(3)));
    }

    #[test]
    fn po_2_without_caps_it_only_counts() {
        let fleet = Fleet::new(Budget::default(), BudgetPolicy::default());
        let mut state = AgentState::default();
        assert!(tell(&fleet, &mut state, request(1)));
        assert_eq!(fleet.view(NOW).reserved.usd, NanoUsd(10));
        tell(&fleet, &mut state, answer(1));
        let view = fleet.view(NOW);
        assert_eq!((view.reserved, view.spent_today.usd), (Amount::default(), NanoUsd(10)));
    }
}
