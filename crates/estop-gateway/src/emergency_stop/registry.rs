//! A list of things under way that a kill must find. Whoever starts one registers it first and reads the gate after; a
//! kill shuts the gate first and reads the list after. So at least one of the two sees the other.

use slab::Slab;

use crate::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The list.
pub(crate) struct Registry<T>(Mutex<Slab<Arc<T>>>);

impl<T> Registry<T> {
    /// An empty one.
    pub(crate) fn new() -> Registry<T> {
        Registry(Mutex::new(Slab::new()))
    }

    /// Adds one; `None` if there are `max` already.
    pub(crate) fn register(self: &Arc<Self>, thing: T, max: usize) -> Option<Entry<T>> {
        let mut list = self.lock();
        if list.len() >= max {
            return None;
        }
        let thing = Arc::new(thing);
        let key = list.insert(Arc::clone(&thing));
        Some(Entry { registry: Arc::clone(self), key, thing })
    }

    /// Does something with each of them, under the list's lock.
    pub(crate) fn for_each(&self, mut act: impl FnMut(&T)) {
        self.lock().iter().for_each(|(_, thing)| act(thing));
    }

    /// All of them, for what must not be done under the lock.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        self.lock().iter().map(|(_, thing)| Arc::clone(thing)).collect()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, Slab<Arc<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for Registry<T> {
    fn default() -> Registry<T> {
        Registry::new()
    }
}

/// Something on the list. Dropping it takes it off.
pub(crate) struct Entry<T> {
    registry: Arc<Registry<T>>,
    key: usize,
    thing: Arc<T>,
}

impl<T> Entry<T> {
    /// The thing itself, for whoever must outlive this.
    pub(crate) fn handle(&self) -> Arc<T> {
        Arc::clone(&self.thing)
    }
}

impl<T> std::ops::Deref for Entry<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.thing
    }
}

impl<T> Drop for Entry<T> {
    fn drop(&mut self) {
        self.registry.lock().try_remove(self.key);
    }
}
