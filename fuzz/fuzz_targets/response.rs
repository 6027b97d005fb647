//! Bodies of answers, in every protocol, framing and coding, cut into pieces.
#![no_main]

use estop_fuzz::{bounded, chosen, done, protocol};
use estop_wire::response::{Framing, Observer};
use libfuzzer_sys::fuzz_target;

const FRAMINGS: [Framing; 3] = [Framing::Plain, Framing::Sse, Framing::Ndjson];
const ENCODINGS: [&str; 5] = ["", "gzip", "deflate", "br", "zstd"];

fuzz_target!(|data: &[u8]| {
    let (first, data) = chosen(data);
    let (second, data) = chosen(data);
    let (third, body) = chosen(data);
    let (protocol, framing) = (protocol(first), FRAMINGS[second % FRAMINGS.len()]);
    let read = |encoding: &str, piece: usize| {
        let mut observer = Observer::new(protocol, framing, encoding);
        body.chunks(piece).for_each(|piece| done(observer.push(piece)));
        observer.finish()
    };
    let encoding = ENCODINGS[second / FRAMINGS.len() % ENCODINGS.len()];
    if !encoding.is_empty() {
        // What comes out has bounds of its own, by the size of what goes in.
        drop(read(encoding, third + 1));
        return;
    }
    let mut whole = None;
    bounded(400, body.len(), || whole = Some(read("", body.len().max(1))));
    bounded(400, body.len(), || assert_eq!(Some(read("", third + 1)), whole, "pieces change nothing"));
});
