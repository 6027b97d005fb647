//! A request that is not forwarded: why, and the answer it gets instead.

use estop_core::policy::BlockResponse;
use estop_wire::client::Client;
use estop_wire::protocol::{Family, Protocol};
use estop_wire::refusal::{self, Answer, Kind, Refusal, Refused};
use http::{HeaderValue, Response, StatusCode, Uri};

use crate::auth::identity::{IdentityError, Route, TOO_MANY_GUESSES, agent_unknown, key_needed};
use crate::body::response_body::{self, ResponseBody};
use crate::engine::background::{JOBS_MAX, JOBS_PER_AGENT_MAX};
use crate::exchange::usage_meter::MayNotBegin;
use crate::exchange::worker::Worker;
use crate::killswitch::in_flight::Registered;
use crate::upstream::UpstreamError;

/// A request that is not forwarded, and why.
pub(super) struct No {
    pub(super) kind: Kind,
    pub(super) code: &'static str,
    pub(super) message: String,
    /// Known once the request was understood.
    pub(super) understood: Option<Understood>,
    pub(super) close: bool,
    /// It switched its agent off, which must be safe on disk before anybody is told (ST-1).
    pub(super) stops: bool,
}

pub(super) struct Understood {
    pub(super) protocol: Protocol,
    pub(super) stream: bool,
    pub(super) model: String,
    pub(super) style: BlockResponse,
}

impl No {
    pub(super) fn new(kind: Kind, code: &'static str, message: impl Into<String>) -> No {
        No { kind, code, message: message.into(), understood: None, close: false, stops: false }
    }

    pub(super) fn bad(status: u16, code: &'static str, message: impl Into<String>) -> No {
        No::new(Kind::BadRequest { status }, code, message)
    }

    pub(super) fn overload(message: &str) -> No {
        No::new(Kind::Overload, "overload", message)
    }

    /// The connection is closed after the answer: what is left of the request was not read.
    pub(super) fn closing(mut self) -> No {
        self.close = true;
        self
    }

    /// The request's protocol, if nothing more is known of it yet.
    pub(super) fn of(mut self, protocol: Protocol) -> No {
        let unread =
            || Understood { protocol, stream: false, model: String::new(), style: BlockResponse::Error };
        self.understood.get_or_insert_with(unread);
        self
    }

    pub(super) fn answer(self, client: Client, array: bool) -> Response<ResponseBody> {
        let no = self.of(Protocol::Other(Family::OpenAi));
        let Some(understood) = &no.understood else {
            let mut response = Response::new(response_body::full(""));
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            return response;
        };
        let refused = Refused {
            protocol: understood.protocol,
            client,
            stream: understood.stream,
            array,
            model: &understood.model,
            style: understood.style,
        };
        let refusal = Refusal { kind: no.kind, code: no.code, message: &no.message };
        let mut response = answer(&refused, &refusal);
        if no.close {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(http::header::CONNECTION, close);
        }
        response
    }
}

/// Whether a stream is to come as one JSON array: Gemini's without `alt=sse`.
pub(super) fn wants_array(uri: &Uri) -> bool {
    let is_sse = |query: &str| query.split('&').any(|pair| pair == "alt=sse");
    uri.path().ends_with(":streamGenerateContent") && !uri.query().is_some_and(is_sse)
}

pub(super) fn cut_no(flight: &Registered) -> No {
    match flight.why_cut() {
        Some(cut) => No::new(cut.kind, cut.code, cut.message.clone()),
        None => No::new(Kind::Stop, "stopped", "Stopped by estop."),
    }
}

pub(super) fn upstream_failed(error: &UpstreamError) -> No {
    let message = match error {
        UpstreamError::Crowded => return No::new(Kind::Overload, "overload", format!("estop: {error}.")),
        UpstreamError::Unreachable(why) => {
            format!("The provider cannot be reached (not estop's refusal): {why}.")
        }
        UpstreamError::Broken(why) => format!("The provider gave no answer (not estop's refusal): {why}."),
    };
    No::new(Kind::Upstream { status: 502 }, "upstream_unreachable", message)
}

/// Work at a provider that estop could not cancel is not begun.
pub(super) fn may_not_begin(why: MayNotBegin) -> No {
    match why {
        MayNotBegin::Path => {
            let message = "This request begins work that goes on at the provider, under a path that estop could not cancel it \
                by: send the plain path of the provider's documentation, without encoded characters.";
            No::bad(400, "bad_path", message)
        }
        MayNotBegin::Full => {
            let message = format!(
                "Too much work goes on at providers: estop remembers {JOBS_PER_AGENT_MAX} of an agent and {JOBS_MAX} of all, to \
                 cancel it when the agent is stopped. Poll what is done, through estop, or cancel some; `estop background` lists it."
            );
            No::bad(429, "too_much_background_work", message)
        }
    }
}

pub(super) fn unknown_provider(route: &Route<'_>, worker: &Worker) -> No {
    let known: Vec<&str> = worker.upstreams.keys().map(AsRef::as_ref).collect();
    let message = format!(
        "There is no provider `{}`. Known: {}. Use /{{provider}}/… or /agents/{{agent}}/{{provider}}/….",
        printable(route.provider),
        known.join(", ")
    );
    No::bad(404, "unknown_provider", message).closing()
}

/// The start of a text a client sent, without control characters.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(64).collect()
}

pub(super) fn refuse_identity(error: &IdentityError, worker: &Worker) -> No {
    match error {
        IdentityError::NoProvider => {
            let known: Vec<&str> = worker.upstreams.keys().map(AsRef::as_ref).collect();
            let message = format!(
                "This path names no provider. Use /{{provider}}/… or /agents/{{agent}}/{{provider}}/…; known: {}.",
                known.join(", ")
            );
            No::bad(404, "unknown_provider", message)
        }
        IdentityError::DotSegments => No::bad(400, "bad_path", "The path must not have `.` or `..` in it."),
        IdentityError::BadName(what) => No::bad(
            400,
            "bad_name",
            format!("The {what}'s name must be 1 to 64 letters, digits, `.`, `_` or `-`, sent once, and not `system`."),
        ),
        IdentityError::BadTags(bad) => {
            No::bad(400, "bad_header", format!("The header {} must {}.", bad.header, bad.must))
        }
        IdentityError::KeyMissing => No::bad(
            401,
            "key_missing",
            "estop wants this agent's key: send it as the API key, or in the header x-estop-key.",
        ),
        IdentityError::KeyUnknown => {
            No::bad(401, "key_unknown", "This is no agent's estop key: check agents.NAME.key_env.")
        }
        IdentityError::KeyNeeded { agent, .. } => No::bad(401, "key_missing", key_needed(agent)),
        IdentityError::TooManyGuesses => No::bad(429, "too_many_attempts", TOO_MANY_GUESSES),
        IdentityError::AgentUnknown { agent } => No::bad(403, "agent_unknown", agent_unknown(agent)),
        IdentityError::KeyOfAnother { agent } => No::bad(
            403,
            "key_of_another",
            format!("This key belongs to the agent `{agent}` and can act only as it."),
        ),
        IdentityError::TicketUnknown => No::new(
            Kind::Stop,
            "ticket_unknown",
            "Refused by estop: this address was made for a run that is over or that estop does not know. Start the program anew with `estop run`.",
        ),
        IdentityError::TicketOfAnother(what) => No::new(
            Kind::Stop,
            "ticket_of_another",
            format!("Refused by estop: this address was made for another {what}; leave out the header x-estop-{what}."),
        ),
    }
    .closing()
}

/// What cannot be written down is not let through.
pub(super) fn no_journal(failed: bool) -> No {
    No::overload(if failed {
        "estop cannot write its journal, so nothing is let through: mend its data directory and restart it."
    } else {
        "estop cannot write its journal fast enough: try again."
    })
}

/// The answer to a request that estop does not forward.
fn answer(refused: &Refused<'_>, refusal: &Refusal<'_>) -> Response<ResponseBody> {
    let Answer { status, headers, body } = refusal::refuse(refused, refusal);
    let mut response = Response::new(response_body::full(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}
