//! TL-3: which message is a tool call, and what is said in its place.
#![expect(clippy::panic, reason = "a test fails by panicking")]

use estop_wire::mcp::{self, Message, Part};

fn read(text: &str) -> Message<'_> {
    mcp::read_line(text.as_bytes()).unwrap_or_else(|unread| panic!("{text}: {unread}"))
}

fn is_refused(bytes: &[u8]) -> bool {
    mcp::read_line(bytes).is_err() && !mcp::cannot_be_call(bytes)
}

const CALL: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add","arguments":{"a":1},"_meta":{"progressToken":7}}}"#;

#[test]
fn tl_3_a_call_is_read_as_it_stands() {
    let message = read(CALL);
    let [Part::Call(call)] = message.parts() else { panic!("{message:?}") };
    assert_eq!((&*call.name, &*call.arguments, call.id.json()), ("add", r#"{"a":1}"#, "7"));
    assert!(!message.is_batch && !call.wants_result_type);
    // Line ends of Windows belong to the line.
    assert_eq!(read(&format!("{CALL}\r")).calls().count(), 1);
    for spelled in [
        r#"{"id":"x","method":"tools\/call","params":{"name":"a"}}"#,
        r#"{"id":"x","method":"t\u006fols/call","params":{"name":"a","arguments":null}}"#,
        r#"{"id":"x","method":"Tools/Call ","params":{"name":"a"}}"#,
        r#"{"id":"x","params":{"name":"a"},"method":"tools/call","result":{}}"#,
        " {\"id\": \"x\", \"method\": \"tools/call\",\t\"params\": {\"name\": \"a\"}} ",
    ] {
        let message = read(spelled);
        let [Part::Call(call)] = message.parts() else { panic!("{spelled}") };
        assert_eq!((&*call.name, &*call.arguments, call.id.json()), ("a", "{}", "\"x\""), "{spelled}");
    }
}

#[test]
fn tl_3_everything_else_is_no_call() {
    let kind = |text: &str| match read(text).parts() {
        [Part::Call(_)] => "call",
        [Part::Request { .. }] => "request",
        [Part::Notice { .. }] => "notice",
        [Part::Answer { .. }] => "answer",
        [Part::Other] => "other",
        _ => "batch",
    };
    for (text, expected) in [
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#,
            "request",
        ),
        (r#"{"jsonrpc":"2.0","id":"d","method":"server/discover","params":{"_meta":{}}}"#, "request"),
        (r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, "notice"),
        (
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}"#,
            "notice",
        ),
        (r#"{"jsonrpc":"2.0","id":1,"result":{"method":"tools/call","roots":[]}}"#, "answer"),
        (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"tools/call"}}"#, "answer"),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":{"method":"tools/call"},"a":2}}"#,
            "request",
        ),
        (r#"{"jsonrpc":"2.0"}"#, "other"),
        (r#"[{"id":1,"method":"ping"},{"method":"x"}]"#, "batch"),
    ] {
        assert_eq!(kind(text), expected, "{text}");
    }
}

#[test]
fn tl_3_nothing_that_another_reader_could_take_for_a_call_is_let_through() {
    for text in [
        r#"{"id":1,"method":"ping","method":"tools/call","params":{"name":"a"}}"#,
        r#"{"id":1,"method":"tools/call","method":"ping","params":{"name":"a"}}"#,
        r#"{"id":1,"method":"ping","Method":"tools/call","params":{"name":"a"}}"#,
        r#"{"id":1,"method":"ping","m\u0065thod":"tools\/call","params":{"name":"a"}}"#,
        r#"{"id":1,"method":"tools/call","params":{"name":"a","name":"b"}}"#,
        r#"{"id":1,"method":"tools/call","params":{"name":"a","Name":"b"}}"#,
        r#"{"id":1,"method":"tools/call","params":{"name":"a"},"params":{"name":"b"}}"#,
        r#"{"id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":1,"x":2}}}"#,
        r#"{"id":1,"id":2,"method":"tools/call","params":{"name":"a"}}"#,
        r#"{"id":1,"method":"tools/call","params":{"name":"a","arguments":[1]}}"#,
        r#"{"id":1,"method":"tools/call","params":["a"]}"#,
        r#"{"id":1,"method":"tools/call","params":{"name":7}}"#,
        r#"{"id":1,"method":"tools/call","params":{}}"#,
        r#"{"id":1,"method":"tools/call"}"#,
        // Servers may run what nobody can be answered under.
        r#"{"method":"tools/call","params":{"name":"a"}}"#,
        r#"{"id":null,"method":"tools/call","params":{"name":"a"}}"#,
        r#"{"id":{},"method":"tools/call","params":{"name":"a"}}"#,
        // Two messages, half a message, a batch in a batch, other JSONs.
        r#"{"id":1,"method":"ping"}{"id":2,"method":"tools/call","params":{"name":"a"}}"#,
        r#"{"id":1,"method":"tools/call","params":{"name":"a"}"#,
        r#"[[{"id":1,"method":"tools/call","params":{"name":"a"}}]]"#,
        r#"{"id":1,"method":"tools/call","params":{"name":"a"},}"#,
        r#"{"id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":NaN}}}"#,
        "\u{feff}{\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"a\"}}",
        // A reader that ends lines at a carriage return sees the call in the middle.
        "{\"id\":1,\"method\":\"ping\",\"params\":{\"x\":\r{\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"a\"}}\r}}",
    ] {
        assert!(is_refused(text.as_bytes()), "{text}");
    }
    let mut invalid = CALL.as_bytes().to_vec();
    invalid.insert(50, 0xff);
    assert!(is_refused(&invalid));
    let wide: Vec<u8> = CALL.encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert!(is_refused(&wide));
}

#[test]
fn tl_3_what_is_broken_but_no_call_may_pass() {
    for text in ["hello", "{\"id\":1,\"method\":\"ping\"", r#"{"params":{"x":NaN},"method":"ping","id":1}"#] {
        assert!(mcp::read_line(text.as_bytes()).is_err(), "{text}");
        assert!(mcp::cannot_be_call(text.as_bytes()), "{text}");
    }
    assert!(!mcp::cannot_be_call(b"TOOLS/call"));
    assert!(!mcp::cannot_be_call(br"tools\u002fcall"));
}

#[test]
fn tl_3_a_batch_is_read_part_by_part() {
    let text = format!(
        r#"[{{"id":1,"method":"ping"}},{CALL},{{"method":"notifications/cancelled","params":{{"requestId":7}}}}]"#
    );
    let message = read(&text);
    assert!(message.is_batch);
    assert_eq!(message.calls().count(), 1);
    let [_, Part::Call(call), Part::Notice { cancels: Some(id), .. }] = message.parts() else {
        panic!("{message:?}")
    };
    assert_eq!(call.id, *id);
    assert!(mcp::read(b"[]").is_err());
    let many = format!("[{}1]", "1,".repeat(300));
    assert!(mcp::read(many.as_bytes()).is_err());
}

#[test]
fn tl_3_ids_are_equal_however_they_are_spelled() {
    let id = |json: &str| {
        let text = format!(r#"{{"id":{json},"method":"ping"}}"#);
        match read(&text).parts() {
            [Part::Request { id, .. }] => id.clone(),
            parts => panic!("{parts:?}"),
        }
    };
    assert_eq!(id("1"), id("1.0"));
    assert_eq!(id("1"), id("1e0"));
    assert_eq!(id(r#""a""#), id(r#""\u0061""#));
    assert_ne!(id("1"), id(r#""1""#));
    assert_ne!(id("9007199254740993"), id("9007199254740992"));
    assert_eq!(id("1.0").json(), "1.0", "answered as it was asked");
}

#[test]
fn tl_3_what_estop_says_itself_is_golden() {
    let message = read(CALL);
    let Some(call) = message.calls().next() else { panic!("a call") };
    assert_eq!(
        mcp::denied(call, "Stopped by \"estop\".\n"),
        r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"text":"Stopped by \"estop\".\n","type":"text"}],"isError":true}}"#
    );
    assert_eq!(
        mcp::cancelled(&call.id, "killed"),
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"killed"}}"#
    );
    assert_eq!(
        mcp::error(None, -32700, "no"),
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}"#
    );
    assert_eq!(mcp::batch(&["1".to_owned(), "2".to_owned()]), "[1,2]");
    assert_eq!(mcp::tool_name("files", "read"), "mcp__files__read");
    let stateless = r#"{"id":"a","method":"tools/call","params":{"name":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
    let message = read(stateless);
    let Some(call) = message.calls().next() else { panic!("a call") };
    assert!(mcp::denied(call, "no").contains(r#""resultType":"complete""#));
    // What estop writes, its own reader understands.
    let denial = mcp::denied(call, "no");
    let answer = read(&denial);
    let [Part::Answer { result, error, .. }] = answer.parts() else { panic!("{answer:?}") };
    assert_eq!(mcp::answered(*result, *error), mcp::Answered { failed: true, text: "no".to_owned() });
}

#[test]
fn tl_3_how_a_call_ended_is_read_from_its_answer() {
    let ended = |result, error| {
        let answered = mcp::answered(result, error);
        (answered.failed, answered.text)
    };
    let said = |text: &str| text.to_owned();
    assert_eq!(ended(Some(r#"{"content":[{"type":"text","text":"5"}]}"#), None), (false, said("5")));
    assert_eq!(
        ended(
            Some(r#"{"content":[{"type":"text","text":"a"},{"type":"image","data":"x"}],"isError":true}"#),
            None
        ),
        (true, said("a\n{\"type\":\"image\",\"data\":\"x\"}"))
    );
    assert_eq!(ended(Some(r#"{"structuredContent":1}"#), None), (false, said(r#"{"structuredContent":1}"#)));
    assert_eq!(ended(None, Some(r#"{"code":-1,"message":"gone"}"#)), (true, said("gone")));
}

#[test]
fn tl_3_an_answer_that_can_be_read_in_two_ways_is_told_as_it_stands() {
    let ended = |result| {
        let answered = mcp::answered(Some(result), None);
        (answered.failed, answered.text)
    };
    let as_it_stands = |json: &str| (false, json.to_owned());
    for json in [
        r#"{"isError":true,"isError":true}"#,
        r#"{"isError":true,"content":[{"text":"a","text":"b"}]}"#,
        r#"{"isError":true,"content":[{"text":"\ud800"}]}"#,
        r#"[true,[{"text":"a"}]]"#,
        r#"{"content":[]}"#,
    ] {
        assert_eq!(ended(json), as_it_stands(json), "{json}");
    }
    // What nobody asks for does not matter.
    let twice = r#"{"x":1,"x":2,"isError":true,"content":[7,{"text":null},{"y":1,"y":2,"text":"a"}]}"#;
    assert_eq!(ended(twice), (true, "7\n{\"text\":null}\na".to_owned()));
    assert_eq!(mcp::answered(None, Some(r#"["gone"]"#)).text, r#"["gone"]"#);
}

#[test]
fn tl_3_our_own_form_says_that_the_gate_before_a_server_saw_a_call() {
    use estop_core::event::ToolGate;
    use estop_wire::hooks::{self, HookClient};

    let read = |gate: &str| {
        let body = format!(r#"{{"agent":"a","tool":"mcp__s__add","args":{{}},"call":"1"{gate}}}"#);
        hooks::read(HookClient::Generic, Some("pre-tool-use"), body.as_bytes()).map(|hook| hook.gate)
    };
    assert_eq!(read(""), Ok(ToolGate::Hook));
    assert_eq!(read(r#","gate":"hook""#), Ok(ToolGate::Hook));
    assert_eq!(read(r#","gate":"mcp""#), Ok(ToolGate::Mcp));
    for wrong in [r#","gate":"MCP""#, r#","gate":1"#, r#","gate":"mcp","gate":"hook""#] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
}
