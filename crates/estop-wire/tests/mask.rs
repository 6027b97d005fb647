//! Which secrets are taken out of a text that is kept, and what stays (ID-3, SE-1).

use estop_core::steps::{growth, patterns};
use estop_wire::mask::Masker;

fn masker() -> Masker {
    Masker::new([7; 32])
}

/// A secret in each line, between `«` and `»`: the text around it stays, the secret goes.
const CORPUS: &str = r#"
export OPENAI_API_KEY=«sk-proj-4f9a0Bc12345678901234»
the key «sk-ant-api03-AAbb_ccDD-0123456789» is used
token «ghp_0123456789abcdefABCDEF0123456789abcd», and more
(«github_pat_11ABCDEFG0aBcDeFgHiJkL_0123456789»)
aws_access_key_id = «AKIAIOSFODNN7EXAMPLE»
aws_secret_access_key = «wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY»
https://maps.example/api?key=«AIzaSyA-0123456789abcdefghijklmnopqrstu»
SLACK=«xoxb-123456789012-abcdefABCDEF»
hf login --token «hf_abcdefghij0123456789»
curl -H "Authorization: «Bearer abcdefgh12345678»" https://api.example
curl -H 'x-api-key: «zzzz-top-9876»'
got Bearer «abcdefghijklmnopqrstuvwxyz»
id «eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U»
DATABASE_URL=«postgres://app:hunter2@db.internal/app»
git clone https://«oauth2:s3cretpass»@git.example/x.git
DB_PASSWORD=«correct-horse»
SOMETHING_ELSE="«two words 7»"
  12→STRIPE=«abc123def456ghi»
"password": "«hunter2»"
{\"client_secret\": \"«abcDEF123»\"}
password = '«letmein»'
mysql --password «hunter2» -u root
mail to «jane.doe@example.com» today
Set-Cookie: «sid=abc; Path=/»
"#;

#[test]
fn id_3_each_secret_of_the_corpus_is_masked_and_the_text_around_it_stays() {
    for line in CORPUS.lines().filter(|line| !line.is_empty()) {
        let (before, rest) = line.split_once('«').expect("a secret");
        let (secret, after) = rest.split_once('»').expect("its end");
        let text = [before, secret, after].concat();
        let masked = masker().text(&text);
        assert!(!masked.contains(secret), "{masked}");
        assert!(masked.starts_with(before) && masked.ends_with(after), "{line}\n{masked}");
        assert!(masked[before.len()..].starts_with("[masked:"), "{masked}");
        assert_eq!(masker().text(&masked), masked, "once is enough");
    }
}

/// What work is made of stays as it is.
const HARMLESS: &str = r#"
cargo test -p estop-core --test it ld_8
commit 3f2a9c1b7d5e4f60718293a4b5c6d7e8f9012345
npm install @types/node@18.1.0 && RUST_LOG=debug npm test
DEBUG=1 PATH=/usr/bin:/bin make -j8
{"max_tokens": 4096, "model": "gpt-4o", "usage": {"total_tokens": 120}}
"key": "ArrowDown", task-management-system-overview
-----BEGIN CERTIFICATE-----
tokens: 45210, pass: 12, fail: 3
see https://example.com/a?b=c#d and ./src/key.rs:12
if token == None: return
test result: ok. 12 passed; 0 failed
"#;

#[test]
fn ld_7_ordinary_text_stays_as_it_is() {
    for line in HARMLESS.lines() {
        assert_eq!(masker().text(line), line);
    }
    assert_eq!(masker().text(HARMLESS), HARMLESS);
}

#[test]
fn id_3_private_keys_go_with_all_their_lines() {
    let key = "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\nxyz==\n-----END RSA PRIVATE KEY-----\nb";
    let masked = masker().text(key).into_owned();
    assert!(masked.starts_with("a\n[masked:private_key:") && masked.ends_with("]\nb"), "{masked}");
    let escaped = serde_json::to_string(key).expect("JSON");
    let masked = masker().text(&escaped).into_owned();
    assert!(!masked.contains("MIIE") && masked.ends_with(r#"]\nb""#), "{masked}");
    let cut = masker().text("-----BEGIN OPENSSH PRIVATE KEY-----\nabc\nxyz").into_owned();
    assert!(!cut.contains("xyz"), "{cut}");
}

#[test]
fn id_3_escapes_and_json_in_json_hide_nothing() {
    for text in [
        r#"{"command":"echo s\u006b-live-0123456789abcdef"}"#,
        r#"{"file_path":"/a/.env","content":"A=1\nAPI_KEY=sk-live-0123456789abcdef\n"}"#,
        r#"{"body":"{\"password\":\"sk-live-0123456789abcdef\"}"}"#,
        r#"{"a":{"password":["x","sk-live-0123456789abcdef"]}}"#,
        r#"{"password":"sk-live-0123456789abcdef"#,
        r#"{ password: "sk-live-0123456789abcdef" }"#,
        "{'password': 'sk-live-0123456789abcdef'}",
    ] {
        let masked = masker().text(text);
        assert!(!masked.contains("0123456789abcdef"), "{masked}");
    }
    let masked = masker().text(r#"{"pin_code":1,"password":"hunter2","db_pin":1234,"n":5}"#).into_owned();
    assert!(!masked.contains("hunter2") && !masked.contains("1234"), "{masked}");
    assert!(masked.ends_with(r#","n":5}"#), "{masked}");
    serde_json::from_str::<serde_json::Value>(&masked).expect("it is still JSON");
}

/// Colours, diffs, URLs and escapes stand close to a secret.
#[test]
fn id_3_what_stands_before_a_secret_does_not_hide_it() {
    let key = "sk-live-0123456789abcdef";
    for before in
        ["\x1b[31m", ".env:\x1b[01;31m\x1b[K", "q=%22", "%20", "k%3D", r"x = \u0022", r"\x22", "+", "-"]
    {
        let masked = masker().text(&[before, key].concat()).into_owned();
        assert!(!masked.contains("0123456789abcdef"), "{masked}");
    }
    for begin in ["+", "-", "\x1b[32m", "KEY=+", "key: \"", "12:"] {
        let text = format!(
            "{begin}-----BEGIN PRIVATE KEY-----\n+swordfish9\n{begin}-----END PRIVATE KEY-----\nrest"
        );
        let masked = masker().text(&text).into_owned();
        assert!(!masked.contains("swordfish9") && masked.ends_with("rest"), "{masked}");
    }
    for text in [
        "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\nswordfish9\n---- END SSH2 ENCRYPTED PRIVATE KEY ----",
        "\x1b[32m+\x1b[m\x1b[32mSTRIPE_KEY=swordfish9",
        "\x1b[1mPASSWORD\x1b[0m=swordfish9",
        "Authorization: Bearer \x1b[32mswordfish9",
        "<password>swordfish9</password>",
        "Passwort: swordfish9",
    ] {
        let masked = masker().text(text).into_owned();
        assert!(!masked.contains("swordfish9"), "{masked}");
    }
}

/// Secrets that look like any other word are known by their names alone.
#[test]
fn id_3_the_name_of_a_value_is_not_forgotten() {
    for text in [
        r#"{"passwords":["hunter2","swordfish9"]}"#,
        r#"{"headers":{"set-cookie":["a=hunter2","b=swordfish9"]}}"#,
        r#"{"password":"hunter2 swordfish9"#,
        r#"{"env":[{"name":"DB_PASSWORD","value":"swordfish9"},{"name":"N","value":"1"}]}"#,
        r#"{ passwords: ["hunter2", "swordfish9"], name: "n" }"#,
    ] {
        let masked = masker().text(text).into_owned();
        assert!(!masked.contains("hunter2") && !masked.contains("swordfish9"), "{masked}");
    }
    for text in [
        r#"{"password":null,"name":"a","value":"swordfish9"}"#,
        r#"{"tokens":{"a":1},"b":"swordfish9"}"#,
        r#"{ password: null, name: "swordfish9" }"#,
        r#"[{"name":"DB_PASSWORD"},{"value":"swordfish9"}]"#,
    ] {
        assert!(masker().text(text).contains("swordfish9"), "{text}");
    }
}

#[test]
fn ld_7_equal_secrets_stay_equal_and_different_ones_different() {
    let mask = |text: &str| masker().text(text).into_owned();
    assert_eq!(mask("password=abc1"), mask("password=abc1"));
    assert_ne!(mask("password=abc1"), mask("password=abc2"));
    let other = Masker::new([8; 32]).text("password=abc1").into_owned();
    assert_ne!(mask("password=abc1"), other, "nobody finds out by trying");
}

#[test]
fn ld_7_a_long_text_loses_its_middle_and_says_which_text_it_was() {
    let long = |middle: &str| format!("{}{middle}{}", "é".repeat(40_000), "z".repeat(40_000));
    let cut = masker().excerpt(&long("a"), 1_000).into_owned();
    assert!(cut.len() < 1_100 && cut.starts_with('é') && cut.ends_with('z'), "{}", cut.len());
    assert_eq!(cut, masker().excerpt(&long("a"), 1_000));
    assert_ne!(cut, masker().excerpt(&long("b"), 1_000), "the digest is of the whole");
    assert_eq!(masker().excerpt("short", 1_000), "short");
}

#[test]
fn se_1_masking_takes_linear_time() {
    let units = patterns(&[
        "a",
        " ",
        "\\",
        "\"",
        "{",
        ":",
        "=",
        "://",
        "@",
        "-",
        "1-sk-",
        "eyJa.",
        "A_KEY=",
        "AA=/",
        "A_KEY=[masked:",
        "password: ",
        "\"password\":",
        "Bearer ",
        "a@b.cd ",
        "-----BEGIN PRIVATE KEY-----",
        "-----END",
        "Cookie: ",
        "--token ",
        "\\\"",
        "é",
    ]);
    for start in ["", "{"] {
        let read = |text: &str| drop(masker().excerpt(&[start, text].concat(), 1_000));
        assert_eq!(growth(&units, 60, read), Ok(()), "after {start:?}");
    }
}
