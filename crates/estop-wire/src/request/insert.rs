//! What clients put among the person's words by themselves: it is nobody's ask (FP-3).
//!
//! goose adds `<info-msg>` with the time, Claude Code `<system-reminder>`, Gemini CLI a sentence when its own guard sees a loop.
//! Taken for a person's words, each would begin a new ask, and a loop would never be one.

use memchr::memmem;

use super::content::Said;

/// Blocks that are a client's own.
const BLOCKS: [(&str, &str); 2] =
    [("<info-msg>", "</info-msg>"), ("<system-reminder>", "</system-reminder>")];
/// How a client's own sentences begin.
const SENTENCES: [&str; 1] = ["System: Potential loop detected."];
/// How far into a message its beginning is looked for: past the names of its fields.
const START_BYTES: usize = 160;

/// Whether a message in the person's name is all a client's own.
pub(super) fn is_insert(said: &Said<'_>) -> bool {
    // Nearly all messages are not: seen without decoding them.
    let Some(raw) = said.content else { return false };
    let start = &raw.text.as_bytes()[..raw.text.len().min(START_BYTES)];
    let begins = BLOCKS.iter().map(|(open, _)| *open).chain(SENTENCES);
    if !begins.into_iter().any(|begin| memmem::find(start, begin.as_bytes()).is_some()) {
        return false;
    }
    // What cannot be decoded is told by whoever needs it.
    said.input().is_ok_and(|text| is_own(&text))
}

fn is_own(text: &str) -> bool {
    let mut rest = text.trim();
    if SENTENCES.iter().any(|begin| rest.starts_with(begin)) {
        return true;
    }
    while !rest.is_empty() {
        let block = BLOCKS.iter().find_map(|(open, close)| rest.strip_prefix(open)?.split_once(close));
        let Some((_, after)) = block else { return false };
        rest = after.trim_start();
    }
    !text.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::is_own;

    #[test]
    fn fp_3_what_clients_add_by_themselves_is_nobodys_ask() {
        assert!(is_own("<info-msg>\nIt is currently 2026-11-15 06:26:00\n</info-msg>"));
        assert!(is_own("<system-reminder>a</system-reminder>\n<system-reminder>b</system-reminder>\n"));
        assert!(is_own("System: Potential loop detected. Details: Repeated tool call"));
        assert!(!is_own("<system-reminder>a</system-reminder>\nFix the test, please."));
        assert!(!is_own("What does <info-msg> mean?"));
        assert!(!is_own("<info-msg>never closed"));
        assert!(!is_own(""));
    }
}
