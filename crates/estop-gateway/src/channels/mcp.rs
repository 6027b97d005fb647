//! The gate before MCP servers by streamable HTTP (TL-3): `/mcp/{server}`, also `/agents/{agent}/mcp/{server}` and
//! `/runs/{ticket}/mcp/{server}`.
//!
//! Everything passes as it is, both ways, except `tools/call`: it is judged first, on the channel `tools`, and a denial is
//! the result of a tool that failed. A stopped agent or run may look around (lists) and reads nothing. What is under way when its agent or the channel is stopped is cut, and its server told.
//! Where a server is comes from the configuration alone.

mod body;
mod calls;
mod cancel;
mod error_format;
mod headers;

use std::sync::Arc;

use bytes::Bytes;
use estop_core::ids::Name;
use estop_core::system;
use estop_wire::mcp::{self, Message};
use estop_wire::refusal::Kind;
use http::request::Parts as Head;
use http::{HeaderMap, Method, Response};

use crate::auth::identity::{self, Route};
use crate::body::response_body::{self, ResponseBody};
use crate::body::upload::Outgoing;
use crate::emergency_stop::in_flight::InFlightRequest;
use crate::exchange::exchange::{BodyUse, ChannelHandler, ExchangeContext, Received, Target};
use crate::exchange::metered_body::MeteredBody;
use crate::exchange::rejection::{KeyPlace, Rejection};
use crate::exchange::usage_meter::UsageMeter;
use crate::exchange::worker::Worker;
use crate::upstream::mcp_servers::McpServer;
use body::McpBody;
use calls::{Asker, Denied, Pending};
use error_format::ErrorFormat;

/// The first part of a path after agent or ticket, by which the gate is known.
const SEGMENT: &str = "mcp";

/// Whether a path is this gate's.
pub(crate) fn is_mcps(path: &str) -> bool {
    // Most paths are a provider's; only those that could be ours are taken apart.
    path.contains("/mcp") && identity::route(path).is_ok_and(|route| route.provider == SEGMENT)
}

/// A request whose server is known.
pub(crate) struct McpRequest {
    server: Name,
    /// Its address was made for a run, whose supervisor begins and ends it.
    is_supervised: bool,
    /// A stream on which its server may say something at any time.
    listens: bool,
    /// The calls in it.
    pending: Pending,
}

impl ChannelHandler for McpRequest {
    const GATE: system::Channel = system::Channel::Tools;
    type ErrorFormat = ErrorFormat;

    fn error_format(_: &Head) -> ErrorFormat {
        ErrorFormat::default()
    }

    fn render(format: &ErrorFormat, rejection: &Rejection) -> Response<ResponseBody> {
        format.render(rejection)
    }

    fn identify(worker: &Worker, head: &Head, _: &mut ErrorFormat) -> Result<(Self, Target), Rejection> {
        let refused =
            |error| Rejection::identity(&error, &head.headers, KeyPlace::OwnHeader("the MCP server's"));
        let route = identity::route(head.uri.path()).map_err(refused)?;
        let (name, server, slash) = server_of(&route, worker)?;
        let caller =
            worker.identify(&route, &head.uri, &head.headers, server.agent.as_deref()).map_err(refused)?;
        let body = match head.method {
            Method::POST => BodyUse::Inspect,
            Method::GET | Method::DELETE => BodyUse::None,
            _ => {
                let message = "MCP has POST, GET and DELETE.";
                return Err(Rejection::bad(405, "method_not_allowed", message).closing());
            }
        };
        headers::refuse_other_charset(&head.headers)?;
        let target = Target {
            caller,
            upstream: Arc::clone(&server.upstream),
            upstream_name: "The MCP server",
            path: if server.ends_with_slash { "/" } else { slash }.to_owned(),
            body,
        };
        let request = McpRequest {
            server: name.into(),
            is_supervised: route.ticket.is_some(),
            listens: head.method == Method::GET,
            pending: Pending::default(),
        };
        Ok((request, target))
    }

    /// A request is answered under its id, which is in its body.
    fn needs_body_to_reject(&self, _: &ExchangeContext<'_>) -> bool {
        true
    }

    /// Asks about each call. Everything else passes while the channel is open, and a stopped agent may only look around.
    fn decide(
        &mut self,
        context: &ExchangeContext<'_>,
        received: &Received<'_>,
        format: &mut ErrorFormat,
    ) -> Result<Option<Box<UsageMeter>>, Rejection> {
        let message = match received.body {
            Some(bytes) => understand(bytes, &received.head.headers, format)?,
            None => None,
        };
        if let Some(message) = &message {
            format.set_message(message);
            if message.calls().next().is_some() {
                self.pending = self.ask(context, message)?;
                return Ok(None);
            }
        }
        if !received.gate.lets_pass(Self::GATE) {
            return Err(Rejection::shut(received.gate));
        }
        let is_work = match &message {
            Some(message) => message.is_work(),
            // A session may end whoever stops. A stream on which a server may ask for things is for agents that work, and
            // what cannot be read could be anything (TL-3).
            None => received.head.method != Method::DELETE,
        };
        let run = context.target.caller.run.as_deref();
        match context.worker.engine.must_end_reason(&context.agent.name, run, false).filter(|_| is_work) {
            Some(why) => Err(Rejection::new(Kind::Stop, "denied", why)),
            None => Ok(None),
        }
    }

    fn before_send(
        &mut self,
        context: &ExchangeContext<'_>,
        request: &Outgoing,
        _: Option<&mut UsageMeter>,
    ) -> Result<(), Rejection> {
        if !self.pending.is_empty() {
            cancel::when_cut(cancel::Way {
                engine: Arc::clone(&context.worker.engine),
                upstream: Arc::clone(&context.target.upstream),
                agent: Arc::clone(context.agent),
                flight: context.flight.handle(),
                pending: self.pending.clone(),
                uri: request.uri().clone(),
                headers: request.headers().clone(),
                max: context.worker.limits.streams_per_agent,
            });
        }
        Ok(())
    }

    /// A redirect, followed, would lead the client around the gate.
    fn check_response(&self, head: &http::response::Parts) -> Result<(), Rejection> {
        if !head.status.is_redirection() || !head.headers.contains_key(http::header::LOCATION) {
            return Ok(());
        }
        let message = format!(
            "The MCP server sends its clients elsewhere (a redirect). Put its real address into mcp.servers.{}.url.",
            self.server
        );
        Err(Rejection::new(Kind::Upstream { status: 502 }, "upstream_redirect", message))
    }

    fn response_body(
        self,
        body: MeteredBody,
        head: &http::response::Parts,
        flight: &Arc<InFlightRequest>,
    ) -> ResponseBody {
        let body = McpBody::new(body, Arc::clone(flight), &head.headers, self.pending, self.listens);
        response_body::boxed(body)
    }
}

impl McpRequest {
    fn ask(&self, context: &ExchangeContext<'_>, message: &Message<'_>) -> Result<Pending, Rejection> {
        let asker = Asker {
            engine: Arc::clone(&context.worker.engine),
            server: self.server.clone(),
            agent: Arc::clone(context.agent),
            run: context.target.caller.run.clone(),
            is_supervised: self.is_supervised,
        };
        let (pending, stops) = asker.ask(message, context.flight.request);
        pending.map_err(|Denied(reason)| Rejection { stops, ..Rejection::new(Kind::Stop, "denied", reason) })
    }
}

/// The server a path names, and the slash at its end, if there is one.
fn server_of<'w, 'p>(
    route: &Route<'p>,
    worker: &'w Worker,
) -> Result<(&'w str, &'w McpServer, &'p str), Rejection> {
    let rest = route.path.strip_prefix('/').unwrap_or_default();
    let (name, slash) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    match worker.mcp.get_key_value(name) {
        Some((name, server)) if matches!(slash, "" | "/") => Ok((name, server, slash)),
        Some(_) | None => Err(unknown_server(worker)),
    }
}

fn unknown_server(worker: &Worker) -> Rejection {
    let known: Vec<&str> = worker.mcp.keys().map(AsRef::as_ref).collect();
    let message = match known.as_slice() {
        [] => "There is no MCP server: name one in the configuration, under `mcp.servers`.".to_owned(),
        known => format!("There is no such MCP server. Known: {}. Use /mcp/{{server}}.", known.join(", ")),
    };
    Rejection::bad(404, "unknown_server", message).closing()
}

/// Reads a message; `None` for one that is broken and cannot be a call.
fn understand<'b>(
    bytes: &'b Bytes,
    said: &HeaderMap,
    format: &mut ErrorFormat,
) -> Result<Option<Message<'b>>, Rejection> {
    match mcp::read(bytes) {
        Ok(message) => {
            headers::agree(said, Some(&message))?;
            Ok(Some(message))
        }
        Err(_) if mcp::cannot_be_call(bytes) => headers::agree(said, None).map(|()| None),
        Err(unread) => {
            let message =
                format!("estop cannot read this message, so it does not reach the server: {unread}.");
            format.set_unread(unread);
            Err(Rejection::bad(400, "unreadable_request", message))
        }
    }
}
