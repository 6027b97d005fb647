//! What secrets look like, and what names they have.

use super::is_mark;

/// How keys and tokens begin that say whose they are. What follows has at least [`REST_MIN`] characters and looks random.
const PREFIXES: &[&str] = &[
    "sk-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "rk_test_",
    "pk_live_",
    "whsec_", // OpenAI and its like, Stripe
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "gldt-", // code
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xoxs-",
    "xoxe-",
    "xapp-", // Slack
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "GOCSPX-",
    "dop_v1_", // clouds
    "hf_",
    "gsk_",
    "xai-",
    "r8_",
    "pplx-",
    "nvapi-",
    "tvly-",
    "fw_",
    "csk-",
    "lsv2_", // models and their tools
    "npm_",
    "pypi-",
    "dckr_pat_",
    "shpat_",
    "sq0csp-",
    "SG.",
    "key-",
    "lin_api_",
    "ntn_",
    "secret_",
    "estop_",
    "AGE-SECRET-KEY-",
    "hvs.",
    "hvb.",
    "dapi",
    "dp.pt.",
    "glc_",
    "glsa_",
    "NRAK-",
    "PMAK-",
    "sntrys_",
    "sntryu_", // data, secrets and what watches them
    "pscale_tkn_",
    "pscale_pw_",
    "pul-",
    "sbp_",
    "cfut_",
    "vcp_",
    "nfp_",
    "fm2_",
    "rubygems_", // where programs run and come from
    "figd_",
    "pat-na1-",
    "pat-eu1-",
    "ATATT3",
    "sk_", // ElevenLabs, and others after OpenAI's
];

const REST_MIN: usize = 12;

/// Whether this word begins as a provider's key, is as long as one, and looks random: it has a digit, or letters of both kinds
/// without a break.
pub(super) fn is_key(word: &str, has_digit: bool) -> bool {
    let rest = PREFIXES.iter().find_map(|prefix| word.strip_prefix(prefix));
    let first = rest.and_then(|rest| rest.as_bytes().get(..REST_MIN));
    first.is_some_and(|first| has_digit || is_random(first, word.starts_with("A")))
}

/// Of letters alone. Keys of AWS have capitals only.
fn is_random(first: &[u8], may_be_capitals: bool) -> bool {
    let has_small = first.iter().any(u8::is_ascii_lowercase);
    let has_capital = first.iter().any(u8::is_ascii_uppercase);
    first.iter().all(u8::is_ascii_alphanumeric) && has_capital && (has_small || may_be_capitals)
}

/// Whether it is a JWT, or other JSON in base64.
pub(super) fn is_jwt(word: &str) -> bool {
    word.len() >= 20 && word.starts_with("eyJ")
}

/// What follows `Bearer`.
pub(super) fn is_bearer(value: &str) -> bool {
    value.len() >= 20 || value.len() >= 8 && has_digit(value)
}

/// An e-mail address: something, an at sign, a domain whose last part is letters.
pub(super) fn is_email(word: &str) -> bool {
    let Some((local, domain)) = word.rsplit_once('@') else { return false };
    let last = domain.trim_end_matches('.').rsplit_once('.').map_or("", |(_, last)| last);
    !local.is_empty() && last.len() >= 2 && last.bytes().all(|byte| byte.is_ascii_alphabetic())
}

fn has_digit(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
}

/// Names of more than this are none.
const NAME_MAX: usize = 128;

/// What is assigned to this name is a secret.
pub(super) fn is_secret_name(name: &str) -> bool {
    const ANYWHERE: &[&str] = &[
        "apikey",
        "secret",
        "password",
        "passwd",
        "passphrase",
        "passwort",
        "kennwort",
        "contrase",
        "accesskey",
        "privatekey",
        "authkey",
        "accountkey",
        "subscriptionkey",
        "authtoken",
        "accesstoken",
        "refreshtoken",
        "idtoken",
        "authorization",
        "credential",
        "cookie",
        "bearer",
        "connectionstring",
        "signingkey",
        "encryptionkey",
        "csrf",
        "sessionid",
    ];
    const AT_END: &[&str] = &["token", "pwd", "passcode", "dsn", "jwt", "storepass", "keypass"];
    /// Says where a secret is: `--password-stdin`, `DB_PASSWORD_FILE`.
    const PLACE_AT_END: &[&str] = &["stdin", "file", "path"];
    /// After another word alone: tests report `pass: 12`.
    const AFTER_WORD: &[&str] = &["pass", "pin", "otp"];
    if name.len() > NAME_MAX {
        return false;
    }
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    let is_key_of_something = is_capitals(name) && name.ends_with("_KEY");
    let after_word =
        |end: &&str| plain.len() > end.len() && plain.ends_with(end) && has_border(name, end.len());
    if PLACE_AT_END.iter().any(|end| plain.ends_with(end)) {
        return false;
    }
    is_key_of_something
        || ANYWHERE.iter().any(|word| plain.contains(word))
        || AT_END.iter().any(|end| plain.ends_with(end))
        || AFTER_WORD.iter().any(after_word)
}

/// Whether the last `len` letters of a name are a word of their own: `db_pass`, `dbPass`, `DB-PASS`.
fn has_border(name: &str, len: usize) -> bool {
    let bytes = name.as_bytes();
    let Some(start) = bytes.len().checked_sub(len) else { return false };
    let before = start.checked_sub(1).and_then(|at| bytes.get(at));
    let is_hump =
        bytes.get(start).is_some_and(u8::is_ascii_uppercase) && before.is_some_and(u8::is_ascii_lowercase);
    is_hump || before.is_none_or(|byte| !byte.is_ascii_alphanumeric())
}

/// The name of a variable of the environment.
pub(super) fn is_capitals(name: &str) -> bool {
    let is_capital = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    (2..=NAME_MAX).contains(&name.len())
        && name.as_bytes()[0].is_ascii_uppercase()
        && name.bytes().all(is_capital)
}

/// What is assigned to this name signs a URL, if it is long: `sig` of Azure, `X-Amz-Signature`.
pub(super) fn is_signature_name(name: &str) -> bool {
    let end = name.len().checked_sub("signature".len()).and_then(|from| name.get(from..));
    name.eq_ignore_ascii_case("sig") || end.is_some_and(|end| end.eq_ignore_ascii_case("signature"))
}

/// Hexadecimal digits or base64, of 20 bytes or more.
pub(super) fn is_signature(value: &str) -> bool {
    value.len() >= 27 && has_digit(value) && value.bytes().all(is_of_hash)
}

/// What hashes are written in; `=` at their end may stay.
pub(super) fn is_of_hash(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/-_%".contains(&byte)
}

/// Whether an option is followed by a secret, and not by another option, a variable, ports or a protocol.
pub(super) fn is_option_value(value: &str) -> bool {
    let is_ports = value.contains(':') && value.bytes().all(|byte| byte.is_ascii_digit() || byte == b':');
    let is_variable = value.strip_prefix('$').is_some_and(|name| {
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_{}()".contains(&byte))
    });
    let is_other = value.is_empty() || value.starts_with('-') || is_mark(value);
    !(is_other || is_ports || is_variable || matches!(value, "http" | "https" | "ssh"))
}

/// A value that is none of a secret's, whatever its name.
pub(super) fn is_no_secret(value: &str) -> bool {
    const WORDS: &[&str] = &[
        "true",
        "false",
        "null",
        "none",
        "nil",
        "undefined",
        "str",
        "string",
        "bool",
        "int",
        "yes",
        "no",
        "on",
        "off",
    ];
    value.is_empty() || value.len() < 10 && WORDS.iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// A value of a variable whose name says nothing: switches, small numbers, plain words.
pub(super) fn is_plain_value(value: &str) -> bool {
    let is_number = value.len() <= 8 && value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let is_word = value.len() <= 12 && value.bytes().all(|byte| byte.is_ascii_alphabetic());
    is_no_secret(value) || is_number || is_word
}

/// A path, or another variable.
pub(super) fn is_path(value: &str) -> bool {
    ["/", "./", "../", "~/", "$"].iter().any(|start| value.starts_with(start))
}
