//! Values as pages show them: moments, money, meters, badges, an agent's row, an event's sentence.

use std::borrow::Cow;

use estop_core::agent::standing::{DeactivatedBy, Standing};
use estop_core::agent::status::{AgentStatus, StatusKind};
use estop_core::budget::Amount;
use estop_core::guard::Guard;
use estop_core::guards::breaker::LimitUse;
use estop_core::money::NanoUsd;
use estop_core::operator::AgentView;
use estop_core::policy::{BudgetPolicy, Limit, Limits, Mode, Policy};
use estop_core::printable::named;
use estop_core::run::{RunState, RunView};
use estop_core::time::date;
use estop_core::tripwire::activity::ActivityMode;
use serde_json::Value;

use crate::output::moment;

/// A word in a pill.
pub(super) struct Badge {
    pub(super) class: &'static str,
    pub(super) text: Cow<'static, str>,
}

impl Badge {
    pub(super) fn new(class: &'static str, text: &'static str) -> Badge {
        Badge { class, text: Cow::Borrowed(text) }
    }
}

/// A bar that fills up.
pub(super) struct Meter {
    pub(super) label: String,
    pub(super) text: String,
    /// 0–100.
    pub(super) percent: u64,
    /// Where the warning begins; 0 = nowhere.
    pub(super) mark: u64,
    pub(super) class: &'static str,
}

impl Meter {
    pub(super) fn new(label: &str, text: String, part: u64, whole: u64, mark: u64) -> Meter {
        let percent = part.saturating_mul(100).checked_div(whole).unwrap_or(0);
        let class = match percent {
            100.. => "stop",
            near if mark > 0 && near >= mark => "near",
            _ => "ok",
        };
        Meter { label: label.to_owned(), text, percent: percent.min(100), mark, class }
    }
}

/// An agent in a list.
pub(super) struct AgentRow {
    pub(super) name: String,
    pub(super) role: Option<String>,
    pub(super) badge: Badge,
    pub(super) mode: Badge,
    pub(super) score: Meter,
    pub(super) limit: Option<Meter>,
    pub(super) budget: Option<Meter>,
    pub(super) spent: String,
    pub(super) health: u16,
    pub(super) in_flight: usize,
}

impl From<&AgentView> for AgentRow {
    fn from(view: &AgentView) -> AgentRow {
        let open = view.runs.iter().filter(|run| !is_over(run.state));
        let limits = open.flat_map(|run| limits(run, &view.policy.limits));
        AgentRow {
            name: view.name.to_string(),
            role: view.role.as_deref().map(str::to_owned),
            badge: state_badge(&view.status, view.standing),
            mode: mode(&view.status, view.in_flight, view.activity.mode),
            score: score(view),
            limit: limits.max_by_key(|meter| meter.percent),
            budget: of_period(view, Period::Day).into_iter().max_by_key(|meter| meter.percent),
            spent: spent_today(view),
            health: view.health,
            in_flight: view.in_flight,
        }
    }
}

/// How bad it stands: what a person should see first comes first.
pub(super) fn urgency(view: &AgentView) -> u32 {
    let alarming = matches!(view.activity.mode, ActivityMode::Looping | ActivityMode::Runaway);
    let score = view.score.map_or(0, |score| score.score.min(499));
    view.status.urgency(view.standing) * 1000 + u32::from(alarming) * 500 + score
}

/// What its next request would get (EV-2). A stop of its own is said before a stop of everybody.
pub(super) fn state_badge(status: &AgentStatus, standing: Standing) -> Badge {
    match standing {
        Standing::Inactive { by: DeactivatedBy::Manual, .. } => return Badge::new("stop", "Inactive"),
        Standing::Inactive { by: DeactivatedBy::KillSwitch(_), .. } => {
            return Badge::new("stop", "Deactivated by Kill Switch");
        }
        Standing::Active | Standing::Paused { .. } => {}
    }
    let class = match status.kind {
        StatusKind::Active => "ok",
        StatusKind::Watched
        | StatusKind::RateLimited
        | StatusKind::CoolingDown
        | StatusKind::OutsideHours
        | StatusKind::Paused => "near",
        StatusKind::ModelRefused
        | StatusKind::AtRunLimit
        | StatusKind::BudgetSpent
        | StatusKind::Stopped
        | StatusKind::Shut => "stop",
    };
    let mut letters = status.label.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    Badge { class, text: Cow::Owned(first + letters.as_str()) }
}

/// What its next request would get, in a cell of a list.
pub(super) struct StateCell {
    /// By whom, and until when.
    pub(super) detail: Option<String>,
    /// The whole sentence.
    pub(super) why: String,
}

impl StateCell {
    pub(super) fn of(status: AgentStatus, standing: Standing, now: i64) -> StateCell {
        let by = match standing {
            Standing::Inactive { by: DeactivatedBy::KillSwitch(cause), .. } => Some(cause.name().to_owned()),
            Standing::Active | Standing::Inactive { .. } => status.by.as_deref().map(|by| format!("by {by}")),
            // Its badge says who.
            Standing::Paused { .. } => None,
        };
        let until = status.until.filter(|_| !status.label.contains(" until ")).map(|at| ends(at, now));
        let detail: Vec<String> = [by, until].into_iter().flatten().collect();
        StateCell { detail: (!detail.is_empty()).then(|| detail.join(", ")), why: status.sentence }
    }
}

/// `18 s left`, `5 min left`, `3 h left`, then the day.
fn ends(at: i64, now: i64) -> String {
    match at.saturating_sub(now).max(0) / 1000 {
        s @ 0..60 => format!("{s} s left"),
        s @ 60..3600 => format!("{} min left", s / 60),
        s @ 3600..86_400 => format!("{} h left", s / 3600),
        _ => format!("until {}", &moment(at)[..10]),
    }
}

/// What it does. Whoever may not work is found idle by the clock, half a minute later: that long it would seem to work. What
/// is in progress may go on unless it was stopped.
fn mode(status: &AgentStatus, in_flight: usize, mode: ActivityMode) -> Badge {
    let works = match status.kind {
        StatusKind::Stopped | StatusKind::Shut => false,
        StatusKind::Active
        | StatusKind::Watched
        | StatusKind::RateLimited
        | StatusKind::CoolingDown
        | StatusKind::OutsideHours
        | StatusKind::ModelRefused
        | StatusKind::Paused
        | StatusKind::AtRunLimit
        | StatusKind::BudgetSpent => status.passes || in_flight > 0,
    };
    match mode {
        ActivityMode::Idle => Badge::new("soft", "idle"),
        ActivityMode::Working if works => Badge::new("", "working"),
        ActivityMode::Working => Badge::new("soft", "nothing"),
        ActivityMode::Looping => Badge::new("badge stop", "looping"),
        ActivityMode::Runaway => Badge::new("badge stop", "running away"),
    }
}

/// The live loop score against its threshold.
pub(super) fn score(view: &AgentView) -> Meter {
    let (score, max) =
        (view.score.map_or(0, |score| score.score), u32::from(view.policy.loops.threshold_tenths));
    let watched = if view.policy.modes[Guard::Loop] == Mode::Enforce { "" } else { ", only watched" };
    let text = format!("{}.{} of {}.{}{watched}", score / 10, score % 10, max / 10, max % 10);
    // Over the threshold is a stop; at it, not yet.
    let mut meter = Meter::new("Loop score", text, score.into(), max.into(), 80);
    if meter.class == "stop" && score <= max {
        meter.class = "near";
    }
    meter
}

/// How much of each limit a run has used.
pub(super) fn limits(run: &RunView, limits: &Limits) -> Vec<Meter> {
    let mark = u64::from(limits.warning_threshold_bp) / 100;
    let of = |label: &str, current: u64, max: Limit| {
        let max = u64::from(max.get()?);
        Some(Meter::new(label, format!("{current} of {max} {label}"), current, max, mark))
    };
    let minutes = |label: &str, ms: u64, max: Limit| {
        let max = u64::from(max.get()?);
        Some(Meter::new(label, format!("{} of {} min active", ms / 60_000, max / 60), ms / 1000, max, mark))
    };
    [
        of("tool calls", run.tool_calls.into(), limits.max_tool_calls),
        of("test runs", run.iterations.into(), limits.max_iterations),
        of("turns", run.turns.into(), limits.max_turns),
        minutes("active time", run.active_ms, limits.max_active_duration),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A budget that has seen a later day than today, because the clock was ahead.
pub(super) struct BudgetAhead {
    pub(super) day: String,
    /// What has it begin the present day and month.
    pub(super) command: String,
}

impl BudgetAhead {
    pub(super) fn of(day: i32, command: String) -> BudgetAhead {
        BudgetAhead { day: date(day), command }
    }
}

fn spent_today(view: &AgentView) -> String {
    let today = spent(view.spent_today);
    let month = of_period(view, Period::Month).into_iter().max_by_key(|meter| meter.percent);
    month.map_or(today.clone(), |month| format!("{today}, no cap a day; {} this month", month.text))
}

/// How much of each budget an agent has used.
pub(super) fn budgets(view: &AgentView) -> Vec<Meter> {
    [of_period(view, Period::Day), of_period(view, Period::Month)].into_iter().flatten().collect()
}

#[derive(Clone, Copy)]
enum Period {
    Day,
    Month,
}

fn of_period(view: &AgentView, period: Period) -> Vec<Meter> {
    let Policy { budget, .. } = &*view.policy;
    let usd = |label: &str, spent: NanoUsd, cap: Option<NanoUsd>| {
        let cap = cap?;
        let text = format!("{} of {}", money(spent), money(cap));
        Some(Meter::new(label, text, spent.0, cap.0, 80))
    };
    let tokens = |label: &str, spent: u64, cap: Option<u64>| {
        let cap = cap?;
        Some(Meter::new(label, format!("{} of {} tokens", grouped(spent), grouped(cap)), spent, cap, 80))
    };
    let meters = match period {
        Period::Day => [
            usd("Today", view.spent_today.usd, budget.usd_per_day),
            tokens("Tokens today", view.spent_today.tokens, budget.tokens_per_day),
        ],
        Period::Month => [
            usd("This month", view.spent_this_month.usd, budget.usd_per_month),
            tokens("Tokens this month", view.spent_this_month.tokens, budget.tokens_per_month),
        ],
    };
    meters.into_iter().flatten().collect()
}

pub(super) fn is_over(state: RunState) -> bool {
    matches!(state, RunState::Completed | RunState::Escalated)
}

pub(super) fn run_badge(run: &RunView) -> Badge {
    match run.state {
        RunState::Escalated => Badge::new("stop", "ESCALATED"),
        RunState::Active if run.tripped => Badge::new("stop", "LIMIT REACHED"),
        RunState::Sleeping if run.tripped => Badge::new("stop", "LIMIT REACHED"),
        RunState::Active => Badge::new("ok", "ACTIVE"),
        RunState::Sleeping => Badge::new("", "SLEEPING"),
        RunState::Completed => Badge::new("", "COMPLETED"),
    }
}

/// Money, and tokens where no money is known.
pub(super) fn spent(amount: Amount) -> String {
    if amount.usd.0 == 0 && amount.tokens > 0 {
        format!("{} tokens", grouped(amount.tokens))
    } else {
        money(amount.usd)
    }
}

/// `$1,234.56`; below ten cents with four digits.
pub(super) fn money(usd: NanoUsd) -> String {
    const CENT: u64 = 10_000_000;
    match usd.0 {
        0 | CENT_10.. => format!("${}.{:02}", grouped(usd.0 / CENT / 100), usd.0 / CENT % 100),
        1..100_000 => "<$0.0001".to_owned(),
        _ => format!("$0.{:04}", usd.0 / 100_000),
    }
}

/// Ten cents.
const CENT_10: u64 = 100_000_000;

/// `1,234,567`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// When the day's budget ends if the agents go on as they did since midnight; `None` = too early to say, or it is spent.
pub(super) fn forecast(spent: NanoUsd, budget: &BudgetPolicy, now: i64) -> Option<String> {
    let cap = budget.usd_per_day?;
    let minute = u128::from(budget.zone.local(now).minute);
    if minute < FORECAST_AFTER || spent.0 == 0 || spent >= cap {
        return None;
    }
    let end = minute * u128::from(cap.0) / u128::from(spent.0);
    if end < DAY_MINUTES {
        let zone = &budget.zone.name;
        return Some(format!(
            "At this rate the day's budget ends at {:02}:{:02} {zone}.",
            end / 60,
            end % 60
        ));
    }
    let by_midnight = u128::from(spent.0) * DAY_MINUTES / minute;
    let by_midnight = NanoUsd(u64::try_from(by_midnight).unwrap_or(u64::MAX));
    Some(format!("At this rate: {} of {} by the end of the day.", money(by_midnight), money(cap)))
}

const DAY_MINUTES: u128 = 1440;
/// A quarter of an hour says nothing of a day.
const FORECAST_AFTER: u128 = 15;

/// `12 s ago`, `5 min ago`, `3 h ago`, then the day.
pub(super) fn when(at: i64, now: i64) -> String {
    match (now - at) / 1000 {
        ..0 => moment(at),
        s @ 0..60 => format!("{s} s ago"),
        s @ 60..3600 => format!("{} min ago", s / 60),
        s @ 3600..86_400 => format!("{} h ago", s / 3600),
        _ => moment(at).chars().take(16).map(|c| if c == 'T' { ' ' } else { c }).collect(),
    }
}

/// What an event's detail says: its reason if it has one, else what is in it.
pub(super) fn sentence(detail: &Value) -> String {
    for key in ["reason", "text", "message", "summary"] {
        if let Some(text) = detail.get(key).and_then(Value::as_str) {
            return text.to_owned();
        }
    }
    if let Some(words) = budget_words(detail).or_else(|| limit_words(detail)) {
        return words;
    }
    let Value::Object(fields) = detail else { return String::new() };
    let plain = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    };
    let told = fields.iter().filter(|(_, value)| !value.is_null());
    let parts: Vec<String> = told
        .map(|(key, value)| match key.as_str() {
            "tool" => format!("tool: {}", named(&plain(value))),
            "by" | "guard" => format!("{key} {}", plain(value)),
            _ => format!("{}: {}", key.replace('_', " "), plain(value)),
        })
        .collect();
    parts.join(", ").chars().take(300).collect()
}

/// How far a budget is used, in dollars or tokens.
fn budget_words(detail: &Value) -> Option<String> {
    let account = detail["account"].as_str()?;
    let (account, whose) = match account.strip_prefix("fleet_") {
        Some(account) => (account, " of all agents together"),
        None => (account, ""),
    };
    let (spent, cap, percent) =
        (detail["spent"].as_u64()?, detail["cap"].as_u64()?, detail["percent"].as_u64()?);
    let shown = |sum| match account.starts_with("usd") {
        true => money(NanoUsd(sum)),
        false => format!("{} tokens", grouped(sum)),
    };
    Some(format!("{} of {} spent: {percent} % of {account}{whose}.", shown(spent), shown(cap)))
}

/// Which limit a run reached.
fn limit_words(detail: &Value) -> Option<String> {
    let limit: LimitUse = serde_json::from_value(detail["limit"].clone()).ok()?;
    let run = detail["run"].as_str().map(|run| format!(", run {run}")).unwrap_or_default();
    Some(format!("{}{run}", limit.reason()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use estop_core::agent::standing::Cause;
    use estop_core::printed_command::Commands;
    use estop_core::time::Millis;
    use serde_json::json;

    #[test]
    fn ui_1_who_may_not_work_is_not_said_to_be_working() {
        let status = |standing| {
            let refused = AgentStatus::of_standing("coder", standing, None, &Commands::default());
            refused.unwrap_or_else(AgentStatus::active)
        };
        let said = |standing, in_flight, does| mode(&status(standing), in_flight, does).text;
        let stopped = Standing::Inactive { by: DeactivatedBy::Manual, since: Millis(1) };
        let paused = Standing::Paused { cause: None, since: Millis(1) };
        assert_eq!(said(Standing::Active, 0, ActivityMode::Working), "working");
        assert_eq!(said(stopped, 0, ActivityMode::Working), "nothing");
        assert_eq!(said(stopped, 0, ActivityMode::Looping), "looping", "why it was stopped");
        assert_eq!(said(paused, 0, ActivityMode::Working), "nothing");
        assert_eq!(said(paused, 1, ActivityMode::Working), "working", "on what it had begun");
    }

    #[test]
    fn ev_2_a_list_says_by_whom_and_until_when() {
        let detail = |status: AgentStatus, standing| StateCell::of(status, standing, 1_000).detail;
        let looping = Standing::Inactive { by: DeactivatedBy::KillSwitch(Cause::Loop), since: Millis(1) };
        assert_eq!(detail(AgentStatus::active(), looping).as_deref(), Some("loop"));
        let manual = Standing::Inactive { by: DeactivatedBy::Manual, since: Millis(1) };
        let by_alice = AgentStatus::of_standing("coder", manual, Some("alice"), &Commands::default());
        assert_eq!(by_alice.and_then(|status| detail(status, manual)).as_deref(), Some("by alice"));
        let limited = AgentStatus { until: Some(19_000), ..AgentStatus::active() };
        assert_eq!(detail(limited, Standing::Active).as_deref(), Some("18 s left"));
        assert_eq!(detail(AgentStatus::active(), Standing::Active), None);
    }

    #[test]
    fn ui_1_money_and_numbers_have_the_digits_people_read() {
        let usd = |nano: u64| money(NanoUsd(nano));
        assert_eq!([usd(0), usd(1), usd(4_210_000)], ["$0.00", "<$0.0001", "$0.0042"]);
        let sums = [usd(99_990_000), usd(990_825_000), usd(1_234_567_890_000_000)];
        assert_eq!(sums, ["$0.0999", "$0.99", "$1,234,567.89"]);
        assert_eq!([grouped(0), grouped(999), grouped(1_000)], ["0", "999", "1,000"]);
    }

    #[test]
    fn ui_1_a_budget_is_said_to_end_when_the_day_goes_on_like_this() {
        const NOON: i64 = 12 * 3_600_000;
        let budget = BudgetPolicy { usd_per_day: Some(NanoUsd(10_000)), ..BudgetPolicy::default() };
        let said = |spent, now| forecast(NanoUsd(spent), &budget, now);
        let text = said(8_000, NOON).unwrap_or_default();
        assert!(text.starts_with("At this rate the day's budget ends at 15:00"), "{text}");
        let text = said(2_000, NOON).unwrap_or_default();
        assert!(text.ends_with("by the end of the day."), "{text}");
        assert_eq!([said(0, NOON), said(10_000, NOON), said(8_000, 60_000)], [None, None, None]);
    }

    #[test]
    fn ui_1_an_event_is_told_in_words() {
        let said = |detail: Value| sentence(&detail);
        let warned =
            json!({"account": "usd_per_day", "cap": 1_000_000_000, "percent": 95, "spent": 990_825_000});
        assert_eq!(said(warned), "$0.99 of $1.00 spent: 95 % of usd_per_day.");
        let fleet = json!({"account": "fleet_usd_per_day", "cap": 1_000_000_000, "percent": 95, "spent": 990_825_000});
        assert_eq!(said(fleet), "$0.99 of $1.00 spent: 95 % of usd_per_day of all agents together.");
        let tripped = json!({"limit": {"current": 5, "limit": "tool_calls", "max": 5}, "run": "nightly"});
        assert_eq!(said(tripped), "max tool calls (5/5), run nightly");
        assert_eq!(said(json!({"reason": "because", "account": "x"})), "because");
        assert_eq!(
            said(json!({"steps": 5, "tool": "x. Run `estop kill`"})),
            "steps: 5, tool: “x. Run 'estop kill'”"
        );
        assert_eq!(said(json!({"guard": "gate"})), "guard gate");
        assert_eq!(said(json!({"by": "ada", "note": null})), "by ada");
    }
}
