//! What is known of an agent from outside: whether it may work at all, and what its next request would get.

pub mod standing;
pub mod status;
