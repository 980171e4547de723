//! What the messages of DHCP and DNS servers say.

use std::collections::BTreeSet;

use super::super::dhcpv4::{COOKIE, options};
use super::super::dhcpv6::options as options_v6;
use super::Says;
use crate::frame::chunk;

/// The ports of servers.
const DHCPV4: u16 = 67;
const DHCPV6: u16 = 547;
const DNS: u16 = 53;

/// What a datagram from the port of a server says.
pub(super) fn says(datagram: &[u8]) -> Option<Says> {
    let [s0, s1, d0, d1, l0, l1, _, _] = *datagram.first_chunk::<8>()?;
    let ports = (u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1]));
    let message = datagram.get(8..u16::from_be_bytes([l0, l1]).into())?;
    match ports {
        (DHCPV4, 68) => dhcpv4(message),
        (DHCPV6, 546) => dhcpv6(message),
        (DNS, to) => dns(to, message),
        _ => None,
    }
}

fn dhcpv4(message: &[u8]) -> Option<Says> {
    /// Text for people.
    const MESSAGE: u8 = 56;
    let head: [u8; 44] = chunk(message, 0)?;
    let mut options = options(message.get(236..)?.strip_prefix(&COOKIE)?)?;
    options.remove(&MESSAGE);
    Some(Says::Dhcpv4 { head: head.to_vec(), options })
}

fn dhcpv6(message: &[u8]) -> Option<Says> {
    Some(Says::Dhcpv6 { head: chunk(message, 0)?, options: meaning(message.get(4..)?)? })
}

/// Options in the order of their codes, without text for people, and without the preference, which each server chooses for itself.
fn meaning(options: &[u8]) -> Option<Vec<(u16, Vec<u8>)>> {
    const PREFERENCE: u16 = 7;
    let all = options_v6(options)?.into_iter().filter(|(code, _)| *code != PREFERENCE);
    let mut all = all
        .map(|(code, value)| {
            // The bytes in front of the options inside.
            let fixed = match code {
                3 | 25 => 12,
                4 => 4,
                5 => 24,
                13 => return Some((code, value.get(..2)?.to_vec())),
                _ => return Some((code, value)),
            };
            let inside = meaning(value.get(fixed..)?)?;
            let inside =
                inside.into_iter().flat_map(|(code, value)| [&code.to_be_bytes()[..], &value].concat());
            Some((code, value[..fixed].iter().copied().chain(inside).collect()))
        })
        .collect::<Option<Vec<_>>>()?;
    all.sort();
    Some(all)
}

fn dns(to: u16, message: &[u8]) -> Option<Says> {
    const OPT: u16 = 41;
    let count = |at: usize| chunk(message, at).map(u16::from_be_bytes);
    let mut at = 12;
    let mut questions = Vec::new();
    for _ in 0..count(4)? {
        let behind = name(message, at)?.1 + 4;
        questions.extend_from_slice(message.get(at..behind)?);
        at = behind;
    }
    let (mut records, mut is_edns, mut upper) = (BTreeSet::new(), false, 0);
    for _ in 0..count(6)? + count(8)? + count(10)? {
        let (owner, behind) = name(message, at)?;
        let [k0, k1, c0, c1, t0, t1, t2, t3, l0, l1] = chunk::<10>(message, behind)?;
        let data = behind + 10..behind + 10 + usize::from(u16::from_be_bytes([l0, l1]));
        let (kind, class) = (u16::from_be_bytes([k0, k1]), u16::from_be_bytes([c0, c1]));
        at = data.end;
        let data = message.get(data)?.to_vec();
        if kind == OPT {
            (is_edns, upper) = (true, t0);
        } else {
            records.insert((owner, kind, class, u32::from_be_bytes([t0, t1, t2, t3]), data));
        }
    }
    let code = u16::from(upper) << 4 | u16::from(message[3] & 15);
    let flags = [message[2], message[3] & 0xf0];
    Some(Says::Dns { to, id: chunk(message, 0)?, flags, code, questions, records, is_edns })
}

/// The name that stands somewhere in a message, in lower case, and the place behind it.
fn name(message: &[u8], mut at: usize) -> Option<(String, usize)> {
    let (mut labels, mut end) = (Vec::new(), None);
    // A name has no more parts than these.
    for _ in 0..128 {
        match *message.get(at)? {
            0 => return Some((labels.join("."), end.unwrap_or(at + 1))),
            upper @ 192.. => {
                end = end.or(Some(at + 2));
                at = usize::from(u16::from_be_bytes([upper & 63, *message.get(at + 1)?]));
            }
            units => {
                let label = message.get(at + 1..at + 1 + usize::from(units))?;
                labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
                at += 1 + usize::from(units);
            }
        }
    }
    None
}
