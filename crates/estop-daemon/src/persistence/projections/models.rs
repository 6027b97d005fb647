//! The names of models, each with a place: a fleet asks for few, and counting spend compares places instead of texts.

use std::collections::HashMap;

use estop_core::ids::Name;

/// Models that have a place. Chosen: no fleet asks for so many. Where somebody makes names up, those that are met later are
/// booked together, as [`OTHER`]: each would be a row of its own, and rows fill the disk.
const KNOWN_MAX: usize = 1_024;
/// Models that one agent may be the first to ask for, so that one that makes names up does not take all places.
pub(super) const NEW_PER_AGENT_MAX: usize = 128;
/// Under which the rest is booked.
pub(super) const OTHER: &str = "other";

/// A model that was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Model {
    /// The one that has this place.
    Known(usize),
    /// One of too many.
    Other,
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
    /// The model of this name. Mostly the one that stands at `last`, which is where this one stands from here on. `new`
    /// counts those that its agent was the first to ask for.
    pub(super) fn called(&mut self, name: &str, last: &mut usize, new: &mut usize) -> Model {
        if self.known.get(*last).is_none_or(|known| **known != *name) {
            let Some(place) = self.place(name, new) else { return Model::Other };
            *last = place;
        }
        Model::Known(*last)
    }

    fn place(&mut self, name: &str, new: &mut usize) -> Option<usize> {
        if let Some(place) = self.places.get(name) {
            return Some(*place);
        }
        let place = self.known.len();
        (place < KNOWN_MAX && *new < NEW_PER_AGENT_MAX).then(|| {
            *new += 1;
            self.known.push(name.into());
            self.places.insert(name.into(), place);
            place
        })
    }

    /// What it is called.
    pub(super) fn name(&self, model: &Model) -> &str {
        match model {
            Model::Known(place) => self.known.get(*place).map_or("", |name| name),
            Model::Other => OTHER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn st_3_made_up_models_are_booked_together() {
        let mut models = Models::default();
        assert_eq!(models.name(&Model::default()), "");
        let known = |models: &mut Models, agent: usize, new: &mut usize| {
            let mut last = 0;
            let names = (0..NEW_PER_AGENT_MAX + 10).map(|n| format!("model-{agent}-{n}"));
            let known = names.map(|name| {
                let model = models.called(&name, &mut last, new);
                assert_eq!(models.called(&name, &mut last, new), model);
                assert!([name.as_str(), OTHER].contains(&models.name(&model)));
                model != Model::Other
            });
            known.filter(|is_known| *is_known).count()
        };
        let (mut one, mut another) = (0, 0);
        assert_eq!(known(&mut models, 1, &mut one), NEW_PER_AGENT_MAX);
        // An agent that makes names up takes nothing from the next, and keeps its own.
        assert_eq!(known(&mut models, 2, &mut another), NEW_PER_AGENT_MAX);
        assert_eq!(known(&mut models, 1, &mut one), NEW_PER_AGENT_MAX);
        for agent in 3..20 {
            known(&mut models, agent, &mut 0);
        }
        assert_eq!(models.known.len(), KNOWN_MAX);
        assert_eq!(models.called("", &mut 0, &mut one), Model::default());
    }
}
