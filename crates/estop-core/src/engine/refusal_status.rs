//! The words for a request that is refused, and when that ends by itself: run limits, hours, budgets (EV-2).

use crate::agent::status::{AgentStatus, StatusKind};
use crate::budget::{BudgetCap, BudgetFinding, Fit};
use crate::guard::Guard;
use crate::guards::hours;
use crate::judgement::Level;
use crate::policy::{AllowedHours, Mode, Policy};
use crate::printed_command::Commands;
use crate::run::{IMPLICIT_IDLE_MS, RunFinding};
use crate::time::{Zone, date};

const MINUTE_MS: i64 = 60_000;

/// Its run reached a limit, and may only sum up.
pub(super) fn summing_up(
    agent: &str,
    run: Option<&str>,
    finding: &RunFinding,
    commands: &Commands,
) -> AgentStatus {
    let left = finding.requests_left.unwrap_or_default();
    let more = if left == 1 { "1 more request".to_owned() } else { format!("{left} more requests") };
    let (reached, extend) = (reached(run, finding), commands.extend(agent, run));
    let sentence = format!("{reached} It may send {more} to sum up. To let it go on: {extend}.");
    let status = AgentStatus::refused(StatusKind::AtRunLimit, "at run limit", sentence);
    AgentStatus { passes: true, guard: Some(Guard::Run), ..status }
}

/// Its run reached a limit, and is over.
pub(super) fn run_limit(
    agent: &str,
    run: Option<&str>,
    finding: &RunFinding,
    commands: &Commands,
) -> AgentStatus {
    let (reached, extend) = (reached(run, finding), commands.extend(agent, run));
    let sentence = if run.is_some() {
        format!("{reached} A fresh run starts anew. To let this one go on: {extend}.")
    } else {
        let minutes = IMPLICIT_IDLE_MS / 60_000;
        let idle = format!("It may work again after {minutes} minutes without a request.");
        format!("{reached} {idle} To let it go on now: {extend}.")
    };
    AgentStatus::refused(StatusKind::AtRunLimit, "at run limit", sentence)
}

fn reached(run: Option<&str>, finding: &RunFinding) -> String {
    let which = run.map_or_else(|| "Its run without a name".to_owned(), |run| format!("Its run {run}"));
    match &finding.tripped {
        Some(used) => format!("{which} reached {}.", used.reason()),
        None => format!("{which} is over."),
    }
}

/// When an account begins anew.
#[derive(Clone, Copy, Debug)]
pub(super) struct Period<'a> {
    /// The zone of its days.
    pub(super) zone: &'a Zone,
    /// The latest day it has seen, if the clock was ahead.
    pub(super) ahead: Option<i32>,
    /// The present moment.
    pub(super) wall: i64,
}

/// What a budget does to a request, and when it may fit.
pub(super) fn over_budget(
    agent: &str,
    finding: &BudgetFinding,
    period: Period<'_>,
    commands: &Commands,
) -> (AgentStatus, Option<i64>) {
    let stands = finding.to_string().replace("this request", "a request like its last one");
    let status = |label: &str, sentence| AgentStatus::refused(StatusKind::BudgetSpent, label, sentence);
    if matches!(finding.account, BudgetCap::Unpriced | BudgetCap::UnpricedPath) {
        return (status("no price", stands), None);
    }
    if finding.fit == Fit::Waits {
        let sentence = format!("{stands} It fits when requests in progress have ended.");
        return (status("budget reserved", sentence), None);
    }
    if let Some(day) = period.ahead.filter(|_| finding.account.has_period()) {
        let renew = commands.renew_budget(agent);
        let sentence = format!(
            "{stands} The clock once showed {}, and what was spent until then counts in the present period. To begin the \
             present period: {renew}.",
            date(day)
        );
        return (status("budget spent", sentence), None);
    }
    let next = next_period(period.zone, finding.account, period.wall);
    let label = match next {
        Some((when, _)) => format!("budget spent until {when}"),
        None => "budget spent".to_owned(),
    };
    let sentence = format!("{stands} Raise the budget, or wait for its next period.");
    (status(&label, sentence), next.map(|(_, at)| at))
}

/// The same of a request that no later period lets pass either.
pub(super) fn over_any_period(status: AgentStatus) -> AgentStatus {
    let stands = status.sentence.strip_suffix(" Raise the budget, or wait for its next period.");
    let sentence = format!(
        "{} The next period does not let it pass either: raise the budget.",
        stands.unwrap_or(&status.sentence)
    );
    AgentStatus { label: "request over budget".to_owned(), sentence, until: None, ..status }
}

/// What the allowed hours of a policy do to a request at this moment; `None` = they let it pass.
pub(super) fn hours_status(policy: &Policy, wall: i64) -> Option<AgentStatus> {
    let hours = policy.hours.as_ref().filter(|_| policy.modes[Guard::Hours] == Mode::Enforce)?;
    let judgement = hours::judge(Some(hours), wall);
    let finding = judgement.seen.filter(|_| judgement.level == Level::Stop)?;
    if hours.days == 0 {
        let refused = AgentStatus::refused(StatusKind::OutsideHours, "outside hours", finding.to_string());
        return Some(refused);
    }
    let until = opens_at(hours, wall, finding.opens_in_minutes);
    let when = clock(&hours.zone, wall, until);
    let label = format!("outside hours until {when}");
    let sentence = format!("Outside its allowed hours until {when} ({}).", hours.zone.name);
    let refused = AgentStatus::refused(StatusKind::OutsideHours, label, sentence);
    Some(AgentStatus { until: Some(until), ..refused })
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
fn next_period(zone: &Zone, account: BudgetCap, wall: i64) -> Option<(&'static str, i64)> {
    match account {
        BudgetCap::UsdPerDay | BudgetCap::TokensPerDay => {
            Some(("midnight", midnight(zone, wall, |then, now| then.day != now.day)))
        }
        BudgetCap::UsdPerMonth | BudgetCap::TokensPerMonth => {
            Some(("next month", midnight(zone, wall, |then, now| then.month != now.month)))
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

pub(super) fn later(wall: i64, ms: u64) -> i64 {
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
        let next = |account| next_period(&berlin(), account, EVENING).map(|(_, at)| at);
        assert_eq!(next(BudgetCap::UsdPerDay), Some(1_711_839_600_000));
        assert_eq!(next(BudgetCap::TokensPerMonth), Some(1_711_922_400_000), "00:00 of summer time");
        assert_eq!(next(BudgetCap::UsdPerRun), None);
    }
}
