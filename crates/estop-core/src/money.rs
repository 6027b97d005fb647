//! Money in whole nano-dollars: no rounding, no floats.

use serde::{Deserialize, Serialize};

/// A billionth of a US dollar. 2^64 of them are 18 billion dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NanoUsd(pub u64);

impl NanoUsd {
    /// One dollar.
    pub const DOLLAR: NanoUsd = NanoUsd(1_000_000_000);
}

impl std::fmt::Display for NanoUsd {
    /// Dollars and cents; below a cent, as many digits as it takes.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (dollars, nanos) = (self.0 / Self::DOLLAR.0, self.0 % Self::DOLLAR.0);
        if nanos.is_multiple_of(10_000_000) {
            return write!(f, "${dollars}.{:02}", nanos / 10_000_000);
        }
        let digits = format!("{nanos:09}");
        write!(f, "${dollars}.{}", digits.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_read_as_people_write_them() {
        let shown = |nanos| NanoUsd(nanos).to_string();
        assert_eq!(shown(0), "$0.00");
        assert_eq!(shown(12_340_000_000), "$12.34");
        assert_eq!(shown(1_500), "$0.0000015");
    }
}
