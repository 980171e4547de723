//! `weft get all`: what is exported is the whole network.

use crate::routes::Controller;
use crate::support::root;

/// Networks with routers, routes, ACLs and groups.
const NETWORKS: [&str; 4] = ["three-tiers", "filtered-tiers", "large-group", "ecmp"];

fn lines(controller: &Controller) -> Vec<String> {
    let json = controller.weft(&["get", "all", "--json"]);
    json.has_status(0).stdout.lines().map(str::to_owned).collect()
}

#[test]
fn o1_all_objects_are_exported_and_can_be_applied_elsewhere() {
    let here = Controller::start();
    for network in NETWORKS {
        let file = root().join(format!("examples/{network}.yaml"));
        here.weft(&["apply", "-f", file.to_str().unwrap()]).has_status(0);
    }
    let exported = here.weft(&["get", "all"]);
    let there = Controller::start();
    there.folder.write("network.yaml", &exported.has_status(0).stdout);
    let file = there.folder.path("network.yaml");
    there.weft(&["apply", "-f", file.to_str().unwrap()]).has_status(0);
    let objects = lines(&here);
    assert_eq!(lines(&there), objects);
    let is_there = |kind: &str| objects.iter().any(|object| object.contains(&format!("\"kind\":\"{kind}\"")));
    for kind in ["switch", "switch_port", "router", "router_port", "route", "acl", "address_group"] {
        assert!(is_there(kind), "{kind}");
    }
    // Nothing is left out: a second application changes nothing.
    let again = there.weft(&["apply", "-f", file.to_str().unwrap(), "--prune", "--json"]);
    let answer: serde_json::Value = serde_json::from_str(&again.has_status(0).stdout).unwrap();
    let outcomes = answer["objects"].as_array().unwrap().iter().map(|object| &object["outcome"]);
    assert!(
        outcomes.clone().all(|outcome| outcome == "unchanged") && outcomes.count() == objects.len(),
        "{answer}"
    );
    let with_id = here.weft(&["get", "all", "blue"]);
    assert!(with_id.has_status(2).stderr.contains("takes no id"), "{}", with_id.stderr);
}
