//! Asks before something is changed for good.

use std::io::{BufRead, IsTerminal, Write};

/// Asks on a terminal; everything but yes is no. `None` = there is nobody to ask: a pipe might never answer.
pub(super) fn confirmed(question: &str) -> Option<bool> {
    let (input, mut asked) = (std::io::stdin(), std::io::stderr());
    if !input.is_terminal() || !asked.is_terminal() {
        return None;
    }
    let mut line = String::new();
    let is_asked = write!(asked, "{question} [y/N] ").and_then(|()| asked.flush());
    let is_read = is_asked.and_then(|()| input.lock().read_line(&mut line)).is_ok();
    Some(is_read && ["y", "yes"].contains(&line.trim().to_ascii_lowercase().as_str()))
}
