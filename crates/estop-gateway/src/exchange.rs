//! What every exchange with an upstream needs, whatever its channel.

pub(crate) mod answer;
pub(crate) mod exchange;
pub(crate) mod forward;
pub(crate) mod pricing;
pub(crate) mod rejection;
pub(crate) mod usage_meter;
pub(crate) mod worker;
