//! Where a key of the configuration was set: in the file, or by a variable.

use super::fault::ValueError;
use super::overrides::Override;
use super::problem::{Problem, Spot, printable_sentence};
use super::tree::{Node, Step, ValueSource};

/// What a configuration was made of.
#[derive(Clone, Copy)]
pub(super) struct Origin<'t> {
    pub(super) text: &'t str,
    /// The file alone, as a tree; `None` if there is none.
    pub(super) tree: Option<&'t Node>,
    /// The file's name.
    pub(super) name: &'t str,
    pub(super) overrides: &'t [Override],
}

impl Origin<'_> {
    /// The fault with its place: the variable that set the key, else its line, else the nearest thing around it.
    pub(super) fn problem(&self, fault: ValueError) -> Problem {
        let ValueError { keys, message, help } = fault;
        let message = printable_sentence(&message);
        let problem = if let Some(variable) = self.overrides.iter().find(|variable| variable.sets(&keys)) {
            variable.problem(message)
        } else if let Some(spot) = self.spot(&keys) {
            Problem::at(self.name, Some(spot), message)
        } else if let Some(variable) = self.overrides.iter().find(|variable| variable.is_below(&keys)) {
            variable.problem(message)
        } else {
            let around = (1..keys.len()).rev().find_map(|count| self.spot(&keys[..count]));
            Problem::at(self.name, around, message)
        };
        problem.with_help(help)
    }

    fn spot(&self, keys: &[String]) -> Option<Spot> {
        let path: Vec<Step> = keys.iter().cloned().map(Step::Key).collect();
        match self.tree?.at(&path)?.place {
            ValueSource::File(location) => Some(Spot::of(self.text, location)),
            ValueSource::Variable(_) | ValueSource::SectionFor(_) => None,
        }
    }
}
