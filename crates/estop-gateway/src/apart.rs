//! What threads write to with each request, on cache lines of its own: else whoever writes takes the line of something
//! else away from the others too.

use estop_core::ids::Hash64;

/// Something on cache lines of its own. 128 bytes: processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Apart<T>(pub(crate) T);

/// How many parts a map is cut into that all threads use with each request. Chosen: with 16 threads, one rarely finds
/// another in the part it wants; more only make it longer to go through all.
pub(crate) const PARTS: usize = 64;

/// As many parts of a map. Which one a key belongs to, its hash says.
pub(crate) struct Parts<T>([Apart<T>; PARTS]);

impl<T: Default> Default for Parts<T> {
    fn default() -> Parts<T> {
        Parts(std::array::from_fn(|_| Apart::default()))
    }
}

impl<T> Parts<T> {
    /// The part of the key with this hash.
    pub(crate) fn of(&self, key: Hash64) -> &T {
        &self.0[key.0 as usize % PARTS].0
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|part| &part.0)
    }
}
