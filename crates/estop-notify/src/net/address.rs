//! Which addresses a message may be sent to (A9). Nothing but plain public addresses, unless a person allowed more.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// What may be reached beside the public network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reach {
    /// Addresses of private networks, and `http://` to them.
    pub allow_private: bool,
    /// This machine itself, and `http://` to it.
    pub allow_loopback: bool,
}

/// What an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Public,
    /// RFC 1918, carrier-grade NAT, unique local.
    Private,
    Loopback,
    /// Nobody sends alerts there: link-local (cloud metadata), multicast, reserved, documentation, tunnels.
    Never(&'static str),
}

impl Reach {
    /// Whether an address may be reached; why not.
    pub(super) fn check(self, address: IpAddr) -> Result<Kind, &'static str> {
        let kind = kind(address);
        match kind {
            Kind::Public => Ok(kind),
            Kind::Private if self.allow_private => Ok(kind),
            Kind::Private => Err("it is in a private network; set `allow_private: true` if that is meant"),
            Kind::Loopback if self.allow_loopback => Ok(kind),
            Kind::Loopback => Err("it is this machine; set `allow_loopback: true` if that is meant"),
            Kind::Never(why) => Err(why),
        }
    }
}

fn kind(address: IpAddr) -> Kind {
    match address {
        IpAddr::V4(v4) => kind_v4(v4),
        IpAddr::V6(v6) => kind_v6(v6),
    }
}

fn kind_v4(v4: Ipv4Addr) -> Kind {
    match v4.octets() {
        [0, ..] => Kind::Never("it is an address of no host"),
        [127, ..] => Kind::Loopback,
        [169, 254, ..] => Kind::Never("it is a link-local address, as cloud metadata has"),
        // Metadata of Alibaba and of Oracle's first cloud live beside the usual ranges.
        [100, 100, 100, 200] | [192, 0, 0, 192] => Kind::Never("it is an address of cloud metadata"),
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] => Kind::Private,
        [192, 0, 0, _] | [192, 31, 196, _] | [192, 52, 193, _] | [192, 88, 99, _] | [192, 175, 48, _] => {
            Kind::Never("it is reserved for protocols")
        }
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Kind::Never("it is for documentation"),
        [198, 18..=19, ..] => Kind::Never("it is for benchmarks"),
        [224..=255, ..] => Kind::Never("it is multicast or reserved"),
        _ => Kind::Public,
    }
}

fn kind_v6(v6: Ipv6Addr) -> Kind {
    let segments = v6.segments();
    match segments {
        [0, 0, 0, 0, 0, 0, 0, 0] => Kind::Never("it is an address of no host"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Kind::Loopback,
        // Mapped (::ffff:a.b.c.d), translated (::ffff:0:a.b.c.d) and compatible (::a.b.c.d) are that IPv4 address.
        [0, 0, 0, 0, 0, 0xffff, high, low] => kind_v4(v4_of(high, low)),
        [0, 0, 0, 0, 0xffff, 0, ..] | [0, 0, 0, 0, 0, 0, ..] => Kind::Never("it hides an IPv4 address"),
        // NAT64, 6to4, Teredo and ISATAP lead to an IPv4 address that somebody else chooses.
        [0x64, 0xff9b, ..] | [0x2002, ..] | [0x2001, 0, ..] | [_, _, _, _, 0 | 0x200, 0x5efe, ..] => {
            Kind::Never("it hides an IPv4 address")
        }
        [0x100, ..] | [0x2001, 0x2..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, ..] | [0x5f00, ..] => {
            Kind::Never("it is reserved for protocols or documentation")
        }
        // The metadata service of AWS in its own range of unique local addresses.
        [0xfd00, 0xec2, ..] => Kind::Never("it is an address of cloud metadata"),
        [0xfc00..=0xfdff, ..] => Kind::Private,
        [0xfe80..=0xfebf, ..] => Kind::Never("it is a link-local address, as cloud metadata has"),
        [0xfec0..=0xfeff, ..] => Kind::Never("it is an old site-local address"),
        [0xff00..=0xffff, ..] => Kind::Never("it is multicast or reserved"),
        [0x2000..=0x3fff, ..] => Kind::Public,
        _ => Kind::Never("it is not in the public range"),
    }
}

fn v4_of(high: u16, low: u16) -> Ipv4Addr {
    let [[a, b], [c, d]] = [high.to_be_bytes(), low.to_be_bytes()];
    Ipv4Addr::new(a, b, c, d)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(reach: Reach, address: &str) -> bool {
        reach.check(address.parse().expect("an address")).is_ok()
    }

    #[test]
    fn al_1_only_public_addresses_are_reached_unless_allowed() {
        let nothing = Reach::default();
        for public in ["1.1.1.1", "93.184.216.34", "172.15.0.1", "172.32.0.1", "100.128.0.1", "2606:4700::1"]
        {
            assert!(check(nothing, public), "{public}");
        }
        let all = Reach { allow_private: true, allow_loopback: true };
        let private = [
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.1",
            "192.168.1.1",
            "100.64.0.1",
            "fd12::1",
            "::ffff:10.0.0.1",
        ];
        let loopback = ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"];
        for address in private {
            assert!(!check(nothing, address) && check(all, address), "{address}");
            assert!(!check(Reach { allow_loopback: true, ..nothing }, address), "{address}");
        }
        for address in loopback {
            assert!(!check(nothing, address) && check(all, address), "{address}");
            assert!(!check(Reach { allow_private: true, ..nothing }, address), "{address}");
        }
    }

    #[test]
    fn al_1_some_addresses_are_never_reached() {
        let all = Reach { allow_private: true, allow_loopback: true };
        let never = "0.0.0.0 0.1.2.3 169.254.169.254 100.100.100.200 192.0.0.192 192.0.2.1 198.51.100.7 203.0.113.1
            198.18.0.1 198.19.255.1 224.0.0.1 240.0.0.1 255.255.255.255 192.88.99.1 :: ::127.0.0.1 ::10.0.0.1
            ::ffff:169.254.169.254 ::ffff:0.0.0.0 ::ffff:0:7f00:1 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::a00:1
            2002:7f00:1:: 2002:a9fe:a9fe::1 2001:0:53aa:64c::1 2001:db8::1 3fff::1 fe80::1 fe80::200:5efe:10.0.0.1
            2606::5efe:10.0.0.1 fd00:ec2::254 fec0::1 ff02::1 100::1 5f00::1 4000::1";
        for address in never.split_whitespace() {
            assert!(!check(all, address), "{address}");
        }
    }
}
