//! Events as bytes: server-sent events, one document a line, or one long array.

use serde_json::Value;

/// How a stream is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Sse,
    Ndjson,
    /// A JSON array, an element a chunk (Gemini without `alt=sse`).
    Array,
}

/// The events of a stream, made while it runs.
pub(crate) type Events = Box<dyn Iterator<Item = Event> + Send>;

/// One event.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    name: Option<&'static str>,
    data: Data,
}

#[derive(Clone, Debug)]
enum Data {
    Json(Value),
    Word(&'static str),
}

impl Event {
    pub(crate) fn json(data: Value) -> Self {
        Self { name: None, data: Data::Json(data) }
    }

    pub(crate) fn named(name: &'static str, data: Value) -> Self {
        Self { name: Some(name), data: Data::Json(data) }
    }

    /// A word that is not JSON: `[DONE]`.
    pub(crate) fn word(word: &'static str) -> Self {
        Self { name: None, data: Data::Word(word) }
    }

    /// Sets a field of the data.
    pub(crate) fn set(&mut self, key: &str, value: Value) {
        if let Data::Json(data) = &mut self.data {
            data[key] = value;
        }
    }
}

impl Framing {
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Sse => "text/event-stream; charset=utf-8",
            Self::Ndjson => "application/x-ndjson",
            Self::Array => "application/json; charset=UTF-8",
        }
    }

    /// The bytes of the event at this place of the stream.
    pub(crate) fn bytes(self, at: usize, event: &Event, crlf: bool) -> Vec<u8> {
        let data = match &event.data {
            Data::Json(value) => value.to_string(),
            Data::Word(word) => (*word).to_owned(),
        };
        let text = match self {
            Self::Sse => {
                let name = event.name.map(|name| format!("event: {name}\n")).unwrap_or_default();
                format!("{name}data: {data}\n\n")
            }
            Self::Ndjson => format!("{data}\n"),
            Self::Array => format!("{}{data}", if at == 0 { "[" } else { ",\r\n" }),
        };
        lines(text, crlf)
    }

    /// What ends a whole stream.
    pub(crate) fn end(self) -> &'static [u8] {
        match self {
            Self::Sse | Self::Ndjson => b"",
            Self::Array => b"]",
        }
    }

    /// A sign of life that says nothing.
    pub(crate) fn keep_alive(self, crlf: bool) -> Vec<u8> {
        match self {
            Self::Sse => lines(": keep-alive\n\n".to_owned(), crlf),
            Self::Ndjson | Self::Array => lines("\n".to_owned(), crlf),
        }
    }
}

fn lines(text: String, crlf: bool) -> Vec<u8> {
    // The data is JSON, which has no line ends of its own.
    if crlf { text.replace("\r\n", "\n").replace('\n', "\r\n").into_bytes() } else { text.into_bytes() }
}
