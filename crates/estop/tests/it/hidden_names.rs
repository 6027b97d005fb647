//! Names of models and tools are their clients': what hides in them is shown wherever people read, and no spreadsheet computes them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::TcpStream;

use estop_core::printable::hides;
use serde_json::{Value, json};

use crate::house::{Estop, House, PATIENCE, wait_for};

const MODEL: &str = "=cmd|'/C calc'!A0\u{202e}4-tpg\u{200b}";
const TOOL: &str = "get_\u{202e}rehtaew\u{200b}\u{1b}[2J\u{7f}\u{e0041}";
const TOOL_SHOWN: &str = "get_\\u{202e}rehtaew\\u{200b}\\u{1b}[2J\\u{7f}\\u{e0041}";

fn ask(estop: &Estop, messages: &[Value]) -> u16 {
    let body = json!({"model": MODEL, "max_tokens": 50, "messages": messages}).to_string();
    let mut stream = TcpStream::connect(estop.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "POST /agents/coder/openai/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

/// What hides in a text of many lines.
fn hidden(text: &str) -> Vec<char> {
    text.chars().filter(|c| hides(*c) && !matches!(c, '\n' | '\t' | '\r')).collect()
}

#[test]
fn ev_1_ui_1_ob_1_what_hides_in_a_name_is_shown_in_every_place() {
    let house = House::new("policy: {kill_switch_enabled: true}\nlog: {requests: all}");
    let (estop, logged) = house.start_heard();
    let mut messages = vec![json!({"role": "user", "content": "What is the weather?"})];
    let is_stopped = (0..30).any(|n| {
        let status = ask(&estop, &messages);
        let call =
            json!({"id": format!("c{n}"), "type": "function", "function": {"name": TOOL, "arguments": "{}"}});
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        messages.push(json!({"role": "tool", "tool_call_id": format!("c{n}"), "content": "rain"}));
        status != 200
    });
    assert!(is_stopped, "the loop was not stopped");
    let id = wait_for("an incident with its steps", || {
        let list = house.estop(&["incidents", "list", "--json"]).json();
        let id = list["incidents"].get(0)?["id"].as_str()?.to_owned();
        let shown: Value =
            serde_json::from_str(&house.owner("GET", &format!("/api/incidents/{id}"), "").1).unwrap();
        shown["evidence_stored_at"].is_string().then_some(id)
    });

    let request = format!("/agents/coder/requests/{}", id.strip_prefix("coder-").unwrap());
    let incident = format!("/incidents/{id}");
    let pages = [
        "/",
        "/incidents",
        &incident,
        "/agents/coder",
        "/agents/coder/requests",
        &request,
        "/journal",
        "/spend?by=model",
    ];
    for page in pages {
        let (status, html) = house.owner("GET", page, "");
        assert_eq!(status, 200, "{page}: {html}");
        assert_eq!(hidden(&html), [] as [char; 0], "{page}");
    }
    let (_, html) = house.owner("GET", &incident, "");
    let title = html.split("<title>").nth(1).unwrap().split("</title>").next().unwrap();
    assert!(title.contains("get_\\u{202e}") && title.chars().count() < 150, "{title}");
    assert!(html.contains(TOOL_SHOWN), "{html}");

    for file in ["/agents/coder/requests.csv", "/journal.csv", "/spend.csv?by=model"] {
        let (status, csv) = house.owner("GET", file, "");
        assert_eq!((status, hidden(&csv)), (200, Vec::new()), "{file}");
        assert!(!csv.contains("\"=") && !csv.contains("\"@"), "{file}: {csv}");
    }
    let (_, csv) = house.owner("GET", "/agents/coder/requests.csv", "");
    assert!(csv.contains("\"'=cmd|'/C calc'!A0\\u{202e}4-tpg\\u{200b}\""), "{csv}");

    for command in [
        &["incidents", "list"][..],
        &["incidents", "show", &id],
        &["journal", "events"],
        &["spend", "--by", "model"],
    ] {
        let said = house.estop(command);
        assert_eq!(hidden(&said.out), [] as [char; 0], "{command:?}");
    }
    house.estop(&["incidents", "show", &id]).is(0, TOOL_SHOWN);
    estop.end();
    let logged = logged.join().unwrap();
    assert!(
        logged.contains("4-tpg") && logged.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()),
        "{logged}"
    );
    assert_eq!(hidden(&logged), [] as [char; 0], "{logged}");
    house.verified();
    let journal = std::fs::read_to_string(house.folder.path().join("journal.jsonl")).unwrap();
    assert!(journal.contains("rehtaew"), "the journal has the name");
    assert_eq!(hidden(&journal), [] as [char; 0]);
}
