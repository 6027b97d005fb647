//! Tables in the terminal, and values of the API as people read them. Whatever comes from outside is escaped here.

use estop_config::printable::escaped_within;
use serde_json::Value;

/// Longer texts are cut; `--json` has them whole.
const CELL_MAX: usize = 120;

/// Narrower terminals get a table that is wider than they are: cells of a few letters read worse than a broken line.
const WIDTH_MIN: u16 = 40;

/// An empty table, as wide as the terminal; where no terminal reads it as COLUMNS says, and else as wide as it must be.
fn fitted() -> comfy_table::Table {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| size.ws_col);
    let exported = || std::env::var("COLUMNS").ok()?.parse().ok();
    fitted_to(size.filter(|columns| *columns > 0).or_else(exported).filter(|columns| *columns > 0))
}

fn fitted_to(columns: Option<u16>) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_FULL_CONDENSED);
    if let Some(columns) = columns {
        table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
        table.set_width(columns.max(WIDTH_MIN));
    }
    table
}

/// A table with a heading.
pub(super) fn table<const N: usize>(
    heading: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut table = fitted();
    table.set_header(heading);
    table.add_rows(rows);
    table.to_string()
}

/// A list as a table; without entries, the sentence.
pub(super) fn list<const N: usize>(
    entries: &Value,
    none: &str,
    heading: [&str; N],
    row: impl Fn(&Value) -> [String; N],
) -> String {
    match each(entries) {
        [] => none.to_owned(),
        entries => table(heading, entries.iter().map(row)),
    }
}

/// One thing, a line for each of its properties.
pub(super) fn properties<'a>(rows: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let mut table = fitted();
    table.add_rows(rows.into_iter().map(|(name, value)| [name.to_owned(), value]));
    table.to_string()
}

/// The entries of a list; none if it is no list.
pub(super) fn each(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

/// A value, safe to print.
pub(super) fn cell(value: &Value) -> String {
    match value {
        Value::Null => "–".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) => escaped_within(text, CELL_MAX),
        Value::Number(_) | Value::Array(_) | Value::Object(_) => escaped_within(&value.to_string(), CELL_MAX),
    }
}

/// A moment of the API, to the second.
pub(super) fn moment(value: &Value) -> String {
    let Some(at) = value.as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok()) else {
        return cell(value);
    };
    at.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// Dollars.
pub(super) fn dollars(value: &Value) -> String {
    value.as_f64().map_or_else(|| cell(value), |usd| format!("${usd:.4}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ui_2_a_table_fits_the_terminal_and_loses_nothing() {
        let words: Vec<String> = (0..60).map(|n| format!("word{n}")).collect();
        for columns in [40_u16, 80, 120] {
            let mut table = fitted_to(Some(columns));
            table.set_header(["check", "what it found", "fix"]);
            table.add_row(["ports", &words.join(" "), "estop doctor"]);
            let text = table.to_string();
            assert!(text.lines().all(|line| line.chars().count() <= columns.into()), "{columns}:\n{text}");
            assert!(words.iter().all(|word| text.contains(word)), "{columns}:\n{text}");
        }
        let mut piped = fitted_to(None);
        piped.add_row([words.join(" ")]);
        assert!(piped.to_string().contains(&words.join(" ")), "a pipe gets whole cells");
    }

    #[test]
    fn values_are_shown_for_people_and_cannot_move_the_cursor() {
        assert_eq!(cell(&json!("a\u{1b}[2J\nb")), "a\\u{1b}[2J\\nb");
        assert_eq!(cell(&json!({"a": "\u{202e}"})), "{\"a\":\"\\u{202e}\"}");
        assert_eq!([cell(&Value::Null), cell(&json!(true)), cell(&json!(1.5))], ["–", "yes", "1.5"]);
        assert_eq!(moment(&json!("2026-11-15T09:43:42.123Z")), "2026-11-15 09:43:42Z");
        assert_eq!(moment(&json!("\u{7}")), "\\u{7}");
        assert_eq!(list(&json!([]), "None.", ["a"], |_| [String::new()]), "None.");
    }
}
