//! The thread itself, with a button that only counts.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Mutex;
use std::sync::mpsc::channel;

use estop_core::operator::{EndedWork, Stopped};
use estop_core::system::{Channels, System, SystemEvent, SystemState};
use estop_core::time::Now;

use super::*;
use crate::latch_writer::LatchStatus;
use crate::triggers::heartbeat::{LastHeartbeat, Missed};
use crate::triggers::log::TriggerLog;

/// A system behind the button, and what was done.
struct Fake {
    system: Mutex<System>,
    done: Mutex<Vec<String>>,
}

impl Fake {
    fn running() -> Arc<Fake> {
        let mut system = System::default();
        system.handle(Now::default(), &SystemEvent::Started { found: None });
        Arc::new(Fake { system: Mutex::new(system), done: Mutex::default() })
    }

    fn done(&self) -> Vec<String> {
        self.done.lock().unwrap().clone()
    }

    fn clear(&self) {
        let mut system = self.system.lock().unwrap();
        let (by, note) = ("ann".into(), None);
        let epoch = system.gate().epoch;
        system.handle(Now::default(), &SystemEvent::RestartRequested { by, epoch, note });
        let (by, note) = ("ann".into(), None);
        let epoch = system.gate().epoch;
        let clear = SystemEvent::ClearRequested { by, epoch, note };
        assert_eq!(system.handle(Now::default(), &clear).gate.state, SystemState::Running);
    }
}

impl RedButton for Fake {
    fn kill(&self, press: Press) -> Stopped {
        self.done.lock().unwrap().push(format!("kill by {}", press.by));
        let decision = self.system.lock().unwrap().handle(Now::default(), &press.event());
        Stopped { decision, ended: EndedWork::default(), gate_us: 0, cut_us: 0, kept_us: None }
    }

    fn gate(&self) -> GateView {
        self.system.lock().unwrap().gate()
    }

    fn trigger_changed(&self, trigger: &str, working: bool, what: &str) {
        let word = if working { "works" } else { "lost" };
        self.done.lock().unwrap().push(format!("{trigger} {word}: {what}"));
    }
}

/// Says what it was told to say.
struct Scripted {
    says: Vec<Vec<TriggerReport>>,
    kills: bool,
}

impl Trigger for Scripted {
    fn name(&self) -> &'static str {
        "gpio"
    }

    fn look(&mut self, _now: Instant, _gate: GateView) -> Vec<TriggerReport> {
        self.says.remove(0)
    }

    fn kills_when_lost(&self) -> bool {
        self.kills
    }
}

fn watch(
    trigger: impl Trigger + 'static,
    button: &Arc<Fake>,
) -> (Watch, Arc<TriggerStatus>, std::io::PipeWriter) {
    let (stopped, stop) = std::io::pipe().unwrap();
    let status = Arc::new(TriggerStatus::new([trigger.name()], None, None));
    let (_, line) = TriggerLog::start(LatchStatus::default()).unwrap();
    let button: Arc<dyn RedButton> = Arc::clone(button) as _;
    (Watch::new(vec![Box::new(trigger)], button, Arc::clone(&status), line, stopped), status, stop)
}

fn lost() -> Vec<TriggerReport> {
    vec![TriggerReport::Lost("no chip".to_owned())]
}

fn works() -> Vec<TriggerReport> {
    vec![TriggerReport::Works("line 17".to_owned())]
}

#[test]
fn ks_7_a_lost_trigger_is_told_once_and_again_when_it_is_back() {
    let button = Fake::running();
    let says = vec![lost(), lost(), works(), works(), lost()];
    let (mut watch, status, _stop) = watch(Scripted { says, kills: false }, &button);
    let mut seen = Vec::new();
    for _ in 0..5 {
        watch.look_at_all(Instant::now());
        seen.push(status.views()[0].working);
    }
    assert_eq!(seen, [false, false, true, true, false]);
    assert_eq!(button.done(), ["gpio lost: no chip", "gpio works: line 17", "gpio lost: no chip"]);
}

#[test]
fn ks_7_on_lost_kill_presses_and_does_not_let_the_system_run_without_the_device() {
    let button = Fake::running();
    let says = vec![lost(), lost(), lost()];
    let (mut watch, _board, _stop) = watch(Scripted { says, kills: true }, &button);
    watch.look_at_all(Instant::now());
    watch.look_at_all(Instant::now());
    assert_eq!(button.done(), ["kill by gpio: lost", "gpio lost: no chip"]);
    button.clear();
    watch.look_at_all(Instant::now());
    assert_eq!(button.gate().state, SystemState::Shutdown);
}

#[test]
fn ks_5_a_heart_that_stopped_presses_once_a_silence_and_counts_anew_after_a_clear() {
    let button = Fake::running();
    let heart = Arc::new(LastHeartbeat::new());
    let within = Duration::from_secs(60);
    let begun = Instant::now();
    let (mut watch, _board, _stop) = watch(Missed::new(Arc::clone(&heart), within), &button);
    watch.look_at_all(begun + Duration::from_secs(59));
    assert_eq!(button.done().len(), 0);
    for seconds in [61, 62, 200] {
        watch.look_at_all(begun + Duration::from_secs(seconds));
    }
    assert_eq!(button.done(), ["kill by heartbeat missed"]);
    button.clear();
    heart.beat();
    watch.look_at_all(Instant::now() + Duration::from_secs(59));
    assert_eq!(button.done().len(), 1);
    watch.look_at_all(Instant::now() + Duration::from_secs(61));
    assert_eq!(button.done().len(), 2, "a second silence");
}

/// Breaks when it is due.
struct Broken(Instant);

impl Trigger for Broken {
    fn name(&self) -> &'static str {
        "button"
    }

    fn due(&self, _gate: GateView) -> Option<Instant> {
        Some(self.0)
    }

    fn look(&mut self, _now: Instant, _gate: GateView) -> Vec<TriggerReport> {
        panic!("on purpose: the trigger's code is broken");
    }
}

#[test]
fn ks_5_a_panic_of_the_thread_presses_the_button() {
    let button = Fake::running();
    let (watch, status, _stop) = watch(Broken(Instant::now()), &button);
    assert!(std::thread::spawn(move || watch.run()).join().is_err());
    assert_eq!(button.gate().state, SystemState::Shutdown);
    assert_eq!(button.gate().shut, Channels::ALL);
    assert_eq!(button.done()[0], "kill by the triggers' thread broke");
    assert!(!status.views()[0].working, "nobody watches any more, and it is shown");
}

/// Presses when something can be read.
struct Bell(PipeReader);

impl Trigger for Bell {
    fn name(&self) -> &'static str {
        "button"
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }

    fn look(&mut self, _now: Instant, _gate: GateView) -> Vec<TriggerReport> {
        let mut byte = [0];
        let _ = std::io::Read::read(&mut self.0, &mut byte);
        vec![TriggerReport::Pressed(Press::new(KillReason::Emergency, "bell", "button"))]
    }
}

#[test]
fn ks_5_the_thread_wakes_for_a_descriptor_and_ends_when_told() {
    let button = Fake::running();
    let (bell, mut rope) = std::io::pipe().unwrap();
    let (watch, _board, stop) = watch(Bell(bell), &button);
    let (ended, end) = channel();
    let thread = std::thread::spawn(move || {
        watch.run();
        ended.send(()).unwrap();
    });
    std::io::Write::write_all(&mut rope, b"!").unwrap();
    while button.done().is_empty() {
        std::thread::yield_now();
    }
    drop(stop);
    end.recv_timeout(Duration::from_secs(30)).unwrap();
    thread.join().unwrap();
    assert_eq!(button.done(), ["kill by bell"]);
}
