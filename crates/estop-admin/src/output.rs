//! Small things many answers have: moments, money, tags, pages.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::Json;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use estop_core::budget::Amount;
use estop_core::money::NanoUsd;
use http::HeaderValue;
use http::header::ETAG;
use http_body::Frame;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc;
use utoipa::ToSchema;

use crate::input::etag;
use crate::problem::Problem;

/// An answer that arrives piece by piece.
pub(crate) struct Pieces(pub(crate) mpsc::Receiver<Bytes>);

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

/// What most handlers give.
pub(crate) type Answer<T> = Result<Json<T>, Problem>;

/// An answer with the tag of its version.
pub(crate) struct Tagged<T>(pub(crate) u64, pub(crate) T);

impl<T: Serialize> IntoResponse for Tagged<T> {
    fn into_response(self) -> Response {
        let mut response = Json(self.1).into_response();
        if let Ok(tag) = HeaderValue::from_str(&etag(self.0)) {
            response.headers_mut().insert(ETAG, tag);
        }
        response
    }
}

/// A moment as people and machines write it (RFC 3339).
pub(crate) fn moment(wall_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(wall_ms).unwrap_or(jiff::Timestamp::MIN).to_string()
}

/// Money in dollars. For people: sums are kept in whole nano-dollars and never added up here.
pub(crate) fn dollars(usd: NanoUsd) -> f64 {
    usd.0 as f64 / NanoUsd::DOLLAR.0 as f64
}

/// Tenths as a number.
pub(crate) fn tenths(tenths: u32) -> f64 {
    f64::from(tenths) / 10.0
}

/// JSON the store keeps as text.
pub(crate) fn kept_json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or(Value::Null)
}

/// Money and tokens.
#[derive(Serialize, ToSchema)]
pub(crate) struct AmountOut {
    /// US dollars.
    pub(crate) usd: f64,
    /// Tokens.
    tokens: u64,
}

impl AmountOut {
    /// For people: `$0.0123 and 4500 tokens`.
    pub(crate) fn words(&self) -> String {
        match (self.usd > 0.0, self.tokens) {
            (true, tokens) => format!("${:.4} and {tokens} tokens", self.usd),
            (false, tokens) => format!("{tokens} tokens"),
        }
    }
}

impl From<Amount> for AmountOut {
    fn from(amount: Amount) -> AmountOut {
        AmountOut { usd: dollars(amount.usd), tokens: amount.tokens }
    }
}

/// `time:id` of the last entry of a page, to ask for the next one.
pub(crate) fn time_cursor(at: i64, id: &str) -> String {
    format!("{at}:{id}")
}

/// Reads a cursor of [`time_cursor`].
pub(crate) fn read_time_cursor(text: Option<&str>) -> Result<Option<(i64, Box<str>)>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let read = text.split_once(':').and_then(|(at, id)| Some((at.parse().ok()?, id.into())));
    read.map(Some).ok_or_else(|| Problem::field("before", "must be the `next` of the page before"))
}
