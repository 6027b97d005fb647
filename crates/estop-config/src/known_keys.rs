//! Which keys a section has.

use serde::de::DeserializeOwned;

use super::tree::{Key, Node, Value, ValueSource};
use super::typed::Why;

/// The keys of a section. The type knows them; asked for one it cannot have, it lists them.
pub(super) fn keys_of<T: DeserializeOwned>() -> Vec<&'static str> {
    let place = ValueSource::Variable(0);
    let node = |value| Node::made(value, place, "");
    let entry = (Key { name: String::new(), place }, node(Value::Nothing));
    match T::deserialize(&node(Value::Mapping(vec![entry]))).map_err(|refusal| refusal.why) {
        Err(Why::UnknownKey { known, .. }) => known.to_vec(),
        Ok(_) | Err(_) => Vec::new(),
    }
}
