//! Who is told what, how often, and what happens in a storm (AL-1). Time is an argument; nothing waits.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod house;

use std::collections::BTreeMap;

use estop_core::ids::Name;
use estop_notify::{
    AlertEvent, AlertRouter, AlertType, ChannelScope, Detail, Message, MessageKind, Mute, Phase, Rule,
    RuleBook, RuleError, STORM_AFTER, Words,
};
use estop_store::AlertRule;
use house::{NIGHT, budget, cleared, escalated, event, looped};

const MINUTE: i64 = 60_000;

/// A router with its rules, and what has come out of it.
struct Room {
    router: AlertRouter,
    book: RuleBook,
    words: Words,
    memory: BTreeMap<Name, String>,
    out: Vec<(Name, Message)>,
    now: i64,
}

impl Room {
    fn new(rules: &[(&str, Rule)], channels: &[(&str, ChannelScope)]) -> Room {
        let rules = rules.iter().map(|(name, rule)| ((*name).into(), rule.clone())).collect();
        let channels = channels.iter().map(|(name, takes)| ((*name).into(), *takes)).collect();
        Room {
            router: AlertRouter::default(),
            book: RuleBook::new(rules, channels).unwrap(),
            words: Words::default(),
            memory: BTreeMap::new(),
            out: Vec::new(),
            now: NIGHT,
        }
    }

    fn plain() -> Room {
        Room::new(&[], &[("ops", ChannelScope::All)])
    }

    fn tell(&mut self, event: &AlertEvent) {
        self.router.handle(self.now, event, &self.book, &self.words);
        self.take();
    }

    /// Time passes, a second at a time; the router is asked whenever it wants to be.
    fn pass(&mut self, ms: i64) {
        let end = self.now + ms;
        while let Some(wake) = self.router.next_wake().filter(|wake| *wake <= end) {
            self.now = self.now.max(wake);
            self.router.poll(self.now, &self.book, &self.words);
            self.take();
        }
        self.now = end;
    }

    fn take(&mut self) {
        let Some(commit) = self.router.take(self.now) else { return };
        for kept in commit.memory {
            match kept.value {
                Some(value) => drop(self.memory.insert(kept.name, value)),
                None => drop(self.memory.remove(&kept.name)),
            }
        }
        for alert in commit.alerts {
            let message: Message = serde_json::from_str(&alert.payload).unwrap();
            // The store adds the same alert once.
            if !self.out.iter().any(|(_, known)| known.id == message.id) {
                self.out.push((alert.target, message));
            }
        }
    }

    /// As after a restart: only what was kept is known.
    fn restart(&mut self) {
        self.router = AlertRouter::recall(self.memory.clone().into_iter().collect());
    }

    fn told(&mut self) -> Vec<String> {
        std::mem::take(&mut self.out).into_iter().map(|(_, message)| message.title).collect()
    }

    fn count(&mut self) -> usize {
        self.told().len()
    }
}

#[test]
fn al_1_a_person_is_told_at_once_and_once() {
    let mut room = Room::plain();
    room.tell(&looped("coder", 1));
    assert_eq!(room.told(), ["Agent coder was stopped: stuck in a loop"]);
    room.tell(&looped("coder", 1));
    assert_eq!(room.count(), 0, "the same event, told again after a crash, is known");
    room.tell(&looped("coder", 2));
    room.tell(&looped("coder", 3));
    assert_eq!(room.count(), 0, "within the repeat interval it is only counted");
    room.pass(15 * MINUTE);
    let again = std::mem::take(&mut room.out);
    assert_eq!(again.len(), 1);
    let facts = &again[0].1.facts;
    assert!(facts.iter().any(|fact| fact.text == "it happened 2 more times"), "{facts:?}");
}

#[test]
fn al_1_what_lasts_is_reminded_of_three_times() {
    let mut room = Room::plain();
    room.tell(&looped("coder", 1));
    room.told();
    room.pass(24 * 60 * MINUTE);
    let still = "Ongoing: Agent coder was stopped: stuck in a loop";
    assert_eq!(room.told(), [still, still, still]);

    let quiet = Rule { reminders: 0, ..Rule::default() };
    let mut room = Room::new(&[("quiet", quiet)], &[("ops", ChannelScope::All)]);
    room.tell(&looped("coder", 1));
    room.pass(24 * 60 * MINUTE);
    assert_eq!(room.count(), 1);
}

#[test]
fn al_1_recovery_is_told_and_activation_resets() {
    let mut room = Room::plain();
    room.tell(&looped("coder", 1));
    room.told();
    room.tell(&cleared(AlertType::KillSwitch, "coder", 2));
    assert_eq!(room.told(), ["Agent coder was reactivated by anna"]);
    room.tell(&looped("coder", 3));
    assert_eq!(room.count(), 1, "after an activation the next stop is told at once");
    room.tell(&cleared(AlertType::KillSwitch, "other", 4));
    assert_eq!(room.count(), 0, "who was not stopped does not recover");
    room.tell(&event(AlertType::Watchdog, "coder", 5));
    room.told();
    room.tell(&cleared(AlertType::KillSwitch, "coder", 6));
    assert_eq!(room.count(), 2, "an activation ends whatever had stopped the agent");
    room.pass(60 * MINUTE);
    assert_eq!(room.count(), 0);
}

#[test]
fn al_1_the_recovery_has_the_key_of_its_alert() {
    let mut room = Room::plain();
    room.tell(&looped("coder", 1));
    room.tell(&cleared(AlertType::KillSwitch, "coder", 2));
    let keys: Vec<(&str, MessageKind)> = room.out.iter().map(|(_, m)| (&*m.key, m.kind)).collect();
    assert_eq!(
        keys,
        [("kill_switch/coder", MessageKind::Alert), ("kill_switch/coder", MessageKind::Recovery)]
    );
}

#[test]
fn al_1_rules_choose_types_agents_channels_and_shares() {
    let money = Rule { types: vec![AlertType::Budget], channels: vec!["mail".into()], ..Rule::default() };
    let money = Rule { budget_percent: vec![80, 100], ..money };
    let coder = Rule { agents: vec!["coder".into()], channels: vec!["ops".into()], ..Rule::default() };
    let channels = [("mail", ChannelScope::All), ("ops", ChannelScope::All)];
    let mut room = Room::new(&[("money", money), ("coder", coder)], &channels);
    for (n, percent) in [(1, 50), (2, 80), (3, 95), (4, 100)] {
        room.tell(&budget("tester", percent, n));
    }
    room.tell(&looped("tester", 5));
    room.tell(&looped("coder", 6));
    let to: Vec<(String, String)> =
        room.out.iter().map(|(channel, message)| (channel.to_string(), message.title.clone())).collect();
    let expected = [
        ("mail", "Agent tester has used 80 % of its budget"),
        ("mail", "Agent tester has spent its budget: requests are refused"),
        ("ops", "Agent coder was stopped: stuck in a loop"),
    ];
    assert_eq!(to, expected.map(|(channel, title)| (channel.to_owned(), title.to_owned())));
}

#[test]
fn al_1_two_rules_tell_a_channel_once() {
    let rules = [("a", Rule::default()), ("b", Rule { reminders: 0, ..Rule::default() })];
    let mut room = Room::new(&rules, &[("ops", ChannelScope::All)]);
    room.tell(&looped("coder", 1));
    assert_eq!(room.count(), 1);
}

#[test]
fn al_1_checkpoints_go_to_who_asks_for_them_and_none_is_held_back() {
    let mut room = Room::plain();
    room.tell(&event(AlertType::Checkpoint, "coder", 1));
    assert_eq!(room.count(), 0);
    let asked = Rule { types: vec![AlertType::Checkpoint], ..Rule::default() };
    let mut room = Room::new(&[("all", asked)], &[("ops", ChannelScope::All)]);
    room.tell(&event(AlertType::Checkpoint, "coder", 1));
    room.tell(&event(AlertType::Checkpoint, "coder", 2));
    assert_eq!(room.count(), 2);
    let types = vec![AlertType::Checkpoint];
    let until = room.now + MINUTE;
    let mute = Mute { types, agents: Vec::new(), until, by: "anna".into(), why: String::new() };
    room.router.mute(room.now, "m".into(), mute).unwrap();
    room.tell(&event(AlertType::Checkpoint, "coder", 3));
    assert_eq!(room.count(), 0, "it may be muted like everything else");
}

#[test]
fn ks_5_a_new_admin_token_cannot_be_muted() {
    let mut room = Room::plain();
    let (now, until) = (room.now, room.now + MINUTE);
    let mute = |types| Mute { types, agents: Vec::new(), until, by: "anna".into(), why: String::new() };
    let named = room.router.mute(now, "m".into(), mute(vec![AlertType::AdminToken]));
    assert_eq!(named, Err(RuleError::NeverMuted));
    room.router.mute(now, "m".into(), mute(Vec::new())).unwrap();
    room.tell(&event(AlertType::Budget, "coder", 1));
    assert_eq!(room.count(), 0);
    room.tell(&event(AlertType::AdminToken, "coder", 2));
    assert_eq!(room.count(), 1);
}

#[test]
fn al_1_a_mute_has_an_owner_and_an_end() {
    let mut room = Room::plain();
    let mute = |until, by: &str| Mute {
        types: Vec::new(),
        agents: vec!["coder".into()],
        until,
        by: by.into(),
        why: "deploy".to_owned(),
    };
    let now = room.now;
    assert_eq!(room.router.mute(now, "m".into(), mute(now + MINUTE, " ")), Err(RuleError::NoOwner));
    assert!(
        room.router.mute(now, "m".into(), mute(now + 8 * 24 * 60 * MINUTE, "anna")).is_err(),
        "a week at most"
    );
    room.router.mute(now, "m".into(), mute(now + 30 * MINUTE, "anna")).unwrap();
    room.take();
    room.tell(&looped("coder", 1));
    room.tell(&looped("tester", 2));
    assert_eq!(room.told(), ["Agent tester was stopped: stuck in a loop"]);
    room.restart();
    room.pass(29 * MINUTE);
    assert!(room.told().iter().all(|title| !title.contains("coder")), "it holds over a restart");
    room.pass(2 * MINUTE);
    assert!(
        room.told().contains(&"Agent coder was stopped: stuck in a loop".to_owned()),
        "what still lasts is told when the mute ends"
    );
    assert!(room.router.mutes().is_empty());
}

#[test]
fn al_1_a_mute_of_everything_does_not_hide_the_red_button() {
    let mut room = Room::plain();
    let all = Mute {
        types: Vec::new(),
        agents: Vec::new(),
        until: room.now + MINUTE,
        by: "anna".into(),
        why: String::new(),
    };
    room.router.mute(room.now, "all".into(), all).unwrap();
    let mut killed = event(AlertType::SystemKill, "x", 1);
    killed.agent = None;
    room.tell(&killed);
    room.tell(&looped("coder", 2));
    assert_eq!(room.told(), ["EMERGENCY STOP: everything is stopped (manual)"]);
    room.tell(&AlertEvent { phase: Phase::Cleared, id: "3.0".into(), ..killed });
    assert_eq!(room.told(), ["The emergency stop was cleared: agents can work again"]);
}

#[test]
fn ks_2_presses_that_are_told_again_after_a_crash_are_the_same() {
    let mut room = Room::plain();
    let pressed = |epoch: u64| AlertEvent {
        id: format!("kill-{epoch}").into(),
        agent: None,
        ..event(AlertType::SystemKill, "x", 0)
    };
    room.tell(&pressed(2));
    room.tell(&pressed(3));
    assert_eq!(room.told(), ["EMERGENCY STOP: everything is stopped (manual)"]);
    for epoch in [2, 3, 2, 3] {
        room.tell(&pressed(epoch));
    }
    room.pass(15 * MINUTE);
    let last = &room.out.last().unwrap().1;
    let text = format!("{:?}", last.facts);
    assert!(text.contains("it happened 1 more time\""), "{text}");
}

#[test]
fn ks_2_the_whole_button_is_told_though_a_channel_was_shut_before() {
    let mut room = Room::plain();
    let all = AlertEvent { agent: None, ..event(AlertType::SystemKill, "x", 1) };
    let llm = AlertEvent { id: "2.0".into(), detail: Detail::Shut("llm".to_owned()), ..all.clone() };
    room.tell(&llm);
    room.tell(&all);
    assert_eq!(
        room.told(),
        ["EMERGENCY STOP of llm (manual)", "EMERGENCY STOP: everything is stopped (manual)"]
    );
    room.tell(&AlertEvent { phase: Phase::Cleared, id: "3.0".into(), ..all });
    assert_eq!(room.told().len(), 2, "both are over");
}

#[test]
fn ks_2_what_stays_shut_is_named_and_reminded_of() {
    let mut room = Room::plain();
    let all = AlertEvent { agent: None, ..event(AlertType::SystemKill, "x", 1) };
    let shut = || Detail::Shut("llm".to_owned());
    room.tell(&all);
    room.told();
    let lifted = AlertEvent { phase: Phase::Cleared, id: "clear-3".into(), detail: shut(), ..all.clone() };
    room.tell(&lifted);
    assert_eq!(room.told(), ["The emergency stop was cleared, but not for llm"]);
    room.tell(&lifted);
    assert_eq!(room.count(), 0, "told again at a start, it is the same");
    room.restart();
    room.pass(15 * MINUTE);
    assert_eq!(room.told(), ["Ongoing: EMERGENCY STOP of llm (manual)"]);
    room.tell(&AlertEvent { phase: Phase::Cleared, id: "clear-4".into(), ..all.clone() });
    assert_eq!(room.told(), ["The emergency stop was cleared: agents can work again"]);
    room.pass(60 * MINUTE);
    assert_eq!(room.count(), 0);

    let quiet = Rule { recovery: false, ..Rule::default() };
    let mut room = Room::new(&[("quiet", quiet)], &[("ops", ChannelScope::All)]);
    room.tell(&all);
    room.told();
    room.tell(&lifted);
    room.pass(MINUTE);
    assert_eq!(room.told(), ["EMERGENCY STOP of llm (manual)"], "who hears of no end hears what is so");
}

#[test]
fn ks_2_the_same_channel_pressed_twice_is_counted_and_not_lifted() {
    let mut room = Room::plain();
    let llm = |epoch: u64| AlertEvent {
        id: format!("kill-{epoch}").into(),
        agent: None,
        detail: Detail::Shut("llm".to_owned()),
        ..event(AlertType::SystemKill, "x", 0)
    };
    room.tell(&llm(2));
    room.tell(&llm(3));
    assert_eq!(room.told(), ["EMERGENCY STOP of llm (manual)"]);
}

#[test]
fn al_1_up_to_where_all_was_told_is_said_by_nobody_else() {
    let mut room = Room::plain();
    room.router.told_up_to(9);
    // The red button goes before everything else: record 10 may still wait.
    room.tell(&AlertEvent { agent: None, ..event(AlertType::SystemKill, "x", 12) });
    room.restart();
    assert_eq!(room.router.cursor(), 9);
    room.tell(&looped("coder", 10));
    room.router.told_up_to(12);
    room.take();
    room.restart();
    assert_eq!(room.router.cursor(), 12);
}

#[test]
fn al_1_an_agent_that_no_longer_fails_is_still_switched_off() {
    let mut room = Room::plain();
    room.tell(&looped("coder", 1));
    room.tell(&event(AlertType::ErrorRate, "coder", 2));
    assert_eq!(room.told().len(), 2);
    room.tell(&cleared(AlertType::ErrorRate, "coder", 3));
    assert_eq!(room.told(), ["Agent coder is no longer failing"]);
    room.tell(&cleared(AlertType::KillSwitch, "coder", 4));
    assert_eq!(room.told(), ["Agent coder was reactivated by anna"]);
}

#[test]
fn al_1_ten_thousand_trips_in_a_minute_are_a_handful_of_messages() {
    let mut room = Room::plain();
    for n in 0..10_000 {
        room.tell(&looped(&format!("agent-{n}"), n + 1));
        if n % 100 == 0 {
            room.pass(590);
        }
    }
    let mut killed = event(AlertType::SystemKill, "x", 20_000);
    killed.agent = None;
    room.tell(&killed);
    let first = room.told();
    assert_eq!(
        first.len(),
        STORM_AFTER as usize + 1,
        "the first go out at once, and the red button always does"
    );
    assert_eq!(first[0], "Agent agent-0 was stopped: stuck in a loop");
    room.pass(2 * MINUTE);
    let digest = std::mem::take(&mut room.out);
    assert_eq!(digest.len(), 1);
    let digest = &digest[0].1;
    assert_eq!(
        (digest.kind, digest.title.as_str()),
        (MessageKind::Digest, "9981 more alerts within a minute")
    );
    assert_eq!(digest.facts[0].text, "9980 kill_switch, 1 system_kill");
    assert_eq!(digest.facts[1].text, "Agent agent-20 was stopped: stuck in a loop");
}

#[test]
fn st_3_what_is_remembered_has_an_end() {
    let mut room = Room::plain();
    for n in 0..25_000 {
        room.tell(&AlertEvent {
            at: NIGHT + i64::try_from(n).unwrap(),
            ..looped(&format!("agent-{n}"), n + 1)
        });
    }
    room.pass(2 * MINUTE);
    let told = room.memory.keys().filter(|name| name.starts_with("told/")).count();
    assert_eq!(told, 20_000);
    room.told();
    room.tell(&cleared(AlertType::KillSwitch, "agent-0", 30_000));
    assert_eq!(room.count(), 0, "the oldest are forgotten");
    room.tell(&AlertEvent { at: NIGHT + 30_000, ..cleared(AlertType::KillSwitch, "agent-24999", 30_001) });
    assert_eq!(room.told(), ["Agent agent-24999 was reactivated by anna"]);
}

#[test]
fn al_1_a_storm_is_counted_over_a_restart() {
    let mut room = Room::plain();
    for n in 0..30 {
        room.tell(&looped(&format!("agent-{n}"), n + 1));
    }
    assert_eq!(room.count(), 20);
    room.restart();
    room.tell(&looped("agent-30", 31));
    room.pass(MINUTE);
    assert_eq!(room.told(), ["11 more alerts within a minute"]);
    room.tell(&looped("agent-31", 32));
    assert_eq!(room.count(), 1, "and then it is as before");
}

#[test]
fn al_1_state_survives_a_restart() {
    let mut room = Room::plain();
    room.tell(&looped("coder", 1));
    room.told();
    room.restart();
    room.tell(&looped("coder", 2));
    assert_eq!(room.count(), 0, "the interval goes on");
    room.restart();
    room.tell(&cleared(AlertType::KillSwitch, "coder", 3));
    assert_eq!(room.told(), ["Agent coder was reactivated by anna"]);
    assert!(room.memory.keys().all(|name| !name.starts_with("told/")), "what is over is forgotten");
}

#[test]
fn al_2_github_hears_of_escalations_alone_and_of_each_once() {
    let mut room = Room::new(&[], &[("gh", ChannelScope::Escalations), ("ops", ChannelScope::All)]);
    room.tell(&looped("coder", 1));
    room.tell(&escalated("coder", 2));
    room.pass(24 * 60 * MINUTE);
    let github: Vec<&Message> =
        room.out.iter().filter(|(channel, _)| &**channel == "gh").map(|(_, message)| message).collect();
    assert_eq!(github.len(), 1, "no reminders there");
    assert_eq!(github[0].escalation.as_ref().unwrap().id, "coder-2".into());
    assert!(room.out.iter().filter(|(channel, _)| &**channel == "ops").count() > 2);
}

#[test]
fn al_3_it_is_known_whether_anybody_would_be_told() {
    let is_told = |rules: &[(&str, Rule)], channels: &[(&str, ChannelScope)]| {
        Room::new(rules, channels).book.is_told_of(AlertType::KillSwitch, "coder")
    };
    assert!(!is_told(&[], &[]), "no channel");
    assert!(!is_told(&[], &[("gh", ChannelScope::Escalations)]), "a channel that does not hear of kills");
    assert!(is_told(&[], &[("ops", ChannelScope::All)]));
    let other = Rule { agents: vec!["tester".into()], ..Rule::default() };
    assert!(!is_told(&[("r", other)], &[("ops", ChannelScope::All)]), "a rule for another agent");
    let money = Rule { types: vec![AlertType::Budget], ..Rule::default() };
    assert!(!is_told(&[("r", money)], &[("ops", ChannelScope::All)]), "a rule for another type");
}

#[test]
fn ks_2_a_rule_for_single_agents_tells_nobody_of_the_red_button() {
    let coder = Rule { agents: vec!["coder".into()], ..Rule::default() };
    let book = Room::new(&[("r", coder)], &[("ops", ChannelScope::All)]).book;
    assert!(!book.is_told_of_any(AlertType::SystemKill));
    assert!(book.is_told_of_any(AlertType::KillSwitch), "but of that agent's stops");
    assert!(Room::plain().book.is_told_of_any(AlertType::SystemKill));
}

#[test]
fn al_1_wrong_rules_are_refused_with_a_reason() {
    let wrong = [
        ("{\"repeat_every_s\": 5}", "between 60 and"),
        ("{\"reminders\": 1000}", "between 0 and 100"),
        ("{\"budget_percent\": [0]}", "between 1 and 100"),
        ("{\"typs\": []}", "unknown field"),
        ("{\"types\": [\"kill\"]}", "unknown variant"),
        ("[", "cannot be read"),
    ];
    for (json, reason) in wrong {
        let error = Rule::parse(json).unwrap_err().to_string();
        assert!(error.contains(reason), "{json}: {error}");
    }
    let named = BTreeMap::from([("r".into(), Rule { channels: vec!["nowhere".into()], ..Rule::default() })]);
    assert_eq!(RuleBook::new(named, BTreeMap::new()), Err(RuleError::UnknownChannel("nowhere".into())));
    assert_eq!(Rule::parse("{}"), Ok(Rule::default()));
}

#[test]
fn al_1_rules_of_the_api_lie_over_those_of_the_file() {
    let channels = [("ops", house::webhook("https://ops.example.com/"))];
    let mut settings = house::settings(channels);
    settings.rules.insert("file".into(), Rule::default());
    settings.rules.insert("off".into(), Rule::default());
    let stored = |id: &str, rule: &str, enabled| AlertRule {
        id: id.into(),
        rule: rule.to_owned(),
        enabled,
        version: 1,
        updated_at: 0,
    };
    let all = [
        stored("file", "{\"reminders\": 1}", true),
        stored("off", "{}", false),
        stored("new", "{\"channels\": [\"ops\", \"gone\"]}", true),
        stored("gone", "{\"channels\": [\"gone\"]}", true),
        stored("broken", "{\"x\": 1}", true),
    ];
    let (settings, problems) = settings.with_stored(&all);
    let names: Vec<&str> = settings.rules.keys().map(|name| &**name).collect();
    assert_eq!(names, ["file", "new"]);
    assert_eq!((settings.rules["file"].reminders, settings.rules["new"].channels.len()), (1, 1));
    let wrong: Vec<&str> = problems.iter().map(|(id, _)| &**id).collect();
    assert_eq!(wrong, ["gone", "broken"], "no channel is left to the one, the other cannot be read");
}
