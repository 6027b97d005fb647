//! A line and its checksum: `{…,"crc":"0c7be1f2"}`, a CRC-32 (zlib's) of everything before `,"crc"`.
//!
//! It finds damage, not forgery: whoever can write the file can write the checksum. Against that, sealed segments are
//! hashed with SHA-256 in the manifest, and its newest line can be kept elsewhere.

const CRC_KEY: &[u8] = b",\"crc\":\"";
/// Bytes of the checksum with all that stands around it, the line's end not included.
const CRC_LEN: usize = CRC_KEY.len() + 8 + 2;

/// Why a line is not what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// It does not end with a checksum.
    #[error("it has no checksum")]
    NoChecksum,
    /// It ends with another line's checksum.
    #[error("its checksum differs")]
    Differs,
}

/// Ends the line that begins at `start`, which is an object without its closing brace.
pub fn seal_line(out: &mut Vec<u8>, start: usize) {
    let crc = crc32fast::hash(&out[start..]);
    let mut digits = [0; 8];
    estop_core::hex::encode_into(&crc.to_be_bytes(), &mut digits);
    out.extend_from_slice(CRC_KEY);
    out.extend_from_slice(&digits);
    out.extend_from_slice(b"\"}\n");
}

/// Whether a line, without its end, is as it was written.
pub fn check_line(line: &[u8]) -> Result<(), LineError> {
    let (body, end) = line.split_at_checked(line.len().saturating_sub(CRC_LEN)).unwrap_or_default();
    let digits = end.strip_prefix(CRC_KEY).and_then(|end| end.strip_suffix(b"\"}"));
    let crc = digits.and_then(estop_core::hex::decode::<4>).ok_or(LineError::NoChecksum)?;
    if crc32fast::hash(body) == u32::from_be_bytes(crc) { Ok(()) } else { Err(LineError::Differs) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by `python3 -c 'import zlib; print("%08x" % zlib.crc32(b"{\"seq\":1"))'`.
    #[test]
    fn tw_7_a_checksum_is_the_one_that_zlib_computes() {
        let mut line = b"{\"seq\":1".to_vec();
        seal_line(&mut line, 0);
        assert_eq!(line, b"{\"seq\":1,\"crc\":\"8c63767c\"}\n");
    }

    #[test]
    fn tw_7_every_flipped_bit_of_a_line_is_found() {
        let mut line = b"before\n{\"seq\":7,\"n\":1,\"agent\":\"coder\"".to_vec();
        seal_line(&mut line, 7);
        let line = &line[7..line.len() - 1];
        assert_eq!(check_line(line), Ok(()));
        for bit in 0..line.len() * 8 {
            let mut touched = line.to_vec();
            touched[bit / 8] ^= 1 << (bit % 8);
            assert!(check_line(&touched).is_err(), "bit {bit}");
        }
        for end in 0..line.len() {
            assert!(check_line(&line[..end]).is_err(), "cut at {end}");
        }
    }
}
