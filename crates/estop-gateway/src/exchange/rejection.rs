//! A request that is not forwarded: why, and what its client should do. Each channel writes it in its protocol's own shape.

use bytes::Bytes;
use estop_core::decision::Decision;
use estop_core::system::GateView;
use estop_wire::refusal::Kind;
use http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Response, StatusCode};

use crate::auth::http_checks::BadHead;
use crate::auth::identity::{IdentityError, KEY_HEADER, TOO_MANY_ATTEMPTS, agent_unknown, key_needed};
use crate::body::reading::BodyProblem;
use crate::body::response_body::{self, ResponseBody};
use crate::body::upload::{self, BodyLimit};
use crate::emergency_stop::in_flight::{Cut, InFlightRequest};
use crate::engine::agents::Agent;
use crate::engine::incident::IncidentId;
use crate::engine::reasons;
use crate::upstream::UpstreamError;

const REASON: HeaderName = HeaderName::from_static("x-estop-reason");
const INCIDENT: HeaderName = HeaderName::from_static("x-estop-incident");

/// A request that is not forwarded, and why.
pub(crate) struct Rejection {
    /// Decides the status, and whether and when to try again.
    pub(crate) kind: Kind,
    /// For machines.
    pub(crate) code: &'static str,
    /// For people.
    pub(crate) message: String,
    /// The connection is closed after the response: what is left of the request was not read.
    pub(crate) close: bool,
    /// It switched its agent off, which must be on the disk before anybody is told (ST-1).
    pub(crate) stops: bool,
    /// Where people read what happened.
    pub(crate) incident: Option<IncidentId>,
}

impl Rejection {
    pub(crate) fn new(kind: Kind, code: &'static str, message: impl Into<String>) -> Rejection {
        Rejection { kind, code, message: message.into(), close: false, stops: false, incident: None }
    }

    pub(crate) fn bad(status: u16, code: &'static str, message: impl Into<String>) -> Rejection {
        Rejection::new(Kind::BadRequest { status }, code, message)
    }

    pub(crate) fn overload(message: impl Into<String>) -> Rejection {
        Rejection::new(Kind::Overload, "overload", message)
    }

    pub(crate) fn closing(self) -> Rejection {
        Rejection { close: true, ..self }
    }

    /// `Err` unless the decision lets the request pass. One that switches the agent off does not.
    pub(crate) fn unless_allowed(decision: &Decision, agent: &Agent) -> Result<(), Rejection> {
        let stops = decision.deactivated().is_some();
        if decision.is_allowed() && !stops {
            return Ok(());
        }
        let (kind, code) = (reasons::kind(decision), reasons::code(decision));
        let incident = agent.incident_of(decision);
        Err(Rejection { stops, incident, ..Rejection::new(kind, code, reasons::sentence(decision, agent)) })
    }

    /// It was cut while it was under way.
    pub(crate) fn cut(cut: Option<&Cut>) -> Rejection {
        match cut {
            Some(cut) => Rejection::new(cut.kind, cut.code, cut.message.clone()),
            None => Rejection::new(Kind::Stop, "stopped", "Stopped by estop."),
        }
    }

    /// The gate is shut.
    pub(crate) fn shut(gate: GateView) -> Rejection {
        let rejection = Rejection::new(Kind::Stop, "system", reasons::system_sentence(gate));
        Rejection { incident: IncidentId::of_gate(gate), ..rejection }
    }

    /// What cannot be written down is not let through.
    pub(crate) fn no_journal(failed: bool) -> Rejection {
        Rejection::overload(if failed {
            "estop cannot write its journal, so it allows nothing: fix its data directory and restart it."
        } else {
            "estop cannot write its journal fast enough: try again."
        })
        .closing()
    }

    pub(crate) fn head(head: &BadHead) -> Rejection {
        Rejection::bad(head.status, head.code, head.message).closing()
    }

    pub(crate) fn too_large(limit: BodyLimit) -> Rejection {
        Rejection::bad(413, "body_too_large", limit.exceeded()).closing()
    }

    pub(crate) fn body(problem: BodyProblem, limit: BodyLimit, flight: &InFlightRequest) -> Rejection {
        match problem {
            BodyProblem::TooLarge => Rejection::too_large(limit),
            BodyProblem::NoMemory => {
                Rejection::overload("estop holds too many request bodies at once: try again.")
            }
            BodyProblem::Broken => Rejection::bad(400, "broken_body", upload::BROKEN),
            BodyProblem::Cut => Rejection::cut(flight.why_cut()),
        }
        .closing()
    }

    /// `upstream`: what its client calls it, at the beginning of a sentence.
    pub(crate) fn upstream_failed(upstream: &str, error: &UpstreamError) -> Rejection {
        let message = match error {
            UpstreamError::Crowded => return Rejection::overload(format!("estop: {error}.")),
            UpstreamError::Unreachable(why) => {
                format!("{upstream} cannot be reached (estop did not block this): {why}.")
            }
            UpstreamError::Broken(why) => {
                format!("{upstream} gave no answer (estop did not block this): {why}.")
            }
        };
        Rejection::new(Kind::Upstream { status: 502 }, "upstream_unreachable", message)
    }

    pub(crate) fn switched_protocols(upstream: &str) -> Rejection {
        let message = format!("{upstream} switched protocols, which nobody asked for.");
        Rejection::new(Kind::Upstream { status: 502 }, "upstream_error", message)
    }

    pub(crate) fn identity(error: &IdentityError, headers: &HeaderMap, keys: KeyPlace) -> Rejection {
        match error {
            IdentityError::KeyMissing => keys.missing(),
            IdentityError::KeyUnknown => keys.unknown(headers),
            IdentityError::KeyNeeded { agent, .. } => Rejection::bad(401, "key_missing", key_needed(agent)),
            IdentityError::TooManyAttempts => Rejection::bad(429, "too_many_attempts", TOO_MANY_ATTEMPTS),
            IdentityError::AgentUnknown { agent } => {
                Rejection::bad(403, "agent_unknown", agent_unknown(agent))
            }
            IdentityError::KeyOfAnother { agent } => {
                let message = format!("This key belongs to the agent `{agent}` and can act only as it.");
                Rejection::bad(403, "key_of_another", message)
            }
            IdentityError::BadName(what) => {
                let message = format!(
                    "The {what}'s name must be 1 to 64 letters, digits, `.`, `_` or `-`, sent once, and not `system`."
                );
                Rejection::bad(400, "bad_name", message)
            }
            IdentityError::BadTags(bad) => {
                Rejection::bad(400, "bad_header", format!("The header {} must {}.", bad.header, bad.must))
            }
            IdentityError::NoProvider => Rejection::bad(404, "unknown_path", "The path names no provider."),
            IdentityError::DotSegments => {
                Rejection::bad(400, "bad_path", "The path must not have `.` or `..` in it.")
            }
            IdentityError::TicketUnknown => Rejection::new(
                Kind::Stop,
                "ticket_unknown",
                "Refused by estop: this address was made for a run that is over or that estop does not know. Start the program anew with `estop run`.",
            ),
            IdentityError::TicketOfAnother(what) => {
                let message = format!(
                    "Refused by estop: this address was made for another {what}; leave out the header x-estop-{what}."
                );
                Rejection::new(Kind::Stop, "ticket_of_another", message)
            }
        }
        .closing()
    }

    /// Names the incident where programs read it.
    pub(crate) fn name_incident(&self, headers: &mut HeaderMap) {
        let id = self.incident.as_ref().and_then(|id| HeaderValue::from_str(id.as_str()).ok());
        if let Some(id) = id {
            headers.insert(INCIDENT, id);
        }
    }

    /// The response of a channel that writes its own body.
    pub(crate) fn response(&self, status: u16, body: String) -> Response<ResponseBody> {
        let mut response = Response::new(response_body::full(Bytes::from(body)));
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(REASON, HeaderValue::from_static(self.code));
        self.name_incident(headers);
        if let Some(seconds) = self.kind.retry_after_s() {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.close {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// Where a channel's clients put an agent's key.
#[derive(Clone, Copy)]
pub(crate) enum KeyPlace {
    /// Where the provider's key is, or in `x-estop-key`.
    ApiKey,
    /// In `x-estop-key` alone; the other credentials are somebody else's, who is named here.
    OwnHeader(&'static str),
}

impl KeyPlace {
    fn missing(self) -> Rejection {
        match self {
            KeyPlace::ApiKey => Rejection::bad(
                401,
                "key_missing",
                "estop wants this agent's key: send it as the API key, or in the header x-estop-key.",
            ),
            KeyPlace::OwnHeader(others) => Rejection::bad(
                401,
                "key_missing",
                format!("estop wants the agent's key in the header x-estop-key; the others are {others}."),
            ),
        }
    }

    fn unknown(self, headers: &HeaderMap) -> Rejection {
        match self {
            KeyPlace::ApiKey => {
                Rejection::bad(401, "key_unknown", "This is no agent's estop key: check agents.NAME.key_env.")
            }
            KeyPlace::OwnHeader(_) if !headers.contains_key(KEY_HEADER) => self.missing(),
            KeyPlace::OwnHeader(_) => Rejection::bad(
                401,
                "key_unknown",
                "x-estop-key is no agent's key: check agents.NAME.key_env.",
            ),
        }
    }
}
