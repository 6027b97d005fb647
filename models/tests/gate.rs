//! KS-2: once a kill is acknowledged, no request is at an upstream that was not cut. Tried in every order that two
//! requests and a kill can have.

use std::sync::Arc;

use estop_core::system::Channel;
use estop_models::gate::Gate;
use loom::thread;

fn race(requests: usize, kill: fn(&Gate)) {
    loom::model(move || {
        let gate = Arc::new(Gate::open());
        let workers: Vec<_> = (0..requests)
            .map(|_| {
                let gate = Arc::clone(&gate);
                thread::spawn(move || gate.request())
            })
            .collect();
        kill(&gate);
        for worker in workers {
            worker.join().expect("no request is forwarded after the kill");
        }
        assert!(!gate.view().lets_pass(Channel::Llm));
    });
}

#[test]
fn ks_2_no_request_passes_a_kill_in_any_order() {
    race(2, |gate| gate.kill(2));
}

#[test]
#[should_panic(expected = "forwarded after the kill")]
fn ks_2_the_model_sees_a_kill_in_the_wrong_order() {
    race(1, |gate| gate.kill_the_wrong_way_round(2));
}
