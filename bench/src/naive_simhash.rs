//! The peer: SimHash as it is usually written. Regex-like normalisation into a new string, XXH3 over each three
//! words, 64 counters. It measures what the fused pass is worth; its hashes are its own.

use estop_core::fingerprint::normalize::normalize;
use estop_core::fingerprint::signature;

/// 64 sums, one for each bit.
pub fn naive_simhash(text: &str) -> u64 {
    let normal = normalize(text);
    let words: Vec<&str> = normal.split(' ').collect();
    let mut sums = [0i32; 64];
    for shingle in words.windows(3.min(words.len().max(1))) {
        let hash = signature::text(&shingle.join(" ")).0;
        for (bit, sum) in sums.iter_mut().enumerate() {
            *sum += if hash >> bit & 1 == 1 { 1 } else { -1 };
        }
    }
    sums.iter().enumerate().fold(0, |hash, (bit, sum)| hash | u64::from(*sum > 0) << bit)
}
