//! YAML text to any type, with errors for people.

use serde::de::DeserializeOwned;

use super::explain;
use super::problem::Problem;
use super::tree::{self, Node};

/// Reads one YAML document. An empty text is an empty mapping.
pub fn read<T: DeserializeOwned>(text: &str, name: &str) -> Result<T, Problem> {
    let tree = tree(text, name)?;
    T::deserialize(&tree).map_err(|refusal| explain::refused(&refusal, text, name, &[]))
}

/// Reads one YAML document as a tree.
pub(super) fn tree(text: &str, name: &str) -> Result<Node, Problem> {
    tree::read(text).map_err(|error| explain::not_yaml(&error, text, name))
}
