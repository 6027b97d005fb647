//! Which price a model has, by the provider it is asked of and the id as the client sent it.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use super::file::{self, PriceError};
use super::id::{ID_BYTES_MAX, folded, is_same_model, undated};
use super::{FREE, Price};

/// All prices: those of a file, and those a person set. The default knows none.
#[derive(Clone, Default)]
pub struct PriceTable {
    families: Arc<Families>,
    /// By the provider's name.
    tariffs: BTreeMap<Box<str>, Tariff>,
    /// By `model` or `provider/model`, in small letters.
    own: BTreeMap<Box<str>, Price>,
}

/// What a file says.
#[derive(Default)]
pub(super) struct Families {
    pub(super) as_of: Box<str>,
    pub(super) by_name: BTreeMap<Box<str>, Family>,
}

/// The models of one company. Ids and prefixes are in small letters and lead to a place in `prices`.
#[derive(Default)]
pub(super) struct Family {
    /// Where it is reached; `.example.com` is every host below.
    pub(super) hosts: Vec<Box<str>>,
    /// What clients put before its ids.
    pub(super) strip: Vec<Box<str>>,
    /// Whose models it sells too.
    pub(super) fallback: Vec<Box<str>>,
    pub(super) ids: BTreeMap<Box<str>, usize>,
    pub(super) prefixes: BTreeMap<Box<str>, usize>,
    /// Length of the shortest prefix.
    pub(super) prefix_bytes_min: usize,
    pub(super) prices: Vec<Price>,
}

/// Whose prices a provider has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tariff {
    /// Nothing costs anything: one's own machine.
    Free,
    /// Those of a provider of the file.
    As(Box<str>),
    /// Only those a person set.
    Own,
}

impl PriceTable {
    /// Reads a file of prices.
    pub fn from_json(text: &str) -> Result<PriceTable, PriceError> {
        Ok(PriceTable { families: Arc::new(file::read(text)?), ..PriceTable::default() })
    }

    /// The day the file's prices are of.
    pub fn as_of(&self) -> &str {
        &self.families.as_of
    }

    /// The providers of the file, in order of name.
    pub fn providers(&self) -> impl Iterator<Item = &str> + Clone {
        self.families.by_name.keys().map(AsRef::as_ref)
    }

    /// The provider of the file that is reached at this host.
    pub fn provider_at(&self, host: &str) -> Option<&str> {
        let is_at = |known: &str| known == host || known.starts_with('.') && host.ends_with(known);
        let mut families = self.families.by_name.iter();
        families.find(|(_, family)| family.hosts.iter().any(|known| is_at(known))).map(|(name, _)| &**name)
    }

    /// Says whose prices a provider has. Unsaid, it has those of its own name.
    pub fn set_provider(&mut self, provider: &str, tariff: Tariff) {
        self.tariffs.insert(provider.into(), tariff);
    }

    /// Sets the price of `model`, or of `provider/model`, over all others. Gives back the one it takes the place of.
    pub fn set_model(&mut self, model: &str, price: Price) -> Option<Price> {
        self.own.insert(model.to_ascii_lowercase().into(), price)
    }

    /// The price of a model, as the client names it, at a provider; `None` if nobody knows.
    pub fn find(&self, provider: &str, model: &str) -> Option<&Price> {
        let mut buffer = [0; ID_BYTES_MAX];
        let id = folded(&[model], &mut buffer).filter(|id| !id.is_empty())?;
        let family = match self.tariffs.get(provider) {
            Some(Tariff::As(name)) => self.families.by_name.get(name),
            Some(Tariff::Free | Tariff::Own) => None,
            None => self.families.by_name.get(provider),
        };
        let bare = family.and_then(|family| family.bare(id));
        if let Some(own) = self.own(provider, id, bare) {
            return Some(own);
        }
        if self.tariffs.get(provider) == Some(&Tariff::Free) {
            return Some(&FREE);
        }
        let family = family?;
        let others = family.fallback.iter().filter_map(|name| self.families.by_name.get(name));
        std::iter::once(family).chain(others).find_map(|family| family.find(id, bare))
    }

    /// A price a person set, for the id as it is, without what stands before it, and without its date.
    fn own(&self, provider: &str, id: &str, bare: Option<&str>) -> Option<&Price> {
        if self.own.is_empty() {
            return None;
        }
        let mut buffer = [0; ID_BYTES_MAX];
        let mut get = |id: &str| {
            let full = folded(&[provider, "/", id], &mut buffer).and_then(|full| self.own.get(full));
            full.or_else(|| self.own.get(id))
        };
        [Some(id), bare]
            .into_iter()
            .flatten()
            .find_map(|id| get(id).or_else(|| undated(id).and_then(&mut get)))
    }
}

impl Family {
    /// The id without what clients put before it.
    fn bare<'i>(&self, id: &'i str) -> Option<&'i str> {
        self.strip.iter().find_map(|before| id.strip_prefix(&**before))
    }

    fn find(&self, id: &str, bare: Option<&str>) -> Option<&Price> {
        let place = self.ids.get(id).or_else(|| self.place(bare.unwrap_or(id)))?;
        self.prices.get(*place)
    }

    fn place(&self, id: &str) -> Option<&usize> {
        let exact = self.ids.get(id).or_else(|| self.ids.get(undated(id)?));
        exact.or_else(|| self.longest_prefix(id))
    }

    /// In order, all prefixes of an id stand before it, the longest last, and none before its first bytes.
    fn longest_prefix(&self, id: &str) -> Option<&usize> {
        let first = id.get(..self.prefix_bytes_min)?;
        let before = self.prefixes.range::<str, _>((Bound::Included(first), Bound::Included(id))).rev();
        let mut rests = before
            .inspect(|_| crate::steps::add(1))
            .filter_map(|(prefix, place)| Some((prefix, id.strip_prefix(&**prefix)?, place)));
        let (prefix, rest, place) = rests.next()?;
        is_same_model(prefix, rest).then_some(place)
    }
}

impl fmt::Debug for PriceTable {
    /// Thousands of prices help nobody.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let models: usize = self.families.by_name.values().map(|family| family.prices.len()).sum();
        let mut shown = f.debug_struct("PriceTable");
        shown.field("as_of", &self.families.as_of).field("models", &models);
        shown.field("tariffs", &self.tariffs).field("own", &self.own).finish()
    }
}
