//! One request from its head to its answer: identify, read, understand, decide, forward (DESIGN: one request).
//!
//! An error path never allows: whatever cannot be read, found or judged is refused.

mod judging;
mod no;

use std::sync::Arc;

use estop_core::decision::{Decision, Effect};
use estop_core::event::{AbortedBy, CallKind};
use estop_core::ids::Name;
use estop_core::policy::BlockResponse;
use estop_core::system::Channel;
use estop_wire::client;
use estop_wire::protocol::{self, Call, Family, Protocol};
use estop_wire::refusal::Kind;
use estop_wire::request::{self, RequestIn};
use estop_wire::response::{Observer, framing};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, Request, Response, StatusCode};
use http_body::Body;
use hyper::body::Incoming;

use crate::auth::http_checks;
use crate::auth::identity::{self, Caller};
use crate::body::inbound::Inbound;
use crate::body::reading::{self, BodyProblem, Share};
use crate::body::response_body::{self, ResponseBody};
use crate::body::upload::{self, BodyLimit, RequestBody};
use crate::channels::hooks;
use crate::engine::agents::Agent;
use crate::engine::drill;
use crate::engine::reasons;
use crate::exchange::answer::{AnswerBody, Parts, Shape};
use crate::exchange::forward;
use crate::exchange::usage_meter::{Account, JobWatch, Sending};
use crate::exchange::worker::Worker;
use crate::killswitch::connection::Busy;
use crate::killswitch::in_flight::{Phase, Registered};
use crate::upstream::{Sent, Upstream};
use no::{
    No, Understood, cut_no, may_not_begin, no_journal, refuse_identity, unknown_provider, upstream_failed,
};

/// Serves one request to a model.
pub(crate) async fn serve(worker: &Worker, inbound: Inbound, busy: Busy) -> Response<ResponseBody> {
    let client = client::recognise(|name| known_header(&inbound.head.headers, name));
    let array = no::wants_array(&inbound.head.uri);
    match exchange(worker, inbound, busy).await {
        Ok(response) => response,
        Err(no) => {
            worker.host.persist(no.stops).await;
            no.answer(client, array)
        }
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

async fn exchange(worker: &Worker, inbound: Inbound, busy: Busy) -> Result<Response<ResponseBody>, No> {
    let Inbound { head: parts, body } = inbound;
    // Until the provider is known, the path alone says what an error must look like.
    let guess = || protocol::recognise(Family::OpenAi, parts.method.as_str(), parts.uri.path()).protocol;
    let screened = http_checks::screen(&parts, worker.loopback).and_then(|()| worker.origins.check(&parts));
    screened.map_err(|no| No::bad(no.status, no.code, no.message).closing().of(guess()))?;
    let route =
        identity::route(parts.uri.path()).map_err(|error| refuse_identity(&error, worker).of(guess()))?;
    let canary = worker.host.cage.admits(route.provider, &parts.headers);
    let found = || worker.upstreams.get_key_value(route.provider).map(|(name, upstream)| (&**name, upstream));
    let found = canary.as_ref().map(|upstream| (drill::PROVIDER, upstream)).or_else(found);
    let (provider, upstream) = found.ok_or_else(|| unknown_provider(&route, worker).of(guess()))?;
    let family = upstream.ready.provider.family;
    let call = protocol::recognise(family, parts.method.as_str(), route.path);
    let caller = match &canary {
        Some(_) => Ok(Caller::of(drill::AGENT)),
        None => worker.identify(&route, &parts.uri, &parts.headers, None),
    };
    let caller = caller.map_err(|error| refuse_identity(&error, worker).of(call.protocol))?;
    let path_at = parts.uri.path().len() - route.path.len();
    let is_free = costs_nothing(&parts, route.path);
    let is_unread = !is_free && matches!(call.protocol, Protocol::Other(_));
    let unread_path = is_unread.then(|| protocol::plain_path(route.path)).flatten();
    let session_run = hooks::session_run(&parts.headers);
    let (call, caller) = (&call, &caller);
    let asking =
        Asking { worker, call, caller, session_run, upstream, provider, is_free, unread_path, path_at };
    let admitted = asking.admit(body, &parts.headers, &busy).await.map_err(|no| no.of(call.protocol))?;
    asking.forward(admitted, parts, busy).await.map_err(|no| no.of(call.protocol))
}

/// Whether it cannot cost anything. Some servers take another method from a header.
fn costs_nothing(parts: &http::request::Parts, path: &str) -> bool {
    let overrides = ["x-http-method-override", "x-http-method", "x-method-override"];
    protocol::costs_nothing(parts.method.as_str(), path)
        && !overrides.iter().any(|name| parts.headers.contains_key(*name))
}

/// A request whose agent and provider are known.
struct Asking<'a> {
    worker: &'a Worker,
    call: &'a Call,
    caller: &'a Caller,
    /// The run that hooks of its client's session would have.
    session_run: Option<Name>,
    upstream: &'a Arc<Upstream>,
    /// The provider's name.
    provider: &'a str,
    /// Whatever it is, it costs nothing.
    is_free: bool,
    /// Its path at the provider, where nobody knows what it costs.
    unread_path: Option<String>,
    /// Where the provider's part of the path begins.
    path_at: usize,
}

/// A request that was let through.
struct Admitted {
    flight: Registered,
    account: Box<Account>,
    body: RequestBody,
    stream: bool,
    /// The provider goes on by itself after its answer.
    background: bool,
    /// Given back when the request is sent and answered.
    _memory: Share,
}

impl Asking<'_> {
    /// Registers, reads, understands and judges.
    async fn admit(&self, body: Incoming, headers: &HeaderMap, busy: &Busy) -> Result<Admitted, No> {
        let worker = self.worker;
        let host = &worker.host;
        if host.journal.is_full() {
            return Err(no_journal(host.journal.has_failed()).closing());
        }
        let agent = host.agent_soon(&self.caller.agent).await.ok_or_else(|| {
            No::overload("There are too many agents: raise limits.agents or use fewer names.").closing()
        })?;
        // Registered before it is judged: whoever stops the agent from here on finds it.
        let max = worker.limits.streams_per_agent;
        let flight = agent
            .flights
            .register(
                agent.next_request(),
                Channel::Llm,
                "The provider",
                Arc::clone(&busy.connection),
                host.clock.about(),
                max,
            )
            .ok_or_else(|| {
                No::overload("This agent has too many requests under way: wait for some to end.").closing()
            })?;
        if let Err(no) = self.refuse_if_shut(&agent, &flight) {
            reading::drain(body).await;
            return Err(no);
        }
        let mut memory = Share::of(&worker.memory);
        let inspected = !matches!(self.call.protocol, Protocol::Other(_));
        if !inspected {
            let limit = BodyLimit { bytes: worker.limits.upload_bytes, setting: "limits.upload_bytes" };
            if body.size_hint().lower() > limit.bytes {
                return Err(No::bad(413, "body_too_large", limit.exceeded()).closing());
            }
            let (decision, account) = self.judge(&agent, &flight, &RequestIn::default(), 0);
            self.go_on(&decision, &RequestIn::default(), &agent, &flight)?;
            let body = RequestBody::passing(body, limit, &host.clock, flight.handle())
                .await
                .map_err(|problem| self.refuse_body(problem, &flight))?;
            // What is not read may ask for it.
            return Ok(Admitted { flight, account, body, stream: false, background: true, _memory: memory });
        }
        if headers.contains_key(CONTENT_ENCODING) {
            let message = "The body is compressed (content-encoding) and cannot be inspected: send it plain.";
            return Err(No::bad(415, "content_encoding", message).closing());
        }
        let bytes = reading::read(body, worker.limits.body_bytes, &mut memory, &flight, &host.clock)
            .await
            .map_err(|problem| self.refuse_body(problem, &flight))?;
        flight.enter(Phase::Judging, host.clock.about());
        let said = request::read(self.call.protocol, &bytes).map_err(|error| {
            No::bad(400, "unreadable_request", format!("estop cannot read this request: {error}"))
        })?;
        let (decision, account) = self.judge(&agent, &flight, &said, bytes.len());
        self.go_on(&decision, &said, &agent, &flight)?;
        let stream = said.stream || self.call.stream;
        let background = said.background;
        Ok(Admitted { flight, account, body: RequestBody::whole(bytes), stream, background, _memory: memory })
    }

    /// A shut gate is told at once, without waiting for a body; unless the policy wants a message, whose form depends
    /// on what the body asks for.
    fn refuse_if_shut(&self, agent: &Arc<Agent>, flight: &Registered) -> Result<(), No> {
        let gate = self.worker.host.gate(&agent.name);
        if gate.lets_pass(Channel::Llm) || self.worker.style(agent) == BlockResponse::Message {
            return Ok(());
        }
        // Under the word that was read: whatever opens meanwhile, this request is judged once.
        let (decision, _) = self.judge_under(gate, agent, flight, &RequestIn::default(), 0);
        self.go_on(&decision, &RequestIn::default(), agent, flight).map_err(No::closing)
    }

    /// Goes on only with a positive decision, and only if nothing was shut since (a permit, not an order).
    fn go_on(
        &self,
        decision: &Decision,
        said: &RequestIn<'_>,
        agent: &Agent,
        flight: &Registered,
    ) -> Result<(), No> {
        let understood = || Understood {
            protocol: self.call.protocol,
            stream: said.stream || self.call.stream,
            model: self.model(said).unwrap_or_default().to_owned(),
            style: self.worker.style(agent),
        };
        if !decision.is_allowed() {
            let message = self.worker.sentence(decision);
            let mut no = No::new(reasons::kind(decision), reasons::code(decision), message);
            no.understood = Some(understood());
            no.stops = decision.effects.iter().any(|effect| matches!(effect, Effect::Deactivated { .. }));
            return Err(no);
        }
        // The body may have taken long: what cannot be written down any more is not forwarded.
        if self.worker.host.journal.has_failed() {
            return Err(no_journal(true).closing());
        }
        if let Some(cut) = flight.why_cut() {
            let mut no = No::new(cut.kind, cut.code, cut.message.clone());
            no.understood = Some(understood());
            return Err(no);
        }
        Ok(())
    }

    fn refuse_body(&self, problem: BodyProblem, flight: &Registered) -> No {
        match problem {
            BodyProblem::TooLarge => {
                let max = self.worker.limits.body_bytes;
                let message = format!(
                    "The request body is larger than {max} bytes. Send less, or raise limits.body_bytes."
                );
                No::bad(413, "body_too_large", message).closing()
            }
            BodyProblem::NoMemory => {
                No::overload("estop holds too many request bodies at once: try again.").closing()
            }
            BodyProblem::Broken => No::bad(400, "broken_body", upload::BROKEN).closing(),
            BodyProblem::Cut => cut_no(flight).closing(),
        }
    }

    /// Sends it, waits for the answer's head, and hands over its body.
    async fn forward(
        &self,
        admitted: Admitted,
        mut parts: Box<http::request::Parts>,
        busy: Busy,
    ) -> Result<Response<ResponseBody>, No> {
        let Admitted { flight, mut account, body, stream, background, _memory } = admitted;
        let ready = &self.upstream.ready;
        let path = parts.uri.path().get(self.path_at..).unwrap_or_default();
        let path = ready.without_repeat(path);
        let uri = forward::target(ready, path, parts.uri.query(), &self.caller.key_in)
            .and_then(forward::uri)
            .ok_or_else(|| No::bad(400, "bad_path", "The path cannot be sent to the provider."))?;
        account.watch_job(self.job(&account.agent().name, &parts, path, background)?);
        let said_empty = body.is_end_stream() && parts.headers.contains_key(CONTENT_LENGTH);
        forward::request_headers(&mut parts.headers, body.size_hint().exact(), ready, &self.caller.key_in);
        if said_empty {
            // No length is written for a body that is not there, and some servers want one.
            parts.headers.insert(CONTENT_LENGTH, http::HeaderValue::from_static("0"));
        }
        let comes = matches!(body, RequestBody::Passing(_));
        parts.uri = uri;
        let request = Request::from_parts(*parts, body);
        let sent = self.upstream.send_unless_cut(request, &flight).await;
        let (response, lease) = match sent {
            Sent::Answered(response, lease) => (response, lease),
            Sent::Failed(error) => {
                account.abort(AbortedBy::Upstream);
                // What its client still sends is not read any more.
                let no = upstream_failed(&error);
                return Err(if comes { no.closing() } else { no });
            }
            Sent::Cut => {
                let by = flight.why_cut().map_or(AbortedBy::Guard, |cut| cut.by);
                account.abort(by);
                return Err(cut_no(&flight));
            }
        };
        let (mut head, body) = response.into_parts();
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            account.abort(AbortedBy::Upstream);
            let message = "The provider switched protocols, which nobody asked for.";
            return Err(No::new(Kind::Upstream { status: 502 }, "upstream_error", message));
        }
        forward::response_headers(&mut head.headers);
        head.version = http::Version::HTTP_11;
        let shape = self.observe(&head, stream, &mut account);
        account.answered(&head);
        let host = self.worker.host.clone();
        let parts = Parts { body, lease, metered: Some((shape, account)), flight, host, busy };
        let body = response_body::boxed(AnswerBody::new(parts));
        Ok(Response::from_parts(head, body))
    }

    /// What to look for in the answer, if the request begins work at the provider or asks about some.
    fn job(
        &self,
        agent: &str,
        head: &http::request::Parts,
        path: &str,
        background: bool,
    ) -> Result<Option<Box<JobWatch>>, No> {
        let may_be = match self.call.protocol {
            Protocol::OpenAiResponses => background,
            Protocol::Other(_) => true,
            Protocol::OpenAiChat
            | Protocol::OpenAiCompletions
            | Protocol::AnthropicMessages
            | Protocol::Gemini
            | Protocol::OllamaChat
            | Protocol::OllamaGenerate
            | Protocol::Embeddings(_) => false,
        };
        if !may_be {
            return Ok(None);
        }
        let Asking { provider, upstream, .. } = self;
        let (ready, host) = (&*upstream.ready, &self.worker.host);
        let now = host.clock.about_wall();
        let sending = Sending { agent, provider, ready, head, path, background, now };
        JobWatch::of(&sending, &host.jobs).map_err(may_not_begin)
    }

    fn observe(&self, head: &http::response::Parts, stream: bool, account: &mut Account) -> Shape {
        let text = |name| head.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let protocol = self.call.protocol;
        let framing = framing(text(CONTENT_TYPE), protocol);
        let encoding = text(CONTENT_ENCODING);
        let inspected = self.kind() != CallKind::Other;
        let observer = inspected.then(|| Observer::new(protocol, framing, encoding));
        account.begin(observer, stream, head.status.as_u16() >= 400);
        Shape { protocol, framing, encoded: !encoding.is_empty() && encoding != "identity" }
    }
}
