//! Foreign text made harmless: one line, of bounded length, without anything a mail header, a terminal or a reader's eye
//! would obey (A11).

use estop_core::printable::hides;

/// The text on one line, cut after `chars_max` characters. What hides becomes a space, and spaces in a row become one.
pub(crate) fn one_line(text: &str, chars_max: usize) -> String {
    let mut words = text.split(|c: char| hides(c) || c.is_whitespace()).filter(|word| !word.is_empty());
    let mut out = words.next().unwrap_or_default().to_owned();
    for word in words {
        // Whatever comes is cut off below.
        if out.len() > chars_max * 4 {
            break;
        }
        out.push(' ');
        out.push_str(word);
    }
    let Some((end, _)) = out.char_indices().nth(chars_max) else { return out };
    out.truncate(out[..end].trim_end().len());
    out.push('…');
    out
}

/// Several lines, each made harmless, at most so many of them and so long.
pub(crate) fn few_lines(text: &str, lines_max: usize, chars_max: usize) -> String {
    let lines: Vec<String> = text
        .lines()
        .map(|line| one_line(line, chars_max))
        .filter(|line| !line.is_empty())
        .take(lines_max)
        .collect();
    lines.join("\n")
}

/// A word of a command that is copied into a shell.
pub(crate) fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':');
    let line = one_line(text, 128);
    if !line.is_empty() && !line.starts_with('-') && line.chars().all(is_plain) {
        return line;
    }
    format!("'{}'", line.replace('\'', "'\\''"))
}

/// Cut at a length in bytes, between characters.
pub(crate) fn within_bytes(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let ellipsis = "…";
    let mut end = bytes_max.saturating_sub(ellipsis.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{ellipsis}", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn al_1_foreign_text_stays_on_its_line() {
        assert_eq!(one_line("a\r\nBcc: evil@x\u{2028}b\u{202e}c\0", 99), "a Bcc: evil@x b c");
        assert_eq!(one_line("  grün   字 ", 99), "grün 字");
        assert_eq!(one_line("abcdef", 3), "abc…");
        assert_eq!(one_line("ab   ", 2), "ab");
    }

    #[test]
    fn al_1_a_name_in_a_command_runs_nothing() {
        assert_eq!(shell_word("coder-1"), "coder-1");
        assert_eq!(shell_word("a; rm -rf ~"), "'a; rm -rf ~'");
        assert_eq!(shell_word("it's $(x)\nls"), "'it'\\''s $(x) ls'");
        assert_eq!(shell_word("--force"), "'--force'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn al_1_a_cut_is_between_characters() {
        assert_eq!(within_bytes("字字字", 7), "字…");
        assert_eq!(within_bytes("abc", 3), "abc");
    }
}
