//! Guards that need one file each: what a request is judged by.

pub(crate) mod budget;
