//! The button on a line that is played from a script: the kernel's part is left out, everything after it is real.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};

use estop_core::system::Channels;

use super::*;

/// A line, and what it will say.
#[derive(Default)]
struct Script {
    missing: bool,
    high: bool,
    debounced: bool,
    edges: VecDeque<bool>,
    broken: bool,
}

type Wire = Arc<Mutex<Script>>;

struct ScriptedLine(Wire, std::fs::File);

impl Line for ScriptedLine {
    fn fd(&self) -> BorrowedFd<'_> {
        self.1.as_fd()
    }

    fn is_debounced(&self) -> bool {
        self.0.lock().unwrap().debounced
    }

    fn is_high(&mut self) -> anyhow::Result<bool> {
        let script = self.0.lock().unwrap();
        anyhow::ensure!(!script.broken, "No such device");
        Ok(script.high)
    }

    fn edges(&mut self) -> anyhow::Result<Vec<bool>> {
        let mut script = self.0.lock().unwrap();
        anyhow::ensure!(!script.broken, "No such device");
        Ok(script.edges.drain(..).collect())
    }
}

struct Bench {
    gpio: Gpio,
    wire: Wire,
    now: Instant,
    gate: GateView,
}

impl Bench {
    fn new(normally_closed: bool, script: Script) -> Bench {
        let config = GpioConfig {
            chip: "/dev/gpiochip0".into(),
            line: 17,
            normally_closed,
            debounce: Duration::from_millis(100),
            on_lost: OnLost::Alarm,
        };
        let wire: Wire = Arc::new(Mutex::new(script));
        let plug = Arc::clone(&wire);
        let open: Open<dyn Line> = Box::new(move || {
            anyhow::ensure!(!plug.lock().unwrap().missing, "No such file or directory");
            Ok(Box::new(ScriptedLine(Arc::clone(&plug), std::fs::File::open("/dev/null").unwrap())))
        });
        let gate = GateView { state: SystemState::Running, shut: Channels::NONE, epoch: 1 };
        Bench { gpio: Gpio::with(config, open), wire, now: Instant::now(), gate }
    }

    /// The line changes its level.
    fn turn(&self, high: bool) {
        let mut script = self.wire.lock().unwrap();
        script.high = high;
        script.edges.push_back(high);
    }

    /// What it says `ms` later: `press`, `lost`, `works`.
    fn after(&mut self, ms: u64) -> Vec<&'static str> {
        self.now += Duration::from_millis(ms);
        let word = |said: &TriggerReport| match said {
            TriggerReport::Pressed(_) => "press",
            TriggerReport::Lost(_) => "lost",
            TriggerReport::Works(_) => "works",
        };
        self.gpio.look(self.now, self.gate).iter().map(word).collect()
    }
}

const NOTHING: [&str; 0] = [];

fn open() -> Script {
    Script { high: true, ..Script::default() }
}

#[test]
fn ks_7_a_falling_edge_presses_after_the_debounce_time() {
    let mut bench = Bench::new(false, open());
    assert_eq!(bench.after(0), ["works"]);
    bench.turn(false);
    assert_eq!(bench.after(1), NOTHING);
    assert_eq!(bench.gpio.due(bench.gate), Some(bench.now + Duration::from_millis(100)));
    assert_eq!(bench.after(99), NOTHING);
    assert_eq!(bench.after(1), ["press"]);
    assert_eq!(bench.after(200), NOTHING, "one press, however long it is held");
    bench.turn(true);
    assert_eq!(bench.after(200), NOTHING);
    bench.turn(false);
    assert_eq!((bench.after(1).len(), bench.after(100)), (0, vec!["press"]), "and again");
}

#[test]
fn ks_7_a_glitch_shorter_than_the_debounce_time_does_not_press() {
    let mut bench = Bench::new(false, open());
    bench.after(0);
    for _ in 0..20 {
        bench.turn(false);
        assert_eq!(bench.after(1), NOTHING);
        bench.turn(true);
        assert_eq!(bench.after(60), NOTHING);
    }
    // Both edges at once, as a busy machine sees them.
    bench.turn(false);
    bench.turn(true);
    assert_eq!((bench.after(5), bench.after(150)), (vec![], vec![]));
}

#[test]
fn ks_7_a_contact_that_bounces_presses_once() {
    let mut bench = Bench::new(false, open());
    bench.after(0);
    for high in [false, true, false, true, false] {
        bench.turn(high);
        assert_eq!(bench.after(3), NOTHING);
    }
    assert_eq!((bench.after(99), bench.after(1), bench.after(50)), (vec![], vec!["press"], vec![]));
}

#[test]
fn ks_7_what_the_kernel_debounced_presses_at_once() {
    let mut bench = Bench::new(false, Script { debounced: true, ..open() });
    bench.after(0);
    bench.turn(false);
    bench.turn(true);
    assert_eq!(bench.after(1), ["press"], "pressed and released before anybody looked");
}

#[test]
fn ks_7_normally_closed_a_cut_wire_presses() {
    let mut bench = Bench::new(true, Script::default());
    assert_eq!(bench.after(0), ["works"], "low is calm");
    bench.turn(true);
    assert_eq!((bench.after(1), bench.after(100)), (vec![], vec!["press"]));
}

#[test]
fn ks_7_held_at_the_start_is_pressed() {
    assert_eq!(Bench::new(false, Script::default()).after(0), ["works", "press"]);
    assert_eq!(Bench::new(true, open()).after(0), ["works", "press"], "the wire was cut before");
}

#[test]
fn ks_7_a_button_that_is_still_held_does_not_let_the_system_run() {
    let mut bench = Bench::new(false, open());
    bench.after(0);
    bench.turn(false);
    bench.after(1);
    assert_eq!(bench.after(100), ["press"]);
    bench.gate.state = SystemState::Shutdown;
    assert_eq!((bench.after(1_000), bench.after(1_000)), (vec![], vec![]));
    // Somebody cleared.
    bench.gate.state = SystemState::Running;
    assert_eq!(bench.after(1_000), ["press"]);
}

#[test]
fn ks_7_an_edge_nobody_told_of_is_found_by_its_level() {
    let mut bench = Bench::new(false, open());
    bench.after(0);
    bench.wire.lock().unwrap().high = false;
    assert_eq!((bench.after(1_000), bench.after(100)), (vec![], vec!["press"]));
}

#[test]
fn ks_7_a_lost_line_is_told_and_works_again_when_it_is_back() {
    let mut bench = Bench::new(false, Script { missing: true, ..open() });
    assert_eq!(bench.after(0), ["lost"]);
    assert_eq!(bench.after(500), NOTHING, "tried again every second");
    assert_eq!(bench.after(500), ["lost"]);
    bench.wire.lock().unwrap().missing = false;
    assert_eq!(bench.after(1_000), ["works"]);
    bench.wire.lock().unwrap().broken = true;
    assert_eq!(bench.after(1_000), ["lost"]);
    bench.wire.lock().unwrap().broken = false;
    assert_eq!(bench.after(1_000), ["works"]);
    bench.turn(false);
    assert_eq!((bench.after(1), bench.after(100)), (vec![], vec!["press"]));
}

#[test]
fn ks_7_a_press_says_which_pin() {
    let bench = Bench::new(false, Script { high: true, ..Script::default() });
    let said = bench.gpio.pressed("button on the GPIO line");
    let press = if let TriggerReport::Pressed(press) = said { Some(press) } else { None }.unwrap();
    let metadata: serde_json::Value = serde_json::from_str(press.metadata.as_deref().unwrap()).unwrap();
    assert_eq!(metadata, serde_json::json!({"source": "hardware_button", "pin": 17}));
}
