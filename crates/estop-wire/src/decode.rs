//! Undoing `content-encoding`, beside the bytes that pass through.
//!
//! Pushed, never pulled: bytes go in as they arrive, in any pieces, and whatever they give comes out at once, so
//! that a compressed stream is watched as closely as a plain one. Nothing is allocated before the first byte.
//! A body that grows out of all proportion is left alone: see [`PUSH_OUT_MAX`] and [`RATIO_MAX`].
//!
//! Checksums are not checked: this is a look over the shoulder, and the client checks them itself.

mod gzip;
mod stage;

use stage::{Stage, Step};

/// The most one push may give, all layers together. A frame from the network is at most a few hundred kB and JSON
/// shrinks about tenfold; half of this would hide honest answers, double would hold a thread for 50 ms.
pub const PUSH_OUT_MAX: u64 = 16 << 20;

/// A body may always grow to this size, whatever its ratio: an answer that repeats one word is small when
/// compressed, and exactly what we want to see.
pub const FREE_OUT_MAX: u64 = 16 << 20;

/// Beyond [`FREE_OUT_MAX`], the most bytes out for one byte in. Event streams reach 75, because every event
/// repeats its envelope; gzip can reach 1032.
pub const RATIO_MAX: u64 = 128;

/// More codings than this on top of each other are not an answer but an attack.
const LAYERS_MAX: usize = 3;

/// Bytes decoded in one step. On the stack, one for each layer.
const STEP_BYTES: usize = 8 << 10;

/// Undoes the codings a `content-encoding` header names.
#[derive(Debug)]
pub struct Decoder {
    /// In the order in which they are undone: the last one applied comes first.
    layers: Vec<Stage>,
    taken: u64,
    given: u64,
    state: State,
}

/// How decoding stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Reading,
    /// The bytes are broken, or grow beyond proportion. Nothing more is read.
    Stopped,
}

/// Why nothing can be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownEncoding;

impl Decoder {
    /// For the value of a `content-encoding` header; `None` if it changes nothing (`""`, `identity`).
    pub fn new(encoding: &str) -> Result<Option<Decoder>, UnknownEncoding> {
        if encoding.is_empty() {
            return Ok(None);
        }
        let mut layers = Vec::new();
        for name in encoding.rsplit(',').map(str::trim) {
            if name.is_empty() || name.eq_ignore_ascii_case("identity") {
                continue;
            }
            if layers.len() == LAYERS_MAX {
                return Err(UnknownEncoding);
            }
            layers.push(Stage::named(name).ok_or(UnknownEncoding)?);
        }
        if layers.is_empty() {
            return Ok(None);
        }
        Ok(Some(Decoder { layers, taken: 0, given: 0, state: State::Reading }))
    }

    /// Takes the next bytes and hands on what they give, in pieces. After broken bytes or a bomb it gives nothing.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) {
        if self.state == State::Stopped {
            return;
        }
        self.taken = self.taken.saturating_add(bytes.len() as u64);
        let in_all = self.taken.saturating_mul(RATIO_MAX).saturating_add(FREE_OUT_MAX);
        let mut left = in_all.saturating_sub(self.given).min(PUSH_OUT_MAX);
        let before = left;
        if run(&mut self.layers, bytes, &mut left, &mut each).is_err() {
            self.state = State::Stopped;
        }
        self.given += before - left;
    }

    /// The bytes were broken or grew beyond proportion: what came after is not read.
    pub fn stopped(&self) -> bool {
        self.state == State::Stopped
    }
}

/// Broken bytes, or more of them than allowed.
#[derive(Debug)]
struct Broken;

/// One layer's output is the next one's input. `left` is what may still come out, of all layers together.
fn run(
    layers: &mut [Stage],
    mut bytes: &[u8],
    left: &mut u64,
    each: &mut dyn FnMut(&[u8]),
) -> Result<(), Broken> {
    let Some((first, rest)) = layers.split_first_mut() else {
        each(bytes);
        return Ok(());
    };
    let mut out = [0; STEP_BYTES];
    loop {
        let Step { read, wrote } = first.step(bytes, &mut out)?;
        bytes = &bytes[read..];
        *left = left.checked_sub(wrote as u64).ok_or(Broken)?;
        if wrote > 0 {
            run(rest, &out[..wrote], left, each)?;
        }
        // A full buffer may mean that more is waiting inside.
        if wrote < out.len() && (bytes.is_empty() || read == 0 && wrote == 0) {
            return Ok(());
        }
    }
}
