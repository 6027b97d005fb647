//! The one way out: whoever is told over a network is reached through here, and nowhere else.

mod address;
mod dial;
mod endpoint;
mod http;

pub use address::Reach;
pub(crate) use dial::{DialError, Dialer, Limited, TrustError};
pub use dial::{Resolve, SystemResolver};
pub(crate) use endpoint::host;
pub use endpoint::{Endpoint, EndpointError};
pub(crate) use http::{Answer, Call, Network};
