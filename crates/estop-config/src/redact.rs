//! Keys that were written where none belongs must not come back in a message (ID-3).

const QUOTES: &str = "\"'";

/// A line of a file with everything hidden that could be a key. Each hidden character becomes `*`, so columns
/// stay where they are.
pub(super) fn line(line: &str) -> String {
    let mut chars: Vec<char> = line.chars().collect();
    if let Some(from) = secret_value(&chars) {
        chars[from..].fill('*');
    }
    hide_in_urls(&mut chars);
    hide_hooks(&mut chars);
    hide_random(&mut chars);
    chars.into_iter().collect()
}

/// Whether the value of this key is likely to be a secret, or to be one by mistake.
pub(super) fn is_secret_key(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    ["key", "secret", "password", "passwd", "authorization"].iter().any(|word| key.contains(word))
        // Headers of collectors.
        || key.starts_with("x-")
        || ["token", "token_env", "url_env"].iter().any(|word| key.ends_with(word))
}

/// `OPENAI_API_KEY`: the name of a variable. Keys have small letters, or digits and no underscore.
pub(super) fn is_plain_name(word: &str) -> bool {
    let is_capital = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    let is_word = word.contains('_') || !word.contains(|c: char| c.is_ascii_digit());
    word.len() <= 64 && is_word && word.bytes().all(is_capital)
}

/// Whether a value that stands at a secret's key can be shown.
pub(super) fn is_harmless(value: &str) -> bool {
    let value = value.trim_matches(['"', '\'', '[', ']']);
    let begins_as_path = ["/", "./", "../", "~/"].iter().any(|start| value.starts_with(start));
    let ends_as_path = [".pem", ".key", ".crt", ".txt"].iter().any(|end| value.ends_with(end));
    let is_switch = ["true", "false", "yes", "no"].contains(&value);
    value.is_empty() || is_switch || is_plain_name(value) || begins_as_path || ends_as_path
}

/// Where the first value begins that may be a secret. All after it is hidden with it: where it ends is unsure.
fn secret_value(chars: &[char]) -> Option<usize> {
    // After a key in quotes, as JSON has it, the value may follow at once.
    let is_quoted = |at: usize| at > 0 && QUOTES.contains(chars[at - 1]);
    let ends_value = |at: usize| chars.get(at + 1).is_none_or(|next| next.is_whitespace());
    let ends_key = |at: usize| chars[at] == ':' && (is_quoted(at) || ends_value(at));
    (0..chars.len()).filter(|at| ends_key(*at)).find_map(|colon| {
        let is_key = |c: &&char| c.is_alphanumeric() || "_-\"'".contains(**c);
        let key: String = chars[..colon].iter().rev().take_while(is_key).collect();
        let key: String = key.chars().rev().collect();
        let from = colon + 1 + chars[colon + 1..].iter().take_while(|c| c.is_whitespace()).count();
        let value: String =
            chars[from..].iter().take_while(|c| !c.is_whitespace() && !",}".contains(**c)).collect();
        (is_secret_key(key.trim_matches(['"', '\''])) && !is_harmless(&value)).then_some(from)
    })
}

/// User and password before the `@`, and everything after `?`.
fn hide_in_urls(chars: &mut [char]) {
    let mut at = 0;
    while at + 3 <= chars.len() {
        if chars[at..at + 3] != [':', '/', '/'] {
            at += 1;
            continue;
        }
        let start = at + 3;
        let len = chars[start..].iter().take_while(|c| !c.is_whitespace()).count();
        let url = &mut chars[start..start + len];
        let authority = url.iter().position(|c| "/?".contains(*c)).unwrap_or(url.len());
        if let Some(user) = url[..authority].iter().rposition(|c| *c == '@') {
            url[..user].fill('*');
        }
        if let Some(query) = url.iter().position(|c| *c == '?') {
            url[query + 1..].fill('*');
        }
        at = start + len;
    }
}

/// A long word of letters and many digits: a token, in a file that was not meant to be read as a configuration.
fn hide_random(chars: &mut [char]) {
    const LENGTH: usize = 24;
    const DIGITS: usize = 6;
    let is_of_word = |c: &char| c.is_ascii_alphanumeric() || "_+=".contains(*c);
    for word in chars.chunk_by_mut(|one, other| is_of_word(one) && is_of_word(other)) {
        let digits = word.iter().filter(|c| c.is_ascii_digit()).count();
        if word.len() >= LENGTH && digits >= DIGITS && word.iter().any(char::is_ascii_alphabetic) {
            word.fill('*');
        }
    }
}

/// The path of a webhook (`url: https://hooks.example.com/…`, or as JSON `"url":"…"`) is its password.
fn hide_hooks(chars: &mut [char]) {
    for at in 0..chars.len() {
        let Some(value) = value_of_url(chars, at) else { continue };
        let len = chars[value..].iter().take_while(|c| !c.is_whitespace() && !",}".contains(**c)).count();
        let url = &mut chars[value..value + len];
        let Some(scheme) = url.windows(3).position(|three| three == [':', '/', '/']) else { continue };
        let path = url[scheme + 3..].iter_mut().skip_while(|c| **c != '/').skip(1);
        path.filter(|c| !QUOTES.contains(**c)).for_each(|c| *c = '*');
    }
}

/// Where the value of a key `url` begins, if one stands here.
fn value_of_url(chars: &[char], at: usize) -> Option<usize> {
    let is_word = |c: &char| c.is_alphanumeric() || *c == '_';
    let is_part = at > 0 && is_word(&chars[at - 1]);
    if is_part || !chars[at..].starts_with(&['u', 'r', 'l']) {
        return None;
    }
    let is_between = |c: &&char| c.is_whitespace() || QUOTES.contains(**c);
    let colon = at + 3 + chars[at + 3..].iter().take_while(is_between).count();
    let value = colon + 1;
    (chars.get(colon) == Some(&':'))
        .then(|| value + chars[value..].iter().take_while(|c| c.is_whitespace()).count())
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn id_3_a_line_is_shown_without_what_may_be_a_key() {
        for (shown, expected) in [
            ("  api_key: sk-1", "  api_key: ****"),
            ("  api_key: \"sk 1\" # x", "  api_key: **********"),
            ("openai: {api_key_env: gsk_a, http: 3}", "openai: {api_key_env: ***************"),
            (
                "openai: {api_key_env: OPENAI_API_KEY, http: 3}",
                "openai: {api_key_env: OPENAI_API_KEY, http: 3}",
            ),
            ("api_key_file: /run/secrets/openai", "api_key_file: /run/secrets/openai"),
            ("key: server.pem", "key: server.pem"),
            ("admin_token: abc", "admin_token: ***"),
            ("require_keys: true", "require_keys: true"),
            ("tokens_per_day: abc", "tokens_per_day: abc"),
            ("base_url: https://me:pw@host/x", "base_url: https://*****@host/x"),
            ("base_url: https://h/x?key=1", "base_url: https://h/x?*****"),
            (
                "  url: https://hooks.slack.com/services/T0/B0/x",
                "  url: https://hooks.slack.com/****************",
            ),
            ("ops: {url: \"https://h/x\", typ: slack}", "ops: {url: \"https://h/*\", typ: slack}"),
            (
                r#""url": "https://hooks.slack.com/services/T0", "x": 1"#,
                r#""url": "https://hooks.slack.com/***********", "x": 1"#,
            ),
            (
                r#"{"url":"https://h/x",'url' : 'https://i/y'}"#,
                r#"{"url":"https://h/*",'url' : 'https://i/*'}"#,
            ),
            ("a: {url: https://h/x}, b: {url: https://i/y}", "a: {url: https://h/*}, b: {url: https://i/*}"),
            (r#"{"api_key":"sk-1"}"#, r#"{"api_key":*******"#),
            ("  token_env: ghp_x", "  token_env: *****"),
            (r#""token_env": "ghp_x""#, r#""token_env": *******"#),
            ("headers_env: {authorization: Bearer a}", "headers_env: {authorization: *********"),
            ("  x-honeycomb-team: abc", "  x-honeycomb-team: ***"),
            ("estop_admin_00c0ffee12345678 x", "**************************** x"),
            ("claude-3-5-sonnet-20241022-v2", "claude-3-5-sonnet-20241022-v2"),
            ("- plain", "- plain"),
            ("key:", "key:"),
        ] {
            assert_eq!(line(shown), expected);
        }
    }
}
