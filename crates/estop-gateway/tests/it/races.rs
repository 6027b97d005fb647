//! Budgets under races (PO-2): many requests at once against a cap, and requests that end in every way there is, at any
//! moment. What is spent is exactly what was used, within the cap, and nothing stays reserved.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::common;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use crate::common::http::{Wire, post};
use crate::common::{DIALECTS, House, wait};
use estop_core::event::{EventKind, RequestReceived, ResponseCompleted, StreamAborted, StreamProgressed};
use estop_core::fingerprint::{RequestFingerprint, ResponseFingerprint};
use estop_fake_model::FakeModel;
use estop_fake_model::script::{Abort, AbortAt, AbortHow, Delay, Hold, Match, Reply, Rule, UsageReply};
use estop_gateway::{Agent, Engine, Gateway, JournalQueue};
use serde_json::{Value, from_value, json, to_value};

/// Random numbers: the same each time for the same seed.
struct Dice(u64);

impl Dice {
    /// From 0, below `sides`.
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}

/// A gateway whose records are counted and forgotten: a hundred thousand of them would fill the memory.
struct Bare {
    gateway: Option<Gateway>,
    queue: Arc<JournalQueue>,
    writer: Option<std::thread::JoinHandle<()>>,
}

impl Bare {
    fn new(model: &FakeModel, policy: &str) -> Bare {
        let file: estop_core::policy_file::PolicyFileIn = serde_json::from_str(policy).unwrap();
        let settings = common::settings(model, file.check(&|_| None).unwrap());
        let queue = Arc::new(JournalQueue::default());
        let gateway = Gateway::start(settings, Arc::clone(&queue), Default::default()).unwrap();
        let taken = Arc::clone(&queue);
        let writer = std::thread::spawn(move || {
            let mut batch = Vec::new();
            while taken.take(&mut batch, None).is_some() {
                batch.clear();
            }
        });
        Bare { gateway: Some(gateway), queue, writer: Some(writer) }
    }

    fn engine(&self) -> &Arc<Engine> {
        self.gateway.as_ref().unwrap().engine()
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        drop(self.gateway.take());
        self.queue.close();
        let _ = self.writer.take().unwrap().join();
    }
}

/// Tokens held and spent by an agent. By the month, so that no midnight comes between.
fn books(agent: &Agent) -> (u64, u64) {
    let judged = agent.lock_state();
    let budget = judged.state.budget();
    assert_eq!(budget.reserved(), judged.state.reservations_sum(), "the sum of what is reserved");
    (budget.reserved().tokens, budget.spent_this_month().tokens)
}

fn usage(tokens: u64) -> Value {
    json!({"input_tokens": 0, "output_tokens": tokens, "usd": 0})
}

/// Asks for `held` tokens; whether they were granted.
fn begin(engine: &Engine, agent: &Agent, request: u64, held: u64) -> bool {
    let estimate = json!({"input_tokens": 0, "output_tokens": held, "usd": 0, "unpriced": true});
    let print = to_value(RequestFingerprint::default()).unwrap();
    let received: RequestReceived =
        from_value(json!({"request": request, "print": print, "estimate": estimate})).unwrap();
    engine.apply(agent, None, EventKind::RequestReceived(received)).is_allowed()
}

/// Says how a request ended, in one of many ways; some say it twice. The tokens it used, which are booked once.
fn end(engine: &Engine, agent: &Agent, request: u64, held: u64, dice: &mut Dice) -> u64 {
    let used = dice.roll(held + 1);
    let aborted = |by: &str| -> EventKind {
        let aborted: StreamAborted =
            from_value(json!({"request": request, "by": by, "usage": usage(used)})).unwrap();
        EventKind::StreamAborted(aborted)
    };
    let completed = || -> EventKind {
        let print = to_value(ResponseFingerprint::default()).unwrap();
        let completed: ResponseCompleted =
            from_value(json!({"request": request, "print": print, "usage": usage(used)})).unwrap();
        EventKind::ResponseCompleted(completed)
    };
    if dice.roll(3) == 0 {
        let progressed: StreamProgressed =
            from_value(json!({"request": request, "usage": usage(used / 2)})).unwrap();
        engine.apply(agent, None, EventKind::StreamProgressed(progressed));
    }
    let ends = match dice.roll(6) {
        0 => vec![aborted("client")],
        1 => vec![aborted("upstream")],
        2 => vec![aborted("guard"), completed()],
        3 => vec![aborted("kill"), aborted("client")],
        4 => vec![completed(), aborted("client")],
        _ => vec![completed()],
    };
    for what in ends {
        engine.apply(agent, None, what);
    }
    used
}

#[test]
fn po_2_a_hundred_thousand_requests_that_end_anyhow_leave_nothing_reserved() {
    const THREADS: u64 = 8;
    const EACH: u64 = 12_500;
    const HELD_MAX: u64 = 200;
    // Not quite enough for all: the last ones meet the cap.
    const CAP: u64 = THREADS * EACH * HELD_MAX / 4 / 2 * 9 / 10;
    let model = FakeModel::start(Default::default()).unwrap();
    let policy = json!({"policy": {"budget": {"tokens_per_month": CAP}}, "watchdog": {"scope": "off"}});
    let bare = Bare::new(&model, &policy.to_string());
    let engine = bare.engine();
    let names = ["a", "b"];
    let used: [AtomicU64; 2] = Default::default();
    let refused = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (used, refused) = (&used, &refused);
            scope.spawn(move || {
                let mut dice = Dice(thread);
                let mut open = Vec::new();
                for number in 0..EACH {
                    let which = dice.roll(2) as usize;
                    let agent = engine.agent(names[which]).unwrap();
                    let (request, held) = (1 + thread * EACH + number, 1 + dice.roll(HELD_MAX));
                    match dice.roll(400) {
                        0 => drop(engine.apply(
                            &agent,
                            None,
                            EventKind::AgentDeactivated { by: "test".into() },
                        )),
                        1 => drop(engine.apply(&agent, None, EventKind::AgentPaused { by: "test".into() })),
                        2..20 => {
                            drop(engine.apply(&agent, None, EventKind::AgentActivated { by: "test".into() }));
                        }
                        _ => {}
                    }
                    if begin(engine, &agent, request, held) {
                        open.push((which, agent, request, held));
                    } else {
                        refused.fetch_add(1, Ordering::Relaxed);
                    }
                    // Several are under way at once, and end in any order.
                    while open.len() > 8 || (number + 1 == EACH && !open.is_empty()) {
                        let at = dice.roll(open.len() as u64) as usize;
                        let (which, agent, request, held) = open.swap_remove(at);
                        used[which]
                            .fetch_add(end(engine, &agent, request, held, &mut dice), Ordering::Relaxed);
                    }
                }
            });
        }
    });
    for (name, used) in names.iter().zip(&used) {
        let agent = engine.agent(name).unwrap();
        let used = used.load(Ordering::Relaxed);
        assert_eq!(books(&agent), (0, used), "{name}: reserved, and spent");
        assert!(used <= CAP, "{name}: {used} of {CAP} were spent");
        assert!(used > CAP / 2, "{name}: {used} of {CAP}: hardly anything was tried");
        assert_eq!(agent.lock_state().state.in_flight(), 0, "{name}: under way");
    }
    assert!(refused.load(Ordering::Relaxed) > EACH / 10, "nobody was ever refused");
}

#[test]
fn po_2_512_requests_at_once_spend_no_more_than_the_cap() {
    // A request holds 100 tokens for its answer, one for each of its bytes, and what a provider may add; 40 of them fit
    // at once, and no 41st.
    const BODY: &str =
        r#"{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"sixteen letters."}]}"#;
    const HELD: u64 = 100 + BODY.len() as u64 + 1_024;
    const EACH: u64 = 104;
    const FIT: u64 = 40;
    const CAP: u64 = HELD * FIT + HELD / 2;
    let policy = json!({"policy": {"budget": {"tokens_per_month": CAP}}, "watchdog": {"scope": "off"}});
    let house = House::build(&policy.to_string(), |settings| settings.limits.streams_per_agent = 1_000);
    // They use all they asked for, and a while: all that fit are under way at the same time.
    let all_of_it = from_value::<UsageReply>(json!({"input": 4, "output": 100})).unwrap();
    let slow = Delay { headers_ms: 300, ..Delay::default() };
    house.model.always(Reply { usage: Some(all_of_it), delay: slow, ..Reply::default() });
    let (path, address) = (DIALECTS[0].path("racer", false), house.address());
    let together = Barrier::new(512);
    let passed = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..512 {
            scope.spawn(|| {
                together.wait();
                let reply = post(address, &path, BODY);
                assert!([200, 429].contains(&reply.status), "{}: {}", reply.status, reply.text());
                if reply.status == 200 {
                    passed.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let agent = house.engine().agent("racer").unwrap();
    let (reserved, spent) = books(&agent);
    let passed = passed.load(Ordering::Relaxed);
    assert_eq!((reserved, house.model.requests()), (0, passed));
    // They use less than they hold: whoever comes after the first have ended may still find room.
    assert!(passed >= FIT, "{passed} passed");
    assert_eq!(spent, passed * EACH);
    assert!(spent <= CAP, "{spent} of {CAP}");
}

/// What the model does, by its name.
const MODELS: [&str; 9] =
    ["plain", "endless", "reset", "cut", "unfinished", "error", "holds", "half", "nothing"];

fn rules() -> Vec<Rule> {
    let abort = |at, how| Some(Abort { at, how, after_events: 2 });
    let delay = Delay { chunk_ms: 1, ..Delay::default() };
    let reply = |name: &str| match name {
        "endless" => Reply { endless: true, delay, ..Reply::default() },
        "reset" => Reply { abort: abort(AbortAt::MidStream, AbortHow::Rst), ..Reply::default() },
        "cut" => Reply { abort: abort(AbortAt::AfterHeaders, AbortHow::Fin), ..Reply::default() },
        "unfinished" => Reply { abort: abort(AbortAt::MidStream, AbortHow::Eof), ..Reply::default() },
        "error" => Reply { status: Some(500), ..Reply::default() },
        "holds" => Reply { hold: Some(Hold::Headers), ..Reply::default() },
        "half" => Reply { hold: Some(Hold::MidStream), ..Reply::default() },
        "nothing" => Reply { abort: abort(AbortAt::BeforeHeaders, AbortHow::Rst), ..Reply::default() },
        _ => Reply { delay, ..Reply::default() },
    };
    let rule = |name: &&str| Rule {
        when: Match { model: Some((*name).to_owned()), ..Match::default() },
        reply: reply(name),
        ..Rule::default()
    };
    MODELS.iter().map(rule).collect()
}

/// One request whose client goes away at some moment, or stays.
fn abandon(address: std::net::SocketAddr, dice: &mut Dice) {
    let agent = ["x", "y", "z"][dice.roll(3) as usize];
    let model = MODELS[dice.roll(MODELS.len() as u64) as usize];
    // Gemini names its model in the path.
    let dialect = DIALECTS.iter().filter(|d| d.name != "gemini").nth(dice.roll(6) as usize).unwrap();
    let stream = dice.roll(2) == 0;
    let body = dialect.body("hello", stream).replace("\"m\"", &format!("\"{model}\""));
    let mut wire = Wire::open(address);
    wire.socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        dialect.path(agent, stream),
        body.len()
    );
    let request = [head.as_bytes(), body.as_bytes()].concat();
    match dice.roll(6) {
        0 => wire.send(&request[..dice.roll(request.len() as u64) as usize]),
        1 => wire.send(&request),
        2 => {
            wire.send(&request);
            std::thread::sleep(Duration::from_micros(dice.roll(3_000)));
        }
        3 => {
            wire.send(&request);
            let _ = wire.head();
        }
        4 => {
            wire.send(&request);
            wire.at_least(dice.roll(600) as usize);
        }
        // An endless answer has no end to wait for.
        _ if model == "endless" => wire.send(&request),
        _ => {
            wire.send(&request);
            let _ = wire.reply();
        }
    }
}

#[test]
fn po_2_clients_that_go_away_at_any_moment_leave_nothing_reserved() {
    let policy =
        json!({"policy": {"budget": {"tokens_per_month": 1_000_000_000}}, "watchdog": {"scope": "off"}});
    let model = FakeModel::start(Default::default()).unwrap();
    model.script(rules());
    let bare = Bare::new(&model, &policy.to_string());
    let (engine, address) = (bare.engine(), bare.gateway.as_ref().unwrap().address());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..16)
            .map(|thread| {
                scope.spawn(move || {
                    let mut dice = Dice(1_000 + thread);
                    (0..250).for_each(|_| abandon(address, &mut dice));
                })
            })
            .collect();
        scope.spawn(|| {
            let mut dice = Dice(7);
            while !done.load(Ordering::Relaxed) {
                let agent = engine.agent(["x", "y", "z"][dice.roll(3) as usize]).unwrap();
                engine.apply(&agent, None, EventKind::AgentDeactivated { by: "test".into() });
                std::thread::sleep(Duration::from_millis(dice.roll(5)));
                engine.apply(&agent, None, EventKind::AgentActivated { by: "test".into() });
                std::thread::sleep(Duration::from_millis(dice.roll(50)));
            }
        });
        let ended: Vec<_> = clients.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok), "a client failed");
    });
    for name in ["x", "y", "z"] {
        let agent = engine.agent(name).unwrap();
        wait("the last request to end", || (agent.in_flight_requests.count() == 0).then_some(()));
        wait("nothing to be reserved", || (books(&agent).0 == 0).then_some(()));
        assert_eq!(agent.lock_state().state.in_flight(), 0, "{name}");
        assert!(books(&agent).1 > 0, "{name}: nothing was ever forwarded");
    }
    assert!(model.requests() > 500, "only {} requests reached the model", model.requests());
}
