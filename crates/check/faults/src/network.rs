//! The network of a run: three hosts, two tenants that share a subnet, a router, and who pings whom.

use std::net::IpAddr;

use lab::VmSpec;
use serde_json::{Value as Json, json};

/// The hosts.
pub const HOSTS: [&str; 3] = ["hv1", "hv2", "hv3"];

/// The kinds of objects that a run has, in the order in which they can be created.
pub const KINDS: [&str; 6] = ["transport_node", "switch", "switch_port", "router", "router_port", "acl"];

/// A virtual machine, and the logical port of the same name.
#[derive(Debug, Clone, Copy)]
pub struct Guest {
    /// The name of both.
    pub name: &'static str,
    /// The host that it is at.
    pub host: &'static str,
    /// The logical switch.
    pub switch: &'static str,
    /// The last byte of its MAC address.
    pub mac: u8,
    /// Its address.
    pub ip: [u8; 4],
}

/// The machines. `front` and `back` are acme's, with a router between them. `umbra` has the subnet of `front`.
///
/// Nobody of its own tenant ever talks to the last machine of `front` and of `umbra`: what arrives there has crossed tenants.
pub const GUESTS: [Guest; 9] = [
    Guest { name: "front-1", host: "hv1", switch: "front", mac: 1, ip: [10, 0, 0, 1] },
    Guest { name: "front-2", host: "hv2", switch: "front", mac: 2, ip: [10, 0, 0, 2] },
    Guest { name: "front-3", host: "hv3", switch: "front", mac: 3, ip: [10, 0, 0, 3] },
    Guest { name: "front-4", host: "hv3", switch: "front", mac: 4, ip: [10, 0, 0, 4] },
    Guest { name: "back-1", host: "hv1", switch: "back", mac: 17, ip: [10, 0, 1, 1] },
    Guest { name: "back-2", host: "hv2", switch: "back", mac: 18, ip: [10, 0, 1, 2] },
    Guest { name: "umbra-1", host: "hv1", switch: "umbra", mac: 1, ip: [10, 0, 0, 1] },
    Guest { name: "umbra-2", host: "hv2", switch: "umbra", mac: 2, ip: [10, 0, 0, 2] },
    Guest { name: "umbra-3", host: "hv3", switch: "umbra", mac: 33, ip: [10, 0, 0, 33] },
];

/// The machines to which nobody may get through.
pub const SILENT: [&str; 2] = ["front-4", "umbra-3"];

/// Who pings whom all along: every pair of hosts, and every host alone, on a switch and through the router.
pub const PINGS: [(&str, &str); 7] = [
    ("front-1", "front-2"),
    ("front-2", "front-3"),
    ("front-3", "front-1"),
    ("front-1", "back-1"),
    ("back-1", "back-2"),
    ("back-2", "front-3"),
    ("umbra-1", "umbra-2"),
];

/// Who pings a machine of the other tenant all along, by the addresses that it really has.
pub const ACROSS: [(&str, &str); 3] =
    [("front-3", "umbra-3"), ("front-1", "umbra-3"), ("umbra-2", "front-4")];

impl Guest {
    /// The machine of this name.
    ///
    /// # Panics
    /// There is none.
    pub fn named(name: &str) -> Guest {
        let found = GUESTS.into_iter().find(|guest| guest.name == name);
        found.unwrap_or_else(|| panic!("no machine is named {name}"))
    }

    /// Its address.
    pub fn ip(self) -> IpAddr {
        self.ip.into()
    }

    /// Its MAC address.
    pub fn mac(self) -> String {
        format!("02:00:00:00:00:{:02x}", self.mac)
    }

    /// The machine for the lab.
    pub fn machine(self) -> VmSpec {
        let spec =
            VmSpec::new(self.name, self.host, self.name, self.mac()).address(format!("{}/24", self.ip()));
        match self.switch {
            "umbra" => spec,
            _ => spec.gateway([self.ip[0], self.ip[1], self.ip[2], 254]),
        }
    }
}

/// The objects but for the hosts, in an order in which they can be created.
pub fn objects() -> Vec<Json> {
    let switch = |id: &str, tenant: &str| json!({"kind": "switch", "id": id, "tenant": tenant});
    let router_port = |switch: &str, net: u8| {
        json!({
            "kind": "router_port", "id": format!("acme-{switch}"), "router": "acme", "switch": switch,
            "mac": format!("02:00:00:00:ff:{net:02x}"), "networks": [format!("10.0.{net}.254/24")],
        })
    };
    let mut objects = vec![
        switch("front", "acme"),
        switch("back", "acme"),
        switch("umbra", "umbra"),
        json!({"kind": "router", "id": "acme", "tenant": "acme"}),
        router_port("front", 0),
        router_port("back", 1),
    ];
    objects.extend(GUESTS.into_iter().map(|guest| {
        json!({
            "kind": "switch_port", "id": guest.name, "switch": guest.switch,
            "addresses": [{"mac": guest.mac(), "ips": [guest.ip().to_string()]}],
        })
    }));
    objects
}

/// An interface of each host that belongs to no object, so that the controller tells its id as it is in the host's database.
pub const PROBE: &str = "probe";

/// An ACL that each switch has, and with it each host. Its value changes flows of all hosts, so that all have something to confirm.
pub fn marks(value: u64) -> Vec<Json> {
    let mark = |switch: &str| {
        json!({
            "kind": "acl", "id": format!("mark-{switch}"), "switch": switch, "direction": "to_port", "priority": 10,
            "match": {"ip_proto": "udp", "tp_dst": 10_000 + value % 50_000}, "action": "drop",
        })
    };
    ["front", "back", "umbra"].map(mark).to_vec()
}
