//! DHCP servers and DNS zones as rows.

use std::collections::BTreeMap;

use network_spec::{Dhcp, DnsData, DnsZone, Port, Server, World};
use nlog_data::Value;
use openflow_rs::MacAddr;

use super::{Add, FIRST_REQUEST_METER, Rows, add, list, prefix, record, text};
use crate::world::NumberedWorld;

/// The servers.
pub(super) fn services(world: &World, object: &mut Add<'_>) {
    for (name, dhcp) in &world.dhcps {
        let fields = [
            ("switch", text(&dhcp.switch)),
            ("net", prefix(dhcp.net)),
            ("router", dhcp.router.map_or(Value::None, |router| Value::Ip(router.into()))),
            ("server", server(dhcp.server)),
            ("lease", Value::Int(dhcp.lease.into())),
            ("dns", list(dhcp.dns.iter().map(|ip| Value::Ip(*ip)))),
            ("options", options(dhcp)),
        ];
        object("dhcp", name, &fields);
    }
    for (name, zone) in &world.dns_zones {
        let DnsZone { switches, server: of, records, ttl } = zone;
        let records = records.iter().map(|(name, data)| {
            let data = match data {
                DnsData::Addresses(ips) => [list(ips.iter().map(|ip| Value::Ip(*ip))), Value::None],
                DnsData::Alias(target) => [Value::None, text(target)],
            };
            record([text(name), record(data)])
        });
        let fields = [
            ("switches", list(switches.iter().map(|switch| text(switch)))),
            ("server", of.map_or(Value::None, server)),
            ("records", Value::set(records)),
            ("ttl", Value::Int((*ttl).into())),
        ];
        object("dns_zone", name, &fields);
    }
}

fn server(server: Server) -> Value {
    record([Value::Ip(server.ip), Value::Mac(MacAddr(server.mac))])
}

/// The options of a server, in the order of `rules/logical/dhcp/objects.nlog`.
fn options(dhcp: &Dhcp) -> Value {
    let Dhcp { mtu, domain_name, other, .. } = dhcp;
    if (mtu, domain_name, other) == (&None, &None, &BTreeMap::new()) {
        return Value::None;
    }
    let mut fields = vec![Value::None; 14];
    fields[0] = mtu.map_or(Value::None, |mtu| Value::Int(mtu.into()));
    fields[1] = domain_name.as_deref().map_or(Value::None, text);
    if !other.is_empty() {
        let hexadecimal =
            |value: &[u8]| value.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
        let others =
            other.iter().map(|(code, value)| record([Value::Int((*code).into()), text(&hexadecimal(value))]));
        fields[13] = list(others);
    }
    Value::Record(fields.into())
}

/// The meters of the requests that ports may make. Those of an interface follow from its number and the tags of its trunk members.
pub(super) fn meters(world: &NumberedWorld, rows: &mut Rows) {
    const BEHIND_ERRORS: i64 = 2000;
    const EACH: i64 = 34;
    for ((host, outer), ofport) in &world.ofports {
        let behind = world.children(outer).map(|(tag, child)| (i64::from(tag % 16) + 1, child));
        for (slot, port) in behind.chain([(0, outer.as_str())]) {
            let asks = |of: &Port| world.serves(&of.switch) && of.parent.is_some() == (slot > 0);
            if !world.ports.get(port).is_some_and(asks) {
                continue;
            }
            let first = FIRST_REQUEST_METER + BEHIND_ERRORS + i64::from(*ofport) * EACH + slot * 2;
            for (kind, meter) in [("dhcp", first), ("dns", first + 1)] {
                let row = vec![text(host), text(port), text(kind), Value::Int(meter)];
                add(rows, "allocated_meter", row);
            }
        }
    }
}
