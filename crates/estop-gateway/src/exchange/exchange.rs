//! One request from its head to the end of its response, for every channel that forwards:
//! validate, identify, register, read, decide, forward, observe, settle.
//!
//! An error path never allows: whatever cannot be read, found or decided is rejected.

use std::sync::Arc;

use bytes::Bytes;
use estop_core::event::AbortedBy;
use estop_core::system::{self, GateView};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use http::request::Parts as Head;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::Body;
use hyper::body::Incoming;

use crate::auth::http_checks::{self, BadHead};
use crate::auth::identity::Caller;
use crate::body::inbound::Inbound;
use crate::body::reading::{self, BodyReservation};
use crate::body::response_body::{self, ResponseBody};
use crate::body::upload::{BodyLimit, Outgoing, RequestBody};
use crate::emergency_stop::connection::Busy;
use crate::emergency_stop::in_flight::{InFlightRequest, Phase, Registered};
use crate::engine::agents::Agent;
use crate::exchange::forward;
use crate::exchange::metered_body::{BodyFormat, MeteredBody, Parts};
use crate::exchange::rejection::Rejection;
use crate::exchange::usage_meter::UsageMeter;
use crate::exchange::worker::Worker;
use crate::upstream::{Sent, Upstream};

/// What a channel adds to the sequence. It lives as long as its request, and keeps what later steps need.
pub(crate) trait ChannelHandler: Sized + Send {
    /// What a kill of it shuts.
    const GATE: system::Channel;

    /// All that is needed to write a rejection; filled as more of the request is known.
    type ErrorFormat: Send;

    /// What the head alone says about the format.
    fn error_format(head: &Head) -> Self::ErrorFormat;

    /// Writes a rejection as the protocol's clients expect it.
    fn render(format: &Self::ErrorFormat, rejection: &Rejection) -> Response<ResponseBody>;

    /// Whether a platform calls from outside, by a tunnel or proxy, under a name of its own.
    fn is_webhook(_head: &Head) -> bool {
        false
    }

    /// Finds out who asks, and where the request goes.
    fn identify(
        worker: &Worker,
        head: &Head,
        format: &mut Self::ErrorFormat,
    ) -> Result<(Self, Target), Rejection>;

    /// Whether a rejection cannot be written before the body was read.
    fn needs_body_to_reject(&self, _context: &ExchangeContext<'_>) -> bool {
        false
    }

    /// Asks the engine. The meter is of what may cost something.
    fn decide(
        &mut self,
        context: &ExchangeContext<'_>,
        received: &Received<'_>,
        format: &mut Self::ErrorFormat,
    ) -> Result<Option<Box<UsageMeter>>, Rejection>;

    /// The last moment before the request is sent, as it will be.
    fn before_send(
        &mut self,
        _context: &ExchangeContext<'_>,
        _request: &Outgoing,
        _meter: Option<&mut UsageMeter>,
    ) -> Result<(), Rejection> {
        Ok(())
    }

    /// Whether the client may see this response.
    fn check_response(&self, _head: &http::response::Parts) -> Result<(), Rejection> {
        Ok(())
    }

    /// Begins to meter the response; how it is written.
    fn observe(&self, _head: &http::response::Parts, _meter: &mut UsageMeter) -> BodyFormat {
        BodyFormat::OPAQUE
    }

    /// The body that the client gets.
    fn response_body(
        self,
        body: MeteredBody,
        _head: &http::response::Parts,
        _flight: &Arc<InFlightRequest>,
    ) -> ResponseBody {
        response_body::boxed(body)
    }
}

/// Who asks, and where the request goes.
pub(crate) struct Target {
    pub(crate) caller: Caller,
    pub(crate) upstream: Arc<Upstream>,
    /// What its client calls the upstream, at the beginning of a sentence.
    pub(crate) upstream_name: &'static str,
    /// The path at the upstream, after its base path.
    pub(crate) path: String,
    pub(crate) body: BodyUse,
}

/// What is done with a request's body.
#[derive(Clone, Copy)]
pub(crate) enum BodyUse {
    /// It is read whole and inspected. What is inspected is what is forwarded.
    Inspect,
    /// Nobody looks at it: it is passed on as it comes.
    Pass(BodyLimit),
    /// There must be none.
    None,
}

/// A registered request, as a decision needs it.
pub(crate) struct ExchangeContext<'a> {
    pub(crate) worker: &'a Worker,
    pub(crate) target: &'a Target,
    pub(crate) agent: &'a Arc<Agent>,
    pub(crate) flight: &'a Registered,
}

/// What came of it, as far as it is known when it is decided.
pub(crate) struct Received<'a> {
    pub(crate) head: &'a Head,
    /// There if it is inspected and was read.
    pub(crate) body: Option<&'a Bytes>,
    /// Read after the request was registered: a kill finds the request, or the request finds the kill.
    pub(crate) gate: GateView,
}

/// A request that was let through.
struct Admitted {
    meter: Option<Box<UsageMeter>>,
    body: RequestBody,
    /// Given back when the request is sent and answered.
    _memory: BodyReservation,
}

/// Serves one request.
pub(crate) async fn serve<C: ChannelHandler>(
    worker: &Worker,
    inbound: Inbound,
    busy: Busy,
) -> Response<ResponseBody> {
    let mut format = C::error_format(&inbound.head);
    match run::<C>(worker, inbound, busy, &mut format).await {
        Ok(response) => response,
        Err(rejection) => {
            worker.engine.persist(rejection.stops).await;
            C::render(&format, &rejection)
        }
    }
}

async fn run<C: ChannelHandler>(
    worker: &Worker,
    inbound: Inbound,
    busy: Busy,
    format: &mut C::ErrorFormat,
) -> Result<Response<ResponseBody>, Rejection> {
    let Inbound { head, body } = inbound;
    validate_head(worker, &head, C::is_webhook(&head)).map_err(|bad| Rejection::head(&bad))?;
    let (mut channel, target) = C::identify(worker, &head, format)?;
    let (agent, flight) = register::<C>(worker, &target, &busy).await?;
    let context = ExchangeContext { worker, target: &target, agent: &agent, flight: &flight };
    let admitted = admit(&mut channel, context, &head, body, format).await?;
    forward(Forward { worker, channel, target, agent, flight, busy }, admitted, head).await
}

fn validate_head(worker: &Worker, head: &Head, is_webhook: bool) -> Result<(), BadHead> {
    http_checks::validate_head(head, worker.loopback && !is_webhook)?;
    if is_webhook { worker.origins.check_webhook(head) } else { worker.origins.check(head) }
}

/// Registers it before it is decided: whoever stops the agent or the channel from here on finds it.
async fn register<C: ChannelHandler>(
    worker: &Worker,
    target: &Target,
    busy: &Busy,
) -> Result<(Arc<Agent>, Registered), Rejection> {
    let engine = &worker.engine;
    if engine.journal.is_full() {
        return Err(Rejection::no_journal(engine.journal.has_failed()));
    }
    let agent = engine.agent_async(&target.caller.agent).await.ok_or_else(|| {
        Rejection::overload("There are too many agents: raise limits.agents or use fewer names.").closing()
    })?;
    let (connection, max) = (Arc::clone(&busy.connection), worker.limits.streams_per_agent);
    let (request, now) = (agent.next_request(), engine.clock.now_coarse());
    let flight =
        agent.in_flight_requests.register(request, C::GATE, target.upstream_name, connection, now, max);
    let flight = flight.ok_or_else(|| {
        Rejection::overload("This agent has too many requests under way: wait for some to end.").closing()
    })?;
    if let Some(run) = &target.caller.run {
        flight.set_run(Some(run.clone()));
    }
    Ok((agent, flight))
}

/// Reads the body as far as it is inspected, and decides.
async fn admit<C: ChannelHandler>(
    channel: &mut C,
    context: ExchangeContext<'_>,
    head: &Head,
    body: Incoming,
    format: &mut C::ErrorFormat,
) -> Result<Admitted, Rejection> {
    match context.target.body {
        BodyUse::Inspect => admit_inspected(channel, context, head, body, format).await,
        BodyUse::Pass(limit) => admit_passed(channel, context, limit, head, body, format).await,
        BodyUse::None if body.is_end_stream() => {
            let limit = BodyLimit { bytes: 0, setting: "nothing" };
            admit_passed(channel, context, limit, head, body, format).await
        }
        BodyUse::None => {
            let rejection = Rejection::bad(400, "bad_request", "This method has no body here.");
            Err(unread(body, rejection).await)
        }
    }
}

async fn admit_inspected<C: ChannelHandler>(
    channel: &mut C,
    context: ExchangeContext<'_>,
    head: &Head,
    body: Incoming,
    format: &mut C::ErrorFormat,
) -> Result<Admitted, Rejection> {
    let (worker, flight) = (context.worker, context.flight);
    let received = Received { head, body: None, gate: worker.engine.gate(&context.agent.name) };
    if !received.gate.lets_pass(C::GATE) && !channel.needs_body_to_reject(&context) {
        // A shut gate is told at once, without waiting for a body.
        let decided = decide(channel, &context, &received, format);
        let rejection = decided.err().unwrap_or_else(|| Rejection::shut(received.gate));
        return Err(unread(body, rejection).await);
    }
    if head.headers.contains_key(CONTENT_ENCODING) {
        let message = "The body is compressed (content-encoding) and cannot be inspected: send it plain.";
        return Err(unread(body, Rejection::bad(415, "content_encoding", message)).await);
    }
    let mut memory = BodyReservation::of(&worker.memory);
    let limit = BodyLimit { bytes: worker.limits.body_bytes as u64, setting: "limits.body_bytes" };
    let clock = &worker.engine.clock;
    let bytes = reading::read(body, worker.limits.body_bytes, &mut memory, flight, clock).await;
    let bytes = bytes.map_err(|problem| Rejection::body(problem, limit, flight))?;
    flight.enter(Phase::Judging, clock.now_coarse());
    // Read anew: the body may have taken long.
    let received = Received { head, body: Some(&bytes), gate: worker.engine.gate(&context.agent.name) };
    let meter = decide(channel, &context, &received, format)?;
    Ok(Admitted { meter, body: RequestBody::whole(bytes), _memory: memory })
}

async fn admit_passed<C: ChannelHandler>(
    channel: &mut C,
    context: ExchangeContext<'_>,
    limit: BodyLimit,
    head: &Head,
    body: Incoming,
    format: &mut C::ErrorFormat,
) -> Result<Admitted, Rejection> {
    let (worker, flight) = (context.worker, context.flight);
    let received = Received { head, body: None, gate: worker.engine.gate(&context.agent.name) };
    let is_too_large = body.size_hint().lower() > limit.bytes && received.gate.lets_pass(C::GATE);
    let decided = match is_too_large {
        true => Err(Rejection::too_large(limit)),
        false => decide(channel, &context, &received, format),
    };
    let meter = match decided {
        Ok(meter) => meter,
        Err(rejection) => return Err(unread(body, rejection).await),
    };
    let body = RequestBody::passing(body, limit, &worker.engine.clock, flight.handle()).await;
    let body = body.map_err(|problem| Rejection::body(problem, limit, flight))?;
    Ok(Admitted { meter, body, _memory: BodyReservation::of(&worker.memory) })
}

/// Goes on only with a positive decision, and only if nothing was shut since (a permit, not an order).
fn decide<C: ChannelHandler>(
    channel: &mut C,
    context: &ExchangeContext<'_>,
    received: &Received<'_>,
    format: &mut C::ErrorFormat,
) -> Result<Option<Box<UsageMeter>>, Rejection> {
    let meter = channel.decide(context, received, format)?;
    // The body may have taken long: what cannot be written down any more is not forwarded.
    if context.worker.engine.journal.has_failed() {
        return Err(Rejection::no_journal(true));
    }
    match context.flight.why_cut() {
        Some(cut) => Err(Rejection::cut(Some(cut))),
        None => Ok(meter),
    }
}

/// The rejection of a request whose body was not read: closed with bytes unread, the connection would be reset, and many
/// clients would never see the response.
async fn unread(body: Incoming, rejection: Rejection) -> Rejection {
    if body.is_end_stream() {
        return rejection;
    }
    reading::drain(body).await;
    rejection.closing()
}

/// Everything that goes with an admitted request.
struct Forward<'a, C> {
    worker: &'a Worker,
    channel: C,
    target: Target,
    agent: Arc<Agent>,
    flight: Registered,
    busy: Busy,
}

/// Sends it, waits for the head of the response, and hands over its body, which settles when it ends.
async fn forward<C: ChannelHandler>(
    of: Forward<'_, C>,
    admitted: Admitted,
    mut head: Box<Head>,
) -> Result<Response<ResponseBody>, Rejection> {
    let Forward { worker, mut channel, target, agent, flight, busy } = of;
    let Admitted { mut meter, body, _memory } = admitted;
    // What a client still sends when its request is over is not read.
    let comes = matches!(body, RequestBody::Passing(_));
    let rejected = |rejection: Rejection| if comes { rejection.closing() } else { rejection };
    let Target { upstream, upstream_name, caller, path, .. } = &target;
    let uri = forward::target(&upstream.ready, path, head.uri.query(), &caller.key_in)
        .and_then(forward::uri)
        .ok_or_else(|| rejected(Rejection::bad(400, "bad_path", "The path cannot be sent on.")))?;
    let said_empty = body.is_end_stream() && head.headers.contains_key(CONTENT_LENGTH);
    forward::request_headers(&mut head.headers, body.size_hint().exact(), &upstream.ready, &caller.key_in);
    if said_empty {
        // No length is written for a body that is not there, and some servers want one.
        head.headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    head.uri = uri;
    let request = Request::from_parts(*head, body);
    let context = ExchangeContext { worker, target: &target, agent: &agent, flight: &flight };
    channel.before_send(&context, &request, meter.as_deref_mut()).map_err(rejected)?;
    let (response, lease) = match upstream.send_unless_cut(request, &flight).await {
        Sent::Answered(response, lease) => (response, lease),
        Sent::Failed(error) => {
            abort(meter, AbortedBy::Upstream);
            return Err(rejected(Rejection::upstream_failed(upstream_name, &error)));
        }
        // Its meter says who cut it.
        Sent::Cut => return Err(rejected(Rejection::cut(flight.why_cut()))),
    };
    let (mut head, body) = response.into_parts();
    let checked = match head.status {
        StatusCode::SWITCHING_PROTOCOLS => Err(Rejection::switched_protocols(upstream_name)),
        _ => channel.check_response(&head),
    };
    if let Err(rejection) = checked {
        abort(meter, AbortedBy::Upstream);
        return Err(rejected(rejection));
    }
    forward::response_headers(&mut head.headers);
    head.version = http::Version::HTTP_11;
    let metered = meter.map(|mut meter| (channel.observe(&head, &mut meter), meter));
    let (engine, handle) = (Arc::clone(&worker.engine), flight.handle());
    let body = MeteredBody::new(Parts { body, lease, metered, flight, engine, busy });
    let body = channel.response_body(body, &head, &handle);
    Ok(Response::from_parts(head, body))
}

fn abort(meter: Option<Box<UsageMeter>>, by: AbortedBy) {
    if let Some(mut meter) = meter {
        meter.abort(by);
    }
}
