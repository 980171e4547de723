//! What is in a state, and what replaces it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;
use nlog_data::Value;
use nlog_data::function::hash_values;
use objects::{Object, ObjectKey};
use openflow_rs::MacAddr;

use super::addresses::Addresses;
use super::walk::{self, Leaves};
use super::words::Words;
use super::{AnonymiseError, Secret};

/// The names and addresses in a state.
pub(super) struct Found {
    words: Words,
    names: BTreeSet<String>,
    macs: BTreeSet<MacAddr>,
    ips: BTreeSet<IpAddr>,
    nets: BTreeSet<IpNet>,
}

/// New names and addresses for those in a state.
#[derive(Debug)]
pub struct Mapping {
    words: Words,
    names: BTreeMap<String, String>,
    macs: BTreeMap<MacAddr, MacAddr>,
    ips: BTreeSet<IpAddr>,
    nets: BTreeSet<IpNet>,
    addresses: Addresses,
    /// The new hash of a name by that of the old one.
    hashes: HashMap<u32, u32>,
}

/// The hash by which rules call patch ports.
fn hash(name: &str) -> u32 {
    (hash_values(&[Value::String(name.into())]) & 0xffff_ffff) as u32
}

impl Found {
    /// Nothing so far. `words` stay as they are.
    pub(super) fn new(words: Words) -> Found {
        let (names, macs, ips, nets) = Default::default();
        Found { words, names, macs, ips, nets }
    }

    /// New names and addresses for all of it.
    pub(super) fn mapping(self, secret: Secret) -> Mapping {
        let Found { words, names, macs, ips, nets } = self;
        let addresses = Addresses::new(secret, &words.nets, &nets);
        let names = numbered(names, &words);
        let macs = numbered_macs(macs, &words);
        let words_too = words.texts.iter().map(|word| (hash(word), hash(word)));
        let hashes = names.iter().map(|(old, new)| (hash(old), hash(new))).chain(words_too).collect();
        Mapping { words, names, macs, ips, nets, addresses, hashes }
    }
}

/// Each name with a letter and its place in their order, with as many digits as all have. No word of the rules looks so.
fn numbered(names: BTreeSet<String>, words: &Words) -> BTreeMap<String, String> {
    let looks_so = |word: &str, letter: char| {
        word.strip_prefix(letter).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let is_free = |letter: &char| !words.texts.iter().any(|word| looks_so(word, *letter));
    let letter = ('n'..='z').chain('a'..='m').find(is_free).unwrap_or('n');
    let width = names.len().to_string().len().max(5);
    (1..).zip(names).map(|(number, name): (usize, _)| (name, format!("{letter}{number:0width$}"))).collect()
}

/// Each unicast address with two bytes and its place in their order. The bit for local administration stays.
fn numbered_macs(macs: BTreeSet<MacAddr>, words: &Words) -> BTreeMap<MacAddr, MacAddr> {
    let used: HashSet<u8> = macs.iter().chain(&words.macs).map(|mac| mac.0[1]).collect();
    let second = (0..=u8::MAX).find(|byte| !used.contains(byte)).unwrap_or_default();
    let new = |(number, old): (u32, MacAddr)| {
        let [a, b, c, d] = number.to_be_bytes();
        (old, MacAddr([old.0[0] & 2, second, a, b, c, d]))
    };
    (1..).zip(macs).map(new).collect()
}

/// Whether an address stays: those of no machine, and those of the rules.
fn stays(mac: MacAddr, words: &Words) -> bool {
    mac.0[0] & 1 == 1 || mac == MacAddr::default() || words.macs.contains(&mac)
}

/// The MAC address in a link-local address, and that with another one in its place (RFC 4291, appendix A).
fn mac_in(ip: IpAddr) -> Option<MacAddr> {
    let IpAddr::V6(ip) = ip else { return None };
    match ip.octets() {
        [0xfe, 0x80, 0, 0, 0, 0, 0, 0, a, b, c, 0xff, 0xfe, d, e, f] => Some(MacAddr([a ^ 2, b, c, d, e, f])),
        _ => None,
    }
}

fn link_local(MacAddr([a, b, c, d, e, f]): MacAddr) -> IpAddr {
    Ipv6Addr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f]).into()
}

impl Leaves for Found {
    fn is_word(&self, text: &str) -> bool {
        self.words.texts.contains(text)
    }

    fn is_name(&self, text: &str) -> bool {
        self.names.contains(text)
    }

    fn name(&mut self, name: &str) -> String {
        self.names.insert(name.to_owned());
        name.to_owned()
    }

    fn mac(&mut self, mac: MacAddr) -> MacAddr {
        if !stays(mac, &self.words) {
            self.macs.insert(mac);
        }
        mac
    }

    fn ip(&mut self, ip: IpAddr) -> IpAddr {
        mac_in(ip).map(|mac| self.mac(mac));
        self.ips.insert(ip);
        ip
    }

    fn net(&mut self, net: IpNet) -> IpNet {
        self.nets.insert(net);
        net
    }

    /// Names may come later, so the text with the hash counts as a name as well.
    fn hash(&mut self, _: u32) -> Option<u32> {
        None
    }
}

impl Leaves for Mapping {
    fn is_word(&self, text: &str) -> bool {
        self.words.texts.contains(text)
    }

    fn is_name(&self, text: &str) -> bool {
        self.names.contains_key(text)
    }

    fn name(&mut self, name: &str) -> String {
        self.names.get(name).map_or(name, String::as_str).to_owned()
    }

    fn mac(&mut self, mac: MacAddr) -> MacAddr {
        self.new_mac(mac)
    }

    fn ip(&mut self, ip: IpAddr) -> IpAddr {
        self.new_ip(ip)
    }

    fn net(&mut self, net: IpNet) -> IpNet {
        self.addresses.net(net)
    }

    fn hash(&mut self, hash: u32) -> Option<u32> {
        self.hashes.get(&hash).copied()
    }
}

impl Mapping {
    /// The new text for a name, an address, or a text with those inside. A name that the state does not have stays.
    pub fn text(&mut self, old: &str) -> String {
        walk::text(self, old)
    }

    /// The object under its new names.
    ///
    /// # Errors
    /// A value cannot be replaced.
    pub fn object(&mut self, object: &Object) -> Result<Object, AnonymiseError> {
        walk::object(self, object)
    }

    /// The new key of an object.
    pub fn key(&mut self, key: &ObjectKey) -> ObjectKey {
        walk::key(self, key)
    }

    /// What was replaced: names, MAC addresses, IP addresses and prefixes, each with what is in its place.
    pub fn pairs(&self) -> impl Iterator<Item = (String, String)> + '_ {
        let names = self.names.iter().map(|(old, new)| (old.clone(), new.clone()));
        let macs = self.macs.iter().map(|(old, new)| (old.to_string(), new.to_string()));
        let ips = self.ips.iter().map(|ip| (ip.to_string(), self.new_ip(*ip).to_string()));
        let nets = self.nets.iter().map(|net| (net.to_string(), self.addresses.net(*net).to_string()));
        names.chain(macs).chain(ips).chain(nets)
    }

    fn new_mac(&self, mac: MacAddr) -> MacAddr {
        self.macs.get(&mac).copied().unwrap_or(mac)
    }

    fn new_ip(&self, ip: IpAddr) -> IpAddr {
        match mac_in(ip) {
            Some(mac) => link_local(self.new_mac(mac)),
            None => self.addresses.ip(ip),
        }
    }

    /// A keyed hash.
    pub(super) fn keyed(&self, bytes: &[u8]) -> u64 {
        self.addresses.keyed(bytes)
    }
}
