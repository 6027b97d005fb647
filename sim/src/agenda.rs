//! What is due when: a queue in order of time, first come first served among equals.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Things to do, by simulated milliseconds.
#[derive(Debug)]
pub struct Agenda<T> {
    heap: BinaryHeap<Entry<T>>,
    /// Breaks ties, so that the order never depends on the heap's inside.
    next: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: u64,
    order: u64,
    what: T,
}

impl<T> Default for Agenda<T> {
    fn default() -> Self {
        Agenda { heap: BinaryHeap::new(), next: 0 }
    }
}

impl<T> Agenda<T> {
    /// Remembers to do `what` at `at`.
    pub fn add(&mut self, at: u64, what: T) {
        self.next += 1;
        self.heap.push(Entry { at, order: self.next, what });
    }

    /// The next thing to do, and when.
    pub fn pop(&mut self) -> Option<(u64, T)> {
        self.heap.pop().map(|entry| (entry.at, entry.what))
    }
}

impl<T> Ord for Entry<T> {
    /// The heap gives the largest first; the earliest is to be it.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Entry<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earliest_first_and_equals_in_order_of_arrival() {
        let mut agenda = Agenda::default();
        for (at, what) in [(5, 'c'), (1, 'a'), (5, 'd'), (1, 'b')] {
            agenda.add(at, what);
        }
        let order: Vec<char> = std::iter::from_fn(|| agenda.pop()).map(|(_, what)| what).collect();
        assert_eq!(order, ['a', 'b', 'c', 'd']);
    }
}
