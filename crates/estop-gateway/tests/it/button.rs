//! The red button under pressure: nothing that begins after an acknowledged kill reaches a model (KS-2), and whatever
//! people press at the same time, there is one order of it in which kill dominates (KS-1).
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking, and looks at what people did alone"
)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, RwLock};
use std::time::{Duration, Instant};

use crate::common::http::post;
use crate::common::{DIALECTS, House, PATIENCE};
use estop_core::system::button::{Press, Unlock};
use estop_core::system::{
    Channel, Channels, GateView, KillReason, System, SystemDecision, SystemEvent, SystemOutcome, SystemState,
};
use estop_core::time::Now;
use estop_gateway::Engine;

/// A small generator: tests need many different orders, not good randomness.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

fn kill(engine: &Engine) -> SystemDecision {
    engine.kill(Press::new(KillReason::Manual, "test", "test")).decision
}

fn unlock(engine: &Engine) -> Unlock {
    Unlock { by: "test".into(), epoch: engine.latch.view().epoch, note: None }
}

/// Rounds of kill and clear; `ESTOP_KILL_ROUNDS=10000` for the long run.
fn rounds() -> u64 {
    std::env::var("ESTOP_KILL_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000)
}

const AFTER: &str = "sent after the acknowledgement";

#[test]
fn ks_2_what_begins_after_the_acknowledgement_never_reaches_a_model() {
    let house = House::new();
    let acknowledged = RwLock::new(false);
    let (over, refused, passed) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for client in 0..6 {
            let (house, acknowledged, over) = (&house, &acknowledged, &over);
            let (refused, passed) = (&refused, &passed);
            scope.spawn(move || {
                let mut dice = Dice(client + 1);
                while !over.load(Ordering::Relaxed) {
                    // Held until the answer is there: nobody clears in between.
                    let is_after = acknowledged.read().unwrap();
                    let dialect = &DIALECTS[dice.roll(DIALECTS.len() as u64) as usize];
                    let (stream, number) = (dice.roll(2) == 0, dice.roll(1 << 40));
                    let prompt =
                        if *is_after { format!("{AFTER} {number}") } else { format!("before {number}") };
                    let path = dialect.path(&format!("a-{client}"), stream);
                    let reply = post(house.address(), &path, &dialect.body(&prompt, stream));
                    if *is_after {
                        assert!(reply.header("x-estop-reason").is_some(), "{reply:?}");
                        refused.fetch_add(1, Ordering::Relaxed);
                    } else if reply.status == 200 {
                        passed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let mut dice = Dice(99);
        for round in 0..rounds() {
            std::thread::sleep(Duration::from_micros(dice.roll(4_000)));
            let before = refused.load(Ordering::Relaxed);
            assert_eq!(kill(house.engine()).gate.state, SystemState::Shutdown);
            *acknowledged.write().unwrap() = true;
            let end = Instant::now() + PATIENCE;
            while refused.load(Ordering::Relaxed) < before + 6 {
                assert!(Instant::now() < end, "round {round}: nobody is answered");
                std::thread::sleep(Duration::from_micros(200));
            }
            let mut open = acknowledged.write().unwrap();
            let late = house.model.seen().into_iter().find(|seen| seen.body.contains(AFTER));
            assert!(late.is_none(), "round {round}: {late:?}");
            house.model.reset();
            house.engine().restart(unlock(house.engine())).unwrap();
            assert_eq!(
                house.engine().clear(unlock(house.engine())).unwrap().gate.state,
                SystemState::Running
            );
            *open = false;
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(passed.load(Ordering::Relaxed) > 0, "nothing ever passed: the test tests nothing");
}

/// One thing somebody did, with what they were told.
struct Done {
    began: Instant,
    ended: Instant,
    decision: SystemDecision,
    by: Box<str>,
}

#[test]
fn ks_1_fifty_people_at_once_have_one_order_in_which_kill_dominates() {
    const PEOPLE: u64 = 50;
    const EACH: u64 = 40;
    let house = House::new();
    let done: Mutex<Vec<Done>> = Mutex::default();
    let start = Barrier::new(PEOPLE as usize);
    std::thread::scope(|scope| {
        for person in 0..PEOPLE {
            let (engine, done, start) = (house.engine(), &done, &start);
            scope.spawn(move || {
                let mut dice = Dice(person * 7 + 1);
                start.wait();
                for step in 0..EACH {
                    let by: Box<str> = format!("{person}-{step}").into();
                    let unlock = Unlock { by: by.clone(), epoch: engine.latch.view().epoch, note: None };
                    let began = Instant::now();
                    let decision = match dice.roll(8) {
                        0 | 1 => engine.kill(Press::new(KillReason::Manual, &by, "test")).decision,
                        2 => {
                            let channels = Channels::NONE.with(Channel::Messaging);
                            let press = Press::new(KillReason::Manual, &by, "test");
                            engine.kill(Press { channels, ..press }).decision
                        }
                        3 | 4 => engine.restart(unlock).unwrap(),
                        _ => engine.clear(unlock).unwrap(),
                    };
                    let ended = Instant::now();
                    done.lock().unwrap().push(Done { began, ended, decision, by });
                }
            });
        }
    });
    let order = journaled(&house, (PEOPLE * EACH) as usize);
    check_rules(&order);
    check_order(&order, &done.into_inner().unwrap());
}

/// The system's records of what people did, in the journal's order.
fn journaled(house: &House, count: usize) -> Vec<(SystemEvent, SystemDecision)> {
    let end = Instant::now() + PATIENCE;
    loop {
        let records = house.system_records();
        if records.len() > count {
            return records;
        }
        assert!(Instant::now() < end, "{} of {count} records", records.len());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The journal's order is one the rules allow, and in it no kill is undone by whoever had not seen it.
fn check_rules(order: &[(SystemEvent, SystemDecision)]) {
    let mut system = System::default();
    let mut last_kill = 0;
    for (event, decision) in order {
        assert_eq!(system.handle(Now::default(), event), *decision, "{event:?}");
        match event {
            SystemEvent::KillRequested { channels, .. } if *channels == Channels::ALL => {
                assert_eq!(decision.gate.state, SystemState::Shutdown);
                last_kill = decision.gate.epoch;
            }
            SystemEvent::RestartRequested { epoch, .. } | SystemEvent::ClearRequested { epoch, .. } => {
                let applied = decision.outcome == SystemOutcome::Applied;
                assert!(!applied || *epoch >= last_kill, "{event:?} undid kill {last_kill}");
            }
            _ => {}
        }
    }
}

/// Everybody was told what the journal says, and who was done before another began stands before them.
fn check_order(order: &[(SystemEvent, SystemDecision)], done: &[Done]) {
    let by = |event: &SystemEvent| match event {
        SystemEvent::KillRequested { by, .. }
        | SystemEvent::RestartRequested { by, .. }
        | SystemEvent::ClearRequested { by, .. } => Some(by.clone()),
        _ => None,
    };
    let mut latest_began: Option<Instant> = None;
    let mut open: Vec<GateView> = Vec::new();
    for (event, decision) in order {
        let Some(by) = by(event) else { continue };
        let told = done.iter().find(|done| done.by == by).unwrap();
        assert_eq!(told.decision, *decision, "{event:?}");
        assert!(latest_began.is_none_or(|began| told.ended >= began), "{event:?} stands too late");
        latest_began = latest_began.max(Some(told.began));
        open.push(decision.gate);
    }
    assert_eq!(open.len(), done.len());
    assert!(open.windows(2).all(|pair| pair[0].epoch <= pair[1].epoch), "the epoch never goes back");
}
