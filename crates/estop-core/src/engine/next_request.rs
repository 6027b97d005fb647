//! What the agent's next request would get (EV-2), without asking for it: the guards whose answer is known beforehand,
//! in their order. The request is taken to be like the latest one: in its run, and asking for as much.

use super::AgentState;
use crate::agent::status::{AgentStatus, StatusKind};
use crate::budget::{BudgetCap, BudgetFinding, Fit, Need, RunSpend};
use crate::guard::Guard;
use crate::guards::{hours, rate};
use crate::judgement::Level;
use crate::policy::{AllowedHours, BudgetPolicy, Mode, Policy};
use crate::printed_command::Commands;
use crate::run::{IMPLICIT_IDLE_MS, Run, RunAction, RunState};
use crate::system::GateView;
use crate::time::{Now, Zone, date};

const MINUTE_MS: i64 = 60_000;

/// What the answer depends on, beside the agent's own state.
#[derive(Clone, Copy, Debug)]
pub struct StatusQuery<'a> {
    /// The agent's name, for commands.
    pub agent: &'a str,
    /// What time it is.
    pub now: Now,
    /// The gate.
    pub gate: GateView,
    /// How the account of all agents together stands, with [`AgentState::last_asked`] asked of it.
    pub fleet: Option<BudgetFinding>,
    /// The agent's rules.
    pub policy: &'a Policy,
    /// Makes the commands that are named.
    pub commands: &'a Commands,
}

impl AgentState {
    /// What its next request would get.
    pub fn status(&self, asked: &StatusQuery<'_>) -> AgentStatus {
        let &StatusQuery { agent, now, gate, policy, commands, .. } = asked;
        let policy = &*self.snoozes.over(policy);
        let now = Now { mono: self.now.max(now.mono), wall: now.wall };
        AgentStatus::of_gate(gate, commands)
            .or_else(|| AgentStatus::of_standing(agent, self.standing, commands))
            .or_else(|| self.run_status(agent, now, commands))
            .or_else(|| hours_status(policy, now.wall))
            .or_else(|| self.rate_status(now, policy))
            .or_else(|| self.budget_status(asked, now, policy))
            .or_else(|| self.cooldown_status(now, policy))
            .unwrap_or_else(AgentStatus::active)
    }

    /// What its latest request asked for, whether it got it or not.
    pub fn last_asked(&self) -> Need {
        self.last_asked
    }

    /// The run the agent is in: the one that was asked for last.
    fn latest_run(&self, now: Now) -> Option<&Run> {
        let is_closed =
            |run: &Run| run.name.is_none() && now.mono >= run.last_activity.plus(IMPLICIT_IDLE_MS);
        self.runs.iter().filter(|run| !is_closed(run)).max_by_key(|run| (run.last_activity, run.serial))
    }

    fn run_status(&self, name: &str, now: Now, commands: &Commands) -> Option<AgentStatus> {
        let run = self.latest_run(now)?;
        // A completed run is over because somebody said so; the next one begins by itself or by its own name.
        let used = run.tripped().filter(|_| run.state() != RunState::Completed)?;
        let judgement = run.judge(RunAction::ModelCall);
        let which = match &run.name {
            Some(run) => format!("Its run {run}"),
            None => "Its run without a name".to_owned(),
        };
        let reached = format!("{which} reached {} ({}/{}).", used.limit.text(), used.current, used.max);
        let extend = commands.extend(name, run.name.as_deref());
        if judgement.level != Level::Stop {
            let left = judgement.seen.requests_left.unwrap_or_default();
            let sentence =
                format!("{reached} It may send {left} more requests to sum up. To let it go on: {extend}.");
            return Some(AgentStatus::new(StatusKind::AtRunLimit, "at run limit", sentence));
        }
        if run.name.is_some() {
            let sentence = format!("{reached} A fresh run starts anew. To let this one go on: {extend}.");
            return Some(AgentStatus::new(StatusKind::AtRunLimit, "at run limit", sentence));
        }
        let idle =
            format!("It may work again after {} minutes without a request.", IMPLICIT_IDLE_MS / 60_000);
        let sentence = format!("{reached} {idle} To let it go on now: {extend}.");
        let left = run.last_activity.plus(IMPLICIT_IDLE_MS).since(now.mono);
        let status = AgentStatus::new(StatusKind::AtRunLimit, "at run limit", sentence);
        Some(status.until(later(now.wall, left)))
    }

    fn rate_status(&self, now: Now, policy: &Policy) -> Option<AgentStatus> {
        let limit = &policy.rate;
        let is_limited = limit.requests_per_minute.is_some() || limit.tokens_per_minute.is_some();
        if !is_limited || policy.modes[Guard::Rate] != Mode::Enforce {
            return None;
        }
        if now.mono.since(self.now) >= MINUTE_MS.unsigned_abs() {
            // Nothing of the last minute is left.
            return None;
        }
        let mut minute = self.minute.clone();
        minute.expire(now.mono);
        let judgement = rate::judge(&minute, now.mono, limit, 0, self.in_flight.len() as u32);
        let finding = judgement.seen.filter(|_| judgement.level == Level::Stop)?;
        let status = AgentStatus::new(StatusKind::RateLimited, "rate limited", finding.to_string());
        Some(status.until(later(now.wall, finding.free_in_ms)))
    }

    fn budget_status(&self, asked: &StatusQuery<'_>, now: Now, policy: &Policy) -> Option<AgentStatus> {
        if policy.modes[Guard::Budget] != Mode::Enforce {
            return None;
        }
        // The day may have turned since the last event.
        let mut account = self.budget.clone();
        account.turn(now, &policy.budget);
        let run = self.latest_run(now).filter(|run| !run.is_over());
        let spend = run.map_or_else(RunSpend::default, |run| RunSpend {
            spent: run.spent.amount,
            reserved: self.in_flight.held_by_run(run.serial),
        });
        let own = account.tightest(self.last_asked, spend, &policy.budget);
        let finding = [own, asked.fleet].into_iter().flatten().find(BudgetFinding::is_over)?;
        let stands = finding.to_string().replace("this request", "a request like its last one");
        if finding.fit == Fit::Waits {
            let sentence = format!("{stands} It fits when requests in progress have ended.");
            return Some(AgentStatus::new(StatusKind::BudgetSpent, "budget reserved", sentence));
        }
        if let Some(day) =
            account.latest_day_ahead(now, &policy.budget).filter(|_| finding.account.has_period())
        {
            let renew = asked.commands.renew_budget(asked.agent);
            let sentence = format!(
                "{stands} The clock once showed {}, and what was spent until then counts in the present period. To begin \
                 the present period: {renew}.",
                date(day)
            );
            return Some(AgentStatus::new(StatusKind::BudgetSpent, "budget spent", sentence));
        }
        let (label, until) = match next_period(&policy.budget, finding.account, now.wall) {
            Some((period, until)) => (format!("budget spent until {period}"), Some(until)),
            None => ("budget spent".to_owned(), None),
        };
        let sentence = format!("{stands} Raise the budget, or wait for its next period.");
        Some(AgentStatus { until, ..AgentStatus::new(StatusKind::BudgetSpent, label, sentence) })
    }

    fn cooldown_status(&self, now: Now, policy: &Policy) -> Option<AgentStatus> {
        let left = self.gate.cooldown_left(now.mono);
        if policy.modes[Guard::Gate] != Mode::Enforce || left == 0 {
            return None;
        }
        let sentence =
            format!("The safety gate vetoed: requests are refused for another {} s.", left.div_ceil(1000));
        let status = AgentStatus::new(StatusKind::CoolingDown, "cooling down", sentence);
        Some(status.until(later(now.wall, left)))
    }
}

/// What the allowed hours of a policy do to a request at this moment; `None` = they let it pass.
pub fn hours_status(policy: &Policy, wall: i64) -> Option<AgentStatus> {
    let hours = policy.hours.as_ref().filter(|_| policy.modes[Guard::Hours] == Mode::Enforce)?;
    let judgement = hours::judge(Some(hours), wall);
    let finding = judgement.seen.filter(|_| judgement.level == Level::Stop)?;
    if hours.days == 0 {
        return Some(AgentStatus::new(StatusKind::OutsideHours, "outside hours", finding.to_string()));
    }
    let until = opens_at(hours, wall, finding.opens_in_minutes);
    let when = clock(&hours.zone, wall, until);
    let label = format!("outside hours until {when}");
    let sentence = format!("Outside its allowed hours until {when} ({}).", hours.zone.name);
    Some(AgentStatus::new(StatusKind::OutsideHours, label, sentence).until(until))
}

/// The moment the hours begin; summer time may begin or end before.
fn opens_at(hours: &AllowedHours, wall: i64, in_minutes: u32) -> i64 {
    let whole = wall.saturating_sub(wall.rem_euclid(MINUTE_MS));
    let guess = whole.saturating_add(i64::from(in_minutes) * MINUTE_MS);
    shifted(guess, i64::from(hours.zone.local(guess).minute) - i64::from(hours.from_minute))
}

/// Takes away what an offset that changed in between added to the clock.
fn shifted(guess: i64, late_minutes: i64) -> i64 {
    const DAY: i64 = 1440;
    let late = (late_minutes + DAY / 2).rem_euclid(DAY) - DAY / 2;
    guess.saturating_sub(late * MINUTE_MS)
}

/// `08:00`, with the weekday if that is not today.
fn clock(zone: &Zone, now: i64, at: i64) -> String {
    const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    let (today, then) = (zone.local(now), zone.local(at));
    let time = format!("{:02}:{:02}", then.minute / 60, then.minute % 60);
    if today.day == then.day { time } else { format!("{} {time}", DAYS[usize::from(then.weekday) % 7]) }
}

/// When an account begins anew, and how that is called; `None` = it does not.
fn next_period(policy: &BudgetPolicy, account: BudgetCap, wall: i64) -> Option<(&'static str, i64)> {
    match account {
        BudgetCap::UsdPerDay | BudgetCap::TokensPerDay => {
            Some(("midnight", midnight(&policy.zone, wall, |then, now| then.day != now.day)))
        }
        BudgetCap::UsdPerMonth | BudgetCap::TokensPerMonth => {
            Some(("next month", midnight(&policy.zone, wall, |then, now| then.month != now.month)))
        }
        // The zone of the fleet's account is not this agent's; a run has no period.
        BudgetCap::FleetUsdPerDay
        | BudgetCap::FleetTokensPerDay
        | BudgetCap::FleetUsdPerMonth
        | BudgetCap::FleetTokensPerMonth
        | BudgetCap::UsdPerRun
        | BudgetCap::TokensPerRun
        | BudgetCap::Unpriced
        | BudgetCap::UnpricedPath => None,
    }
}

/// The first midnight after which `is_next` holds.
fn midnight(zone: &Zone, wall: i64, is_next: impl Fn(crate::time::Local, crate::time::Local) -> bool) -> i64 {
    /// A month has at most 31.
    const DAYS_MAX: i64 = 31;
    let now = zone.local(wall);
    let whole = wall.saturating_sub(wall.rem_euclid(MINUTE_MS));
    let first = whole.saturating_add((1440 - i64::from(now.minute)) * MINUTE_MS);
    let mut at = first;
    for days in 0..DAYS_MAX {
        let guess = first.saturating_add(days * 1440 * MINUTE_MS);
        at = shifted(guess, i64::from(zone.local(guess).minute));
        if is_next(zone.local(at), now) {
            break;
        }
    }
    at
}

fn later(wall: i64, ms: u64) -> i64 {
    wall.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2024-03-30 20:00 in Berlin, five hours before summer time begins.
    const EVENING: i64 = 1_711_825_200_000;

    fn berlin() -> Zone {
        Zone { name: "Europe/Berlin".into(), offset_s: 3600, changes: vec![(1_711_846_800_000, 7200)] }
    }

    #[test]
    fn ev_2_hours_open_when_the_clock_on_the_wall_says_so_also_over_summer_time() {
        let hours = AllowedHours { days: 0x7f, from_minute: 480, to_minute: 1080, zone: berlin() };
        let policy = Policy { hours: Some(hours), ..Policy::default() };
        let status = hours_status(&policy, EVENING).expect("it is outside");
        assert_eq!(status.until, Some(1_711_864_800_000), "08:00 of summer time is 06:00 UTC");
        assert_eq!(status.label, "outside hours until Sun 08:00");
        assert_eq!(hours_status(&policy, 1_711_864_800_000), None);
    }

    #[test]
    fn ev_2_a_budget_begins_anew_at_midnight_of_its_zone() {
        let budget = BudgetPolicy { zone: berlin(), ..BudgetPolicy::default() };
        let next = |account| next_period(&budget, account, EVENING).map(|(_, at)| at);
        assert_eq!(next(BudgetCap::UsdPerDay), Some(1_711_839_600_000));
        assert_eq!(next(BudgetCap::TokensPerMonth), Some(1_711_922_400_000), "00:00 of summer time");
        assert_eq!(next(BudgetCap::UsdPerRun), None);
    }
}
