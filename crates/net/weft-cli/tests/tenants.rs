//! Tenants: what of them is not up, their quotas, and what a caller with their role may do.

use serde_json::{Value, json};

use crate::get::{apply, controller};
use crate::support::Folder;
use crate::support::controller::Controller;

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

#[test]
fn a_quota_refuses_with_what_is_allowed_and_what_uses_it() {
    let controller = controller();
    apply(&controller, ACME);
    let quota = "
{kind: tenant, id: acme, quota: {switch: 2, router_port: 1, localnet_port: 1, flows: 1}, physical_networks: [lab, office]}
---
{kind: switch, id: more, tenant: acme}
";
    apply(&controller, quota);
    let refused = |text: &str, wanted: &str| {
        controller.folder.write("refused.yaml", text);
        let file = controller.folder.path("refused.yaml").display().to_string();
        let outcome = controller.weft(&["apply", "--yes", "-f", &file]);
        assert!(outcome.has_status(1).stderr.contains(wanted), "{wanted}\nis not in\n{}", outcome.stderr);
    };
    refused(
        "{kind: switch, id: third, tenant: acme}",
        "tenant acme: quota: allows 2 of switch, and there would be 3; delete some, or raise the quota",
    );
    refused(
        "{kind: router_port, id: edge-more, router: edge, switch: more, mac: '02:00:00:00:ff:03', networks: [10.0.2.254/24]}",
        "quota: allows 1 of router_port, and there would be 2; edge has 2 of them; delete some, or raise the quota",
    );
    refused(
        "{kind: localnet_port, id: uplink, switch: more, physical_network: dc}",
        "physical_network: dc is not one of the physical networks of tenant acme (lab, office); use one of these, or add it to \
         `physical_networks` of the tenant",
    );
    refused("{kind: tenant, id: acme, quota: {switches: 1}}", "switch");
    apply(&controller, "{kind: localnet_port, id: uplink, switch: more, physical_network: lab}");
    // What one gives up, another can have.
    apply(
        &controller,
        "{kind: switch, id: third, tenant: acme}\n---\n{kind: switch, id: more, tenant: umbra}",
    );

    let got = controller.weft(&["get", "tenant", "acme", "--json"]);
    let got: Value = serde_json::from_str(&got.has_status(0).stdout).unwrap();
    let told: Vec<&str> =
        got["state"]["used"].as_array().unwrap().iter().map(|used| used.as_str().unwrap()).collect();
    let [flows, objects @ ..] = &told[..] else { panic!("{got}") };
    // How many flows a switch has is the rules' business. That they are more than the quota is a problem, not a refusal.
    assert!(flows.starts_with("flows: ") && flows.ends_with(" of 1"), "{got}");
    assert_eq!(objects, ["localnet_port: 0 of 1", "router_port: 1 of 1", "switch: 2 of 2"], "{got}");
    let problem = got["state"]["problems"][0].as_str().unwrap_or_default();
    assert!(problem.starts_with("the quota allows 1 flows, and there are "), "{got}");
    // The status of a declared tenant is that of one that objects only name.
    let status = controller.weft(&["status", "--tenant", "acme"]);
    assert!(status.has_status(0).stdout.starts_with("tenant acme: not up: "), "{}", status.stdout);
    let unowned = controller.weft(&["delete", "tenant", "acme", "--yes"]);
    unowned.has_status(0);
    assert!(
        controller.weft(&["status", "--tenant", "acme"]).has_status(0).stdout.starts_with("tenant acme: ")
    );
}

/// What somebody with this token gets from a command: its exit status, standard output and errors.
fn as_tenant(folder: &Folder, token: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = folder.command(arguments);
    command.env("WEFT_CONTROLLER", Controller::endpoint(folder)).env("WEFT_TOKEN", token);
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn a_tenant_uses_weft_for_its_own_objects() {
    let folder = Folder::new();
    let grant = ["token", "create", "carol", "--role", "tenant", "--tenant", "acme", "--file", "tokens.toml"];
    let token = folder.weft(&grant).has_status(0).stdout.trim().to_owned();
    let mut controller =
        Controller::start_with(&folder, "tenants = \"declared\"\ntokens = \"tokens.toml\"\n");
    let mut operator = controller.client(&folder).await;
    let document = |text: &str| [("test".to_owned(), text.to_owned())];
    let refused = operator.apply(document("{kind: switch, id: s, tenant: acne}"), "test").await.unwrap_err();
    assert!(refused.to_string().contains("tenant acne is not declared"), "{refused}");
    let declared = "{kind: tenant, id: acme, ids: acme-}\n---\n{kind: switch, id: other}";
    operator.apply(document(declared), "test").await.unwrap();

    let carol = |arguments: &[&str]| as_tenant(&folder, &token, arguments);
    folder.write("acme.yaml", "{kind: switch, id: acme-s, tenant: acme}");
    let (code, created, error) = carol(&["apply", "-f", "acme.yaml", "--wait"]);
    assert_eq!((code, &*created), (Some(0), "switch acme-s: created\n"), "{error}");
    // What has changed nothing waits for the last transaction of the tenant.
    let (code, same, error) = carol(&["apply", "-f", "acme.yaml", "--wait"]);
    assert_eq!((code, &*same), (Some(0), "switch acme-s: unchanged\n"), "{error}");
    assert_eq!(carol(&["get", "switches", "-o", "name"]).1, "switch/acme-s\n");
    assert_eq!(carol(&["get", "switch", "other"]).2, "error: switch other does not exist\n");
    let (code, status, _) = carol(&["status"]);
    assert!(code == Some(0) && status.contains("last transaction 2"), "{status}");
    let (code, _, error) = carol(&["get", "tunnels"]);
    assert_eq!(code, Some(1));
    assert!(
        error.contains(
            "carol (tenant:acme) may read and change objects of the tenant and trace packets from its ports, and nothing else"
        ),
        "{error}"
    );
    let (code, _, error) = carol(&["delete", "switch", "other", "--yes"]);
    assert_eq!((code, &*error), (Some(1), "error: switch other: does not exist\n"));
    controller.kill();
}

#[tokio::test]
async fn a_tenant_traces_packets_with_weft() {
    let folder = Folder::new();
    let grant = ["token", "create", "carol", "--role", "tenant", "--tenant", "acme", "--file", "tokens.toml"];
    let token = folder.weft(&grant).has_status(0).stdout.trim().to_owned();
    let mut controller = Controller::start_with(&folder, "tokens = \"tokens.toml\"\n");
    let mut operator = controller.client(&folder).await;
    let network = "
{kind: switch, id: s, tenant: acme}
---
{kind: switch_port, id: p1, switch: s, addresses: [{mac: '02:00:00:00:00:01', ips: [10.0.0.1]}]}
---
{kind: switch_port, id: p2, switch: s, addresses: [{mac: '02:00:00:00:00:02', ips: [10.0.0.2]}]}
---
{kind: switch, id: other}
---
{kind: switch_port, id: o1, switch: other, addresses: [{mac: '02:00:00:00:00:03', ips: [10.0.0.3]}]}
";
    operator.apply([("test".to_owned(), network.to_owned())], "test").await.unwrap();
    let carol = |arguments: &[&str]| as_tenant(&folder, &token, arguments);
    let (code, text, _) = carol(&["trace", "p1", "--to", "p2"]);
    assert_eq!(code, Some(1), "{text}");
    let packet = "icmp,dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02,nw_src=10.0.0.1,nw_dst=10.0.0.2";
    assert!(text.starts_with("dropped: port p1 is not attached to any host\n"), "{text}");
    assert!(text.contains(&format!("packet from p1: {packet}")), "{text}");
    let (code, object, _) = carol(&["trace", "p1", "--to", "p2", "--json"]);
    let object: Value = serde_json::from_str(&object).unwrap();
    assert_eq!((code, &object["limited_to"]), (Some(1), &json!("tenant acme")), "{object}");
    assert_eq!(object["dropped"][0]["why"], "port p1 is not attached to any host", "{object}");
    let of_others = carol(&["trace", "o1", "--to", "p1"]);
    let unknown = carol(&["trace", "o9", "--to", "p1"]);
    assert_eq!(of_others.2, "error: tenant acme has no port \"o1\"; name one of its ports\n");
    assert_eq!((of_others.0, of_others.2.replace("o1", "o9")), (unknown.0, unknown.2));
    let (code, _, error) = carol(&["trace", "p1", "--to", "p2", "--live"]);
    assert!(code == Some(1) && error.contains("need the role viewer"), "{error}");
    controller.kill();
}

#[test]
fn the_tenant_of_a_token_is_given_with_its_role() {
    let folder = Folder::new();
    let create = |arguments: &[&str]| folder.weft(&[&["token", "create", "carol"], arguments].concat());
    let without = create(&["--role", "tenant"]);
    assert!(without.has_status(2).stderr.contains("--tenant <TENANT>"), "{without:?}");
    let other = create(&["--role", "viewer", "--tenant", "acme"]);
    assert!(
        other.has_status(2).stderr.contains("use --role tenant, or leave out --tenant acme"),
        "{other:?}"
    );
    create(&["--role", "tenant", "--tenant", "acme"]).has_status(0);
    let listed = folder.weft(&["token", "list"]);
    assert!(listed.has_status(0).stdout.contains("tenant:acme"), "{listed:?}");
}
