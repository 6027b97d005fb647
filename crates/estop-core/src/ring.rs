//! A ring of bounded length and bounded memory.

use std::collections::VecDeque;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Pushes into a ring that holds at most `max`, growing its memory no further than that.
pub(crate) fn push_bounded<T>(ring: &mut VecDeque<T>, item: T, max: usize) {
    while ring.len() >= max.max(1) {
        ring.pop_front();
    }
    if ring.len() == ring.capacity() {
        let wanted = (ring.len() * 2).max(4).min(max.max(1));
        ring.reserve_exact(wanted - ring.len());
    }
    ring.push_back(item);
}

/// A ring of at most `N` in one piece of memory; copied without an allocation of its own. Written as a list, oldest first.
#[derive(Clone, Debug)]
pub(crate) struct Ring<T, const N: usize> {
    items: [T; N],
    len: usize,
    /// Where the next one goes.
    next: usize,
}

impl<T: Copy + Default, const N: usize> Default for Ring<T, N> {
    fn default() -> Self {
        Ring { items: [T::default(); N], len: 0, next: 0 }
    }
}

impl<T: Copy + Default, const N: usize> Ring<T, N> {
    /// Adds one; if it is full, the oldest goes.
    pub(crate) fn push(&mut self, item: T) {
        self.items[self.next] = item;
        self.next = (self.next + 1) % N;
        self.len = (self.len + 1).min(N);
    }

    /// All of them, oldest first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        let (newer, older) = self.items[..self.len].split_at(if self.len < N { 0 } else { self.next });
        older.iter().chain(newer)
    }
}

impl<T: PartialEq, const N: usize> Ring<T, N> {
    /// Whether it holds this one. In no order: the compiler compares many at once.
    pub(crate) fn contains(&self, item: &T) -> bool {
        self.items[..self.len].contains(item)
    }
}

impl<T: Copy + Default + PartialEq, const N: usize> PartialEq for Ring<T, N> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<T: Copy + Default + Eq, const N: usize> Eq for Ring<T, N> {}

impl<T: Copy + Default + Serialize, const N: usize> Serialize for Ring<T, N> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(self.iter())
    }
}

impl<'de, T: Copy + Default + Deserialize<'de>, const N: usize> Deserialize<'de> for Ring<T, N> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        // A state may come from anybody's export: what is too much goes as if it had been added.
        let items: Vec<T> = Vec::deserialize(d)?;
        let mut ring = Ring::default();
        items.into_iter().for_each(|item| ring.push(item));
        Ok(ring)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ld_5_a_ring_holds_the_newest_and_is_read_back_as_it_was() {
        let mut ring: Ring<u8, 3> = Ring::default();
        for (item, expected) in [(1, "[1]"), (2, "[1,2]"), (3, "[1,2,3]"), (4, "[2,3,4]"), (5, "[3,4,5]")] {
            ring.push(item);
            let text = serde_json::to_string(&ring).expect("a list");
            assert_eq!(text, expected);
            let read: Ring<u8, 3> = serde_json::from_str(&text).expect("what was written");
            assert!(read.iter().eq(ring.iter()));
        }
        assert_eq!(ring.iter().next_back(), Some(&5));
        assert!([3, 4, 5].iter().all(|item| ring.contains(item)) && !ring.contains(&2));
        assert!(!Ring::<u8, 3>::default().contains(&0), "what was never added");
    }
}
