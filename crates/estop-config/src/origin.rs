//! Where a key of the configuration was set: in the file, or by a variable.

use super::fault::ValueError;
use super::overrides::Override;
use super::problem::{Problem, Spot, printable_sentence};
use super::tree::{Node, Step, ValueSource};

/// One of the texts a configuration is made of.
#[derive(Clone, Copy)]
pub(super) struct SourceText<'t> {
    /// As the user named it.
    pub(super) name: &'t str,
    pub(super) text: &'t str,
}

/// What a configuration was made of.
#[derive(Clone, Copy)]
pub(super) struct Origin<'t> {
    /// The file itself first.
    pub(super) texts: &'t [SourceText<'t>],
    /// The files as a tree; `None` if there is none.
    pub(super) tree: Option<&'t Node>,
    pub(super) overrides: &'t [Override],
}

impl ValueSource {
    /// The text it stands in, and where.
    fn spot<'t>(self, texts: &[SourceText<'t>]) -> Option<(&'t str, Spot)> {
        match self {
            ValueSource::Text(number, location) => {
                let text = texts.get(number)?;
                Some((text.name, Spot::of(text.text, location)))
            }
            ValueSource::Variable(_) | ValueSource::SectionFor(_) => None,
        }
    }

    /// `FILE:LINE`; `None` = it stands in no file.
    pub(super) fn in_words(self, texts: &[SourceText<'_>]) -> Option<String> {
        self.spot(texts).map(|(name, spot)| format!("{}:{}", printable_sentence(name), spot.line))
    }

    /// A message about what stands here.
    pub(super) fn problem(self, texts: &[SourceText<'_>], message: String) -> Problem {
        match self.spot(texts) {
            Some((name, spot)) => Problem::at(name, Some(spot), message),
            None => Problem::at(texts.first().map_or("", |text| text.name), None, message),
        }
    }
}

impl Origin<'_> {
    /// The fault with its place: the variable that set the key, else its line, else the nearest thing around it.
    pub(super) fn problem(&self, fault: ValueError) -> Problem {
        let ValueError { keys, message, help } = fault;
        let message = printable_sentence(&message);
        let problem = if let Some(variable) = self.overrides.iter().find(|variable| variable.sets(&keys)) {
            variable.problem(message)
        } else if let Some(place) = self.place(&keys) {
            place.problem(self.texts, message)
        } else if let Some(variable) = self.overrides.iter().find(|variable| variable.is_below(&keys)) {
            variable.problem(message)
        } else {
            let around = (1..keys.len()).rev().find_map(|count| self.place(&keys[..count]));
            around.unwrap_or(ValueSource::SectionFor(0)).problem(self.texts, message)
        };
        problem.with_help(help)
    }

    /// Where a key stands in a text.
    fn place(&self, keys: &[String]) -> Option<ValueSource> {
        let path: Vec<Step> = keys.iter().cloned().map(Step::Key).collect();
        let place = self.tree?.at(&path)?.place;
        matches!(place, ValueSource::Text(..)).then_some(place)
    }
}
