//! The client connections of one worker.

use std::sync::{Arc, Mutex, PoisonError};

use slab::Slab;

use crate::connection::Connection;

/// The client connections of one worker.
#[derive(Default)]
pub(crate) struct Connections(Mutex<Slab<Arc<Connection>>>);

impl Connections {
    /// Adds one, until the guard is dropped.
    pub(crate) fn add(self: &Arc<Self>, connection: Arc<Connection>) -> Listed {
        let key = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(connection);
        Listed { connections: Arc::clone(self), key }
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
