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
mysql -h db -P 3306 -uroot -p«swordfish9» shop
curl -s -u «admin:swordfish9» https://api.example/v1
curl --user '«admin:sword fish9»' https://api.example/v1
docker login -u me -p «swordfish9» registry.example
docker login -u me --password «swordfish9» registry.example
sshpass -p '«swordfish9»' ssh -p 22 me@host
redis-cli -h cache -a «swordfish9» ping
localhost:5432:shop:app:«swordfish9»
GET /c?sv=2022-11-02&sp=r&sig=«aBcDeFgHiJkLmNoPqRsT%2BuVwXyZ0123456789%3D»&b=1
https://api.telegram.example/«bot123456789:AAabcdefghij0123456789ABCDEFGHIJ_-9»/getMe
the bot's «MTIzNDU2Nzg5MDEyMzQ1Njc4.GabCdE.RmNN2r01HgV2V7WErYOTO6TiA3gaAXJLhFz9Kj» is new
echo «c2stYW50LWFwaTAzLTAxMjM0NTY3ODlhYmNkZWY=» | base64 -d
next=%2Fa%3Fpassword%3D«swordfish9%26b%3D2»
q=«sk%2Dant%2Dapi03%2D0123456789abcdef»&b=1
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
docker run -d --name mysql -p 3306:3306 -e TZ=UTC mysql:8
docker compose up -d && docker run -p 8080:80 web
docker login -u me --password-stdin registry.example
mkdir -p target/debug && cp -p a b && ssh -p 22 host
ssh -p 2222 host && rsync -a src/ host:dst && curl -u $USER:$PASS -a https://api.example
gh auth login -p https && mysql -u root -p shop < dump.sql
psql -h localhost -p 5432 -U app && redis-cli -h cache -p 6379 ping
the mysql server -p option, an option of the login
uuid 3f2a9c1b-7d5e-4f60-8192-93a4b5c6d7e8 sha256:3f2a9c1b7d5e4f60718293a4b5c6d7e8f90123453f2a9c1b7d5e4f6071829304
3f2a9c1b7d5e4f60718293a4b5c6d7e8f90123453f2a9c1b7d5e4f6071829304
8f90123453f2a9c1b7d5e4f607182930422a9c1b7d5e4f60718293a4b5c6d7e8
integrity sha512-v2kDEe57lecTulaDIuNTPy3Ry4gLGJ6Z1O3vE1krgXZNrsQ+LFTGHVxVjcXPs17LhbZVGedAJv8XZ1tvj5FvSg==
github.com/pkg/errors v0.9.1 h1:FEBLx1zS214owpjy7qsBeixbURkuhQAwrK5UwLGTwt4=
<img src="data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==">
data:image/jpeg;base64,/9j/4AAQSkZJRgABAQEAYABgAAD/2wBDAAMCAgMCAgMDAwMEAwMEBQgFBQQEBQoHBwYIDAoMDAsKCwsNDhIQDQ4RDgsLEBYQERMUFRUV
echo aGVsbG8gd29ybGQsIHRoaXMgaXMgYSBoZWFsdGh5IHRleHQ= | base64 -d
100%25 of a%20b%2Fc and \u00e9t\u00e9, \x41, \u0041BC, %41%2D
src/main.rs:12:5: error, and at 12:34:56:78:90, 00:1a:2b:3c:4d:5e
root:x:0:0:root:/root:/bin/bash
a[31mred, b[0] and \x1b[32mgreen\x1b[0m
DB_PASSWORD_FILE=/run/secrets/db token_path: ./t
sig=abc signature: fn(a: u32) the signature= is short
secrets:
  file: a.txt
-----BEGIN CERTIFICATE-----
MIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQswCQYDVQQGEwJJ
RTESMBAGA1UEChMJQmFsdGltb3JlMRMwEQYDVQQLEwpDeWJlclRydXN0MSIwIAYD
VQQDExlCYWx0aW1vcmUgQ3liZXJUcnVzdCBSb290MB4XDTAwMDUxMjE4NDYwMFoX
-----END CERTIFICATE-----
see https://example.com/a?b=c#d and ./src/key.rs:12
if token == None: return
test result: ok. 12 passed; 0 failed
name: build
value: 17
- name: DB_HOST
  value: db.internal
["cargo","test","--max-tokens","4096","-p","estop-core"]
["docker","login","--password-stdin","registry.example"]
{"passwords": [], "secrets": []}
ordered by 'name', stopped by 'x'
the password field stays empty
"#;

#[test]
fn ld_7_ordinary_text_stays_as_it_is() {
    for line in HARMLESS.lines() {
        assert_eq!(masker().text(line), line);
    }
    assert_eq!(masker().text(HARMLESS), HARMLESS);
}

/// Colours and characters without width stay where nothing is masked, and around what is.
#[test]
fn id_3_only_the_secret_goes_where_colours_stand() {
    let harmless = "a \u{1b}[31mred\u{1b}[0m w\u{200b}ord, caf\u{e9} \u{1b}(B";
    assert_eq!(masker().text(harmless), harmless);
    let text = "a \u{1b}[31msk-live-0123\u{200b}456789abc\u{1b}[1mdef\u{1b}[0m b";
    let masked = masker().text(text).into_owned();
    assert!(masked.starts_with("a \u{1b}[31m[masked:key:") && masked.ends_with("]\u{1b}[0m b"), "{masked:?}");
    let plain = masker().text("a sk-live-0123456789abcdef b").into_owned();
    let digest = |masked: &str| masked.split_once(":key:").map(|(_, rest)| rest[..12].to_owned());
    assert_eq!(digest(&masked), digest(&plain), "equal secrets stay equal");
}

/// What has no beginning, no end or quotes between its lines is a private key all the same.
#[test]
fn id_3_private_keys_are_known_by_their_lines() {
    let line = "kJ8sQ2mVx7Lp0ZrT5wYb3NcHf9DgE6uAo1RtIyKeSvMlPqXhWzCjUnBdOaFiGxT4";
    let key = |lines: &[&str]| lines.join("\n");
    for text in [
        key(&["tail key", line, line, "abcd1234EFGH==", "-----END RSA PRIVATE KEY-----", "rest"]),
        key(&["sed -n 2,3p key", line, line, "rest"]),
        key(&["tail key", line, "-----END PRIVATE KEY-----", "rest"]),
        key(&["diff", &format!("+{line}"), &format!("+{line}"), "rest"]),
        key(&["read", &format!("    12\t{line}"), &format!("    13\t{line}"), "rest"]),
        format!("k = \"{line}\\n\" +\n    \"{line}\\n\";\nrest"),
        format!("k = ('{line}'\n     '{line}')\nrest"),
        format!("head\nMHcCAQEEI{line}\nrest"),
    ] {
        let masked = masker().text(&text).into_owned();
        assert!(masked.contains("[masked:private_key:") && masked.ends_with("rest"), "{masked}");
        assert!(!masked.contains("QmVx") && !masked.contains("BdOaFiG"), "{masked}");
        assert!(!masked.contains(&line[..12]), "{masked}");
    }
    // One line alone may be anything, and what a certificate is made of is public.
    for text in [key(&["a", line, "rest"]), key(&["-----BEGIN CERTIFICATE-----", line, line])] {
        assert_eq!(masker().text(&text), text);
    }
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

/// Of what is looked for across words and lines.
#[test]
fn se_1_masking_of_lines_and_commands_takes_linear_time() {
    let units = patterns(&[
        "\u{1b}[31m",
        "[31m",
        "\u{200b}",
        "\\u0073",
        "%2D",
        "%25",
        "mysql -p",
        "curl -u a:",
        " -p",
        "password: |\n ",
        "password:\n ",
        "password:\\n ",
        "\n ",
        "\\n",
        "password=\"\"\"",
        "sig=",
        "bot123456789:",
        "123456789:",
        "a:*:",
        "\na:11:b:c:",
        "c2stYW50LWFwaTAz",
        "/c2stYW50LWFwaTAz",
        "c2stYW50LWFwaTAzc2stYW50LWFwaTAzc2stYW50LWFwaTAzc2stYW50LWFwaTAz\n",
        "-----END PRIVATE KEY-----",
        "Private-Lines: 2\n",
        "[\"login\",\"-p\",",
        " \\npassword: |\n [masked:\n",
        " \\npassword: |\n [masked:key:0123456789ab]\n",
        " [masked:key:0123456789ab]\n",
    ]);
    let read = |text: &str| drop(masker().text(text));
    assert_eq!(growth(&units, 60, read), Ok(()));
}

const PIECES: &[&str] = &[
    "\u{1b}[31m",
    "\u{200b}",
    "é",
    "→",
    "\\u0073",
    "%2D",
    "%",
    "\\",
    "\\n",
    "\n",
    "\r\n",
    " ",
    "  ",
    "12→",
    "+",
    "-",
    ":",
    "=",
    "==",
    "|",
    ">",
    "\"",
    "'",
    "\"\"\"",
    "{",
    "]",
    "mysql -p",
    "curl -u a:",
    "login",
    " -p ",
    "password",
    "password: |\n  ",
    "sig=",
    "sk-live-0123456789abcdef",
    "bot123456789:",
    "kJ8sQ2mVx7Lp0ZrT5wYb3NcHf9DgE6uAo1RtIyKeSvMlPqXhWzCjUnBdOaFiGxT4",
    "c2stYW50LWFwaTAzLTAxMjM0NTY3ODlhYmNkZWY=",
    "-----BEGIN RSA PRIVATE KEY-----",
    "-----END RSA PRIVATE KEY-----",
    "localhost:5432:a:b:c",
];

proptest::proptest! {
    /// Whatever follows what, in whichever language: nothing panics, and what has no secret in it is given back.
    #[test]
    fn se_1_masking_takes_any_text(picked in proptest::collection::vec(0..PIECES.len(), 0..24)) {
        let text: String = picked.iter().map(|at| PIECES[*at]).collect();
        let masked = masker().text(&text).into_owned();
        proptest::prop_assert!(masked == text || masked.contains("[masked:"));
        proptest::prop_assert!(!masked.contains("sk-live-0123456789abcdef") || !text.contains(" sk-live-0123456789abcdef "));
    }
}
