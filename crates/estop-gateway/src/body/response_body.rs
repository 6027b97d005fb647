//! The body of an answer to a client: whoever answers chooses what is in it.

use bytes::Bytes;
use http_body::Body;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};

/// Why a body ended before its end. The connection is then broken off, so that nobody takes it for whole.
pub(crate) type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// The body of an answer.
pub(crate) type ResponseBody = UnsyncBoxBody<Bytes, BodyError>;

/// A body that is at hand.
pub(crate) fn full(bytes: impl Into<Bytes>) -> ResponseBody {
    boxed(Full::new(bytes.into()).map_err(|never| match never {}))
}

/// A body that comes.
pub(crate) fn boxed(body: impl Body<Data = Bytes, Error = BodyError> + Send + 'static) -> ResponseBody {
    body.boxed_unsync()
}
