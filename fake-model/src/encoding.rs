//! Content encodings, chunk by chunk: what was written can be read at once, as in a stream it must.

use std::io::{self, Write};

use brotli::CompressorWriter;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use crate::script::Encoding;

/// An encoder, or none.
pub(crate) enum Encoder {
    Identity,
    Gzip(GzEncoder<Vec<u8>>),
    Deflate(ZlibEncoder<Vec<u8>>),
    Br(Box<CompressorWriter<Vec<u8>>>),
    Zstd,
}

impl Encoder {
    pub(crate) fn new(encoding: Option<Encoding>) -> Self {
        match encoding {
            None => Self::Identity,
            Some(Encoding::Gzip) => Self::Gzip(GzEncoder::new(Vec::new(), Compression::default())),
            Some(Encoding::Deflate) => Self::Deflate(ZlibEncoder::new(Vec::new(), Compression::default())),
            Some(Encoding::Br) => Self::Br(Box::new(CompressorWriter::new(Vec::new(), 4096, 5, 20))),
            Some(Encoding::Zstd) => Self::Zstd,
        }
    }

    /// These bytes, encoded and flushed.
    pub(crate) fn chunk(&mut self, bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        match self {
            Self::Identity => Ok(bytes),
            Self::Gzip(encoder) => flushed(encoder, &bytes, |encoder| std::mem::take(encoder.get_mut())),
            Self::Deflate(encoder) => flushed(encoder, &bytes, |encoder| std::mem::take(encoder.get_mut())),
            Self::Br(encoder) => flushed(encoder, &bytes, |encoder| std::mem::take(encoder.get_mut())),
            Self::Zstd => Ok(compress_to_vec(bytes.as_slice(), CompressionLevel::Fastest)),
        }
    }

    /// What ends the encoding.
    pub(crate) fn end(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Identity | Self::Zstd => Ok(Vec::new()),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Deflate(encoder) => encoder.finish(),
            Self::Br(encoder) => Ok(encoder.into_inner()),
        }
    }
}

fn flushed<W: Write>(encoder: &mut W, bytes: &[u8], take: fn(&mut W) -> Vec<u8>) -> io::Result<Vec<u8>> {
    encoder.write_all(bytes)?;
    encoder.flush()?;
    Ok(take(encoder))
}

/// The word in `content-encoding`.
pub(crate) fn name(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Gzip => "gzip",
        Encoding::Deflate => "deflate",
        Encoding::Br => "br",
        Encoding::Zstd => "zstd",
    }
}
