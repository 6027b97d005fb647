//! What `estop top` knows, and what a key means. No terminal, no clock, no network in here.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::Value;

use crate::urgency::urgency;

/// What is typed as a filter is not longer.
const FILTER_CHARS_MAX: usize = 60;
/// Rows that a page key moves.
const PAGE_ROWS: isize = 10;

/// What estop said.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) status: Value,
    pub(super) stats: Value,
    pub(super) agents: Vec<Value>,
    /// Open ones, newest first.
    pub(super) incidents: Vec<Value>,
    /// Of all agents, newest first.
    pub(super) events: Vec<Value>,
    pub(super) detail: Option<Detail>,
}

/// What is shown of one agent beside its row.
#[derive(Clone, Debug, Default)]
pub(super) struct Detail {
    pub(super) agent: String,
    pub(super) runs: Vec<Value>,
    pub(super) events: Vec<Value>,
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
    /// The agent whose details fill the screen.
    pub(super) detail_of: Option<String>,
    /// Lines of the details above the screen.
    pub(super) scrolled: usize,
    /// Only agents with this in their name or state are listed.
    pub(super) filter: String,
    /// Whether the filter is being typed.
    pub(super) is_typing: bool,
    pub(super) with_events: bool,
    pub(super) with_help: bool,
    /// What waits for a yes.
    pub(super) asked: Option<Order>,
    /// What was done last.
    pub(super) said: String,
}

impl Model {
    pub(super) fn new(seen: Seen) -> Model {
        let mut model = Model {
            seen: Seen::default(),
            trouble: None,
            selected: None,
            detail_of: None,
            scrolled: 0,
            filter: String::new(),
            is_typing: false,
            with_events: true,
            with_help: false,
            asked: None,
            said: String::new(),
        };
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
        self.keep_on_a_row();
    }

    pub(super) fn tell(&mut self, said: String) {
        self.said = said;
    }

    /// The agents that are listed.
    pub(super) fn agents(&self) -> impl Iterator<Item = &Value> {
        let wanted = self.filter.to_lowercase();
        self.seen.agents.iter().filter(move |agent| {
            let state = agent["state"]["label"].as_str().unwrap_or_default();
            wanted.is_empty()
                || name_of(agent).to_lowercase().contains(&wanted)
                || state.to_lowercase().contains(&wanted)
                || kind_of(agent).contains(&wanted)
        })
    }

    /// Where the cursor is.
    pub(super) fn row(&self) -> Option<usize> {
        let selected = self.selected.as_deref()?;
        self.agents().position(|agent| name_of(agent) == selected)
    }

    /// The agent under the cursor, or the one whose details are shown.
    pub(super) fn agent(&self) -> Option<&Value> {
        match &self.detail_of {
            Some(shown) => self.seen.agents.iter().find(|agent| name_of(agent) == shown),
            None => self.agents().nth(self.row()?),
        }
    }

    /// What stopped an agent: its newest open incident.
    pub(super) fn incident_of(&self, agent: &Value) -> Option<&str> {
        self.incidents_of(agent).next().and_then(|incident| incident["summary"].as_str())
    }

    /// Its open incidents, newest first.
    pub(super) fn incidents_of(&self, agent: &Value) -> impl Iterator<Item = &Value> + use<'_> {
        let name = name_of(agent).to_owned();
        self.seen.incidents.iter().filter(move |incident| incident["agent"].as_str() == Some(&name))
    }

    /// Why the next request of an agent is refused, or would be; nothing where it simply passes. What stopped it comes first.
    pub(super) fn why<'a>(&'a self, agent: &'a Value) -> Vec<&'a str> {
        let state = &agent["state"];
        let is_plain = state["kind"] == "active" && state["label"] == "active";
        let stopped_by = self.incident_of(agent).filter(|_| agent["deactivated_by"] == "kill_switch");
        let sentence = state["sentence"].as_str().filter(|_| !is_plain);
        stopped_by.into_iter().chain(sentence).collect()
    }

    /// What a key means now.
    pub(super) fn key(&mut self, key: KeyEvent) -> Option<Order> {
        let is_ctrl_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        if is_ctrl_c {
            return Some(Order::Quit);
        }
        if let Some(asked) = self.asked.take() {
            self.said = String::new();
            return matches!(key.code, KeyCode::Char('y' | 'Y')).then_some(asked);
        }
        if self.with_help {
            self.with_help = false;
            return None;
        }
        if self.is_typing {
            self.type_filter(key.code);
            return None;
        }
        self.command(key.code)
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "most keys mean nothing")]
    fn command(&mut self, code: KeyCode) -> Option<Order> {
        match code {
            KeyCode::Char('q') => return Some(Order::Quit),
            KeyCode::Esc | KeyCode::Backspace => self.go_back(),
            KeyCode::Enter => self.open(),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::PageDown => self.step(PAGE_ROWS),
            KeyCode::PageUp => self.step(-PAGE_ROWS),
            KeyCode::Home => self.step(isize::MIN),
            KeyCode::End => self.step(isize::MAX),
            KeyCode::Char('?') => self.with_help = true,
            KeyCode::Char('/') if self.detail_of.is_none() => self.is_typing = true,
            KeyCode::Char('e') => self.with_events = !self.with_events,
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

    #[expect(clippy::wildcard_enum_match_arm, reason = "most keys mean nothing")]
    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(typed) if self.filter.chars().count() < FILTER_CHARS_MAX => self.filter.push(typed),
            _ => {}
        }
        self.keep_on_a_row();
    }

    /// Closes what is open: the details, then the filter.
    fn go_back(&mut self) {
        if self.detail_of.take().is_none() {
            self.filter.clear();
        }
        self.keep_on_a_row();
    }

    fn open(&mut self) {
        if self.detail_of.is_none() {
            self.detail_of = self.agent().map(|agent| name_of(agent).to_owned());
            self.scrolled = 0;
        }
    }

    fn ask(&mut self, order: impl Fn(String) -> Order) {
        self.asked = self.agent().map(|agent| order(name_of(agent).to_owned()));
    }

    fn step(&mut self, by: isize) {
        if self.detail_of.is_some() {
            // Drawing knows how many lines there are, and takes back what is too much.
            self.scrolled = self.scrolled.saturating_add_signed(by);
            return;
        }
        let last = self.agents().count().saturating_sub(1);
        let at = self.row().unwrap_or(0).saturating_add_signed(by).min(last);
        let selected = self.agents().nth(at).map(|agent| name_of(agent).to_owned());
        self.selected = selected;
    }

    /// A cursor whose agent is gone, or filtered away, goes to the first row; so do details of an agent that is gone.
    fn keep_on_a_row(&mut self) {
        if self.detail_of.is_some() && self.agent().is_none() {
            self.detail_of = None;
        }
        if self.row().is_none() {
            let first = self.agents().next().map(|agent| name_of(agent).to_owned());
            self.selected = first;
        }
    }
}

/// An agent's name.
pub(super) fn name_of(agent: &Value) -> &str {
    agent["id"].as_str().unwrap_or_default()
}

/// What its next request gets, in a word or two.
pub(super) fn kind_of(agent: &Value) -> String {
    agent["state"]["kind"].as_str().unwrap_or("unknown").replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn model() -> Model {
        let agents = vec![
            json!({"id": "calm", "active": true, "state": {"kind": "active", "label": "active", "sentence": "It passes."}}),
            json!({"id": "stuck", "active": false, "deactivated_by": "kill_switch",
                "state": {"kind": "stopped", "label": "deactivated by kill switch (loop)", "sentence": "Activate it."}}),
        ];
        let incidents = vec![
            json!({"agent": "calm", "summary": "An old one."}),
            json!({"agent": "stuck", "summary": "Loop: 5 times."}),
        ];
        Model::new(Seen { agents, incidents, ..Seen::default() })
    }

    fn press(model: &mut Model, code: KeyCode) -> Option<Order> {
        model.key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    fn typed(model: &mut Model, text: &str) {
        for letter in text.chars() {
            assert_eq!(press(model, KeyCode::Char(letter)), None, "{letter}");
        }
    }

    fn names(model: &Model) -> Vec<&str> {
        model.agents().map(name_of).collect()
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
    fn ev_2_the_order_is_that_of_the_dashboard() {
        let agent = |name: &str, kind: &str| json!({"id": name, "state": {"kind": kind}});
        let agents = [
            ("a", "active"),
            ("b", "watched"),
            ("c", "paused"),
            ("d", "at_run_limit"),
            ("e", "budget_spent"),
        ];
        let agents = agents.into_iter().map(|(name, kind)| agent(name, kind)).collect();
        assert_eq!(names(&Model::new(Seen { agents, ..Seen::default() })), ["e", "d", "c", "b", "a"]);
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
    fn ui_2_what_stopped_an_agent_comes_before_its_state_and_who_works_needs_no_reason() {
        let model = model();
        let (stuck, calm) = (&model.seen.agents[0], &model.seen.agents[1]);
        assert_eq!(model.why(stuck), ["Loop: 5 times.", "Activate it."]);
        assert_eq!(model.why(calm), Vec::<&str>::new());
    }

    #[test]
    fn ui_2_a_filter_takes_names_and_states_and_letters_are_no_commands_in_it() {
        let mut model = model();
        typed(&mut model, "/Kal");
        assert_eq!((names(&model), model.asked.clone()), (Vec::new(), None));
        assert_eq!(press(&mut model, KeyCode::Enter), None);
        typed(&mut model, "s");
        assert_eq!(model.asked, None, "there is no agent to stop");
        press(&mut model, KeyCode::Esc);
        assert_eq!(names(&model), ["stuck", "calm"]);
        typed(&mut model, "/CAL");
        assert_eq!((names(&model), model.selected.as_deref()), (vec!["calm"], Some("calm")));
        press(&mut model, KeyCode::Esc);
        typed(&mut model, "/stopped");
        assert_eq!(names(&model), ["stuck"]);
        typed(&mut model, &"x".repeat(1000));
        assert_eq!(model.filter.chars().count(), FILTER_CHARS_MAX);
    }

    #[test]
    fn ui_2_enter_opens_the_details_and_escape_goes_back_without_leaving() {
        let mut model = model();
        press(&mut model, KeyCode::Enter);
        assert_eq!(model.detail_of.as_deref(), Some("stuck"));
        press(&mut model, KeyCode::Down);
        assert_eq!((model.scrolled, model.selected.as_deref()), (1, Some("stuck")));
        press(&mut model, KeyCode::Char('a'));
        assert_eq!(model.asked.take(), Some(Order::Activate("stuck".to_owned())));
        assert_eq!(press(&mut model, KeyCode::Esc), None);
        assert_eq!(model.detail_of, None);
        assert_eq!(press(&mut model, KeyCode::Esc), None);
        assert_eq!(press(&mut model, KeyCode::Char('q')), Some(Order::Quit));
        press(&mut model, KeyCode::Enter);
        model.see(Ok(Seen::default()));
        assert_eq!((model.detail_of.as_deref(), model.agent()), (None, None), "the agent is gone");
    }

    #[test]
    fn ui_2_any_key_closes_the_help_and_does_nothing_else() {
        let mut model = model();
        typed(&mut model, "?");
        assert!(model.with_help);
        typed(&mut model, "K");
        assert_eq!((model.with_help, model.asked), (false, None));
    }

    #[test]
    fn ui_2_what_was_seen_stays_when_estop_does_not_answer() {
        let mut model = model();
        model.see(Err(anyhow::anyhow!("no answer")));
        assert_eq!(model.seen.agents.len(), 2);
        assert_eq!(model.trouble.as_deref(), Some("no answer"));
    }
}
