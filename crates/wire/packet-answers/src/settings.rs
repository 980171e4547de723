//! What rules say of an answer, as text.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use frame_builder::Mac;
use openflow_rs::{Actions, MacAddr, Subfield};

use crate::advertisement::INTERVAL_MAX;
use crate::headers::is_host;
use crate::probe;
use crate::readiness::is_name;
use crate::{
    Address, Advertisement, Announcement, Ask, BadOption, Check, Dhcpv4Offer, Dhcpv6Offer, DnsAnswer,
    DnsQuestion, DomainName, ErrorAsk, Instruction, Operand, Preference, Probe, QUERY_INTERVAL, Query,
    Readiness, Resolution, Solicitation, Tunnels, dhcp_option, domain_search,
};

/// Text that says nothing of an answer, or not enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadSetting {
    /// There are no answers of this kind.
    Kind(String),
    /// A setting has no `=`.
    NoValue(String),
    /// Answers of this kind have no such setting.
    Unknown {
        /// The kind.
        kind: String,
        /// The name of the setting.
        name: String,
    },
    /// A setting is missing that answers of this kind need.
    Missing {
        /// The kind.
        kind: String,
        /// The name of the setting.
        name: &'static str,
    },
    /// A setting has several values where there can be one.
    Several(String),
    /// A value is not what its setting needs.
    Value {
        /// The name of the setting.
        name: String,
        /// The value.
        value: String,
        /// What the setting needs.
        wanted: String,
    },
    /// An option of DHCP cannot be given.
    Option(BadOption),
}

impl From<BadOption> for BadSetting {
    fn from(error: BadOption) -> BadSetting {
        BadSetting::Option(error)
    }
}

impl fmt::Display for BadSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadSetting::Kind(kind) => {
                write!(f, "there are no answers of kind {kind:?}: use one of {}", KINDS.join(", "))
            }
            BadSetting::NoValue(text) => write!(f, "{text:?} is no setting: write NAME=VALUE"),
            BadSetting::Unknown { kind, name } => write!(f, "{kind} has no setting {name}"),
            BadSetting::Missing { kind, name } => write!(f, "{kind} needs the setting {name}"),
            BadSetting::Several(name) => write!(f, "{name} has several values, but can have one"),
            BadSetting::Value { name, value, wanted } => write!(f, "{name}={value}: {wanted}"),
            BadSetting::Option(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BadSetting {}

/// The kinds of answers.
const KINDS: [&str; 14] = [
    "error",
    "router_advertisement",
    "dhcpv4",
    "dhcpv6",
    "dns_question",
    "dns_answer",
    "return",
    "announce",
    "ready",
    "query",
    "solicit",
    "probe",
    "probed",
    "resolve",
];

impl Instruction {
    /// An instruction for an answer of a kind, by settings of the form `NAME=VALUE`. Where a name has several values, each is a setting; text
    /// behind a `.` in the name has no meaning, so rules can give them an order: `dns.000=fd00::1`.
    ///
    /// | kind | settings |
    /// |---|---|
    /// | all | `keep`, a field that the answer has too, each |
    /// | `error` | `question`, a field of 32 bits with the reason and the MTU; `from`, an address with its prefix, each |
    /// | `router_advertisement` | `mac`; `mode`, one of `slaac`, `dhcpv6_stateful` and `dhcpv6_stateless`; `prefix`, each; `dns`, each; `mtu`; `periodic` |
    /// | `dhcpv4` | `address`, `net`, `server`, `server_mac`, `client_mac`, `lease`; `next_server`; and options by the names and codes of [`dhcp_option`], with values that are joined by commas |
    /// | `dhcpv6` | `server_mac`, `client_mac`, `lease`; `address`, each; `dns`, each; `domain_search`, each. `net` and `server` have no effect |
    /// | `dns_question` | `key`, a field of 64 bits for the [`name_key`](crate::name_key) of the name |
    /// | `dns_answer` | `name`, a domain name, or an address for its reverse name; `ttl`; `address`, each; `cname`; `pointer`, each. Without `name`, for names that nobody has: `domain`, each |
    /// | `return` | none. The answer is the packet itself |
    /// | `announce` | `mac`; `address`, each; `router`; `watch`, the number of a port, each. It answers no packet |
    /// | `query` | `mac`; `igmp`, the source of queries of IGMP; `mld`, whether there are queries of MLD; `interval`, by default [`QUERY_INTERVAL`]. It answers no packet |
    /// | `solicit` | `mac`; `from`, the address that asks; `target`, of the same IP version; `interval`; `watch`, the number of a port, each. It answers no packet |
    /// | `ready` | `hold`, the name of a tunnel port or `all`, each; `uplink`, the name of an interface or a bridge, each. It answers no packet |
    /// | `probe` | `id`, up to 128 printable characters; `check`, one of `tcp:PORT`, `icmp` and `http:PORT:PATH`; `from`, `from_mac`, `to`, `to_mac`; `interval`, seconds (5), and `timeout` up to that (2); `failures` and `successes` in a row that count (3). It answers no packet |
    /// | `probed` | none. The packet may be the answer to a probe |
    /// | `resolve` | `mac`; `from`, the address that asks. The answer is the question for the MAC address of the packet's destination |
    ///
    /// # Errors
    /// A setting is unknown, malformed or missing.
    pub fn from_settings<'a>(
        kind: &'a str,
        settings: impl IntoIterator<Item = &'a str>,
        into: Actions,
    ) -> Result<Instruction, BadSetting> {
        let mut settings = Settings::read(kind, settings)?;
        let kept =
            settings.many("keep", "give a field of up to 64 bits, as in reg0 or xxreg0[0..63]", |text| {
                // The bytes of an instruction have six bits for their number.
                parsed(text).filter(|field: &Subfield| field.bits() <= 64)
            })?;
        let ask = match kind {
            "error" => Ask::Error(error(&mut settings)?),
            "router_advertisement" => Ask::Advertisement(advertisement(&mut settings)?),
            "dhcpv4" => Ask::Dhcpv4(dhcpv4(&mut settings)?),
            "dhcpv6" => Ask::Dhcpv6(dhcpv6(&mut settings)?),
            "dns_question" => Ask::DnsQuestion(dns_question(&mut settings)?),
            "dns_answer" => Ask::DnsAnswer(dns_answer(&mut settings)?),
            "return" => Ask::Return,
            "announce" => Ask::Announcement(announcement(&mut settings)?),
            "ready" => Ask::Ready(readiness(&mut settings)?),
            "query" => Ask::Query(query(&mut settings)?),
            "solicit" => Ask::Solicitation(solicitation(&mut settings)?),
            "probe" => Ask::Probe(probed(&mut settings)?),
            "probed" => Ask::Probed,
            "resolve" => Ask::Resolution(resolution(&mut settings)?),
            other => return Err(BadSetting::Kind(other.to_owned())),
        };
        settings.end()?;
        Ok(Instruction { ask, kept, actions: into })
    }
}

fn error(settings: &mut Settings<'_>) -> Result<ErrorAsk, BadSetting> {
    let wanted = "give a field of 32 bits, as in reg4";
    let question: Subfield = settings
        .one("question", wanted, |text| text.parse().ok().filter(|field: &Subfield| field.bits() == 32))?;
    // Both parts have 16 of 32 bits.
    let part = |start| Subfield::new(question.field(), question.start() + start, 16).ok().map(Operand::Field);
    let missing = || BadSetting::Missing { kind: settings.kind.to_owned(), name: "question" };
    let (reason, mtu) = (part(16).ok_or_else(missing)?, part(0).ok_or_else(missing)?);
    let addresses = settings.many("from", "give an address with its prefix, as in 10.0.0.1/24", address)?;
    Ok(ErrorAsk { reason, mtu, addresses })
}

fn advertisement(settings: &mut Settings<'_>) -> Result<Advertisement, BadSetting> {
    /// Machines forget a router from which they hear nothing in three intervals (RFC 4861, 6.2.1: `AdvDefaultLifetime`).
    const LIFETIME: u16 = (3 * INTERVAL_MAX) as u16;
    let wanted = "use slaac, dhcpv6_stateful or dhcpv6_stateless";
    let (managed, other, autonomous) = settings.one("mode", wanted, |text| match text {
        "slaac" => Some((false, false, true)),
        // Who has its address from a server asks it for the rest too (RFC 4861, 4.2).
        "dhcpv6_stateful" => Some((true, false, false)),
        "dhcpv6_stateless" => Some((false, true, true)),
        _ => None,
    })?;
    let prefix = |text: &str| match address(text)? {
        Address { address: IpAddr::V6(address), prefix } => Some((address, prefix)),
        Address { .. } => None,
    };
    Ok(Advertisement {
        mac: settings.one("mac", MAC, mac)?,
        managed,
        other,
        autonomous,
        lifetime: LIFETIME,
        preference: Preference::Medium,
        mtu: settings.option("mtu", "give bytes, up to 65535", parsed)?.unwrap_or(0),
        prefixes: settings.many("prefix", "give an IPv6 prefix, as in fd00::/64", prefix)?,
        dns: settings.many("dns", "give an IPv6 address", parsed::<Ipv6Addr>)?,
        periodic: settings.option("periodic", BOOL, parsed)?.unwrap_or(false),
    })
}

fn dhcpv4(settings: &mut Settings<'_>) -> Result<Dhcpv4Offer, BadSetting> {
    let wanted = "give an IPv4 address";
    let net = settings.one("net", "give an IPv4 prefix, as in 10.0.0.0/24", |text| {
        address(text).filter(|net| net.address.is_ipv4())
    })?;
    Ok(Dhcpv4Offer {
        address: settings.one("address", wanted, parsed)?,
        prefix: net.prefix,
        server: settings.one("server", wanted, parsed)?,
        server_mac: settings.one("server_mac", MAC, mac)?,
        client_mac: settings.one("client_mac", MAC, mac)?,
        lease: settings.one("lease", SECONDS, parsed)?,
        next_server: settings.option("next_server", wanted, parsed)?.unwrap_or(Ipv4Addr::UNSPECIFIED),
        options: settings.options()?,
    })
}

fn dhcpv6(settings: &mut Settings<'_>) -> Result<Dhcpv6Offer, BadSetting> {
    let wanted = "give an IPv6 address";
    // They say where the server is, which follows from its MAC address, and what it serves, which its addresses say.
    for name in ["net", "server"] {
        settings.values.remove(name);
    }
    let lease: u32 = settings.one("lease", SECONDS, parsed)?;
    let domains = settings.values.remove("domain_search").unwrap_or_default().join(",");
    let domain_search = if domains.is_empty() { Ok(Vec::new()) } else { domain_search(&domains) };
    Ok(Dhcpv6Offer {
        addresses: settings.many("address", wanted, parsed)?,
        server_mac: settings.one("server_mac", MAC, mac)?,
        client_mac: settings.one("client_mac", MAC, mac)?,
        preferred: lease,
        valid: lease,
        dns: settings.many("dns", wanted, parsed)?,
        domain_search: domain_search?,
    })
}

fn dns_question(settings: &mut Settings<'_>) -> Result<DnsQuestion, BadSetting> {
    let wanted = "give a field of 64 bits that an action can set, as in xreg4";
    let field = |text: &str| parsed(text).filter(|field| DnsQuestion::takes_keys(*field));
    Ok(DnsQuestion { key: settings.one("key", wanted, field)? })
}

fn dns_answer(settings: &mut Settings<'_>) -> Result<DnsAnswer, BadSetting> {
    /// Of names that nobody has, there is nothing to remember.
    const NO_TTL: u32 = 0;
    let wanted = "give a domain name, as in db.blue.example";
    let of_records = |text: &str| {
        let reverse = parsed(text).map(DomainName::reverse);
        reverse.or_else(|| parsed(text))
    };
    let name = settings.option("name", "give a domain name or an address", of_records)?;
    let cname = settings.option("cname", wanted, domain_name)?;
    let addresses: Vec<IpAddr> = settings.many("address", "give an IP address", parsed)?;
    let pointers = settings.many("pointer", wanted, domain_name)?;
    if name.is_none() && !(cname.is_none() && addresses.is_empty() && pointers.is_empty()) {
        return Err(BadSetting::Missing { kind: settings.kind.to_owned(), name: "name" });
    }
    let ttl = if name.is_some() {
        settings.one("ttl", SECONDS, parsed)?
    } else {
        settings.option("ttl", SECONDS, parsed)?.unwrap_or(NO_TTL)
    };
    let domains = settings.many("domain", wanted, domain_name)?;
    let (ipv4, ipv6) = by_version(addresses);
    Ok(DnsAnswer { name, ttl, ipv4, ipv6, cname, pointers, domains })
}

fn announcement(settings: &mut Settings<'_>) -> Result<Announcement, BadSetting> {
    let addresses: Vec<IpAddr> = settings.many("address", "give an IP address", parsed)?;
    let (ipv4, ipv6) = by_version(addresses);
    Ok(Announcement {
        mac: settings.one("mac", MAC, mac)?,
        router: settings.option("router", BOOL, parsed)?.unwrap_or(false),
        ipv4,
        ipv6,
        watch: settings.many("watch", PORT, parsed)?,
    })
}

fn query(settings: &mut Settings<'_>) -> Result<Query, BadSetting> {
    let igmp = settings.option("igmp", "give an IPv4 address", parsed)?;
    let mld = settings.option("mld", BOOL, parsed)?.unwrap_or(false);
    if igmp.is_none() && !mld {
        return Err(BadSetting::Missing { kind: settings.kind.to_owned(), name: "igmp" });
    }
    let mac = settings.one("mac", MAC, mac)?;
    let interval = settings.option("interval", INTERVAL, interval)?.unwrap_or(QUERY_INTERVAL);
    Ok(Query { mac, igmp, mld, interval })
}

fn solicitation(settings: &mut Settings<'_>) -> Result<Solicitation, BadSetting> {
    let from: IpAddr = settings.one("from", "give an IP address", parsed)?;
    let wanted = "give an IP address of the version of from";
    let same_version = |text: &str| parsed(text).filter(|target: &IpAddr| target.is_ipv4() == from.is_ipv4());
    Ok(Solicitation {
        mac: settings.one("mac", MAC, mac)?,
        from,
        target: settings.one("target", wanted, same_version)?,
        interval: settings.one("interval", INTERVAL, interval)?,
        watch: settings.many("watch", PORT, parsed)?,
    })
}

fn resolution(settings: &mut Settings<'_>) -> Result<Resolution, BadSetting> {
    let host = |text: &str| parsed(text).filter(|address| is_host(*address));
    Ok(Resolution {
        mac: settings.one("mac", MAC, mac)?,
        from: settings.one("from", "give the IP address of a host", host)?,
    })
}

fn interval(text: &str) -> Option<u16> {
    parsed(text).filter(|seconds| *seconds > 0)
}

fn readiness(settings: &mut Settings<'_>) -> Result<Readiness, BadSetting> {
    const EVERY: &str = "all";
    let wanted = "give a name of up to 255 bytes without commas";
    let name = |text: &str| is_name(text).then(|| text.to_owned());
    let held = settings.many("hold", wanted, name)?;
    let hold = if held.iter().any(|name| name == EVERY) { Tunnels::All } else { Tunnels::These(held) };
    Ok(Readiness { hold, uplinks: settings.many("uplink", wanted, name)? })
}

fn probed(settings: &mut Settings<'_>) -> Result<Probe, BadSetting> {
    /// What is usual for a server that answers within milliseconds: 15 s until it is down, as Kubernetes and Octavia have it.
    const INTERVAL: u16 = 5;
    const TIMEOUT: u16 = 2;
    const IN_A_ROW: u8 = 3;
    let host = |text: &str| parsed(text).filter(|address| is_host(*address));
    let id = |text: &str| probe::is_probe_id(text).then(|| text.to_owned());
    let wanted_id = "give up to 128 printable characters without spaces";
    let wanted_check = "use tcp:PORT, icmp or http:PORT:/PATH";
    let wanted_host = "give the IP address of a host";
    let wanted_in_a_row = "give a number from 1 to 255";
    let seconds = |most: u16| {
        let wanted = format!("give seconds, from 1 to {most}");
        (wanted, move |text: &str| parsed(text).filter(|seconds| (1..=most).contains(seconds)))
    };
    let in_a_row = |text: &str| parsed(text).filter(|count: &u8| *count > 0);
    let from: IpAddr = settings.one("from", wanted_host, host)?;
    let other = |text: &str| host(text).filter(|to| to.is_ipv4() == from.is_ipv4() && *to != from);
    let (wanted, read) = seconds(probe::INTERVAL_MAX);
    let interval = settings.option("interval", &wanted, read)?.unwrap_or(INTERVAL);
    let (wanted, read) = seconds(interval);
    Ok(Probe {
        id: settings.one("id", wanted_id, id)?,
        check: settings.one("check", wanted_check, Check::parse)?,
        from,
        from_mac: settings.one("from_mac", MAC, mac)?,
        to: settings.one("to", "give the IP address of another host, of the version of from", other)?,
        to_mac: settings.one("to_mac", MAC, mac)?,
        interval,
        timeout: settings.option("timeout", &wanted, read)?.unwrap_or(TIMEOUT.min(interval)),
        failures: settings.option("failures", wanted_in_a_row, in_a_row)?.unwrap_or(IN_A_ROW),
        successes: settings.option("successes", wanted_in_a_row, in_a_row)?.unwrap_or(IN_A_ROW),
    })
}

fn by_version(addresses: Vec<IpAddr>) -> (Vec<Ipv4Addr>, Vec<Ipv6Addr>) {
    let (mut ipv4, mut ipv6) = (Vec::new(), Vec::new());
    for address in addresses {
        match address {
            IpAddr::V4(address) => ipv4.push(address),
            IpAddr::V6(address) => ipv6.push(address),
        }
    }
    (ipv4, ipv6)
}

/// A domain name that is no address: its digits would be names of domains.
fn domain_name(text: &str) -> Option<DomainName> {
    if text.parse::<IpAddr>().is_ok() { None } else { parsed(text) }
}

const SECONDS: &str = "give seconds, up to 4294967295";
const MAC: &str = "give a MAC address";
const PORT: &str = "give the number of a port";
const BOOL: &str = "use true or false";
const INTERVAL: &str = "give seconds from 1 to 65535";

fn mac(text: &str) -> Option<Mac> {
    parsed::<MacAddr>(text).map(|mac| mac.0)
}

fn address(text: &str) -> Option<Address> {
    let (address, prefix) = text.split_once('/')?;
    let (address, prefix): (IpAddr, u8) = (address.parse().ok()?, prefix.parse().ok()?);
    (prefix <= if address.is_ipv4() { 32 } else { 128 }).then_some(Address { address, prefix })
}

fn parsed<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// The settings that have not been read, by name, in order.
struct Settings<'a> {
    kind: &'a str,
    values: BTreeMap<&'a str, Vec<&'a str>>,
}

impl<'a> Settings<'a> {
    fn read(kind: &'a str, settings: impl IntoIterator<Item = &'a str>) -> Result<Settings<'a>, BadSetting> {
        let mut values: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for setting in settings {
            let (name, value) =
                setting.split_once('=').ok_or_else(|| BadSetting::NoValue(setting.to_owned()))?;
            let name = name.split_once('.').map_or(name, |(name, _)| name);
            values.entry(name).or_default().push(value);
        }
        Ok(Settings { kind, values })
    }

    /// All values of a name, in order.
    fn many<T>(
        &mut self,
        name: &str,
        wanted: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<T>, BadSetting> {
        let values = self.values.remove(name).unwrap_or_default();
        let bad = |value: &str| BadSetting::Value {
            name: name.to_owned(),
            value: value.to_owned(),
            wanted: wanted.to_owned(),
        };
        values.into_iter().map(|value| read(value).ok_or_else(|| bad(value))).collect()
    }

    /// The value of a name, if there is one.
    fn option<T>(
        &mut self,
        name: &str,
        wanted: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, BadSetting> {
        let mut values = self.many(name, wanted, read)?;
        let value = values.pop();
        if values.is_empty() { Ok(value) } else { Err(BadSetting::Several(name.to_owned())) }
    }

    /// The value of a name that must be there.
    fn one<T>(
        &mut self,
        name: &'static str,
        wanted: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<T, BadSetting> {
        let missing = BadSetting::Missing { kind: self.kind.to_owned(), name };
        self.option(name, wanted, read)?.ok_or(missing)
    }

    /// The rest, as options of DHCP.
    fn options(&mut self) -> Result<Vec<(u8, Vec<u8>)>, BadSetting> {
        let rest = std::mem::take(&mut self.values).into_iter();
        rest.map(|(name, values)| Ok(dhcp_option(name, &values.join(","))?)).collect()
    }

    /// All settings have been read.
    fn end(self) -> Result<(), BadSetting> {
        match self.values.into_keys().next() {
            Some(name) => Err(BadSetting::Unknown { kind: self.kind.to_owned(), name: name.to_owned() }),
            None => Ok(()),
        }
    }
}
