//! An HTTP/2 client that writes frames by hand, so that it can write wrong ones.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::PATIENCE;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With an answer of this status.
    Status(u16),
    /// Reset, with this code.
    Reset(u32),
    /// The whole connection was given up, with this code.
    GoAway(u32),
    /// The connection closed.
    Closed,
}

/// A frame that came.
#[derive(Clone, Debug)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

/// A connection.
pub struct Two {
    pub socket: TcpStream,
}

impl Two {
    /// Connects, and says what every client says first.
    pub fn open(address: SocketAddr) -> Two {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        socket.set_nodelay(true).unwrap();
        let mut two = Two { socket };
        two.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        two.frame(SETTINGS, 0, 0, &[]);
        two
    }

    /// Whether the other side still takes bytes.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        self.socket.write_all(bytes).is_ok()
    }

    pub fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        self.send(&frame(kind, flags, stream, payload))
    }

    /// A whole head; `end`: no body follows.
    pub fn headers(&mut self, stream: u32, end: bool, fields: &[(&str, &str)]) -> bool {
        let flags = END_HEADERS | if end { END_STREAM } else { 0 };
        self.frame(HEADERS, flags, stream, &block(fields))
    }

    pub fn data(&mut self, stream: u32, end: bool, bytes: &[u8]) -> bool {
        self.frame(DATA, if end { END_STREAM } else { 0 }, stream, bytes)
    }

    /// The next frame; `None` if the connection ended.
    pub fn next(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.socket.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff;
        let mut payload = vec![0; length as usize];
        self.socket.read_exact(&mut payload).ok()?;
        let frame = Frame { kind: head[3], flags: head[4], stream, payload };
        if frame.kind == SETTINGS && frame.flags & ACK == 0 {
            self.frame(SETTINGS, ACK, 0, &[]);
        }
        Some(frame)
    }

    /// How a stream ends, and its body. The answer's window is kept open.
    pub fn end_of(&mut self, stream: u32) -> (End, Vec<u8>) {
        let (mut status, mut body) = (None, Vec::new());
        loop {
            let Some(frame) = self.next() else { return (End::Closed, body) };
            let ends = frame.flags & END_STREAM != 0;
            match frame.kind {
                HEADERS if frame.stream == stream => {
                    status = status.or_else(|| status_of(&frame.payload));
                    if ends {
                        return (End::Status(status.unwrap_or(0)), body);
                    }
                }
                DATA if frame.stream == stream => {
                    body.extend_from_slice(&frame.payload);
                    if ends {
                        return (End::Status(status.unwrap_or(0)), body);
                    }
                    let more = u32::try_from(frame.payload.len()).unwrap().to_be_bytes();
                    if !frame.payload.is_empty() {
                        self.frame(WINDOW_UPDATE, 0, 0, &more);
                        self.frame(WINDOW_UPDATE, 0, stream, &more);
                    }
                }
                RST_STREAM if frame.stream == stream => return (End::Reset(code(&frame.payload)), body),
                GOAWAY if code(&frame.payload[4..]) != 0 => {
                    return (End::GoAway(code(&frame.payload[4..])), body);
                }
                _ => {}
            }
        }
    }
}

fn code(payload: &[u8]) -> u32 {
    payload.first_chunk::<4>().map_or(0, |code| u32::from_be_bytes(*code))
}

/// A frame's bytes.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// Header fields as literals without indexing and without Huffman (RFC 7541 §6.2.2): what is written is what is sent.
pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.push(0);
        for text in [name, value] {
            length(text.len(), &mut bytes);
            bytes.extend_from_slice(text.as_bytes());
        }
    }
    bytes
}

/// A whole number with a prefix of seven bits (RFC 7541 §5.1).
fn length(length: usize, bytes: &mut Vec<u8>) {
    if length < 127 {
        bytes.push(u8::try_from(length).unwrap());
        return;
    }
    bytes.push(127);
    let mut rest = length - 127;
    while rest >= 128 {
        bytes.push(u8::try_from(rest % 128).unwrap() | 128);
        rest /= 128;
    }
    bytes.push(u8::try_from(rest).unwrap());
}

/// The status an answer's header block begins with.
pub fn status_of(block: &[u8]) -> Option<u16> {
    let mut block = block;
    // Changes of the table's size may come first.
    while let Some((first, rest)) = block.split_first().filter(|(first, _)| *first & 0xe0 == 0x20) {
        let more = if first & 0x1f == 0x1f { 1 + rest.iter().position(|b| b & 0x80 == 0)? } else { 0 };
        block = &rest[more..];
    }
    let known = [200, 204, 206, 304, 400, 404, 500];
    match block {
        [indexed @ 0x88..=0x8e, ..] => Some(known[usize::from(indexed - 0x88)]),
        [0x48 | 0x08 | 0x18, length, rest @ ..] => {
            let value = rest.get(..usize::from(length & 0x7f))?;
            let digits = if length & 0x80 == 0 { value.to_vec() } else { huffman_digits(value) };
            std::str::from_utf8(&digits).ok()?.parse().ok()
        }
        _ => None,
    }
}

/// Digits in HPACK's Huffman code: five bits for 0 to 2, six for 3 to 9.
fn huffman_digits(bytes: &[u8]) -> Vec<u8> {
    let bits: Vec<u8> = bytes.iter().flat_map(|b| (0..8).rev().map(move |at| b >> at & 1)).collect();
    let value = |bits: &[u8]| bits.iter().fold(0, |value, bit| value << 1 | bit);
    let (mut digits, mut at) = (Vec::new(), 0);
    while digits.len() < 3 && at + 5 <= bits.len() {
        let short = value(&bits[at..at + 5]);
        if short < 3 {
            digits.push(b'0' + short);
            at += 5;
        } else if at + 6 <= bits.len() {
            digits.push(b'3' + value(&bits[at..at + 6]).wrapping_sub(0b01_1001));
            at += 6;
        } else {
            break;
        }
    }
    digits
}
