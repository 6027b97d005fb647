//! What pages are dressed in, compiled into the binary.

use axum::response::IntoResponse;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};

use serde::Deserialize;

use crate::input::{InPath, PathIn};
use crate::problem::Problem;

/// Name, type, content.
const ASSETS: [(&str, &str, &str); 4] = [
    ("panel.css", "text/css; charset=utf-8", include_str!("../../assets/panel.css")),
    ("panel.js", "text/javascript; charset=utf-8", include_str!("../../assets/panel.js")),
    ("idiomorph.min.js", "text/javascript; charset=utf-8", include_str!("../../assets/idiomorph.min.js")),
    ("icon.svg", "image/svg+xml", include_str!("../../assets/icon.svg")),
];

/// Which asset.
#[derive(Deserialize)]
pub(super) struct AssetPath {
    name: String,
}

impl InPath for AssetPath {}

pub(super) async fn one(PathIn(AssetPath { name }): PathIn<AssetPath>) -> Result<impl IntoResponse, Problem> {
    let found = ASSETS.iter().find(|(known, ..)| *known == name);
    let (_, kind, text) = found.ok_or_else(|| Problem::not_found("asset", &name))?;
    // They change with the binary: asked for anew at each page, a few kilobytes from this machine.
    Ok(([(CONTENT_TYPE, *kind), (CACHE_CONTROL, "no-cache")], *text))
}
