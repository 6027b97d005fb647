//! Looks for secrets: whole or in pieces, as they are, in base64 and in hex.

#![allow(unreachable_pub, clippy::unwrap_used, reason = "used by one test file, which fails by panicking")]

use std::path::Path;

/// A piece this long is no accident, and nobody may show so much of a secret.
const PIECE: usize = 12;
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// One secret and how it would look.
pub struct Wanted {
    pub name: String,
    looks: Vec<String>,
}

impl Wanted {
    pub fn new(name: &str, secret: &str) -> Wanted {
        // What it opens may be said: `estop_admin_` and so on.
        let bytes = secret.split_at(secret.rfind('_').map_or(0, |end| end + 1)).1.as_bytes();
        assert!(bytes.len() >= 2 * PIECE, "{name} is too short to be told from other text");
        let pieces = bytes.chunks_exact(PIECE).map(|piece| String::from_utf8_lossy(piece).into_owned());
        let hex = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        // Wherever it stands in what is encoded, one of the three has its digits; the edges depend on what is beside it.
        let base64 = (0..3).map(|shift| {
            let encoded = base64(&[&[b' '; 2][..shift.min(2)], bytes].concat());
            encoded[4..encoded.len() - 4].to_owned()
        });
        let mut looks: Vec<String> = pieces.chain([hex]).chain(base64).collect();
        let url_safe: Vec<String> =
            looks.iter().map(|look| look.replace('+', "-").replace('/', "_")).collect();
        looks.extend(url_safe);
        Wanted { name: name.to_owned(), looks }
    }

    /// How it is found in a text, if it is.
    pub fn find(&self, text: &str) -> Option<&str> {
        self.looks.iter().map(String::as_str).find(|look| text.contains(look))
    }
}

fn base64(bytes: &[u8]) -> String {
    let digits = bytes.chunks(3).flat_map(|three| {
        let word =
            three.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        (0..4).map(move |at| DIGITS[(word >> (18 - 6 * at) & 63) as usize] as char)
    });
    digits.collect()
}

/// Every file below a folder, as text: a secret has only characters of ASCII.
pub fn files(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let (path, kind) = entry.map(|entry| (entry.path(), entry.file_type().unwrap())).unwrap();
        if kind.is_dir() {
            found.extend(files(&path));
        } else if kind.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            found.push((path.display().to_string(), String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
    found
}
