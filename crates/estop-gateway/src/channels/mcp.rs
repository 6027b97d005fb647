//! The gate before MCP servers by streamable HTTP (TL-3): `/mcp/{server}`, also `/agents/{agent}/mcp/{server}` and
//! `/runs/{ticket}/mcp/{server}`.
//!
//! Everything passes as it is, both ways, except `tools/call`: it is judged first, on the channel `tools`, and a denial is
//! the result of a tool that failed. A stopped agent or run may look around (lists) and reads nothing. What is under way when its agent or the channel is stopped is cut, and its server told.
//! Where a server is comes from the configuration alone.

mod body;
mod calls;
mod cancel;
mod headers;
mod no;

use std::sync::Arc;

use estop_core::ids::Name;
use estop_core::system::Channel;
use estop_wire::mcp::{self, Message};
use http::request::Parts as Head;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::Body;
use hyper::body::Incoming;

use crate::auth::http_checks;
use crate::auth::identity::{self, Caller, Route};
use crate::body::inbound::Inbound;
use crate::body::reading::{self, Share};
use crate::body::response_body::{self, ResponseBody};
use crate::body::upload::RequestBody;
use crate::engine::agents::Agent;
use crate::engine::reasons;
use crate::exchange::answer::{AnswerBody, Parts};
use crate::exchange::forward;
use crate::exchange::worker::Worker;
use crate::killswitch::connection::Busy;
use crate::killswitch::in_flight::{Phase, Registered};
use crate::upstream::Sent;
use crate::upstream::mcp_servers::McpServer;
use body::McpBody;
use calls::{Asker, Pending};
use no::No;

/// The first part of a path after agent or ticket, by which the gate is known.
const SEGMENT: &str = "mcp";

/// Whether a path is this gate's.
pub(crate) fn is_mcps(path: &str) -> bool {
    // Most paths are a provider's; only those that could be ours are taken apart.
    path.contains("/mcp") && identity::route(path).is_ok_and(|route| route.provider == SEGMENT)
}

/// Serves one request.
pub(crate) async fn serve(worker: &Worker, inbound: Inbound, busy: Busy) -> Response<ResponseBody> {
    match exchange(worker, inbound, busy).await {
        Ok(response) => response,
        Err(no) => {
            worker.host.persist(no.stops).await;
            no.answer()
        }
    }
}

async fn exchange(worker: &Worker, inbound: Inbound, busy: Busy) -> Result<Response<ResponseBody>, No> {
    let Inbound { head, body } = inbound;
    http_checks::screen(&head, worker.loopback)
        .and_then(|()| worker.origins.check(&head))
        .map_err(|screened| No::screened(&screened))?;
    let uri = head.uri.clone();
    let route = identity::route(uri.path()).map_err(|error| No::identity(&error, &head.headers))?;
    let (name, server, slash) = server_of(&route, worker)?;
    let caller = worker
        .identify(&route, &uri, &head.headers, server.agent.as_deref())
        .map_err(|error| No::identity(&error, &head.headers))?;
    let agent = caller.agent.clone();
    let is_supervised = route.ticket.is_some();
    let asking = Asking { worker, name, server, slash, caller: &caller, agent, is_supervised };
    let admitted = asking.admit(&head, body, &busy).await?;
    asking.forward(*head, admitted, busy).await
}

/// The server a path names, and the slash at its end, if there is one.
fn server_of<'a>(route: &Route<'a>, worker: &'a Worker) -> Result<(&'a str, &'a McpServer, &'a str), No> {
    let rest = route.path.strip_prefix('/').unwrap_or_default();
    let (name, slash) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    match worker.mcp.get_key_value(name) {
        Some((name, server)) if matches!(slash, "" | "/") => Ok((name, server, slash)),
        Some(_) | None => Err(No::unknown_server(worker.mcp.keys().map(AsRef::as_ref))),
    }
}

/// A request whose server and agent are known.
struct Asking<'a> {
    worker: &'a Worker,
    name: &'a str,
    server: &'a McpServer,
    slash: &'a str,
    caller: &'a Caller,
    agent: Name,
    is_supervised: bool,
}

/// A request that was let through.
struct Admitted {
    agent: Arc<Agent>,
    flight: Registered,
    body: RequestBody,
    /// The calls in it.
    pending: Pending,
    /// Given back when the request is sent and answered.
    _memory: Share,
}

impl Asking<'_> {
    /// Registers, reads, understands and judges.
    async fn admit(&self, head: &Head, body: Incoming, busy: &Busy) -> Result<Admitted, No> {
        let worker = self.worker;
        let has_body = match head.method {
            Method::POST => true,
            Method::GET | Method::DELETE => false,
            _ => return Err(No::method()),
        };
        if !has_body && !body.is_end_stream() {
            return Err(No::bad(400, "bad_request", "A GET or DELETE has no body here.").closing());
        }
        headers::refuse_unreadable(&head.headers)?;
        let (agent, flight) = self.register(busy).await?;
        let mut memory = Share::of(&worker.memory);
        if !has_body {
            match head.method {
                Method::GET => self.refuse_if_stopped(&flight, None)?,
                // A session may end whoever stops.
                _ => self.refuse_if_shut(&flight, None)?,
            }
            let (body, pending) = (RequestBody::whole(bytes::Bytes::new()), Pending::default());
            return Ok(Admitted { agent, flight, body, pending, _memory: memory });
        }
        let host = &worker.host;
        let bytes = reading::read(body, worker.limits.body_bytes, &mut memory, &flight, &host.clock)
            .await
            .map_err(|problem| No::body(problem, worker.limits.body_bytes, flight.why_cut()))?;
        flight.enter(Phase::Judging, host.clock.about());
        let message = understand(&bytes, &head.headers)?;
        let pending = self.judge(message.as_ref(), &agent, &flight)?;
        let body = RequestBody::whole(bytes.clone());
        Ok(Admitted { agent, flight, body, pending, _memory: memory })
    }

    /// Registered before it is judged: whoever stops the agent or the channel from here on finds it.
    async fn register(&self, busy: &Busy) -> Result<(Arc<Agent>, Registered), No> {
        let host = &self.worker.host;
        if host.journal.is_full() {
            return Err(No::no_journal(host.journal.has_failed()).closing());
        }
        let agent = host.agent_soon(&self.agent).await.ok_or_else(|| {
            No::overload("There are too many agents: raise limits.agents or use fewer names.").closing()
        })?;
        let (connection, max) = (Arc::clone(&busy.connection), self.worker.limits.streams_per_agent);
        let now = host.clock.about();
        let flight = agent.flights.register(
            agent.next_request(),
            Channel::Tools,
            "The MCP server",
            connection,
            now,
            max,
        );
        let flight = flight.ok_or_else(|| {
            No::overload("This agent has too many requests under way: wait for some to end.").closing()
        })?;
        flight.set_run(self.caller.run.clone());
        Ok((agent, flight))
    }

    /// Asks about each call. Everything else passes while the channel is open, and a stopped agent may only look around.
    fn judge(
        &self,
        message: Option<&Message<'_>>,
        agent: &Arc<Agent>,
        flight: &Registered,
    ) -> Result<Pending, No> {
        let has_calls = message.is_some_and(|message| message.calls().next().is_some());
        if !has_calls {
            self.refuse_if_shut(flight, message)?;
            // What cannot be read could be anything.
            if message.is_none_or(Message::is_work) {
                self.refuse_if_stopped(flight, message)?;
            }
            return Ok(Pending::default());
        }
        let Some(message) = message else { return Ok(Pending::default()) };
        let asker = Asker {
            host: Arc::clone(&self.worker.host),
            server: self.name.into(),
            agent: Arc::clone(agent),
            run: self.caller.run.clone(),
            is_supervised: self.is_supervised,
        };
        let (asked, stops) = asker.ask(message, flight.request);
        let pending = asked.map_err(|reason| No::denied(message, &reason).stopping(stops))?;
        if self.worker.host.journal.has_failed() {
            return Err(No::no_journal(true).closing());
        }
        match flight.why_cut() {
            // A permit, not an order.
            Some(cut) => Err(No::denied(message, &cut.message).stopping(stops)),
            None => Ok(pending),
        }
    }

    /// While the channel is shut, nothing reaches a server.
    fn refuse_if_shut(&self, flight: &Registered, message: Option<&Message<'_>>) -> Result<(), No> {
        let gate = self.worker.host.gate(&self.agent);
        let words = if gate.lets_pass(Channel::Tools) {
            flight.why_cut().map(|cut| cut.message.clone())
        } else {
            Some(format!("{} {}", reasons::system_sentence(gate), reasons::AFTER_KILL))
        };
        match (words, message) {
            (None, _) => Ok(()),
            (Some(words), Some(message)) => Err(No::shut(message, &words)),
            (Some(words), None) => Err(No::stopped(&words)),
        }
    }

    /// A stream on which a server may ask for things, and everything that reads, is for agents and runs that work (TL-3).
    fn refuse_if_stopped(&self, flight: &Registered, message: Option<&Message<'_>>) -> Result<(), No> {
        self.refuse_if_shut(flight, message)?;
        let Some(why) = self.worker.host.why_not(&self.agent, self.caller.run.as_deref(), false) else {
            return Ok(());
        };
        let words = format!("{why} Look at what it did, then let it go on.");
        Err(message.map_or_else(|| No::stopped(&words), |message| No::denied(message, &words)))
    }

    /// Sends it, waits for the answer's head, and hands over its body.
    async fn forward(
        &self,
        mut head: Head,
        admitted: Admitted,
        busy: Busy,
    ) -> Result<Response<ResponseBody>, No> {
        let Admitted { agent, flight, body, pending, _memory } = admitted;
        let (host, upstream) = (&self.worker.host, &self.server.upstream);
        let slash = if self.server.ends_with_slash { "/" } else { self.slash };
        let uri = forward::target(&upstream.ready, slash, head.uri.query(), &self.caller.key_in)
            .and_then(forward::uri)
            .ok_or_else(|| No::bad(400, "bad_path", "The path cannot be sent on.").closing())?;
        let length = body.size_hint().exact();
        let listens = head.method == Method::GET;
        let mut request = Request::new(body);
        *request.method_mut() = head.method;
        *request.uri_mut() = uri;
        forward::request_headers(&mut head.headers, length, &upstream.ready, &self.caller.key_in);
        *request.headers_mut() = head.headers;
        if !pending.is_empty() {
            cancel::when_cut(cancel::Way {
                host: Arc::clone(host),
                upstream: Arc::clone(upstream),
                agent: Arc::clone(&agent),
                flight: flight.handle(),
                pending: pending.clone(),
                uri: request.uri().clone(),
                headers: request.headers().clone(),
                max: self.worker.limits.streams_per_agent,
            });
        }
        let (response, lease) = match upstream.send_unless_cut(request, &flight).await {
            Sent::Answered(response, lease) => (response, lease),
            Sent::Failed(error) => return Err(No::unreachable(&error)),
            Sent::Cut => return Err(No::cut(&pending, flight.why_cut())),
        };
        let (mut head, body) = response.into_parts();
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(No::bad(
                502,
                "upstream_error",
                "The MCP server switched protocols, which nobody asked for.",
            ));
        }
        if head.status.is_redirection() && head.headers.contains_key(http::header::LOCATION) {
            // Followed, it would lead the client around the gate.
            return Err(No::redirected(self.name));
        }
        forward::response_headers(&mut head.headers);
        head.version = http::Version::HTTP_11;
        let (shared, host) = (flight.handle(), host.clone());
        let answer = AnswerBody::new(Parts { body, lease, metered: None, flight, host, busy });
        let body = McpBody::new(answer, shared, &head.headers, pending, listens);
        Ok(Response::from_parts(head, response_body::boxed(body)))
    }
}

/// Reads a message; `None` for one that is broken and cannot be a call.
fn understand<'b>(bytes: &'b bytes::Bytes, said: &HeaderMap) -> Result<Option<Message<'b>>, No> {
    match mcp::read(bytes) {
        Ok(message) => {
            headers::agree(said, Some(&message))?;
            Ok(Some(message))
        }
        Err(_) if mcp::cannot_be_call(bytes) => headers::agree(said, None).map(|()| None),
        Err(unread) => Err(No::unread(&unread)),
    }
}
