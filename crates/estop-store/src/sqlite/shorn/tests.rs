//! Lines that are shorn are restored to the byte; whatever is no such thing is refused.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use estop_core::chain::Digest;
use estop_core::journal::write_hashes;
use proptest::prelude::*;

use super::*;
use crate::journal::Lines;
use crate::records::Records;

fn line_of(seq: u64, chain: &str, mono: u64, wall: i64, rest: &str) -> String {
    let chain = serde_json::to_string(chain).unwrap();
    format!(r#"{{"record":{{"seq":{seq},"chain":{chain},"mono":{mono},"wall":{wall},{rest}"#)
}

/// `None` if these are no records.
fn records(first_seq: u64, lines: &[String]) -> Option<Records> {
    let mut bytes = Vec::new();
    for line in lines {
        bytes.extend_from_slice(line.as_bytes());
        write_hashes(&Digest([0; 32]), &Digest([0; 32]), &mut bytes);
    }
    let last_seq = first_seq + lines.len() as u64 - 1;
    Records::read(&Lines { first_seq, last_seq, bytes, ..Lines::default() }).ok()
}

fn shorn(records: &Records) -> Option<Vec<u8>> {
    shear(records.texts(), 0, records.places(), records.first_seq(), records.chains())
}

const CHAINS: [&str; 3] = ["coder", "system", "größe \"x\"\n"];

proptest! {
    #[test]
    fn st_1_shorn_lines_are_restored_to_the_byte(
        first_seq in prop_oneof![1..200_u64, 9_998..10_001_u64, any::<u32>().prop_map(u64::from)],
        heads in prop::collection::vec((0..3_usize, prop_oneof![0..3_u64, any::<u64>()], prop_oneof![0..3_i64, any::<i64>()], "[a-z\\\\{}:\", ]{0,40}"), 1..60),
    ) {
        let line = |(at, (chain, mono, wall, rest)): (usize, &(usize, u64, i64, String))| {
            line_of(first_seq + at as u64, CHAINS[*chain], *mono, *wall, rest)
        };
        let lines: Vec<_> = heads.iter().enumerate().map(line).collect();
        let records = records(first_seq, &lines).unwrap();
        let shorn = shorn(&records).unwrap();
        prop_assert!(is_shorn(&shorn));
        let restored = restore(&shorn, records.texts().len());
        prop_assert_eq!(restored.as_deref(), Some(records.texts()));
        prop_assert_eq!(restore(&shorn, records.texts().len() + 1), None);
        prop_assert_eq!(restore(&shorn, records.texts().len() - 1), None);
        let read = Shorn::read(&shorn).unwrap();
        prop_assert_eq!(read.count(), lines.len());
        for (number, chain) in CHAINS.iter().enumerate() {
            let picked = read.pick(chain, records.texts().len()).unwrap();
            let places: Vec<usize> = (0..heads.len()).filter(|at| heads[*at].0 == number).collect();
            let texts: String = places.iter().map(|at| format!("{}\n", lines[*at])).collect();
            prop_assert_eq!(&picked.places, &places);
            prop_assert_eq!(String::from_utf8(picked.texts).unwrap(), texts);
        }
    }

    #[test]
    fn st_1_what_is_no_block_is_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..200), length in 0..400_usize) {
        restore(&bytes, length);
        bytes.insert(0, MARK);
        restore(&bytes, length);
        Shorn::read(&bytes).and_then(|read| read.pick("", length));
    }
}

#[test]
fn st_1_lines_that_begin_otherwise_stay_as_they_are() {
    let good = |seq: u64| line_of(seq, "coder", 5, 6, "x");
    let shorn_of = |lines: &[String]| records(7, lines).and_then(|records| shorn(&records));
    assert!(shorn_of(&[good(7), good(8)]).is_some());
    let others = [
        line_of(9, "coder", 5, 6, "x"),
        line_of(8, "other", 5, 6, "x").replace("other", "oth\\u0065r"),
        line_of(8, "coder", 5, 6, "x").replace(":8,", ":08,"),
        line_of(8, "coder", 5, 6, "x").replace("\"mono\":5", "\"mono\":05"),
        line_of(8, "coder", 5, 6, "x").replace("\"mono\":5", "\"mono\":+5"),
        line_of(8, "coder", 5, 6, "x").replace("\"wall\":6", "\"wall\":-0"),
        line_of(8, "coder", 5, 6, "x").replace("\"wall\":6,", "\"wall\":6"),
        line_of(8, "coder", 5, 6, "x").replace("\"wall\"", "\"hall\""),
        line_of(8, "coder", 5, 6, "x").replace("{\"record\"", " {\"record\""),
        "{}".to_owned(),
        String::new(),
    ];
    for other in others {
        assert_eq!(shorn_of(&[good(7), other.clone()]), None, "{other}");
        let alone = records(8, std::slice::from_ref(&other));
        assert_eq!(alone.and_then(|records| shorn(&records)), None, "{other}");
    }
}

#[test]
fn st_1_a_changed_byte_is_never_a_panic() {
    let lines: Vec<_> = (0..20).map(|n| line_of(95 + n as u64, CHAINS[n % 3], 5, 6, "x")).collect();
    let records = records(95, &lines).unwrap();
    let shorn = shorn(&records).unwrap();
    for place in 0..shorn.len() {
        for change in [1, 0x80, 0xff] {
            let mut changed = shorn.clone();
            changed[place] ^= change;
            restore(&changed, records.texts().len());
            restore(&changed[..place], records.texts().len());
            Shorn::read(&changed).and_then(|read| read.pick("coder", records.texts().len()));
        }
    }
}

#[test]
fn st_1_a_length_that_was_made_up_asks_for_no_room() {
    let records = records(95, &[line_of(95, "coder", 5, 6, "x")]).unwrap();
    let shorn = shorn(&records).unwrap();
    assert_eq!(restore(&shorn, usize::MAX), None, "so much room there is not");
    let longest = line_of(u64::MAX, "coder", u64::MAX, i64::MIN, "x").len() + 1;
    let longest_head = Head { chain: 0, now: Now { mono: Millis(u64::MAX), wall: i64::MIN } };
    let mut out = Vec::new();
    write_heads(&mut out, u64::MAX - 1, &["coder"], &[longest_head]);
    out.extend_from_slice(b",x\n");
    assert_eq!(restore(&out, longest).map(|lines| lines.len()), Some(longest));
}

#[test]
fn st_1_chains_are_numbered_as_they_are_met() {
    let head = |chain| Head { chain, ..Head::default() };
    for (chains, heads) in [
        (&["a", "b"][..], vec![head(1), head(0)]),
        (&["a", "b"], vec![head(0), head(0)]),
        (&["a"], vec![head(0), head(1)]),
        (&[], vec![head(0)]),
    ] {
        let mut out = Vec::new();
        write_heads(&mut out, 1, chains, &heads);
        heads.iter().for_each(|_| out.extend_from_slice(b",x\n"));
        assert!(Shorn::read(&out).is_none(), "{chains:?} {heads:?}");
    }
}
