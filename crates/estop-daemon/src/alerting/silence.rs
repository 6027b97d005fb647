//! Things that become true because nothing happens: an agent that no longer calls, a stop that nobody tries out. Pure:
//! time comes as an argument.

use std::collections::BTreeMap;

use estop_core::ids::Name;
use estop_core::system::proof_test::ProofTests;
use estop_notify::{AlertEvent, AlertType, Cost, Detail, Phase};

const DAY_MS: i64 = 86_400_000;

/// What is seen of an agent that should call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// It is down after so many milliseconds of silence.
    pub(super) after_ms: i64,
    /// When it last called; 0 = never.
    pub(super) last: i64,
    /// Nobody switched it off or paused it, and the system runs: it could call.
    pub(super) may_call: bool,
}

/// Who was heard of, and what was told.
pub(super) struct Silences {
    /// Nobody could call before.
    began: i64,
    agents: BTreeMap<Name, Known>,
}

#[derive(Default)]
struct Known {
    /// Silence counts from here on.
    from: i64,
    down: Option<bool>,
}

impl Silences {
    /// Begins to listen.
    pub(super) fn new(began: i64) -> Silences {
        Silences { began, agents: BTreeMap::new() }
    }

    /// Agents that are not listened for any more are forgotten.
    pub(super) fn keep(&mut self, is_meant: impl Fn(&str) -> bool) {
        self.agents.retain(|agent, _| is_meant(agent));
    }

    /// What there is to tell of an agent.
    pub(super) fn judge(&mut self, now: i64, agent: &Name, seen: Seen) -> Option<AlertEvent> {
        let began = self.began;
        let known = self.agents.entry(agent.clone()).or_insert_with(|| Known { from: now, down: None });
        if !seen.may_call {
            // Whoever may not call is not missed, and gets all of the time once it may.
            known.from = now;
            return None;
        }
        let silent_ms = now - seen.last.max(known.from);
        let down = if silent_ms >= seen.after_ms {
            true
        } else if seen.last > 0 && seen.last >= began && now - seen.last < seen.after_ms {
            false
        } else {
            return None;
        };
        if known.down.replace(down) == Some(down) {
            return None;
        }
        let plain = plain(AlertType::AgentDown, format!("down-{}", seen.last), now);
        let agent = Some(agent.clone());
        if !down {
            return Some(AlertEvent {
                phase: Phase::Cleared,
                id: format!("up-{}", seen.last).into(),
                agent,
                ..plain
            });
        }
        let asked = minutes(seen.after_ms);
        let evidence = if seen.last == 0 {
            format!("It never called; it should call at least every {asked}.")
        } else {
            format!("It last called {} ago; it should call at least every {asked}.", minutes(now - seen.last))
        };
        Some(AlertEvent { agent, evidence, ..plain })
    }
}

/// What there is to tell of proof tests: that one is overdue. That one failed or passed is told by its record. One that was
/// never done is due so many days after the first record.
pub(super) fn prooftest(tests: &ProofTests, first_record: i64, now: i64) -> Option<AlertEvent> {
    let days = tests.every_days?;
    let (since, cause) = match &tests.last {
        Some(last) if !last.passed() => return None,
        Some(last) => (last.at, "the last one was too long ago"),
        None => (first_record, "it has never been tested"),
    };
    let ago = now.saturating_sub(since) / DAY_MS;
    if now.saturating_sub(since) <= i64::from(days).saturating_mul(DAY_MS) {
        return None;
    }
    let evidence = match tests.last {
        Some(_) => format!("The last proof test was {ago} days ago; there should be one every {days} days."),
        None => format!("There was none in {ago} days; there should be one every {days} days."),
    };
    let plain = plain(AlertType::ProoftestOverdue, format!("prooftest-{since}"), now);
    Some(AlertEvent { cause: cause.to_owned(), evidence, ..plain })
}

fn plain(alert: AlertType, id: String, at: i64) -> AlertEvent {
    AlertEvent {
        id: id.into(),
        seq: 0,
        at,
        alert,
        phase: Phase::Raised,
        agent: None,
        run: None,
        cause: String::new(),
        evidence: String::new(),
        by: None,
        incident: None,
        cost: Cost::default(),
        detail: Detail::None,
    }
}

/// A span as people say it.
fn minutes(ms: i64) -> String {
    let minutes = (ms + 30_000) / 60_000;
    match minutes {
        1 => "minute".to_owned(),
        2..120 => format!("{minutes} minutes"),
        _ => format!("{} hours", (minutes + 30) / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use estop_core::system::proof_test::{ProofStep, ProofTest};

    const MINUTE: i64 = 60_000;

    fn phase(told: Option<AlertEvent>) -> Option<Phase> {
        told.map(|told| told.phase)
    }

    #[test]
    fn al_1_an_agent_that_no_longer_calls_is_told_once_and_so_is_its_return() {
        let mut silences = Silences::new(0);
        let coder = Name::from("coder");
        let seen = |last| Seen { after_ms: 15 * MINUTE, last, may_call: true };
        assert_eq!(phase(silences.judge(1, &coder, seen(0))), None, "it has its time from the start on");
        assert_eq!(phase(silences.judge(14 * MINUTE, &coder, seen(0))), None);
        let down = silences.judge(16 * MINUTE, &coder, seen(0)).expect("it is down");
        assert_eq!(down.evidence, "It never called; it should call at least every 15 minutes.");
        assert_eq!(phase(silences.judge(17 * MINUTE, &coder, seen(0))), None, "it is told once");
        assert_eq!(phase(silences.judge(18 * MINUTE, &coder, seen(18 * MINUTE))), Some(Phase::Cleared));
        assert_eq!(phase(silences.judge(19 * MINUTE, &coder, seen(18 * MINUTE))), None);
        let down = silences.judge(33 * MINUTE, &coder, seen(18 * MINUTE)).expect("it is down");
        assert_eq!(
            (&*down.id, &*down.evidence),
            ("down-1080000", "It last called 15 minutes ago; it should call at least every 15 minutes.")
        );
    }

    #[test]
    fn al_1_an_agent_that_is_switched_off_is_not_down() {
        let mut silences = Silences::new(0);
        let coder = Name::from("coder");
        let seen = |may_call| Seen { after_ms: 15 * MINUTE, last: 1, may_call };
        for minute in 0..60 {
            assert_eq!(phase(silences.judge(minute * MINUTE, &coder, seen(false))), None);
        }
        assert_eq!(phase(silences.judge(73 * MINUTE, &coder, seen(true))), None);
        assert_eq!(phase(silences.judge(74 * MINUTE, &coder, seen(true))), Some(Phase::Raised));
    }

    #[test]
    fn al_1_a_restart_gives_everybody_time_and_knows_what_was_told() {
        let coder = Name::from("coder");
        let seen = |last| Seen { after_ms: 15 * MINUTE, last, may_call: true };
        let mut after = Silences::new(100 * MINUTE);
        assert_eq!(
            phase(after.judge(101 * MINUTE, &coder, seen(MINUTE))),
            None,
            "estop was away, not the agent"
        );
        let down = after.judge(116 * MINUTE, &coder, seen(MINUTE)).expect("it is down");
        assert_eq!(&*down.id, "down-60000", "whoever heard of it hears nothing new");
        let mut after = Silences::new(100 * MINUTE);
        assert_eq!(phase(after.judge(102 * MINUTE, &coder, seen(101 * MINUTE))), Some(Phase::Cleared));
    }

    #[test]
    fn ks_5_a_stop_that_nobody_tries_is_told() {
        let step = |passed| ProofStep { name: "gate".into(), passed, took_us: 1, what: String::new() };
        let at = |at, passed| ProofTest { at, by: "ann".into(), took_us: 1, steps: vec![step(passed)] };
        let every = |last| ProofTests { last, every_days: Some(30) };
        assert_eq!(prooftest(&every(None), 0, 30 * DAY_MS), None, "a new one has its time");
        let told = prooftest(&every(None), 0, 31 * DAY_MS).expect("it is overdue");
        assert_eq!(told.cause, "it has never been tested");
        assert_eq!(prooftest(&every(Some(at(DAY_MS, true))), 0, 31 * DAY_MS), None);
        let told = prooftest(&every(Some(at(DAY_MS, true))), 0, 40 * DAY_MS).expect("it is overdue");
        assert_eq!(told.evidence, "The last proof test was 39 days ago; there should be one every 30 days.");
        assert_eq!(prooftest(&every(Some(at(0, false))), 0, 40 * DAY_MS), None, "its record says so");
        assert_eq!(prooftest(&ProofTests::default(), 0, 40 * DAY_MS), None, "nobody wants to be told");
    }
}
