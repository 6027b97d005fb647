//! A message that does not reach its server: why, and the answer in its place. A request is answered as JSON-RPC answers,
//! with 200, because clients read those; everything else by its status.

use bytes::Bytes;
use estop_wire::mcp::{self, Message, Part, Unread};
use http::header::{ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, Response, StatusCode};

use super::calls::Pending;
use crate::auth::http_checks::Screened;
use crate::auth::identity::{IdentityError, KEY_HEADER, TOO_MANY_GUESSES, agent_unknown, key_needed};
use crate::body::reading::BodyProblem;
use crate::body::response_body::{self, ResponseBody};
use crate::body::upload;
use crate::killswitch::in_flight::Cut;
use crate::upstream::UpstreamError;

const REASON: HeaderName = HeaderName::from_static("x-estop-reason");
const STOPPED: &str = "Stopped by estop.";

/// A message that does not reach its server.
pub(super) struct No {
    status: u16,
    code: &'static str,
    body: String,
    close: bool,
    /// Its agent was switched off by it: told when that is on the disk.
    pub(super) stops: bool,
}

impl No {
    /// By its status, with the words in an error that answers no request.
    pub(super) fn bad(status: u16, code: &'static str, message: &str) -> No {
        No { status, code, body: mcp::error(None, mcp::SERVER_ERROR, message), close: false, stops: false }
    }

    pub(super) fn overload(message: &str) -> No {
        No::bad(503, "overload", message)
    }

    pub(super) fn stopped(message: &str) -> No {
        No::bad(403, "stopped", message)
    }

    /// What cannot be written down is not let through.
    pub(super) fn no_journal(failed: bool) -> No {
        No::overload(if failed {
            "estop cannot write its journal, so nothing is let through: mend its data directory and restart it."
        } else {
            "estop cannot write its journal fast enough: try again."
        })
    }

    pub(super) fn method() -> No {
        No::bad(405, "method_not_allowed", "MCP has POST, GET and DELETE.").closing()
    }

    /// The message with a call in it may not pass: all of it, as a batch cannot be taken apart.
    pub(super) fn denied(message: &Message<'_>, reason: &str) -> No {
        No::instead(message, reason, "denied")
    }

    /// No message may pass.
    pub(super) fn shut(message: &Message<'_>, reason: &str) -> No {
        No::instead(message, reason, "system")
    }

    fn instead(message: &Message<'_>, reason: &str, code: &'static str) -> No {
        let answer = |part: &Part<'_>| match part {
            Part::Call(call) => Some(mcp::denied(call, reason)),
            Part::Request { id, .. } => Some(mcp::error(Some(id), mcp::SERVER_ERROR, reason)),
            Part::Notice { .. } | Part::Answer { .. } | Part::Other => None,
        };
        let answers: Vec<String> = message.parts().iter().filter_map(answer).collect();
        let body = match answers.as_slice() {
            [] => return No { code, ..No::stopped(reason) },
            [only] if !message.is_batch => only.clone(),
            all => mcp::batch(all),
        };
        No { status: 200, code, body, close: false, stops: false }
    }

    /// It was under way and was ended.
    pub(super) fn cut(pending: &Pending, cut: Option<&Cut>) -> No {
        let words = cut.map_or(STOPPED, |cut| &cut.message);
        let answers: Vec<String> = pending.calls().iter().map(|call| mcp::denied(call, words)).collect();
        let code = cut.map_or("stopped", |cut| cut.code);
        match answers.as_slice() {
            [] => No { code, ..No::stopped(words) },
            [only] => No { status: 200, code, body: only.clone(), close: false, stops: false },
            all => No { status: 200, code, body: mcp::batch(all), close: false, stops: false },
        }
    }

    pub(super) fn unread(unread: &Unread) -> No {
        let message = format!("estop cannot read this message, so it does not reach the server: {unread}.");
        let body = mcp::error(unread.id.as_ref(), unread.code, &message);
        No { status: 400, code: "unreadable_request", body, close: false, stops: false }
    }

    pub(super) fn screened(screened: &Screened) -> No {
        No::bad(screened.status, screened.code, screened.message).closing()
    }

    pub(super) fn body(problem: BodyProblem, max: usize, cut: Option<&Cut>) -> No {
        match problem {
            BodyProblem::TooLarge => {
                let message =
                    format!("The message is larger than {max} bytes. Send less, or raise limits.body_bytes.");
                No::bad(413, "body_too_large", &message)
            }
            BodyProblem::NoMemory => No::overload("estop holds too many request bodies at once: try again."),
            BodyProblem::Broken => No::bad(400, "broken_body", upload::BROKEN),
            BodyProblem::Cut => No::stopped(cut.map_or(STOPPED, |cut| &cut.message)),
        }
        .closing()
    }

    pub(super) fn unknown_server<'n>(known: impl Iterator<Item = &'n str>) -> No {
        let known: Vec<&str> = known.collect();
        let message = match known.as_slice() {
            [] => "There is no MCP server: name one in the configuration, under `mcp.servers`.".to_owned(),
            known => {
                format!("There is no such MCP server. Known: {}. Use /mcp/{{server}}.", known.join(", "))
            }
        };
        No::bad(404, "unknown_server", &message).closing()
    }

    pub(super) fn redirected(server: &str) -> No {
        let message = format!(
            "The MCP server sends its clients elsewhere (a redirect). Put its real address into mcp.servers.{server}.url."
        );
        No::bad(502, "upstream_redirect", &message)
    }

    pub(super) fn unreachable(error: &UpstreamError) -> No {
        let message = match error {
            UpstreamError::Crowded => return No::bad(503, "overload", &format!("estop: {error}.")),
            UpstreamError::Unreachable(why) => {
                format!("The MCP server cannot be reached (not estop's refusal): {why}.")
            }
            UpstreamError::Broken(why) => {
                format!("The MCP server gave no answer (not estop's refusal): {why}.")
            }
        };
        No::bad(502, "upstream_unreachable", &message)
    }

    pub(super) fn identity(error: &IdentityError, headers: &HeaderMap) -> No {
        let no = |status, code, message: &str| No::bad(status, code, message);
        match error {
            IdentityError::KeyMissing => no(401, "key_missing", KEY_MISSING),
            // The other credentials are the server's, whose key is none of ours.
            IdentityError::KeyUnknown if !headers.contains_key(KEY_HEADER) => no(401, "key_missing", KEY_MISSING),
            IdentityError::KeyUnknown => {
                no(401, "key_unknown", "x-estop-key is no agent's key: check agents.NAME.key_env.")
            }
            IdentityError::KeyNeeded { agent, .. } => no(401, "key_missing", &key_needed(agent)),
            IdentityError::TooManyGuesses => no(429, "too_many_attempts", TOO_MANY_GUESSES),
            IdentityError::AgentUnknown { agent } => no(403, "agent_unknown", &agent_unknown(agent)),
            IdentityError::KeyOfAnother { agent } => {
                let message = format!("This key belongs to the agent `{agent}` and can act only as it.");
                no(403, "key_of_another", &message)
            }
            IdentityError::BadName(what) => no(400, "bad_name", &format!("The {what}'s name cannot be one.")),
            IdentityError::BadTags(bad) => {
                no(400, "bad_header", &format!("The header {} must {}.", bad.header, bad.must))
            }
            IdentityError::NoProvider | IdentityError::DotSegments => {
                no(400, "bad_path", "The path leads nowhere: use /mcp/{server}.")
            }
            IdentityError::TicketUnknown => no(
                403,
                "ticket_unknown",
                "Refused by estop: this address was made for a run that is over or that estop does not know. Start the program anew with `estop run`.",
            ),
            IdentityError::TicketOfAnother(what) => {
                let message = format!(
                    "Refused by estop: this address was made for another {what}; leave out the header x-estop-{what}."
                );
                no(403, "ticket_of_another", &message)
            }
        }
        .closing()
    }

    /// The connection is closed after the answer: what is left of the request was not read.
    pub(super) fn closing(mut self) -> No {
        self.close = true;
        self
    }

    /// Its agent was switched off by what is refused here, if so.
    pub(super) fn stopping(mut self, stops: bool) -> No {
        self.stops = stops;
        self
    }

    pub(super) fn answer(self) -> Response<ResponseBody> {
        let mut response = Response::new(response_body::full(Bytes::from(self.body)));
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(REASON, HeaderValue::from_static(self.code));
        if self.status == 405 {
            headers.insert(ALLOW, HeaderValue::from_static("GET, POST, DELETE"));
        }
        if self.close {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

const KEY_MISSING: &str =
    "estop wants the key of an agent in the header x-estop-key; the others are the MCP server's.";
