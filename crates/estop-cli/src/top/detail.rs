//! One agent on the whole screen: what its next request gets and why, its limits, runs, incidents and events.

use estop_config::printable::escaped;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Stylize;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use serde_json::Value;

use super::colors::{Colors, tone_of};
use super::lines::{event_line, number, text, wrapped};
use super::model::{Detail, Model, kind_of, name_of};
use crate::table::{cell, dollars, moment};

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &mut Model, colors: Colors) {
    let Some(agent) = model.agent() else { return };
    let lines = lines(model, agent, area.width.into(), colors);
    // The last line stays at the lower edge, however far somebody scrolled.
    let hidden = lines.len().saturating_sub(area.height.into());
    model.scrolled = model.scrolled.min(hidden);
    let shown: Vec<Line<'_>> = lines.into_iter().skip(model.scrolled).take(area.height.into()).collect();
    frame.render_widget(Paragraph::new(shown), area);
}

fn lines(model: &Model, agent: &Value, width: usize, colors: Colors) -> Vec<Line<'static>> {
    let state = &agent["state"];
    let mut lines = vec![
        Line::from(vec![
            format!("AGENT {}  ", escaped(name_of(agent))).bold(),
            ratatui::text::Span::styled(escaped(&kind_of(agent)), colors.text(tone_of(agent))),
        ]),
        Line::from(text(&state["label"])),
    ];
    lines.extend(wrapped(&text(&state["sentence"]), width).into_iter().map(Line::from));
    if !state["until"].is_null() {
        lines.push(Line::from(format!("Ends by itself: {}", moment(&state["until"]))));
    }
    section(&mut lines, "OPEN INCIDENTS", model.incidents_of(agent), "None.", |incident| {
        let said = format!("{}  {}", moment(&incident["opened_at"]), text(&incident["summary"]));
        wrapped(&said, width).into_iter().map(Line::from).collect()
    });
    lines.push(Line::from(""));
    lines.extend(properties(agent).into_iter().map(Line::from));
    let known = model.seen.detail.as_ref().filter(|detail| detail.agent == name_of(agent));
    let Some(Detail { runs, events, .. }) = known else {
        lines.extend([Line::from(""), Line::from("Reading its runs and events…")]);
        return lines;
    };
    section(&mut lines, "RUNS (newest first)", runs.iter(), "None.", |run| vec![run_line(run)]);
    section(&mut lines, "EVENTS (UTC, newest first)", events.iter(), "None.", |event| {
        vec![event_line(event, false)]
    });
    lines
}

fn section<'a>(
    lines: &mut Vec<Line<'static>>,
    title: &'static str,
    entries: impl Iterator<Item = &'a Value>,
    none: &'static str,
    entry: impl Fn(&Value) -> Vec<Line<'static>>,
) {
    lines.extend([Line::from(""), Line::from(title).bold()]);
    let before = lines.len();
    lines.extend(entries.flat_map(entry));
    if lines.len() == before {
        lines.push(Line::from(none));
    }
}

fn properties(agent: &Value) -> Vec<String> {
    let guard = if agent["kill_switch_enabled"] == true { "on" } else { "off (loops are only watched)" };
    let spent = |key: &str| {
        let amount = &agent[key];
        if amount.is_null() {
            return "-".to_owned();
        }
        format!("{}, {} tokens", dollars(&amount["usd"]), cell(&amount["tokens"]))
    };
    let pair = |name: &str, value: String| format!("{name:<16} {value}");
    vec![
        pair("preset, role", format!("{}, {}", cell(&agent["preset"]), cell(&agent["role"]))),
        pair("loop guard", guard.to_owned()),
        pair(
            "loop score",
            format!("{} / {}", number(&agent["score"]), number(&agent["kill_switch_threshold"])),
        ),
        pair(
            "activity",
            format!("{}, intensity {}", cell(&agent["mode"]), cell(&agent["intensity"])).to_lowercase(),
        ),
        pair("health", format!("{} of 1000", cell(&agent["health"]))),
        pair("in progress", cell(&agent["in_flight"])),
        pair("spent today", spent("spent_today")),
        pair("spent this month", spent("spent_this_month")),
        pair("last seen", moment(&agent["last_seen_at"])),
    ]
}

fn run_line(run: &Value) -> Line<'static> {
    let name = match text(&run["run"]) {
        name if name.is_empty() => "(unnamed run)".to_owned(),
        name => name,
    };
    let at_limit = match text(&run["tripped"]) {
        limit if limit.is_empty() => String::new(),
        limit => format!(", at the limit {limit}"),
    };
    Line::from(format!(
        "{name:<20} {}, {} iterations, {} tool calls, {}{at_limit}",
        cell(&run["state"]),
        cell(&run["iterations"]),
        cell(&run["tool_calls"]),
        dollars(&run["spent_usd"])
    ))
}
