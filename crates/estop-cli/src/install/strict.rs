//! Whether a client reads its own settings file. Claude Code and Codex take no comments, nobody takes a comma before a
//! closing bracket; Codex then skips all hooks of the file without a word. What is skipped is not worth adding to.

use std::path::Path;

use estop_wire::hooks::HookClient;

use crate::clients::{Descriptor, HookForm};

/// Refuses a file that its client would not read.
pub(super) fn check(client: HookClient, path: &Path, text: &str) -> anyhow::Result<()> {
    let text = text.trim_start_matches('\u{feff}');
    let plain = match Descriptor::of(client).map(|found| &found.hook_form) {
        Some(HookForm::Entries { comments: false, .. }) => text.to_owned(),
        Some(HookForm::Entries { comments: true, .. }) => without_comments(text),
        // Their files are ours alone.
        Some(HookForm::OwnFile | HookForm::Scripts | HookForm::Plugin(_)) | None => return Ok(()),
    };
    if plain.trim().is_empty() {
        return Ok(());
    }
    match serde_json::from_str::<serde::de::IgnoredAny>(&plain) {
        Ok(_) => Ok(()),
        Err(error) => anyhow::bail!(
            "{}, line {}: {} cannot read this file ({error}), and would skip every hook in it. It was left as it is: \
             correct it, then try again",
            super::shown(path),
            error.line(),
            client.name()
        ),
    }
}

/// Comments become blanks, so that lines keep their numbers.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut is_text = false;
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('\\', Some(_)) if is_text => {
                out.push(c);
                out.extend(rest.next());
            }
            ('"', _) => {
                is_text = !is_text;
                out.push(c);
            }
            ('/', Some('/')) if !is_text => while rest.next_if(|c| *c != '\n').is_some() {},
            ('/', Some('*')) if !is_text => {
                rest.next();
                let mut before = ' ';
                for c in rest.by_ref() {
                    if c == '\n' {
                        out.push(c);
                    }
                    if (before, c) == ('*', '/') {
                        break;
                    }
                    before = c;
                }
            }
            (c, _) => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tl_1_a_file_its_client_would_not_read_is_refused_with_the_line() {
        let line = |client, text| match check(client, Path::new("/s.json"), text) {
            Ok(()) => 0,
            Err(error) => error
                .to_string()
                .split("line ")
                .nth(1)
                .and_then(|n| n.split(':').next()?.parse().ok())
                .unwrap_or(-1),
        };
        let comment = "{\n // mine\n /* two\n lines */ \"a\": \"// no \\\" /* comment\"\n}";
        assert_eq!(line(HookClient::GeminiCli, comment), 0);
        assert_eq!(line(HookClient::ClaudeCode, comment), 2);
        let comma = "{\n \"a\": 1, // x\n\n}";
        assert_eq!(line(HookClient::Qwen, comma), 4);
        assert_eq!(line(HookClient::Codex, "{\"a\": [1,\n]}"), 2);
        assert_eq!(line(HookClient::Codex, " \n"), 0);
        assert_eq!(line(HookClient::Cline, "{"), 0);
    }
}
