//! Schemas in a word or two, with links to what they name; and the escaping of every text.

use serde_json::Value;

/// More words than this are not shown: time zones fill pages.
const WORDS_MAX: usize = 12;

/// A schema in a word or two, as HTML.
pub(super) fn kind_of(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = escaped(reference.rsplit('/').next().unwrap_or_default());
        return format!("<a href=\"#schema-{name}\">{name}</a>");
    }
    if schema["items"].is_object() {
        return format!("list of {}", kind_of(&schema["items"]));
    }
    if let Some(words) = schema["enum"].as_array() {
        let shown: Vec<String> = words.iter().map(text).take(WORDS_MAX).map(escaped).collect();
        let more = words.len() - shown.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        return format!("{}{more}", shown.join(", "));
    }
    if let Some(one_of) = schema["oneOf"].as_array() {
        return either(one_of.iter().map(kind_of));
    }
    match &schema["type"] {
        Value::String(kind) => escaped(kind),
        Value::Array(kinds) => either(kinds.iter().map(|kind| escaped(text(kind)))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

fn either(kinds: impl Iterator<Item = String>) -> String {
    let (null, mut kinds): (Vec<String>, Vec<String>) = kinds.partition(|kind| kind == "null");
    kinds.extend(null);
    kinds.join(" or ")
}

/// A string; empty if it is none.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Appends them all.
pub(super) fn put(page: &mut String, parts: &[&str]) {
    parts.iter().for_each(|part| page.push_str(part));
}

/// Sentences as HTML: what stands between backticks is code.
pub(super) fn prose(text: &str) -> String {
    let escaped = escaped(text);
    let pieces: Vec<&str> = escaped.split('`').collect();
    if pieces.len().is_multiple_of(2) {
        return escaped;
    }
    let tag = |at: usize| {
        if at == 0 {
            ""
        } else if at.is_multiple_of(2) {
            "</code>"
        } else {
            "<code>"
        }
    };
    pieces.iter().enumerate().map(|(at, piece)| format!("{}{piece}", tag(at))).collect()
}

/// A text as HTML.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ui_3_text_cannot_become_markup() {
        assert_eq!(prose("a `<b>` & 'c'"), "a <code>&lt;b&gt;</code> &amp; &#39;c&#39;");
        assert_eq!(prose("one ` alone <i>"), "one ` alone &lt;i&gt;");
        assert_eq!(prose("`x` and `y`"), "<code>x</code> and <code>y</code>");
    }
}
