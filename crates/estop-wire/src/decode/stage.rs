//! One coding, undone step by step.

use std::fmt;

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZError, MZFlush, MZStatus};
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

use super::Broken;
use super::gzip::Gzip;

/// The largest window of a zstd frame we make room for: 8 MiB, as RFC 9659 sets it for `content-encoding`.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

type Brotli = BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>;

/// One coding, at some point of a body. What needs memory is made with the first byte.
pub(super) enum Stage {
    /// Nothing has come yet.
    Waiting(Coding),
    /// `gzip`: about 43 kB.
    Gzip(Box<Gzip>),
    /// `deflate`: about 43 kB.
    Deflate(Box<InflateState>),
    /// `br`: a window of up to 16 MiB that grows with what passes.
    Brotli(Box<Brotli>),
    /// `zstd`: a window of up to 8 MiB, and 220 kB.
    Zstd(DCtx<'static>),
    /// The body is complete; what follows is padding.
    Ended,
}

/// What a header can name.
#[derive(Clone, Copy, Debug)]
pub(super) enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// What one step did.
pub(super) struct Step {
    pub read: usize,
    pub wrote: usize,
}

impl Stage {
    /// The coding of this name.
    pub(super) fn named(name: &str) -> Option<Stage> {
        let coding = match name.to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => Coding::Gzip,
            "deflate" => Coding::Deflate,
            "br" => Coding::Brotli,
            "zstd" => Coding::Zstd,
            _ => return None,
        };
        Some(Stage::Waiting(coding))
    }

    /// Reads some of `bytes` and fills some of `out`.
    pub(super) fn step(&mut self, bytes: &[u8], out: &mut [u8]) -> Result<Step, Broken> {
        if let Stage::Waiting(coding) = *self {
            let Some(&first) = bytes.first() else { return Ok(Step { read: 0, wrote: 0 }) };
            *self = Stage::begun(coding, first)?;
        }
        match self {
            Stage::Waiting(_) => Ok(Step { read: 0, wrote: 0 }),
            Stage::Gzip(gzip) => gzip.step(bytes, out),
            Stage::Deflate(state) => {
                let (step, ended) = inflated(state, bytes, out)?;
                if ended {
                    *self = Stage::Ended;
                }
                Ok(step)
            }
            Stage::Brotli(state) => {
                let (step, ended) = unbrotlied(state, bytes, out)?;
                if ended {
                    *self = Stage::Ended;
                }
                Ok(step)
            }
            Stage::Zstd(context) => unzstd(context, bytes, out),
            Stage::Ended => Ok(Step { read: bytes.len(), wrote: 0 }),
        }
    }

    fn begun(coding: Coding, first: u8) -> Result<Stage, Broken> {
        Ok(match coding {
            Coding::Gzip => Stage::Gzip(Box::default()),
            Coding::Deflate => Stage::Deflate(InflateState::new_boxed(deflate_format(first))),
            Coding::Brotli => {
                let alloc = StandardAlloc::default;
                // The strict form refuses "large windows", which could ask for 1 GiB.
                Stage::Brotli(Box::new(BrotliState::new_strict(alloc(), alloc(), alloc())))
            }
            Coding::Zstd => {
                let mut context = DCtx::try_create().ok_or(Broken)?;
                context.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX)).map_err(|_| Broken)?;
                Stage::Zstd(context)
            }
        })
    }
}

/// `deflate` means zlib, but some servers send raw deflate. A zlib header's first byte ends in 8; in raw deflate
/// that would be a stored block with padding bits set, which no encoder writes.
fn deflate_format(first: u8) -> DataFormat {
    if first & 0x0f == 8 { DataFormat::ZLibIgnoreChecksum } else { DataFormat::Raw }
}

/// One step of inflating, and whether it was the last.
pub(super) fn inflated(
    state: &mut InflateState,
    bytes: &[u8],
    out: &mut [u8],
) -> Result<(Step, bool), Broken> {
    let done = inflate(state, bytes, out, MZFlush::None);
    let step = Step { read: done.bytes_consumed, wrote: done.bytes_written };
    match done.status {
        Ok(MZStatus::StreamEnd) => Ok((step, true)),
        Ok(MZStatus::Ok) => Ok((step, false)),
        // It only waits for more.
        Err(MZError::Buf) => Ok((step, false)),
        Ok(MZStatus::NeedDict) | Err(_) => Err(Broken),
    }
}

fn unbrotlied(state: &mut Brotli, bytes: &[u8], out: &mut [u8]) -> Result<(Step, bool), Broken> {
    let (mut available_in, mut read) = (bytes.len(), 0);
    let (mut available_out, mut wrote, mut total) = (out.len(), 0, 0);
    let result = BrotliDecompressStream(
        &mut available_in,
        &mut read,
        bytes,
        &mut available_out,
        &mut wrote,
        out,
        &mut total,
        state,
    );
    match result {
        BrotliResult::ResultSuccess => Ok((Step { read, wrote }, true)),
        BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => Ok((Step { read, wrote }, false)),
        BrotliResult::ResultFailure => Err(Broken),
    }
}

fn unzstd(context: &mut DCtx<'static>, bytes: &[u8], out: &mut [u8]) -> Result<Step, Broken> {
    let mut input = InBuffer::around(bytes);
    let mut output = OutBuffer::around(out);
    context.decompress_stream(&mut output, &mut input).map_err(|_| Broken)?;
    Ok(Step { read: input.pos(), wrote: output.pos() })
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Waiting(_) => "Waiting",
            Stage::Gzip(_) => "Gzip",
            Stage::Deflate(_) => "Deflate",
            Stage::Brotli(_) => "Brotli",
            Stage::Zstd(_) => "Zstd",
            Stage::Ended => "Ended",
        })
    }
}
