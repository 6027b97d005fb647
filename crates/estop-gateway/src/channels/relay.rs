//! The message relay (KS-10): `/relay/{name}/in/…` to the app, `/relay/{name}/out/…` to the platform.
//!
//! Messages pass as they are, under the same DECIDE and the same cut as requests to models, on the channel
//! `messaging`. Where they go comes from the configuration alone; what the other side answers, redirects too, goes back
//! as it is. Nothing of a message is written down: tokens stand in its path, and people's words in its body.

mod no;
mod path;

use std::sync::Arc;

use estop_core::event::{Estimate, EventKind};
use estop_core::fingerprint::RequestPrint;
use estop_core::system::Channel;
use estop_wire::protocol::{Family, Protocol};
use estop_wire::response::Framing;
use http::header::CONTENT_LENGTH;
use http::request::Parts as Head;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::Body;

use crate::auth::http_checks;
use crate::auth::identity::{KeyIn, Route};
use crate::body::inbound::Inbound;
use crate::body::reading;
use crate::body::response_body::{self, ResponseBody};
use crate::body::upload::{self, RequestBody};
use crate::engine::agents::Agent;
use crate::engine::previous_responses::Asked;
use crate::engine::reasons;
use crate::exchange::answer::{AnswerBody, Parts, Shape};
use crate::exchange::forward;
use crate::exchange::pricing::ModelPrices;
use crate::exchange::usage_meter::{Account, Opened};
use crate::exchange::worker::Worker;
use crate::killswitch::connection::Busy;
use crate::killswitch::in_flight::Registered;
use crate::upstream::Sent;
use crate::upstream::relays::Place;
use no::No;
use path::RelayPath;

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From the platform to the app.
    In,
    /// From the app to the platform.
    Out,
}

/// Whether a path is the relay's.
pub(crate) fn is_relays(path: &str) -> bool {
    path.strip_prefix("/relay").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Serves one message.
pub(crate) async fn serve(worker: &Worker, inbound: Inbound, busy: Busy) -> Response<ResponseBody> {
    match exchange(worker, inbound, busy).await {
        Ok(response) => response,
        Err(no) => {
            // Nobody is told what a dead process would not remember.
            worker.host.journal.flush();
            no.answer()
        }
    }
}

async fn exchange(worker: &Worker, inbound: Inbound, busy: Busy) -> Result<Response<ResponseBody>, No> {
    let Inbound { head, body } = inbound;
    let way = path::way(head.uri.path());
    // A webhook comes by a tunnel or proxy, under the name the platform knows.
    let loopback = worker.loopback && !path::leads_in(head.uri.path());
    let page = match way {
        Way::In => worker.origins.check_webhook(&head),
        Way::Out => worker.origins.check(&head),
    };
    http_checks::screen(&head, loopback).and(page).map_err(|screened| No::screened(way, &screened))?;
    let uri = head.uri.clone();
    let to = path::read(uri.path(), &worker.relays)?;
    let message = Message { worker, to };
    let key_in = message.identify(&head)?;
    if body.size_hint().lower() > message.body_max() {
        return Err(No::too_large(way).closing());
    }
    let place = to.side.take().ok_or_else(|| No::overload(way, no::TOO_MANY).closing())?;
    let (agent, flight) = message.register(&busy).await?;
    if let Err(no) = message.judge(&agent, &flight) {
        if body.is_end_stream() {
            return Err(no);
        }
        reading::drain(body).await;
        return Err(no.closing());
    }
    let body = RequestBody::passing(body, message.body_max(), &worker.host.clock, flight.handle());
    let body = body.await.map_err(|_| match flight.why_cut() {
        Some(cut) => No::cut(way, cut),
        None => No::bad(way, 400, "broken_body", upload::BROKEN).closing(),
    })?;
    message.forward(Going { head: *head, body, key_in, agent, flight, busy, place }).await
}

/// A message whose relay is known.
struct Message<'a> {
    worker: &'a Worker,
    to: RelayPath<'a>,
}

/// A message that was let through.
struct Going {
    head: Head,
    body: RequestBody,
    key_in: KeyIn,
    agent: Arc<Agent>,
    flight: Registered,
    busy: Busy,
    place: Place,
}

impl Message<'_> {
    /// Who sends it may act as the relay's agent. A platform has no key of ours; its door is the relay's secret.
    fn identify(&self, head: &Head) -> Result<KeyIn, No> {
        if self.to.way == Way::In {
            return Ok(KeyIn::default());
        }
        let worker = self.worker;
        let agent = Some(&*self.to.relay.agent);
        let route = Route { agent, ticket: None, provider: "relay", path: self.to.path };
        worker
            .identify(&route, &head.uri, &head.headers, agent)
            .map(|caller| caller.key_in)
            .map_err(|error| No::identity(&error, &head.headers))
    }

    /// Webhooks are as small as requests that are inspected; what an app sends may be a file.
    fn body_max(&self) -> u64 {
        let limits = &self.worker.limits;
        match self.to.way {
            Way::In => limits.body_bytes as u64,
            Way::Out => limits.upload_bytes,
        }
    }

    /// Registers it before it is judged: whoever stops the agent or the channel from here on finds it.
    async fn register(&self, busy: &Busy) -> Result<(Arc<Agent>, Registered), No> {
        let Message { worker, to } = self;
        let host = &worker.host;
        if host.journal.is_full() {
            return Err(No::no_journal(to.way, host.journal.has_failed()).closing());
        }
        let agent = host.agent_soon(&to.relay.agent).await.ok_or_else(|| {
            No::overload(to.way, "There are too many agents: raise limits.agents.").closing()
        })?;
        let (connection, max) = (Arc::clone(&busy.connection), worker.limits.streams_per_agent);
        let now = host.clock.about();
        let flight = agent
            .flights
            .register(agent.next_request(), Channel::Messaging, connection, now, max)
            .ok_or_else(|| {
            No::overload(to.way, "This agent has too many requests under way.").closing()
        })?;
        Ok((agent, flight))
    }

    /// Goes on only with a positive decision, and only if nothing was shut since (a permit, not an order).
    fn judge(&self, agent: &Agent, flight: &Registered) -> Result<(), No> {
        let (way, host) = (self.to.way, &self.worker.host);
        let relay = self.to.name.into();
        let what = match way {
            Way::In => EventKind::MessageIn { relay },
            Way::Out => EventKind::MessageOut { relay },
        };
        let decision = host.tell(agent, None, what);
        if !decision.is_allowed() {
            let (kind, code) = (reasons::kind(&decision), reasons::code(&decision));
            return Err(No::new(way, kind, code, reasons::sentence(&decision)));
        }
        if host.journal.has_failed() {
            return Err(No::no_journal(way, true));
        }
        flight.why_cut().map_or(Ok(()), |cut| Err(No::cut(way, cut)))
    }

    /// Sends it, waits for the answer's head, and hands over its body.
    async fn forward(&self, going: Going) -> Result<Response<ResponseBody>, No> {
        let Going { mut head, body, key_in, agent, flight, busy, place } = going;
        let (way, host) = (self.to.way, &self.worker.host);
        let upstream = &self.to.side.upstream;
        let ready = &upstream.ready;
        let uri = forward::target(ready, self.to.path, head.uri.query(), &key_in)
            .and_then(forward::uri)
            .ok_or_else(|| No::bad(way, 400, "bad_path", "The path cannot be sent on.").closing())?;
        let said_empty = head.headers.contains_key(CONTENT_LENGTH) && body.is_end_stream();
        let length = body.size_hint().exact();
        let mut request = Request::new(body);
        *request.method_mut() = head.method;
        *request.uri_mut() = uri;
        forward::request_headers(&mut head.headers, length, ready, &key_in);
        *request.headers_mut() = head.headers;
        if said_empty {
            // No length is written for a body that is not there, and some servers want one.
            request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        let (response, lease) = match upstream.send_unless_cut(request, &flight).await {
            Sent::Answered(response, lease) => (response, lease),
            Sent::Failed(error) => return Err(No::unreachable(way, &error)),
            Sent::Cut => {
                return Err(flight.why_cut().map_or_else(|| No::stopped(way), |cut| No::cut(way, cut)));
            }
        };
        let (mut head, body) = response.into_parts();
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(No::switched(way));
        }
        forward::response_headers(&mut head.headers);
        head.version = http::Version::HTTP_11;
        let account = nothing_to_settle(self.worker, agent, &flight);
        let host = host.clone();
        let answer = AnswerBody::new(Parts { body, lease, account, flight, host, shape: SHAPE, busy });
        Ok(Response::from_parts(head, response_body::boxed(answer.holding(place))))
    }
}

/// Nothing can be added to an answer that estop does not understand: it is cut by breaking it off.
pub(crate) const SHAPE: Shape =
    Shape { protocol: Protocol::Other(Family::OpenAi), framing: Framing::Plain, encoded: true };

/// A message costs nothing and is not read: its account is closed from the start.
pub(crate) fn nothing_to_settle(worker: &Worker, agent: Arc<Agent>, flight: &Registered) -> Box<Account> {
    let mut account = Account::open(Opened {
        host: worker.host.clone(),
        agent,
        run: None,
        request: flight.request,
        asked: Asked::of(&RequestPrint::default()),
        estimate: Estimate::default(),
        prices: ModelPrices::default(),
        streams: false,
        flight: flight.handle(),
    });
    account.never_opened();
    account
}
