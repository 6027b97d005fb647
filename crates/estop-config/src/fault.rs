//! What is wrong with a value, said by whoever looks at it; `origin` adds where it stands.

/// What is wrong with a value that can be read, before it is known where it stands.
#[derive(Debug)]
pub(super) struct ValueError {
    /// The way to the key, from the top.
    pub(super) keys: Vec<String>,
    pub(super) message: String,
    pub(super) help: Option<String>,
}

impl ValueError {
    pub(super) fn new(keys: &[&str], message: impl Into<String>) -> ValueError {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        ValueError { keys, message: message.into(), help: None }
    }

    pub(super) fn with_help(self, help: impl Into<Option<String>>) -> ValueError {
        ValueError { help: help.into(), ..self }
    }
}
