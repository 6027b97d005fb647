//! Finding the value a path leads to, in the text: its position and what stands there.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

use super::problem::printable;
use super::yaml_options::options;

/// One step of the way from the top of a document to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    Item(usize),
    /// Serde could not tell, e.g. because the key itself is unreadable.
    Unknown,
}

impl From<&serde_path_to_error::Segment> for Step {
    fn from(segment: &serde_path_to_error::Segment) -> Step {
        use serde_path_to_error::Segment;
        match segment {
            Segment::Map { key } => Step::Key(key.clone()),
            Segment::Seq { index } => Step::Item(*index),
            Segment::Enum { .. } | Segment::Unknown => Step::Unknown,
        }
    }
}

/// The path as people write it: `agents.coder.policy.exempt_tools[0]`. Ends before an unknown step.
pub(super) fn path_text(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Key(key) if text.is_empty() => text = printable(key),
            Step::Key(key) => text = format!("{text}.{}", printable(key)),
            Step::Item(index) => text = format!("{text}[{index}]"),
            Step::Unknown => break,
        }
    }
    text
}

/// A value in the text.
pub(super) struct Place {
    pub(super) location: Location,
    /// What stands there, for "found …"; `None` if nothing does.
    pub(super) found: Option<String>,
}

/// The value at `path`; `None` if the way there cannot be read.
pub(super) fn place(text: &str, path: &[Step]) -> Option<Place> {
    let found = Cell::new(None);
    // What comes after the value may be unreadable, which is no reason not to show the value.
    let _ = serde_saphyr::with_deserializer_from_str_with_options(text, options(), |yaml| {
        Walk { path, found: &found }.deserialize(yaml)
    });
    let (location, shape) = found.get()?;
    let found = match shape {
        Shape::Nothing => None,
        Shape::Scalar => Some(source(text, location)?),
        Shape::List { empty: true } => Some("an empty list".to_owned()),
        Shape::List { empty: false } => Some("a list".to_owned()),
        Shape::Mapping => Some("a mapping".to_owned()),
    };
    Some(Place { location, found })
}

/// The first line of what stands at a location.
fn source(text: &str, location: Location) -> Option<String> {
    let start = usize::try_from(location.span().byte_offset()?).ok()?;
    let len = usize::try_from(location.span().byte_len()?).ok()?;
    let scalar = text.get(start..start.checked_add(len)?)?;
    Some(printable(scalar.lines().next().unwrap_or("").trim()))
}

#[derive(Clone, Copy)]
enum Shape {
    Nothing,
    Scalar,
    List { empty: bool },
    Mapping,
}

/// Follows the path, skipping everything beside it, and notes what is at its end.
#[derive(Clone, Copy)]
struct Walk<'p> {
    path: &'p [Step],
    found: &'p Cell<Option<(Location, Shape)>>,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        if !self.path.is_empty() {
            return d.deserialize_any(self);
        }
        let here: Spanned<Shape> = serde::Deserialize::deserialize(d)?;
        self.found.set(Some((here.referenced, here.value)));
        Ok(())
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping or a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match self.path {
                [Step::Key(step), path @ ..] if *step == key => map.next_value_seed(Walk { path, ..self })?,
                _ => map.next_value::<IgnoredAny>().map(drop)?,
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        if let [Step::Item(wanted), path @ ..] = self.path {
            for _ in 0..*wanted {
                seq.next_element::<IgnoredAny>()?;
            }
            seq.next_element_seed(Walk { path, ..self })?;
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

impl<'de> serde::Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Shape, D::Error> {
        d.deserialize_any(ShapeVisitor)
    }
}

struct ShapeVisitor;

impl<'de> Visitor<'de> for ShapeVisitor {
    type Value = Shape;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_unit<E>(self) -> Result<Shape, E> {
        Ok(Shape::Nothing)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_str<E>(self, _: &str) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Shape, A::Error> {
        let mut empty = true;
        while seq.next_element::<IgnoredAny>()?.is_some() {
            empty = false;
        }
        Ok(Shape::List { empty })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Shape, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Shape::Mapping)
    }
}
