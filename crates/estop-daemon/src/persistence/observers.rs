//! What is told of each request that ended.

use std::sync::Arc;

use crate::metrics::Metrics;
use crate::span_export::SpanExport;

/// What is told of each request that ended.
#[derive(Clone)]
pub struct Observers {
    /// Counts it.
    pub(crate) metrics: Arc<Metrics>,
    /// Exports it as a span.
    pub(crate) spans: Arc<SpanExport>,
}
