//! What a DHCP server says to the machines of its switch (RFC 2131).
//!
//! - A MAC address of a port gets the first of its addresses that is in the network of a server of the switch, from this server. Without one,
//!   there is no server for it.
//! - The machine asks all, or the server. It names its own MAC address, and has asked no relay.
//! - It is offered the address, and has it once it asks for this address and no other. It hears a NAK if it asks for another, also for the
//!   one that it had. A machine that asks another server, or gives an address back, hears nothing.
//! - Who needs no address hears all settings but that.
//! - A machine that lists the settings that it wants hears those alone (RFC 2132, 9.8).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use super::error::ipv4;
use super::received::is_of_many;
use super::requests::{Asked, Datagram, Served, ethernet, udp};
use crate::World;
use crate::frame::{Body, Payload, chunk};
use crate::routing::is_martian;
use crate::services::Dhcp;
use crate::world::Mac;

const UDP: u8 = 17;
const CLIENT: u16 = 68;
const SERVER: u16 = 67;
/// What begins the options (RFC 2131, 3).
pub(super) const COOKIE: [u8; 4] = [99, 130, 83, 99];

/// Types of messages (RFC 2132, 9.6).
const DISCOVER: u8 = 1;
const OFFER: u8 = 2;
const REQUEST: u8 = 3;
const ACK: u8 = 5;
const NAK: u8 = 6;
const INFORM: u8 = 8;

/// A message of a machine.
struct Message {
    kind: u8,
    transaction: [u8; 4],
    flags: [u8; 2],
    /// The address that it has.
    has: Ipv4Addr,
    mac: Mac,
    is_relayed: bool,
    options: BTreeMap<u8, Vec<u8>>,
}

impl Message {
    /// Reads a message. None if it is none of DHCP, or is damaged.
    fn read(payload: &[u8]) -> Option<Message> {
        let fixed = payload.first_chunk::<236>()?;
        let options = options(payload[236..].strip_prefix(&COOKIE)?)?;
        let kind = *options.get(&53).filter(|kind| kind.len() == 1)?.first()?;
        (fixed[..3] == [1, 1, 6]).then_some(())?;
        // Addresses have one length.
        [50, 54].iter().all(|code| options.get(code).is_none_or(|value| value.len() == 4)).then_some(())?;
        Some(Message {
            kind,
            transaction: chunk(fixed, 4)?,
            flags: chunk(fixed, 10)?,
            has: chunk::<4>(fixed, 12)?.into(),
            mac: chunk(fixed, 28)?,
            is_relayed: chunk::<4>(fixed, 24)? != [0; 4],
            options,
        })
    }

    fn address(&self, code: u8) -> Option<Ipv4Addr> {
        self.options.get(&code).and_then(|value| chunk::<4>(value, 0)).map(Ipv4Addr::from)
    }
}

/// Options by code; those of one code are one (RFC 3396, 7).
pub(super) fn options(mut rest: &[u8]) -> Option<BTreeMap<u8, Vec<u8>>> {
    let mut options: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
    loop {
        match *rest {
            [] | [255, ..] => return Some(options),
            [0, ref behind @ ..] => rest = behind,
            [code, length, ref behind @ ..] => {
                let (value, behind) = behind.split_at_checked(length.into())?;
                options.entry(code).or_default().extend_from_slice(value);
                rest = behind;
            }
            [_] => return None,
        }
    }
}

impl World {
    /// What the DHCP servers of the switch do with a frame.
    pub(super) fn serve_dhcpv4(&self, asked: Asked<'_>) -> Served {
        let Body::Ipv4(Some(packet)) = &asked.frame.body else { return Served::GoesOn };
        if packet.payload != Payload::Udp(CLIENT, SERVER) {
            return Served::GoesOn;
        }
        let Some((dhcp, given)) = self.dhcp_for(asked) else { return Served::GoesOn };
        let is_asked = packet.dst.is_broadcast() || IpAddr::V4(packet.dst) == dhcp.server.ip;
        if !is_asked {
            return Served::GoesOn;
        }
        Served::Taken(self.answer_dhcpv4(asked, dhcp, given))
    }

    /// The server that serves the sender of a frame, and the sender's address.
    fn dhcp_for(&self, Asked { switch, port, frame, .. }: Asked<'_>) -> Option<(&Dhcp, Ipv4Addr)> {
        let address = port.addresses.iter().find(|address| address.mac == frame.src)?;
        let server =
            |ip: IpAddr| self.dhcps.values().find(|one| one.switch == switch && one.net.contains(ip));
        address.ips.iter().find_map(|ip| match ip {
            IpAddr::V4(given) => server(*ip).map(|dhcp| (dhcp, *given)),
            IpAddr::V6(_) => None,
        })
    }

    fn answer_dhcpv4(&self, asked: Asked<'_>, dhcp: &Dhcp, given: Ipv4Addr) -> Option<Vec<u8>> {
        let datagram = Datagram::read(asked.frame, asked.bytes)?;
        let message = Message::read(datagram.payload)?;
        let IpAddr::V4(server) = dhcp.server.ip else { return None };
        let (IpAddr::V4(from), is_server) = (datagram.addresses.0, datagram.addresses.0 == dhcp.server.ip)
        else {
            return None;
        };
        let is_for_other = message.address(54).is_some_and(|named| named != server);
        if message.mac != asked.frame.src || message.is_relayed || is_for_other || is_server {
            return None;
        }
        let kind = match message.kind {
            DISCOVER => OFFER,
            INFORM => ACK,
            REQUEST => {
                let has = Some(message.has).filter(|has| !has.is_unspecified());
                let mut wanted = message.address(50).into_iter().chain(has).peekable();
                wanted.peek()?;
                if wanted.all(|wanted| wanted == given) { ACK } else { NAK }
            }
            _ => return None,
        };
        let (to, mac) = destination(&message, kind, from, given)?;
        let reply = self.reply(dhcp, &message, kind, given);
        let packet = ipv4(server, to, UDP, udp((SERVER, CLIENT), &reply));
        Some(ethernet(mac, dhcp.server.mac, true, &packet))
    }

    /// The answer of this kind (RFC 2131, table 3).
    fn reply(&self, dhcp: &Dhcp, message: &Message, kind: u8, given: Ipv4Addr) -> Vec<u8> {
        let nowhere = Ipv4Addr::UNSPECIFIED;
        let leases = kind == OFFER || (kind == ACK && message.kind == REQUEST);
        let has = if kind == ACK { message.has } else { nowhere };
        let gets = if leases { given } else { nowhere };
        let mut out = [&[2, 1, 6, 0][..], &message.transaction, &[0, 0], &message.flags].concat();
        out.extend([has, gets, nowhere, nowhere].iter().flat_map(Ipv4Addr::octets));
        out.extend(message.mac);
        out.extend([0; 10 + 64 + 128]);
        out.extend(COOKIE);
        let mut all: BTreeMap<u8, Vec<u8>> = BTreeMap::from([(53, vec![kind])]);
        let IpAddr::V4(server) = dhcp.server.ip else { return out };
        all.insert(54, server.octets().to_vec());
        all.extend(message.options.get(&61).map(|client| (61, client.clone())));
        if leases {
            let part = |of: u64, by: u64| match dhcp.lease {
                u32::MAX => u32::MAX,
                lease => (u64::from(lease) * of / by) as u32,
            };
            let times = [(51, part(1, 1)), (58, part(1, 2)), (59, part(7, 8))];
            all.extend(times.map(|(code, time)| (code, time.to_be_bytes().to_vec())));
        }
        if kind != NAK {
            let mask = u32::MAX.checked_shl(32 - u32::from(dhcp.net.length)).unwrap_or(0);
            all.insert(1, mask.to_be_bytes().to_vec());
            let wanted = message.options.get(&55);
            let settings = self.settings(dhcp).into_iter();
            all.extend(settings.filter(|(code, _)| wanted.is_none_or(|wanted| wanted.contains(code))));
        }
        for (code, value) in all {
            out.extend([code, value.len() as u8]);
            out.extend(value);
        }
        out.push(255);
        out
    }

    /// What a server says to all of its machines, beside what follows from the lease.
    fn settings(&self, dhcp: &Dhcp) -> BTreeMap<u8, Vec<u8>> {
        let mut all = dhcp.other.clone();
        all.extend(dhcp.router.map(|router| (3, router.octets().to_vec())));
        let servers: Vec<u8> = dhcp
            .dns
            .iter()
            .flat_map(|server| match server {
                IpAddr::V4(server) => server.octets().to_vec(),
                IpAddr::V6(_) => Vec::new(),
            })
            .collect();
        all.extend((!servers.is_empty()).then_some((6, servers)));
        let mtu = dhcp.mtu.or_else(|| self.mtu(&dhcp.switch));
        all.extend(mtu.map(|mtu| (26, mtu.to_be_bytes().to_vec())));
        all.extend(dhcp.domain_name.iter().map(|name| (15, name.clone().into_bytes())));
        all
    }
}

/// Where an answer goes (RFC 2131, 4.1): to the address that the machine has, or else to the one that it gets, or to all if it cannot take
/// that. A NAK goes to all.
fn destination(message: &Message, kind: u8, from: Ipv4Addr, given: Ipv4Addr) -> Option<(Ipv4Addr, Mac)> {
    let to_all = (Ipv4Addr::BROADCAST, [0xff; 6]);
    if kind == NAK {
        return Some(to_all);
    }
    // A machine that says nothing of the address that it has is reached by it all the same.
    let says_nothing = message.kind == INFORM && message.has.is_unspecified();
    let has = if says_nothing { from } else { message.has };
    if has.is_unspecified() {
        return Some(if message.flags[0] & 0x80 != 0 { to_all } else { (given, message.mac) });
    }
    let is_single = !is_martian(has.into()) && !is_of_many(has.into());
    is_single.then_some((has, message.mac))
}
