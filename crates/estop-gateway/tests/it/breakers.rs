//! The end of a run at the data plane (CB-6): its streams are cut, those of others go on, and what it said is kept.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::http::{Wire, post_with};
use crate::common::{DIALECTS, House, PATIENCE};
use estop_core::event::EventKind;
use estop_core::policy::{Limit, RunLimits};
use estop_fake_model::script::{Delay, Reply};

fn tell(house: &House, run: &str, what: EventKind) {
    let agent = house.engine().agent("a").unwrap();
    assert!(house.engine().apply(&agent, Some(run.into()), what).is_allowed());
}

fn start(house: &House, run: &str, max_turns: u32) {
    let limits = RunLimits { max_turns: Some(Limit::max(max_turns)), ..RunLimits::default() };
    tell(house, run, EventKind::RunStarted { attended: false, tags: None, limits: Some(Box::new(limits)) });
}

#[test]
fn cb_6_streams_of_an_escalated_run_are_cut_and_others_go_on() {
    for dialect in &DIALECTS {
        let house = House::new();
        start(&house, "r1", 2);
        start(&house, "r2", 9);
        house.model.always(Reply { text: Some("Half of it is done.".into()), ..Reply::default() });
        let path = dialect.path("a", false);
        let ask = |run: &str, prompt: &str| {
            post_with(
                house.address(),
                &path,
                &format!("x-estop-run: {run}\r\n"),
                &dialect.body(prompt, false),
            )
        };
        assert_eq!(ask("r1", "begin").status, 200, "{}", dialect.name);
        let second = ask("r1", "another turn");
        assert!(
            (400..500).contains(&second.status) && second.text().contains("max conversation turns (2/2)")
        );

        // It may sum up, and never ends doing it.
        let endless = Delay { chunk_ms: 5, ..Delay::default() };
        house.model.always(Reply {
            text: Some("on and on ".into()),
            endless: true,
            delay: endless,
            ..Reply::default()
        });
        let mut wires = ["r1", "r2"].map(|run| {
            let mut wire = Wire::open(house.address());
            let header = format!("x-estop-run: {run}\r\n");
            wire.post(&dialect.path("a", true), &header, &dialect.body("say more", true));
            wire.until("on and on");
            wire
        });
        let requests = house.model.requests();
        tell(&house, "r1", EventKind::RunCompleted);
        assert!(house.model.wait_for_end(requests - 1, PATIENCE).is_some(), "{}", dialect.name);
        let rest = wires[0].until("escalated to a human");
        assert!(rest.contains("escalated to a human"), "{}: {rest}", dialect.name);
        let agent = house.engine().agent("a").unwrap();
        assert_eq!(agent.in_flight_requests.count(), 1, "{}: the other run's goes on", dialect.name);
        assert_eq!(house.engine().last_output.of("a", Some("r1")).as_deref(), Some("Half of it is done."));
        assert!(ask("r1", "once more").text().contains("escalated to a human"));
        assert_eq!(house.model.requests(), requests, "{}", dialect.name);
    }
}
