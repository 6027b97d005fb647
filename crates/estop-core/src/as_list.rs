//! Structs that are written as lists. Every record has some of them, and their keys would be a third of it.
//!
//! The places are fixed, in the order the fields stand in. Those at the end that are as usual are left out. Deriving
//! `Deserialize` reads such a list, and as well the object with keys that journals and states had before. New fields come
//! last; none is moved or taken away.

/// Writes a struct as a list: fields that are always there, then those that may be left out at the end, each with what it
/// usually is. They must stand in the order of the struct, whose `Deserialize` counts them so; those that may be missing
/// need a `serde(default)` of the same value.
macro_rules! as_list {
    ($type:ty: $($always:ident),* ; $($maybe:ident = $usual:expr),+ $(,)?) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeSeq as _;
                // Every field has a place: one that was forgotten does not compile.
                let Self { $($always,)* $($maybe,)+ } = self;
                let (mut place, mut shown) = (0_usize, 0_usize);
                $(
                    place += 1;
                    if *$maybe != $usual {
                        shown = place;
                    }
                )+
                let mut shown = 0..shown;
                let mut list = s.serialize_seq(None)?;
                $(list.serialize_element($always)?;)*
                $(
                    if shown.next().is_some() {
                        list.serialize_element($maybe)?;
                    }
                )+
                list.end()
            }
        }
    };
}

pub(crate) use as_list;

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use serde::de::DeserializeOwned;

    use crate::canonical_json;
    use crate::event::{Ended, Estimate, Usage};
    use crate::fingerprint::{CallPrint, RequestPrint, ResponsePrint, StepPrint};

    /// How a value that journals had as `object` is written, and that both are read as the same.
    #[track_caller]
    fn list<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(object: &str) -> String {
        let value: T = serde_json::from_str(object).expect("what journals had");
        let mut out = Vec::new();
        canonical_json::write(&mut out, &value);
        assert_eq!(serde_json::to_vec(&value).expect("our types"), out);
        assert_eq!(serde_json::from_slice::<T>(&out).expect("a list"), value);
        String::from_utf8(out).expect("JSON is text")
    }

    #[test]
    fn tw_7_lists_have_their_fields_in_order_and_end_early_where_the_rest_is_usual() {
        let estimate = r#"{"input_tokens":1,"output_tokens":2,"usd":3"#;
        assert_eq!(list::<Estimate>(&format!("{estimate}}}")), "[1,2,3]");
        assert_eq!(list::<Estimate>(&format!("{estimate},\"unpriced\":true}}")), "[1,2,3,true]");
        assert_eq!(list::<Usage>(&format!("{estimate}}}")), "[1,2,3]");
        assert_eq!(list::<Usage>(&format!("{estimate},\"cache_read_tokens\":4}}")), "[1,2,3,4]");
        assert_eq!(list::<Usage>(&format!("{estimate},\"cache_write_tokens\":5}}")), "[1,2,3,0,5]");
        assert_eq!(list::<Usage>(&format!("{estimate},\"reasoning_tokens\":6}}")), "[1,2,3,0,0,6]");
        assert_eq!(list::<Usage>(&format!("{estimate},\"estimated\":true}}")), "[1,2,3,0,0,0,true]");
    }

    #[test]
    fn tw_7_prints_are_lists() {
        let [a, b, c] = ["000000000000000a", "000000000000000b", "000000000000000c"];
        let request = format!(r#"{{"conversation":"{a}","ask":"{b}""#);
        assert_eq!(list::<RequestPrint>(&format!("{request}}}")), format!(r#"["{a}","{b}"]"#));
        assert_eq!(
            list::<RequestPrint>(&format!(r#"{request},"prompt":"{c}"}}"#)),
            format!(r#"["{a}","{b}","{c}"]"#)
        );
        let step = format!(r#"{{"tool":"sh","action":"{a}","result":"{b}""#);
        assert_eq!(
            list::<RequestPrint>(&format!(r#"{request},"continues":true,"steps":[{step}}}]}}"#)),
            format!(r#"["{a}","{b}",null,true,[["sh","{a}","{b}"]]]"#)
        );
        let unnamed = format!(r#"{{"action":"{a}","result":"{b}","ended":"ok"}}"#);
        assert_eq!(list::<StepPrint>(&unnamed), format!(r#"["","{a}","{b}","ok"]"#));
        assert_eq!(
            list::<StepPrint>(&format!(r#"{step},"test_run":true}}"#)),
            format!(r#"["sh","{a}","{b}","unknown",true]"#)
        );
        assert_eq!(list::<ResponsePrint>("{}"), "[]");
        let call = format!(r#"{{"tool":"sh","action":"{a}","test_run":true}}"#);
        assert_eq!(list::<CallPrint>(&call), format!(r#"["sh","{a}",true]"#));
        assert_eq!(
            list::<ResponsePrint>(&format!(r#"{{"exact":"{b}","calls":[{call}],"more_calls":7}}"#)),
            format!(r#"[null,"{b}",[["sh","{a}",true]],7]"#)
        );
    }

    #[test]
    fn tw_7_a_list_that_is_too_long_or_too_short_is_refused() {
        for wrong in ["[1,2]", "[1,2,3,true,0,0,0,0]", r#"{"usd":1}"#, r#"["1",2,3]"#] {
            assert!(serde_json::from_str::<Estimate>(wrong).is_err(), "{wrong}");
        }
        let step = serde_json::from_str::<StepPrint>(r#"["","0000000000000001","0000000000000002"]"#);
        assert_eq!(step.map(|step| step.ended).ok(), Some(Ended::Unknown));
    }
}
