//! Lists as files for spreadsheets: the same rows as on the page, more of them.

use axum::response::{IntoResponse, Response};
use estop_core::printable::escaped;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};

/// Rows of a file at most: beyond them the page's filter helps, or `estop journal export`.
pub(super) const ROWS_MAX: usize = 10_000;

/// A file of this name. Every value stands in quotes.
pub(super) fn file(name: &str, heading: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Response {
    let mut text = String::new();
    line(&mut text, heading.iter().copied());
    for row in rows {
        line(&mut text, row.iter().map(String::as_str));
    }
    let headers = [
        (CONTENT_TYPE, "text/csv; charset=utf-8".to_owned()),
        (CONTENT_DISPOSITION, format!("attachment; filename=\"{name}.csv\"")),
    ];
    (headers, text).into_response()
}

fn line<'v>(text: &mut String, values: impl Iterator<Item = &'v str>) {
    for (at, value) in values.enumerate() {
        if at > 0 {
            text.push(',');
        }
        text.push('"');
        // A spreadsheet would compute what begins like a formula, some also behind a blank or in wide letters; names come from
        // outside.
        if value.trim_start().starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']) {
            text.push('\'');
        }
        text.push_str(&escaped(value).replace('"', "\"\""));
        text.push('"');
    }
    text.push_str("\r\n");
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn ui_1_no_value_of_a_file_is_a_formula_or_ends_its_field() {
        let mut text = String::new();
        line(&mut text, ["=1+1", "a\"b,c", "-", "plain"].into_iter());
        assert_eq!(text, "\"'=1+1\",\"a\"\"b,c\",\"'-\",\"plain\"\r\n");
        text.clear();
        line(&mut text, ["\t=cmd|'/C calc'!A0", "＠SUM(A1)", "a\u{202e}b\r\nc", " +1"].into_iter());
        assert_eq!(text, "\"'\\t=cmd|'/C calc'!A0\",\"'＠SUM(A1)\",\"a\\u{202e}b\\r\\nc\",\"' +1\"\r\n");
    }
}
