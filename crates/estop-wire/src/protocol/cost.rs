//! Which of the paths that are not read cost nothing, and how a path is written down and compared (PO-2).
//!
//! What is not known to be free is not: a budget that lets it pass would be none.

use super::{decoded_twice, segments_from_end};

/// Whether a call cannot cost anything, by its method and path: it looks at something, deletes or cancels something, or
/// counts tokens.
pub fn costs_nothing(method: &str, path: &str) -> bool {
    if ["GET", "HEAD", "OPTIONS", "TRACE"].iter().any(|safe| method.eq_ignore_ascii_case(safe)) {
        return true;
    }
    // In no odd spelling: what servers read differently may be something else.
    if !path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/:._-~".contains(&byte)) {
        return false;
    }
    let mut segments = segments_from_end(path);
    let (last, before) = (segments.next().unwrap_or(""), segments.next().unwrap_or(""));
    let ends = |parent: &str, name: &str| {
        last.eq_ignore_ascii_case(name) && (parent.is_empty() || before.eq_ignore_ascii_case(parent))
    };
    if method.eq_ignore_ascii_case("DELETE") {
        // Ollama's models are gigabytes that must be fetched again.
        return !ends("api", "delete");
    }
    if !method.eq_ignore_ascii_case("POST") {
        return false;
    }
    let verb = last.rsplit_once(':').map_or("", |(_, verb)| verb);
    ends("", "cancel")
        || verb.eq_ignore_ascii_case("cancel")
        || ends("messages", "count_tokens")
        || verb.eq_ignore_ascii_case("countTokens")
        || ends("responses", "input_tokens")
        || ends("", "moderations")
        || ends("api", "show")
}

/// A path as it is written down and compared with a list: percent-decoded, without a slash at its end. `None` for one
/// that servers may read differently: it is in no list.
pub fn plain_path(path: &str) -> Option<String> {
    let decoded = decoded_twice(path);
    let trimmed = decoded.trim_end_matches('/');
    let is_odd = |c: char| c.is_control() || matches!(c, '\\' | ';' | '?' | '#' | '%' | '\u{fffd}');
    let is_plain = trimmed.starts_with('/')
        && !trimmed.contains(is_odd)
        && trimmed.split('/').skip(1).all(|segment| !matches!(segment.trim(), "" | "." | ".."));
    is_plain.then(|| trimmed.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn po_2_what_looks_deletes_cancels_or_counts_costs_nothing() {
        for (method, path) in [
            ("GET", "/v1/models"),
            ("HEAD", "/"),
            ("DELETE", "/v1/files/file-1"),
            ("POST", "/v1/batches/batch_1/cancel"),
            ("POST", "/v1/messages/batches/msgbatch_1/cancel"),
            ("POST", "/v1beta/batches/1:cancel"),
            ("POST", "/v1/messages/count_tokens"),
            ("POST", "/v1beta/models/gemini-2.5-pro:countTokens"),
            ("POST", "/v1/responses/input_tokens"),
            ("POST", "/v1/moderations"),
            ("POST", "/api/show"),
        ] {
            assert!(costs_nothing(method, path), "{method} {path}");
        }
    }

    #[test]
    fn po_2_what_may_cost_something_is_not_free() {
        for (method, path) in [
            ("POST", "/v1/batches"),
            ("POST", "/v1/messages/batches"),
            ("POST", "/v1/images/generations"),
            ("POST", "/v1/videos"),
            ("POST", "/v1/audio/speech"),
            ("POST", "/v1/threads/runs"),
            ("POST", "/v1/fine_tuning/jobs"),
            ("POST", "/v1/realtime/sessions"),
            ("POST", "/v1beta/models/m:batchGenerateContent"),
            ("POST", "/v1beta/models/m:predictLongRunning"),
            ("POST", "/batch/v1beta"),
            ("POST", "/api/pull"),
            ("DELETE", "/api/delete"),
            ("PUT", "/v1/chat/completions"),
            ("PATCH", "/v1/batches/cancel"),
            ("POST", "/v1/batches%2Fcancel"),
            ("POST", "/v1/batches;/cancel"),
            ("POST", "/v1/batches\\cancel"),
            ("POST", "/v1/batches/cancel%00"),
            ("QUERY", "/v1/batches"),
        ] {
            assert!(!costs_nothing(method, path), "{method} {path}");
        }
    }

    #[test]
    fn po_2_paths_are_compared_decoded_and_odd_ones_are_in_no_list() {
        assert_eq!(plain_path("/v1/batches").as_deref(), Some("/v1/batches"));
        assert_eq!(plain_path("/v1/batches/").as_deref(), Some("/v1/batches"));
        assert_eq!(plain_path("/v1/b%61tches").as_deref(), Some("/v1/batches"));
        assert_eq!(plain_path("/v1%2Fb%2561tches").as_deref(), Some("/v1/batches"));
        for odd in [
            "",
            "/",
            "v1",
            "/v1//batches",
            "/v1/files/%2e%2e/batches",
            "/v1/files;a",
            "/v1/files%3Fx",
            "/v1/f%00",
            "/v1/f\\x",
            "/v1/%252523",
            "/v1/%ff",
        ] {
            assert_eq!(plain_path(odd), None, "{odd}");
        }
    }
}
