//! Whether a request may come in, and who sends it.

pub(crate) mod cross_site;
pub(crate) mod http_checks;
pub(crate) mod identity;
pub(crate) mod tags;
