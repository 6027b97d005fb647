//! Alerts: rules, and an outbox that sends nothing twice and forgets nothing unsent.

use estop_store::{
    AlertCommit, AlertMemory, AlertRule, Alerts, Delivery, DeliveryFilter, DeliveryOutcome, NewAlert,
    StoreError, Waiting,
};

use super::Place;

pub(crate) fn st_1_alert_rules_are_kept(place: &impl Place) {
    let rule = AlertRule {
        id: "kills".into(),
        rule: "{\"on\":\"kill_switch\"}".to_owned(),
        enabled: true,
        version: 0,
        updated_at: 1,
    };
    {
        let store = place.open();
        assert_eq!(store.put_rule(&rule), Ok(1));
        assert_eq!(store.put_rule(&rule), Err(StoreError::Conflict { current: 1 }));
        assert_eq!(store.put_rule(&AlertRule { version: 1, enabled: false, ..rule.clone() }), Ok(2));
    }
    let store = place.open();
    assert_eq!(store.rules(), Ok(vec![AlertRule { version: 2, enabled: false, ..rule.clone() }]));
    store.delete_rule("kills").expect("it goes");
    assert!(matches!(store.delete_rule("kills"), Err(StoreError::NotFound { .. })));
    assert!(matches!(store.put_rule(&AlertRule { version: 2, ..rule }), Err(StoreError::NotFound { .. })));
}

fn alert(target: &str, n: i64) -> NewAlert {
    NewAlert {
        dedupe: format!("{target} {n}").into(),
        target: target.into(),
        payload: "{}".to_owned(),
        created_at: n,
        due_at: n,
    }
}

fn of(alerts: Vec<NewAlert>) -> AlertCommit {
    AlertCommit { at: 1, alerts, memory: Vec::new() }
}

fn tried(at: i64, outcome: DeliveryOutcome) -> Delivery {
    Delivery { at, outcome, detail: "503".to_owned() }
}

pub(crate) fn st_1_an_alert_is_sent_until_it_arrives(place: &impl Place) {
    {
        let store = place.open();
        assert_eq!(store.commit_alerts(of(vec![alert("a", 1), alert("b", 1), alert("a", 2)])), Ok(3));
        let again = of(vec![alert("a", 2), alert("a", 3)]);
        assert_eq!(store.commit_alerts(again), Ok(1), "the same alert is added once");
        let first = store.next_alert("a").expect("it is read").expect("one waits");
        assert_eq!((first.alert.clone(), first.attempts), (alert("a", 1), 0));
        store.mark_alert(first.id, &tried(2, DeliveryOutcome::RetryAt(50))).expect("a try");
    }
    let store = place.open();
    let first = store.next_alert("a").expect("it is read").expect("one waits");
    let later = NewAlert { due_at: 50, ..alert("a", 1) };
    assert_eq!((first.alert, first.attempts), (later, 1), "it stays the first, however often it failed");
    store.mark_alert(first.id, &tried(51, DeliveryOutcome::Delivered)).expect("a try");
    let second = store.next_alert("a").expect("it is read").expect("one waits");
    assert_eq!(second.alert, alert("a", 2));
    store.mark_alert(second.id, &tried(52, DeliveryOutcome::GivenUp)).expect("a try");
    let waiting = |target: &str, oldest_at| Waiting { target: target.into(), count: 1, oldest_at };
    assert_eq!(store.waiting_alerts(), Ok(vec![waiting("a", 3), waiting("b", 1)]));
    assert_eq!(store.sweep_alerts(2, "ref/"), Ok(1), "what is done and old goes, what waits stays");
    assert!(matches!(
        store.mark_alert(999, &tried(1, DeliveryOutcome::Delivered)),
        Err(StoreError::NotFound { .. })
    ));
}

pub(crate) fn al_1_every_try_is_in_the_log_newest_first(place: &impl Place) {
    let store = place.open();
    store.commit_alerts(of(vec![alert("a", 1), alert("b", 1)])).expect("stored");
    let outcomes = [DeliveryOutcome::RetryAt(5), DeliveryOutcome::RetryAt(9), DeliveryOutcome::Delivered];
    for (at, outcome) in (1..).zip(outcomes) {
        let first = store.next_alert("a").expect("it is read").expect("one waits");
        store.mark_alert(first.id, &tried(at, outcome)).expect("a try");
    }
    let other = store.next_alert("b").expect("it is read").expect("one waits");
    store.mark_alert(other.id, &tried(4, DeliveryOutcome::GivenUp)).expect("a try");
    let payloads = store.deliveries(&DeliveryFilter::default(), 9).expect("the log");
    assert_eq!(payloads[0].payload, Some(alert("b", 1).payload), "with what was sent, while it is kept");
    store.sweep_alerts(100, "ref/").expect("what is done goes, the log stays");

    let all = store.deliveries(&DeliveryFilter::default(), 9).expect("the log");
    let shown: Vec<(&str, u32, &str)> =
        all.iter().map(|one| (&*one.target, one.attempt, &*one.outcome)).collect();
    assert_eq!(shown, [("b", 1, "given_up"), ("a", 3, "delivered"), ("a", 2, "retry"), ("a", 1, "retry")]);
    assert_eq!(all[0].payload, None, "it is swept");
    let page = DeliveryFilter { target: Some("a".into()), before: Some(all[1].id) };
    let page = store.deliveries(&page, 1).expect("the log");
    assert_eq!(page.iter().map(|one| (one.attempt, one.at)).collect::<Vec<_>>(), [(2, 2)]);
}

pub(crate) fn al_1_alerts_and_memory_are_stored_together(place: &impl Place) {
    let remember =
        |name: &str, value: Option<&str>| AlertMemory { name: name.into(), value: value.map(str::to_owned) };
    {
        let store = place.open();
        let both = AlertCommit {
            at: 10,
            alerts: vec![alert("a", 1)],
            memory: vec![
                remember("told/a", Some("1")),
                remember("told/b", Some("2")),
                remember("ref/x", Some("3")),
            ],
        };
        assert_eq!(store.commit_alerts(both), Ok(1));
        let wrong = AlertCommit {
            at: 11,
            alerts: vec![alert("a", 2)],
            memory: vec![remember("told/a", Some("no JSON"))],
        };
        assert!(matches!(store.commit_alerts(wrong), Err(StoreError::Invalid(_))));
        assert_eq!(store.waiting_alerts().map(|all| all[0].count), Ok(1), "nothing of it was stored");
        let forget = AlertCommit { at: 12, alerts: Vec::new(), memory: vec![remember("told/b", None)] };
        assert_eq!(store.commit_alerts(forget), Ok(0));
    }
    let store = place.open();
    assert_eq!(store.alert_memory("told/"), Ok(vec![("told/a".into(), "1".to_owned())]));
    assert_eq!(store.sweep_alerts(11, "ref/"), Ok(1));
    assert_eq!(store.alert_memory("ref/"), Ok(vec![]));
    assert_eq!(store.alert_memory("told/").map(|all| all.len()), Ok(1), "only what is swept goes");
}

pub(crate) fn st_3_a_pile_of_alerts_has_an_end(place: &impl Place) {
    let store = place.open();
    store.commit_alerts(of((0..10_002).map(|n| alert("a", n)).collect())).expect("stored");
    assert_eq!(store.waiting_alerts().map(|all| all[0].count), Ok(10_000));
    let first = store.next_alert("a").expect("it is read").expect("one waits");
    assert_eq!(first.alert, alert("a", 2), "the oldest are given up");
    let log = store.deliveries(&DeliveryFilter::default(), 9).expect("the log");
    assert_eq!(log.iter().filter(|one| &*one.outcome == "given_up").count(), 2, "and it is written down");
}
