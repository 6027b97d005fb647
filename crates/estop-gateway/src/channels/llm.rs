//! Requests to models: identify, read, understand, decide, observe. `exchange/exchange.rs` has the sequence.

mod error_format;
mod judging;

use std::sync::Arc;

use estop_core::decision::{Decision, Guard};
use estop_core::event::CallKind;
use estop_core::ids::Name;
use estop_core::policy::BlockResponse;
use estop_core::system::{self, SystemState};
use estop_core::trace_parent::TraceParent;
use estop_wire::protocol::{self, Call, Protocol};
use estop_wire::request::{self, RequestIn};
use estop_wire::response::{Observer, framing};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::request::Parts as Head;
use http::{HeaderMap, Response};

use crate::auth::identity::{self, Caller, IdentityError, Route};
use crate::body::response_body::ResponseBody;
use crate::body::upload::{BodyLimit, Outgoing};
use crate::channels::hooks;
use crate::engine::agents::Agent;
use crate::engine::background::{JOBS_MAX, JOBS_PER_AGENT_MAX};
use crate::engine::drill;
use crate::exchange::exchange::{BodyUse, ChannelHandler, ExchangeContext, Received, Target};
use crate::exchange::metered_body::BodyFormat;
use crate::exchange::rejection::{KeyPlace, Rejection};
use crate::exchange::usage_meter::{JobWatch, MayNotBegin, Sending, UsageMeter};
use crate::exchange::worker::Worker;
use crate::upstream::Upstream;
use error_format::ErrorFormat;

/// A request whose provider is known.
pub(crate) struct LlmRequest {
    call: Call,
    /// The provider's name.
    provider: Name,
    /// The run that hooks of its client's session would have.
    session_run: Option<Name>,
    /// Where it stands in its client's trace.
    trace_parent: Option<TraceParent>,
    /// It is not read, and costs nothing whatever it is.
    is_free: bool,
    /// Its path at the provider, where nobody knows what it costs.
    unread_path: Option<String>,
    /// The client asked for a stream.
    stream: bool,
    /// The provider may go on by itself after its response.
    background: bool,
}

impl ChannelHandler for LlmRequest {
    const GATE: system::Channel = system::Channel::Llm;
    type ErrorFormat = ErrorFormat;

    fn error_format(head: &Head) -> ErrorFormat {
        ErrorFormat::of(head)
    }

    fn render(format: &ErrorFormat, rejection: &Rejection) -> Response<ResponseBody> {
        format.render(rejection)
    }

    fn identify(
        worker: &Worker,
        head: &Head,
        format: &mut ErrorFormat,
    ) -> Result<(LlmRequest, Target), Rejection> {
        let refused = |error| {
            if error == IdentityError::NoProvider {
                return no_provider(worker);
            }
            Rejection::identity(&error, &head.headers, KeyPlace::ApiKey)
        };
        let route = identity::route(head.uri.path()).map_err(refused)?;
        let canary = worker.engine.drill_gate.admits(route.provider, &head.headers);
        let is_canary = canary.is_some();
        let (provider, upstream) = match canary {
            Some(upstream) => (drill::PROVIDER, upstream),
            None => provider_of(&route, worker)?,
        };
        let call = protocol::recognise(upstream.ready.provider.family, head.method.as_str(), route.path);
        format.protocol = call.protocol;
        let caller = match is_canary {
            true => Caller::of(drill::AGENT),
            false => worker.identify(&route, &head.uri, &head.headers, None).map_err(refused)?,
        };
        let is_inspected = !matches!(call.protocol, Protocol::Other(_));
        let is_free = !is_inspected && costs_nothing(head, route.path);
        let unread_path = if is_free || is_inspected { None } else { protocol::plain_path(route.path) };
        let upload = BodyLimit { bytes: worker.limits.upload_bytes, setting: "limits.upload_bytes" };
        let target = Target {
            caller,
            path: upstream.ready.without_repeat(route.path).to_owned(),
            upstream,
            upstream_name: "The provider",
            body: if is_inspected { BodyUse::Inspect } else { BodyUse::Pass(upload) },
        };
        let request = LlmRequest {
            stream: call.stream,
            call,
            provider: provider.into(),
            session_run: hooks::session_run(&head.headers),
            trace_parent: trace_parent(&head.headers),
            is_free,
            unread_path,
            // What is not read may ask for it.
            background: !is_inspected,
        };
        Ok((request, target))
    }

    /// The form of a message depends on what the body asks for.
    fn needs_body_to_reject(&self, context: &ExchangeContext<'_>) -> bool {
        style(context.worker, context.agent) == BlockResponse::Message
    }

    fn decide(
        &mut self,
        context: &ExchangeContext<'_>,
        received: &Received<'_>,
        format: &mut ErrorFormat,
    ) -> Result<Option<Box<UsageMeter>>, Rejection> {
        let said = match received.body {
            Some(bytes) => request::read(self.call.protocol, bytes).map_err(|error| {
                let message = format!("estop cannot read this request: {error}");
                Rejection::bad(400, "unreadable_request", message)
            })?,
            None => RequestIn::default(),
        };
        self.stream |= said.stream;
        self.background |= said.background;
        format.stream = self.stream;
        format.style = style(context.worker, context.agent);
        if format.style == BlockResponse::Message {
            format.model = self.model(&said).unwrap_or_default().to_owned();
        }
        let (decision, meter) = self.judge(context, received.gate, &said, received.body);
        Rejection::unless_allowed(&decision, context.agent).map_err(|rejection| {
            match is_canned(context.worker, &decision) {
                true => {
                    Rejection { message: "System is in safe mode. LLM is disabled.".to_owned(), ..rejection }
                }
                false => rejection,
            }
        })?;
        Ok(Some(meter))
    }

    /// Looks for work that the request begins at the provider, or asks about.
    fn before_send(
        &mut self,
        context: &ExchangeContext<'_>,
        request: &Outgoing,
        meter: Option<&mut UsageMeter>,
    ) -> Result<(), Rejection> {
        let may_be = match self.call.protocol {
            Protocol::OpenAiResponses => self.background,
            Protocol::Other(_) => true,
            Protocol::OpenAiChat
            | Protocol::OpenAiCompletions
            | Protocol::AnthropicMessages
            | Protocol::Gemini
            | Protocol::OllamaChat
            | Protocol::OllamaGenerate
            | Protocol::Embeddings(_) => false,
        };
        let Some(meter) = meter.filter(|_| may_be) else { return Ok(()) };
        let engine = &context.worker.engine;
        let sending = Sending {
            agent: &context.agent.name,
            provider: &self.provider,
            ready: &context.target.upstream.ready,
            request,
            path: &context.target.path,
            background: self.background,
            now: engine.clock.wall_coarse(),
        };
        meter.watch_job(JobWatch::of(&sending, &engine.jobs).map_err(may_not_begin)?);
        Ok(())
    }

    fn observe(&self, head: &http::response::Parts, meter: &mut UsageMeter) -> BodyFormat {
        let text = |name| head.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let protocol = self.call.protocol;
        let framing = framing(text(CONTENT_TYPE), protocol);
        let encoding = text(CONTENT_ENCODING);
        let inspected = self.kind() != CallKind::Other;
        let observer = inspected.then(|| Observer::new(protocol, framing, encoding));
        meter.begin(observer, self.stream, head);
        BodyFormat { protocol, framing, encoded: !encoding.is_empty() && encoding != "identity" }
    }
}

/// The provider a path names.
fn provider_of<'w>(route: &Route<'_>, worker: &'w Worker) -> Result<(&'w str, Arc<Upstream>), Rejection> {
    match worker.upstreams.get_key_value(route.provider) {
        Some((name, upstream)) => Ok((name, Arc::clone(upstream))),
        None => Err(unknown_provider(route, worker)),
    }
}

/// Whether it cannot cost anything. Some servers take another method from a header.
fn costs_nothing(head: &Head, path: &str) -> bool {
    let overrides = ["x-http-method-override", "x-http-method", "x-method-override"];
    protocol::costs_nothing(head.method.as_str(), path)
        && !overrides.iter().any(|name| head.headers.contains_key(*name))
}

/// The model is replaced by a canned answer (KS-9): in safe mode, and where the environment shut the channel.
fn is_safe_mode(worker: &Worker) -> bool {
    match worker.engine.latch.view().state {
        SystemState::SafeMode => true,
        SystemState::Running => !worker.llm_enabled,
        SystemState::Starting | SystemState::Shutdown => false,
    }
}

fn is_canned(worker: &Worker, decision: &Decision) -> bool {
    decision.refused_by() == Some(Guard::System) && is_safe_mode(worker)
}

/// How an agent's requests are refused: as its policy says, in safe mode by an answer that ends the turn.
fn style(worker: &Worker, agent: &Agent) -> BlockResponse {
    if is_safe_mode(worker) { BlockResponse::Message } else { agent.lock_state().policy.block_response }
}

/// Work at a provider that estop could not cancel is not begun.
fn may_not_begin(why: MayNotBegin) -> Rejection {
    match why {
        MayNotBegin::Path => {
            let message = "This request begins work that goes on at the provider, under a path that estop could not cancel it \
                by: send the plain path of the provider's documentation, without encoded characters.";
            Rejection::bad(400, "bad_path", message)
        }
        MayNotBegin::Full => {
            let message = format!(
                "Too much work goes on at providers: estop remembers {JOBS_PER_AGENT_MAX} of an agent and {JOBS_MAX} of all, to \
                 cancel it when the agent is stopped. Poll what is done, through estop, or cancel some; `estop background` lists it."
            );
            Rejection::bad(429, "too_much_background_work", message)
        }
    }
}

fn unknown_provider(route: &Route<'_>, worker: &Worker) -> Rejection {
    let message = format!(
        "There is no provider `{}`. Known: {}. Use /{{provider}}/… or /agents/{{agent}}/{{provider}}/….",
        printable(route.provider),
        known_providers(worker)
    );
    Rejection::bad(404, "unknown_provider", message).closing()
}

fn no_provider(worker: &Worker) -> Rejection {
    let message = format!(
        "This path names no provider. Use /{{provider}}/… or /agents/{{agent}}/{{provider}}/…; known: {}.",
        known_providers(worker)
    );
    Rejection::bad(404, "unknown_provider", message).closing()
}

fn known_providers(worker: &Worker) -> String {
    worker.upstreams.keys().map(AsRef::as_ref).collect::<Vec<&str>>().join(", ")
}

/// The start of a text a client sent, without control characters.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(64).collect()
}

/// Where a request stands in its client's trace; nowhere, if it says so twice.
fn trace_parent(headers: &HeaderMap) -> Option<TraceParent> {
    let mut values = headers.get_all("traceparent").iter();
    let value = values.next().filter(|_| values.next().is_none())?;
    TraceParent::parse(value.as_bytes())
}
