//! What `estop top` knows, and what a key means. No terminal, no clock, no network in here.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::Value;

/// What estop said.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) status: Value,
    pub(super) stats: Value,
    pub(super) agents: Vec<Value>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Quit,
    Stop(String),
    Activate(String),
    Pause(String),
    Resume(String),
    Kill,
}

/// What the screen shows.
pub(super) struct Model {
    pub(super) seen: Seen,
    /// Why what is shown may be old.
    pub(super) trouble: Option<String>,
    /// The agent under the cursor, by name: rows move, the cursor stays with its agent.
    pub(super) selected: Option<String>,
    /// What waits for a yes.
    pub(super) asked: Option<Order>,
    /// What was done last.
    pub(super) said: String,
}

impl Model {
    pub(super) fn new(seen: Seen) -> Model {
        let mut model =
            Model { seen: Seen::default(), trouble: None, selected: None, asked: None, said: String::new() };
        model.see(Ok(seen));
        model
    }

    /// Takes in what estop said, or why it did not.
    pub(super) fn see(&mut self, seen: anyhow::Result<Seen>) {
        match seen {
            Ok(mut seen) => {
                seen.agents
                    .sort_by_key(|agent| (std::cmp::Reverse(urgency(agent)), name_of(agent).to_owned()));
                self.seen = seen;
                self.trouble = None;
            }
            Err(why) => self.trouble = Some(format!("{why:#}")),
        }
        if self.row().is_none() {
            self.selected = self.seen.agents.first().map(|agent| name_of(agent).to_owned());
        }
    }

    pub(super) fn tell(&mut self, said: String) {
        self.said = said;
    }

    /// Where the cursor is.
    pub(super) fn row(&self) -> Option<usize> {
        let selected = self.selected.as_deref()?;
        self.seen.agents.iter().position(|agent| name_of(agent) == selected)
    }

    /// Why the next request of the agent under the cursor is refused; nothing if it is not.
    pub(super) fn why(&self) -> &str {
        let state = self.agent().map(|agent| &agent["state"]).filter(|state| state["kind"] != "active");
        state.and_then(|state| state["sentence"].as_str()).unwrap_or_default()
    }

    fn agent(&self) -> Option<&Value> {
        self.seen.agents.get(self.row()?)
    }

    /// What a key means now.
    #[expect(clippy::wildcard_enum_match_arm, reason = "most keys mean nothing")]
    pub(super) fn key(&mut self, key: KeyEvent) -> Option<Order> {
        let is_ctrl_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        if is_ctrl_c {
            return Some(Order::Quit);
        }
        if let Some(asked) = self.asked.take() {
            self.said = String::new();
            return matches!(key.code, KeyCode::Char('y' | 'Y')).then_some(asked);
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Some(Order::Quit),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::Char('K') => self.asked = Some(Order::Kill),
            KeyCode::Char('s') => self.ask(Order::Stop),
            KeyCode::Char('a') => self.ask(Order::Activate),
            KeyCode::Char('p') => {
                let paused = self.agent().is_some_and(|agent| agent["paused"] == true);
                self.ask(if paused { Order::Resume } else { Order::Pause });
            }
            _ => {}
        }
        None
    }

    fn ask(&mut self, order: impl Fn(String) -> Order) {
        self.asked = self.selected.clone().map(order);
    }

    fn step(&mut self, by: isize) {
        let at = self.row().unwrap_or(0);
        let last = self.seen.agents.len().saturating_sub(1);
        let at = at.saturating_add_signed(by).min(last);
        self.selected = self.seen.agents.get(at).map(|agent| name_of(agent).to_owned());
    }
}

/// An agent's name.
pub(super) fn name_of(agent: &Value) -> &str {
    agent["id"].as_str().unwrap_or_default()
}

/// What a person should see first comes first.
fn urgency(agent: &Value) -> u32 {
    let is_refused = !matches!(agent["state"]["kind"].as_str(), Some("active" | "shut") | None);
    let standing = match (agent["deactivated_by"].as_str(), agent["paused"].as_bool()) {
        (Some("kill_switch"), _) => 4,
        (None, Some(true)) => 3,
        (None, _) if is_refused => 3,
        (None, _) => 2,
        (Some(_), _) => 0,
    };
    let alarming = matches!(agent["mode"].as_str(), Some("LOOPING" | "RUNAWAY"));
    standing * 2 + u32::from(alarming)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn model() -> Model {
        let agents = vec![
            json!({"id": "calm", "active": true}),
            json!({"id": "stuck", "active": false, "deactivated_by": "kill_switch"}),
        ];
        Model::new(Seen { agents, ..Seen::default() })
    }

    fn press(model: &mut Model, code: KeyCode) -> Option<Order> {
        model.key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn ui_2_who_is_stopped_comes_first_and_the_cursor_stays_with_its_agent() {
        let mut model = model();
        assert_eq!(model.selected.as_deref(), Some("stuck"));
        press(&mut model, KeyCode::Down);
        assert_eq!(model.selected.as_deref(), Some("calm"));
        let seen = Seen {
            agents: vec![json!({"id": "calm", "paused": true}), json!({"id": "b"})],
            ..Seen::default()
        };
        model.see(Ok(seen));
        assert_eq!((model.selected.as_deref(), model.row()), (Some("calm"), Some(0)));
    }

    #[test]
    fn ui_2_nothing_is_stopped_without_a_yes() {
        let mut model = model();
        assert_eq!(press(&mut model, KeyCode::Char('K')), None);
        assert_eq!(press(&mut model, KeyCode::Char('n')), None);
        assert_eq!(press(&mut model, KeyCode::Char('y')), None, "the question is gone");
        press(&mut model, KeyCode::Char('K'));
        assert_eq!(press(&mut model, KeyCode::Char('y')), Some(Order::Kill));
        press(&mut model, KeyCode::Char('s'));
        assert_eq!(press(&mut model, KeyCode::Char('y')), Some(Order::Stop("stuck".to_owned())));
    }

    #[test]
    fn ui_2_what_was_seen_stays_when_estop_does_not_answer() {
        let mut model = model();
        model.see(Err(anyhow::anyhow!("no answer")));
        assert_eq!(model.seen.agents.len(), 2);
        assert_eq!(model.trouble.as_deref(), Some("no answer"));
    }
}
