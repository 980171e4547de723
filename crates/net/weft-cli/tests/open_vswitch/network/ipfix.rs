//! An IPFIX collector (RFC 7011): reads the records that switches send, by the templates that come with them.

use std::collections::HashMap;
use std::net::{Ipv4Addr, UdpSocket};

use lab::Host;
use testbed::DEADLINE;

/// The address of the collector in the namespace of each host.
pub(crate) const ADDRESS: &str = "127.0.0.1:4739";

/// The version in each message.
const IPFIX: u64 = 10;
/// The set with templates. Those with data have the number of a template, from 256 on.
const TEMPLATES: u64 = 2;
const FIRST_DATA: u64 = 256;
/// The length of an element that says its own.
const VARIABLE: u64 = 65535;
/// Marks an element of an enterprise.
const ENTERPRISE: u64 = 0x8000;

/// Information elements, by their numbers at IANA.
const PACKETS: u64 = 2;
const PROTOCOL: u64 = 4;
const SOURCE_PORT: u64 = 7;
const SOURCE: u64 = 8;
const DESTINATION_PORT: u64 = 11;
const DESTINATION: u64 = 12;
const OBSERVATION_POINT: u64 = 138;

/// What a record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) domain: u64,
    pub(crate) point: u64,
    pub(crate) protocol: u64,
    pub(crate) source: (Ipv4Addr, u64),
    pub(crate) destination: (Ipv4Addr, u64),
    pub(crate) packets: u64,
}

/// An element of a template: its number, unless an enterprise's, and its length.
type Element = (Option<u64>, u64);

/// A socket in the namespace of a host, and the templates that came there, by observation domain and number.
pub(crate) struct Collector {
    socket: UdpSocket,
    templates: HashMap<(u64, u64), Vec<Element>>,
    /// All records so far.
    pub(crate) records: Vec<Record>,
}

impl Collector {
    /// A collector for a host.
    pub(crate) fn new(host: &Host) -> Collector {
        let socket = host.inside(|| UdpSocket::bind(ADDRESS)).unwrap().unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        Collector { socket, templates: HashMap::new(), records: Vec::new() }
    }

    /// Reads messages until the records are enough.
    pub(crate) fn read_until(&mut self, what: &str, enough: impl Fn(&[Record]) -> bool) {
        let mut buffer = vec![0; 1 << 16];
        while !enough(&self.records) {
            let length = self.socket.recv(&mut buffer);
            let length = length.unwrap_or_else(|error| panic!("{what}: {error}; so far {:?}", self.records));
            self.read(&buffer[..length]);
        }
    }

    fn read(&mut self, message: &[u8]) {
        let mut bytes = Bytes(message);
        assert_eq!((bytes.number(2), bytes.number(2)), (IPFIX, message.len() as u64));
        let (_time, _sequence, domain) = (bytes.number(4), bytes.number(4), bytes.number(4));
        while !bytes.0.is_empty() {
            let (set, length) = (bytes.number(2), bytes.number(2));
            let mut content = Bytes(bytes.take(length - 4));
            match set {
                TEMPLATES => self.read_templates(domain, &mut content),
                FIRST_DATA.. => self.read_data(domain, set, &mut content),
                _ => {}
            }
        }
    }

    fn read_templates(&mut self, domain: u64, content: &mut Bytes<'_>) {
        while content.0.len() >= 4 {
            let (number, count) = (content.number(2), content.number(2));
            let mut element = || {
                let (number, length) = (content.number(2), content.number(2));
                let standard = number & ENTERPRISE == 0;
                if !standard {
                    content.number(4);
                }
                (standard.then_some(number), length)
            };
            let elements = (0..count).map(|_| element()).collect();
            self.templates.insert((domain, number), elements);
        }
    }

    /// Reads the records of flows. Those about the exporter have no template here.
    fn read_data(&mut self, domain: u64, template: u64, content: &mut Bytes<'_>) {
        let Some(elements) = self.templates.get(&(domain, template)) else { return };
        while content.0.len() >= elements.len() {
            let mut values: HashMap<u64, u64> = HashMap::new();
            for (number, length) in elements {
                let length = if *length == VARIABLE { content.number(1) } else { *length };
                let value = content.take(length);
                if let Some(number) = number.filter(|_| length <= 8) {
                    values.insert(number, Bytes(value).number(length));
                }
            }
            let value = |number| values.get(&number).copied().unwrap_or_default();
            let address = |number| Ipv4Addr::from(value(number) as u32);
            self.records.push(Record {
                domain,
                point: value(OBSERVATION_POINT),
                protocol: value(PROTOCOL),
                source: (address(SOURCE), value(SOURCE_PORT)),
                destination: (address(DESTINATION), value(DESTINATION_PORT)),
                packets: value(PACKETS),
            });
        }
    }
}

/// Bytes that are still to be read.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, length: u64) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length as usize);
        self.0 = rest;
        taken
    }

    fn number(&mut self, length: u64) -> u64 {
        self.take(length).iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}
