//! The names of models, each with a place: a fleet asks for few, and who books compares places instead of texts.

use std::collections::HashMap;

use estop_core::ids::Name;

/// Models that have a place. Chosen: no fleet asks for so many. Where somebody makes names up, those that are met later are
/// copied with each request.
const KNOWN_MAX: usize = 1_024;

/// A model that was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Model {
    /// The one that has this place.
    Known(usize),
    /// One of too many.
    Other(Name),
}

/// The first has no name: of requests that named none.
pub(super) struct Models {
    known: Vec<Name>,
    places: HashMap<Name, usize>,
}

impl Default for Models {
    fn default() -> Models {
        Models { known: vec![Name::default()], places: HashMap::from([(Name::default(), 0)]) }
    }
}

impl Default for Model {
    fn default() -> Model {
        Model::Known(0)
    }
}

impl Models {
    /// The model of this name. Mostly the one that stands at `last`, which is where this one stands from here on.
    pub(super) fn called(&mut self, name: &str, last: &mut usize) -> Model {
        if self.known.get(*last).is_none_or(|known| **known != *name) {
            let Some(place) = self.place(name) else { return Model::Other(name.into()) };
            *last = place;
        }
        Model::Known(*last)
    }

    fn place(&mut self, name: &str) -> Option<usize> {
        if let Some(place) = self.places.get(name) {
            return Some(*place);
        }
        let place = self.known.len();
        (place < KNOWN_MAX).then(|| {
            self.known.push(name.into());
            self.places.insert(name.into(), place);
            place
        })
    }

    /// What it is called.
    pub(super) fn name<'a>(&'a self, model: &'a Model) -> &'a str {
        match model {
            Model::Known(place) => self.known.get(*place).map_or("", |name| name),
            Model::Other(name) => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn po_6_each_model_keeps_its_name_also_of_too_many() {
        let (mut models, mut last) = (Models::default(), 0);
        assert_eq!(models.name(&Model::default()), "");
        let names: Vec<String> = (0..KNOWN_MAX + 10).map(|n| format!("model-{n}")).collect();
        for _ in 0..2 {
            for name in &names {
                let model = models.called(name, &mut last);
                assert_eq!(models.name(&model), name);
                assert_eq!(models.called(name, &mut last), model);
            }
        }
        assert_eq!(models.known.len(), KNOWN_MAX);
        assert_eq!(models.called("", &mut last), Model::default());
    }
}
