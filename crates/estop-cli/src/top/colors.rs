//! Colours that can be read on dark and on light terminals. Every state is also said in words: with `NO_COLOR` nothing is lost.

use ratatui::style::{Color, Style};
use serde_json::Value;

use crate::client::variable;

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    /// As it should be.
    Plain,
    /// A person may look: refused for a while, or watched.
    Notice,
    /// A person must look: stopped.
    Alarm,
}

/// Whether colours are used. Text has the terminal's own colour, red or magenta: yellow, green and cyan are pale on white.
#[derive(Clone, Copy, Debug)]
pub(super) struct Colors {
    on: bool,
}

impl Colors {
    /// As <https://no-color.org> asks for it.
    pub(super) fn of_environment() -> Colors {
        Colors { on: variable("NO_COLOR").is_none() }
    }

    #[cfg(test)]
    pub(super) const ON: Colors = Colors { on: true };
    #[cfg(test)]
    pub(super) const OFF: Colors = Colors { on: false };

    pub(super) fn text(self, tone: Tone) -> Style {
        let style = if tone == Tone::Alarm { Style::new().bold() } else { Style::new() };
        match tone {
            Tone::Notice if self.on => style.fg(Color::Magenta),
            Tone::Alarm if self.on => style.fg(Color::Red),
            Tone::Plain | Tone::Notice | Tone::Alarm => style,
        }
    }

    /// A word on a background of its own.
    pub(super) fn badge(self, tone: Tone) -> Style {
        let color = match tone {
            Tone::Plain => Color::Green,
            Tone::Notice => Color::Yellow,
            Tone::Alarm => Color::Red,
        };
        let style = Style::new().bold();
        match (self.on, tone) {
            (false, _) => style.reversed(),
            (true, Tone::Alarm) => style.fg(Color::White).bg(color),
            (true, Tone::Plain | Tone::Notice) => style.fg(Color::Black).bg(color),
        }
    }
}

/// How its state is drawn.
pub(super) fn tone_of(agent: &Value) -> Tone {
    match agent["state"]["kind"].as_str() {
        Some("active") => Tone::Plain,
        Some("stopped" | "shut" | "budget_spent" | "at_run_limit") | None => Tone::Alarm,
        Some(_) => Tone::Notice,
    }
}
