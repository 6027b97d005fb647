//! E-mail as a mail server sees it: who it is for, and what its headers are, whatever an agent is called (A11). TLS and
//! passwords are tried with a real server in `tests/alerts`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod house;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use estop_notify::{Channel, ChannelKind, Email, EmailError, MailTls, Notifier, NotifierEnv};
use estop_store::{Alerts, DeliveryFilter};
use house::{local, looped, open, settings};

/// A small mail server; what each client said, line by line. An address with `nobody` in it is refused.
fn server(greeting: &'static str) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let said = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&said);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut out = stream.try_clone().unwrap();
            if out.write_all(greeting.as_bytes()).is_err() {
                continue;
            }
            let mut in_data = false;
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                let reply = match line.to_ascii_uppercase().as_str() {
                    "." if in_data => {
                        in_data = false;
                        "250 taken\r\n"
                    }
                    _ if in_data => "",
                    "DATA" => {
                        in_data = true;
                        "354 go on\r\n"
                    }
                    "QUIT" => "221 bye\r\n",
                    command if command.starts_with("RCPT") && command.contains("NOBODY") => {
                        "550 no such user\r\n"
                    }
                    _ => "250 ok\r\n",
                };
                heard.lock().unwrap().push(line);
                let _ = out.write_all(reply.as_bytes());
            }
        }
    });
    (port, said)
}

fn mail(port: u16, to: &[&str]) -> Channel {
    let to: Vec<String> = to.iter().map(|to| (*to).to_owned()).collect();
    let server = ("127.0.0.1", port, MailTls::None);
    let email = Email::new(server, None, "estop <estop@example.com>", &to).unwrap();
    local(ChannelKind::Email(Box::new(email)))
}

/// Tells one thing by mail; how the first try ended and what was said about it.
fn tell(channel: Channel, agent: &str) -> (String, String) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let notifier =
        Notifier::start(Arc::new(store.clone()), settings([("mail", channel)]), NotifierEnv::system())
            .unwrap();
    let mut told = looped(agent, 1);
    told.evidence = "x\r\n.\r\nMAIL FROM:<evil@example.com>\r\nBcc: evil@example.com".to_owned();
    notifier.tell(told);
    let begun = Instant::now();
    loop {
        if let Some(line) = store.deliveries(&DeliveryFilter::default(), 1).unwrap().pop() {
            return (line.outcome.to_string(), line.detail);
        }
        assert!(begun.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn al_1_a_name_cannot_add_a_header_or_a_recipient() {
    let (port, said) = server("220 mail\r\n");
    let evil = "x\r\nBcc: evil@example.com\r\nContent-Type: text/html\r\n\r\n<b>ä";
    assert_eq!(tell(mail(port, &["Anna <anna@example.com>"]), evil).0, "delivered");
    let said = said.lock().unwrap();
    let recipients: Vec<&String> = said.iter().filter(|line| line.starts_with("RCPT")).collect();
    assert_eq!(recipients, ["RCPT TO:<anna@example.com>"]);
    assert_eq!(said.iter().filter(|line| line.starts_with("MAIL")).count(), 1);
    let data = said.iter().position(|line| line == "DATA").unwrap();
    let headers: Vec<&String> = said[data + 1..].iter().take_while(|line| !line.is_empty()).collect();
    let names: Vec<&str> = headers
        .iter()
        .filter(|line| !line.starts_with(' '))
        .map(|line| line.split(':').next().unwrap())
        .collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    let expected = ["Content-Type", "Date", "From", "MIME-Version", "Message-ID", "Subject", "To"];
    assert_eq!(sorted, expected, "{headers:?}");
    assert!(said.iter().all(|line| !line.starts_with("Bcc")));
    let html = said.iter().rposition(|line| line.contains("text/html")).unwrap();
    // A long line is sent in parts, each but the last with `=` at its end.
    let parts = said[html..]
        .iter()
        .map(|line| line.strip_suffix('=').map_or_else(|| format!("{line}\n"), str::to_owned));
    let html: String = parts.collect();
    assert!(html.contains("&lt;b&gt;"), "and mark-up is text: {html}");
    assert!(!html.contains("<b>"), "{html}");
}

#[test]
fn al_1_one_address_that_is_refused_does_not_keep_the_others_from_being_told() {
    let (port, said) = server("220 mail\r\n");
    let (outcome, detail) = tell(mail(port, &["nobody@example.com", "anna@example.com"]), "coder");
    assert_eq!(outcome, "delivered");
    assert!(detail.contains("taken for 1") && detail.contains("no such user"), "{detail}");
    assert!(said.lock().unwrap().iter().any(|line| line == "DATA"));
    let (outcome, _) = tell(mail(port, &["nobody@example.com"]), "coder");
    assert_eq!(outcome, "retry", "nobody at all was told");
}

#[test]
fn al_1_a_mail_server_that_is_busy_or_talks_without_end_is_tried_again() {
    let (port, _) = server("421 too busy\r\n");
    assert_eq!(tell(mail(port, &["anna@example.com"]), "coder").0, "retry");
    let flood: &'static str = Box::leak(format!("220-{}", "x".repeat(300_000)).into_boxed_str());
    let (port, _) = server(flood);
    let (outcome, detail) = tell(mail(port, &["anna@example.com"]), "coder");
    assert_eq!(outcome, "retry");
    assert!(detail.contains("says too much"), "{detail}");
}

#[test]
fn al_1_mail_settings_that_cannot_be_meant_are_refused() {
    let to = |to: &str| vec![to.to_owned()];
    let tls = ("mail.example.com", 465, MailTls::Implicit);
    let check = |to: &[String]| Email::new(tls, None, "estop@example.com", to).map(|_| ());
    assert!(check(&to("anna@example.com")).is_ok());
    for wrong in ["anna", "a@b\r\nBcc: c@d", "a@example.com, b@example.com", ""] {
        assert!(matches!(check(&to(wrong)), Err(EmailError::Address(_))), "{wrong:?}");
    }
    assert_eq!(check(&[]), Err(EmailError::Recipients));
    let login = Some(("anna".to_owned(), "secret".to_owned().into()));
    let plain =
        Email::new(("mail.example.com", 25, MailTls::None), login, "a@example.com", &to("b@example.com"));
    assert_eq!(plain.map(|_| ()), Err(EmailError::PlainPassword));
}
