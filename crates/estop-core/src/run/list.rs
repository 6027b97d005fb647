//! All runs of one agent.

use super::{RUNS_MAX, Run, RunState};
use crate::ids::Name;
use crate::time::Millis;

/// All runs of one agent.
#[derive(Clone, Debug, Default)]
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

    /// Makes room and begins a run; `None` if all of them are still open.
    pub(crate) fn begin(&mut self, name: Option<Name>, attended: bool, now: Millis) -> Option<&mut Run> {
        if self.list.len() >= RUNS_MAX {
            let over = |state| move |r: &Run| r.is_over() && r.state == state;
            let at = self.list.iter().position(over(RunState::Completed));
            let at = at.or_else(|| self.list.iter().position(over(RunState::Escalated)))?;
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

    /// Activation resets what stands in the way: trips of implicit runs (LD-4).
    pub(crate) fn forget_implicit(&mut self) {
        self.list.retain(|r| r.name.is_some());
    }
}
