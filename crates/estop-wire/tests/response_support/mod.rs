//! Recorded answers, and ways to send them: in pieces, with other line ends, compressed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test uses its part")]

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use estop_wire::protocol::{Family, Protocol};
use estop_wire::response::{Framing, Observed, Observer};

/// A recorded answer with what it should be read as.
#[derive(Clone)]
pub(crate) struct Golden {
    pub(crate) name: String,
    pub(crate) protocol: Protocol,
    pub(crate) framing: Framing,
    pub(crate) body: Vec<u8>,
    pub(crate) expect: PathBuf,
}

/// All recorded answers. The name says the protocol before `__`, its end the framing.
pub(crate) fn goldens() -> Vec<Golden> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/response");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().filter_map(|path| golden(path)).collect()
}

fn golden(path: &Path) -> Option<Golden> {
    let framing = match path.extension()?.to_str()? {
        "sse" => Framing::Sse,
        "ndjson" => Framing::Ndjson,
        "json" => Framing::Plain,
        _ => return None,
    };
    let name = path.file_name()?.to_str()?.to_owned();
    let protocol = match name.split("__").next()? {
        "openai_chat" => Protocol::OpenAiChat,
        "openai_responses" => Protocol::OpenAiResponses,
        "openai_completions" => Protocol::OpenAiCompletions,
        "openai_embeddings" => Protocol::Embeddings(Family::OpenAi),
        "openai_other" => Protocol::Other(Family::OpenAi),
        "anthropic" => Protocol::AnthropicMessages,
        "gemini" => Protocol::Gemini,
        "ollama_chat" => Protocol::OllamaChat,
        "ollama_generate" => Protocol::OllamaGenerate,
        "ollama_embeddings" => Protocol::Embeddings(Family::Ollama),
        other => panic!("{name}: no protocol is called {other}"),
    };
    Some(Golden {
        name,
        protocol,
        framing,
        body: std::fs::read(path).unwrap(),
        expect: path.with_extension("expect"),
    })
}

/// Sends pieces. What each push returned must add up to the text in the end, unless the body is read whole.
pub(crate) fn observe<'a>(
    golden: &Golden,
    encoding: &str,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Observed {
    let mut observer = Observer::new(golden.protocol, golden.framing, encoding);
    let mut pushed = String::new();
    for piece in pieces {
        pushed.push_str(observer.push(piece));
    }
    let observed = observer.finish();
    assert!(observed.text.starts_with(&pushed), "{}: {pushed:?} is not how the text begins", golden.name);
    observed
}

/// As people read it.
pub(crate) fn render(observed: &Observed) -> String {
    let mut out = String::new();
    let yes = |yes: bool| if yes { "yes" } else { "no" };
    let Observed { id, text, calls, usage, finish, failed, output_bytes, partial } = observed;
    writeln!(out, "id: {}", id.as_deref().unwrap_or("-")).unwrap();
    writeln!(out, "text: {text:?}").unwrap();
    for call in calls {
        writeln!(
            out,
            "call: {} {} {}",
            or_dash(&call.id),
            or_dash(&call.name),
            call.args.replace('\n', "\\n")
        )
        .unwrap();
    }
    match usage {
        None => writeln!(out, "usage: -").unwrap(),
        Some(u) => {
            writeln!(out, "input: {} (cache read {}, write {})", u.input, u.cache_read, u.cache_write)
                .unwrap();
            writeln!(out, "output: {} (reasoning {})", u.output, u.reasoning).unwrap();
        }
    }
    writeln!(out, "finish: {}", finish.map_or("-".to_owned(), |finish| format!("{finish:?}"))).unwrap();
    writeln!(out, "failed: {}", yes(*failed)).unwrap();
    writeln!(out, "output bytes: {output_bytes}").unwrap();
    writeln!(out, "partial: {}", yes(*partial)).unwrap();
    out
}

fn or_dash(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}

/// A body compressed under each name a header may give.
pub(crate) fn compressed(body: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let gzip = gzip(body);
    let twice = brotli(&gzip);
    vec![
        ("gzip", gzip.clone()),
        ("X-GZIP", gzip),
        ("deflate", zlib(body)),
        ("deflate", raw_deflate(body)),
        ("br", brotli(body)),
        ("zstd", zstd(body)),
        ("gzip, br", twice),
    ]
}

pub(crate) fn gzip(body: &[u8]) -> Vec<u8> {
    // Two members, the first one with a name, a comment and an extra field.
    let (first, second) = body.split_at(body.len() / 2);
    let named = flate2::GzBuilder::new().filename("a").comment("b").extra(vec![1, 2, 3]);
    let mut out = Vec::new();
    for (part, builder) in [(first, named), (second, flate2::GzBuilder::new())] {
        let mut encoder = builder.write(Vec::new(), flate2::Compression::fast());
        encoder.write_all(part).unwrap();
        out.extend(encoder.finish().unwrap());
    }
    out
}

pub(crate) fn zlib(body: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn raw_deflate(body: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn brotli(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = brotli::CompressorWriter::new(&mut out, 4096, 4, 20);
    encoder.write_all(body).unwrap();
    drop(encoder);
    out
}

pub(crate) fn zstd(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(zstd_safe::compress_bound(body.len()));
    zstd_safe::compress(&mut out, body, 1).unwrap();
    out
}
