//! What presses the red button besides people at the API: signals, a file, hardware, a heart that stopped (KS-5, KS-7).
//!
//! One thread waits for all of them and does nothing else: no runtime, no database and no disk stands between an event
//! and the shut gate. What it has to tell goes to another thread, so that a terminal nobody reads cannot hold it up.

pub mod heartbeat;
pub mod status;

mod attached;
mod evdev;
mod file;
mod folder;
mod gpio;
mod latch_watch;
mod log;
mod signal;
mod watch;

use std::io::PipeWriter;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use estop_config::TriggersConfig;
use estop_core::operator::Stopped;
use estop_core::system::GateView;
use estop_core::system::button::{Latched, Press};
use estop_gateway::Engine;

use crate::latch_writer::LatchStatus;
use heartbeat::LastHeartbeat;
use log::TriggerLog;
use status::TriggerStatus;
use watch::{Trigger, Watch};

pub use signal::hold_back;

/// The button as triggers press it.
pub trait RedButton: Send + Sync {
    /// Presses it.
    fn kill(&self, press: Press) -> Stopped;
    /// How it stands.
    fn gate(&self) -> GateView;
    /// Writes down that a trigger stopped working, or works again.
    fn trigger_changed(&self, trigger: &str, working: bool, what: &str);
}

impl RedButton for Engine {
    fn kill(&self, press: Press) -> Stopped {
        Engine::kill(self, press)
    }

    fn gate(&self) -> GateView {
        self.latch.view()
    }

    fn trigger_changed(&self, trigger: &str, working: bool, what: &str) {
        Engine::trigger_changed(self, trigger, working, what);
    }
}

/// Triggers as they are configured, not watched so far.
pub struct Triggers {
    list: Vec<Box<dyn Trigger>>,
    status: Arc<TriggerStatus>,
    latch: LatchStatus,
}

impl Triggers {
    /// Those of a configuration. `seen` is what the latch said when the start read it: anything else that is not this
    /// estop's is somebody else's kill.
    pub fn new(
        config: &TriggersConfig,
        data_dir: &Path,
        seen: Option<Latched>,
        latch: LatchStatus,
    ) -> std::io::Result<Triggers> {
        let file = config.file.path(data_dir);
        let heart = config.heartbeat.map(|_| Arc::new(LastHeartbeat::new()));
        let latch_watch = latch_watch::LatchWatch::new(data_dir, seen, latch.clone());
        let mut list: Vec<Box<dyn Trigger>> = vec![Box::new(signal::Signal::new()?), Box::new(latch_watch)];
        if let Some(file) = &file {
            list.push(Box::new(file::FileTrigger::new(file)));
        }
        if let Some(gpio) = &config.gpio {
            list.push(Box::new(gpio::Gpio::new(gpio.clone())));
        }
        if let Some(button) = &config.button {
            list.push(Box::new(evdev::Button::new(button.clone())));
        }
        if let Some((heart, within)) = heart.clone().zip(config.heartbeat) {
            list.push(Box::new(heartbeat::Missed::new(heart, within)));
        }
        let names = list.iter().map(|trigger| trigger.name());
        let status = Arc::new(TriggerStatus::new(names, file, heart));
        Ok(Triggers { list, status, latch })
    }

    /// What people see of them.
    pub fn status(&self) -> Arc<TriggerStatus> {
        Arc::clone(&self.status)
    }

    /// Looks at each once, on this thread: whoever pressed before now has pressed when this returns. Then watches.
    pub fn start(self, button: Arc<dyn RedButton>) -> std::io::Result<Watching> {
        let (stopped, stop) = std::io::pipe()?;
        let (log, line) = TriggerLog::start(self.latch)?;
        let mut watch = Watch::new(self.list, button, self.status, line, stopped);
        watch.look_at_all(Instant::now());
        let thread = std::thread::Builder::new().name("estop-triggers".into()).spawn(move || watch.run())?;
        Ok(Watching { stop: Some(stop), thread: Some(thread), log })
    }
}

/// The watched triggers. Dropping it ends the watch.
pub struct Watching {
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
    log: TriggerLog,
}

impl Drop for Watching {
    fn drop(&mut self) {
        // The other end of the pipe hears of it.
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // One that panicked has pressed the button and said so.
            let _ = thread.join();
        }
        self.log.finish();
    }
}
