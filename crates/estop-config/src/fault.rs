//! What is wrong with a value, said by whoever looks at it; `origin` adds where it stands.

/// What is wrong with a value that can be read, before it is known where it stands.
#[derive(Debug)]
pub(super) struct Fault {
    /// The way to the key, from the top.
    pub(super) keys: Vec<String>,
    pub(super) message: String,
    pub(super) help: Option<String>,
}

impl Fault {
    pub(super) fn new(keys: &[&str], message: impl Into<String>) -> Fault {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        Fault { keys, message: message.into(), help: None }
    }

    pub(super) fn with_help(self, help: impl Into<Option<String>>) -> Fault {
        Fault { help: help.into(), ..self }
    }
}
