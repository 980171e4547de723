//! What a `DHCPv6` server says to the machines of its switch (RFC 8415).
//!
//! - A MAC address of a port gets all of its addresses that are in the network of its server: that of the first of its addresses that is in
//!   one. Without any, the first server of the switch by name tells it the other settings.
//! - The machine asks all servers, from its address on the link. It names itself and the server as section 16 has it.
//! - The first association for addresses gets all of them, others get none.
//! - What a machine has beside is not to be used any longer. What it gives back stays its own.

use std::net::{IpAddr, Ipv6Addr};

use super::error::ipv6;
use super::requests::{Asked, Datagram, Served, ethernet, udp};
use crate::World;
use crate::frame::{Body, Payload, chunk, link_local};
use crate::services::Dhcp;
use crate::world::Mac;

const UDP: u8 = 17;
const HOPS: u8 = 64;
const CLIENT_PORT: u16 = 546;
const SERVER_PORT: u16 = 547;
const ALL_SERVERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);

/// Types of messages (RFC 8415, 7.3).
const SOLICIT: u8 = 1;
const ADVERTISE: u8 = 2;
const REQUEST: u8 = 3;
const CONFIRM: u8 = 4;
const RENEW: u8 = 5;
const REBIND: u8 = 6;
const REPLY: u8 = 7;
const RELEASE: u8 = 8;
const DECLINE: u8 = 9;
const INFORMATION_REQUEST: u8 = 11;

/// Codes of options (RFC 8415, 21; RFC 3646).
const CLIENT: u16 = 1;
const SERVER: u16 = 2;
const ADDRESSES: u16 = 3;
const TEMPORARY: u16 = 4;
const ADDRESS: u16 = 5;
const OPTION_REQUEST: u16 = 6;
const STATUS: u16 = 13;
const RAPID_COMMIT: u16 = 14;
const DNS: u16 = 23;
const PREFIXES: u16 = 25;

/// Codes of results (RFC 8415, 21.13).
const SUCCESS: u16 = 0;
const NO_ADDRESSES: u16 = 2;
const NO_BINDING: u16 = 3;
const NOT_ON_LINK: u16 = 4;
const NO_PREFIXES: u16 = 6;

/// An option with its code.
type Coded = (u16, Vec<u8>);

/// Options in their order; none if one is cut off.
pub(super) fn options(mut rest: &[u8]) -> Option<Vec<Coded>> {
    let mut all = Vec::new();
    while !rest.is_empty() {
        let ([c0, c1, l0, l1], behind) = rest.split_first_chunk::<4>()?;
        let (value, behind) = behind.split_at_checked(u16::from_be_bytes([*l0, *l1]).into())?;
        all.push((u16::from_be_bytes([*c0, *c1]), value.to_vec()));
        rest = behind;
    }
    Some(all)
}

fn option(code: u16, value: &[u8]) -> Vec<u8> {
    [&code.to_be_bytes()[..], &(value.len() as u16).to_be_bytes(), value].concat()
}

fn status(code: u16) -> Vec<u8> {
    option(STATUS, &code.to_be_bytes())
}

/// What a machine wants addresses or prefixes for.
struct Association {
    code: u16,
    id: [u8; 4],
    /// The addresses that it names.
    addresses: Vec<Ipv6Addr>,
}

impl Association {
    /// Reads an association; none if it is damaged.
    fn read((code, value): &Coded) -> Option<Association> {
        let times = if *code == TEMPORARY { 0 } else { 8 };
        let inside = options(value.get(4 + times..)?)?;
        let named = inside.iter().filter(|(code, _)| *code == ADDRESS);
        let addresses = named.filter_map(|(_, value)| chunk::<16>(value, 0)).map(Ipv6Addr::from).collect();
        Some(Association { code: *code, id: chunk(value, 0)?, addresses })
    }
}

/// A message of a machine.
struct Message {
    kind: u8,
    transaction: [u8; 3],
    options: Vec<Coded>,
    associations: Vec<Association>,
}

impl Message {
    /// Reads a message for a server of this identifier (RFC 8415, 16).
    fn read(payload: &[u8], server: &[u8]) -> Option<Message> {
        let [kind, t0, t1, t2] = *payload.first_chunk::<4>()?;
        let options = options(&payload[4..])?;
        let is_association = |(code, _): &&Coded| [ADDRESSES, TEMPORARY, PREFIXES].contains(code);
        let associations =
            options.iter().filter(is_association).map(Association::read).collect::<Option<Vec<_>>>()?;
        let message = Message { kind, transaction: [t0, t1, t2], options, associations };
        let (named, client) = (message.option(SERVER), message.option(CLIENT));
        let is_client = client.is_some_and(|client| (3..=130).contains(&client.len()));
        let is_sound = match kind {
            SOLICIT | CONFIRM | REBIND => is_client && named.is_none(),
            REQUEST | RENEW | RELEASE | DECLINE => is_client && named.is_some(),
            INFORMATION_REQUEST => (client.is_none() || is_client) && message.associations.is_empty(),
            _ => false,
        };
        (is_sound && named.is_none_or(|named| named == server)).then_some(message)
    }

    fn option(&self, wanted: u16) -> Option<&[u8]> {
        self.options.iter().find(|(code, _)| *code == wanted).map(|(_, value)| &value[..])
    }

    /// Whether the machine wants this setting. Who asks for settings alone gets all.
    fn wants(&self, code: u16) -> bool {
        let listed = self.option(OPTION_REQUEST).unwrap_or_default();
        let is_listed = listed.chunks(2).any(|pair| pair == code.to_be_bytes());
        self.kind == INFORMATION_REQUEST || is_listed
    }
}

impl World {
    /// What the `DHCPv6` servers of the switch do with a frame.
    pub(super) fn serve_dhcpv6(&self, asked: Asked<'_>) -> Served {
        let Body::Ipv6(Some(packet)) = &asked.frame.body else { return Served::GoesOn };
        let is_request =
            packet.payload == Payload::Udp(CLIENT_PORT, SERVER_PORT) && packet.dst == ALL_SERVERS;
        match self.dhcpv6_for(asked).filter(|_| is_request) {
            Some((dhcp, given)) => Served::Taken(answer(asked, dhcp, &given)),
            None => Served::GoesOn,
        }
    }

    /// The server that serves the sender of a frame, and the sender's addresses in the network of that server.
    fn dhcpv6_for(&self, Asked { switch, port, frame, .. }: Asked<'_>) -> Option<(&Dhcp, Vec<Ipv6Addr>)> {
        let address = port.addresses.iter().find(|address| address.mac == frame.src)?;
        let servers = || self.dhcps.values().filter(|one| one.switch == switch && one.net.ip.is_ipv6());
        let of_address = address.ips.iter().find_map(|ip| servers().find(|one| one.net.contains(*ip)));
        let dhcp = of_address.or_else(|| servers().next())?;
        let own = address.ips.iter().filter(|ip| dhcp.net.contains(**ip));
        let given = own.filter_map(|ip| match ip {
            IpAddr::V6(ip) => Some(*ip),
            IpAddr::V4(_) => None,
        });
        Some((dhcp, given.collect()))
    }
}

/// The answer of a server that has these addresses for the sender.
fn answer(asked: Asked<'_>, dhcp: &Dhcp, given: &[Ipv6Addr]) -> Option<Vec<u8>> {
    let datagram = Datagram::read(asked.frame, asked.bytes)?;
    let (IpAddr::V6(from), IpAddr::V6(own)) = (datagram.addresses.0, link_local(dhcp.server.mac)) else {
        return None;
    };
    // The identifier of a server is its MAC address (RFC 8415, 11.4).
    let duid = [&[0, 3, 0, 1][..], &dhcp.server.mac].concat();
    let message = Message::read(datagram.payload, &duid)?;
    if !from.is_unicast_link_local() || from == own {
        return None;
    }
    let reply = reply(dhcp, &message, given, &duid)?;
    Some(framed(asked.frame.src, dhcp.server.mac, (own, from), &reply))
}

fn framed(to: Mac, mac: Mac, (own, from): (Ipv6Addr, Ipv6Addr), reply: &[u8]) -> Vec<u8> {
    let packet = ipv6(own, from, UDP, udp((SERVER_PORT, CLIENT_PORT), reply), HOPS);
    ethernet(to, mac, false, &packet)
}

/// The message that answers another one (RFC 8415, 18.3).
fn reply(dhcp: &Dhcp, message: &Message, given: &[Ipv6Addr], duid: &[u8]) -> Option<Vec<u8>> {
    let commits = message.option(RAPID_COMMIT).is_some() && !given.is_empty();
    let kind = if message.kind == SOLICIT && !commits { ADVERTISE } else { REPLY };
    let mut out = [&[kind][..], &message.transaction].concat();
    out.extend(message.option(CLIENT).map(|client| option(CLIENT, client)).unwrap_or_default());
    out.extend(option(SERVER, duid));
    match message.kind {
        RELEASE | DECLINE => out.extend(status(SUCCESS)),
        CONFIRM => {
            let mut named = message.associations.iter().flat_map(|one| &one.addresses).peekable();
            // Who names no address hears nothing (18.3.3).
            named.peek()?;
            out.extend(status(if named.all(|one| given.contains(one)) { SUCCESS } else { NOT_ON_LINK }));
        }
        _ => {
            if message.kind == SOLICIT && commits {
                out.extend(option(RAPID_COMMIT, &[]));
            }
            let first = message.associations.iter().position(|one| one.code == ADDRESSES);
            for (place, association) in message.associations.iter().enumerate() {
                let own = if first == Some(place) { given } else { &[] };
                out.extend(associated(message.kind, association, own, dhcp.lease));
            }
            let servers: Vec<u8> = dhcp.dns.iter().flat_map(octets).collect();
            if !servers.is_empty() && message.wants(DNS) {
                out.extend(option(DNS, &servers));
            }
        }
    }
    Some(out)
}

fn octets(server: &IpAddr) -> Vec<u8> {
    match server {
        IpAddr::V4(_) => Vec::new(),
        IpAddr::V6(server) => server.octets().to_vec(),
    }
}

/// What a machine gets for an association that has these addresses.
fn associated(kind: u8, association: &Association, own: &[Ipv6Addr], lease: u32) -> Vec<u8> {
    let renews = [RENEW, REBIND].contains(&kind);
    let lasting = |ip: &Ipv6Addr, time: u32| {
        let times = [time.to_be_bytes(), time.to_be_bytes()].concat();
        option(ADDRESS, &[&ip.octets()[..], &times].concat())
    };
    let mut inside: Vec<u8> = own.iter().flat_map(|ip| lasting(ip, lease)).collect();
    let is_known = kind == REBIND || !own.is_empty();
    if renews && association.code == ADDRESSES && is_known {
        let others = association.addresses.iter().filter(|other| !own.contains(other));
        inside.extend(others.flat_map(|other| lasting(other, 0)));
    }
    if inside.is_empty() {
        inside = status(match association.code {
            _ if renews => NO_BINDING,
            PREFIXES => NO_PREFIXES,
            _ => NO_ADDRESSES,
        });
    }
    let part = |tenths: u64| if lease == u32::MAX { lease } else { (u64::from(lease) * tenths / 10) as u32 };
    let times = match association.code {
        TEMPORARY => Vec::new(),
        _ if own.is_empty() => vec![0; 8],
        _ => [part(5).to_be_bytes(), part(8).to_be_bytes()].concat(),
    };
    option(association.code, &[&association.id[..], &times, &inside].concat())
}
