//! What clients put among the person's words by themselves: it is nobody's ask (FP-3).
//!
//! goose adds `<info-msg>` with the time, Claude Code `<system-reminder>`, Gemini CLI a sentence when its own guard sees a loop.
//! Taken for a person's words, each would begin a new ask, and a loop would never be one.

use std::borrow::Cow;

use estop_core::steps;
use memchr::{memchr, memchr_iter, memmem};

use super::content::MessageContent;

/// Blocks that are a client's own.
const BLOCKS: [(&str, &str); 2] =
    [("<info-msg>", "</info-msg>"), ("<system-reminder>", "</system-reminder>")];
/// How a client's own sentences begin.
const SENTENCES: [&str; 1] = ["System: Potential loop detected."];
/// How far into a message its beginning is looked for: past the names of its fields.
const START_BYTES: usize = 160;

/// Whether a message in the person's name is all a client's own.
pub(super) fn is_insert(said: &MessageContent<'_>) -> bool {
    // Nearly all messages are not: seen without decoding them.
    let Some(raw) = said.content else { return false };
    let start = &raw.text.as_bytes()[..raw.text.len().min(START_BYTES)];
    let may_be_block = memchr(b'<', start).is_some() && BLOCKS.iter().any(|(open, _)| has(start, open));
    if !may_be_block && !SENTENCES.iter().any(|begin| has(start, begin)) {
        return false;
    }
    // What cannot be decoded is told by whoever needs it.
    said.input().is_ok_and(|text| is_own(&text))
}

/// Whether a text stands somewhere in `start`. By its first byte, which is rare: preparing a real search costs more.
fn has(start: &[u8], text: &str) -> bool {
    let text = text.as_bytes();
    text.first().is_some_and(|first| memchr_iter(*first, start).any(|at| start[at..].starts_with(text)))
}

fn is_own(text: &str) -> bool {
    let said = text.trim();
    let is_sentence = SENTENCES.iter().any(|begin| said.starts_with(begin));
    is_sentence || !said.is_empty() && without(Cow::Borrowed(said)).trim().is_empty()
}

/// A person's words without the blocks a client put among them.
pub(super) fn without(text: Cow<'_, str>) -> Cow<'_, str> {
    if memchr(b'<', text.as_bytes()).is_none() {
        return text;
    }
    let mut left = text;
    for (open, close) in BLOCKS {
        if memmem::find(left.as_bytes(), open.as_bytes()).is_some() {
            left = Cow::Owned(cut(&left, open, close));
        }
    }
    left
}

/// Leaves out everything from `open` to `close`; a block that is never closed stays.
fn cut(text: &str, open: &str, close: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    // Each search begins where the one before it ended; one that finds nothing is the last.
    steps::add(2 * text.len());
    while let Some((before, inside)) = rest.split_once(open) {
        let Some((_, after)) = inside.split_once(close) else { break };
        kept.push_str(before);
        rest = after;
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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

    proptest! {
        #[test]
        fn fp_3_a_text_is_found_wherever_it_stands(start in "[<info\\-msg>S]{0,40}(<info-msg>|System)?[<i]{0,3}") {
            for text in ["<info-msg>", "<in", "System", "S"] {
                let slow = memmem::find(start.as_bytes(), text.as_bytes()).is_some();
                prop_assert_eq!(has(start.as_bytes(), text), slow);
            }
        }
    }

    #[test]
    fn fp_3_what_clients_add_to_a_persons_words_is_left_out() {
        let left = |text: &'static str| without(Cow::Borrowed(text)).into_owned();
        assert_eq!(left("Go on.\n<info-msg>It is 06:26</info-msg>"), "Go on.\n");
        assert_eq!(left("<system-reminder>a</system-reminder>x<system-reminder>b</system-reminder>"), "x");
        assert_eq!(left("a < b, <info-msg> never closed"), "a < b, <info-msg> never closed");
    }
}
