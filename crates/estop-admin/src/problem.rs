//! What the caller sees when something does not work: a problem document (RFC 9457) with a stable code, a sentence
//! and, for wrong input, each field with its bound and the fix. Never a token, a key or a prompt.

use axum::response::{IntoResponse, Response};
use estop_core::operator::OperatorError;
use estop_store::StoreError;
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

/// Kinds of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    BadRequest,
    Invalid,
    Unauthenticated,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    Conflict,
    ChangedInBetween,
    TooLarge,
    NotJson,
    WrongHost,
    IfMatchMissing,
    TooManyAttempts,
    TooManyHeaders,
    Internal,
    NotPersisted,
    Unavailable,
}

impl Kind {
    /// All of them, for the documentation.
    pub(crate) const ALL: [Kind; 17] = [
        Kind::BadRequest,
        Kind::Invalid,
        Kind::Unauthenticated,
        Kind::Forbidden,
        Kind::NotFound,
        Kind::MethodNotAllowed,
        Kind::Conflict,
        Kind::ChangedInBetween,
        Kind::TooLarge,
        Kind::NotJson,
        Kind::WrongHost,
        Kind::IfMatchMissing,
        Kind::TooManyAttempts,
        Kind::TooManyHeaders,
        Kind::Internal,
        Kind::NotPersisted,
        Kind::Unavailable,
    ];

    /// Status, stable code, title.
    pub(crate) fn parts(self) -> (StatusCode, &'static str, &'static str) {
        use StatusCode as S;
        match self {
            Kind::BadRequest => (S::BAD_REQUEST, "bad_request", "The request cannot be read"),
            Kind::Invalid => (S::BAD_REQUEST, "invalid", "A value does not fit"),
            Kind::Unauthenticated => (S::UNAUTHORIZED, "unauthenticated", "Authentication required"),
            Kind::Forbidden => (S::FORBIDDEN, "forbidden", "Not with this token"),
            Kind::NotFound => (S::NOT_FOUND, "not_found", "Not found"),
            Kind::MethodNotAllowed => (S::METHOD_NOT_ALLOWED, "method_not_allowed", "Not with this method"),
            Kind::Conflict => (S::CONFLICT, "conflict", "Not in this state"),
            Kind::ChangedInBetween => {
                (S::PRECONDITION_FAILED, "changed_in_between", "It was changed in between")
            }
            Kind::TooLarge => (S::PAYLOAD_TOO_LARGE, "too_large", "The body is too large"),
            Kind::NotJson => (S::UNSUPPORTED_MEDIA_TYPE, "not_json", "The body must be JSON"),
            Kind::WrongHost => {
                (S::MISDIRECTED_REQUEST, "wrong_host", "The Host header names another machine")
            }
            Kind::IfMatchMissing => {
                (S::PRECONDITION_REQUIRED, "if_match_missing", "The If-Match header is missing")
            }
            Kind::TooManyAttempts => (S::TOO_MANY_REQUESTS, "too_many_attempts", "Too many failed attempts"),
            Kind::TooManyHeaders => {
                (S::REQUEST_HEADER_FIELDS_TOO_LARGE, "too_many_headers", "Too many headers")
            }
            Kind::Internal => (S::INTERNAL_SERVER_ERROR, "internal", "estop made a mistake"),
            Kind::NotPersisted => (S::INTERNAL_SERVER_ERROR, "not_kept", "Done, but not on disk"),
            Kind::Unavailable => (S::SERVICE_UNAVAILABLE, "unavailable", "Not now"),
        }
    }
}

/// What went wrong.
#[derive(Debug)]
pub(crate) struct Problem {
    kind: Kind,
    detail: String,
    errors: Vec<FieldError>,
    header: Option<Box<(HeaderName, HeaderValue)>>,
}

/// A field that does not fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct FieldError {
    /// Which, with dots between the levels; empty = the whole body.
    pub(crate) field: String,
    /// What it must be.
    pub(crate) message: String,
}

/// A problem document (RFC 9457).
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemOut<'a> {
    /// Where this kind of problem is explained.
    #[serde(rename = "type")]
    kind: String,
    /// The kind in words.
    title: &'a str,
    /// The HTTP status.
    status: u16,
    /// The kind for machines.
    code: &'a str,
    /// What happened, and what to do.
    detail: &'a str,
    /// Fields that do not fit.
    #[serde(skip_serializing_if = "<[FieldError]>::is_empty")]
    #[schema(required = false)]
    errors: &'a [FieldError],
    /// `Unauthorized`, with status 403.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    error: Option<&'a str>,
}

impl Problem {
    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Problem {
        Problem { kind, detail: detail.into(), errors: Vec::new(), header: None }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// What happened, in words.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// Values that do not fit; at least one.
    pub(crate) fn invalid(errors: Vec<FieldError>) -> Problem {
        let first = errors.first().map_or("", |error| error.message.as_str());
        let field = errors.first().map_or("", |error| error.field.as_str());
        let detail = if field.is_empty() { first.to_owned() } else { format!("{field}: {first}") };
        Problem { errors, ..Problem::new(Kind::Invalid, detail) }
    }

    /// One value that does not fit.
    pub(crate) fn field(field: impl Into<String>, message: impl Into<String>) -> Problem {
        Problem::invalid(vec![FieldError { field: field.into(), message: message.into() }])
    }

    /// The same with the field that is to blame.
    pub(crate) fn about(mut self, field: &str, message: &str) -> Problem {
        self.detail = format!("{} {field} {message}.", self.detail);
        self.errors.push(FieldError { field: field.to_owned(), message: message.to_owned() });
        self
    }

    /// The same with a field called as its sender calls it.
    pub(crate) fn renamed(self, field: &str, sent: &str) -> Problem {
        let errors = self.errors.into_iter().map(|error| match error {
            error if error.field == field => FieldError { field: sent.to_owned(), ..error },
            error => error,
        });
        Problem::invalid(errors.collect())
    }

    pub(crate) fn not_found(what: &str, id: &str) -> Problem {
        Problem::new(Kind::NotFound, format!("There is no {what} `{}`.", shortened(id)))
    }

    /// A parameter names an agent that is not known.
    pub(crate) fn no_agent(field: &str, name: &str) -> Problem {
        let mut problem = Problem::not_found("agent", name);
        let message = format!("no agent `{}`", shortened(name));
        problem.errors.push(FieldError { field: field.to_owned(), message });
        problem
    }

    /// Which methods a path has.
    pub(crate) fn allow(methods: &str) -> Problem {
        let detail = format!("This path answers {methods}.");
        Problem::new(Kind::MethodNotAllowed, detail).with(ALLOW, methods)
    }

    pub(crate) fn retry_after(self, seconds: u64) -> Problem {
        self.with(RETRY_AFTER, &seconds.to_string())
    }

    pub(crate) fn unauthenticated(detail: &str) -> Problem {
        Problem::new(Kind::Unauthenticated, detail).with(WWW_AUTHENTICATE, "Bearer realm=\"estop\"")
    }

    fn with(mut self, name: HeaderName, value: &str) -> Problem {
        self.header = HeaderValue::from_str(value).ok().map(|value| Box::new((name, value)));
        self
    }
}

/// Enough of what somebody sent to recognise it.
fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, code, title) = self.kind.parts();
        let document = ProblemOut {
            kind: format!("/api/docs#{code}"),
            title,
            status: status.as_u16(),
            code,
            detail: &self.detail,
            errors: &self.errors,
            error: (self.kind == Kind::Forbidden).then_some("Unauthorized"),
        };
        let body = serde_json::to_vec(&document).unwrap_or_default();
        let content_type = (CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        let mut response = (status, [content_type], body).into_response();
        response.headers_mut().extend(self.header.map(|header| *header));
        response
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        let kind = match &error {
            StoreError::NotFound { .. } => Kind::NotFound,
            StoreError::Exists { .. } => Kind::Conflict,
            StoreError::Conflict { .. } => Kind::ChangedInBetween,
            StoreError::Invalid(_) => Kind::Invalid,
            StoreError::Full | StoreError::Io(_) | StoreError::Busy | StoreError::Closed => Kind::Unavailable,
            StoreError::Corrupt(_) | StoreError::OutOfOrder { .. } | StoreError::Database(_) => {
                Kind::Internal
            }
        };
        Problem::new(kind, sentence(&error.to_string()))
    }
}

impl From<OperatorError> for Problem {
    fn from(error: OperatorError) -> Problem {
        match error {
            OperatorError::UnknownAgent(name) => Problem::not_found("agent", &name),
            OperatorError::BadName => Problem::field("id", sentence(&error.to_string())),
            OperatorError::TooManyAgents | OperatorError::MustNotRun(_) | OperatorError::Recorded { .. } => {
                Problem::new(Kind::Conflict, sentence(&error.to_string()))
            }
            // It may run, as soon as there is room: whoever runs already must not end for it.
            OperatorError::TooManyWatched => {
                Problem::new(Kind::Unavailable, sentence(&error.to_string())).retry_after(5)
            }
            OperatorError::BadPolicy(policy) => {
                Problem::field(policy.keys.join("."), policy.problem.to_string())
            }
            OperatorError::NotPersisted(_) => Problem::new(Kind::NotPersisted, sentence(&error.to_string())),
        }
    }
}

fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", chars.as_str().trim_end_matches('.'))
}
