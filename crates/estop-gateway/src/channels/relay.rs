//! The message relay (KS-10): `/relay/{name}/in/…` to the app, `/relay/{name}/out/…` to the platform.
//!
//! Messages pass as they are, under the same DECIDE and the same cut as requests to models, on the channel
//! `messaging`. Where they go comes from the configuration alone; what the other side answers, redirects too, goes back
//! as it is. Nothing of a message is written down: tokens stand in its path, and people's words in its body.

mod error_format;
mod path;

use std::sync::Arc;

use estop_core::event::{Event, EventKind};
use estop_core::ids::Name;
use estop_core::system;
use http::Response;
use http::request::Parts as Head;

use crate::auth::identity::{Caller, Route};
use crate::body::response_body::{self, ResponseBody};
use crate::body::upload::BodyLimit;
use crate::emergency_stop::in_flight::InFlightRequest;
use crate::exchange::exchange::{BodyUse, ChannelHandler, ExchangeContext, Received, Target};
use crate::exchange::metered_body::MeteredBody;
use crate::exchange::rejection::{KeyPlace, Rejection};
use crate::exchange::usage_meter::UsageMeter;
use crate::exchange::worker::Worker;
use crate::upstream::relays::Permit;
use path::RelayPath;

const TOO_MANY: &str =
    "This relay has too many messages under way: try again, or raise relays.NAME.concurrency.";

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

/// A message whose relay is known.
pub(crate) struct Message {
    relay: Name,
    way: Way,
    /// One of the relay's concurrent messages.
    permit: Permit,
}

impl ChannelHandler for Message {
    const GATE: system::Channel = system::Channel::Messaging;
    /// Decided by the path: what names neither way is the concern of whoever calls from outside.
    type ErrorFormat = Way;

    fn error_format(head: &Head) -> Way {
        path::way(head.uri.path())
    }

    fn render(way: &Way, rejection: &Rejection) -> Response<ResponseBody> {
        error_format::render(*way, rejection)
    }

    fn is_webhook(head: &Head) -> bool {
        path::leads_in(head.uri.path())
    }

    fn identify(worker: &Worker, head: &Head, _: &mut Way) -> Result<(Message, Target), Rejection> {
        let to = path::read(head.uri.path(), &worker.relays)?;
        let caller = identify(worker, head, &to)?;
        let permit = to.side.take().ok_or_else(|| Rejection::overload(TOO_MANY).closing())?;
        // Webhooks are as small as requests that are inspected; what an app sends may be a file.
        let limit = match to.way {
            Way::In => BodyLimit { bytes: worker.limits.body_bytes as u64, setting: "limits.body_bytes" },
            Way::Out => BodyLimit { bytes: worker.limits.upload_bytes, setting: "limits.upload_bytes" },
        };
        let target = Target {
            caller,
            upstream: Arc::clone(&to.side.upstream),
            upstream_name: match to.way {
                Way::In => "The app",
                Way::Out => "The platform",
            },
            path: to.path.to_owned(),
            body: BodyUse::Pass(limit),
        };
        Ok((Message { relay: to.name.into(), way: to.way, permit }, target))
    }

    fn decide(
        &mut self,
        context: &ExchangeContext<'_>,
        received: &Received<'_>,
        _: &mut Way,
    ) -> Result<Option<Box<UsageMeter>>, Rejection> {
        let relay = self.relay.clone();
        let what = match self.way {
            Way::In => EventKind::MessageIn { relay },
            Way::Out => EventKind::MessageOut { relay },
        };
        let event = Event { run: None, gate: received.gate, what };
        let decision =
            context.worker.engine.apply_under(context.agent, &mut context.agent.lock_state(), event);
        Rejection::unless_allowed(&decision, context.agent).map(|()| None)
    }

    fn response_body(
        self,
        body: MeteredBody,
        _: &http::response::Parts,
        _: &Arc<InFlightRequest>,
    ) -> ResponseBody {
        response_body::boxed(body.holding(self.permit))
    }
}

/// Who sends it may act as the relay's agent. A platform has no key of ours; its door is the relay's secret.
fn identify(worker: &Worker, head: &Head, to: &RelayPath<'_>) -> Result<Caller, Rejection> {
    let agent = &*to.relay.agent;
    if to.way == Way::In {
        return Ok(Caller::of(agent));
    }
    let route = Route { agent: Some(agent), ticket: None, provider: "relay", path: to.path };
    worker
        .identify(&route, &head.uri, &head.headers, Some(agent))
        // A message belongs to no run.
        .map(|caller| Caller { run: None, ..caller })
        .map_err(|error| Rejection::identity(&error, &head.headers, KeyPlace::OwnHeader("the platform's")))
}
