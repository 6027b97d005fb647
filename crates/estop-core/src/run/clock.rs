//! A run's clock (CB-5, CB-6, ID-7): time limits, the time to sum up, the end of an idle implicit run.

use super::{IMPLICIT_IDLE_MS, LimitUse, Run, RunState, WRAP_UP_MS, granted};
use crate::policy::{EffectiveLimits, LimitName, Limits, Mode, Modes};
use crate::time::Millis;

/// What a run's clock brought about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunDue {
    Tripped(LimitUse),
    WouldTrip,
    Escalated(LimitUse),
    Closed,
}

impl Run {
    /// The next moment its clock does something.
    pub(crate) fn next_due(&self, limits: &Limits, modes: &Modes) -> Option<Millis> {
        let close = self.name.is_none().then(|| self.last_activity.plus(IMPLICIT_IDLE_MS));
        if !matches!(self.state, RunState::Active | RunState::Sleeping) {
            return close;
        }
        let timer = match &self.trip {
            Some(trip) => (!trip.over).then(|| trip.at.plus(WRAP_UP_MS)),
            None => match self.mode_of(self.clock_limit(), limits, modes) {
                Mode::Off => None,
                Mode::Shadow if self.is_shadow_trip_reported(self.clock_limit()) => None,
                Mode::Shadow | Mode::Enforce => self.limit_due(&self.caps(limits)),
            },
        };
        [close, timer].into_iter().flatten().min()
    }

    fn limit_due(&self, limits: &EffectiveLimits) -> Option<Millis> {
        let ms = |limit| granted(limit, self.allowances()).map(|s| u64::from(s) * 1000);
        match self.state {
            RunState::Active => {
                Some(self.since.plus(ms(limits.max_active_duration)?.saturating_sub(self.active_ms)))
            }
            // An implicit run closes long before.
            RunState::Sleeping if self.name.is_some() => {
                Some(self.since.plus(ms(limits.max_sleep_duration)?))
            }
            RunState::Sleeping | RunState::Completed | RunState::Escalated => None,
        }
    }

    /// Does what is due at `now`; call until it says `None`.
    pub(crate) fn elapse(&mut self, now: Millis, limits: &Limits, modes: &Modes) -> Option<RunDue> {
        if self.name.is_none() && now >= self.last_activity.plus(IMPLICIT_IDLE_MS) {
            return Some(RunDue::Closed);
        }
        if self.next_due(limits, modes).is_none_or(|due| now < due) {
            return None;
        }
        if self.trip.is_some() {
            return self.end_wrap_up(now).map(RunDue::Escalated);
        }
        self.time_is_up(now, limits, modes)
    }

    /// The time or the requests to sum up are used up (CB-6).
    pub(crate) fn end_wrap_up(&mut self, now: Millis) -> Option<LimitUse> {
        let trip = self.trip.as_mut().filter(|trip| !trip.over)?;
        trip.over = true;
        let used = trip.used;
        // An implicit run is refused, never escalated for good (ID-7).
        if self.name.is_some() {
            self.enter(RunState::Escalated, now);
        }
        Some(used)
    }

    fn time_is_up(&mut self, now: Millis, limits: &Limits, modes: &Modes) -> Option<RunDue> {
        let caps = self.caps(limits);
        let (limit, max) = match self.state {
            RunState::Active => {
                (LimitName::ActiveDuration, granted(caps.max_active_duration, self.allowances())?)
            }
            RunState::Sleeping => {
                (LimitName::SleepDuration, granted(caps.max_sleep_duration, self.allowances())?)
            }
            RunState::Completed | RunState::Escalated => return None,
        };
        if self.mode_of(limit, limits, modes) != Mode::Enforce {
            self.report_shadow_trip(limit);
            return Some(RunDue::WouldTrip);
        }
        let used_ms =
            if self.state == RunState::Active { self.active_ms(now) } else { now.since(self.since) };
        let current = u32::try_from(used_ms / 1000).unwrap_or(u32::MAX);
        let used = LimitUse { limit, current, max };
        self.trip(used, now);
        if limit == LimitName::SleepDuration {
            // Nobody is awake to sum up.
            self.enter(RunState::Escalated, now);
            return Some(RunDue::Escalated(used));
        }
        Some(RunDue::Tripped(used))
    }

    /// estop was away: that time was neither active nor meant for summing up. Sleep goes on by itself.
    pub(crate) fn was_away(&mut self, away_ms: u64) {
        if self.state == RunState::Active {
            self.since = self.since.plus(away_ms);
        }
        if let Some(trip) = &mut self.trip {
            trip.at = trip.at.plus(away_ms);
        }
    }

    /// The limit its clock runs against in its state.
    fn clock_limit(&self) -> LimitName {
        if self.state == RunState::Sleeping { LimitName::SleepDuration } else { LimitName::ActiveDuration }
    }
}
