//! Draws what `estop top` knows; made for 80 × 24, fits any size.

use estop_config::printable::escaped;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Clear, Paragraph, Row, Table, TableState};
use serde_json::Value;

use super::colors::{Colors, Tone, tone_of};
use super::detail;
use super::lines::{count, event_line, number, text, wrapped};
use super::model::{Model, Order, kind_of, name_of};

/// From this width on there is room for the columns that not everybody needs.
const WIDE: u16 = 110;
/// Below this height there is no room for events beside agents.
const EVENTS_FROM_HEIGHT: u16 = 20;
/// The rows of the events, with their heading.
const EVENTS_HEIGHT: u16 = 7;

const KEYS: &str = "Enter detail  / filter  s stop  a activate  p pause  K stop all  ? help  q quit";
const KEYS_OF_DETAIL: &str = "Esc back  ↑↓ scroll  s stop  a activate  p pause  K stop all  ? help  q quit";

pub(super) fn draw(frame: &mut Frame<'_>, model: &mut Model, colors: Colors) {
    let area = frame.area();
    let reason = footer(model, area.width.into());
    let [head, body, why, keys] = Layout::vertical([
        Constraint::Length(4),
        Constraint::Min(3),
        Constraint::Length(2),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(header(model, colors)), head);
    if model.detail_of.is_some() {
        detail::draw(frame, body, model, colors);
    } else {
        let with_events = model.with_events && area.height >= EVENTS_FROM_HEIGHT;
        let height = if with_events { (area.height / 3).max(EVENTS_HEIGHT) } else { 0 };
        let [agents, events] = Layout::vertical([Constraint::Min(3), Constraint::Length(height)]).areas(body);
        draw_agents(frame, agents, model, colors);
        if with_events {
            draw_events(frame, events, &model.seen.events);
        }
    }
    frame.render_widget(Paragraph::new(reason), why);
    let known = if model.detail_of.is_some() { KEYS_OF_DETAIL } else { KEYS };
    frame.render_widget(Line::from(known).dim(), keys);
    if model.with_help {
        dialog(frame, &help(), colors.text(Tone::Plain));
    }
    if let Some(order) = &model.asked {
        let tone = if *order == Order::Kill { Tone::Alarm } else { Tone::Plain };
        dialog(frame, &question(order, model), colors.text(tone));
    }
}

fn header(model: &Model, colors: Colors) -> Vec<Line<'static>> {
    let (status, stats) = (&model.seen.status, &model.seen.stats);
    let state = text(&status["state"]).to_uppercase().replace('_', " ");
    let is_running = status["state"] == "running";
    let stuck = text(&status["stuckParts"][0]["problem"]);
    let problem = [text(&status["journalProblem"]), stuck].into_iter().find(|problem| !problem.is_empty());
    let tone = match status["state"].as_str() {
        Some("running") if problem.is_none() => Tone::Plain,
        Some("safe_mode") => Tone::Notice,
        _ => Tone::Alarm,
    };
    let channel = |name: &'static str, key: &str| {
        let open = status[key] == true;
        let tone = if open { Tone::Plain } else { Tone::Alarm };
        Span::styled(format!("{name} {}  ", if open { "open" } else { "SHUT" }), colors.text(tone))
    };
    let first = Line::from(vec![
        Span::raw("estop  ").bold(),
        Span::styled(format!(" {state} "), colors.badge(tone)),
        Span::raw("  "),
        channel("models", "llmEnabled"),
        channel("tools", "toolsEnabled"),
        channel("messages", "messagingEnabled"),
    ]);
    let fourth = match (&model.trouble, problem) {
        (Some(why), _) => format!("NO ANSWER, this is what was last seen: {}", escaped(why)),
        (None, Some(problem)) if is_running => format!("NOTHING PASSES: {problem}"),
        (None, _) if is_running => String::new(),
        (None, _) => pressed(status),
    };
    let usd = stats["spent_today"]["usd"].as_f64().unwrap_or(0.0);
    let third = format!(
        "{} · ${usd:.2} today · {} · {}",
        count(&stats["in_flight"], "request in progress", "requests in progress"),
        count(&stats["open_incidents"], "open incident", "open incidents"),
        count(&stats["open_escalations"], "escalation", "escalations"),
    );
    vec![first, Line::from(agents(stats)), Line::from(third), Line::styled(fourth, colors.text(Tone::Alarm))]
}

/// How many agents run, and what stands in the way of the others.
fn agents(stats: &Value) -> String {
    let running = stats["running"].as_u64().unwrap_or(0);
    let total = stats["agents"].as_u64().unwrap_or(0);
    let states = stats["states"].as_object().into_iter().flatten();
    let others = states.filter(|(kind, _)| *kind != "active");
    let others: String =
        others.map(|(kind, count)| format!(" · {count} {}", escaped(&kind.replace('_', " ")))).collect();
    format!("{running} of {total} agents running{others}")
}

/// Who pressed the button, when and why.
fn pressed(status: &Value) -> String {
    let part = |before: &str, key: &str| match text(&status[key]) {
        said if said.is_empty() => String::new(),
        said => format!("{before}{said}"),
    };
    let since = crate::table::moment(&status["since"]);
    let who = [part(" by ", "by"), part(": ", "reason"), part(", ", "note")].concat();
    format!("Since {since}{who}")
}

fn draw_agents(frame: &mut Frame<'_>, area: Rect, model: &Model, colors: Colors) {
    let is_wide = area.width >= WIDE;
    let why = Constraint::Fill(if is_wide { 4 } else { 2 });
    let mut columns = vec![
        ("AGENT", Constraint::Fill(1)),
        ("STATE", Constraint::Length(14)),
        ("WHY", why),
        ("REQS", Constraint::Length(4)),
        ("TODAY", Constraint::Length(8)),
    ];
    if is_wide {
        let more = [
            ("ACTIVITY", Constraint::Length(8)),
            ("SCORE", Constraint::Length(11)),
            ("HEALTH", Constraint::Length(6)),
        ];
        columns.splice(3..3, more);
    }
    let head =
        Row::new(columns.iter().map(|(name, _)| *name)).style(Style::new().add_modifier(Modifier::BOLD));
    let rows: Vec<Row<'_>> = model.agents().map(|agent| row(agent, model, is_wide, colors)).collect();
    if rows.is_empty() {
        let none = if model.filter.is_empty() {
            "No agent has called yet. Point one at estop: `estop serve` prints the lines.".to_owned()
        } else {
            format!("No agent matches /{}. Esc shows all.", escaped(&model.filter))
        };
        frame.render_widget(Paragraph::new(none), area);
        return;
    }
    let widths = columns.iter().map(|(_, width)| *width);
    let table = Table::new(rows, widths).header(head).row_highlight_style(Style::new().reversed());
    frame.render_stateful_widget(table, area, &mut TableState::new().with_selected(model.row()));
}

fn row(agent: &Value, model: &Model, is_wide: bool, colors: Colors) -> Row<'static> {
    let usd = agent["spent_today"]["usd"].as_f64().unwrap_or(0.0);
    let whole = |value: &Value| value.as_u64().map_or_else(|| "-".to_owned(), |value| value.to_string());
    let why = model.why(agent).first().map(|why| escaped(why)).unwrap_or_default();
    let mut cells = vec![
        Cell::from(escaped(name_of(agent))),
        Cell::from(escaped(&kind_of(agent))).style(colors.text(tone_of(agent))),
        Cell::from(why),
    ];
    if is_wide {
        cells.push(Cell::from(text(&agent["mode"]).to_lowercase()));
        cells.push(Cell::from(format!(
            "{} / {}",
            number(&agent["score"]),
            number(&agent["kill_switch_threshold"])
        )));
        cells.push(Cell::from(whole(&agent["health"])));
    }
    cells.push(Cell::from(whole(&agent["in_flight"])));
    cells.push(Cell::from(format!("${usd:.4}")));
    Row::new(cells)
}

fn draw_events(frame: &mut Frame<'_>, area: Rect, events: &[Value]) {
    let block = Block::new().borders(Borders::TOP).title(" EVENTS (UTC, newest first; e hides) ");
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let lines = events.iter().take(inside.height.into()).map(|event| event_line(event, true));
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), inside);
}

/// Two lines: the filter that is typed, what was done last, or why the agent under the cursor is refused.
fn footer(model: &Model, width: usize) -> Vec<Line<'static>> {
    let shown = if model.is_typing {
        format!("Filter by name or state: /{}_   (Enter keeps it, Esc clears it)", escaped(&model.filter))
    } else if !model.said.is_empty() {
        escaped(&model.said)
    } else if model.detail_of.is_some() {
        String::new()
    } else {
        let why = model.agent().map(|agent| model.why(agent).join(" ")).unwrap_or_default();
        let filtered = match &*model.filter {
            "" => String::new(),
            filter => format!("[/{}, Esc shows all] ", escaped(filter)),
        };
        format!("{filtered}{}", escaped(&why))
    };
    wrapped(&shown, width).into_iter().take(2).map(|line| Line::from(line).bold()).collect()
}

fn question(order: &Order, model: &Model) -> Vec<String> {
    let question = match order {
        Order::Quit => String::new(),
        Order::Kill => format!(
            "Stop EVERYTHING? {} will be cut off.",
            count(&model.seen.stats["in_flight"], "request in progress", "requests in progress")
        ),
        Order::Stop(name) => format!("Stop agent {}?", escaped(name)),
        Order::Activate(name) => format!("Reactivate agent {}?", escaped(name)),
        Order::Pause(name) => format!("Pause agent {}?", escaped(name)),
        Order::Resume(name) => format!("Resume agent {}?", escaped(name)),
    };
    vec![question, String::new(), "y = yes, any other key = no".to_owned()]
}

fn help() -> Vec<String> {
    let keys = [
        ("↑ ↓ j k", "choose an agent (PgUp PgDn Home End: faster)"),
        ("Enter", "details of the agent: why, limits, runs, incidents, events"),
        ("Esc", "back, or show all agents again"),
        ("/", "filter agents by name or state"),
        ("e", "show or hide the events"),
        ("s", "stop the agent, after a yes"),
        ("a", "reactivate the agent, after a yes"),
        ("p", "pause or resume the agent, after a yes"),
        ("K", "stop everything, after a yes"),
        ("q", "quit; estop and the agents keep running"),
        ("", ""),
        ("WHY", "what stopped the agent, or why its next request is refused"),
        ("REQS", "requests in progress"),
        ("SCORE", "loop score / threshold"),
    ];
    let mut lines: Vec<String> = keys.into_iter().map(|(key, what)| format!("{key:<8} {what}")).collect();
    lines.extend([String::new(), "Any key closes this.".to_owned()]);
    lines
}

/// A box in the middle.
fn dialog(frame: &mut Frame<'_>, lines: &[String], style: Style) {
    let all = frame.area();
    let widest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let size = |length: usize, max: u16| u16::try_from(length).unwrap_or(u16::MAX).min(max);
    let width = size(widest.max(40) + 4, all.width);
    let height = size(lines.len() + 2, all.height);
    let place = Rect { x: (all.width - width) / 2, y: (all.height - height) / 2, width, height };
    let lines: Vec<Line<'_>> = lines.iter().map(|line| Line::from(format!(" {line}"))).collect();
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().border_style(style)), place);
}

#[cfg(test)]
mod tests {
    use super::super::model::{Detail, Seen};
    use super::*;
    use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::buffer::Buffer;
    use ratatui::style::Color;
    use serde_json::json;

    fn buffer(model: &mut Model, (width, height): (u16, u16), colors: Colors) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| draw(frame, model, colors)).expect("drawn");
        terminal.backend().buffer().clone()
    }

    fn drawn(model: &mut Model, width: u16, height: u16) -> String {
        let buffer = buffer(model, (width, height), Colors::ON);
        let row = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(row).map(|row| row.trim_end().to_owned() + "\n").collect()
    }

    fn press(model: &mut Model, keys: &[KeyCode]) {
        for code in keys {
            model.key(KeyEvent::new(*code, KeyModifiers::NONE));
        }
    }

    fn model() -> Model {
        let stuck = json!({"id": "stuck\u{1b}[2J", "deactivated_by": "kill_switch", "score": 13.0,
            "kill_switch_threshold": 10.0, "health": 990, "in_flight": 0, "mode": "LOOPING", "spent_today": {"usd": 0.25},
            "state": {"kind": "stopped", "label": "deactivated by kill switch (loop)", "guard": "agent", "passes": false,
                "sentence": "The kill switch deactivated it. To let it work again: estop agents activate stuck."}});
        let night = json!({"id": "night", "state": {"kind": "outside_hours", "label": "outside hours until 08:00",
            "sentence": "Outside its allowed hours until 08:00 (UTC).", "until": "2026-11-16T08:00:00Z"}});
        let event = |agent: &str| {
            json!({"event_type": "kill_switch", "agent": agent, "at": "2026-11-15T09:43:42.123Z",
            "detail": {"reason": "Loop: 5 times in a row.\u{202e}"}})
        };
        Model::new(Seen {
            status: json!({"state": "shutdown", "llmEnabled": false, "since": "2026-11-15T10:00:00Z", "by": "ann",
                "reason": "manual", "note": null}),
            stats: json!({"agents": 2, "running": 0, "states": {"shut": 1, "stopped": 1}, "in_flight": 3,
                "spent_today": {"usd": 1.5}, "open_incidents": 1, "open_escalations": 0}),
            agents: vec![night, stuck],
            incidents: vec![json!({"agent": "stuck\u{1b}[2J", "summary": "Loop: called `build` 5 times.",
                "opened_at": "2026-11-15T09:43:42Z"})],
            events: vec![event("stuck")],
            detail: Some(Detail {
                agent: "stuck\u{1b}[2J".to_owned(),
                runs: vec![
                    json!({"run": "issue-8", "state": "escalated", "iterations": 50, "tool_calls": 3}),
                ],
                events: vec![event("stuck")],
            }),
        })
    }

    #[test]
    fn ui_2_eighty_by_twenty_four_shows_state_reason_events_and_keys() {
        let screen = drawn(&mut model(), 80, 24);
        for text in [
            "SHUTDOWN",
            "models SHUT",
            "0 of 2 agents running · 1 shut · 1 stopped",
            "3 requests in progress · $1.50 today · 1 open incident · 0 escalations",
            "Since 2026-11-15 10:00:00Z by ann: manual",
            "Loop: called `build` 5 times.",
            "outside hours",
            "09:43:42  stuck        kill switch        Loop: 5 times in a row.",
            "again: estop agents activate stuck.",
            "K stop all",
            "q quit",
        ] {
            assert!(screen.contains(text), "{text}\n{screen}");
        }
        assert!(screen.contains("stuck\\u{1b}"), "names cannot steer the terminal\n{screen}");
    }

    #[test]
    fn ui_2_a_wide_terminal_shows_activity_score_and_health() {
        let screen = drawn(&mut model(), 120, 40);
        for text in ["ACTIVITY", "looping", "13.0 / 10.0", "990"] {
            assert!(screen.contains(text), "{text}\n{screen}");
        }
    }

    #[test]
    fn ui_2_the_details_of_an_agent_say_why_and_what_it_did() {
        let mut model = model();
        press(&mut model, &[KeyCode::Enter]);
        for (width, height) in [(80, 24), (120, 40)] {
            let screen = drawn(&mut model, width, height);
            for text in [
                "stopped",
                "deactivated by kill switch (loop)",
                "13.0 / 10.0",
                "Loop: called `build` 5 times.",
            ] {
                assert!(screen.contains(text), "{text}\n{screen}");
            }
        }
        press(&mut model, &[KeyCode::End]);
        let screen = drawn(&mut model, 80, 24);
        assert!(
            screen.contains("kill switch        Loop"),
            "the end is there, and no emptiness after it\n{screen}"
        );
        assert!(model.scrolled < 100, "scrolled {}", model.scrolled);
    }

    #[test]
    fn ui_2_help_and_filter_are_drawn() {
        let mut model = model();
        press(&mut model, &[KeyCode::Char('?')]);
        assert!(drawn(&mut model, 80, 24).contains("requests in progress"), "the help");
        press(&mut model, &[KeyCode::Esc, KeyCode::Char('/'), KeyCode::Char('n')]);
        let screen = drawn(&mut model, 80, 24);
        assert!(
            screen.contains("Filter by name or state: /n_") && !screen.contains("called `build`"),
            "{screen}"
        );
        press(&mut model, &[KeyCode::Char('!'), KeyCode::Enter]);
        assert!(
            drawn(&mut model, 80, 24).contains("No agent matches /n!. Esc shows all."),
            "nothing matches"
        );
    }

    #[test]
    fn ui_2_without_colours_nothing_has_a_colour_and_the_badge_is_still_one() {
        let mut model = model();
        press(&mut model, &[KeyCode::Char('K')]);
        let plain = buffer(&mut model, (80, 24), Colors::OFF);
        assert!(plain.content.iter().all(|cell| (cell.fg, cell.bg) == (Color::Reset, Color::Reset)));
        assert!(plain[(8, 0)].modifier.contains(Modifier::REVERSED), "the state is a badge");
    }

    #[test]
    fn ui_2_no_text_has_a_colour_that_is_pale_on_a_light_terminal() {
        let mut model = model();
        for keys in [vec![], vec![KeyCode::Enter], vec![KeyCode::Char('K')]] {
            press(&mut model, &keys);
            let cells = buffer(&mut model, (120, 40), Colors::ON).content;
            let on_own = cells.iter().filter(|cell| cell.bg == Color::Reset);
            let allowed = [Color::Reset, Color::Red, Color::Magenta];
            on_own.for_each(|cell| assert!(allowed.contains(&cell.fg), "{cell:?}"));
        }
    }

    #[test]
    fn ui_2_a_tiny_terminal_does_not_panic() {
        for size in [(1, 1), (10, 3), (20, 5), (79, 20), (300, 80)] {
            for key in ['K', '?', '/', '\r'] {
                let mut model = model();
                press(&mut model, &[if key == '\r' { KeyCode::Enter } else { KeyCode::Char(key) }]);
                buffer(&mut model, size, Colors::ON);
            }
        }
    }
}
