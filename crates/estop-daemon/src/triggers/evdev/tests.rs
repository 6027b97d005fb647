//! The button on an input device that is played from a script.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use estop_config::Key;
use estop_core::system::{Channels, SystemState};

use super::*;

#[derive(Default)]
struct Script {
    gone: bool,
    down: Option<bool>,
    events: Vec<KeyEvent>,
}

struct Scripted(Arc<Mutex<Script>>, std::fs::File);

impl Keys for Scripted {
    fn fd(&self) -> BorrowedFd<'_> {
        self.1.as_fd()
    }

    fn is_down(&mut self) -> Option<bool> {
        self.0.lock().unwrap().down
    }

    fn events(&mut self) -> anyhow::Result<Vec<KeyEvent>> {
        let mut script = self.0.lock().unwrap();
        anyhow::ensure!(!script.gone, "is gone");
        Ok(std::mem::take(&mut script.events))
    }
}

struct Bench {
    button: Button,
    wire: Arc<Mutex<Script>>,
    now: Instant,
}

impl Bench {
    fn new(script: Script) -> Bench {
        let config = ButtonConfig {
            device: WhichDevice::Named("Red Button".to_owned()),
            key: Key::Code(128),
            grab: true,
            on_lost: OnLost::Kill,
        };
        let wire = Arc::new(Mutex::new(script));
        let plug = Arc::clone(&wire);
        let open: Open<dyn Keys> = Box::new(move || {
            anyhow::ensure!(!plug.lock().unwrap().gone, "there is none of this name");
            Ok(Box::new(Scripted(Arc::clone(&plug), std::fs::File::open("/dev/null").unwrap())))
        });
        Bench { button: Button::with(config, open), wire, now: Instant::now() }
    }

    fn after(&mut self, ms: u64) -> Vec<&'static str> {
        self.now += Duration::from_millis(ms);
        let gate = GateView { state: SystemState::Running, shut: Channels::NONE, epoch: 1 };
        let word = |said: &TriggerReport| match said {
            TriggerReport::Pressed(_) => "press",
            TriggerReport::Lost(_) => "lost",
            TriggerReport::Works(_) => "works",
        };
        self.button.look(self.now, gate).iter().map(word).collect()
    }
}

const NOTHING: [&str; 0] = [];

fn up() -> Script {
    Script { down: Some(false), ..Script::default() }
}

#[test]
fn ks_7_a_key_that_goes_down_presses() {
    let mut bench = Bench::new(up());
    assert_eq!((bench.after(0), bench.after(1)), (vec!["works"], vec![]));
    bench.wire.lock().unwrap().events = vec![KeyEvent::Down, KeyEvent::Down];
    assert_eq!(bench.after(1), ["press"], "one look, one press");
}

#[test]
fn ks_7_a_key_held_when_the_device_appears_presses() {
    assert_eq!(Bench::new(Script { down: Some(true), ..up() }).after(0), ["works", "press"]);
    assert_eq!(Bench::new(Script { down: None, ..up() }).after(0), ["works"], "a device that does not tell");
}

#[test]
fn ks_7_after_forgotten_events_the_key_is_looked_at() {
    for (down, said) in [(Some(false), vec![]), (Some(true), vec!["press"]), (None, vec!["press"])] {
        let mut bench = Bench::new(up());
        bench.after(0);
        *bench.wire.lock().unwrap() = Script { down, events: vec![KeyEvent::Forgotten], gone: false };
        assert_eq!(bench.after(1), said, "{down:?}");
    }
}

#[test]
fn ks_7_a_button_that_is_pulled_out_is_lost_and_works_again() {
    let mut bench = Bench::new(up());
    bench.after(0);
    bench.wire.lock().unwrap().gone = true;
    assert_eq!(bench.after(1), ["lost"]);
    assert!(bench.button.fd().is_none() && bench.button.kills_when_lost());
    assert_eq!((bench.after(999), bench.after(1)), (vec![], vec!["lost"]));
    *bench.wire.lock().unwrap() = up();
    assert_eq!(bench.after(1_000), ["works"]);
    bench.wire.lock().unwrap().events = vec![KeyEvent::Down];
    assert_eq!((bench.after(1), bench.after(1)), (vec!["press"], vec![]));
    assert_eq!(bench.after(1), NOTHING);
}
