//! Connections to a provider that is a plain socket.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream as Peer};
use std::pin::{Pin, pin};

use bytes::Bytes;
use estop_wire::protocol::Family;
use http::{Method, Request, StatusCode};

use super::*;
use crate::host::tests::host_with;
use crate::settings::{Auth, Provider};
use crate::upload::RequestBody;
use crate::upstream::line::Line;

/// A connection, and the provider's end of it.
async fn pair() -> (Arc<OwnConnection>, Peer) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let near = tokio::net::TcpStream::connect(address).await.expect("a connection");
    let (peer, _) = listener.accept().expect("its other end");
    peer.set_read_timeout(Some(std::time::Duration::from_secs(10))).expect("a patient socket");
    let line = Line::new(near.into(), Arc::new(host_with("{}")));
    (OwnConnection::new(Stream::Plain(line)), peer)
}

fn ready() -> Ready {
    let provider = Provider {
        family: Family::OpenAi,
        tls: false,
        host: "127.0.0.1".into(),
        port: 80,
        base_path: "".into(),
        auth: Auth::None,
        key: None,
        ca: None,
    };
    Ready::new("provider", provider).expect("a plain address")
}

fn post(bytes: Bytes) -> Outgoing {
    let mut request = Request::new(RequestBody::whole(bytes));
    *request.method_mut() = Method::POST;
    request.into()
}

/// All that is left of an answer.
async fn rest_of(mut body: Body) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(frame) = std::future::poll_fn(|cx| body.poll_frame(cx)).await {
        all.extend(frame.expect("it comes to its end").into_data().expect("data"));
    }
    all
}

/// Goes as far as it goes without the provider.
async fn begun(mut exchange: Pin<&mut impl Future>) {
    std::future::poll_fn(|cx| {
        assert!(exchange.as_mut().poll(cx).is_pending());
        Poll::Ready(())
    })
    .await;
}

/// Waits until the system says that something came.
async fn until(mut is_so: impl FnMut() -> bool) {
    for _ in 0..2_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    assert!(is_so(), "waited in vain");
}

#[tokio::test]
async fn id_6_one_request_after_the_other_goes_over_a_connection() {
    let (connection, mut peer) = pair().await;
    for answer in
        ["content-length: 2\r\n\r\nok", "transfer-encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n"]
    {
        peer.write_all(format!("HTTP/1.1 200 OK\r\n{answer}").as_bytes()).expect("it is there");
        let mut request = post(Bytes::from_static(b"{}"));
        let answer = connection.exchange(&ready(), &mut request).await.expect("an answer");
        assert_eq!(rest_of(answer.into_body()).await, b"ok");
        assert!(connection.rest() && connection.is_quiet());
        let sent = b"POST / HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 2\r\n\r\n{}";
        let mut seen = [0; 57];
        peer.read_exact(&mut seen).expect("all of it");
        assert_eq!(String::from_utf8_lossy(&seen), String::from_utf8_lossy(sent));
    }
}

#[tokio::test]
async fn id_6_what_comes_unasked_or_ends_is_noticed_by_whoever_has_read_too_much_already() {
    for says in [&b""[..], b"HTTP/1.1 200 OK\r\n\r\n"] {
        let (connection, mut peer) = pair().await;
        peer.write_all(says).expect("it is there");
        drop(peer);
        until(|| !connection.is_quiet()).await;
        // A task that has read for long is told that nothing is there, to let others run.
        std::future::poll_fn(|cx| {
            while tokio::task::coop::has_budget_remaining() {
                let _ = pin!(tokio::task::consume_budget()).poll(cx);
            }
            assert!(!connection.is_quiet());
            Poll::Ready(())
        })
        .await;
    }
}

#[tokio::test]
async fn ks_2_a_connection_that_is_cut_from_outside_is_reset() {
    let (connection, mut peer) = pair().await;
    let mut request = post(vec![b'x'; 16 << 20].into());
    {
        let ready = ready();
        let mut exchange = pin!(connection.exchange(&ready, &mut request));
        begun(exchange.as_mut()).await;
        let connection = Arc::clone(&connection);
        std::thread::spawn(move || connection.abort()).join().expect("it is cut");
        // Before its own task has run again.
        let mut byte = vec![0; 32 << 20];
        let ended = loop {
            match peer.read(&mut byte) {
                Ok(1..) => {}
                ended => break ended,
            }
        };
        assert_eq!(ended.map_err(|error| error.kind()), Err(io::ErrorKind::ConnectionReset));
        assert!(exchange.await.is_err());
    }
    assert!(!connection.rest());
}

#[tokio::test]
async fn an_2_an_answer_before_the_whole_request_was_read_is_heard_and_ends_the_connection() {
    for closes in [false, true] {
        let (connection, mut peer) = pair().await;
        peer.write_all(b"HTTP/1.1 413 Too Much\r\ncontent-length: 2\r\n\r\nno").expect("it is there");
        if closes {
            peer.shutdown(std::net::Shutdown::Both).expect("it is closed");
        }
        let mut request = post(vec![b'x'; 16 << 20].into());
        let answer = connection.exchange(&ready(), &mut request).await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(rest_of(answer.into_body()).await, b"no");
        assert!(!connection.rest(), "its request was not sent to the end");
    }
}

#[tokio::test]
async fn id_6_nothing_of_a_request_is_sent_to_a_closed_connection() {
    let (connection, peer) = pair().await;
    // Unread bytes make the other end reset it.
    {
        let mut request = post(Bytes::from_static(b"{}"));
        let ready = ready();
        let mut exchange = pin!(connection.exchange(&ready, &mut request));
        begun(exchange.as_mut()).await;
        drop(peer);
        assert!(matches!(exchange.await, Err(Failed::Broken(_))), "it was sent, and may have been read");
    }
    let mut request = post(Bytes::from_static(b"{}"));
    let failed = connection.exchange(&ready(), &mut request).await.map(|_| ());
    assert!(matches!(failed, Err(Failed::Unsent(_))), "{failed:?}");
}
