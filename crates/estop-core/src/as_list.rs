//! Structs of an agent's state that are written as lists: a state holds hundreds of them, and a start reads the states of
//! all agents; with keys it would take twice as long.
//!
//! The places are fixed, in the order the fields stand in. Those at the end that are as usual are left out. Deriving
//! `Deserialize` reads such a list. New fields come last; none is moved or taken away.

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
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Kept {
        always: u8,
        #[serde(default)]
        flag: bool,
        #[serde(default)]
        count: u8,
    }
    as_list!(Kept: always; flag = false, count = 0);

    #[test]
    fn st_1_lists_have_their_fields_in_order_and_end_early_where_the_rest_is_usual() {
        let written = |always, flag, count| {
            let kept = Kept { always, flag, count };
            let text = serde_json::to_string(&kept).expect("our type");
            assert_eq!(serde_json::from_str::<Kept>(&text).expect("what was written"), kept);
            text
        };
        assert_eq!(written(1, false, 0), "[1]");
        assert_eq!(written(1, true, 0), "[1,true]");
        assert_eq!(written(1, false, 2), "[1,false,2]");
        for wrong in ["[]", "[1,true,2,3]", r#"["1"]"#, "[1,2]"] {
            assert!(serde_json::from_str::<Kept>(wrong).is_err(), "{wrong}");
        }
    }
}
