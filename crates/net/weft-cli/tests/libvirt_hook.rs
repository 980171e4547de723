//! `examples/libvirt-hook.py`, called as libvirt calls hooks, with a real controller. What it does when a machine migrates is on
//! [the page about it](../../../../docs/howto/attach-machines.md), whose test has the hosts for it.

use std::process::{Command, Stdio};

use crate::support::controller::Controller;
use crate::support::{Folder, Outcome, finish, root};

const PORT: &str = "7f3d1c52-9a41-4f0e-8b57-2d6e0a9c4b01";
const OTHER: &str = "0b9c6a5e-1d2f-4c3b-9a8d-7e6f5a4b3c2d";

/// A machine with interfaces of several sorts. The metadata describes one of them, and writes its id in capitals, which libvirt would not
/// do in the interface.
fn domain() -> String {
    let described = PORT.to_uppercase();
    format!(
        "<domain type='kvm' id='3'>
  <name>web</name>
  <metadata>
    <other:data xmlns:other='urn:other'><other:port interfaceid='{OTHER}'/></other:data>
    <weft:ports xmlns:weft='urn:weft:libvirt'>
      <weft:port interfaceid='{described}' switch='shop' ips='10.0.0.3 fd00::3'/>
    </weft:ports>
  </metadata>
  <devices>
    <interface type='bridge'>
      <mac address='02:00:00:00:00:03'/>
      <source bridge='br-int'/>
      <virtualport type='openvswitch'><parameters interfaceid='{PORT}'/></virtualport>
      <target dev='vnet0'/>
    </interface>
    <interface type='bridge'>
      <mac address='02:00:00:00:00:04'/>
      <source bridge='br-int'/>
      <virtualport type='openvswitch'><parameters interfaceid='{OTHER}'/></virtualport>
    </interface>
    <interface type='network'><mac address='02:00:00:00:00:05'/><source network='default'/></interface>
  </devices>
</domain>
"
    )
}

/// Calls the hook for machine `web`, with the operation and what follows it.
fn hook(folder: &Folder, operation: &str, xml: &str) -> Outcome {
    folder.write("domain.xml", xml);
    let mut command = Command::new("python3");
    command.arg(root().join("examples/libvirt-hook.py")).arg("web").args(operation.split(' '));
    command.env("WEFT_CONTROLLER", Controller::endpoint(folder)).env("WEFT_NODE", "hv1");
    command.stdin(std::fs::File::open(folder.path("domain.xml")).unwrap());
    finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

/// Checks that it succeeds and prints nothing. What a hook prints, libvirt takes for the XML of a machine that migrates.
#[track_caller]
fn succeeds(folder: &Folder, operation: &str, xml: &str) {
    let outcome = hook(folder, operation, xml);
    assert_eq!((outcome.has_status(0).stdout.as_str(), outcome.stderr.as_str()), ("", ""), "{operation}");
}

/// Runs `weft` for the controller of the folder.
fn weft(folder: &Folder, arguments: &[&str]) -> String {
    let endpoint = Controller::endpoint(folder);
    folder.weft(&[arguments, &["--controller", &endpoint]].concat()).has_status(0).stdout.clone()
}

/// The ids of all ports.
fn ports(folder: &Folder) -> String {
    weft(folder, &["get", "switch_ports", "-o", "jsonpath={.items[*].id}"])
}

async fn with_switch(folder: &Folder) -> Controller {
    let mut controller = Controller::start(folder);
    controller.client(folder).await;
    folder.write("shop.yaml", "{kind: switch, id: shop}");
    weft(folder, &["apply", "-f", "shop.yaml"]);
    controller
}

#[tokio::test]
async fn a_port_comes_before_its_machine_and_goes_after_it() {
    let folder = Folder::new();
    let _controller = with_switch(&folder).await;
    succeeds(&folder, "prepare begin -", &domain());
    assert_eq!(ports(&folder), format!("{PORT}\n"), "only what the metadata describes");
    let port: serde_json::Value =
        serde_json::from_str(&weft(&folder, &["get", "switch_port", PORT, "--json"])).unwrap();
    let addresses = serde_json::json!([{"mac": "02:00:00:00:00:03", "ips": ["10.0.0.3", "fd00::3"]}]);
    assert_eq!((&port["switch"], &port["addresses"]), (&"shop".into(), &addresses));

    // A machine that starts again finds its port as it is.
    weft(&folder, &["set", "switch_port", PORT, "enabled=false"]);
    succeeds(&folder, "prepare begin -", &domain());
    assert!(weft(&folder, &["get", "switch_port", PORT]).contains("enabled: false\n"));

    for operation in ["start begin -", "started begin -", "stopped end -", "release end migrated"] {
        succeeds(&folder, operation, &domain());
    }
    assert_eq!(ports(&folder), format!("{PORT}\n"));
    succeeds(&folder, "release end shutdown", &domain());
    assert_eq!(ports(&folder), "");
    succeeds(&folder, "release end shutdown", &domain());
}

#[tokio::test]
async fn a_port_that_the_hook_has_not_made_stays() {
    let folder = Folder::new();
    let _controller = with_switch(&folder).await;
    folder.write("port.yaml", format!("{{kind: switch_port, id: {PORT}, switch: shop}}"));
    weft(&folder, &["apply", "-f", "port.yaml"]);
    for operation in ["prepare begin -", "release end shutdown"] {
        succeeds(&folder, operation, &domain());
        assert!(weft(&folder, &["get", "switch_port", PORT]).contains("addresses: []\n"), "{operation}");
    }
}

#[tokio::test]
async fn a_machine_does_not_start_without_its_port() {
    let folder = Folder::new();
    let refused = |xml: &str| hook(&folder, "prepare begin -", xml).has_status(1).stderr.clone();
    let none = refused(&domain());
    assert!(none.starts_with("weft: no answer from unix:"), "{none}");
    // Whatever else libvirt calls, it must succeed: it would end a machine that runs.
    for operation in ["migrate begin -", "reconnect begin -", "attach begin -", "release end migrated"] {
        succeeds(&folder, operation, "no XML");
    }

    let _controller = with_switch(&folder).await;
    let no_switch = refused(&domain().replace("switch='shop'", "switch='shpo'"));
    assert!(no_switch.contains("switch shpo does not exist"), "{no_switch}");
    let no_interface = refused(&domain().replace(&PORT.to_uppercase(), &OTHER.replace('0', "1")));
    assert!(no_interface.starts_with("weft: no interface of web has interfaceid="), "{no_interface}");
    let no_uuid = refused(&domain().replace(&PORT.to_uppercase(), "web"));
    assert_eq!(no_uuid, "weft: interfaceid='web' is no UUID\n");
    assert_eq!(ports(&folder), "");
}
