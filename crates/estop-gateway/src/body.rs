//! Bodies on their way: of a request from its client and to its upstream, and of the answer back.

pub(crate) mod inbound;
pub(crate) mod reading;
pub(crate) mod response_body;
pub(crate) mod upload;
