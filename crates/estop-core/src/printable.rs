//! Text from files, made safe to print: a name must not move the cursor, fake a line or turn the reading order round.

/// The text on one line, with everything a terminal would obey shown as an escape.
pub fn escaped(text: &str) -> String {
    text.chars().flat_map(escape).collect()
}

/// The same, cut after `chars_max` characters.
pub fn escaped_within(text: &str, chars_max: usize) -> String {
    let mut out: String = text.chars().take(chars_max).flat_map(escape).collect();
    if text.chars().nth(chars_max).is_some() {
        out.push('…');
    }
    out
}

/// A message of several lines, which stay lines.
pub fn escaped_lines(text: &str) -> String {
    text.split('\n').map(escaped).collect::<Vec<_>>().join("\n")
}

/// Characters that move the cursor, hide, or reorder what is shown.
pub fn hides(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}' | '\u{200b}'..='\u{200f}')
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{e0000}'..='\u{e007f}')
}

fn escape(c: char) -> impl Iterator<Item = char> {
    let hidden = hides(c);
    hidden.then(|| c.escape_default()).into_iter().flatten().chain((!hidden).then_some(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_shown_and_the_rest_is_kept() {
        assert_eq!(escaped("a\n\u{1b}[2Jb\u{9b}c\u{202e}d"), "a\\n\\u{1b}[2Jb\\u{9b}c\\u{202e}d");
        assert_eq!(escaped("grün 字 👍"), "grün 字 👍");
        assert_eq!(escaped_lines("a\n\tb\r"), "a\n\\tb\\r");
        assert_eq!(escaped_within("\u{7}abc", 2), "\\u{7}a…");
    }
}
