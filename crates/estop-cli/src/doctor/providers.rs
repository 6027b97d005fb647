//! Providers the configuration names: whether each can be reached from here. No request is made, no key is sent.

use std::collections::BTreeMap;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use estop_config::{Provider, ServeConfig, read_yaml};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{Area, Finding, Installation};

const AREA: Area = Area("providers");
/// A connection around the world takes a third of a second; who needs six times that is as good as gone.
const REACHED_TIMEOUT: Duration = Duration::from_secs(2);
/// Tried at once.
const AT_ONCE_MAX: usize = 16;
const MEND: &str = "check the network and its base_url; --offline skips this check";

/// Of the file, only whom it names.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    providers: BTreeMap<String, IgnoredAny>,
}

pub(super) fn check(place: &Installation, offline: bool) -> Vec<Finding> {
    let Some(config) = &place.config else { return Vec::new() };
    let configured = configured(place, config);
    if configured.is_empty() {
        return vec![AREA.ok("the configuration names none; those that are known anyway are not tried")];
    }
    if offline {
        return vec![AREA.ok("not tried (--offline)")];
    }
    let mut findings = Vec::new();
    for some in configured.chunks(AT_ONCE_MAX) {
        findings.extend(reach(some));
    }
    findings
}

/// Presets that nobody named are known, not used.
fn configured<'c>(place: &Installation, config: &'c ServeConfig) -> Vec<(&'c str, &'c Provider)> {
    let text = place.config_file.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
    let named: Named = text.and_then(|text| read_yaml(&text, "").ok()).unwrap_or_default();
    let is_meant = |(name, provider): &(&String, &Provider)| {
        provider.api_key.is_some() || named.providers.contains_key(*name)
    };
    let meant = config.providers.iter().filter(is_meant);
    meant.map(|(name, provider)| (name.as_str(), provider)).collect()
}

/// Tries all of them at once. Threads that hang in a look-up are left behind.
fn reach(providers: &[(&str, &Provider)]) -> Vec<Finding> {
    let begun = Instant::now();
    let mut waiting = Vec::new();
    for (name, provider) in providers {
        let (host, port) =
            (provider.base_url.host().trim_matches(['[', ']']).to_owned(), provider.base_url.port());
        let place = format!("{host}:{port}");
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            // Nobody listens any more after a while.
            let _ = tell.send(connect(&host, port));
        });
        waiting.push((*name, place, told));
    }
    let one = |(name, place, told): (&str, String, mpsc::Receiver<anyhow::Result<()>>)| {
        let left = REACHED_TIMEOUT.saturating_sub(begun.elapsed());
        match told.recv_timeout(left) {
            Ok(Ok(())) => AREA.ok(format!("{name}: {place} can be reached")),
            Ok(Err(why)) => AREA.wrong(format!("{name}: {place} cannot be reached: {why}"), MEND),
            Err(_) => {
                let seconds = REACHED_TIMEOUT.as_secs();
                AREA.wrong(format!("{name}: {place} cannot be reached within {seconds} s"), MEND)
            }
        }
    };
    waiting.into_iter().map(one).collect()
}

fn connect(host: &str, port: u16) -> anyhow::Result<()> {
    let addresses =
        (host, port).to_socket_addrs().map_err(|error| anyhow!("its name is not known ({error})"))?;
    let mut last = anyhow!("its name has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, REACHED_TIMEOUT) {
            Ok(_) => return Ok(()),
            Err(error) => last = error.into(),
        }
    }
    Err(last)
}
