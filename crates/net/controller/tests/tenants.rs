//! Callers with the role of a tenant: they see and change what belongs to their tenant, and learn nothing of the rest.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use controller::Parts;
use controller::tokens::{TokenFile, Tokens};
use mutual_tls::Role;
use serde_json::{Value as Json, json};
use tempfile::TempDir;
use test_random::Random;
use weft_core::Rules;

use crate::load::{add_gate, close};
use crate::support::drivers::Switches;
use crate::support::rules_of_text;
use crate::support::running::{Running, apply, parts, start_with, within};
use crate::support::web::{Answer, Web, next};

/// Two tenants with a switch, a port and a router each, and what belongs to nobody.
const NETWORK: &str = "
{kind: tenant, id: acme, ids: acme-}
---
{kind: tenant, id: umbra, ids: umbra-}
---
{kind: switch, id: blue, tenant: acme}
---
{kind: switch_port, id: b1, switch: blue, addresses: [{mac: '02:00:00:00:00:01', ips: [10.0.0.1]}]}
---
{kind: router, id: r, tenant: acme}
---
{kind: switch, id: red, tenant: umbra}
---
{kind: switch_port, id: r1, switch: red}
---
{kind: router, id: umbra-r, tenant: umbra}
---
{kind: address_group, id: umbra-nets, tenant: umbra, addresses: [10.0.0.0/8]}
---
{kind: switch, id: common}
---
{kind: switch_port, id: c1, switch: common}
---
{kind: transport_node, id: hv1, ip: 192.0.2.1, ovsdb: 'unix:/nowhere.sock', openflow: 'unix:/nowhere.mgmt'}
";

/// A controller with the built-in rules, the token of its operator, and those of two tenants.
pub(crate) struct Shared {
    _folder: TempDir,
    pub(crate) running: Running,
    web: Web,
    acme: String,
    umbra: String,
}

impl Shared {
    async fn start(network: &str) -> Shared {
        Shared::start_with(network, |_| ()).await
    }

    /// One that is made of other parts.
    pub(crate) async fn start_with(network: &str, change: impl FnOnce(&mut Parts)) -> Shared {
        let folder = tempfile::tempdir().unwrap();
        let (mut file, path) = (TokenFile::default(), folder.path().join("tokens.toml"));
        let now = SystemTime::now();
        let mut token = |tenant: &str| {
            let role = Role::Tenant(tenant.to_owned());
            let granted = file.create("ci", &role, now, now + Duration::from_hours(1)).unwrap();
            format!("Bearer {}", granted.text)
        };
        let [acme, umbra] = ["acme", "umbra"].map(&mut token);
        file.write(&path).unwrap();
        let (switches, rules) = (Switches::default(), Arc::new(Rules::built_in().unwrap()));
        let tokens = Some(Arc::new(Tokens::open(&path).unwrap()));
        let mut parts = Parts { tokens, ..parts(folder.path(), rules, &switches) };
        change(&mut parts);
        let running = start_with(parts, switches).await;
        apply(&mut running.client().await, network).await.unwrap();
        let web = running.web().await;
        Shared { _folder: folder, running, web, acme, umbra }
    }

    /// The answer to a request of acme.
    pub(crate) async fn acme(&mut self, method: &str, path: &str, body: &str) -> Answer {
        ask(&mut self.web, &self.acme, method, path, body).await
    }
}

async fn ask(web: &mut Web, token: &str, method: &str, path: &str, body: &str) -> Answer {
    let content = if method == "PATCH" { "application/merge-patch+json" } else { "application/yaml" };
    web.ask(method, path, &[("authorization", token), ("content-type", content)], body).await
}

/// The ids of a list.
fn ids(list: &Json) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect()
}

/// The messages of a refusal.
fn faults(answer: &Answer) -> Vec<String> {
    let faults = answer.json()["faults"].as_array().cloned().unwrap_or_default();
    faults.iter().map(|fault| fault["text"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_sees_its_own_objects_alone() {
    let mut shared = Shared::start(NETWORK).await;
    for (kinds, own) in [
        ("switches", vec!["blue"]),
        ("switch_ports", vec!["b1"]),
        ("routers", vec!["r"]),
        ("address_groups", vec![]),
        ("transport_nodes", vec![]),
        ("tenants", vec!["acme"]),
    ] {
        let list = shared.acme("GET", &format!("/v1/{kinds}"), "").await.expect(200);
        assert_eq!(ids(&list), own, "{kinds}");
    }
    shared.acme("GET", "/v1/switches/blue", "").await.expect(200);
    // A page says that more follows only if that is the tenant's.
    let page = shared.acme("GET", "/v1/switches?limit=1", "").await.expect(200);
    assert_eq!((ids(&page), page.get("continue")), (vec!["blue"], None), "{page}");
    shared.acme("PUT", "/v1/switches/acme-z", "{tenant: acme}").await.expect(201);
    let page = shared.acme("GET", "/v1/switches?limit=1", "").await.expect(200);
    let rest = page["continue"].as_str().unwrap();
    let rest = shared.acme("GET", &format!("/v1/switches?limit=1&continue={rest}"), "").await.expect(200);
    assert_eq!(
        (ids(&page), ids(&rest), rest.get("continue")),
        (vec!["acme-z"], vec!["blue"], None),
        "{rest}"
    );
    for (taken, free) in [("red", "rad"), ("common", "commen")] {
        let [taken, free] = [
            shared.acme("GET", &format!("/v1/switches/{taken}"), "").await.text.replace(taken, "X"),
            shared.acme("GET", &format!("/v1/switches/{free}"), "").await.text.replace(free, "X"),
        ];
        assert!(taken.contains("X does not exist"), "{taken}");
        assert_eq!(taken, free);
    }
    let status = shared.acme("GET", "/v1/status?nodes=hv1&tenant=umbra", "").await;
    assert!(status.status == 400 || !status.text.contains("umbra"), "{}", status.text);
    let status = shared.acme("GET", "/v1/status", "").await.expect(200);
    assert_eq!(status["tenants"][0]["tenant"], "acme", "{status}");
    for name in ["umbra", "red", "hv1", "c1"] {
        assert!(!status.to_string().contains(name), "{status}");
    }
    for path in ["/v1/transactions", "/v1/switches/blue/history", "/v1/network/tunnels"] {
        shared.acme("GET", path, "").await.expect(403);
    }
    shared.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_changes_its_own_objects_alone() {
    let mut shared = Shared::start(NETWORK).await;
    // Its own, and new ones with its ids.
    let document = "
{kind: switch, id: acme-green, tenant: acme}
---
{kind: switch_port, id: acme-g1, switch: acme-green}
---
{kind: router_port, id: acme-rp, router: r, switch: acme-green, mac: '02:00:00:00:ff:01', networks: [10.1.0.1/24]}
---
{kind: port_group, id: acme-all, tenant: acme, ports: [b1, acme-g1]}
---
{kind: acl, id: acme-no, port_group: acme-all, direction: to_port, priority: 1, action: drop}
---
{kind: switch_port, id: b1, switch: blue, enabled: false}
";
    shared.acme("POST", "/v1/apply", document).await.expect(200);
    shared.acme("PATCH", "/v1/switch_ports/acme-g1", r#"{"enabled": false}"#).await.expect(200);
    // Each of these is refused with what it says.
    for (document, why) in [
        ("{kind: switch, id: green, tenant: acme}", "id: must begin with `acme-`"),
        ("{kind: switch, id: common, tenant: acme}", "id: must begin with `acme-`"),
        ("{kind: switch, id: red, tenant: acme}", "id: must begin with `acme-`"),
        (
            "{kind: switch, id: acme-x, tenant: umbra}",
            "tenant: must say that the object belongs to tenant acme",
        ),
        ("{kind: switch, id: acme-x}", "tenant: must say that the object belongs to tenant acme"),
        ("{kind: switch, id: blue}", "tenant: must say that the object belongs to tenant acme"),
        ("{kind: switch_port, id: acme-x, switch: red}", "switch: switch red does not exist; apply it first"),
        ("{kind: switch_port, id: acme-x, switch: rad}", "switch: switch rad does not exist; apply it first"),
        (
            "{kind: switch_port, id: acme-x, switch: blue, parent: r1}",
            "parent: switch_port r1 does not exist",
        ),
        (
            "{kind: switch_port, id: acme-x, switch: blue, requested_hosts: [hv1]}",
            "requested_hosts[0]: transport_node hv1 does not exist",
        ),
        (
            "{kind: transport_node, id: acme-x, ip: 192.0.2.9}",
            "objects of this kind are those of operators; ask one",
        ),
        ("{kind: tenant, id: acme, ids: u}", "objects of this kind are those of operators; ask one"),
        ("{kind: switch, id: red, delete: true, revision: 5}", "the object does not exist any more"),
    ] {
        let answer = shared.acme("POST", "/v1/apply", document).await;
        let faults = faults(&answer);
        assert!(
            faults.len() == 1 && faults[0].contains(why),
            "{document}: {} {}",
            answer.status,
            answer.text
        );
    }
    let absent = shared.acme("POST", "/v1/apply", "{kind: switch, id: red, delete: true}").await.expect(200);
    assert_eq!(absent["objects"][0]["outcome"], "absent", "{absent}");
    for path in ["/v1/switches/red", "/v1/switches/rad", "/v1/switches/common", "/v1/tenants/acme"] {
        shared.acme("DELETE", path, "").await.expect(404);
        shared.acme("PATCH", path, r#"{"labels": {"a": "b"}}"#).await.expect(404);
    }
    // What it asks of the engine is in the metrics under its name.
    let metrics = shared.web.get("/metrics").await.text;
    let changes =
        metrics.lines().find_map(|line| line.strip_prefix("weft_tenant_changes_total{tenant=\"acme\"} "));
    assert!(
        changes.is_some_and(|changes| changes.parse::<u32>().is_ok_and(|changes| changes >= 2)),
        "{metrics}"
    );
    assert!(!metrics.contains("tenant=\"umbra\""), "{metrics}");
    // What it prunes is its own.
    shared.acme("POST", "/v1/apply?prune=true", "{kind: switch, id: blue, tenant: acme}").await.expect(200);
    for (kinds, left) in [
        ("switches", vec!["blue", "common", "red"]),
        ("switch_ports", vec!["c1", "r1"]),
        ("routers", vec!["umbra-r"]),
        ("tenants", vec!["acme", "umbra"]),
    ] {
        assert_eq!(ids(&shared.web.get(&format!("/v1/{kinds}")).await.expect(200)), left, "{kinds}");
    }
    shared.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_tells_a_tenant_how_many_objects_there_are() {
    let mut shared = Shared::start(NETWORK).await;
    let (token, name) = (shared.acme.clone(), "/v1/switches/acme-x");
    let headers = [("authorization", &*token), ("idempotency-key", "0123456789abcdef")];
    let made = shared.web.ask("PUT", name, &headers, "{\"tenant\": \"acme\"}").await.expect(201);
    let again = shared.web.ask("PUT", name, &headers, "{\"tenant\": \"acme\"}").await;
    assert_eq!(again.json()["repeated"], true, "{}", again.text);
    let deleted = shared.acme("DELETE", name, "").await.expect(200);
    for answer in [made, again.json(), deleted] {
        assert_eq!(answer["objects_before"], 0, "{answer}");
    }
    shared.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_without_ids_makes_nothing_and_an_id_of_its_own_can_be_taken() {
    let network = format!("{NETWORK}---\n{{kind: switch, id: acme-old}}\n---\n{{kind: tenant, id: plain}}");
    let mut shared = Shared::start(&network).await;
    let answer = shared.acme("PUT", "/v1/switches/acme-old", "{tenant: acme}").await;
    assert!(faults(&answer)[0].contains("id: is taken; choose another one"), "{}", answer.text);
    shared.web.ask("PATCH", "/v1/tenants/acme", &[], r#"{"ids": null}"#).await.expect(200);
    let answer = shared.acme("PUT", "/v1/switches/acme-new", "{tenant: acme}").await;
    assert!(faults(&answer)[0].contains("tenant acme has no ids for new objects"), "{}", answer.text);
    shared.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_reads_which_quota_it_would_exceed() {
    let mut shared = Shared::start(NETWORK).await;
    shared.web.ask("PATCH", "/v1/tenants/acme", &[], r#"{"quota": {"switch": 1}}"#).await.expect(200);
    let answer = shared.acme("PUT", "/v1/switches/acme-2", "{tenant: acme}").await;
    let told =
        "tenant acme: quota: allows 1 of switch, and there would be 2; delete some, or raise the quota";
    assert_eq!(faults(&answer), [told], "{}", answer.text);
    shared.running.stop().await;
}

/// Quotas of requests hold for callers with the role of the tenant, before anything of a request is read.
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_makes_as_many_and_as_large_changes_as_it_may() {
    let mut shared = Shared::start(NETWORK).await;
    let quota = |changes, bytes| format!(r#"{{"quota": {{"changes": {changes}, "change_bytes": {bytes}}}}}"#);
    shared.web.ask("PATCH", "/v1/tenants/acme", &[], &quota(0, 200)).await.expect(200);
    let refused = shared.acme("PUT", "/v1/switches/acme-2", "{tenant: acme}").await;
    assert_eq!(refused.status, 429, "{}", refused.text);
    assert!(!refused.header("retry-after").is_empty(), "{:?}", refused.headers);
    assert!(refused.text.contains("tenant acme may make 0 changes a second"), "{}", refused.text);
    let long = format!("{{tenant: acme, labels: {{note: {}}}}}", "a".repeat(200));
    let refused = shared.acme("PUT", "/v1/switches/acme-2", &long).await;
    assert_eq!(refused.status, 413, "{}", refused.text);
    assert!(
        refused.text.contains("tenant acme may send 200 (`change_bytes` of its quota)"),
        "{}",
        refused.text
    );
    // Neither counts for reads, for another tenant, or for an operator.
    shared.acme("GET", "/v1/switches/blue", "").await.expect(200);
    ask(&mut shared.web, &shared.umbra, "PUT", "/v1/switches/umbra-2", "{tenant: umbra}").await.expect(201);
    shared.web.ask("PATCH", "/v1/tenants/acme", &[], &quota(1000, 100_000)).await.expect(200);
    shared.acme("PUT", "/v1/switches/acme-2", &long).await.expect(201);
    shared.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_go_to_another_tenant_with_their_switch() {
    let mut shared = Shared::start(NETWORK).await;
    shared.web.ask("PATCH", "/v1/switches/common", &[], r#"{"tenant": "acme"}"#).await.expect(200);
    assert_eq!(ids(&shared.acme("GET", "/v1/switch_ports", "").await.expect(200)), ["b1", "c1"]);
    shared.web.ask("PATCH", "/v1/switches/common", &[], r#"{"tenant": "umbra"}"#).await.expect(200);
    assert_eq!(ids(&shared.acme("GET", "/v1/switch_ports", "").await.expect(200)), ["b1"]);
    let theirs = ask(&mut shared.web, &shared.umbra, "GET", "/v1/switch_ports", "").await.expect(200);
    assert_eq!(ids(&theirs), ["c1", "r1"]);
    shared.running.stop().await;
}

/// What operators have attached to a tenant's objects is not named to the tenant.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_name_nothing_that_belongs_to_others() {
    let network = format!(
        "{NETWORK}---
{{kind: router, id: edge}}
---
{{kind: router_port, id: edge-blue, router: edge, switch: blue, mac: '02:00:00:00:ff:09', networks: [10.0.0.254/24]}}
---
{{kind: localnet_port, id: secret, switch: common, physical_network: lab, tag: 7}}
"
    );
    let mut shared = Shared::start(&network).await;
    for (method, path, body) in [
        ("DELETE", "/v1/switches/blue", ""),
        ("PUT", "/v1/switch_ports/b1", "{switch: blue, addresses: [{mac: '02:00:00:00:ff:09'}]}"),
        (
            "PUT",
            "/v1/switch_ports/b1",
            "{switch: blue, addresses: [{mac: '02:00:00:00:00:01', ips: [10.0.0.254]}]}",
        ),
        ("PUT", "/v1/localnet_ports/acme-l", "{switch: blue, physical_network: lab, tag: 7}"),
    ] {
        let answer = shared.acme(method, path, body).await;
        assert!(answer.status.is_client_error(), "{path} {body}: {}", answer.text);
        for name in ["edge", "secret", "common"] {
            assert!(!answer.text.contains(name), "{path} {body}: {}", answer.text);
        }
        assert!(
            answer.text.contains("not of tenant acme; ask an operator"),
            "{path} {body}: {}",
            answer.text
        );
    }
    shared.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_watches_its_own_objects_alone() {
    let mut shared = Shared::start(NETWORK).await;
    let mut watching = shared.running.web().await;
    let headers = [("authorization", &*shared.acme)];
    let mut body = watching.open("GET", "/v1/switches?watch=true", &headers, "").await.into_body();
    let mut told = String::from_utf8(next(&mut body).await.unwrap()).unwrap();
    for (name, tenant) in [("umbra-new", "umbra"), ("acme-new", "acme"), ("common", "acme")] {
        let object = format!("{{\"tenant\": \"{tenant}\"}}");
        shared.web.put(&format!("/v1/switches/{name}"), &object).await;
    }
    // One that comes from another tenant is new to this one, and one that goes to another is gone.
    shared.web.patch("/v1/switches/blue", r#"{"tenant": "umbra"}"#).await.expect(200);
    while !told.contains("\"deleted\"") {
        told += &String::from_utf8(next(&mut body).await.unwrap()).unwrap();
    }
    let events: Vec<Json> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let events = events.iter().filter(|event| event["type"] != "bookmark");
    let events: Vec<_> = events.map(|event| (&event["type"], &event["object"]["id"])).collect();
    let [created, deleted] = [json!("created"), json!("deleted")];
    let [new, common, blue] = ["acme-new", "common", "blue"].map(|id| json!(id));
    assert_eq!(events, [(&created, &new), (&created, &common), (&deleted, &blue)]);
    shared.running.stop().await;
}

/// Kinds of which problems and states name objects of other tenants.
const SITES: &str = r#"
object node { }
output table switch_address(hv: ref node, ovsdb: opt<string>, openflow: opt<string>, datapath_type: opt<string>) key(hv);
output table of_flow(hv: string, table_id: int, priority: int, match: match, actions: actions)
    key(hv, table_id, priority, match);
object site { tenant: opt<string>; limit: int = 0; }
table belongs_by(kind: string, field: string) key(kind, field);
belongs_by("site", "tenant");
output table problem(kind: string, id: string, code: string, text: string);
problem("site", site, "crowded", "shares its limit with site " ++ other) :-
    site(id: site, limit: limit, ..),
    site(id: other, limit: limit, ..),
    site != other;
state table shared(site: ref site, with: string) key(site);
shared(site, max("it is with site " ++ other)) :-
    site(id: site, limit: limit, ..),
    site(id: other, limit: limit, ..),
    site != other;
"#;

#[tokio::test(flavor = "multi_thread")]
async fn states_and_problems_name_nothing_that_belongs_to_others() {
    let network = "
{kind: site, id: a, tenant: acme, limit: 1}
---
{kind: site, id: b, tenant: acme, limit: 1}
---
{kind: site, id: c, tenant: acme, limit: 2}
---
{kind: site, id: secret, tenant: umbra, limit: 2}
";
    let mut shared = Shared::start_with(network, |parts| parts.rules = rules_of_text(SITES)).await;
    let own = shared.acme("GET", "/v1/sites/a", "").await.expect(200);
    assert_eq!(own["state"]["with"], "it is with site b", "{own}");
    assert_eq!(own["state"]["problems"], json!(["shares its limit with site b"]), "{own}");
    let hidden = "concerns objects that are not of tenant acme too; ask an operator";
    let others = shared.acme("GET", "/v1/sites/c", "").await.expect(200);
    assert_eq!((&others["state"]["with"], &others["state"]["problems"]), (&json!(hidden), &json!([hidden])));
    for path in ["/v1/sites", "/v1/status"] {
        let text = shared.acme("GET", path, "").await.text;
        assert!(text.contains(hidden) && !text.contains("secret"), "{path}: {text}");
    }
    shared.running.stop().await;
}

/// A storm of one tenant while the engine is busy: what exceeds its queue is refused, with the time to wait. The change of another
/// tenant is made, and those that wait follow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_one_tenant_is_told_to_wait_and_others_go_on() {
    /// As many as a tenant may have waiting.
    const WAITING: usize = 256;
    const MORE: usize = 40;
    let gate = Arc::new(OnceLock::new());
    let there = gate.clone();
    let shared = Shared::start_with(NETWORK, |parts| there.set(add_gate(parts).0).unwrap()).await;
    let closed = close(gate.get().unwrap().clone()).await;
    let mut storm = tokio::task::JoinSet::new();
    for number in 0..WAITING + MORE {
        let (mut web, token) = (shared.running.web().await, shared.acme.clone());
        storm.spawn(async move {
            ask(&mut web, &token, "PUT", &format!("/v1/switches/acme-{number}"), "{tenant: acme}").await
        });
    }
    for _ in 0..MORE {
        let refused = within(storm.join_next()).await.unwrap().unwrap();
        assert_eq!(refused.status, 429, "{}", refused.text);
        assert!(!refused.header("retry-after").is_empty(), "{:?}", refused.headers);
        assert!(refused.text.contains("256 changes of tenant acme wait already"), "{}", refused.text);
    }
    let (mut web, token) = (shared.running.web().await, shared.umbra.clone());
    let quiet = tokio::spawn(async move {
        ask(&mut web, &token, "PUT", "/v1/switches/umbra-quiet", "{tenant: umbra}").await
    });
    closed.open();
    within(quiet).await.unwrap().expect(201);
    within(storm.join_next()).await.unwrap().unwrap().expect(201);
    storm.abort_all();
    shared.running.stop().await;
}

/// Objects of others: so many requests.
fn others(random: &mut Random, count: u64) -> Vec<String> {
    let one = |number: u64| {
        let owner = random.pick(&["", ", tenant: umbra", ", tenant: third"]).to_owned();
        // Acme asks for these names, too.
        let id = random.pick(&["red", "green", "umbra-s", "common"]).to_owned();
        match random.below(4) {
            0 => format!("{{kind: router, id: {id}{owner}}}"),
            1 => format!("{{kind: address_group, id: {id}{owner}, addresses: [10.0.{number}.0/24]}}"),
            2 => format!("{{kind: tenant, id: {id}, ids: {id}-}}"),
            _ => format!(
                "{{kind: switch, id: {id}-{number}{owner}}}\n---\n{{kind: switch_port, id: {id}, switch: {id}-{number}}}"
            ),
        }
    };
    (0..count).map(one).collect()
}

/// A request of acme: method, path and body.
fn request(random: &mut Random) -> (&'static str, String, String) {
    const IDS: [&str; 8] = ["red", "green", "umbra-s", "common", "blue", "acme-1", "acme-2", "b1"];
    let (id, other) = (*random.pick(&IDS), *random.pick(&IDS));
    let kinds = *random.pick(&["switches", "routers", "address_groups", "switch_ports", "tenants"]);
    let object = match random.below(6) {
        0 => format!("kind: switch, id: {id}, tenant: acme"),
        1 => format!("kind: router, id: {id}, tenant: acme"),
        2 => format!("kind: address_group, id: {id}, tenant: acme, addresses: [10.0.0.0/8]"),
        3 => {
            format!("kind: switch_port, id: {id}, switch: {other}, addresses: [{{mac: '02:00:00:00:00:01'}}]")
        }
        4 => format!("kind: port_group, id: {id}, ports: [{other}]"),
        _ => format!("kind: switch, id: {id}, delete: true"),
    };
    match random.below(7) {
        6 => ("POST", "/v1/trace".to_owned(), format!(r#"{{"from": "{id}", "to": "{other}", "tcp": 80}}"#)),
        0 => ("GET", format!("/v1/{kinds}?limit={}", random.below(3)), String::new()),
        1 => ("GET", format!("/v1/{kinds}/{id}"), String::new()),
        2 => ("DELETE", format!("/v1/{kinds}/{id}"), String::new()),
        3 => ("PATCH", format!("/v1/{kinds}/{id}"), r#"{"labels": {"a": "b"}}"#.to_owned()),
        4 => ("POST", "/v1/apply?dry_run=true".to_owned(), format!("{{{object}}}")),
        _ => ("POST", "/v1/apply".to_owned(), format!("{{{object}}}")),
    }
}

/// An answer without the revision of a list, which begins with the time of a controller's start, and the times of problems.
pub(crate) fn comparable(answer: &Answer) -> (u16, Json) {
    let mut body = answer.json();
    if let Some(revision) = body.get_mut("revision").filter(|revision| revision.is_u64()) {
        *revision = json!("…");
    }
    for problem in body.get_mut("problems").and_then(Json::as_array_mut).into_iter().flatten() {
        if let Some(since) = problem.get_mut("since") {
            *since = json!("…");
        }
    }
    (answer.status.as_u16(), body)
}

/// A controller with the same objects of acme, and others of others. It has made this many transactions.
async fn beside(random: &mut Random, transactions: u64) -> Shared {
    const BASE: &str = "{kind: tenant, id: acme, ids: acme-}\n---\n{kind: switch, id: blue, tenant: acme}\n---\n\
        {kind: switch_port, id: b1, switch: blue}";
    let shared = Shared::start(BASE).await;
    let mut client = shared.running.client().await;
    for object in others(random, transactions / 2) {
        // Some contradict each other, which leaves them out.
        let _ = apply(&mut client, &object).await;
    }
    for number in client.status().await.unwrap().last_txn..transactions {
        apply(&mut client, &format!("{{kind: switch, id: filler-{number}}}")).await.unwrap();
    }
    shared
}

/// Two controllers with the same objects of acme and different ones of others give acme the same answers, byte for byte.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_tenant_learns_depends_on_its_own_objects_alone() {
    for seed in test_random::seeds!("what_a_tenant_learns_depends_on_its_own_objects_alone", 4) {
        let mut random = Random::new(seed);
        let mut controllers = [beside(&mut random, 24).await, beside(&mut random, 24).await];
        for _ in 0..60 {
            let (method, path, body) = request(&mut random);
            let mut answers = Vec::new();
            for shared in &mut controllers {
                answers.push(comparable(&shared.acme(method, &path, &body).await));
            }
            assert_eq!(answers[0], answers[1], "seed {seed}: {method} {path} {body}");
        }
        for shared in controllers {
            shared.running.stop().await;
        }
    }
}
