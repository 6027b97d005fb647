//! The red button, told the moment it is pressed (KS-2): not after the disk, and not after the journal. The epoch is the
//! id, so that its record, which comes later or is read after a crash, is known to be the same.

use std::sync::{Arc, Mutex, PoisonError};

use estop_core::ids::Name;
use estop_core::system::button::Latched;
use estop_core::system::{Channel, Channels, GateView, KillReason, SYSTEM, SystemState};
use estop_gateway::LatchStore;
use estop_notify::{AlertEvent, AlertType, Cost, Detail, Phase};
use estop_store::NewEvent;
use serde_json::Value;

use super::Alerting;

const FOUND: &str = "Found at the start";

/// Keeps the latch, and tells people.
pub struct NotifyingLatchStore {
    keeper: Arc<dyn LatchStore>,
    alerting: Arc<Alerting>,
}

impl NotifyingLatchStore {
    /// Over a keeper, which is always asked first.
    pub fn over(keeper: Arc<dyn LatchStore>, alerting: Arc<Alerting>) -> NotifyingLatchStore {
        NotifyingLatchStore { keeper, alerting }
    }
}

impl LatchStore for NotifyingLatchStore {
    fn keep(&self, latched: &Latched) {
        self.keeper.keep(latched);
        if let Some(alert) = self.alerting.button.step(latched) {
            self.alerting.tell(alert);
        }
    }

    fn stage(&self, latched: &Latched) {
        self.keeper.stage(latched);
    }

    fn is_kept(&self) -> bool {
        self.keeper.is_kept()
    }
}

/// How the button stood when it was last looked at.
#[derive(Default)]
pub(super) struct ToldButton(Mutex<Option<GateView>>);

impl ToldButton {
    /// What there is to tell of a button that stands so now. It may be pressed, unlocked, or be kept once more.
    fn step(&self, latched: &Latched) -> Option<AlertEvent> {
        let gate = latched.gate;
        let before = self.0.lock().unwrap_or_else(PoisonError::into_inner).replace(gate);
        if before.is_some_and(|before| before.epoch >= gate.epoch) {
            return None;
        }
        let before = before.filter(|before| before.state != SystemState::Starting);
        let shut = match (before, gate.state) {
            // Found so at a start: told before, or pressed while nobody was there to tell.
            (_, SystemState::Shutdown) => Channels::ALL,
            (_, SystemState::SafeMode | SystemState::Starting) => return None,
            // Whoever presses once more shuts as much or more; only who lifts opens something.
            (Some(before), SystemState::Running)
                if before.state == SystemState::Running && gate.shut.union(before.shut) == gate.shut =>
            {
                gate.shut
            }
            // Found so at a start: nobody has lifted it since.
            (None, SystemState::Running) if latched.reason.is_some() && !gate.shut.is_empty() => gate.shut,
            // Also at a start, where nobody may have been told: who heard of no stop hears nothing of its end.
            (_, SystemState::Running) => return Some(cleared(gate, latched)),
        };
        let press = Pressed {
            reason: latched.reason.map_or("unknown", reason),
            by: &latched.by,
            source: &latched.source,
            note: latched.note.as_deref(),
        };
        Some(press.alert_event(gate.epoch, 0, latched.since, shut))
    }

    /// Whether this was told when it happened, and is only read from the journal now.
    pub(super) fn has_told(&self, told: &AlertEvent) -> bool {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner).map(|gate| gate.epoch);
        told.alert == AlertType::SystemKill && epoch(&told.id).is_some_and(|epoch| seen >= Some(epoch))
    }
}

/// Who pressed it, and why.
struct Pressed<'a> {
    reason: &'a str,
    by: &'a str,
    source: &'a str,
    note: Option<&'a str>,
}

impl Pressed<'_> {
    fn alert_event(&self, epoch: u64, seq: u64, at: i64, shut: Channels) -> AlertEvent {
        let Pressed { reason, by, source, note } = self;
        // What a start finds was pressed by nobody.
        let from = if *source == "start" { FOUND.to_owned() } else { format!("Pressed from `{source}`") };
        let detail = if shut == Channels::ALL { Detail::None } else { Detail::Shut(names(shut)) };
        AlertEvent {
            id: format!("kill-{epoch}").into(),
            seq,
            at,
            alert: AlertType::SystemKill,
            phase: Phase::Raised,
            agent: None,
            run: None,
            cause: (*reason).to_owned(),
            evidence: note.map_or_else(|| from.clone(), |note| format!("{from}: {note}")),
            by: Some(Name::from(*by)),
            incident: Some(format!("{SYSTEM}-{epoch}").into()),
            cost: Cost::default(),
            detail,
        }
    }
}

fn cleared(gate: GateView, latched: &Latched) -> AlertEvent {
    lifted(gate, 0, latched.since, &latched.by)
}

/// Channels that were killed one by one may stay shut.
fn lifted(gate: GateView, seq: u64, at: i64, by: &str) -> AlertEvent {
    AlertEvent {
        id: format!("clear-{}", gate.epoch).into(),
        seq,
        at,
        alert: AlertType::SystemKill,
        phase: Phase::Cleared,
        agent: None,
        run: None,
        cause: String::new(),
        evidence: String::new(),
        by: Some(by.into()),
        incident: None,
        cost: Cost::default(),
        detail: if gate.shut.is_empty() { Detail::None } else { Detail::Shut(names(gate.shut)) },
    }
}

/// The same from the journal's event: a kill, or a clear that was allowed.
pub(crate) fn told(event: &NewEvent, detail: &Value) -> Option<AlertEvent> {
    let gate: GateView = serde_json::from_value(detail["gate"].clone()).ok()?;
    let text = |key: &str| detail[key].as_str();
    let by = text("by").unwrap_or_default();
    if &*event.event_type == "system_clear" {
        return (text("outcome") == Some("applied")).then(|| lifted(gate, event.seq, event.wall, by));
    }
    let shut = if gate.state == SystemState::Shutdown { Channels::ALL } else { gate.shut };
    let reason = text("reason").unwrap_or("unknown");
    let press = Pressed { reason, by, source: text("source").unwrap_or_default(), note: text("note") };
    // In safe mode everything is shut already.
    let is_news = gate.state != SystemState::SafeMode;
    is_news.then(|| press.alert_event(gate.epoch, event.seq, event.wall, shut))
}

fn epoch(id: &str) -> Option<u64> {
    id.rsplit_once('-').and_then(|(_, epoch)| epoch.parse().ok())
}

fn reason(reason: KillReason) -> &'static str {
    match reason {
        KillReason::Manual => "manual",
        KillReason::SecurityIncident => "security_incident",
        KillReason::RunawayAgent => "runaway_agent",
        KillReason::ApiQuotaExceeded => "api_quota_exceeded",
        KillReason::Emergency => "emergency",
    }
}

fn names(channels: Channels) -> String {
    let all = [(Channel::Llm, "llm"), (Channel::Tools, "tools"), (Channel::Messaging, "messaging")];
    let shut: Vec<&str> =
        all.into_iter().filter(|(channel, _)| channels.contains(*channel)).map(|(_, name)| name).collect();
    shut.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use estop_core::system::button::{Press, Unlock};
    use estop_core::system::{System, SystemEvent};
    use estop_core::time::Now;

    /// A system, its latch and what is told of it.
    struct Room {
        system: System,
        latched: Latched,
        told: ToldButton,
        wall: i64,
    }

    impl Room {
        fn happen(&mut self, event: &SystemEvent) -> Option<AlertEvent> {
            self.wall += 1;
            let decision = self.system.handle(Now::default(), event);
            self.latched = self.latched.clone().after(event, &decision, self.wall);
            self.told.step(&self.latched)
        }

        fn new() -> Room {
            let latched = Latched::at_start(GateView::OPEN, 0);
            let mut room = Room { system: System::default(), latched, told: ToldButton::default(), wall: 0 };
            let start = room.happen(&SystemEvent::Started { found: None });
            assert_eq!(start.map(|told| told.phase), Some(Phase::Cleared), "it runs, if anybody asks");
            room
        }

        fn unlock(&self, clear: bool) -> SystemEvent {
            let Unlock { by, epoch, note } =
                Unlock { by: "ann".into(), epoch: self.system.gate().epoch, note: None };
            if clear {
                SystemEvent::ClearRequested { by, epoch, note }
            } else {
                SystemEvent::RestartRequested { by, epoch, note }
            }
        }
    }

    fn press(channels: Channels) -> SystemEvent {
        Press {
            channels,
            note: Some("it deletes mail".into()),
            ..Press::new(KillReason::Manual, "ann", "api")
        }
        .event()
    }

    #[test]
    fn ks_2_a_press_is_told_at_once_and_its_record_is_the_same() {
        let mut room = Room::new();
        let event = press(Channels::ALL);
        let told = room.happen(&event).expect("it is told");
        assert_eq!((told.phase, &*told.cause, told.by.as_deref()), (Phase::Raised, "manual", Some("ann")));
        assert_eq!(told.evidence, "Pressed from `api`: it deletes mail");
        let detail = serde_json::json!({
            "by": "ann", "reason": "manual", "source": "api", "note": "it deletes mail",
            "outcome": "applied", "gate": room.system.gate(),
        });
        let wall = room.wall;
        let row =
            NewEvent { seq: 7, wall, agent: None, event_type: "system_kill".into(), detail: String::new() };
        let read = super::told(&row, &detail).expect("its record is told");
        assert_eq!(read, AlertEvent { seq: 7, ..told.clone() });
        assert!(room.told.has_told(&read), "and known");
        assert!(!ToldButton::default().has_told(&read), "but not by the next process");
        assert!(room.told.step(&room.latched).is_none(), "kept once more, it is not pressed again");
        assert!(room.happen(&room.unlock(false)).is_none(), "people look, agents stay stopped");
        let end = room.happen(&room.unlock(true)).expect("it is over");
        assert_eq!(end.phase, Phase::Cleared);
        assert_ne!(room.happen(&event).map(|told| told.id), Some(told.id), "the next press is another");
    }

    #[test]
    fn ks_2_a_press_of_single_channels_says_which() {
        let mut room = Room::new();
        let llm = Channels::NONE.with(Channel::Llm);
        let told = room.happen(&press(llm)).expect("it is told");
        assert_eq!(told.detail, Detail::Shut("llm".to_owned()));
        let told = room.happen(&press(Channels::ALL)).expect("it is told");
        assert_eq!(told.detail, Detail::None);
        let mut room = Room::new();
        room.happen(&press(llm.with(Channel::Tools)));
        assert_eq!(room.happen(&room.unlock(true)).map(|told| told.phase), Some(Phase::Cleared));
    }

    #[test]
    fn ks_2_what_was_pressed_while_nobody_ran_is_told_at_the_start() {
        let gate = GateView { epoch: 9, state: SystemState::Shutdown, shut: Channels::ALL };
        let latched = Latched { note: Some("by hand".to_owned()), ..Latched::at_start(gate, 5) };
        let told = ToldButton::default().step(&latched).expect("it is told");
        assert_eq!((&*told.id, told.at), ("kill-9", 5));
        let safe = GateView { state: SystemState::SafeMode, ..gate };
        assert!(ToldButton::default().step(&Latched::at_start(safe, 5)).is_none());
    }
    #[test]
    fn ks_2_pressed_once_more_it_is_not_told_as_lifted() {
        let llm = Channels::NONE.with(Channel::Llm);
        let mut room = Room::new();
        let first = room.happen(&press(llm)).expect("it is told");
        let second = room.happen(&press(llm)).expect("it is told");
        assert_eq!((second.phase, &second.detail), (Phase::Raised, &Detail::Shut("llm".to_owned())));
        assert_ne!(first.id, second.id);
        room.happen(&press(llm.with(Channel::Tools)));
        let part = room.happen(&press(llm)).expect("it is told");
        assert_eq!((part.phase, part.detail), (Phase::Raised, Detail::Shut("llm, tools".to_owned())));
        let end = room.happen(&room.unlock(true)).expect("it is over");
        assert_eq!((end.phase, end.detail), (Phase::Cleared, Detail::None));
    }

    #[test]
    fn ks_2_what_stays_shut_is_named_when_the_rest_is_lifted() {
        let mut room = Room::new();
        room.happen(&press(Channels::ALL));
        room.happen(&press(Channels::NONE.with(Channel::Llm)));
        room.happen(&room.unlock(false));
        let end = room.happen(&room.unlock(true)).expect("it is told");
        assert_eq!((end.phase, &end.detail), (Phase::Cleared, &Detail::Shut("llm".to_owned())));
        let detail = serde_json::json!({ "by": "ann", "outcome": "applied", "gate": room.system.gate() });
        let wall = room.wall;
        let row =
            NewEvent { seq: 9, wall, agent: None, event_type: "system_clear".into(), detail: String::new() };
        assert_eq!(told(&row, &detail), Some(AlertEvent { seq: 9, ..end.clone() }));
        assert_eq!(ToldButton::default().step(&room.latched), Some(end), "and at the next start");
    }

    #[test]
    fn ks_2_a_start_tells_how_the_button_stands() {
        let gate = GateView { epoch: 9, ..GateView::OPEN };
        let lifted = Latched { by: "ann".into(), ..Latched::at_start(gate, 5) };
        let told = ToldButton::default().step(&lifted).expect("it is told");
        assert_eq!((&*told.id, told.phase, told.detail), ("clear-9", Phase::Cleared, Detail::None));
        let llm = GateView { shut: Channels::NONE.with(Channel::Llm), ..gate };
        let pressed = Latched { reason: Some(KillReason::Manual), ..Latched::at_start(llm, 5) };
        let told = ToldButton::default().step(&pressed).expect("it is told");
        assert_eq!((&*told.id, told.phase), ("kill-9", Phase::Raised));
    }
}
