//! Which estop a client was told to ask: the words that start it, read back from what `estop install` wrote.

use estop_wire::hooks::HookClient;

use super::jsonc::{Node, Value};
use super::{entries, is_marked, mark};
use crate::clients::{Descriptor, HookForm};

/// The words that start estop in a file with our hooks, without `hook …`: the program and its options. Each once; none
/// if the file has none of ours or cannot be read.
///
/// ```
/// use estop_wire::hooks::HookClient;
/// use estop_cli::install::settings::{Scope, estop_words, targets};
///
/// let words = ["/opt/my tools/estop".to_owned(), "--agent".to_owned(), "it's".to_owned()];
/// for target in targets(HookClient::Codex, Scope::User, &words).expect("it has such a place") {
///     let text = target.add(None).expect("a new file");
///     assert_eq!(estop_words(HookClient::Codex, &text), [words.to_vec()]);
/// }
/// ```
pub fn estop_words(client: HookClient, text: &str) -> Vec<Vec<String>> {
    let mut found: Vec<Vec<String>> = match Descriptor::of(client).map(|found| &found.hook_form) {
        Some(HookForm::Plugin(_)) => text.lines().filter_map(plugin_words).collect(),
        Some(HookForm::Scripts) => text.lines().filter_map(|line| line_words(line, client)).collect(),
        Some(HookForm::Entries { .. } | HookForm::OwnFile) | None => {
            let Ok(root) = entries::read(text) else { return Vec::new() };
            let mut lines = Vec::new();
            texts(&root, &mut lines);
            lines.into_iter().filter_map(|line| line_words(line, client)).collect()
        }
    };
    found.sort();
    found.dedup();
    found
}

/// `const COMMAND = ["/usr/bin/estop"]`
fn plugin_words(line: &str) -> Option<Vec<String>> {
    serde_json::from_str(line.trim().strip_prefix("const COMMAND = ")?).ok()
}

fn line_words(line: &str, client: HookClient) -> Option<Vec<String>> {
    if !is_marked(line, client) {
        return None;
    }
    let event = line.rsplit(' ').nth(1)?;
    let command = line.strip_suffix(&mark(client, event))?;
    Some(unquoted(command.strip_prefix("exec ").unwrap_or(command)))
}

fn texts<'n>(node: &'n Node, found: &mut Vec<&'n str>) {
    match &node.value {
        Value::Text(_) => found.extend(node.text()),
        Value::Array(nodes) => nodes.iter().for_each(|node| texts(node, found)),
        Value::Object(members) => members.iter().for_each(|member| texts(&member.node, found)),
        Value::Plain => {}
    }
}

/// The way back from [`super::quoted`], for each word of a line.
fn unquoted(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match (quote, c) {
            (None, ' ') => words.extend(word.take()),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '\\') => word.get_or_insert_default().extend(rest.next()),
            (Some(open), c) if open == c => quote = None,
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::super::{Scope, quoted, targets};
    use super::*;

    #[test]
    fn tl_1_the_words_that_were_installed_are_read_back_for_every_client() {
        for path in ["/usr/bin/estop", "/my tools/estop", "/a'b/estop", "/a\"$b/estop", "/a\\b/estop"] {
            let words = vec![path.to_owned(), "--data-dir".to_owned(), "/var/lib/estop".to_owned()];
            for client in HookClient::ALL.into_iter().filter(|client| *client != HookClient::Generic) {
                let targets =
                    targets(client, Scope::User, &words).expect("everybody has a place for a person");
                let first = targets.first().expect("at least one file");
                let text = first.add(None).expect("a new file");
                assert_eq!(estop_words(client, &text), std::slice::from_ref(&words), "{client:?} {path}");
            }
        }
        assert!(
            estop_words(HookClient::Codex, "{\"hooks\": {\"Stop\": \"estop hook codex Stop\"}}").is_empty()
        );
        assert!(estop_words(HookClient::Codex, "{").is_empty());
    }

    #[test]
    fn tl_1_quoting_and_its_way_back_fit_together() {
        let all = ["", "a", "a b", "it's", "a\"b", "a\\", "a\\\\b", "$x", "a\nb"].map(str::to_owned);
        let line = all.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        assert_eq!(unquoted(&line), all);
    }
}
