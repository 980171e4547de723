//! What is derived from kinds: JSON Schema and documentation.

use nlog_data::{Type, Value};
use objects::Kinds;
use serde_json::json;

use crate::support::json_schema::accepts;
use crate::support::{built_in, constrained, field, kind};

#[test]
fn the_schema_says_what_a_document_can_have() {
    let schema = built_in().json_schema();
    let port = &schema["$defs"]["switch_port"]["else"];
    assert_eq!(port["required"], json!(["switch"]));
    assert_eq!(
        port["properties"]["port_security"],
        json!({"type": ["boolean", "null"], "default": false, "description": "The port_security."})
    );
    assert_eq!(port["properties"]["tag"]["maximum"], json!(4094));
    assert_eq!(port["properties"]["addresses"]["items"]["required"], json!(["mac"]));
    let good = [
        json!({"kind": "switch", "id": "a", "labels": {"a": "b"}, "state": {"x": 1}}),
        json!({"kind": "switch", "id": "a", "delete": true, "bogus": 1}),
        json!({"kind": "switch", "id": "a", "revision": 7}),
        json!({"kind": "switch", "id": "a", "delete": true, "revision": 0}),
        json!({"kind": "switch", "id": "a", "delete": false, "tenant": null}),
        json!({"kind": "transport_node", "id": "a", "ip": "10.0.0.1", "role": "gateway"}),
        json!({"kind": "transport_node", "id": "a", "ip": "10.0.0.1", "roles": ["gateway"], "bridge_mappings": {"a": "b"}}),
        json!({"kind": "localnet_port", "id": "a", "switch": "s", "network": "n", "tag": 0}),
        json!({"kind": "transport_zone", "id": "a", "mtu": 1500.0}),
    ];
    for document in good {
        assert!(accepts(&schema, &document), "{document}");
    }
    let bad = [
        json!({"kind": "router", "id": "a"}),
        json!({"kind": "switch"}),
        json!({"kind": "switch", "id": " a"}),
        json!({"kind": "switch", "id": "a", "delete": "yes"}),
        json!({"kind": "switch", "id": "a", "revision": -1}),
        json!({"kind": "switch", "id": "a", "delete": true, "revision": "x"}),
        json!({"kind": "switch", "id": "a", "bogus": 1}),
        json!({"kind": "switch", "id": "a", "labels": {"a": 1}}),
        json!({"kind": "transport_node", "id": "a", "ip": "10.0.0.1", "roles": "gateway"}),
        json!({"kind": "transport_node", "id": "a", "ip": "10.0.0.1", "roles": ["gateway"], "role": "gateway"}),
        json!({"kind": "localnet_port", "id": "a", "switch": "s"}),
        json!({"kind": "localnet_port", "id": "a", "switch": "s", "network": "n", "physical_network": "n"}),
        json!({"kind": "transport_zone", "id": "a", "mtu": 1279}),
        json!({"kind": "switch_port", "id": "a", "switch": "s", "addresses": [{"ips": []}]}),
        json!({"kind": "switch_port", "id": "a", "switch": "s", "addresses": [{"mac": "02:0", "ips": []}]}),
    ];
    for document in bad {
        assert!(!accepts(&schema, &document), "{document}");
    }
}

#[test]
fn the_page_describes_every_kind() {
    let page = built_in().markdown();
    let section = page.split("\n## ").find(|section| section.starts_with("switch_port\n")).unwrap();
    let wanted = "switch_port

Some switch_port.

| field | value | default | meaning |
|---|---|---|---|
| `switch` | the id of a [`switch`](#switch) | required | The switch. |
| `addresses` | a list; each element: a mapping of fields (`mac`: a MAC address; `ips` (optional): a list; each element: an IP address) | `[]` | The addresses. |
| `port_security` | `true` or `false` | `false` | The port_security. |
| `unknown_addresses` | `true` or `false` | `false` | The unknown_addresses. |
| `parent` | the id of a [`switch_port`](#switch_port) | none | The parent. |
| `tag` | a number from 1 to 4094 | none | The tag. |

- Its `id` is a port id: no [`localnet_port`](#localnet_port) has the same.
- No two with the same `switch` have the same `addresses.mac`.
- No two with the same `switch` have the same `addresses.ips`.
- No two with the same `parent` have the same `tag`.
- Errors of `addresses.mac`: “must be unicast (first byte even)”, “must not be the null address”.
- Errors of `addresses.ips`: “must not be a multicast or broadcast address”, “must not be the unspecified address”, “must not be an IPv4-mapped address; write the IPv4 address”, “must not be a loopback address, which other hosts cannot reach”.
";
    assert_eq!(section, wanted);
    for line in [
        "| [`switch`](#switch) | Some switch |",
        "| `roles` | a list; each element: `hypervisor`, `gateway` or `service_node` | `[hypervisor]` | The roles. Formerly `role`, which also takes one value alone. |",
        "| `physical_network` | a text | required | The physical_network. Formerly `network`. |",
        "- No two have the same `ip`.",
        "- Errors of `physical_network`: “must consist of letters, digits and - _ . : @ and begin with a letter or a digit”.",
    ] {
        assert!(page.lines().any(|found| found == line), "{line}\n{page}");
    }
}

#[test]
fn a_cell_of_the_page_is_one_line() {
    let odd = |value: &Value| *value == Value::Int(1);
    let ty = constrained("odd", Type::Int, None, &[("must be 1 |\n2", odd)]);
    let mut own = field("n", ty, Some(Value::Int(1)));
    own.doc = "One\n\nor | two.".to_owned();
    let page = Kinds::new(vec![kind("thing", "thing", vec![own], &[])]).markdown();
    assert!(page.contains("| `n` | a whole number | `1` | One or \\| two. |\n"), "{page}");
    assert!(page.ends_with("\n- Errors of `n`: “must be 1 | 2”.\n"), "{page}");
    let none = Kinds::new(vec![kind("thing", "thing", Vec::new(), &[])]).markdown();
    assert!(none.ends_with("## thing\n\nSome thing.\n\nIt has no fields of its own.\n"), "{none}");
}
