//! YAML text to any type, with errors for people.

use serde::de::DeserializeOwned;

use super::explain;
use super::origin::SourceText;
use super::problem::Problem;
use super::tree::{self, Node};

/// Reads one YAML document. An empty text is an empty mapping.
pub fn read<T: DeserializeOwned>(text: &str, name: &str) -> Result<T, Problem> {
    let tree = tree(text, name)?;
    T::deserialize(&tree).map_err(|refusal| explain::refused(&refusal, &[SourceText { name, text }], &[]))
}

/// Reads one YAML document as a tree.
pub(super) fn tree(text: &str, name: &str) -> Result<Node, Problem> {
    tree::read(text).map_err(|error| explain::not_yaml(&error, text, name))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn ui_5_a_number_that_is_wanted_as_a_text_is_the_one_that_is_written() {
        let text = "a: &r 007\nb: *r\nc: 1.10\nd: 'off'\n";
        let read: BTreeMap<String, String> = read(text, "f").expect("texts");
        let expected = [("a", "007"), ("b", "007"), ("c", "1.10"), ("d", "off")];
        assert_eq!(read, expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    }
}
