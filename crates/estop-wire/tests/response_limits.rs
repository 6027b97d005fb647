//! Limits: what is too large is left out and said so; an idle stream stays small; a bomb does not go off.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod response_support;

use estop_wire::decode::{Decoder, FREE_OUT_MAX, RATIO_MAX};
use estop_wire::protocol::{Family, Protocol};
use estop_wire::response::{
    ARGS_MAX, CALLS_MAX, Framing, Observed, Observer, TEXT_MAX, UsageIn, WHOLE_MAX, framing,
};

fn sse(events: &[String]) -> Observed {
    let mut observer = Observer::new(Protocol::OpenAiChat, Framing::Sse, "");
    for event in events {
        observer.push(format!("data: {event}\n\n").as_bytes());
    }
    observer.finish()
}

fn text_event(text: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}"#)
}

#[test]
fn fp_5_text_is_returned_as_it_comes_and_never_with_its_framing() {
    let mut observer = Observer::new(Protocol::AnthropicMessages, Framing::Sse, "");
    assert_eq!(observer.push(b"event: content_block_delta\ndata: {\"type\":\"content_block_delta\","), "");
    assert_eq!(observer.push(b"\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"one \"}}\n"), "");
    assert_eq!(observer.push(b"\n: ping\n\n"), "one ");
    assert_eq!(
        observer.push(b"data: {\"delta\":{\"text\":\"two\"}}\n\ndata: {\"delta\":{\"text\":\" three\"}}\n\n"),
        "two three"
    );
    assert_eq!(observer.push(b""), "");
    assert_eq!(observer.finish().text, "one two three");
}

#[test]
fn h6_an_event_of_100_mb_is_left_out_and_the_rest_is_read() {
    let mut observer = Observer::new(Protocol::OpenAiChat, Framing::Sse, "");
    observer.push(format!("data: {}\n\ndata: ", text_event("before")).as_bytes());
    let chunk = vec![b'x'; 1 << 20];
    for _ in 0..100 {
        assert_eq!(observer.push(&chunk), "");
    }
    assert!(!observer.at_boundary());
    assert_eq!(observer.push(format!("\n\ndata: {}\n\n", text_event(" after")).as_bytes()), " after");
    let observed = observer.finish();
    assert_eq!((observed.text.as_str(), observed.partial), ("before after", true));
}

#[test]
fn fp_5_text_beyond_the_limit_is_handed_on_and_counted_but_not_kept() {
    let piece = "ä".repeat(1000);
    let mut observer = Observer::new(Protocol::OpenAiChat, Framing::Sse, "");
    for _ in 0..600 {
        let event = format!("data: {}\n\n", text_event(&piece));
        assert_eq!(observer.push(event.as_bytes()), piece);
    }
    let observed = observer.finish();
    assert!(observed.text.len() <= TEXT_MAX && observed.text.len() > TEXT_MAX - 4);
    assert_eq!((observed.output_bytes, observed.partial), (1_200_000, true));
}

#[test]
fn id_5_calls_and_arguments_have_limits() {
    let start = |index: usize, args: &str| {
        format!(
            r#"{{"choices":[{{"delta":{{"tool_calls":[{{"index":{index},"id":"c{index}","function":{{"name":"t","arguments":"{args}"}}}}]}}}}]}}"#
        )
    };
    let many = sse(&(0..CALLS_MAX + 10).map(|index| start(index, "{}")).collect::<Vec<_>>());
    assert_eq!((many.calls.len(), many.partial, many.output_bytes), (CALLS_MAX, true, 532));
    let large = sse(&vec![start(0, &"a".repeat(1000)); 300]);
    assert_eq!((large.calls.len(), large.calls[0].args.len(), large.partial), (1, ARGS_MAX, true));
    assert_eq!(large.output_bytes, 300_000);
}

#[test]
fn id_5_usage_is_found_at_the_end_of_a_body_too_large_to_keep() {
    let mut observer = Observer::new(Protocol::Embeddings(Family::OpenAi), Framing::Plain, "");
    observer.push(br#"{"object":"list","data":[{"embedding":["#);
    for _ in 0..WHOLE_MAX / 8000 + 10 {
        observer.push("0.12345,".repeat(1000).as_bytes());
    }
    observer.push(br#"0.1]}],"model":"m","usage":{"prompt_tokens":8191,"total_tokens":8191}}"#);
    let observed = observer.finish();
    assert_eq!(observed.usage, Some(UsageIn { input: 8191, ..UsageIn::default() }));
    assert!(observed.partial);
}

#[test]
fn id_5_usage_inside_arguments_is_not_taken_for_the_answers_own() {
    let mut observer = Observer::new(Protocol::Gemini, Framing::Plain, "");
    observer.push(br#"{"candidates":[{"content":{"parts":[{"text":""#);
    for _ in 0..WHOLE_MAX / 8000 + 10 {
        observer.push("abcdefgh".repeat(1000).as_bytes());
    }
    observer
        .push(br#""},{"functionCall":{"name":"f","args":{"usageMetadata":{"promptTokenCount":1}}}}]}}]}"#);
    assert_eq!(observer.finish().usage, None);
}

#[test]
fn id_5_an_unknown_encoding_is_not_read_and_said_so() {
    for encoding in ["compress", "gzip, dcz", "br, br, br, br"] {
        let mut observer = Observer::new(Protocol::OpenAiChat, Framing::Plain, encoding);
        assert_eq!(observer.push(br#"{"choices":[{"message":{"content":"x"}}]}"#), "");
        let observed = observer.finish();
        assert_eq!((observed.partial, observed.text.as_str()), (true, ""), "{encoding}");
    }
}

#[test]
fn id_5_a_bomb_is_left_alone() {
    let bomb = response_support::gzip(&vec![b' '; 64 << 20]);
    for size in [bomb.len(), 1000] {
        let mut decoder = Decoder::new("gzip").unwrap().expect("gzip changes something");
        let mut given = 0;
        for piece in bomb.chunks(size) {
            decoder.push(piece, |bytes| given += bytes.len() as u64);
        }
        assert!(decoder.stopped());
        assert!(given <= FREE_OUT_MAX + RATIO_MAX * bomb.len() as u64, "{given} bytes in pieces of {size}");
    }
    let mut observer = Observer::new(Protocol::OpenAiChat, Framing::Sse, "gzip");
    observer.push(&bomb);
    assert!(observer.finish().partial);
}

#[test]
fn id_6_a_flushed_compressed_stream_is_read_as_it_comes() {
    use std::io::Write as _;
    let event = |n: u32| format!("data: {}\n\n", text_event(&format!("t{n} ")));
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut brotli = brotli::CompressorWriter::new(Vec::new(), 4096, 4, 20);
    let mut zstd = zstd_safe::CCtx::create();
    let mut observers =
        ["gzip", "br", "zstd"].map(|encoding| Observer::new(Protocol::OpenAiChat, Framing::Sse, encoding));
    for n in 0..50 {
        gzip.write_all(event(n).as_bytes()).unwrap();
        gzip.flush().unwrap();
        brotli.write_all(event(n).as_bytes()).unwrap();
        brotli.flush().unwrap();
        let mut frame = vec![0; 1000];
        let used = {
            let mut out = zstd_safe::OutBuffer::around(&mut frame[..]);
            zstd.compress_stream(&mut out, &mut zstd_safe::InBuffer::around(event(n).as_bytes())).unwrap();
            zstd.flush_stream(&mut out).unwrap();
            out.pos()
        };
        let sent = [std::mem::take(gzip.get_mut()), std::mem::take(brotli.get_mut()), frame[..used].to_vec()];
        for (observer, bytes) in observers.iter_mut().zip(&sent) {
            assert_eq!(observer.push(bytes), format!("t{n} "));
            assert!(!observer.at_boundary(), "plain bytes must not follow compressed ones");
        }
    }
}

#[test]
fn an_3_an_error_event_fits_only_between_events() {
    let mut observer = Observer::new(Protocol::OpenAiChat, Framing::Sse, "");
    let mut at = |bytes: &str| {
        observer.push(bytes.as_bytes());
        observer.at_boundary()
    };
    assert!(at(""));
    assert!(!at("da"));
    assert!(!at("ta: {}"));
    assert!(!at("\n"));
    assert!(at("\n"));
    assert!(!at(": keep"));
    assert!(at("-alive\r"));
    assert!(at("\n"));
    assert!(!at("event: x\r\n"));
    assert!(at("\r\n"));

    let mut lines = Observer::new(Protocol::OllamaChat, Framing::Ndjson, "");
    assert!(lines.at_boundary());
    lines.push(b"{\"done\":");
    assert!(!lines.at_boundary());
    lines.push(b"false}\n");
    assert!(lines.at_boundary());

    let mut plain = Observer::new(Protocol::OpenAiChat, Framing::Plain, "");
    assert!(!plain.at_boundary());
    plain.push(b"{}");
    assert!(!plain.at_boundary());
}

#[test]
fn id_5_progress_is_known_before_the_end() {
    let mut observer = Observer::new(Protocol::AnthropicMessages, Framing::Sse, "");
    assert_eq!(observer.progress(), (None, 0));
    observer.push(b"data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":10,\"cache_read_input_tokens\":90,\"output_tokens\":1}}}\n\n");
    observer.push(b"data: {\"type\":\"content_block_delta\",\"delta\":{\"thinking\":\"12345\"}}\n\n");
    let usage = UsageIn { input: 100, cache_read: 90, output: 1, ..UsageIn::default() };
    assert_eq!(observer.progress(), (Some(usage), 5));
}

#[test]
fn po_2_an_hour_in_the_cache_is_told_apart() {
    let mut observer = Observer::new(Protocol::AnthropicMessages, Framing::Sse, "");
    observer.push(b"data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":10,\"cache_creation_input_tokens\":500,\"cache_creation\":{\"ephemeral_5m_input_tokens\":100,\"ephemeral_1h_input_tokens\":400},\"output_tokens\":1}}}\n\n");
    let usage =
        UsageIn { input: 510, cache_write: 500, cache_write_1h: 400, output: 1, ..UsageIn::default() };
    assert_eq!(observer.progress(), (Some(usage), 0));
    // A part is never larger than its whole, and what is no object says nothing.
    let plain = |body: &[u8]| {
        let mut observer = Observer::new(Protocol::AnthropicMessages, Framing::Plain, "");
        observer.push(body);
        observer.finish().usage.map(|usage| (usage.cache_write, usage.cache_write_1h))
    };
    let more =
        br#"{"usage":{"cache_creation_input_tokens":5,"cache_creation":{"ephemeral_1h_input_tokens":9}}}"#;
    assert_eq!(plain(more), Some((5, 5)));
    assert_eq!(plain(br#"{"usage":{"cache_creation_input_tokens":5,"cache_creation":"odd"}}"#), Some((5, 0)));
}

#[test]
fn id_5_streams_and_errors_with_the_wrong_content_type_are_read() {
    let body = format!("data: {}\n\n", text_event("hi"));
    let mut observer = Observer::new(Protocol::OpenAiChat, Framing::Plain, "");
    assert_eq!(observer.push(body.as_bytes()), "hi");
    let mut observer = Observer::new(Protocol::OpenAiChat, Framing::Sse, "");
    observer.push(br#"{"error":{"message":"no"}}"#);
    assert!(observer.finish().failed);
}

#[test]
fn id_5_framing_is_what_the_content_type_says() {
    let chat = Protocol::OpenAiChat;
    assert_eq!(framing("text/event-stream; charset=utf-8", chat), Framing::Sse);
    assert_eq!(framing("Text/Event-Stream", chat), Framing::Sse);
    assert_eq!(framing("application/x-ndjson", Protocol::OllamaChat), Framing::Ndjson);
    assert_eq!(framing("", Protocol::OllamaGenerate), Framing::Ndjson);
    assert_eq!(framing("application/json; charset=utf-8", Protocol::OllamaChat), Framing::Plain);
    assert_eq!(framing("application/json", chat), Framing::Plain);
    assert_eq!(framing("", chat), Framing::Plain);
}

#[test]
fn id_6_an_idle_stream_is_small() {
    let size = size_of::<Observer>();
    assert!(size <= 512, "10,000 streams must fit beside everything else: {size} bytes");
}

#[test]
fn id_5_an_empty_body_is_not_partial() {
    for encoding in ["", "gzip", "br", "zstd"] {
        assert_eq!(
            Observer::new(Protocol::OpenAiChat, Framing::Plain, encoding).finish(),
            Observed::default()
        );
    }
}
