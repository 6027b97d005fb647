//! Charts as values for `templates/charts.html`: SVG made here, each with a text that says the same.

use estop_core::operator::AgentView;
use estop_core::tripwire::activity::ActivityMode;
use estop_store::SpendGroup;

use super::shown::{grouped, money, when};
use crate::output::moment;
use crate::problem::Problem;
use crate::recent_activity::{AgentActivity, FIVES, MINUTES, RecentActivity, Slot};
use crate::spend::date_of;
use crate::state::App;

/// How high a sparkline is, in its own units.
const SPARK_HIGH: u32 = 24;
const HOUR_MS: i64 = 3_600_000;
const MINUTE_MS: i64 = 60_000;

/// A line of bars in a table: what an agent asked, a minute each.
pub(super) struct Spark {
    /// One path for all bars: a page has fifty of them.
    pub(super) passed: String,
    pub(super) refused: String,
    pub(super) text: String,
    /// The same with its highest and its latest minute: for the pointer and the keyboard.
    pub(super) detail: String,
}

impl Spark {
    /// `now` is in the last minute.
    pub(super) fn of(minutes: &[Slot; MINUTES], now: i64) -> Spark {
        let high = minutes.iter().map(|slot| u32::from(slot.passed) + u32::from(slot.refused)).max();
        let high = high.unwrap_or(0).max(1);
        let (mut passed, mut refused) = (String::new(), String::new());
        for (x, slot) in minutes.iter().enumerate() {
            // What is there is seen: at least two units.
            let tall = |count: u32| if count == 0 { 0 } else { (count * SPARK_HIGH / high).max(2) };
            let foot = SPARK_HIGH - tall(slot.passed.into());
            if slot.passed > 0 {
                passed.push_str(&format!("M{x} {SPARK_HIGH}V{foot}"));
            }
            if slot.refused > 0 {
                refused.push_str(&format!("M{x} {foot}V{}", foot.saturating_sub(tall(slot.refused.into()))));
            }
        }
        let sum = |of: fn(&Slot) -> u16| minutes.iter().map(|slot| u32::from(of(slot))).sum::<u32>();
        let text = asked(sum(|slot| slot.passed), sum(|slot| slot.refused));
        let detail = format!("{text}{}", spark_detail(minutes, now));
        Spark { passed, refused, text, detail }
    }
}

/// The minute with most requests, and the latest with any.
fn spark_detail(minutes: &[Slot; MINUTES], now: i64) -> String {
    let sum = |slot: &Slot| u32::from(slot.passed) + u32::from(slot.refused);
    // Of equals the latest.
    let most = minutes.iter().enumerate().max_by_key(|(_, slot)| sum(slot)).filter(|(_, slot)| sum(slot) > 0);
    let latest = minutes.iter().enumerate().rev().find(|(_, slot)| sum(slot) > 0);
    let minute = |x: usize| {
        let back = i64::try_from(MINUTES - 1 - x).unwrap_or(0);
        minute_of(now - back * MINUTE_MS)
    };
    let said = |(x, slot): (usize, &Slot)| {
        format!("{} at {}", asked(slot.passed.into(), slot.refused.into()), minute(x))
    };
    match most.zip(latest) {
        Some((most, latest)) if most.0 == latest.0 => format!(", at most {}", said(most)),
        Some((most, latest)) => format!(", at most {}; latest: {}", said(most), said(latest)),
        None => String::new(),
    }
}

fn asked(passed: u32, refused: u32) -> String {
    match (passed, refused) {
        (0, 0) => "quiet".to_owned(),
        (all, 0) => format!("{all} asked"),
        (passed, refused) => format!("{} asked, {refused} refused", passed + refused),
    }
}

/// Health as a line and modes as a band, over time.
pub(super) struct Timeline {
    pub(super) id: &'static str,
    pub(super) caption: &'static str,
    pub(super) title: &'static str,
    pub(super) text: String,
    pub(super) width: usize,
    /// The line of health, in thousandths from the top.
    pub(super) health: String,
    pub(super) band: Vec<Span>,
    /// Below these an agent is paused and stopped; from the top.
    pub(super) pause: u16,
    pub(super) stop: u16,
    pub(super) begins: &'static str,
    /// The same as a table, the newest first.
    pub(super) rows: Vec<Moment>,
}

pub(super) struct Span {
    pub(super) x: usize,
    pub(super) width: usize,
    pub(super) class: &'static str,
}

pub(super) struct Moment {
    /// Where it is in the chart.
    pub(super) x: usize,
    /// Its beginning, to the minute.
    pub(super) at: String,
    pub(super) when: String,
    pub(super) asked: String,
    pub(super) mode: &'static str,
    pub(super) health: String,
}

/// What a timeline ends with, and its marks.
struct Present {
    now: i64,
    health: u16,
    pause_below: u16,
    stop_below: u16,
}

/// An agent's timelines, and since when they are known.
pub(super) struct Timelines {
    pub(super) all: Vec<Timeline>,
    pub(super) since: Option<String>,
}

impl Timelines {
    /// The last hour; the last six too, if there was anything before. May wait for the store.
    pub(super) fn of(app: &App, view: &AgentView) -> Result<Timelines, Problem> {
        let gate = &view.policy.gate;
        let present = Present {
            now: app.now(),
            health: view.health,
            pause_below: gate.soft_suspend_threshold,
            stop_below: gate.hard_stop_threshold,
        };
        let mut hours = app.hours();
        hours.read_on(app.store_here(), present.now)?;
        Ok(Timelines::known(&hours, &view.name, &present))
    }

    fn known(hours: &RecentActivity, agent: &str, present: &Present) -> Timelines {
        let AgentActivity { minutes, fives } = hours.of(agent, present.now);
        let is_quiet = |slots: &[Slot]| slots.iter().all(|slot| *slot == Slot::default());
        let before = fives.get(..FIVES - MINUTES / 5 - 1).unwrap_or_default();
        let mut all = vec![Timeline::of(&minutes, present)];
        if !is_quiet(before) {
            all.push(Timeline::of(&fives, present));
        }
        let longest = if all.len() > 1 { 6 * HOUR_MS } else { HOUR_MS };
        Timelines { all, since: hours.since(present.now, longest).map(|since| when(since, present.now)) }
    }
}

impl Timeline {
    fn of<const N: usize>(slots: &[Slot; N], present: &Present) -> Timeline {
        let is_short = N == MINUTES;
        let (id, caption, title, begins, slot_ms) = if is_short {
            ("hour", "The last hour", "Health and mode in the last hour", "1 h ago", HOUR_MS / 60)
        } else {
            ("six-hours", "The last 6 hours", "Health and mode in the last 6 hours", "6 h ago", HOUR_MS / 12)
        };
        let lowest = slots.iter().filter_map(|slot| slot.health).min().unwrap_or(present.health);
        let sum = |of: fn(&Slot) -> u16| slots.iter().map(|slot| u32::from(of(slot))).sum::<u32>();
        let alarming = slots.iter().filter(|slot| is_alarming(slot.mode)).count();
        let what = asked(sum(|slot| slot.passed), sum(|slot| slot.refused));
        let minutes = alarming * if is_short { 1 } else { 5 };
        let alarmed = if minutes > 0 { format!("; alarming in {minutes} min") } else { String::new() };
        let low = lowest.min(present.health);
        Timeline {
            id,
            caption,
            title,
            text: format!("Health {} of 1000, {low} at its lowest; {what}{alarmed}.", present.health),
            width: N,
            health: line(slots, present.health),
            band: band(slots),
            pause: down(present.pause_below),
            stop: down(present.stop_below),
            begins,
            rows: moments(slots, present.now, slot_ms),
        }
    }
}

fn down(health: u16) -> u16 {
    1000 - health.min(1000)
}

/// A line of steps. Where nothing was asked, it goes on as it was.
fn line(slots: &[Slot], now: u16) -> String {
    let mut path = String::new();
    for (x, health) in slots.iter().enumerate().filter_map(|(x, slot)| Some((x, slot.health?))) {
        path.push_str(&match path.is_empty() {
            true => format!("M{x} {}", down(health)),
            false => format!("H{x}V{}", down(health)),
        });
    }
    if path.is_empty() {
        return format!("M0 {0}H{1}", down(now), slots.len());
    }
    path.push_str(&format!("H{}V{}", slots.len(), down(now)));
    path
}

fn band(slots: &[Slot]) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for (x, slot) in slots.iter().enumerate().filter(|(_, slot)| slot.mode != ActivityMode::Idle) {
        let class = class(slot.mode);
        match spans.last_mut().filter(|last| last.class == class && last.x + last.width == x) {
            Some(last) => last.width += 1,
            None => spans.push(Span { x, width: 1, class }),
        }
    }
    spans
}

fn is_alarming(mode: ActivityMode) -> bool {
    matches!(mode, ActivityMode::Looping | ActivityMode::Runaway)
}

fn class(mode: ActivityMode) -> &'static str {
    match mode {
        ActivityMode::Idle => "idle",
        ActivityMode::Working => "working",
        ActivityMode::Looping => "looping",
        ActivityMode::Runaway => "runaway",
    }
}

fn moments(slots: &[Slot], now: i64, slot_ms: i64) -> Vec<Moment> {
    let told = slots.iter().rev().enumerate().filter(|(_, slot)| **slot != Slot::default());
    let row = |(back, slot): (usize, &Slot)| Moment {
        x: slots.len() - 1 - back,
        at: minute_of(now - i64::try_from(back).unwrap_or(0) * slot_ms),
        when: match back {
            0 => "now".to_owned(),
            _ => when(now - i64::try_from(back).unwrap_or(0) * slot_ms, now),
        },
        asked: asked(slot.passed.into(), slot.refused.into()),
        mode: if slot.mode == ActivityMode::Runaway { "running away" } else { class(slot.mode) },
        health: slot.health.map_or_else(|| "–".to_owned(), |health| health.to_string()),
    };
    told.map(row).collect()
}

/// `14:20 UTC`.
fn minute_of(at: i64) -> String {
    format!("{} UTC", moment(at).get(11..16).unwrap_or_default())
}

/// Bars of days.
pub(super) struct Days {
    pub(super) text: String,
    pub(super) bars: Vec<Bar>,
    pub(super) width: i32,
    pub(super) first: String,
    pub(super) last: String,
    pub(super) most: String,
}

pub(super) struct Bar {
    pub(super) x: i32,
    pub(super) y: u64,
    pub(super) height: u64,
    pub(super) text: String,
}

/// What sums are compared by: dollars, or tokens where nothing has a price.
pub(super) enum Measure {
    Dollars,
    Tokens,
}

impl Measure {
    pub(super) fn of(sums: &[SpendGroup]) -> Measure {
        if sums.iter().any(|group| group.sum.usd.0 > 0) { Measure::Dollars } else { Measure::Tokens }
    }

    pub(super) fn size(&self, group: &SpendGroup) -> u64 {
        match self {
            Measure::Dollars => group.sum.usd.0,
            Measure::Tokens => group.sum.input_tokens.saturating_add(group.sum.output_tokens),
        }
    }

    fn text(&self, group: &SpendGroup) -> String {
        match self {
            Measure::Dollars => money(group.sum.usd),
            Measure::Tokens => format!("{} tokens", grouped(self.size(group))),
        }
    }
}

impl Days {
    /// A bar for each day that has a sum, the largest a hundred high.
    pub(super) fn of(sums: &[SpendGroup], from_day: i32, to_day: i32) -> Option<Days> {
        let measure = Measure::of(sums);
        let most = sums.iter().max_by_key(|group| measure.size(group))?;
        let top = measure.size(most).max(1);
        let day = |number: i32| date_of(number).map(|date| date.to_string()).unwrap_or_default();
        let bar = |group: &SpendGroup| {
            let number: i32 = group.key.parse().ok()?;
            // What was spent is seen: at least one unit.
            let height = (measure.size(group).saturating_mul(100) / top).max(1);
            let text = format!("{}: {}", day(number), measure.text(group));
            Some(Bar { x: (number - from_day) * 10, y: 100 - height, height, text })
        };
        Some(Days {
            text: format!(
                "{} days with spend; the most on {}: {}.",
                sums.len(),
                most.key.parse().map(day).unwrap_or_default(),
                measure.text(most)
            ),
            bars: sums.iter().filter_map(bar).collect(),
            width: (to_day - from_day + 1) * 10,
            first: day(from_day),
            last: day(to_day),
            most: measure.text(most),
        })
    }
}
