//! How many of an agent's requests fail: told when it becomes many, and when it no longer is (AL-1, `error_rate`).

use std::collections::BTreeMap;

use estop_core::ended::Ended;
use estop_core::event::{AbortedBy, EventKind};
use estop_core::ids::Name;
use estop_store::{EventFilter, EventKey, Journal, StoreError};
use serde_json::{Value, json};

use super::AgentRecord;

/// The window has so many minutes. Chosen: long enough for a handful of calls of a slow agent, short enough to matter.
const MINUTES: usize = 5;
/// Fewer finished requests prove nothing.
const FINISHED_MIN: u32 = 10;
const MINUTE_MS: i64 = 60_000;
/// The newest events that are looked through at a start.
const RECALLED_MAX: usize = 1000;
const BEGUN: &str = "error_rate";
const ENDED: &str = "error_rate_over";

/// What failed lately, of one agent.
#[derive(Default)]
pub(super) struct Window {
    /// Which minute, how many finished, how many of them failed.
    minutes: [(i64, u32, u32); MINUTES],
    /// The minute in which it was last seen that many fail. It holds for a window: what comes after that proves nothing of
    /// what comes now, and the next time is told anew.
    proven: Option<i64>,
    /// People heard that many fail, and not yet that it is over.
    heard: bool,
}

/// Those of whom people heard last that many of their requests fail: they want to hear the end of it.
pub(in crate::persistence) fn heard_failing(store: &dyn Journal) -> Result<Vec<Name>, StoreError> {
    let newest = |event_type: &str| -> Result<BTreeMap<Name, EventKey>, StoreError> {
        let filter = EventFilter { event_type: Some(event_type.into()), ..EventFilter::default() };
        let events = store.events(&filter, RECALLED_MAX)?.into_iter().rev();
        Ok(events.filter_map(|stored| Some((stored.event.agent?, stored.key))).collect())
    };
    let (begun, mut ended) = (newest(BEGUN)?, newest(ENDED)?);
    let lasting = begun.into_iter().filter(|(agent, key)| ended.remove(agent).is_none_or(|end| end < *key));
    Ok(lasting.map(|(agent, _)| agent).collect())
}

impl Window {
    /// People heard before this process that many fail.
    pub(super) fn heard() -> Window {
        Window { heard: true, ..Window::default() }
    }

    /// What a record says about it: an event for people, if it became many or no longer is.
    pub(super) fn note(&mut self, told: &AgentRecord<'_>) -> Option<(&'static str, Value)> {
        let failed = if let EventKind::ResponseCompleted(done) = &told.event.what {
            done.ended == Ended::Failed
        } else if let EventKind::StreamAborted(cut) = &told.event.what {
            (cut.by == AbortedBy::Upstream).then_some(true)?
        } else {
            let is_activated = matches!(told.event.what, EventKind::AgentActivated { .. });
            return if is_activated { self.activated() } else { None };
        };
        self.count(told.now.wall.div_euclid(MINUTE_MS), failed)
    }

    /// With an activation everything begins anew, also for the next process, which knows only the events.
    fn activated(&mut self) -> Option<(&'static str, Value)> {
        let was_heard = std::mem::take(self).heard;
        was_heard.then(|| (ENDED, json!({ "activated": true })))
    }

    fn count(&mut self, minute: i64, failed: bool) -> Option<(&'static str, Value)> {
        let place = &mut self.minutes[usize::try_from(minute.rem_euclid(MINUTES as i64)).unwrap_or(0)];
        if place.0 != minute {
            *place = (minute, 0, 0);
        }
        place.1 = place.1.saturating_add(1);
        place.2 = place.2.saturating_add(failed.into());
        let is_recent = |at: i64| (minute - MINUTES as i64 + 1..=minute).contains(&at);
        let recent = self.minutes.iter().filter(|(at, ..)| is_recent(*at));
        let (finished, failed) = recent.fold((0u32, 0u32), |sum, (_, all, bad)| {
            (sum.0.saturating_add(*all), sum.1.saturating_add(*bad))
        });
        if self.heard && self.proven.is_none() {
            // Heard before a restart: it has a window to show how it is.
            self.proven = Some(minute);
        }
        let is_proven = self.proven.is_some_and(|at| (at..at + MINUTES as i64).contains(&minute));
        let is_enough = finished >= FINISHED_MIN;
        let (is_half, is_little) =
            (failed.saturating_mul(2) >= finished, failed.saturating_mul(4) < finished);
        let detail = || json!({ "failed": failed, "finished": finished, "minutes": MINUTES });
        if is_enough && (is_half || is_proven && !is_little) {
            (self.proven, self.heard) = (Some(minute), true);
            return (!is_proven).then(|| (BEGUN, detail()));
        }
        // Few requests are enough for its end, once what was proven is a window ago.
        let is_over = is_little && (is_enough || !is_proven);
        if !is_over || !std::mem::take(&mut self.heard) {
            return None;
        }
        self.proven = None;
        Some((ENDED, detail()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(window: &mut Window, minute: i64, failed: bool, times: usize) -> Vec<&'static str> {
        (0..times).filter_map(|_| window.count(minute, failed)).map(|(said, _)| said).collect()
    }

    #[test]
    fn al_1_many_failures_are_told_once_and_so_is_their_end() {
        let mut window = Window::default();
        assert!(said(&mut window, 100, true, 9).is_empty(), "nine prove nothing");
        assert_eq!(said(&mut window, 100, true, 90), ["error_rate"]);
        assert!(said(&mut window, 103, false, 200).is_empty(), "a third still fails");
        assert_eq!(said(&mut window, 104, false, 200), ["error_rate_over"]);
        assert!(said(&mut window, 105, false, 100).is_empty());
        assert_eq!(said(&mut window, 200, true, 20), ["error_rate"], "what is old does not count");
    }

    #[test]
    fn al_1_nothing_is_said_of_a_healthy_agent_unless_people_heard_otherwise() {
        assert!(said(&mut Window::default(), 1, false, 50).is_empty());
        let mut recalled = Window::heard();
        assert_eq!(said(&mut recalled, 1, false, 50), ["error_rate_over"]);
    }

    #[test]
    fn al_1_half_is_many_and_less_than_a_quarter_is_not() {
        let mut window = Window::default();
        said(&mut window, 1, false, 5);
        assert!(said(&mut window, 1, true, 4).is_empty());
        assert_eq!(said(&mut window, 1, true, 1), ["error_rate"]);
        assert!(said(&mut window, 1, false, 10).is_empty(), "a quarter is not less than a quarter");
        assert_eq!(said(&mut window, 1, false, 1), ["error_rate_over"]);
    }

    #[test]
    fn al_1_a_slow_agent_recovers_and_its_next_burst_is_told() {
        let mut window = Window::default();
        assert_eq!(said(&mut window, 100, true, 10), ["error_rate"]);
        let later = |window: &mut Window, failed| -> Vec<(i64, &'static str)> {
            (101..130)
                .filter_map(|minute| window.count(minute, failed).map(|(said, _)| (minute, said)))
                .collect()
        };
        assert_eq!(
            later(&mut window, false),
            [(109, "error_rate_over")],
            "a window after half of them failed"
        );
        assert_eq!(said(&mut window, 200, true, 10), ["error_rate"]);

        let mut window = Window::default();
        assert_eq!(said(&mut window, 100, true, 10), ["error_rate"]);
        assert!(later(&mut window, true).is_empty(), "who still fails, however seldom, is not well");
        assert_eq!(said(&mut window, 300, true, 10), ["error_rate"], "and the next burst is told");
        assert!(said(&mut window, 302, true, 50).is_empty());
    }

    #[test]
    fn al_1_an_activation_ends_what_people_heard_of() {
        let mut window = Window::heard();
        assert_eq!(window.activated().map(|(said, _)| said), Some("error_rate_over"));
        assert!(window.activated().is_none() && Window::default().activated().is_none());
    }
}
