//! Alerts: rules, and an outbox that sends nothing twice and forgets nothing unsent.

use estop_store::{AlertRule, Alerts, Delivery, DeliveryOutcome, NewAlert, StoreError};

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

pub(crate) fn st_1_an_alert_is_sent_until_it_arrives(place: &impl Place) {
    let alert = |n: i64| NewAlert {
        dedupe: format!("kill {n}").into(),
        target: "https://example.com".into(),
        payload: "{}".to_owned(),
        created_at: n,
        due_at: n,
    };
    let tried = |at, outcome| Delivery { at, outcome, detail: "503".to_owned() };
    {
        let store = place.open();
        assert_eq!(store.push_alerts(vec![alert(2), alert(1), alert(3)]), Ok(3));
        assert_eq!(store.push_alerts(vec![alert(2), alert(4)]), Ok(1), "the same alert is added once");
        let due = store.due_alerts(2, 9).expect("due alerts");
        assert_eq!(due.iter().map(|due| due.alert.clone()).collect::<Vec<_>>(), [alert(1), alert(2)]);
        store.mark_alert(due[0].id, &tried(2, DeliveryOutcome::RetryAt(50))).expect("a try");
        store.mark_alert(due[1].id, &tried(2, DeliveryOutcome::Delivered)).expect("a try");
    }
    let store = place.open();
    let due = store.due_alerts(100, 9).expect("due alerts");
    let waiting: Vec<(&str, u32)> = due.iter().map(|due| (due.alert.dedupe.as_ref(), due.attempts)).collect();
    assert_eq!(waiting, [("kill 3", 0), ("kill 4", 0), ("kill 1", 1)]);
    store.mark_alert(due[2].id, &tried(100, DeliveryOutcome::GivenUp)).expect("a try");
    assert_eq!(store.due_alerts(100, 9).map(|due| due.len()), Ok(2));
    assert_eq!(store.sweep_alerts(2), Ok(1), "what is done and old goes, what waits stays");
    assert!(matches!(
        store.mark_alert(999, &tried(1, DeliveryOutcome::Delivered)),
        Err(StoreError::NotFound { .. })
    ));
}
