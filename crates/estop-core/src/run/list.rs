//! All runs of one agent.

use super::{IMPLICIT_IDLE_MS, RUNS_MAX, Run, RunState};
use serde::{Deserialize, Serialize};

use crate::ids::Name;
use crate::time::Millis;

/// All runs of one agent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Runs {
    list: Vec<Run>,
    next_serial: u32,
}

impl Runs {
    pub(crate) fn get(&self, name: Option<&str>) -> Option<&Run> {
        self.list.iter().find(|r| r.name.as_deref() == name)
    }

    pub(crate) fn get_mut(&mut self, name: Option<&str>) -> Option<&mut Run> {
        self.list.iter_mut().find(|r| r.name.as_deref() == name)
    }

    pub(crate) fn by_serial(&mut self, serial: u32) -> Option<&mut Run> {
        self.list.iter_mut().find(|r| r.serial == serial)
    }

    /// Whether there is room for one more run.
    pub(crate) fn has_room(&self, now: Millis) -> bool {
        self.list.len() < RUNS_MAX || self.dispensable(now).is_some()
    }

    /// The run to forget first: the oldest completed, then the one idle longest. One that tripped or was escalated is
    /// never forgotten for another: it could be begun anew.
    fn dispensable(&self, now: Millis) -> Option<usize> {
        let completed = self.list.iter().position(|r| r.state == RunState::Completed);
        let is_held = |r: &Run| r.is_tripped() || r.state == RunState::Escalated;
        let idle = |r: &Run| !is_held(r) && now.since(r.last_activity) >= IMPLICIT_IDLE_MS;
        let idlest = || {
            let idle = self.list.iter().enumerate().filter(|(_, r)| idle(r));
            idle.min_by_key(|(_, r)| r.last_activity).map(|(at, _)| at)
        };
        completed.or_else(idlest)
    }

    /// Makes room and begins a run; `None` if all of them are busy.
    pub(crate) fn begin(&mut self, name: Option<Name>, attended: bool, now: Millis) -> Option<&mut Run> {
        if self.list.len() >= RUNS_MAX {
            let at = self.dispensable(now)?;
            self.list.remove(at);
        }
        let serial = self.next_serial;
        self.next_serial = serial.wrapping_add(1);
        self.list.reserve_exact(1);
        self.list.push(Run::new(name, serial, attended, now));
        self.list.last_mut()
    }

    pub(crate) fn remove(&mut self, serial: u32) {
        self.list.retain(|r| r.serial != serial);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Run> {
        self.list.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Run> {
        self.list.iter_mut()
    }

    /// An implicit run at a limit begins anew.
    pub(crate) fn release_implicit(&mut self) {
        self.list.retain(|r| r.name.is_some() || !r.is_tripped());
    }

    /// A completed run of this name begins anew.
    pub(crate) fn forget_completed(&mut self, name: Option<&str>) {
        self.list.retain(|r| r.state != RunState::Completed || r.name.as_deref() != name);
    }

    /// Activation resets what stands in the way: trips of implicit runs (LD-4).
    pub(crate) fn forget_implicit(&mut self) {
        self.list.retain(|r| r.name.is_some());
    }
}
