//! The one way out: whoever is told over a network is reached through here, and nowhere else.

mod address;
mod dial;
mod endpoint;
mod http;
mod poster;

pub use address::Reach;
pub(crate) use dial::{DialError, Dialer, Limited};
pub use dial::{Resolve, SystemResolver, TrustError};
pub(crate) use endpoint::host;
pub use endpoint::{Endpoint, EndpointError};
pub use http::CallError;
pub(crate) use http::{Answer, Call, Network};
pub use poster::Poster;
