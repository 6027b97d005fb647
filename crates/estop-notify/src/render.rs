//! The shapes in which services want to be told: one pure function each, with the service's own escaping. Whatever an
//! agent is called or says, it cannot ping people, make links or leave its place.

mod chat;
mod escape;
mod ops;

pub(crate) use chat::{discord, slack, teams, telegram};
pub(crate) use escape::{html, markdown};
pub(crate) use ops::{generic, ntfy, pagerduty};
