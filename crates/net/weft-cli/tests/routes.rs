//! `weft get routes`, asked of a controller without hosts.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Folder, Outcome};

/// Two routers on a transit switch. Of the routes of `r`, one is shadowed, one has a next hop that nobody has, and one leads
/// nowhere.
const NETWORK: &str = "
{kind: switch, id: blue}
---
{kind: switch, id: transit}
---
{kind: switch_port, id: b2, switch: blue, addresses: [{mac: '02:00:00:00:00:02', ips: [10.0.1.2, 'fd01::2']}]}
---
{kind: router, id: r}
---
{kind: router, id: far}
---
{kind: router_port, id: r-blue, router: r, switch: blue, mac: '02:00:00:00:ff:01', networks: [10.0.1.1/24, 'fd01::1/64']}
---
{kind: router_port, id: r-transit, router: r, switch: transit, mac: '02:00:00:00:ff:03', networks: [192.168.0.1/30]}
---
{kind: router_port, id: far-transit, router: far, switch: transit, mac: '02:00:00:00:ff:04', networks: [192.168.0.2/30]}
---
{kind: route, id: r-same, router: r, destination: 10.0.1.0/24, next_hops: [192.168.0.2]}
---
{kind: route, id: r-some, router: r, destination: 198.51.100.0/24, next_hops: [10.0.1.9, 10.0.1.2]}
---
{kind: route, id: r-hole, router: r, destination: 198.51.100.128/25, discard: true}
---
{kind: route, id: r-far, router: r, destination: 0.0.0.0/0, next_hops: [10.9.9.9]}
---
{kind: route, id: r-six, router: r, destination: '::/0', next_hops: ['fd01::2']}
";

/// A controller that ends with its test.
pub(crate) struct Controller {
    pub(crate) folder: Folder,
    daemon: Child,
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

impl Controller {
    pub(crate) fn start() -> Controller {
        Controller::start_in(Folder::new(), "")
    }

    /// A controller in a folder, with these lines in its configuration.
    pub(crate) fn start_in(folder: Folder, configuration: &str) -> Controller {
        let listen = format!("unix:{}", folder.path("weft.sock").display());
        folder.write("weft.toml", format!("state = \"state\"\nlisten = \"{listen}\"\n{configuration}"));
        let daemon = Controller::launched(&folder);
        let controller = Controller { folder, daemon };
        controller.wait();
        controller
    }

    fn launched(folder: &Folder) -> Child {
        let mut daemon = folder.command(&["controller", "--config", "weft.toml"]);
        daemon.stderr(Stdio::null()).spawn().unwrap()
    }

    /// Waits until it answers.
    fn wait(&self) {
        let deadline = Instant::now() + Duration::from_mins(1);
        while self.weft(&["get", "status"]).status != Some(0) {
            assert!(Instant::now() < deadline, "the controller does not start");
        }
    }

    /// Kills it, and starts it again with its state.
    pub(crate) fn restart(&mut self) {
        self.daemon.kill().unwrap();
        self.daemon.wait().unwrap();
        self.daemon = Controller::launched(&self.folder);
        self.wait();
    }

    /// Where it answers, for `--controller`.
    pub(crate) fn address(&self) -> String {
        format!("unix:{}", self.folder.path("weft.sock").display())
    }

    pub(crate) fn weft(&self, arguments: &[&str]) -> Outcome {
        self.folder.weft(&[arguments, &["--controller", &self.address()]].concat())
    }
}

#[test]
fn the_routes_of_a_router_are_shown_with_where_packets_leave_or_why_they_do_not() {
    let controller = Controller::start();
    controller.folder.write("network.yaml", NETWORK);
    let network = controller.folder.path("network.yaml");
    controller.weft(&["apply", "-f", network.to_str().unwrap()]).has_status(0);

    let shown = controller.weft(&["get", "routes", "r"]);
    let expected = "\
DESTINATION        KIND       BY         NEXT HOP     PORT       MAC                WHY
192.168.0.0/30     connected  r-transit  -            r-transit  -                  -
198.51.100.128/25  discard    r-hole     -            -          -                  -
10.0.1.0/24        connected  r-blue     -            r-blue     -                  -
10.0.1.0/24        static     r-same     192.168.0.2  r-transit  02:00:00:00:ff:04  \
router_port r-blue connects the same network, which takes precedence
198.51.100.0/24    static     r-some     10.0.1.2     r-blue     02:00:00:00:00:02  -
198.51.100.0/24    static     r-some     10.0.1.9     r-blue     -                  \
no port of switch blue has this address
0.0.0.0/0          static     r-far      10.9.9.9     -          -                  \
no port of the router is in a network with this address
fd01::/64          connected  r-blue     -            r-blue     -                  -
::/0               static     r-six      fd01::2      r-blue     02:00:00:00:00:02  -
";
    assert_eq!(shown.has_status(0).stdout, expected);
    let json = controller.weft(&["get", "routes", "r", "--json"]);
    let lines: Vec<serde_json::Value> =
        json.has_status(0).stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let static_route = lines.iter().find(|line| line["by"] == "r-same").unwrap();
    assert_eq!(
        *static_route,
        serde_json::json!({
            "router": "r", "destination": "10.0.1.0/24", "kind": "static", "by": "r-same", "next_hop": "192.168.0.2",
            "port": "r-transit", "mac": "02:00:00:00:ff:04",
            "why": "router_port r-blue connects the same network, which takes precedence",
        })
    );

    let same = controller.weft(&["get", "routing-table", "r"]);
    assert_eq!(same.has_status(0).stdout, expected);
    let all = controller.weft(&["get", "routing_table"]);
    assert!(all.has_status(0).stdout.starts_with("ROUTER  DESTINATION"), "{}", all.stdout);
    let listings = controller.weft(&["get", "listings"]);
    let line = "routing-table      router";
    assert!(listings.has_status(0).stdout.contains(line), "{}", listings.stdout);

    // Without a router, these are the objects of kind `route`.
    let objects = controller.weft(&["get", "routes", "--json"]);
    assert!(objects.has_status(0).stdout.contains("\"kind\":\"route\""), "{}", objects.stdout);
    let missing = controller.weft(&["get", "routes", "blue"]);
    assert!(missing.has_status(1).stderr.contains("router blue does not exist"), "{}", missing.stderr);
}
