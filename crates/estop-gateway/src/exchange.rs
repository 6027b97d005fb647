//! One exchange with an upstream, and what it needs, whatever its channel.

#[expect(clippy::module_inception, reason = "a stranger looks for the exchange there")]
pub(crate) mod exchange;
pub(crate) mod forward;
pub(crate) mod metered_body;
pub(crate) mod pricing;
pub(crate) mod rejection;
pub(crate) mod usage_meter;
pub(crate) mod worker;
