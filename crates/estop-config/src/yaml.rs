//! YAML text to any type, with errors for people.

use serde::de::DeserializeOwned;

use super::explain;
use super::place::Step;
use super::problem::Problem;
use super::yaml_options::options;

/// Reads one YAML document. An empty text is an empty mapping.
pub fn read<T: DeserializeOwned>(text: &str, name: &str) -> Result<T, Problem> {
    let mut path = Vec::new();
    serde_saphyr::with_deserializer_from_str_with_options(text, options(), |yaml| {
        serde_path_to_error::deserialize(yaml).map_err(|error| {
            path = error.path().iter().map(Step::from).collect();
            error.into_inner()
        })
    })
    .map_err(|error| explain::yaml_error(&error, &path, text, name))
}
