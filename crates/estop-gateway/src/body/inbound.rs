//! A request as it came.

use http::Request;
use http::request::Parts;
use hyper::body::Incoming;

/// A request as it came.
pub(crate) struct Inbound {
    /// Boxed: each of the calls it goes through would copy it, and keep room for it.
    pub head: Box<Parts>,
    /// What follows.
    pub body: Incoming,
}

impl From<Request<Incoming>> for Inbound {
    fn from(request: Request<Incoming>) -> Inbound {
        let (head, body) = request.into_parts();
        Inbound { head: Box::new(head), body }
    }
}
