//! Documents that are read beside their way, such as answers: what nobody asks for does not matter, and what cannot be
//! read so is read in another way.

use super::{Fault, Fields, Kind, Scanner, What, skip};

/// Reads a whole text with `read`, for those who have another way if it cannot be read so.
pub(crate) fn scan<'a, T>(
    text: &'a str,
    read: impl FnOnce(&mut Scanner<'a>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let at = skip::white_space(text.as_bytes(), 0);
    let mut scanner = Scanner { text, base: 0, at, depth: 0, said: 0, keys: Vec::new() };
    let value = read(&mut scanner)?;
    scanner.end().map(|()| value)
}

impl Scanner<'_> {
    /// Goes through an object as [`Scanner::object`] does, but keys that nobody asks for do not matter, however often
    /// they come.
    pub(crate) fn loose_object<F: Copy + PartialEq>(
        &mut self,
        fields: &Fields<F>,
        mut each: impl FnMut(&mut Self, F) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.enter(Kind::Object, "an object")?;
        let mut seen = 0u64;
        let mut more = !self.leaves(b'}');
        while more {
            let at = self.place();
            let key = self.key()?;
            match fields.iter().position(|(name, _)| *name == key) {
                Some(nth) if seen & 1 << nth != 0 => return Err(Fault { at, what: What::DuplicateKey }),
                Some(nth) => {
                    seen |= 1 << nth;
                    each(self, fields[nth].1)?;
                }
                None => drop(self.skip()?),
            }
            more = self.goes_on(b'}', "`,` or `}` is expected")?;
        }
        Ok(())
    }
}
