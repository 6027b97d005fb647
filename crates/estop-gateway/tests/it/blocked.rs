//! Stops while every worker is blocked (KS-11): the disk hangs in the write that each of them waits for, and stays so until
//! the test has seen what it wants to see.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex};

use estop_core::event::EventKind;
use estop_core::system::KillReason;
use estop_core::system::button::Press;
use estop_fake_model::FakeModel;
use estop_fake_model::script::{Delay, Match, Reply as Said, Rule};
use estop_gateway::settings::Settings;
use estop_gateway::{JournalFile, JournalQueue, PartChange};
use estop_journal::State;

use crate::common::http::Wire;
use crate::common::raw::Raw;
use crate::common::{DIALECTS, House, PATIENCE, wait};

/// A journal on a disk that hangs while this is set.
#[derive(Clone, Debug, Default)]
struct Disk(Arc<(Mutex<bool>, Condvar)>);

impl Disk {
    fn set_hanging(&self, hangs: bool) {
        *self.0.0.lock().unwrap() = hangs;
        self.0.1.notify_all();
    }
}

impl JournalFile for Disk {
    fn write(&self, _: &[u8], _: u64) -> std::io::Result<()> {
        drop(self.0.1.wait_while(self.0.0.lock().unwrap(), |hangs| *hangs).unwrap());
        Ok(())
    }
    fn sync(&self) -> std::io::Result<()> {
        self.write(b"", 0)
    }
}

/// Lets the disk go on, whatever becomes of the test: the gateway could not end otherwise.
struct LetGo(Disk);

impl Drop for LetGo {
    fn drop(&mut self) {
        self.0.set_hanging(false);
    }
}

struct Blocked {
    // Dropped in this order: the gateway waits for its workers.
    _let_go: LetGo,
    house: House,
    streams: Vec<Wire>,
    /// Answers that wait for the disk, and block their workers.
    _waiting: Vec<Wire>,
    changes: Receiver<PartChange>,
}

const QUICK: &str = "quick";

/// Opens so many endless streams for each of these agents, one after the other, then blocks all workers.
fn blocked(agents: &[&str], each: usize) -> Blocked {
    blocked_after(agents, each, |_| {}, |_| {})
}

/// The same with changed settings, and with something done before the workers are blocked.
fn blocked_after(
    agents: &[&str],
    each: usize,
    change: impl FnOnce(&mut Settings),
    before: impl FnOnce(&House),
) -> Blocked {
    let disk = Disk::default();
    let queue = JournalQueue::with_file(Box::new(disk.clone()), State::default());
    let model = FakeModel::start(Default::default()).unwrap();
    let mut house = House::keeping(model, "{}", queue, |settings| {
        settings.workers = 2;
        change(settings);
    });
    let when = Match { contains: Some(QUICK.into()), ..Match::default() };
    let delay = Delay { chunk_ms: 20, ..Delay::default() };
    let endless = Said { endless: true, delay, ..Said::default() };
    house.model.script(vec![
        Rule { when, times: None, reply: Said::default() },
        Rule { reply: endless, ..Rule::default() },
    ]);
    let (sender, changes) = channel();
    house.gateway.as_mut().unwrap().watch_parts(move |change| drop(sender.send(change))).unwrap();
    let dialect = &DIALECTS[0];
    let mut streams = Vec::new();
    for agent in agents {
        for _ in 0..each {
            let mut wire = Wire::open(house.address());
            wire.post(&dialect.path(agent, true), "", &dialect.body("hello", true));
            wire.at_least(1);
            streams.push(wire);
        }
    }
    before(&house);
    disk.set_hanging(true);
    let ask = |_| {
        let mut wire = Wire::open(house.address());
        wire.post(&dialect.path("asks", false), "", &dialect.body(QUICK, false));
        wire
    };
    let waiting: Vec<Wire> = (0..32).map(ask).collect();
    let mut stuck = Vec::new();
    while !["worker 0", "worker 1"].iter().all(|name| stuck.contains(&(*name).to_owned())) {
        match changes.recv_timeout(PATIENCE).expect("blocked workers are noticed") {
            PartChange::Stuck(part) => stuck.push(part.name.to_string()),
            PartChange::Recovered { name, .. } => panic!("{name} cannot run"),
        }
    }
    Blocked { _let_go: LetGo(disk), house, streams, _waiting: waiting, changes }
}

/// How many of the model's streams it still works on.
fn open(house: &House) -> usize {
    let seen = house.model.seen();
    seen.iter().filter(|seen| !seen.body.contains(QUICK) && seen.ended_us.is_none()).count()
}

#[test]
fn ks_11_a_kill_closes_both_sides_while_every_worker_is_blocked() {
    let mut at = blocked(&["a", "b"], 100);
    assert_eq!(open(&at.house), 200);
    let stopped = at.house.engine().kill(Press::new(KillReason::Manual, "test", "test"));
    assert!(stopped.ended.model_calls >= 200, "{stopped:?}");
    wait("the model works on nothing", || (open(&at.house) == 0).then_some(()));
    // The killing thread has closed these too: nobody else could.
    at.streams.iter_mut().for_each(|wire| drop(wire.rest()));
    assert_eq!(at.house.engine().heartbeats.stuck().len(), 2, "both are still blocked");
}

#[test]
fn ks_11_stopping_one_agent_closes_its_sockets_alone_while_every_worker_is_blocked() {
    let mut at = blocked(&["a", "b"], 10);
    let agent = at.house.engine().agents.get("a").unwrap();
    at.house.engine().apply(&agent, None, EventKind::AgentDeactivated { by: "test".into() });
    wait("its streams end", || (open(&at.house) == 10).then_some(()));
    at.streams.drain(..10).for_each(|mut wire| drop(wire.rest()));
    assert_eq!(open(&at.house), 10, "those of its neighbour go on");
}

/// The connections that carry nothing, too: their worker is the one that would close them.
#[test]
fn ks_11_a_kill_closes_idle_upstream_connections_while_every_worker_is_blocked() {
    let closed: Arc<AtomicUsize> = Arc::default();
    let counted = Arc::clone(&closed);
    let idle = Raw::start(move |socket, _, _| {
        let _ = socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
        while matches!(socket.read(&mut [0]), Ok(1)) {}
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let port = idle.port();
    let at = blocked_after(
        &["a"],
        1,
        |settings| settings.providers.get_mut("anthropic").unwrap().port = port,
        |house| {
            let mut wire = Wire::open(house.address());
            wire.post(&DIALECTS[3].path("a", false), "", &DIALECTS[3].body("hello", false));
            assert_eq!(wire.reply().status, 200);
        },
    );
    assert_eq!(closed.load(Ordering::SeqCst), 0, "it is kept for the next request");
    at.house.engine().kill(Press::new(KillReason::Manual, "test", "test"));
    wait("it is closed", || (closed.load(Ordering::SeqCst) == 1).then_some(()));
    assert_eq!(at.house.engine().heartbeats.stuck().len(), 2, "both are still blocked");
}

/// A worker may be blocked where it judges an agent, and hold its lock.
#[test]
fn ks_11_an_agents_requests_end_while_its_lock_is_held() {
    let at = blocked(&["a"], 5);
    let agent = at.house.engine().agents.get("a").unwrap();
    let lock = agent.lock_state();
    at.house.engine().end_requests(&agent);
    wait("its streams end", || (open(&at.house) == 0).then_some(()));
    drop(lock);
}

/// The button, too: no agent's lock lies on its way.
#[test]
fn ks_11_a_kill_takes_no_agents_lock() {
    let at = blocked(&["a"], 5);
    let agent = at.house.engine().agents.get("a").unwrap();
    let lock = agent.lock_state();
    at.house.engine().kill(Press::new(KillReason::Manual, "test", "test"));
    wait("its streams end", || (open(&at.house) == 0).then_some(()));
    drop(lock);
}

#[test]
fn ks_11_workers_that_run_again_are_noticed() {
    let at = blocked(&["a"], 1);
    at._let_go.0.set_hanging(false);
    let mut well = Vec::new();
    while well.len() < 2 {
        if let PartChange::Recovered { name, .. } = at.changes.recv_timeout(PATIENCE).unwrap() {
            well.push(name);
        }
    }
    wait("nothing is stuck", || at.house.engine().heartbeats.stuck().is_empty().then_some(()));
}
