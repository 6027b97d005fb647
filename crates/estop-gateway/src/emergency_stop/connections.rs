//! The client connections of one worker.

use std::sync::{Arc, Mutex, PoisonError};

use estop_core::time::Millis;
use slab::Slab;

use crate::emergency_stop::connection::{Connection, Waiting};

/// The client connections of one worker.
#[derive(Default)]
pub(crate) struct Connections(Mutex<Slab<Arc<Connection>>>);

impl Connections {
    /// Adds one, until the guard is dropped.
    pub(crate) fn add(self: &Arc<Self>, connection: Arc<Connection>) -> Listed {
        let key = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(connection);
        Listed { connections: Arc::clone(self), key }
    }

    /// Closes the one that has waited longest for its next request, if any waits.
    pub(crate) fn close_longest_idle(&self, now: Millis) {
        let idle_ms = |connection: &Arc<Connection>| match connection.waiting(now) {
            Waiting::Idle(ms) => Some(ms),
            Waiting::No | Waiting::ForHead(_) => None,
        };
        let list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = list.iter().filter_map(|(_, connection)| Some((idle_ms(connection)?, connection)));
        let longest = idle.max_by_key(|(ms, _)| *ms).map(|(_, connection)| Arc::clone(connection));
        drop(list);
        longest.inspect(|connection| connection.close());
    }

    /// Does something with each of them.
    pub(crate) fn for_each(&self, mut act: impl FnMut(&Connection)) {
        let list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.iter().for_each(|(_, connection)| act(connection));
    }
}

/// A connection on the list.
pub(crate) struct Listed {
    connections: Arc<Connections>,
    key: usize,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.connections.0.lock().unwrap_or_else(PoisonError::into_inner).try_remove(self.key);
    }
}
