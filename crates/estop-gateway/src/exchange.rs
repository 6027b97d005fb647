//! One exchange with an upstream, and what it needs, whatever its channel.

pub(crate) mod answer;
#[expect(clippy::module_inception, reason = "a stranger looks for the exchange there")]
pub(crate) mod exchange;
pub(crate) mod forward;
pub(crate) mod pricing;
pub(crate) mod rejection;
pub(crate) mod usage_meter;
pub(crate) mod worker;
