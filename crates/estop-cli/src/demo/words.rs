//! Sentences that are never the same: what healthy agents say and hear.

const WORDS: [&str; 64] = [
    "parser", "ledger", "river", "window", "orchard", "compass", "lantern", "harbour", "index", "thread",
    "canvas", "signal", "meadow", "engine", "bridge", "pattern", "copper", "garden", "socket", "anchor",
    "timber", "kernel", "valley", "mirror", "pillow", "stream", "castle", "basket", "driver", "feather",
    "hammer", "island", "jacket", "kettle", "ladder", "magnet", "needle", "oyster", "pencil", "quarry",
    "ribbon", "saddle", "tunnel", "urchin", "velvet", "walnut", "yellow", "zephyr", "amber", "birch",
    "cedar", "delta", "ember", "fjord", "grove", "heron", "ivory", "jolly", "knoll", "lemon", "maple",
    "nectar", "onyx", "plume",
];

/// Numbers that look random and come out the same each time.
pub(super) struct Words(u64);

impl Words {
    pub(super) fn from(seed: u64) -> Words {
        Words(seed)
    }

    fn next(&mut self) -> &'static str {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let at = usize::try_from((mixed ^ (mixed >> 31)) % WORDS.len() as u64).unwrap_or(0);
        WORDS.get(at).copied().unwrap_or("word")
    }

    /// Some words in a row.
    pub(super) fn some(&mut self, count: usize) -> String {
        (0..count).map(|_| self.next()).collect::<Vec<_>>().join(" ")
    }
}
