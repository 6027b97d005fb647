//! Hours of dead, slow and flaky receivers, simulated: everything arrives, in order, once (AL-1, F10).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod house;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use estop_core::ids::Name;
use estop_notify::{GIVE_UP_AFTER_MS, Outbox, SendOutcome};
use estop_store::{
    AlertCommit, AlertMemory, AlertRule, Alerts, Delivery, DeliveryFilter, DeliveryOutcome, DueAlert,
    LoggedDelivery, NewAlert, Sqlite, StoreError, Waiting,
};
use house::{NIGHT, open};

const HOUR: i64 = 3_600_000;

fn alert(target: &str, n: usize, at: i64) -> NewAlert {
    NewAlert {
        dedupe: format!("{target}-{n}").into(),
        target: target.into(),
        payload: "{}".to_owned(),
        created_at: at,
        due_at: at,
    }
}

fn push(outbox: &mut Outbox, store: &dyn Alerts, now: i64, alert: NewAlert) {
    outbox.commit(store, now, AlertCommit { at: now, alerts: vec![alert], memory: Vec::new() });
}

fn failed() -> SendOutcome {
    SendOutcome::Failed { detail: "503".to_owned(), after_ms: None }
}

fn names(channels: &[&str]) -> Vec<Name> {
    channels.iter().map(|name| Name::from(*name)).collect()
}

/// Random numbers of our own; the seed is printed by whoever fails.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Alerts of eight hours to three receivers: one is well, one is dead for six hours, one fails every other time. The
/// process is killed now and then: between two steps, or after something was sent and before that was written down.
fn night(seed: u64, with_kills: bool) {
    let mut random = Random(seed);
    let folder = tempfile::tempdir().unwrap();
    let channels = names(&["well", "dead", "flaky"]);
    let mut store = open(&folder);
    let mut outbox = Outbox::new(channels.clone(), seed);
    let mut arrived: BTreeMap<Name, Vec<Name>> = BTreeMap::new();
    let mut late = 0;
    let (mut now, mut pushed) = (NIGHT, BTreeMap::<&str, usize>::new());
    let mut next_push = now;
    let mut kills = 0;
    while now < NIGHT + 12 * HOUR {
        if now >= next_push && now < NIGHT + 8 * HOUR {
            for target in ["well", "dead", "flaky"] {
                let n = pushed.entry(target).or_default();
                push(&mut outbox, &store, now, alert(target, *n, now));
                *n += 1;
            }
            next_push = now + 1 + i64::try_from(random.below(10 * 60_000)).unwrap();
        }
        let due = outbox.due(&store, now);
        let killed = with_kills && random.below(12) == 0;
        for due in &due {
            let is_well = match &*due.alert.target {
                "well" => true,
                "dead" => now >= NIGHT + 6 * HOUR,
                _ => random.below(2) == 0,
            };
            if is_well {
                arrived.entry(due.alert.target.clone()).or_default().push(due.alert.dedupe.clone());
            }
            if &*due.alert.target == "well" {
                late = late.max(now - due.alert.created_at);
            }
            if !killed {
                let tried = if is_well { SendOutcome::Delivered("200".to_owned()) } else { failed() };
                outbox.finish(&store, now, due, &tried);
            }
        }
        if killed {
            kills += 1;
            drop(store);
            store = open(&folder);
            outbox = Outbox::new(channels.clone(), seed ^ kills);
        }
        let wake = outbox.next_wake().unwrap_or(i64::MAX).min(if now < NIGHT + 8 * HOUR {
            next_push
        } else {
            i64::MAX
        });
        now = wake.clamp(now + 1, NIGHT + 12 * HOUR);
    }
    assert!(outbox.is_stored());
    assert_eq!(store.waiting_alerts(), Ok(vec![]), "seed {seed}: nothing waits");
    for (target, pushed) in pushed {
        let mut arrived = arrived.remove(target).unwrap_or_default();
        let all = arrived.len();
        let mut known = std::collections::BTreeSet::new();
        arrived.retain(|id| known.insert(id.clone()));
        let expected: Vec<Name> = (0..pushed).map(|n| format!("{target}-{n}").into()).collect();
        assert_eq!(arrived, expected, "seed {seed}: all of {target} in their order");
        assert!(with_kills || all == pushed, "seed {seed}: each once");
    }
    // A kill costs a step, which takes a millisecond here.
    let allowed = if with_kills { 100 } else { 0 };
    assert!(late <= allowed, "seed {seed}: who is well never waits for who is not: {late} ms");
    assert!(!with_kills || kills > 5, "seed {seed}");
}

#[test]
fn al_1_every_alert_arrives_once_and_in_order_after_hours_of_failure() {
    (1..=5).for_each(|seed| night(seed, false));
}

#[test]
fn al_1_nothing_is_lost_when_the_process_is_killed_at_any_moment() {
    (11..=15).for_each(|seed| night(seed, true));
}

/// Tries an alert until something else than a retry comes of it; how often, and how long it took.
fn until(outbox: &mut Outbox, store: &dyn Alerts, tried: &SendOutcome) -> (DeliveryOutcome, u32, i64) {
    let (mut now, mut tries) = (NIGHT, 0);
    loop {
        for due in outbox.due(store, now) {
            tries += 1;
            let outcome = outbox.finish(store, now, &due, tried);
            if !matches!(outcome, DeliveryOutcome::RetryAt(_)) {
                return (outcome, tries, now - NIGHT);
            }
        }
        now = outbox.next_wake().unwrap().max(now + 1);
    }
}

#[test]
fn al_1_a_dead_endpoint_is_left_alone_and_given_up_after_a_day() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let mut outbox = Outbox::new(names(&["a"]), 3);
    push(&mut outbox, &store, NIGHT, alert("a", 1, NIGHT));
    let (outcome, tries, took) = until(&mut outbox, &store, &failed());
    assert_eq!(outcome, DeliveryOutcome::GivenUp);
    assert!((GIVE_UP_AFTER_MS..GIVE_UP_AFTER_MS + HOUR).contains(&took), "{took}");
    assert!((144..170).contains(&tries), "five quick tries, then 60 s doubling to 600 s: {tries}");
    let log = store.deliveries(&DeliveryFilter::default(), 1000).unwrap();
    assert_eq!(log.len(), tries as usize);
    let pauses: Vec<i64> = log.windows(2).rev().map(|pair| (pair[0].at - pair[1].at) / 1000).collect();
    assert!(pauses[0] < 1 && pauses[1] < 2 && pauses[2] < 4 && pauses[3] < 8, "{pauses:?}");
    assert_eq!(pauses[4..9], [60, 120, 240, 480, 600]);
    assert!(pauses[9..].iter().all(|pause| *pause == 600), "{pauses:?}");
}

#[test]
fn al_1_a_message_that_is_not_wanted_does_not_hold_up_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let mut outbox = Outbox::new(names(&["a"]), 3);
    push(&mut outbox, &store, NIGHT, alert("a", 1, NIGHT));
    push(&mut outbox, &store, NIGHT, alert("a", 2, NIGHT));
    let (outcome, tries, took) = until(&mut outbox, &store, &SendOutcome::Refused("400".to_owned()));
    assert_eq!((outcome, tries), (DeliveryOutcome::GivenUp, 5));
    assert!(took < 16_000, "{took}");
    let due = outbox.due(&store, NIGHT + took);
    assert_eq!(due[0].alert.dedupe, "a-2".into());
}

#[test]
fn al_1_a_receiver_that_asks_for_a_pause_gets_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let mut outbox = Outbox::new(names(&["a"]), 3);
    push(&mut outbox, &store, NIGHT, alert("a", 1, NIGHT));
    let due = outbox.due(&store, NIGHT);
    let asks = |after_ms| SendOutcome::Failed { detail: "429".to_owned(), after_ms: Some(after_ms) };
    assert_eq!(
        outbox.finish(&store, NIGHT, &due[0], &asks(90_000)),
        DeliveryOutcome::RetryAt(NIGHT + 90_000)
    );
    let due = outbox.due(&store, NIGHT + 90_000);
    let far = outbox.finish(&store, NIGHT + 90_000, &due[0], &asks(i64::MAX));
    assert_eq!(far, DeliveryOutcome::RetryAt(NIGHT + 90_000 + HOUR), "but no more than an hour");
}

#[test]
fn al_1_a_clock_that_is_set_back_makes_nobody_wait() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let mut outbox = Outbox::new(names(&["a"]), 3);
    push(&mut outbox, &store, NIGHT, alert("a", 1, NIGHT));
    for _ in 0..7 {
        let now = outbox.next_wake().unwrap().max(NIGHT);
        for due in outbox.due(&store, now) {
            outbox.finish(&store, now, &due, &failed());
        }
    }
    let yesterday = NIGHT - 24 * HOUR;
    assert_eq!(outbox.due(&store, yesterday).len(), 1);
    let mut restarted = Outbox::new(names(&["a"]), 3);
    assert_eq!(restarted.due(&store, yesterday).len(), 1);
}

#[test]
fn al_1_a_changed_channel_is_tried_at_once_and_a_removed_one_keeps_its_alerts() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let mut outbox = Outbox::new(names(&["a", "b"]), 3);
    push(&mut outbox, &store, NIGHT, alert("a", 1, NIGHT));
    let due = outbox.due(&store, NIGHT);
    outbox.finish(
        &store,
        NIGHT,
        &due[0],
        &SendOutcome::Failed { detail: String::new(), after_ms: Some(HOUR) },
    );
    outbox.set_channels(names(&["b"]));
    assert_eq!(outbox.due(&store, NIGHT + 2 * HOUR), vec![]);
    assert_eq!(store.waiting_alerts().unwrap().len(), 1);
    outbox.set_channels(names(&["a", "b"]));
    assert_eq!(outbox.due(&store, NIGHT + 2 * HOUR).len(), 1);
}

/// A store on a disk that fails when it is told to.
struct Failing {
    store: Sqlite,
    broken: AtomicBool,
    count: std::sync::Mutex<Cell<u32>>,
}

impl Failing {
    fn check(&self) -> Result<&Sqlite, StoreError> {
        let count = self.count.lock().unwrap();
        count.set(count.get() + 1);
        if self.broken.load(Ordering::SeqCst) { Err(StoreError::Full) } else { Ok(&self.store) }
    }
}

impl Alerts for Failing {
    fn put_rule(&self, rule: &AlertRule) -> Result<u64, StoreError> {
        self.check()?.put_rule(rule)
    }
    fn rules(&self) -> Result<Vec<AlertRule>, StoreError> {
        self.check()?.rules()
    }
    fn delete_rule(&self, id: &str) -> Result<(), StoreError> {
        self.check()?.delete_rule(id)
    }
    fn commit_alerts(&self, commit: AlertCommit) -> Result<usize, StoreError> {
        self.check()?.commit_alerts(commit)
    }
    fn alert_memory(&self, prefix: &str) -> Result<Vec<(Name, String)>, StoreError> {
        self.check()?.alert_memory(prefix)
    }
    fn next_alert(&self, target: &str) -> Result<Option<DueAlert>, StoreError> {
        self.check()?.next_alert(target)
    }
    fn waiting_alerts(&self) -> Result<Vec<Waiting>, StoreError> {
        self.check()?.waiting_alerts()
    }
    fn mark_alert(&self, id: u64, delivery: &Delivery) -> Result<(), StoreError> {
        self.check()?.mark_alert(id, delivery)
    }
    fn deliveries(&self, filter: &DeliveryFilter, limit: usize) -> Result<Vec<LoggedDelivery>, StoreError> {
        self.check()?.deliveries(filter, limit)
    }
    fn sweep_alerts(&self, before: i64, prefix: &str) -> Result<usize, StoreError> {
        self.check()?.sweep_alerts(before, prefix)
    }
}

#[test]
fn al_1_people_are_told_of_a_kill_also_when_the_disk_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let store = Failing {
        store: open(&folder),
        broken: AtomicBool::new(true),
        count: std::sync::Mutex::new(Cell::new(0)),
    };
    let mut outbox = Outbox::new(names(&["a"]), 3);
    push(&mut outbox, &store, NIGHT, alert("a", 1, NIGHT));
    push(&mut outbox, &store, NIGHT, alert("a", 2, NIGHT));
    assert!(!outbox.is_stored());
    let due = outbox.due(&store, NIGHT);
    assert_eq!(due.len(), 1, "it is sent without being stored");
    outbox.finish(&store, NIGHT, &due[0], &SendOutcome::Delivered("200".to_owned()));
    let due = outbox.due(&store, NIGHT);
    assert_eq!(due[0].alert.dedupe, "a-2".into());
    outbox.finish(&store, NIGHT, &due[0], &failed());
    assert!(outbox.next_wake().unwrap() <= NIGHT + 1_000);

    store.broken.store(false, Ordering::SeqCst);
    let later = NIGHT + 2_000;
    let due = outbox.due(&store, later);
    assert!(outbox.is_stored());
    assert_eq!(due[0].alert.dedupe, "a-2".into(), "what was sent is not sent again, the rest is stored");
    assert!(due[0].id > 0);

    store.broken.store(true, Ordering::SeqCst);
    outbox.finish(&store, later, &due[0], &SendOutcome::Delivered("200".to_owned()));
    assert_eq!(outbox.due(&store, later + 2_000), vec![], "it arrived, which could not be written down");
    store.broken.store(false, Ordering::SeqCst);
    assert_eq!(outbox.due(&store, later + 4_000), vec![], "now it is, and it is not sent twice");
    assert_eq!(store.store.waiting_alerts(), Ok(vec![]));
}

#[test]
fn ks_2_a_store_that_fails_after_a_quiet_time_delays_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = Failing {
        store: open(&folder),
        broken: AtomicBool::new(false),
        count: std::sync::Mutex::new(Cell::new(0)),
    };
    let mut outbox = Outbox::new(names(&["a"]), 3);
    assert_eq!(outbox.due(&store, NIGHT), vec![], "nothing waits");
    store.broken.store(true, Ordering::SeqCst);
    push(&mut outbox, &store, NIGHT + 1, alert("a", 1, NIGHT + 1));
    let due = outbox.due(&store, NIGHT + 1);
    assert_eq!(due.len(), 1, "it is sent at once");
    outbox.finish(&store, NIGHT + 1, &due[0], &SendOutcome::Delivered("200".to_owned()));
    // The store took it after all, and only its answer was late.
    store.broken.store(false, Ordering::SeqCst);
    let late = AlertCommit { at: NIGHT, alerts: vec![alert("a", 1, NIGHT + 1)], memory: Vec::new() };
    store.store.commit_alerts(late).unwrap();
    push(&mut outbox, &store, NIGHT + 3_000, alert("a", 2, NIGHT + 3_000));
    let due = outbox.due(&store, NIGHT + 3_000);
    assert_eq!(due.iter().map(|due| &*due.alert.dedupe).collect::<Vec<_>>(), ["a-2"], "it is not sent twice");
}

#[test]
fn al_1_what_a_failing_store_does_not_take_has_an_end_and_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let store = Failing {
        store: open(&folder),
        broken: AtomicBool::new(true),
        count: std::sync::Mutex::new(Cell::new(0)),
    };
    let mut outbox = Outbox::new(names(&["a", "b"]), 3);
    let many = |of: std::ops::Range<usize>| AlertCommit {
        at: NIGHT,
        alerts: of.map(|n| alert("a", n, NIGHT)).collect(),
        memory: vec![AlertMemory { name: "cursor".into(), value: Some("1".to_owned()) }],
    };
    push(&mut outbox, &store, NIGHT, alert("b", 1, NIGHT));
    outbox.commit(&store, NIGHT, many(0..9_000));
    outbox.commit(&store, NIGHT, many(9_000..10_007));
    assert_eq!(outbox.take_dropped(), 0, "told when it can be told");
    store.broken.store(false, Ordering::SeqCst);
    let due = outbox.due(&store, NIGHT + 2_000);
    assert!(outbox.is_stored());
    assert_eq!(due[0].alert.dedupe, "a-7".into(), "the oldest went");
    let waiting = store.store.waiting_alerts().unwrap();
    assert_eq!(waiting.iter().map(|waiting| waiting.count).collect::<Vec<_>>(), [10_000, 1]);
    assert_eq!((outbox.take_dropped(), outbox.take_dropped()), (7, 0));
}
