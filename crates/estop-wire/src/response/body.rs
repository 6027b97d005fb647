//! From the bytes of a body to its documents, by framing.
//!
//! The header says what to expect, the first byte decides: servers do send streams as `text/plain`, and errors as
//! JSON inside `text/event-stream`.

use super::Framing;
use super::builder::ResponseBuilder;
use super::elements::ElementReader;
use super::read::{read, read_end};
use crate::protocol::Protocol;
use crate::sse::{Event, EventReader, Found, LineEnds, LineReader};

/// The largest body that is kept to be read at its end. Answers are a few hundred kB; embeddings of a large batch
/// are more, and only their usage matters, which is looked for at the end.
pub const WHOLE_MAX: usize = 16 << 20;

/// What is kept of the end of a larger body. Usage and what follows it are under 2 kB.
const END_BYTES: usize = 16 << 10;

/// A body, read so far.
#[derive(Debug)]
pub(super) enum Body {
    /// Nothing but white space has come.
    Start(Framing),
    Events(EventReader),
    Lines(LineReader),
    /// One JSON array, read element by element.
    Elements(ElementReader),
    /// One JSON document, read at its end.
    Whole(Vec<u8>),
    /// Larger than [`WHOLE_MAX`]: only its end.
    End(Vec<u8>),
    /// Not readable.
    Blind,
}

impl Body {
    /// Reads the next bytes.
    pub(super) fn push(&mut self, bytes: &[u8], protocol: Protocol, builder: &mut ResponseBuilder) {
        let mut rest = bytes;
        if let Body::Start(framing) = *self {
            rest = rest.trim_ascii_start();
            let Some(&first) = rest.first() else { return };
            *self = Body::beginning(first, framing);
        }
        match self {
            Body::Start(_) | Body::Blind => {}
            Body::Events(events) => {
                events.push(rest, |event| read_event(event, protocol, builder));
                if events.left_out() {
                    builder.miss();
                }
            }
            Body::Lines(lines) => push_lines(lines, rest, protocol, builder),
            Body::Elements(elements) => {
                elements.push(rest, |element| read(protocol, element, builder));
                if elements.left_out() {
                    builder.miss();
                }
            }
            Body::Whole(kept) => {
                if kept.len() + rest.len() <= WHOLE_MAX {
                    kept.extend_from_slice(rest);
                    return;
                }
                builder.miss();
                let mut end = kept[kept.len().saturating_sub(END_BYTES)..].to_vec();
                keep_end(&mut end, rest);
                *self = Body::End(end);
            }
            Body::End(end) => keep_end(end, rest),
        }
    }

    /// The body is over: reads what is left.
    pub(super) fn finish(self, protocol: Protocol, builder: &mut ResponseBuilder) {
        match self {
            Body::Start(_) => {}
            Body::Blind => builder.miss(),
            Body::Events(mut events) => {
                events.finish(|event| read_event(event, protocol, builder));
                if events.left_out() {
                    builder.miss();
                }
            }
            Body::Lines(lines) => {
                read(protocol, &lines.carried, builder);
                if lines.too_long {
                    builder.miss();
                }
            }
            Body::Elements(elements) => {
                if !elements.is_over() {
                    builder.miss();
                }
            }
            Body::Whole(kept) => read(protocol, &kept, builder),
            Body::End(end) => read_end(protocol, &end, builder),
        }
    }

    /// Another event or line can begin here.
    pub(super) fn at_boundary(&self) -> bool {
        match self {
            Body::Start(Framing::Sse | Framing::Ndjson) => true,
            Body::Events(events) => events.at_boundary(),
            Body::Lines(lines) => lines.carried.is_empty() && !lines.too_long,
            Body::Start(Framing::Plain) | Body::Elements(_) | Body::Whole(_) | Body::End(_) | Body::Blind => {
                false
            }
        }
    }

    /// Between two elements of an array: whether a comma is due before another.
    pub(super) fn array_gap(&self) -> Option<bool> {
        match self {
            Body::Elements(elements) => elements.gap(),
            Body::Start(_)
            | Body::Events(_)
            | Body::Lines(_)
            | Body::Whole(_)
            | Body::End(_)
            | Body::Blind => None,
        }
    }

    fn beginning(first: u8, framing: Framing) -> Body {
        match (first, framing) {
            (b'[', _) => Body::Elements(ElementReader::default()),
            (b'{', Framing::Ndjson) => Body::Lines(LineReader::default()),
            (b'{', Framing::Sse | Framing::Plain) => Body::Whole(Vec::new()),
            // `data:`, `event:`, `id:`, `retry:`, a comment.
            (b'd' | b'e' | b'i' | b'r' | b':', Framing::Plain) | (_, Framing::Sse) => {
                Body::Events(EventReader::default())
            }
            (_, Framing::Plain | Framing::Ndjson) => Body::Blind,
        }
    }
}

fn read_event(event: Event<'_>, protocol: Protocol, builder: &mut ResponseBuilder) {
    if event.error {
        builder.fail();
    }
    match event.data.trim_ascii() {
        b"" | b"[DONE]" => {}
        json => read(protocol, json, builder),
    }
}

fn push_lines(lines: &mut LineReader, mut rest: &[u8], protocol: Protocol, builder: &mut ResponseBuilder) {
    loop {
        match lines.next(&mut rest, LineEnds::LineFeed) {
            Found::Whole(line) => read(protocol, line, builder),
            Found::Carried => {
                let line = std::mem::take(&mut lines.carried);
                read(protocol, &line, builder);
                lines.give_back(line);
            }
            Found::TooLong => builder.miss(),
            Found::More => return,
        }
    }
}

/// Keeps at least the last [`END_BYTES`], and at most twice that: what is moved was added since it was moved last.
fn keep_end(end: &mut Vec<u8>, bytes: &[u8]) {
    estop_core::steps::add(bytes.len().min(END_BYTES));
    let newest = &bytes[bytes.len().saturating_sub(END_BYTES)..];
    if end.len() + newest.len() > 2 * END_BYTES {
        estop_core::steps::add(END_BYTES);
        let surplus = end.len().saturating_sub(END_BYTES - newest.len());
        end.drain(..surplus);
    }
    end.extend_from_slice(newest);
}
