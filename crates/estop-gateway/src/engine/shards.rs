//! A map cut into parts, so that threads rarely wait for each other.

use estop_core::ids::Hash64;

/// How many parts. Chosen: with 16 threads, one rarely finds another in the part it wants; more only make it longer to go
/// through all.
pub(crate) const SHARDS: usize = 64;

/// The parts of a map. Which one a key belongs to, its hash says.
pub(crate) struct Shards<T>([T; SHARDS]);

impl<T: Default> Default for Shards<T> {
    fn default() -> Shards<T> {
        Shards(std::array::from_fn(|_| T::default()))
    }
}

impl<T> Shards<T> {
    /// The part of the key with this hash.
    pub(crate) fn of(&self, key: Hash64) -> &T {
        &self.0[key.0 as usize % SHARDS]
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }
}
