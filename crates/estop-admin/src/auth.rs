//! The guard before every route: is the request clear, who asks, and may they. It also puts the safe headers on every
//! answer.

mod body_token;
mod head_checks;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use estop_store::{Session, TokenRole};
use http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, HeaderName, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method};
use secrecy::{ExposeSecret, SecretString};

use crate::access::{
    Caller, Found, Needs, Only, Peer, SessionKey, allow, csrf_fits, is_idle, methods_of, needs, rank,
    role_name, sha256,
};
use crate::connection_slot::ConnectionSlot;
use crate::problem::{Kind, Problem};
use crate::state::App;

/// The header unsafe requests of the dashboard carry.
pub(crate) const CSRF: HeaderName = HeaderName::from_static("x-estop-csrf");

/// The header a supervised run shows its ticket in.
const TICKET: HeaderName = HeaderName::from_static("x-estop-ticket");

/// Where a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The admin port: everybody says who they are.
    Network,
    /// The owner's socket: whoever can open it owns this estop, and needs a token only to unlock the button (KS-5).
    Owner,
}

/// What the guard needs.
#[derive(Clone)]
pub(crate) struct AuthState {
    pub(crate) app: App,
    pub(crate) origin: Origin,
}

/// Lets a request through, or answers it.
pub(crate) async fn guard(State(gate): State<AuthState>, request: Request, next: Next) -> Response {
    let mut response = match let_in(&gate, request).await {
        Ok(request) => {
            // Where nobody is asked who they are, nobody has shown that they may be here.
            let is_known = request.extensions().get::<Caller>().is_some();
            let seat = request.extensions().get::<ConnectionSlot>().filter(|_| is_known);
            let _answering = seat.map(ConnectionSlot::begin);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    };
    put_headers(response.headers_mut());
    response
}

/// Who looks at a page. It needs a session, or the owner's socket; it changes nothing, so that no role is asked for.
pub(crate) async fn visitor(gate: &AuthState, request: &Parts) -> Result<Caller, Problem> {
    gate.screen(request)?;
    match gate.origin {
        _ if !is_safe(&request.method) => Err(Problem::allow("GET")),
        _ if request.headers.contains_key(&TICKET) => Err(not_by_ticket()),
        Origin::Owner => Ok(Caller::owner()),
        Origin::Network => recognise(&gate.app, request, Needs::Role(TokenRole::Viewer)).await,
    }
}

/// The request, with who asks.
async fn let_in(gate: &AuthState, request: Request) -> Result<Request, Problem> {
    let (mut head, body) = request.into_parts();
    let body = body_token::lift(&mut head, body).await?;
    let caller = admit(gate, &head).await?;
    let peer = peer(&head);
    head.extensions.insert(peer);
    caller.map(|caller| head.extensions.insert(caller));
    Ok(Request::from_parts(head, body))
}

/// Who asks; `None` where nobody is asked.
async fn admit(gate: &AuthState, request: &Parts) -> Result<Option<Caller>, Problem> {
    if gate.origin == Origin::Network {
        head_checks::screen(request, gate.app.options.loopback)?;
    }
    let path = request.extensions.get::<MatchedPath>().map(MatchedPath::as_str).and_then(methods_of);
    let Some(methods) = path else {
        return Err(Problem::new(Kind::NotFound, "There is nothing here. /api/docs lists what there is."));
    };
    let Some(needed) = needs(methods, request.method.as_str()) else {
        return Err(Problem::allow(&allow(methods)));
    };
    let Some(role) = needed.role() else {
        // A login is as good as a session: another site's page must not make one.
        return if is_safe(&request.method) {
            Ok(None)
        } else {
            head_checks::same_site(&request.headers).map(|()| None)
        };
    };
    if let Some(caller) = by_ticket(&gate.app, request, needed)? {
        return Ok(Some(caller));
    }
    let caller = match gate.origin {
        Origin::Owner => at_socket(&gate.app, request, needed).await?,
        Origin::Network => recognise(&gate.app, request, needed).await?,
    };
    // A key was recognised only where keys are good.
    if caller.only.is_none() && rank(caller.role) < rank(role) {
        let (has, needed) = (role_name(caller.role), role_name(role));
        let detail = format!("This needs a token with the role {needed}; yours has the role {has}.");
        return Err(Problem::new(Kind::Forbidden, detail));
    }
    Ok(Some(caller))
}

/// A ticket says whose run it is, from wherever: it can only narrow what its bearer may do. Nobody guesses 256 bits,
/// and a program that outlives its run must not use up other people's attempts: failures are not counted.
fn by_ticket(app: &App, request: &Parts, needed: Needs) -> Result<Option<Caller>, Problem> {
    let mut values = request.headers.get_all(&TICKET).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if !matches!(needed, Needs::Ticket(_)) {
        return Err(not_by_ticket());
    }
    let ticket = value.to_str().ok().filter(|_| values.next().is_none());
    let known = ticket.and_then(|ticket| app.operator.ticket(sha256(ticket)));
    let Some((agent, run)) = known else {
        let detail = "This ticket is not known: its run is over, or its supervisor is not connected.";
        return Err(Problem::unauthenticated(detail));
    };
    Ok(Some(Caller::agent(Only { agent, run: Some(run) })))
}

fn not_by_ticket() -> Problem {
    let detail = "A ticket opens hooks, and the line and the steps sleep and wake of its own run: not this.";
    Problem::new(Kind::Forbidden, detail)
}

/// Whose key this is, where keys are good.
fn by_key(app: &App, token: &SecretString, needed: Needs) -> Option<Caller> {
    let takes_keys = matches!(needed, Needs::Agent(_) | Needs::Ticket(_));
    let agent = takes_keys.then(|| app.operator.key_owner(sha256(token.expose_secret()))).flatten()?;
    Some(Caller::agent(Only { agent, run: None }))
}

/// Who asks over the owner's socket. A token that is shown counts, and a wrong one is refused; without one it is the owner.
async fn at_socket(app: &App, request: &Parts, needed: Needs) -> Result<Caller, Problem> {
    if request.headers.contains_key(AUTHORIZATION) {
        return recognise(app, request, needed).await;
    }
    match needed {
        Needs::Token(_) => {
            let detail = "This needs an admin token, also over the owner's socket: stopping needs none, starting again does.";
            Err(Problem::new(Kind::Forbidden, detail))
        }
        Needs::Anyone | Needs::Role(_) | Needs::Agent(_) | Needs::Ticket(_) => Ok(Caller::owner()),
    }
}

async fn recognise(app: &App, request: &Parts, needed: Needs) -> Result<Caller, Problem> {
    let headers = &request.headers;
    if headers.contains_key(AUTHORIZATION) {
        let token = bearer(headers).ok_or_else(|| {
            let problem = Problem::unauthenticated("Send one header `Authorization: Bearer <token>`.");
            body_token::refused(request, problem)
        })?;
        if let Some(caller) = by_key(app, &token, needed) {
            return Ok(caller);
        }
        let stops = body_token::is_kill(request);
        let known = app.tokens.find(&token, peer(request), app.now(), stops).await;
        let known = known.map_err(|problem| body_token::refused(request, problem))?;
        app.touch(&known.id);
        return Ok(Caller::person(known.name, known.role));
    }
    let Some(id) = cookie(headers, app.options.cookie_name()) else {
        let problem = Problem::unauthenticated("Send `Authorization: Bearer <token>`, or log in first.");
        return Err(body_token::refused(request, problem));
    };
    let (session, caller) = by_session(app, id).await?;
    if !is_safe(&request.method) {
        head_checks::same_site(headers)?;
        let presented = headers.get(&CSRF).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if !csrf_fits(&session, presented) {
            let detail = "A session's cookie alone lets you look. To change something, send the `csrf` value that the \
                login (POST /api/session) answered in the header x-estop-csrf, or log in again.";
            return Err(Problem::new(Kind::Forbidden, detail));
        }
    }
    Ok(caller)
}

async fn by_session(app: &App, id: SecretString) -> Result<(Session, Caller), Problem> {
    let ended = || Problem::unauthenticated("The session has ended: log in again.");
    let now = app.now();
    let digest = sha256(id.expose_secret());
    let session = match app.sessions.find(&digest, now) {
        Found::Live { session, keep_use } => {
            if keep_use {
                app.touch_session(digest, now);
            }
            session
        }
        Found::Ended => {
            app.sessions.forget(&digest);
            app.store(move |store| store.delete_session(&digest)).await?;
            return Err(ended());
        }
        Found::Unknown => {
            // Its id has 256 bits and is not guessed: whoever fails elsewhere keeps nobody's session from the button.
            let Some(session) = app.store(move |store| store.session(&digest, now)).await? else {
                return Err(ended());
            };
            if is_idle(session.used_at, now) {
                app.store(move |store| store.delete_session(&digest)).await?;
                return Err(ended());
            }
            app.sessions.remember(session.clone());
            // A logout deletes the row and forgets the session after that. If the row is gone by now, that may have been
            // before this request remembered it.
            if app.store(move |store| store.session(&digest, now)).await?.is_none() {
                app.sessions.forget(&digest);
                return Err(ended());
            }
            if let Found::Live { keep_use: true, .. } = app.sessions.find(&digest, now) {
                app.touch_session(digest, now);
            }
            session
        }
    };
    // The token is asked each time, so that one that was taken back ends its sessions at once.
    let known = app.tokens.by_id(&session.token, now).ok_or_else(ended)?;
    let key = SessionKey { sha256: digest, expires_at: session.expires_at };
    let caller = Caller { session: Some(key), ..Caller::person(known.name, known.role) };
    Ok((session, caller))
}

fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

fn peer(request: &Parts) -> Peer {
    request.extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip())
}

/// Exactly one, or none.
fn bearer(headers: &HeaderMap) -> Option<SecretString> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (value, None) = (values.next()?.to_str().ok()?, values.next()) else { return None };
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().into())
}

fn cookie(headers: &HeaderMap, name: &str) -> Option<SecretString> {
    let values = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = values.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(known, _)| *known == name).map(|(_, value)| value.into())
}

/// No script but ours, no frame, no cache, no guessing of types. There is no CORS: other sites read nothing.
pub(crate) fn put_headers(headers: &mut HeaderMap) {
    let csp = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
        frame-ancestors 'none'; base-uri 'none'; form-action 'self'";
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, csp),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

/// What both origins have in common.
impl AuthState {
    /// What is refused at sight.
    pub(crate) fn screen(&self, request: &Parts) -> Result<(), Problem> {
        if self.origin == Origin::Network {
            head_checks::screen(request, self.app.options.loopback)
        } else {
            Ok(())
        }
    }

    pub(crate) fn new(app: &App, origin: Origin) -> AuthState {
        AuthState { app: Arc::clone(app), origin }
    }
}
