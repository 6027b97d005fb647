//! An HTTP/1.1 client over a plain socket: sends the bytes it is given, shows the bytes it gets.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::PATIENCE;

/// An answer, read to its end.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The body came to its end; `false` if the connection broke before.
    pub whole: bool,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A connection.
pub struct Wire {
    pub socket: TcpStream,
    buffer: Vec<u8>,
}

/// The head of an answer.
#[derive(Clone, Debug, Default)]
pub struct Head {
    pub status: u16,
    pub headers: Vec<(String, String)>,
}

impl Wire {
    pub fn open(address: SocketAddr) -> Wire {
        Wire::on(TcpStream::connect(address).unwrap())
    }

    pub fn on(socket: TcpStream) -> Wire {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_nodelay(true).unwrap();
        Wire { socket, buffer: Vec::new() }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        // The other side may have hung up already; what it said is read all the same.
        let _ = self.socket.write_all(bytes);
    }

    /// Sends a POST with a JSON body.
    pub fn post(&mut self, path: &str, extra: &str, body: &str) {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n{extra}content-length: {}\r\n\r\n",
            body.len()
        );
        self.send(&[head.as_bytes(), body.as_bytes()].concat());
    }

    /// More bytes; `false` at the end or when the connection broke.
    fn more(&mut self) -> bool {
        let mut piece = [0; 16 << 10];
        match self.socket.read(&mut piece) {
            Ok(0) | Err(_) => false,
            Ok(n) => {
                self.buffer.extend_from_slice(&piece[..n]);
                true
            }
        }
    }

    /// The head of the next answer; `None` if the connection ended.
    pub fn head(&mut self) -> Option<Head> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
                self.buffer.drain(..end + 4);
                return Some(parse(&head));
            }
            if !self.more() {
                return None;
            }
        }
    }

    /// The whole next answer; status 0 if the connection ended without one.
    pub fn reply(&mut self) -> Reply {
        let Some(head) = self.head() else { return Reply::default() };
        self.body_of(head)
    }

    /// The body that belongs to a head.
    pub fn body_of(&mut self, head: Head) -> Reply {
        let mut reply = Reply { status: head.status, headers: head.headers, ..Reply::default() };
        if reply.header("transfer-encoding").is_some_and(|te| te.contains("chunked")) {
            (reply.body, reply.whole) = self.chunked();
        } else if let Some(length) = reply.header("content-length").and_then(|l| l.parse::<usize>().ok()) {
            while self.buffer.len() < length && self.more() {}
            reply.whole = self.buffer.len() >= length;
            reply.body = self.buffer.drain(..length.min(self.buffer.len())).collect();
        } else {
            while self.more() {}
            reply.whole = true;
            reply.body = std::mem::take(&mut self.buffer);
        }
        reply
    }

    fn chunked(&mut self) -> (Vec<u8>, bool) {
        let mut body = Vec::new();
        loop {
            let Some(size) = self.line().and_then(|line| usize::from_str_radix(line.trim(), 16).ok()) else {
                return (body, false);
            };
            if size == 0 {
                return (body, self.trailers());
            }
            while self.buffer.len() < size + 2 {
                if !self.more() {
                    body.extend_from_slice(&self.buffer);
                    return (body, false);
                }
            }
            body.extend(self.buffer.drain(..size));
            self.buffer.drain(..2);
        }
    }

    /// The next bytes of a chunked body, at least so many unless it ends; chunks are never cut.
    pub fn some_of_body(&mut self, at_least: usize) -> Vec<u8> {
        let mut body = Vec::new();
        while body.len() < at_least {
            let Some(size) = self.line().and_then(|line| usize::from_str_radix(line.trim(), 16).ok()) else {
                break;
            };
            while self.buffer.len() < size + 2 && self.more() {}
            if size == 0 || self.buffer.len() < size + 2 {
                break;
            }
            body.extend(self.buffer.drain(..size));
            self.buffer.drain(..2);
        }
        body
    }

    /// Skips trailers, up to the blank line that ends a chunked body.
    fn trailers(&mut self) -> bool {
        loop {
            match self.line() {
                Some(line) if line.is_empty() => return true,
                Some(_) => {}
                None => return false,
            }
        }
    }

    fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n") {
                let line = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
                self.buffer.drain(..end + 2);
                return Some(line);
            }
            if !self.more() {
                return None;
            }
        }
    }

    /// Reads until this text has come; everything so far.
    pub fn until(&mut self, text: &str) -> String {
        while find(&self.buffer, text.as_bytes()).is_none() && self.more() {}
        String::from_utf8_lossy(&self.buffer).into_owned()
    }

    /// Whether the other side ends the connection, and says nothing more before. `false` if it stays.
    pub fn is_closed(&mut self) -> bool {
        use std::io::ErrorKind::{TimedOut, WouldBlock};
        let mut more = [0; 1];
        let read = self.socket.read(&mut more);
        self.buffer.is_empty()
            && !matches!(&read, Err(e) if matches!(e.kind(), WouldBlock | TimedOut))
            && !matches!(read, Ok(1))
    }

    /// Reads until so many bytes have come.
    pub fn at_least(&mut self, bytes: usize) {
        while self.buffer.len() < bytes && self.more() {}
    }

    /// Everything until the connection ends.
    pub fn rest(&mut self) -> Vec<u8> {
        while self.more() {}
        std::mem::take(&mut self.buffer)
    }
}

/// One POST on a connection of its own.
pub fn post(address: SocketAddr, path: &str, body: &str) -> Reply {
    post_with(address, path, "", body)
}

/// The same with more header lines, each ending in CR LF.
pub fn post_with(address: SocketAddr, path: &str, extra: &str, body: &str) -> Reply {
    let mut wire = Wire::open(address);
    wire.post(path, extra, body);
    wire.reply()
}

fn parse(head: &str) -> Head {
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|l| l.split(' ').nth(1)).and_then(|s| s.parse().ok()).unwrap_or(0);
    let pair = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    };
    Head { status, headers: lines.filter_map(pair).collect() }
}

pub fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
