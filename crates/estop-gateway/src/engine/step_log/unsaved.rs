//! Steps of stops on their way to the disk. Whoever deletes them, or switches them off, reaches them here too.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use estop_core::ids::Name;
use estop_core::operator::IncidentSteps;

/// Incidents whose steps wait, some 60 KB each at most. Beyond it the oldest steps are lost.
pub const WAITING_MAX: usize = 32;
/// Incidents of which is known why their steps could not be saved.
const KNOWN_MAX: usize = 1_000;

/// The steps of a stop, as they are to be saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepsToSave {
    /// Of which incident.
    pub incident: Name,
    /// Of which agent.
    pub agent: Name,
    /// When it was stopped.
    pub at: i64,
    /// What is to be saved.
    pub steps: IncidentSteps,
}

/// What is to be saved, and why some of it could not be.
#[derive(Default)]
pub struct UnsavedSteps(Mutex<VecDeque<Unsaved>>);

struct Unsaved {
    incident: Name,
    agent: Name,
    /// `None` = nothing was left to save.
    steps: Option<Arc<StepsToSave>>,
    /// `None` = nothing failed so far.
    why: Option<String>,
}

impl UnsavedSteps {
    /// Takes steps that are about to be saved. Gives those that are lost for it, if there are too many.
    pub fn add(&self, steps: StepsToSave) -> Option<Arc<StepsToSave>> {
        let mut all = self.lock();
        all.retain(|known| known.incident != steps.incident);
        let (incident, agent) = (steps.incident.clone(), steps.agent.clone());
        all.push_back(Unsaved { incident, agent, steps: Some(Arc::new(steps)), why: None });
        if all.len() > KNOWN_MAX {
            all.pop_front();
        }
        if all.iter().filter(|known| known.steps.is_some()).count() <= WAITING_MAX {
            return None;
        }
        all.iter_mut().find_map(|known| known.steps.take())
    }

    /// Steps that wait longest.
    pub fn oldest(&self) -> Option<Arc<StepsToSave>> {
        self.lock().iter().find_map(|known| known.steps.clone())
    }

    /// The steps of an incident, if they wait still.
    pub fn of(&self, incident: &str) -> Option<Arc<StepsToSave>> {
        self.lock().iter().find(|known| *known.incident == *incident)?.steps.clone()
    }

    /// They are saved, or nothing is to be said of them: whether they had failed before.
    pub fn end(&self, incident: &str) -> bool {
        let mut all = self.lock();
        let known = all.iter().position(|known| *known.incident == *incident);
        known.and_then(|at| all.remove(at)).is_some_and(|known| known.why.is_some())
    }

    /// They could not be saved: whether that is the first time. They wait, unless they were dropped meanwhile.
    pub fn failed(&self, incident: &str, why: &str) -> bool {
        let mut all = self.lock();
        let waiting = all.iter_mut().find(|known| *known.incident == *incident && known.steps.is_some());
        waiting.is_some_and(|known| known.why.replace(why.to_owned()).is_none())
    }

    /// They are lost.
    pub fn lost(&self, incident: &str, agent: &str, why: String) {
        let mut all = self.lock();
        all.retain(|known| *known.incident != *incident);
        if all.len() == KNOWN_MAX {
            all.pop_front();
        }
        all.push_back(Unsaved {
            incident: incident.into(),
            agent: agent.into(),
            steps: None,
            why: Some(why),
        });
    }

    /// Drops the steps of an incident that wait; gives what there was.
    pub fn forget(&self, incident: &str, why: &str) -> Option<Arc<StepsToSave>> {
        self.lock().iter_mut().find(|known| *known.incident == *incident)?.forget(why)
    }

    /// Drops all of an agent that waits.
    pub(super) fn forget_all(&self, agent: &str, why: &str) {
        let mut all = self.lock();
        all.iter_mut().filter(|known| *known.agent == *agent).for_each(|known| drop(known.forget(why)));
    }

    /// Why the steps of an incident could not be saved, if that is known.
    pub fn why(&self, incident: &str) -> Option<String> {
        self.lock().iter().find(|known| *known.incident == *incident)?.why.clone()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Unsaved>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Unsaved {
    fn forget(&mut self, why: &str) -> Option<Arc<StepsToSave>> {
        let steps = self.steps.take()?;
        self.why = Some(why.to_owned());
        Some(steps)
    }
}
