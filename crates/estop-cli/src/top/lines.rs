//! Texts for the screen of `estop top`: escaped, short, and wrapped.

use estop_config::printable::escaped;
use ratatui::text::Line;
use serde_json::Value;

/// The text of a field, safe to draw; empty if there is none.
pub(super) fn text(value: &Value) -> String {
    escaped(value.as_str().unwrap_or_default())
}

/// The time of day of a moment of the API.
fn time_of(moment: &Value) -> String {
    let at = moment.as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok());
    at.map_or_else(|| "--:--:--".to_owned(), |at| at.strftime("%H:%M:%S").to_string())
}

/// What an event says, in one line: its sentence, or its fields.
fn of_event(event: &Value) -> String {
    let detail = &event["detail"];
    let sentence = ["summary", "reason", "message"].into_iter().find_map(|key| detail[key].as_str());
    let is_telling = |sentence: &&str| sentence.contains(' ');
    if let Some(sentence) = sentence.filter(is_telling) {
        return escaped(sentence);
    }
    let fields = detail.as_object().into_iter().flatten();
    let shown = fields.filter_map(|(key, value)| match value {
        Value::String(text) if !text.is_empty() => Some(format!("{key}={text}")),
        Value::Number(_) | Value::Bool(_) => Some(format!("{key}={value}")),
        Value::String(_) | Value::Null | Value::Array(_) | Value::Object(_) => None,
    });
    escaped(&shown.collect::<Vec<_>>().join(" "))
}

/// An event in one line.
pub(super) fn event_line(event: &Value, with_agent: bool) -> Line<'static> {
    let kind = text(&event["event_type"]).replace('_', " ");
    let agent = if with_agent { format!("{:<12} ", text(&event["agent"])) } else { String::new() };
    Line::from(format!("{}  {agent}{kind:<18} {}", time_of(&event["at"]), of_event(event)))
}

/// A number with one digit, where there is one.
pub(super) fn number(value: &Value) -> String {
    value.as_f64().map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"))
}

/// `1 incident`, `2 incidents`.
pub(super) fn count(number: &Value, one: &str, many: &str) -> String {
    let number = number.as_u64().unwrap_or(0);
    format!("{number} {}", if number == 1 { one } else { many })
}

/// A text in lines of at most `width` characters, broken between words where it can be.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines: Vec<String> = Vec::new();
    let (mut line, mut used) = (String::new(), 0);
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > width {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        for letter in word.chars() {
            if used == width {
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            line.push(letter);
            used += 1;
        }
    }
    if used > 0 {
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ui_2_text_is_wrapped_between_words_and_nothing_is_lost() {
        assert_eq!(wrapped("to let it work again", 10), ["to let it", "work again"]);
        assert_eq!(wrapped("a unbreakable b", 4), ["a", "unbr", "eaka", "ble", "b"]);
        assert_eq!(wrapped("", 10), Vec::<String>::new());
        assert_eq!(wrapped("ab", 0), ["a", "b"]);
    }

    #[test]
    fn ui_2_an_event_is_one_line_that_cannot_steer_the_terminal() {
        let event = |detail: Value| of_event(&json!({"detail": detail}));
        assert_eq!(
            event(json!({"reason": "Loop: 5 times in a row.", "guard": "loop"})),
            "Loop: 5 times in a row."
        );
        assert_eq!(
            event(json!({"by": "ann", "reason": "manual", "n": 3, "x": null})),
            "by=ann n=3 reason=manual"
        );
        assert_eq!(event(json!({"note": "\u{1b}[2J\n"})), "note=\\u{1b}[2J\\n");
        assert_eq!(event(json!("text")), "");
    }

    #[test]
    fn ui_2_one_is_not_many() {
        assert_eq!(count(&json!(1), "incident", "incidents"), "1 incident");
        assert_eq!(count(&json!(0), "incident", "incidents"), "0 incidents");
        assert_eq!(time_of(&json!("2026-11-15T09:43:42.123Z")), "09:43:42");
        assert_eq!(time_of(&Value::Null), "--:--:--");
    }
}
