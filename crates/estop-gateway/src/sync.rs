//! What the gate is built of. The model of its races (`models/`) compiles the same files over a checker's own types.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
pub(crate) use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
