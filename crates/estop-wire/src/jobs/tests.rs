//! Paths that begin, look at and cancel work, and answers that name it.

use super::*;

#[test]
fn ks_11_requests_that_begin_background_work_are_known_by_their_paths() {
    for (path, kind) in [
        ("/v1/responses", Some(JobKind::Response)),
        ("/openai/responses", Some(JobKind::Response)),
        ("/v1/batches", Some(JobKind::Batch)),
        ("/v1//Batches/", Some(JobKind::Batch)),
        ("/v1/%62atches", Some(JobKind::Batch)),
        ("/v1/batch/jobs", Some(JobKind::Batch)),
        ("/v1/messages/batches", Some(JobKind::MessageBatch)),
        ("/v1/fine_tuning/jobs", Some(JobKind::FineTuning)),
        ("/v1/threads/thread_1/runs", Some(JobKind::ThreadRun)),
        ("/v1/threads/runs", Some(JobKind::ThreadRun)),
        ("/v1/evals/eval_1/runs", Some(JobKind::EvalRun)),
        ("/v1/videos", Some(JobKind::Video)),
        ("/v1/videos/video_1/remix", Some(JobKind::Video)),
        ("/v1beta/models/gemini-2.5:batchGenerateContent", Some(JobKind::GeminiBatch)),
        ("/v1beta/models/veo:predictLongRunning", Some(JobKind::Operation)),
        ("/v1beta/interactions", Some(JobKind::Interaction)),
        ("/v1/responses/resp_1/cancel", None),
        ("/v1/batches/batch_1/cancel", None),
        ("/v1/chat/completions", None),
        ("/v1beta/models/m:generateContent", None),
    ] {
        assert_eq!(begun_by("POST", path), kind, "{path}");
        assert_eq!(begun_by("GET", path), None, "{path}");
    }
}

#[test]
fn ks_11_answers_name_the_work_and_how_far_it_is() {
    let of = |json: &str| seen(json.as_bytes()).map(|seen| (seen.id, seen.thread, seen.state));
    let is = |id: &str, state| Some((id.to_owned(), None, state));
    assert_eq!(of(r#"{"id":"resp_1","status":"queued","metadata":{}}"#), is("resp_1", JobState::Running));
    assert_eq!(of(r#"{"id":"resp_1","status":"completed"}"#), is("resp_1", JobState::Ended));
    assert_eq!(of(r#"{"id":"b","status":"cancelling"}"#), is("b", JobState::Cancelling));
    let anthropic = r#"{"id":"msgbatch_1","type":"message_batch","processing_status":"ended"}"#;
    assert_eq!(of(anthropic), is("msgbatch_1", JobState::Ended));
    let run = r#"{"id":"run_1","thread_id":"thread_9","status":"in_progress","metadata":{"state":1}}"#;
    assert_eq!(of(run), Some(("run_1".to_owned(), Some("thread_9".to_owned()), JobState::Running)));
    let gemini = r#"{"name":"batches/abc","metadata":{"state":"BATCH_STATE_PENDING"}}"#;
    assert_eq!(of(gemini), is("batches/abc", JobState::Running));
    let gemini = r#"{"name":"batches/abc","done":true,"metadata":{"state":"BATCH_STATE_CANCELLED"}}"#;
    assert_eq!(of(gemini), is("batches/abc", JobState::Cancelled));
    let stream = "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_2\",\"status\":\"queued\"}}\n\nevent: x\n";
    assert_eq!(of(stream), is("resp_2", JobState::Running));
    for odd in [
        "",
        "[]",
        "{}",
        "not json",
        r#"{"id":7}"#,
        r#"{"id":"../../v1/files"}"#,
        r#"{"id":"a?b"}"#,
        r#"{"id":"a\r\nb"}"#,
        r#"{"id":""}"#,
    ] {
        assert_eq!(of(odd), None, "{odd}");
    }
    assert_eq!(of(&format!(r#"{{"id":"{}"}}"#, "x".repeat(ID_BYTES_MAX + 1))), None);
}

#[test]
fn ks_11_work_is_cancelled_where_the_provider_has_a_call_for_it() {
    let cancel = |kind, path, id, thread| JobPlace { kind, path, id, thread }.cancel();
    for (kind, path, id, expected) in [
        (JobKind::Response, "/v1/responses", "resp_1", Some("/v1/responses/resp_1/cancel")),
        (JobKind::Batch, "/v1/batches", "batch_1", Some("/v1/batches/batch_1/cancel")),
        (JobKind::MessageBatch, "/v1/messages/batches", "m", Some("/v1/messages/batches/m/cancel")),
        (JobKind::FineTuning, "/v1/fine_tuning/jobs", "f", Some("/v1/fine_tuning/jobs/f/cancel")),
        (JobKind::EvalRun, "/v1/evals/e/runs", "r", Some("/v1/evals/e/runs/r")),
        (JobKind::ThreadRun, "/v1/threads/t/runs", "r", Some("/v1/threads/t/runs/r/cancel")),
        (JobKind::ThreadRun, "/v1/threads/runs", "r", Some("/v1/threads/t9/runs/r/cancel")),
        (
            JobKind::GeminiBatch,
            "/v1beta/models/g:batchGenerateContent",
            "batches/b",
            Some("/v1beta/batches/b:cancel"),
        ),
        (JobKind::Video, "/v1/videos", "v", None),
        (JobKind::Operation, "/v1beta/models/veo:predictLongRunning", "models/veo/operations/o", None),
    ] {
        assert_eq!(cancel(kind, path, id, Some("t9")).as_deref(), expected, "{kind:?} {path}");
    }
    assert_eq!(cancel(JobKind::ThreadRun, "/v1/threads/runs", "r", None), None);
    let gemini =
        JobPlace { kind: JobKind::GeminiBatch, path: "/v1beta/models/g:x", id: "batches/b", thread: None };
    assert!(gemini.is_meant_by("/v1beta/batches/b") && gemini.is_meant_by("/v1beta/batches/b:cancel"));
    for other in ["/v1beta/batches/bb", "/v1beta/files/b", "/v1/batches/b", "/b", "/v1beta/batches/b/x"] {
        assert!(!gemini.is_meant_by(other), "{other}");
    }
}

#[test]
fn ks_11_a_path_is_kept_decoded_and_bounded_or_not_at_all() {
    for (path, plain) in [
        ("/v1/batches", Some("/v1/batches")),
        ("/v1//%62atches/", Some("/v1/batches")),
        ("/v1/%2562atches", Some("/v1/batches")),
        ("/v1beta/models/g:batchGenerateContent", Some("/v1beta/models/g:batchGenerateContent")),
        ("/v1%2Fbatches", Some("/v1/batches")),
        ("/v1/%3Fa/batches", None),
        ("/v1/%23/batches", None),
        ("/v1/%0d%0a/batches", None),
        ("/v1/%20/batches", None),
        ("/v1/%2e%2e/batches", None),
        ("/v1/%25/batches", None),
        ("/v1\\batches", None),
        ("/v1/\u{fc}/batches", None),
    ] {
        assert_eq!(plain_path(path).as_deref(), plain, "{path}");
    }
    let long = |length: usize| format!("/{}", "x".repeat(length - 1));
    assert!(plain_path(&long(PATH_BYTES_MAX)).is_some());
    assert_eq!(plain_path(&long(PATH_BYTES_MAX + 1)), None);
}

#[test]
fn ks_11_an_answer_is_read_whatever_its_encoding_and_bounded() {
    let mut reader = JobReader::new("");
    reader.push(br#"{"id":"resp_1","#);
    reader.push(br#""status":"queued"}"#);
    assert_eq!(reader.seen().map(|seen| seen.id).as_deref(), Some("resp_1"));
    let mut endless = JobReader::new("");
    for _ in 0..40 {
        endless.push(&[b' '; 64 << 10]);
    }
    assert_eq!((endless.taken.len(), endless.seen()), (ANSWER_BYTES_MAX, None));
    let mut unknown = JobReader::new("rot13");
    unknown.push(b"{}");
    assert_eq!(unknown.seen(), None);
}
