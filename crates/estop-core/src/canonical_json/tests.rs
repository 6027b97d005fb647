//! The bytes are those of `serde_json`.

use std::collections::BTreeMap;

use super::*;

#[derive(Serialize)]
enum Kind {
    Unit,
    New(i64),
    Pair(u8, String),
    Named { a: Option<u32>, b: Vec<bool> },
}

#[derive(Serialize)]
struct All<'a> {
    kinds: Vec<Kind>,
    text: &'a str,
    none: Option<u8>,
    map: BTreeMap<String, i32>,
    numbered: BTreeMap<u8, ()>,
    float: f64,
}

fn same<T: Serialize>(value: &T) {
    let mut ours = Vec::new();
    write(&mut ours, value);
    assert_eq!(String::from_utf8_lossy(&ours), serde_json::to_string(value).expect("JSON"));
}

#[test]
fn tw_7_records_have_the_bytes_serde_json_gives_them() {
    let letters = "abcdefghijklmnopqrstuvwxyz";
    for length in 0..=letters.len() {
        same(&&letters[..length]);
        // What must be escaped is found wherever it stands.
        for at in 0..length {
            same(&[&letters[..at], "\"", &letters[at + 1..length]].concat());
        }
    }
    for text in ["", "plain", "quo\"te", "back\\slash", "line\nend", "\u{1}", "größe 🙂", "a/b</script>"]
    {
        same(&text);
        same(&BTreeMap::from([(text, 1)]));
    }
    for power in (0..20).map(|digits| 10_u64.pow(digits)) {
        same(&[power - 1, power, power + 1, power / 2, u64::MAX - power]);
    }
    same(&[i64::MIN, -1, 0, i64::MAX]);
    let named = Kind::Named { a: Some(7), b: vec![true, false] };
    let kinds = vec![Kind::Unit, Kind::New(-5), Kind::Pair(1, "x".into()), named];
    let map = BTreeMap::from([("k".to_owned(), -1)]);
    // Floats and numbered keys are left to serde_json.
    same(&All { kinds, text: "t", none: None, map, numbered: BTreeMap::from([(1, ())]), float: 0.5 });
}
