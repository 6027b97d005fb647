//! The configuration in force: the one of the start, until a reload puts another in its place.

use std::sync::{Arc, Mutex, PoisonError};

use estop_config::ServeConfig;

/// Read by whoever acts by it, at the moment of acting.
#[derive(Clone)]
pub struct ConfigInForce(Arc<Mutex<Arc<ServeConfig>>>);

impl ConfigInForce {
    /// The configuration of the start.
    pub fn new(config: ServeConfig) -> ConfigInForce {
        ConfigInForce(Arc::new(Mutex::new(Arc::new(config))))
    }

    /// What it says now.
    pub fn get(&self) -> Arc<ServeConfig> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another in its place.
    pub fn set(&self, config: ServeConfig) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
    }
}
