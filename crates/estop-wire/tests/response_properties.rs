//! Whatever comes, split wherever: nothing panics, and what was seen is kept.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod response_support;

use estop_wire::protocol::Protocol;
use estop_wire::response::{Framing, Observer};
use proptest::prelude::*;
use response_support::{compressed, goldens, observe, render};

const FRAMINGS: [Framing; 3] = [Framing::Plain, Framing::Sse, Framing::Ndjson];
const ENCODINGS: [&str; 8] = ["", "gzip", "deflate", "br", "zstd", "gzip, br", "identity", "compress"];

/// The body cut at these places.
fn pieces<'a>(body: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
    at.extend([0, body.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| &body[pair[0]..pair[1]]).collect()
}

fn watch(protocol: Protocol, framing: Framing, encoding: &str, pieces: &[&[u8]]) {
    let mut observer = Observer::new(protocol, framing, encoding);
    for piece in pieces {
        observer.push(piece);
        observer.progress();
        observer.at_boundary();
    }
    observer.finish();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn id_6_any_split_is_read_the_same(cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
        for golden in goldens() {
            let whole = render(&observe(&golden, "", [&golden.body[..]]));
            let split = render(&observe(&golden, "", pieces(&golden.body, &cuts)));
            prop_assert_eq!(whole, split, "{}", golden.name);
        }
    }

    #[test]
    fn id_5_a_truncated_answer_keeps_what_was_seen(cut in any::<prop::sample::Index>()) {
        for golden in goldens() {
            let whole = observe(&golden, "", [&golden.body[..]]);
            let part = observe(&golden, "", [&golden.body[..cut.index(golden.body.len())]]);
            prop_assert!(whole.text.starts_with(&part.text), "{}", golden.name);
            prop_assert!(part.calls.len() <= whole.calls.len(), "{}", golden.name);
            prop_assert!(part.output_bytes <= whole.output_bytes, "{}", golden.name);
        }
    }

    #[test]
    fn id_5_damaged_compressed_answers_never_panic(
        golden in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let all = goldens();
        let golden = golden.get(&all);
        for (encoding, mut body) in compressed(&golden.body) {
            for (at, byte) in &damage {
                *at.get_mut(&mut body) = *byte;
            }
            watch(golden.protocol, golden.framing, encoding, &[&body]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn id_5_arbitrary_bytes_never_panic(
        body in prop::collection::vec(any::<u8>(), 0..400),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        protocol in prop::sample::select(Protocol::all().collect::<Vec<_>>()),
        framing in prop::sample::select(&FRAMINGS[..]),
        encoding in prop::sample::select(&ENCODINGS[..]),
    ) {
        watch(protocol, framing, encoding, &pieces(&body, &cuts));
    }

    #[test]
    fn id_5_arbitrary_json_never_panics(
        body in "(data: |event: |\\[|\\{|\n|\r)?(\\{|\\[|\\}|\\]|,|:|\n|\r|data: |\"(choices|delta|content|usage|type|index|id|error|output|input_tokens)\"|\"\\\\|-?[0-9]{1,25}(\\.5|e99)?|null|true|x){0,60}",
        protocol in prop::sample::select(Protocol::all().collect::<Vec<_>>()),
        framing in prop::sample::select(&FRAMINGS[..]),
    ) {
        watch(protocol, framing, "", &[body.as_bytes()]);
    }
}
