//! `weft status --tenant`: what of a tenant is not up, and why.

use serde_json::{Value, json};

use crate::get::{apply, controller};

const ACME: &str = "
{kind: switch, id: web, tenant: acme}
---
{kind: desk, id: w1, switch: web}
---
{kind: desk, id: w2, switch: web, below: hv2}
---
{kind: router, id: edge, tenant: acme}
---
{kind: router_port, id: edge-web, router: edge, switch: web, mac: '02:00:00:00:ff:02', networks: [10.0.1.254/24]}
---
{kind: switch, id: empty, tenant: umbra}
";

#[test]
fn a_tenant_is_told_down_to_the_reasons() {
    let controller = controller();
    apply(&controller, ACME);
    let status = |arguments: &[&str]| controller.weft(&[&["status", "--tenant"], arguments].concat());
    let tree = "\
tenant acme: not up: 0 of 2 are
    router edge: not up: 0 of 1 are
        router_port edge-web: not up: no member of switch web is up
    switch web: not up: 0 of 2 are
        desk w1: not up: no host has it
        desk w2: not up: hv2 has no switch that is managed
";
    assert_eq!(status(&["acme"]).has_status(0).stdout, tree);
    assert_eq!(status(&["acme", "--check"]).has_status(4).stdout, tree);
    assert_eq!(status(&["umbra", "--check"]).has_status(0).stdout, "tenant umbra: up\n");

    let told: Value = serde_json::from_str(&status(&["acme", "--json"]).has_status(0).stdout).unwrap();
    assert_eq!(
        (&told["tenant"], &told["up"], &told["members_up"]),
        (&json!("acme"), &json!(false), &json!(0))
    );
    let desk = json!({"kind": "desk", "id": "w1", "up": false, "why": ["no host has it"]});
    assert_eq!(told["not_up"][1]["not_up"][0], desk);
    let all: Value =
        serde_json::from_str(&controller.weft(&["status", "--json"]).has_status(0).stdout).unwrap();
    let tenants = all["tenants"].as_array().unwrap().iter().map(|tenant| tenant["tenant"].as_str());
    assert_eq!(tenants.collect::<Vec<_>>(), [Some("acme"), Some("umbra")]);

    // Of many that are not up, the first are named.
    let desks: Vec<String> =
        (1..=5).map(|number| format!("{{kind: desk, id: w{number}, switch: web}}")).collect();
    apply(&controller, &desks.join("\n---\n"));
    assert!(
        status(&["acme"]).stdout.contains("        desk w3: not up: no host has it\n        and 2 more\n")
    );

    let nobody = status(&["nobody"]);
    assert_eq!(nobody.has_status(1).stderr, "error: no object has tenant `nobody`\n");
    status(&["acme", "--drops"]).has_status(2);
}
