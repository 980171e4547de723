//! Several controllers that want one switch, over TLS: it belongs to the first, and the others say why they do not get it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use test_authority::{Authority, Leaf, controller};
use testbed::{DEADLINE, Testbed};
use weft_client::CredentialFiles;

use super::secured::{
    NETWORK, begun, controller_of, dial_by_tls, host_certificate, lines_of, machines, node_by_tls, only_host,
    set_ssl, with_certificate,
};
use super::support::{bring_up, wait_for, weft};

/// Time between two probes of a machine.
const EVERY: Duration = Duration::from_millis(5);
/// The probes while a rival tries.
const PROBES: u64 = 600;
/// The times that a rival tries.
const ATTEMPTS: usize = 3;

/// Another controller in the same network. It ends with this.
struct Rival {
    process: Child,
    folder: PathBuf,
}

impl Drop for Rival {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Rival {
    /// One that wants the host of the testbed, for a network without ports.
    fn start(testbed: &Testbed, folder: &Path, files: &CredentialFiles) -> Rival {
        let mut lines = lines_of(files);
        lines.push(format!("state = \"{0}/state\"\nlisten = \"unix:{0}/weft.sock\"", folder.display()));
        lines.push("log = \"info,mutual_tls=debug\"".to_owned());
        fs::write(folder.join("weft.toml"), lines.join("\n")).unwrap();
        fs::write(folder.join("nodes.yaml"), node_by_tls(testbed)).unwrap();
        let log = fs::File::create(folder.join("weft.log")).unwrap();
        let process = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--", "ip", "netns", "exec"])
            .arg(testbed.lab().unwrap().underlay_namespace())
            .arg(weft())
            .args(["controller", "--config"])
            .arg(folder.join("weft.toml"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let rival = Rival { process, folder: folder.to_owned() };
        wait_for("the rival", || rival.ask(&["apply", "-f", "nodes.yaml"]));
        rival
    }

    /// The output of a command for it, if that succeeds.
    fn ask(&self, arguments: &[&str]) -> Option<String> {
        let mut command = Command::new(weft());
        command.args(arguments).current_dir(&self.folder);
        let controller = format!("unix:{}/weft.sock", self.folder.display());
        let output = command.env("WEFT_CONTROLLER", controller).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    }

    /// Waits until its status says this about the host.
    fn says(&self, texts: &[&str]) {
        wait_for(&format!("a rival that says {texts:?}"), || {
            let status = self.ask(&["status", "--json"])?;
            texts.iter().all(|text| status.contains(text)).then_some(())
        });
    }
}

#[test]
fn a_switch_over_tls_belongs_to_one_controller_and_is_closed_to_that_of_another_authority() {
    let (controllers, members) = (Authority::new(), Authority::new());
    let testbed = Testbed::start(with_certificate("rivals", &controller_of(&controllers, &members))).unwrap();
    bring_up(&testbed, NETWORK, &machines());
    let host = only_host(&testbed);
    set_ssl(&host, &members.issue(&host_certificate("hv1", 11)), &controllers.path("ca.pem"));
    dial_by_tls(&testbed);
    let lab = testbed.lab().unwrap();
    lab.wait_ping("red-1", [10, 6, 0, 2].into(), DEADLINE).unwrap();
    let ping = lab.spawn_ping("red-1", [10, 6, 0, 2].into(), EVERY).unwrap();
    let (flows, connections) = (host.dump_flows("br-int").unwrap(), begun(&testbed));
    let is_undisturbed = || {
        ping.wait_received(PROBES, DEADLINE).unwrap();
        assert!(host.dump_flows("br-int").unwrap() == flows, "flows have changed");
        assert_eq!(begun(&testbed), connections);
        let status = testbed.status().unwrap().switches.remove(0);
        assert!(status.synced && status.foreign_changes == 0 && status.last_error.is_empty(), "{status:?}");
    };

    // The certificate of the same authority, so the switch lets it in: the mark of the first keeps it from writing.
    let folder = tempfile::tempdir().unwrap();
    let second = Leaf { serial: 2, ..Leaf::new("controller-2") };
    let second = CredentialFiles {
        own: controllers.issue(&Leaf { role: controller().role, ..second }).own,
        ..members.trust()
    };
    let rival = Rival::start(&testbed, folder.path(), &second);
    rival.says(&[
        "it belongs to another controller: the one of host ",
        "nothing is sent to it",
        "take_over = true",
    ]);
    is_undisturbed();
    drop(rival);

    // The switch lets a controller of another authority say nothing.
    let folder = tempfile::tempdir().unwrap();
    let foreign_controllers = Authority::new();
    let foreign = controller_of(&foreign_controllers, &members);
    let shown = foreign.own.as_ref().unwrap().certificate.display().to_string();
    let rival = Rival::start(&testbed, folder.path(), &foreign);
    rival.says(&[
        "refuses the certificate ",
        &shown,
        "the authorities that it trusts must have signed",
        "ovs-vsctl ",
    ]);
    let refusals = || {
        let log = fs::read_to_string(host.run_dir.join("db.log")).unwrap();
        (log.matches("stream_ssl|WARN|SSL_accept").count() >= ATTEMPTS).then_some(())
    };
    wait_for("some attempts at the database", refusals);
    is_undisturbed();
    drop(rival);

    // The first one goes on to change the switch.
    let port = "{kind: switch_port, id: red-2, switch: red, addresses: [{mac: '02:00:00:00:06:02', ips: [10.6.0.2]}, \
                {mac: '02:00:00:00:06:03', ips: []}]}";
    testbed.apply("change.yaml", port).unwrap();
    testbed.wait_in_sync().unwrap();
    let changed = host.dump_flows("br-int").unwrap();
    assert!(changed.iter().any(|flow| flow.contains("02:00:00:00:06:03")), "the change has not come");
    let result = ping.stop().unwrap();
    assert_eq!((result.sent, result.duplicates), (result.received, 0), "{result:?}");
}
