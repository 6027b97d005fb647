//! Keys, from variables and files. They are held as [`SecretString`], which shows itself as `[REDACTED]`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use secrecy::SecretString;
use secrecy::zeroize::Zeroize;

use super::env::{Env, NotText};
use super::fault::ValueError;
use super::values::VariableName;

/// A key has some hundred characters; a signed token a few thousand.
const KEY_BYTES_MAX: usize = 16 * 1024;

/// The key a variable holds. `keys` is the way to the key of the configuration that names it.
pub(super) fn from_variable(
    variable: &VariableName,
    keys: &[&str],
    env: &Env,
) -> Result<SecretString, ValueError> {
    text_from_variable(variable, keys, env, checked)
}

fn text_from_variable(
    variable: &VariableName,
    keys: &[&str],
    env: &Env,
    checked: fn(&str) -> Result<SecretString, &'static str>,
) -> Result<SecretString, ValueError> {
    let fault =
        |what: &str| ValueError::new(keys, format!("{}: {} {what}", keys.join("."), variable.shown()));
    match env.get(&variable.0) {
        None => Err(fault("is not set")),
        Some(Err(NotText)) => Err(fault("is not text")),
        Some(Ok(key)) => checked(key).map_err(fault),
    }
}

/// The value of a header that a variable holds, such as `Bearer …`.
pub(super) fn header_from_variable(
    variable: &VariableName,
    keys: &[&str],
    env: &Env,
) -> Result<SecretString, ValueError> {
    text_from_variable(variable, keys, env, checked_header)
}

/// The key a file holds; space around it is left out.
pub(super) fn from_file(path: &Path, keys: &[&str]) -> Result<SecretString, ValueError> {
    let fault = |what: &str| ValueError::new(keys, format!("{}: the file it names {what}", keys.join(".")));
    // Asked before it is opened: opening a pipe waits for somebody to write into it.
    let about = std::fs::metadata(path).map_err(|error| fault(&unreadable(&error)))?;
    if !about.is_file() {
        return Err(fault("is not a regular file"));
    }
    let mut bytes = Vec::with_capacity(KEY_BYTES_MAX + 1);
    let file = File::open(path).map_err(|error| fault(&unreadable(&error)))?;
    file.take(KEY_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| fault(&unreadable(&error)))?;
    let key = match str::from_utf8(&bytes) {
        Ok(text) => checked(text.trim()).map_err(fault),
        Err(_) => Err(fault("is not text")),
    };
    bytes.zeroize();
    key
}

/// A key that can be sent in a header, or what is wrong with it.
fn checked(key: &str) -> Result<SecretString, &'static str> {
    if key.is_empty() {
        return Err("is empty");
    }
    if key.len() > KEY_BYTES_MAX {
        return Err("is too long for a key");
    }
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("holds more than a key: a space, a line break or a letter that is not ASCII");
    }
    Ok(SecretString::from(key))
}

/// The value of a header, or what is wrong with it.
fn checked_header(value: &str) -> Result<SecretString, &'static str> {
    if value.is_empty() || value.trim() != value {
        return Err("is empty, or has spaces around it");
    }
    if value.len() > KEY_BYTES_MAX {
        return Err("is too long for a header");
    }
    if !value.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') {
        return Err("holds more than the value of a header: a line break or a letter that is not ASCII");
    }
    Ok(SecretString::from(value))
}

fn unreadable(error: &std::io::Error) -> String {
    if error.kind() == std::io::ErrorKind::NotFound {
        "does not exist".to_owned()
    } else {
        format!("cannot be read: {error}")
    }
}
