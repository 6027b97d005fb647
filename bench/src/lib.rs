//! What the benchmarks share: a workload that looks like real agents, a stopwatch, and an allocator that counts.

pub mod counting_alloc;
pub mod stopwatch;
pub mod workload;
