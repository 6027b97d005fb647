//! A rejected request, as its provider's clients read it (AN-1, AN-2).

use estop_core::policy::BlockResponse;
use estop_wire::client::{self, Client};
use estop_wire::protocol::{self, Family, Protocol};
use estop_wire::refusal::{self, ErrorDetails, ErrorResponse, RejectedRequest};
use http::header::{CONNECTION, USER_AGENT};
use http::request::Parts as Head;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, Uri};

use crate::auth::identity;
use crate::body::response_body::{self, ResponseBody};
use crate::exchange::rejection::Rejection;

/// What is known of a request, as far as a rejection needs it.
pub(crate) struct ErrorFormat {
    client: Client,
    /// A stream is to come as one JSON array.
    array: bool,
    pub(super) protocol: Protocol,
    pub(super) stream: bool,
    /// Repeated in an answer that is a message.
    pub(super) model: String,
    pub(super) style: BlockResponse,
}

impl ErrorFormat {
    /// Until the provider is known, the path alone says what an error must look like.
    pub(super) fn of(head: &Head) -> ErrorFormat {
        let path = head.uri.path();
        let path = identity::route(path).map_or(path, |route| route.path);
        ErrorFormat {
            client: client::recognise(|name| known_header(&head.headers, name)),
            array: wants_array(&head.uri),
            protocol: protocol::recognise(Family::OpenAi, head.method.as_str(), path).protocol,
            stream: false,
            model: String::new(),
            style: BlockResponse::Error,
        }
    }

    /// Writes a rejection.
    pub(super) fn render(&self, rejection: &Rejection) -> Response<ResponseBody> {
        let ErrorFormat { client, array, protocol, stream, ref model, style } = *self;
        let refused = RejectedRequest { protocol, client, stream, array, model, style };
        let Rejection { kind, code, message, .. } = rejection;
        let refusal = ErrorDetails { kind: *kind, code, message };
        let ErrorResponse { status, headers, body } = refusal::refuse(&refused, &refusal);
        let mut response = Response::new(response_body::full(body));
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
        for (name, value) in headers {
            if let Ok(value) = HeaderValue::from_str(&value) {
                response.headers_mut().insert(name, value);
            }
        }
        rejection.name_incident(response.headers_mut());
        if rejection.close {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// A header by its name. Names that are asked for with each request are not read anew each time.
fn known_header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    const SESSION: HeaderName = HeaderName::from_static("agent-session-id");
    let value = match name {
        "user-agent" => headers.get(USER_AGENT),
        "agent-session-id" => headers.get(SESSION),
        other => headers.get(other),
    };
    value.and_then(|value| value.to_str().ok())
}

/// Whether a stream is to come as one JSON array: Gemini's without `alt=sse`.
fn wants_array(uri: &Uri) -> bool {
    let is_sse = |query: &str| query.split('&').any(|pair| pair == "alt=sse");
    uri.path().ends_with(":streamGenerateContent") && !uri.query().is_some_and(is_sse)
}
