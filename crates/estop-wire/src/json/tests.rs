//! The scanner against `serde_json`: it accepts the same documents, but for what it refuses on purpose.

use proptest::prelude::*;
use serde::de::IgnoredAny;

use super::*;

fn accepts(body: &[u8]) -> bool {
    document(body, |s| s.skip().map(|_| ())).is_ok()
}

/// Deeper than we read: counted in a document that is known to be valid.
fn too_deep(text: &str) -> bool {
    let (mut depth, mut deepest, mut in_text, mut escaped) = (0usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => depth += 1,
            b']' | b'}' if !in_text => depth -= 1,
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest > skip::DEPTH_MAX
}

fn agrees_with_serde(body: &[u8]) {
    let theirs = match std::str::from_utf8(body) {
        Ok(text) => serde_json::from_slice::<IgnoredAny>(body).is_ok() && !too_deep(text),
        Err(_) => false,
    };
    assert_eq!(accepts(body), theirs, "{:?}", String::from_utf8_lossy(body));
}

/// Pieces that make and break JSON.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "{", "}", "[", "]", ",", ":", "\"", "\"a\"", "\"b\":", "\"\\", "\\u00e9", "\\ud83d", "\\ude00",
        "\\n", "0", "-", "1.5", "e", "E+3", ".", "01", "-0", "true", "false", "null", "nul", "NaN", " ",
        "\n", "\t", "\u{1}", "é", "\u{feff}", "/", "abcdefgh", "\u{7f}", "[[[[[[[[",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat().into_bytes())
}

fn valid() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        ".{0,40}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            prop::collection::btree_map(".{0,12}", inner, 0..6)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn id_5_arbitrary_bytes_are_accepted_as_serde_accepts_them(body in prop::collection::vec(any::<u8>(), 0..64)) {
        agrees_with_serde(&body);
    }

    #[test]
    fn id_5_pieces_of_json_are_accepted_as_serde_accepts_them(body in pieces()) {
        agrees_with_serde(&body);
    }

    #[test]
    fn id_5_valid_documents_are_accepted_and_damaged_ones_as_serde_accepts_them(
        value in valid(), pretty: bool, at: prop::sample::Index, byte: u8,
    ) {
        let body = if pretty { serde_json::to_vec_pretty(&value) } else { serde_json::to_vec(&value) };
        let mut body = body.expect("a value can be written");
        prop_assert!(accepts(&body));
        let at = at.index(body.len());
        body[at] = byte;
        agrees_with_serde(&body);
        body.truncate(at);
        agrees_with_serde(&body);
    }

    #[test]
    fn fp_3_texts_are_decoded_as_serde_decodes_them(body in pieces()) {
        let body = [b"\"", body.as_slice(), b"\""].concat();
        let theirs = serde_json::from_slice::<String>(&body).ok().filter(|_| !body.starts_with("\u{feff}".as_bytes()));
        let mut said = 0;
        let ours = document(&body, |s| {
            let raw = s.skip()?;
            said = raw.said;
            raw.decoded().map(Cow::into_owned)
        });
        prop_assert_eq!(ours.as_ref().ok(), theirs.as_ref());
        if let Some(text) = theirs {
            prop_assert_eq!(said, text.len());
        }
    }
}

#[test]
fn id_5_every_byte_at_every_place_of_a_text_is_judged_as_serde_judges_it() {
    for length in 0..20 {
        for at in 0..length {
            for byte in 0..=255 {
                let mut body = vec![b'x'; length + 2];
                (body[0], body[length + 1]) = (b'"', b'"');
                body[at + 1] = byte;
                agrees_with_serde(&body);
            }
        }
    }
}

#[test]
fn id_5_nesting_is_read_to_128_levels_and_no_further() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let looked_into = |levels: usize| format!("{{\"a\":{}}}", nested(levels - 1));
    #[derive(Clone, Copy, PartialEq)]
    struct A;
    let look = |body: String| {
        document(body.as_bytes(), |s| s.object(&[("a", A)], |s, A| s.list("a list", |s| s.skip().map(drop))))
            .err()
    };
    assert!(accepts(nested(128).as_bytes()));
    assert!(!accepts(nested(129).as_bytes()));
    assert_eq!(look(looked_into(128)), None);
    assert_eq!(look(looked_into(129)), Some(ReadError::TooDeep { at: 132 }));
    assert!(!accepts("[".repeat(1_000_000).as_bytes()));
    assert!(!accepts("{\"a\":".repeat(1_000_000).as_bytes()));
}

#[test]
fn id_5_of_thousands_of_keys_the_one_that_is_there_twice_is_found() {
    #[derive(Clone, Copy, PartialEq)]
    struct Nothing;
    let keys = |second: &str| {
        let mut keys: Vec<String> = (0..30_000).map(|at| format!("\"k{at}\":{at}")).collect();
        keys.push(format!("\"{second}\":0"));
        format!("{{{}}}", keys.join(","))
    };
    let refused = |body: String| {
        document(body.as_bytes(), |s| s.object(&[] as &Fields<Nothing>, |_, Nothing| Ok(()))).err()
    };
    assert_eq!(refused(keys("other")), None);
    assert_eq!(refused(keys("k17777")), Some(ReadError::DuplicateKey { place: "`k17777`".to_owned() }));
    assert_eq!(refused(keys(r"k\u0037")), Some(ReadError::DuplicateKey { place: r"`k\\u0037`".to_owned() }));
}

/// Texts are walked over in strides of several lengths: what is special is found wherever it stands.
#[test]
fn what_is_special_is_found_anywhere_in_a_long_text() {
    for before in (0..140).chain(4_060..4_180).chain(8_150..8_260) {
        for special in ["", "\\n", "\\x", "\u{1}", "\u{1f}", "\u{7f}", "é", "\","] {
            let text = format!("[\"{}{special}{}\"]", "a".repeat(before), "b".repeat(70));
            agrees_with_serde(text.as_bytes());
            agrees_with_serde(text.get(..text.len() - 2).unwrap_or_default().as_bytes());
        }
    }
}
