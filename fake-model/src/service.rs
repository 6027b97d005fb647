//! One request: read it, decide, answer.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::{Value, json};

use crate::body::{Outgoing, Source};
use crate::connection::{Connection, Order, Ticket};
use crate::dialogue::{answer, reply_by_model};
use crate::models;
use crate::protocols::{Endpoint, Generation, embeddings, error_body};
use crate::script::{AbortAt, Delay, Hold, Reply};
use crate::seen::Outcome;
use crate::{control, encoding};

/// Answers a request, or breaks the connection off.
pub(crate) async fn handle(
    request: Request<Incoming>,
    connection: Arc<Connection>,
) -> io::Result<Response<Outgoing>> {
    let (parts, body) = request.into_parts();
    if parts.uri.path().starts_with("/_") {
        return control::handle(&parts, body, &connection).await;
    }
    let shared = connection.shared();
    let number = shared.log.begin(connection.number, &parts);
    let ticket = Ticket::new(number, Arc::clone(&connection));
    let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());

    let (delay, hold) = shared.script(|script| script.before_body(path)).unwrap_or_default();
    pause(&connection, delay.body_ms, hold == Some(Hold::Upload)).await?;
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    shared.log.body(number, &body);

    let said = Exchange::new(parts.method.as_str(), path, query, &parts.headers, &body);
    let text = String::from_utf8_lossy(&body);
    let reply = shared.script(|script| script.take(path, &said.model, &text));
    // Work in the background is answered as such, unless a script says something else.
    let job = || shared.jobs(|jobs| jobs.answer(parts.method.as_str(), path, said.body.as_ref(), number));
    let by_job =
        || job().map(|(status, job)| Reply { status: Some(status), json: Some(job), ..Reply::default() });
    let reply = reply.or_else(by_job).unwrap_or_else(|| reply_by_model(&said.model));

    if let Some(raw) = &reply.raw_base64 {
        connection.aborted(number);
        connection.order(Order::Raw(STANDARD.decode(raw).map_err(io::Error::other)?));
        return std::future::pending().await;
    }
    let Delay { headers_ms, .. } = reply.delay;
    pause(&connection, headers_ms, reply.hold == Some(Hold::Headers)).await?;
    if let Some(abort) = reply.abort.filter(|abort| abort.at == AbortAt::BeforeHeaders) {
        return break_off(&connection, number, abort.how).await;
    }
    let (status, content_type, source) = said.answer(&reply, number, body.len())?;
    respond(status, content_type, source, reply, ticket, &connection, said.is_head)
}

/// Waits; for ever, if so told. The client's going ends it.
async fn pause(connection: &Connection, pause_ms: u64, for_ever: bool) -> io::Result<()> {
    let wait = async {
        if for_ever {
            std::future::pending::<()>().await;
        }
        if pause_ms > 0 {
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        }
    };
    tokio::select! {
        () = wait => Ok(()),
        () = connection.gone() => Err(io::ErrorKind::ConnectionAborted.into()),
    }
}

async fn break_off(
    connection: &Connection,
    number: u64,
    how: crate::script::AbortHow,
) -> io::Result<Response<Outgoing>> {
    connection.aborted(number);
    if how == crate::script::AbortHow::Rst {
        connection.order(Order::Reset);
        return std::future::pending().await;
    }
    Err(io::ErrorKind::BrokenPipe.into())
}

fn respond(
    status: u16,
    content_type: &'static str,
    source: Source,
    reply: Reply,
    ticket: Ticket,
    connection: &Arc<Connection>,
    is_head: bool,
) -> io::Result<Response<Outgoing>> {
    let number = ticket.number();
    connection.shared().log.status(number, status);
    let mut response = Response::builder().status(status).header(CONTENT_TYPE, content_type);
    response = response.header("server", "estop-fake-model");
    for name in ["x-request-id", "request-id"] {
        response = response.header(name, format!("req_fake{number:08}"));
    }
    if let Some(encoding) = reply.encoding {
        response = response.header(CONTENT_ENCODING, encoding::name(encoding));
    }
    let headers = reply.headers.clone();
    let body = if is_head {
        ticket.end(Outcome::Completed);
        Outgoing::whole(Vec::new())
    } else {
        Outgoing::start(source, reply, ticket, Arc::clone(connection))?
    };
    let mut response = response.body(body).map_err(io::Error::other)?;
    for (name, value) in headers {
        let name = HeaderName::try_from(name).map_err(io::Error::other)?;
        response.headers_mut().insert(name, HeaderValue::try_from(value).map_err(io::Error::other)?);
    }
    Ok(response)
}

/// A request, read as far as an answer needs.
struct Exchange {
    endpoint: Endpoint,
    path: String,
    is_head: bool,
    is_post: bool,
    wants_upgrade: bool,
    /// `None`: not JSON.
    body: Option<Value>,
    model: String,
}

impl Exchange {
    fn new(method: &str, path: &str, query: &str, headers: &http::HeaderMap, body: &[u8]) -> Self {
        let endpoint = Endpoint::of(path, query);
        let body: Option<Value> = serde_json::from_slice(body).ok();
        let model = match &endpoint {
            Endpoint::Generation(Generation::Gemini { model, .. }) => model.clone(),
            Endpoint::Generation(_)
            | Endpoint::Embeddings(_)
            | Endpoint::AnthropicCount
            | Endpoint::GeminiCount
            | Endpoint::Other => {
                body.as_ref().and_then(|body| body["model"].as_str()).unwrap_or_default().to_owned()
            }
        };
        Self {
            endpoint,
            path: path.to_owned(),
            is_head: method == "HEAD",
            is_post: method == "POST",
            wants_upgrade: headers.contains_key("upgrade"),
            body,
            model,
        }
    }

    fn answer(
        &self,
        reply: &Reply,
        number: u64,
        body_bytes: usize,
    ) -> io::Result<(u16, &'static str, Source)> {
        const JSON: &str = "application/json";
        let status = reply.status.unwrap_or(200);
        if let Some(body) = fixed_body(reply)? {
            return Ok((status, JSON, Source::Bytes(body)));
        }
        let shape = match &self.endpoint {
            Endpoint::Generation(generation) => generation.clone(),
            Endpoint::AnthropicCount => Generation::Anthropic,
            Endpoint::Embeddings(_) | Endpoint::GeminiCount | Endpoint::Other => Generation::Chat,
        };
        if status >= 400 {
            let message = reply.message.as_deref().unwrap_or("The fake model was told to fail.");
            return Ok((status, JSON, json_source(&error_body(&shape, status, message))));
        }
        if self.wants_upgrade {
            return Ok((426, JSON, json_source(&error_body(&shape, 426, "No WebSockets here."))));
        }
        let Endpoint::Generation(generation) = &self.endpoint else {
            return Ok(self.answer_other(status, body_bytes));
        };
        if !self.is_post {
            return Ok((405, JSON, json_source(&error_body(&shape, 405, "Use POST."))));
        }
        let Some(body) = &self.body else {
            return Ok((400, JSON, json_source(&error_body(&shape, 400, "The body is not JSON."))));
        };
        let ask = generation.read(body);
        let answer = Arc::new(answer(&ask, reply, number, body_bytes));
        let framing = generation.framing();
        Ok(if reply.keep_alive {
            (status, framing.content_type(), Source::KeepAlive(framing))
        } else if ask.stream {
            let error = generation.error_event(reply.message.as_deref().unwrap_or("The fake model broke."));
            let events = generation.stream(answer);
            (status, framing.content_type(), Source::Stream { events, framing, error })
        } else {
            (status, JSON, json_source(&generation.plain(&answer)))
        })
    }

    fn answer_other(&self, status: u16, body_bytes: usize) -> (u16, &'static str, Source) {
        let body = self.body.clone().unwrap_or(Value::Null);
        let tokens = body_bytes / 4 + 1;
        let answer = match &self.endpoint {
            Endpoint::Embeddings(shape) => embeddings::plain(*shape, &body, body_bytes),
            Endpoint::AnthropicCount => json!({"input_tokens": tokens}),
            Endpoint::GeminiCount => json!({"totalTokens": tokens}),
            Endpoint::Other | Endpoint::Generation(_) => {
                match models::answer(&self.path, self.is_post, &body) {
                    Some(answer) => answer,
                    None => {
                        let error = error_body(&Generation::Chat, 404, "The fake model knows no such path.");
                        return (404, "application/json", json_source(&error));
                    }
                }
            }
        };
        (status, "application/json", json_source(&answer))
    }
}

fn fixed_body(reply: &Reply) -> io::Result<Option<Vec<u8>>> {
    if let Some(json) = &reply.json {
        return Ok(Some(json.to_string().into_bytes()));
    }
    if let Some(body) = &reply.body {
        return Ok(Some(body.clone().into_bytes()));
    }
    reply.body_base64.as_ref().map(|body| STANDARD.decode(body).map_err(io::Error::other)).transpose()
}

fn json_source(value: &Value) -> Source {
    Source::Bytes(value.to_string().into_bytes())
}
