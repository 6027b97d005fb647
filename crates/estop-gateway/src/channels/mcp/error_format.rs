//! A rejected message, as MCP clients read it. A request is answered as JSON-RPC answers, with 200, because clients read
//! those; everything else by its status.

use estop_wire::mcp::{self, Call, Id, Message, Part, Unread};
use estop_wire::refusal::Kind;
use http::header::ALLOW;
use http::{HeaderValue, Response, StatusCode};

use crate::body::response_body::ResponseBody;
use crate::exchange::rejection::Rejection;

/// What is known of a message, as far as a rejection needs it.
#[derive(Default)]
pub(crate) struct ErrorFormat {
    waiting: Vec<Waiting>,
    is_batch: bool,
    /// JSON-RPC's number for what is wrong with a message that cannot be read, and the id it would be answered under.
    unread: Option<(i32, Option<Id>)>,
}

/// A request that waits for its answer.
enum Waiting {
    Call(Call<'static>),
    Request(Id),
}

impl ErrorFormat {
    /// The message was read. It is rejected as a whole, as a batch cannot be taken apart.
    pub(super) fn set_message(&mut self, message: &Message<'_>) {
        self.is_batch = message.is_batch;
        let waiting = |part: &Part<'_>| match part {
            Part::Call(call) => {
                Some(Waiting::Call(Call { arguments: "{}".into(), ..call.clone() }.into_owned()))
            }
            Part::Request { id, .. } => Some(Waiting::Request(id.clone())),
            Part::Notice { .. } | Part::Answer { .. } | Part::Other => None,
        };
        self.waiting = message.parts().iter().filter_map(waiting).collect();
    }

    /// The message cannot be read.
    pub(super) fn set_unread(&mut self, unread: Unread) {
        self.unread = Some((unread.code, unread.id));
    }

    /// Writes a rejection.
    pub(super) fn render(&self, rejection: &Rejection) -> Response<ResponseBody> {
        let message = &rejection.message;
        let (status, answers) = match rejection.kind {
            Kind::Stop => (403, self.answers(message)),
            Kind::Wait { .. } => (429, self.answers(message)),
            // Late: a call that runs at its server has an end that its model reads.
            Kind::Upstream { status: 504 } => (504, self.answers(message)),
            Kind::BadRequest { status } | Kind::Upstream { status } => (status, Vec::new()),
            Kind::Overload => (503, Vec::new()),
        };
        let (status, body) = match answers.as_slice() {
            [] => {
                let (code, id) =
                    self.unread.as_ref().map_or((mcp::SERVER_ERROR, None), |(c, id)| (*c, id.as_ref()));
                (status, mcp::error(id, code, message))
            }
            [only] if !self.is_batch => (200, only.clone()),
            all => (200, mcp::batch(all)),
        };
        let mut response = rejection.response(status, body);
        if response.status() == StatusCode::METHOD_NOT_ALLOWED {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, POST, DELETE"));
        }
        response
    }

    fn answers(&self, reason: &str) -> Vec<String> {
        let answer = |waiting: &Waiting| match waiting {
            Waiting::Call(call) => mcp::denied(call, reason),
            Waiting::Request(id) => mcp::error(Some(id), mcp::SERVER_ERROR, reason),
        };
        self.waiting.iter().map(answer).collect()
    }
}
