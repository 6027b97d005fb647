//! Foreign text in the languages of others.

/// In HTML, and in Telegram's part of it.
pub(crate) fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

/// In Slack's mrkdwn: three characters are escaped by their rules; marks get an invisible character before them, because
/// there is no other way to have them shown.
pub(super) fn slack(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '*' | '_' | '~' | '`' => out.extend(['\u{2060}', c]),
            other => out.push(other),
        }
    }
    out
}

/// In Markdown as GitHub, Discord and Teams read it: marks are escaped, and `@name` and `#12` call nobody.
pub(crate) fn markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '(' | ')' | '<' | '>' | '+' | '!' | '|'
            | '~' => {
                out.extend(['\\', c]);
            }
            '@' | '#' => out.extend([c, '\u{2060}']),
            other => out.push(other),
        }
    }
    // Without it a bare address would become a link.
    out.replace("://", ":\u{2060}//")
}

/// A command in a block of code of Discord: it cannot end the block.
pub(super) fn code(text: &str) -> String {
    text.replace('`', "'")
}

/// The same in Slack, which reads `<…>` also there.
pub(super) fn slack_code(text: &str) -> String {
    code(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn al_1_foreign_text_calls_nobody_and_links_nowhere() {
        assert_eq!(html("<b onclick='x'>&\""), "&lt;b onclick=&#39;x&#39;&gt;&amp;&quot;");
        assert_eq!(
            slack("<!channel> & <https://x|y> *b*"),
            "&lt;!channel&gt; &amp; &lt;https://x|y&gt; \u{2060}*b\u{2060}*"
        );
        assert_eq!(
            markdown("@everyone #1 [a](http://x)"),
            "@\u{2060}everyone #\u{2060}1 \\[a\\]\\(http:\u{2060}//x\\)"
        );
        assert_eq!(code("a```b"), "a'''b");
        assert_eq!(slack_code("`<!channel>`"), "'&lt;!channel&gt;'");
    }
}
