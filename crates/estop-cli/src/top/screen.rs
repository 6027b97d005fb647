//! Draws what `estop top` knows; made for 80 × 24, fits any size.

use estop_config::printable::escaped;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Row, Table, TableState};
use serde_json::Value;

use super::model::{Model, Order, name_of};

pub(super) fn draw(frame: &mut Frame<'_>, model: &Model) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(3), Constraint::Min(3), Constraint::Length(2)])
            .areas(frame.area());
    frame.render_widget(Paragraph::new(header(model)), head);
    draw_agents(frame, body, model);
    frame.render_widget(Paragraph::new(footer(model)), foot);
    if let Some(order) = &model.asked {
        ask(frame, order, model);
    }
}

fn header(model: &Model) -> Vec<Line<'static>> {
    let (status, stats) = (&model.seen.status, &model.seen.stats);
    let state = status["state"].as_str().unwrap_or("unknown").to_uppercase().replace('_', " ");
    let problem = status["journalProblem"].as_str();
    let color = match status["state"].as_str() {
        Some("running") if problem.is_none() => Color::Green,
        Some("safe_mode") => Color::Yellow,
        _ => Color::Red,
    };
    let channel = |name: &'static str, key: &str| {
        let open = status[key] == true;
        let style = Style::new().fg(if open { Color::Green } else { Color::Red });
        Span::styled(format!("{name} {}  ", if open { "open" } else { "SHUT" }), style)
    };
    let first = Line::from(vec![
        Span::raw("estop  ").bold(),
        Span::styled(format!(" {state} "), Style::new().fg(Color::Black).bg(color).bold()),
        Span::raw("  "),
        channel("models", "llmEnabled"),
        channel("tools", "toolsEnabled"),
        channel("messages", "messagingEnabled"),
    ]);
    let usd = stats["spent_today"]["usd"].as_f64().unwrap_or(0.0);
    let second = Line::from(format!(
        "{} agents, {} active, {} stopped · {} calls · ${usd:.2} today · {} incidents, {} need you",
        stats["agents"],
        stats["active"],
        stats["inactive"],
        stats["in_flight"],
        stats["open_incidents"],
        stats["open_escalations"]
    ));
    let third = match (&model.trouble, status["state"].as_str()) {
        (Some(why), _) => {
            Line::from(format!("NO ANSWER, this is what was last seen: {}", escaped(why))).red()
        }
        (None, Some("running")) => Line::from(problem.unwrap_or_default().to_owned()).red(),
        (None, _) => {
            let text = |key: &str| escaped(status[key].as_str().unwrap_or_default()).to_string();
            Line::from(format!(
                "since {} by {} ({}) {}",
                text("since"),
                text("by"),
                text("reason"),
                text("note")
            ))
            .red()
        }
    };
    vec![first, second, third]
}

fn draw_agents(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let widths = [
        Constraint::Fill(1),
        Constraint::Length(15),
        Constraint::Length(8),
        Constraint::Length(11),
        Constraint::Length(6),
        Constraint::Length(5),
        Constraint::Length(10),
    ];
    let head = Row::new(["AGENT", "STATE", "DOES", "SCORE", "HEALTH", "CALLS", "TODAY"])
        .style(Style::new().add_modifier(Modifier::BOLD));
    let rows = model.seen.agents.iter().map(row);
    let table = Table::new(rows, widths).header(head).row_highlight_style(Style::new().reversed());
    let mut state = TableState::new().with_selected(model.row());
    if model.seen.agents.is_empty() {
        let text = "No agent has called yet. Point one at estop: `estop serve` prints the lines.";
        frame.render_widget(Paragraph::new(text), area);
    } else {
        frame.render_stateful_widget(table, area, &mut state);
    }
}

fn row(agent: &Value) -> Row<'static> {
    let kind = agent["state"]["kind"].as_str().unwrap_or("unknown").replace('_', " ");
    let (state, color) = match (agent["deactivated_by"].as_str(), &*kind) {
        (Some("kill_switch"), _) => ("KILL SWITCH".to_owned(), Color::Red),
        (Some(_), _) => ("inactive".to_owned(), Color::Red),
        (None, "active") => (kind, Color::Green),
        (None, "paused" | "outside hours" | "rate limited" | "cooling down") => (kind, Color::Yellow),
        (None, _) => (kind, Color::Red),
    };
    let number = |value: &Value| value.as_f64().map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
    let score = format!("{} / {}", number(&agent["score"]), number(&agent["kill_switch_threshold"]));
    let usd = agent["spent_today"]["usd"].as_f64().unwrap_or(0.0);
    let whole = |value: &Value| value.as_u64().map_or_else(|| "-".to_owned(), |value| value.to_string());
    Row::new(vec![
        Line::from(escaped(name_of(agent)).to_string()),
        Line::from(state).style(Style::new().fg(color)),
        Line::from(agent["mode"].as_str().unwrap_or("-").to_lowercase()),
        Line::from(score),
        Line::from(whole(&agent["health"])),
        Line::from(whole(&agent["in_flight"])),
        Line::from(format!("${usd:.4}")),
    ])
}

fn footer(model: &Model) -> Vec<Line<'static>> {
    let first = if model.said.is_empty() { model.why() } else { &*model.said };
    vec![
        Line::from(escaped(first).to_string()).bold(),
        Line::from("K stop everything   s stop   a activate   p pause/resume   ↑↓ choose   q quit").dim(),
    ]
}

fn ask(frame: &mut Frame<'_>, order: &Order, model: &Model) {
    let question = match order {
        Order::Quit => return,
        Order::Kill => format!("Stop EVERYTHING? {} calls are under way.", model.seen.stats["in_flight"]),
        Order::Stop(name) => format!("Stop the agent {}?", escaped(name)),
        Order::Activate(name) => format!("Let {} work again?", escaped(name)),
        Order::Pause(name) => format!("Pause {}?", escaped(name)),
        Order::Resume(name) => format!("Let {} go on?", escaped(name)),
    };
    let all = frame.area();
    let width = all.width.min(60);
    let height = all.height.min(5);
    let place = Rect { x: (all.width - width) / 2, y: (all.height - height) / 2, width, height };
    let color = if *order == Order::Kill { Color::Red } else { Color::Yellow };
    let text = vec![Line::from(question).bold(), Line::from(""), Line::from("y = yes, any other key = no")];
    frame.render_widget(Clear, place);
    frame.render_widget(
        Paragraph::new(text).centered().block(Block::bordered().border_style(Style::new().fg(color))),
        place,
    );
}

#[cfg(test)]
mod tests {
    use super::super::model::Seen;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde_json::json;

    fn drawn(model: &Model, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| draw(frame, model)).expect("drawn");
        terminal.backend().to_string()
    }

    fn model() -> Model {
        Model::new(Seen {
            status: json!({"state": "shutdown", "llmEnabled": false, "since": "2026-11-15T10:00:00Z", "by": "ann", "reason": "manual"}),
            stats: json!({"agents": 1, "inactive": 1, "paused": 0, "in_flight": 3, "spent_today": {"usd": 1.5},
                "open_incidents": 1, "open_escalations": 0}),
            agents: vec![json!({"id": "stuck\u{1b}[2J", "deactivated_by": "kill_switch", "score": 13.0,
                "kill_switch_threshold": 10.0, "health": 990, "in_flight": 0, "mode": "LOOPING", "spent_today": {"usd": 0.25}})],
        })
    }

    #[test]
    fn ui_2_eighty_by_twenty_four_shows_state_agents_and_keys() {
        let screen = drawn(&model(), 80, 24);
        for text in [
            "SHUTDOWN",
            "models SHUT",
            "KILL SWITCH",
            "13.0 / 10.0",
            "looping",
            "by ann",
            "K stop everything",
        ] {
            assert!(screen.contains(text), "{text}\n{screen}");
        }
        assert!(!screen.contains('\u{1b}'), "names cannot steer the terminal");
    }

    #[test]
    fn ui_2_a_tiny_terminal_does_not_panic() {
        for (width, height) in [(1, 1), (10, 3), (20, 5), (300, 80)] {
            let mut model = model();
            model.asked = Some(Order::Kill);
            drawn(&model, width, height);
        }
    }
}
