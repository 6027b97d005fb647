//! What all workers share, counted by each for itself: a count that every thread writes with each request would go from
//! core to core all the time.

use std::ops::Deref;
use std::sync::Arc;

/// One worker's hold on something shared.
#[expect(clippy::redundant_allocation, reason = "a count of its own is what it is for")]
#[derive(Debug)]
pub(crate) struct Near<T>(Arc<Arc<T>>);

impl<T> Near<T> {
    /// A hold of its own.
    pub(crate) fn new(shared: Arc<T>) -> Near<T> {
        Near(Arc::new(shared))
    }
}

impl<T> Clone for Near<T> {
    fn clone(&self) -> Near<T> {
        Near(Arc::clone(&self.0))
    }
}

impl<T> Deref for Near<T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        &self.0
    }
}
