//! The rules on what of a conversation counts (FP-3, FP-4, FP-6), by example.

use estop_core::ended::Ended;
use estop_core::fingerprint::RequestFingerprint;
use estop_wire::protocol::Protocol;
use estop_wire::request::{RequestIn, read};

fn request(protocol: Protocol, body: &str) -> RequestIn<'_> {
    read(protocol, body.as_bytes()).expect("a request")
}

fn chat(body: &str) -> RequestIn<'_> {
    request(Protocol::OpenAiChat, body)
}

fn anthropic(body: &str) -> RequestIn<'_> {
    request(Protocol::AnthropicMessages, body)
}

fn steps(request: &RequestIn<'_>) -> Vec<(String, String, String)> {
    request.steps.iter().map(|s| (s.tool.to_string(), s.args.to_string(), s.result.to_string())).collect()
}

fn three(tool: &str, args: &str, result: &str) -> (String, String, String) {
    (tool.to_owned(), args.to_owned(), result.to_owned())
}

/// The same conversation as in the tests of recorded traces.
#[test]
fn fp_4_results_are_found_by_their_call_and_else_by_their_place() {
    let request = chat(
        r#"{"messages":[{"role":"user","content":"go"},
            {"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"1"}},
                {"function":{"name":"g","arguments":{"x":1}}}]},
            {"role":"tool","content":"for b"},{"role":"tool","content":"also b"},
            {"role":"tool","tool_call_id":"a","content":"for a"}]}"#,
    );
    assert_eq!(steps(&request), [three("f", "1", "for a"), three("g", r#"{"x":1}"#, "also b")]);
    assert_eq!((request.last_user.as_ref(), request.continues), ("go", true));
}

#[test]
fn fp_4_a_result_that_has_its_call_is_not_given_to_another() {
    let request = chat(
        r#"{"messages":[{"role":"assistant","tool_calls":[
            {"id":"a","function":{"name":"f","arguments":""}},{"id":"b","function":{"name":"g","arguments":""}}]},
            {"role":"tool","tool_call_id":"b","content":"for b"}]}"#,
    );
    assert_eq!(steps(&request), [three("g", "", "for b")]);
}

#[test]
fn fp_4_only_the_newest_turn_counts_and_declared_tools_never() {
    let request = chat(
        r#"{"tools":[{"type":"function","function":{"name":"declared"}}],"messages":[
            {"role":"assistant","tool_calls":[{"id":"1","function":{"name":"old","arguments":"{}"}}]},
            {"role":"tool","tool_call_id":"1","content":"x"},
            {"role":"assistant","tool_calls":[{"id":"2","function":{"name":"new","arguments":"{}"}}]},
            {"role":"tool","tool_call_id":"2","content":"y"}]}"#,
    );
    assert_eq!(steps(&request), [three("new", "{}", "y")]);
}

#[test]
fn ld_6_an_answer_without_calls_acted_in_text() {
    let request = chat(
        r#"{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"ls"},
            {"role":"user","content":"a b"},{"role":"user","content":"more"}]}"#,
    );
    assert_eq!(steps(&request), [three("", "ls", "a b")]);
    assert_eq!((request.first_user.as_ref(), request.last_user.as_ref()), ("q", "more"));
    let silent = chat(r#"{"messages":[{"role":"assistant","content":" "},{"role":"user","content":"x"}]}"#);
    assert!(silent.steps.is_empty());
}

#[test]
fn fp_3_tool_results_inside_user_messages_continue() {
    let request = anthropic(
        r#"{"messages":[{"role":"user","content":"Fix it."},
            {"role":"assistant","content":[{"type":"tool_use","id":"t","name":"Bash","input":{"command":"ls"}}]},
            {"role":"user","content":[{"type":"text","text":"<system-reminder>"},
                {"type":"tool_result","tool_use_id":"t","content":"a"}]}]}"#,
    );
    assert!(request.continues);
    assert_eq!(request.last_user, "Fix it.");
    assert_eq!(steps(&request), [three("Bash", r#"{"command":"ls"}"#, "a")]);
    let gemini = request_gemini_with_results();
    assert!(gemini.continues);
    assert_eq!(gemini.last_user, "Fix it.");
}

fn request_gemini_with_results() -> RequestIn<'static> {
    request(
        Protocol::Gemini,
        r#"{"contents":[{"parts":[{"text":"Fix it."}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]},
            {"parts":[{"functionResponse":{"name":"f","response":{"output":"a"}}},{"text":"Hint."}]}]}"#,
    )
}

#[test]
fn fp_3_what_the_system_adds_after_results_changes_nothing() {
    let request = chat(
        r#"{"messages":[{"role":"user","content":"q"},
            {"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}}]},
            {"role":"tool","tool_call_id":"1","content":"x"},{"role":"system","content":"Be brief."}]}"#,
    );
    assert!(request.continues);
    assert_eq!(request.steps.len(), 1);
}

/// Some agents think in a message of its own before they act: what was told once is not told again.
#[test]
fn fp_4_a_step_is_told_by_one_request_even_if_the_assistant_speaks_twice() {
    let told = r#"{"messages":[{"role":"user","content":"q"},
        {"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}}]},
        {"role":"tool","tool_call_id":"1","content":"x"}"#;
    let (once, again) =
        (format!("{told}]}}"), format!(r#"{told},{{"role":"assistant","content":"I think."}}]}}"#));
    assert_eq!((chat(&once).steps.len(), chat(&once).continues), (1, true));
    assert_eq!((chat(&again).steps.len(), chat(&again).continues), (0, true));
}

#[test]
fn fp_3_words_after_results_are_a_new_ask() {
    let request = anthropic(
        r#"{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},
            {"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"a"}]},
            {"role":"user","content":"Now this."}]}"#,
    );
    assert!(!request.continues);
    assert_eq!((request.last_user.as_ref(), request.steps.len()), ("Now this.", 1));
}

#[test]
fn fp_3_images_count_by_their_bytes_alone() {
    let with = |image: &str| {
        let body = format!(r#"{{"messages":[{{"role":"user","content":[{image}]}}]}}"#);
        anthropic(&body).last_user.into_owned()
    };
    let image = |data: &str, beside: &str| {
        format!(r#"{{"type":"image","source":{{"type":"base64","data":"{data}"}}{beside}}}"#)
    };
    let one = with(&image("AAAA", ""));
    assert_eq!(one, with(&image("AAAA", r#","cache_control":{"type":"ephemeral"}"#)));
    assert_ne!(one, with(&image("AAAB", "")));
    assert!(one.starts_with("<image:") && one.len() == 24, "{one}");
    assert!(!one.contains(|c: char| c.is_ascii_digit()), "{one}: an id would be no news");
}

#[test]
fn fp_4_the_protocol_says_how_a_call_ended_and_else_its_text() {
    let ended = |result: &str| {
        let body = format!(
            r#"{{"messages":[{{"role":"assistant","content":[{{"type":"tool_use","id":"t","name":"f","input":{{}}}}]}},
                {{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t",{result}}}]}}]}}"#
        );
        anthropic(&body).steps[0].ended
    };
    assert_eq!(ended(r#""content":"fine","is_error":true"#), Ended::Failed);
    assert_eq!(ended(r#""content":"Error: no","is_error":false"#), Ended::Ok);
    assert_eq!(ended(r#""content":"Error: no""#), Ended::Failed);
    assert_eq!(ended(r#""content":"fine""#), Ended::Unknown);
}

#[test]
fn fp_6_what_claude_code_adds_for_billing_is_no_part_of_the_conversation() {
    let conversation = |nonce: &str| {
        let body = format!(
            r#"{{"system":[{{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1; cch={nonce};"}},
                {{"type":"text","text":"You are Claude Code."}}],"messages":[{{"role":"user","content":"q"}}]}}"#
        );
        let request = anthropic(&body);
        assert_eq!(request.system, "You are Claude Code.");
        RequestFingerprint::of(&request.text(None)).conversation
    };
    assert_eq!(conversation("fa690"), conversation("0aaa9"));
}

#[test]
fn fp_6_context_that_a_client_sends_first_is_part_of_the_first_words() {
    let first = |prompt: &str| {
        let body = format!(
            r#"{{"input":[{{"role":"user","content":"<environment_context>"}},{{"role":"user","content":"{prompt}"}},
                {{"role":"assistant","content":"ok"}},{{"role":"user","content":"later"}}]}}"#
        );
        request(Protocol::OpenAiResponses, &body).first_user.into_owned()
    };
    assert_eq!(first("Fix a."), "<environment_context>\nFix a.");
    assert_ne!(first("Fix a."), first("Write b."));
}

#[test]
fn fp_4_calls_and_results_of_one_turn_may_come_in_pairs() {
    let request = request(
        Protocol::OpenAiResponses,
        r#"{"input":[{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},
            {"type":"function_call_output","call_id":"1","output":"x"},
            {"type":"function_call","call_id":"2","name":"g","arguments":"{}"},
            {"type":"function_call_output","call_id":"2","output":"y"}]}"#,
    );
    assert_eq!(steps(&request), [three("g", "{}", "y")]);
    assert!(request.steps.iter().all(|step| step.call_id.is_none()));
}

#[test]
fn fp_4_a_result_without_its_call_keeps_the_calls_id() {
    let request = request(
        Protocol::OpenAiResponses,
        r#"{"previous_response_id":"r","input":[{"type":"function_call_output","call_id":"c","output":"x"}]}"#,
    );
    assert_eq!((request.steps.len(), request.continues), (1, true));
    assert_eq!(request.steps[0].call_id.as_deref(), Some("c"));
}

#[test]
fn id_5_all_answers_together_are_limited() {
    let limit = |body: &str| chat(body).max_output_tokens;
    assert_eq!(limit(r#"{"messages":[]}"#), None);
    assert_eq!(limit(r#"{"messages":[],"max_tokens":null,"n":null}"#), None);
    assert_eq!(limit(r#"{"messages":[],"max_tokens":10,"max_completion_tokens":20}"#), Some(20));
    assert_eq!(limit(r#"{"messages":[],"n":4,"max_tokens":10.0}"#), Some(40));
    assert_eq!(limit(r#"{"messages":[],"n":4294967295,"max_tokens":99999999999}"#), Some(u32::MAX));
    assert_eq!(limit(r#"{"messages":[],"n":0,"max_tokens":-1}"#), None);
}

#[test]
fn po_2_what_the_provider_reads_beside_the_request_is_known() {
    let more = |protocol, body: &str| request(protocol, body).refers_to_more;
    for body in [
        r#"{"input":"go","previous_response_id":"resp_1"}"#,
        r#"{"input":"go","conversation":"conv_1"}"#,
        r#"{"input":"go","conversation":{"id":"conv_1"}}"#,
        r#"{"prompt":{"id":"pmpt_1"}}"#,
        r#"{"input":[{"type":"item_reference","id":"msg_1"}]}"#,
        r#"{"input":[{"id":"msg_1"}]}"#,
    ] {
        assert!(more(Protocol::OpenAiResponses, body), "{body}");
    }
    let plain =
        r#"{"input":[{"role":"user","content":"go"}],"conversation":null,"previous_response_id":null}"#;
    assert!(!more(Protocol::OpenAiResponses, plain));
    let gemini =
        |kept: &str| format!(r#"{{"contents":[{{"role":"user","parts":[{{"text":"go"}}]}}],{kept}}}"#);
    for kept in ["cachedContent", "cached_content"] {
        assert!(more(Protocol::Gemini, &gemini(&format!(r#""{kept}":"cachedContents/1""#))), "{kept}");
    }
    assert!(!more(Protocol::Gemini, &gemini(r#""cachedContent":null"#)));
    let anthropic = |more: &str| format!(r#"{{"messages":[{{"role":"user","content":"go"}}],{more}}}"#);
    for kept in [r#""container":"c_1""#, r#""mcp_servers":[{"url":"https://a.example"}]"#] {
        assert!(more(Protocol::AnthropicMessages, &anthropic(kept)), "{kept}");
    }
    assert!(!more(Protocol::AnthropicMessages, &anthropic(r#""mcp_servers":[]"#)));
}

#[test]
fn po_7_models_that_a_router_may_take_instead_are_read_and_bounded() {
    let body = |models: &str| format!(r#"{{"model":"a","models":{models},"messages":[]}}"#);
    let two = body(r#"["b","c"]"#);
    assert_eq!(chat(&two).other_models, ["b", "c"]);
    assert!(chat(&body("null")).other_models.is_empty());
    let many = body(&format!("[{}]", ["\"m\""; 9].join(",")));
    let refused = read(Protocol::OpenAiChat, many.as_bytes()).expect_err("too many");
    assert_eq!(refused.to_string(), "`models[8]`: more than 8 models: send fewer");
}

#[test]
fn po_2_a_limit_of_no_tokens_is_no_limit() {
    assert_eq!(chat(r#"{"max_tokens":0,"messages":[]}"#).max_output_tokens, None);
    assert_eq!(
        chat(r#"{"max_tokens":5,"max_completion_tokens":0,"messages":[]}"#).max_output_tokens,
        Some(5)
    );
}
