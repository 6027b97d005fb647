//! What the benchmarks share: a workload that looks like real agents, a stopwatch, and an allocator that counts.

pub mod counting_alloc;
pub mod naive_simhash;
pub mod random;
pub mod stopwatch;
pub mod texts;
pub mod workload;
