//! Tells what happens in the demo, as it happens, and what to do next.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Instant;

use http::Method;
use serde_json::Value;

use super::agents::{DemoState, LOOPER, OVERSPENDER};
use super::environment::DemoEnvironment;
use crate::client::{Ask, Client, path, with_query};
use crate::say;

pub(super) struct Narration {
    begun: Instant,
    client: Option<Client>,
    told: BTreeSet<&'static str>,
}

impl Narration {
    pub(super) fn begin(ground: &DemoEnvironment, no_browser: bool) -> Narration {
        let door = ground.door();
        tell(&format!(
            "estop stands between four agents and a fake model. Nothing leaves this machine.\n\n  \
             Dashboard: {door}\n\n\
             coder and poller are healthy. looper will ask the same thing again and again; overspender has a dollar a day.\n\
             Ctrl-C ends the demo and removes everything.\n"
        ));
        let has_screen = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
        if has_screen && !no_browser {
            let open =
                Command::new("xdg-open").arg(&door).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            // Without a browser the line above is there to be clicked.
            drop(open);
        }
        Narration { begun: Instant::now(), client: ground.client().ok(), told: BTreeSet::new() }
    }

    /// Whether the loop was found.
    pub(super) fn is_looper_stopped(&self) -> bool {
        self.told.contains("looper stopped")
    }

    /// Looks, and tells what is new.
    pub(super) fn tell_news(&mut self, ground: &DemoEnvironment, stage: &DemoState) {
        if self.is_new("looper stopped")
            && let Some(incident) = self.incident_of(LOOPER)
        {
            let id = incident["id"].as_str().unwrap_or_default();
            self.news(
                "looper stopped",
                &format!(
                    "looper was stopped, alone: {}\n        The evidence: {}\n        The others go on: {}",
                    incident["summary"].as_str().unwrap_or_default(),
                    ground.page(&format!("/incidents/{id}")),
                    ground.page("/")
                ),
            );
        }
        if self.is_new("overspender warned") && self.has_event(OVERSPENDER, "budget_warning") {
            self.news(
                "overspender warned",
                "overspender has used half of its dollar: a warning, not yet a stop.",
            );
        }
        let is_shut = self.state().is_some_and(|state| state == "shutdown");
        if self.is_new("overspender refused") && !is_shut && stage.overspender_refused.load(Ordering::Relaxed)
        {
            self.news(
                "overspender refused",
                &format!(
                    "overspender has used up its budget and is refused until tomorrow.\n        {}\n        \
                     Now press the red button in the dashboard: hold it for a second, and everything stops.",
                    ground.page(&format!("/agents/{OVERSPENDER}"))
                ),
            );
        }
        if self.is_new("pressed") && is_shut {
            self.news(
                "pressed",
                "The red button is pressed: nothing passes, also after a restart.\n        \
                 \"Unlock, step 1: safe mode\", then \"Unlock, step 2: resume all agents\" opens it.",
            );
        }
    }

    pub(super) fn end(&mut self) {
        tell("\nThe demo is over; nothing of it is left. Next: estop run -- claude, or estop serve.");
    }

    fn is_new(&self, what: &str) -> bool {
        !self.told.contains(what)
    }

    fn news(&mut self, what: &'static str, text: &str) {
        let seconds = self.begun.elapsed().as_secs();
        tell(&format!("  {:>2}:{:02}  {text}", seconds / 60, seconds % 60));
        self.told.insert(what);
    }

    fn get(&self, target: String) -> Option<Value> {
        self.client.as_ref()?.ask(&Ask::new(Method::GET, target)).ok().map(|answer| answer.json)
    }

    fn incident_of(&self, agent: &str) -> Option<Value> {
        let found = self.get(with_query(&path(&["incidents"]), &[("agent", Some(agent.to_owned()))]))?;
        found["incidents"].as_array()?.first().cloned()
    }

    fn has_event(&self, agent: &str, kind: &str) -> bool {
        let found = self.get(with_query(
            &path(&["events"]),
            &[("agent", Some(agent.to_owned())), ("type", Some(kind.to_owned()))],
        ));
        found.is_some_and(|found| found["events"].as_array().is_some_and(|events| !events.is_empty()))
    }

    fn state(&self) -> Option<String> {
        Some(self.get(path(&["emergency", "status"]))?["state"].as_str()?.to_owned())
    }
}

fn tell(text: &str) {
    // Whoever closed the pipe does not listen any more.
    let _ = say(text);
}
