//! A hash of values that is the same on every machine and in every version.
//!
//! The values are written one after the other: a byte for the type, then
//!
//! | type | byte | then |
//! |---|---|---|
//! | `bool` | 1 | 0 or 1 |
//! | `int` | 2 | 8 bytes, two's complement |
//! | `string` | 3 | length, UTF-8 |
//! | `mac` | 4 | 6 bytes |
//! | `ip` | 5 or 6 | 4 bytes of an IPv4, 16 of an IPv6 address |
//! | `net` | 7 or 8 | the address likewise, 1 byte prefix length |
//! | `match`, `actions` | 9, 10 | as a string: the canonical text |
//! | `set`, `list` | 11, 12 | count, then the elements |
//! | record | 13 | count, then the fields |
//! | `opt` without a value | 14 | nothing |
//! | `interface_address` | 15 or 16 | as a `net`, with host bits |
//! | `packet_filter` | 17 | as a string: the canonical text |
//!
//! with every number highest byte first, lengths and counts as 8 bytes. An `opt` with a value is written as the
//! value, a member of an enumeration as a string. The bytes go through FNV-1a of 64 bits (offset basis
//! 0xcbf29ce484222325, prime 0x100000001b3), whose result `h` is mixed as the finalizer of `MurmurHash3` does: `h ^=
//! h >> 33; h *= 0xff51afd7ed558ccd; h ^= h >> 33; h *= 0xc4ceb9fe1a85ec53; h ^= h >> 33`. The lowest bit is then
//! shifted out, so that the result is a non-negative `int`.

use std::net::IpAddr;
use std::sync::Arc;

use packet_answers::name_key;

use super::Function;
use super::define::entry;
use crate::Value;

struct Fnv(u64);

impl Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn tagged(&mut self, tag: u8, bytes: &[u8]) {
        self.write(&[tag]);
        self.write(bytes);
    }

    fn text(&mut self, tag: u8, text: &str) {
        self.tagged(tag, &(text.len() as u64).to_be_bytes());
        self.write(text.as_bytes());
    }

    fn values(&mut self, tag: u8, values: &[Value]) {
        self.tagged(tag, &(values.len() as u64).to_be_bytes());
        for value in values {
            self.value(value);
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Bool(value) => self.tagged(1, &[u8::from(*value)]),
            Value::Int(value) => self.tagged(2, &value.to_be_bytes()),
            Value::String(value) => self.text(3, value),
            Value::Mac(value) => self.tagged(4, &value.0),
            Value::Ip(IpAddr::V4(ip)) => self.tagged(5, &ip.octets()),
            Value::Ip(IpAddr::V6(ip)) => self.tagged(6, &ip.octets()),
            Value::Net(net) => {
                match net.network() {
                    IpAddr::V4(ip) => self.tagged(7, &ip.octets()),
                    IpAddr::V6(ip) => self.tagged(8, &ip.octets()),
                }
                self.write(&[net.prefix_len()]);
            }
            Value::Match(value) => self.text(9, &value.text()),
            Value::Actions(value) => self.text(10, &value.text()),
            Value::Set(values) => self.values(11, values),
            Value::List(values) => self.values(12, values),
            Value::Record(values) => self.values(13, values),
            Value::None => self.write(&[14]),
            Value::PacketFilter(value) => self.text(17, value.text()),
            Value::InterfaceAddress(address) => {
                match address.ip() {
                    IpAddr::V4(ip) => self.tagged(15, &ip.octets()),
                    IpAddr::V6(ip) => self.tagged(16, &ip.octets()),
                }
                self.write(&[address.length()]);
            }
        }
    }
}

/// The hash of values in this order: at least 0, stable across runs, versions and machines.
pub fn hash_values(values: &[Value]) -> i64 {
    let mut fnv = Fnv(0xcbf2_9ce4_8422_2325);
    for value in values {
        fnv.value(value);
    }
    let mut h = fnv.0;
    h ^= h >> 33;
    h = h.wrapping_mul(0xff51_afd7_ed55_8ccd);
    h ^= h >> 33;
    h = h.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^= h >> 33;
    (h >> 1) as i64
}

pub(super) fn functions() -> Vec<Function> {
    vec![
        entry(
            "hash(value) -> n",
            "A 63-bit number that depends only on the values, their types and their order: the same on \
            every run, version and machine. Suitable for load balancing, not for cryptography.",
        )
        .example(r#""hv1", "hv2""#, "3504921522283472265")
        .example(r#""hv2", "hv1""#, "1523747858376352544")
        .example("0", "5209980248461756121")
        .example("-1, true", "4045880611358232009")
        .example(r#"mac"02:00:00:00:00:01", ip"10.0.0.1", ip"fe80::1""#, "9208800855869089860")
        .example(r#"net"10.0.0.0/24", net"fe80::/10""#, "363823995072952617")
        .example(r#"match"reg1=0x1a", actions"output:3""#, "1065050973147131073")
        .example("{2, 1}, [2, 1], [[]]", "4241822891106455778")
        .variadic(hash_values),
        entry(
            "name_key(name) -> key",
            "The number by which flows know a domain name, above 0 and of 63 bits: the same on every run, version and machine. The responder \
            gives it to a packet that asks DNS for the name (`dns_question` of `respond`). Case and a dot at the end make no difference. \
            A reverse name has the number of its address as text. Two names may have the same number, so the answer has the name too.",
        )
        .example(r#""db.blue.example""#, "5602235555972038162")
        .example(r#""DB.Blue.Example.""#, "5602235555972038162")
        .example(r#""10.0.0.2""#, "6149899355657142584")
        .example(r#""2.0.0.10.in-addr.arpa""#, "6149899355657142584")
        .example(r#""fd00::2""#, "5164688335066242414")
        .example(r#""""#, "8640173135264257171")
        .unary(|name: Arc<str>| name_key(&name) as i64),
    ]
}
