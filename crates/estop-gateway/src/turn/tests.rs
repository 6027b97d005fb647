//! Turns with real sockets, and a tail that notes when it is written.

use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};

use estop_core::system::{System, SystemEvent};
use estop_core::time::Now;
use tokio::io::AsyncWriteExt;

use tokio::net::TcpStream;

use super::*;
use crate::journal_queue::{Tail, TailMark};

#[derive(Clone, Debug, Default)]
struct Counting {
    writes: Arc<AtomicUsize>,
    is_broken: bool,
}

impl Tail for Counting {
    fn write(&self, _: &[u8]) -> io::Result<()> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        if self.is_broken { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn next_generation(&self) -> io::Result<()> {
        Ok(())
    }
    fn forget_before(&self) -> io::Result<()> {
        Ok(())
    }
}

struct Client {
    ours: Holding,
    outbox: Arc<Outbox>,
    theirs: std::net::TcpStream,
}

impl Client {
    async fn connect(turn: &Arc<Turn>) -> Client {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let theirs = std::net::TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
        theirs.set_nonblocking(true).expect("a socket");
        let (stream, _) = listener.accept().expect("accepted");
        stream.set_nonblocking(true).expect("a socket");
        let stream = TcpStream::from_std(stream).expect("a runtime");
        stream.writable().await.expect("a socket");
        let (ours, outbox) = Holding::new(stream.into(), turn);
        Client { ours, outbox, theirs }
    }

    /// What came so far; `None` if nothing did.
    fn seen(&mut self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; 1 << 20];
        let len = self.theirs.read(&mut bytes).ok()?;
        Some(bytes[..len].to_vec())
    }
}

fn turn(tail: &Counting) -> Arc<Turn> {
    Turn::new(Arc::new(JournalQueue::with_tail(Box::new(tail.clone()), TailMark::default())))
}

/// Something is told that the tail does not have yet.
fn decide(turn: &Turn) {
    let event = SystemEvent::Started { found: None };
    let decision = System::default().handle(Now::default(), &event);
    turn.journal.write_system(Now::default(), event, decision);
}

#[tokio::test]
async fn st_1_answers_of_one_turn_are_kept_by_one_write_before_their_clients_see_their_ends() {
    let tail = Counting::default();
    let turn = turn(&tail);
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(Client::connect(&turn).await);
    }
    for client in &mut clients {
        client.ours.write_all(b"begin").await.expect("written");
        assert_eq!(client.seen().as_deref(), Some(&b"begin"[..]), "nothing was decided yet");
        decide(&turn);
        client.outbox.wait();
        client.ours.write_all(b" and").await.expect("held");
        client.ours.write_all(b" end").await.expect("held");
        client.ours.flush().await.expect("held");
        assert_eq!(client.seen(), None);
    }
    assert_eq!(tail.writes.load(Ordering::Relaxed), 0);
    turn.end();
    assert_eq!(tail.writes.load(Ordering::Relaxed), 1);
    for client in &mut clients {
        assert_eq!(client.seen().as_deref(), Some(&b" and end"[..]));
        client.ours.write_all(b"next").await.expect("written");
        assert_eq!(client.seen().as_deref(), Some(&b"next"[..]));
    }
}

#[tokio::test]
async fn st_1_a_turn_ends_by_itself() {
    let tail = Counting::default();
    let turn = turn(&tail);
    tokio::spawn(Arc::clone(&turn).run());
    let mut client = Client::connect(&turn).await;
    for _ in 0..3 {
        decide(&turn);
        client.outbox.wait();
        client.ours.write_all(b"end").await.expect("held");
        let mut seen = client.seen();
        while seen.is_none() {
            tokio::task::yield_now().await;
            seen = client.seen();
        }
        assert_eq!(seen.as_deref(), Some(&b"end"[..]));
    }
    assert_eq!(tail.writes.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn st_1_what_is_large_or_last_does_not_wait_but_has_the_journal_written_first() {
    let tail = Counting::default();
    let turn = turn(&tail);
    let mut client = Client::connect(&turn).await;
    decide(&turn);
    client.outbox.wait();
    client.ours.write_all(b"begin").await.expect("held");
    client.ours.write_all(&[b'x'; HELD_MAX]).await.expect("written");
    assert_eq!(tail.writes.load(Ordering::Relaxed), 1);
    assert_eq!(client.seen().map(|seen| seen.len()), Some(5 + HELD_MAX));
    decide(&turn);
    client.outbox.wait();
    client.ours.write_all(b"end").await.expect("held");
    client.ours.shutdown().await.expect("written");
    assert_eq!(tail.writes.load(Ordering::Relaxed), 2);
    assert_eq!(client.seen().as_deref(), Some(&b"end"[..]));
    assert_eq!(client.seen().as_deref(), Some(&b""[..]), "closed");
}

#[tokio::test]
async fn st_1_an_answer_that_cannot_be_kept_does_not_end_well() {
    let turn = turn(&Counting { is_broken: true, ..Counting::default() });
    let mut client = Client::connect(&turn).await;
    decide(&turn);
    client.outbox.wait();
    client.ours.write_all(b"end").await.expect("held");
    turn.end();
    assert_eq!(client.seen(), None);
    let error = client.ours.flush().await.expect_err("it is lost");
    assert_eq!(error.to_string(), NOT_KEPT);
    assert!(client.ours.write_all(b"more").await.is_err() && client.ours.shutdown().await.is_err());
    drop(client.ours);
    assert_eq!(client.theirs.read(&mut [0; 9]).ok(), Some(0), "closed, though its outbox is still held");
    drop(client.outbox);
}

#[tokio::test]
async fn a_client_that_does_not_read_gets_the_rest_once_it_does() {
    let turn = turn(&Counting::default());
    let mut client = Client::connect(&turn).await;
    // As much as the socket takes.
    let fill = std::future::poll_fn(|cx| {
        let mut sent = 0;
        while let Poll::Ready(more) = Pin::new(&mut client.ours).poll_write(cx, &[b'x'; 1 << 16]) {
            sent += more.expect("written");
        }
        Poll::Ready(sent)
    });
    let filled = fill.await;
    client.outbox.wait();
    client.ours.write_all(b"end").await.expect("held");
    turn.end();
    let Client { mut ours, mut theirs, .. } = client;
    let reading = std::thread::spawn(move || {
        let mut all = vec![0; filled + 3];
        theirs.set_nonblocking(false).and_then(|()| theirs.read_exact(&mut all)).map(|()| all)
    });
    ours.flush().await.expect("sent");
    let all = reading.join().expect("it reads").expect("all of it");
    assert!(all.ends_with(b"xend"));
}
