//! A running `ovs-vswitchd` with dummy devices: no privileges, no trace on the host. Frames go in by its control
//! socket, and what its ports send stands in capture files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use flow_simulator::Encapsulation;
use openflow_rs::FlowEntry;
use serde_json::{Value, json};

use crate::wrapping::{OWN_MAC, PEER_MAC};

const DEADLINE: Duration = Duration::from_secs(30);
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
/// Bytes of a capture file's header, and of that of each frame.
const CAPTURE_HEADER: usize = 24;
const FRAME_HEADER: usize = 16;

/// A switch with bridge `br0`.
pub struct Switch {
    run: tempfile::TempDir,
    daemons: Vec<Child>,
    control: Option<UnixStream>,
    calls: u64,
    /// The capture of each port that frames come in by or leave by, and of the two that marks pass through.
    captures: BTreeMap<u16, Capture>,
    marks: u64,
    /// The capture of the port to the underlay.
    uplink: Option<Capture>,
}

/// A capture, read up to where it stands, and what is not yet a whole frame of it.
type Capture = (File, Vec<u8>);

/// The ports that marks come in by and leave by.
const MARKS: [u16; 2] = [0xfe00, 0xfe01];

impl Drop for Switch {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

impl Switch {
    /// A switch with these ports, numbers below 0xfe00; none if Open vSwitch is not installed, which is said loudly.
    pub fn start(ports: impl IntoIterator<Item = u16>) -> Option<Switch> {
        let tools = ["ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl", "ovs-ofctl"];
        let there = |tool: &&str| Command::new(tool).arg("--version").stdout(Stdio::null()).status().is_ok();
        if !tools.iter().all(there) || !Path::new(SCHEMA).exists() {
            eprintln!("SKIPPED: Open vSwitch is not installed; apt-get install -y openvswitch-switch");
            assert!(std::env::var_os("WEFT_REQUIRE_OVS").is_none(), "WEFT_REQUIRE_OVS is set");
            return None;
        }
        let run = tempfile::Builder::new().prefix("dummy-switch-").tempdir().expect("a temporary folder");
        let mut switch = Switch {
            run,
            daemons: Vec::new(),
            control: None,
            calls: 0,
            captures: BTreeMap::new(),
            marks: 0,
            uplink: None,
        };
        let ports: Vec<u16> = ports.into_iter().chain(MARKS).collect();
        let db = switch.path("conf.db");
        switch.tool("ovsdb-tool", &["create", &db, SCHEMA]);
        let remote = format!("unix:{}", switch.path("db.sock"));
        switch.spawn("ovsdb-server", &[&db, &format!("--remote=p{remote}")], "db");
        switch.wait_for("db.sock");
        let database = format!("--db={remote}");
        switch.tool("ovs-vsctl", &[&database, "--no-wait", "init"]);
        switch.spawn("ovs-vswitchd", &["--enable-dummy", "--disable-system", &remote], "vs");
        let mut words = vec![database, "--timeout=30".to_owned()];
        words.extend(
            "add-br br0 -- set bridge br0 datapath_type=dummy fail_mode=secure".split(' ').map(str::to_owned),
        );
        for port in &ports {
            let capture = switch.path(&format!("p{port}.pcap"));
            let add = format!(
                "-- add-port br0 p{port} -- set interface p{port} type=dummy ofport_request={port} options:tx_pcap={capture}"
            );
            words.extend(add.split(' ').map(str::to_owned));
        }
        switch.tool("ovs-vsctl", &words.iter().map(String::as_str).collect::<Vec<_>>());
        switch.wait_for("vs.ctl");
        let control = UnixStream::connect(switch.path("vs.ctl")).expect("the control socket");
        control.set_read_timeout(Some(DEADLINE)).expect("a timeout");
        switch.control = Some(control);
        // Once a command was answered, the ports are there.
        switch.call("version", &[]);
        for port in ports {
            let capture = switch.capture(&format!("p{port}"));
            switch.captures.insert(port, capture);
        }
        Some(switch)
    }

    fn capture(&self, port: &str) -> Capture {
        let mut capture = File::open(self.path(&format!("{port}.pcap"))).expect("a capture");
        capture.read_exact(&mut [0; CAPTURE_HEADER]).expect("its header");
        (capture, Vec::new())
    }

    /// Adds tunnel ports (number, encapsulation, `remote_ip`), and the bridge that carries tunnels from this address to
    /// those peers. The option of 4 bytes is `tun_metadata0`.
    pub fn add_tunnels(&mut self, own: Ipv4Addr, peers: &[Ipv4Addr], ports: &[(u16, Encapsulation, String)]) {
        let mac = |mac: [u8; 6]| mac.map(|byte| format!("{byte:02x}")).join(":");
        let capture = self.path("up.pcap");
        let mut words = format!(
            "add-br br-phy -- set bridge br-phy datapath_type=dummy other-config:hwaddr=\"{}\" -- add-port br-phy up -- \
             set interface up type=dummy options:tx_pcap={capture}",
            mac(OWN_MAC)
        );
        for (port, encapsulation, remote) in ports {
            let kind = format!("{encapsulation:?}").to_lowercase();
            words += &format!(
                " -- add-port br0 t{port} -- set interface t{port} type={kind} options:remote_ip={remote} \
                 options:key=flow ofport_request={port}"
            );
        }
        let database = format!("--db=unix:{}", self.path("db.sock"));
        let words: Vec<&str> = [&database, "--timeout=30"].into_iter().chain(words.split(' ')).collect();
        self.tool("ovs-vsctl", &words);
        self.call("netdev-dummy/ip4addr", &["br-phy", &format!("{own}/16")]);
        self.call("ovs/route/add", &[&format!("{own}/16"), "br-phy"]);
        for peer in peers {
            self.call("tnl/neigh/set", &["br-phy", &peer.to_string(), &mac(PEER_MAC)]);
        }
        let bridge = format!("unix:{}", self.path("br0.mgmt"));
        let map = "{class=0x102,type=0x80,len=4}->tun_metadata0";
        self.tool("ovs-ofctl", &["-O", "OpenFlow15", "add-tlv-map", &bridge, map]);
        self.uplink = Some(self.capture("up"));
    }

    fn path(&self, name: &str) -> String {
        self.run.path().join(name).to_str().expect("an ASCII path").to_owned()
    }

    fn command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(words).env("OVS_RUNDIR", self.run.path()).env("OVS_DBDIR", self.run.path());
        command.env("OVS_LOGDIR", self.run.path()).stdin(Stdio::null());
        command
    }

    fn tool(&self, program: &str, words: &[&str]) {
        let output = self.command(program, words).output().expect("the tool starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {words:?}: {errors}");
    }

    fn spawn(&mut self, program: &str, words: &[&str], name: &str) {
        let mut command = self.command(program, words);
        command.arg(format!("--unixctl={}", self.path(&format!("{name}.ctl"))));
        command.arg(format!("--log-file={}", self.path(&format!("{name}.log"))));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.daemons.push(command.spawn().expect("the daemon starts"));
    }

    fn wait_for(&self, name: &str) {
        let start = Instant::now();
        while UnixStream::connect(self.path(name)).is_err() {
            assert!(start.elapsed() < DEADLINE, "{name} did not appear");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Calls a command of `ovs-appctl`; what it prints.
    pub fn call(&mut self, method: &str, params: &[&str]) -> String {
        self.calls += 1;
        let request = json!({ "id": self.calls, "method": method, "params": params }).to_string();
        let stream = self.control.as_mut().expect("connected");
        stream.write_all(request.as_bytes()).expect("sent");
        let (mut received, mut buffer) = (Vec::new(), vec![0; 65536]);
        loop {
            let count = match stream.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                read => read.expect("an answer in time"),
            };
            assert!(count > 0, "the switch has gone");
            received.extend_from_slice(&buffer[..count]);
            let Ok(reply) = serde_json::from_slice::<Value>(&received) else { continue };
            assert!(reply["error"].is_null(), "{method} {params:?}: {}", reply["error"]);
            return reply["result"].as_str().expect("text").to_owned();
        }
    }

    /// Replaces all flows and groups, in one bundle.
    ///
    /// # Errors
    /// What `ovs-ofctl` says.
    pub fn load(&mut self, groups: &[String], flows: &[String]) -> Result<(), String> {
        let [from, to] = MARKS;
        let mut lines = vec!["flow delete".to_owned(), "group delete group_id=all".to_owned()];
        lines.extend(groups.iter().map(|group| format!("group add {group}")));
        lines.push(format!("flow add table=0,in_port={from} actions=output:{to}"));
        lines.extend(flows.iter().map(|flow| format!("flow add {flow}")));
        let file = self.path("bundle");
        std::fs::write(&file, lines.join("\n")).expect("written");
        let bridge = format!("unix:{}", self.path("br0.mgmt"));
        let words = ["-O", "OpenFlow15", "bundle", &bridge, &file];
        let output = self.command("ovs-ofctl", &words).output().expect("ovs-ofctl starts");
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            let number =
                errors.split("bundle:").nth(1).and_then(|rest| rest.split(':').next()?.parse::<usize>().ok());
            let line = number.and_then(|number| lines.get(number - 1)).cloned().unwrap_or_default();
            return Err(format!("{errors}{line}"));
        }
        self.settle();
        Ok(())
    }

    /// Waits until the datapath's flows have been held against the tables that are in force. A purge alone passes over those
    /// that are just being looked at.
    fn settle(&mut self) {
        self.call("revalidator/wait", &[]);
    }

    /// Carries out a line of a flow file.
    ///
    /// # Errors
    /// What `ovs-ofctl` says.
    pub fn change(&mut self, line: &str) -> Result<(), String> {
        let file = self.path("bundle");
        std::fs::write(&file, format!("flow {line}")).expect("written");
        let bridge = format!("unix:{}", self.path("br0.mgmt"));
        let output = self.command("ovs-ofctl", &["-O", "OpenFlow15", "bundle", &bridge, &file]).output();
        let output = output.expect("ovs-ofctl starts");
        if output.status.success() {
            self.settle();
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    /// The flows of a table, in the order of [`flow_simulator::Bridge::flows`].
    pub fn flows(&mut self, table: u8) -> Vec<FlowEntry> {
        let bridge = format!("unix:{}", self.path("br0.mgmt"));
        let words = ["-O", "OpenFlow15", "--no-names", "--no-stats", "dump-flows", &bridge];
        let output = self.command("ovs-ofctl", &words).arg(format!("table={table}")).output();
        let text = String::from_utf8(output.expect("ovs-ofctl starts").stdout).expect("text");
        let mut flows: Vec<FlowEntry> = text
            .lines()
            .map(|line| line.trim().parse().unwrap_or_else(|error| panic!("{line}: {error}")))
            .collect();
        flows.sort_by(|a, b| b.priority.cmp(&a.priority).then_with(|| a.matches.cmp(&b.matches)));
        flows
    }

    /// The flows of a table, once they are as expected or will not become so: timeouts are looked at when the
    /// datapath's flows are.
    pub fn flows_settled(&mut self, table: u8, expected: &[FlowEntry]) -> Vec<FlowEntry> {
        const ROUNDS: usize = 20;
        for _ in 0..ROUNDS {
            let flows = self.flows(table);
            if flows == expected {
                return flows;
            }
            self.settle();
        }
        self.flows(table)
    }

    /// What `ofproto/trace` says of a frame.
    pub fn trace(&mut self, in_port: u16, frame: &[u8]) -> String {
        self.call("ofproto/trace", &["br0", &format!("in_port={in_port}"), &hex(frame)])
    }

    /// Lets a port receive a frame; what ports sent then: port and frame, in order by port.
    pub fn receive(&mut self, in_port: u16, frame: &[u8]) -> Vec<(u16, Vec<u8>)> {
        self.receive_by(&format!("p{in_port}"), frame)
    }

    /// The same for a frame that comes from the underlay.
    pub fn receive_from_peer(&mut self, frame: &[u8]) -> Vec<(u16, Vec<u8>)> {
        self.receive_by("up", frame)
    }

    /// What was sent to the underlay since the last call.
    pub fn sent_up(&mut self) -> Vec<Vec<u8>> {
        self.uplink.as_mut().map(new_frames).unwrap_or_default()
    }

    fn receive_by(&mut self, port: &str, frame: &[u8]) -> Vec<(u16, Vec<u8>)> {
        // Datapath flows of former tables would serve on for a while, and one that was made for a malformed frame also
        // serves whole ones: it leaves out the changes that the malformed one had no header for.
        self.call("revalidator/purge", &[]);
        self.call("netdev-dummy/receive", &[port, &hex(frame)]);
        // A mark sent afterwards is out not before the round of the main loop that also carried the frame; the
        // next answer comes when that round is over.
        self.marks += 1;
        let [from, to] = MARKS;
        let mark = [&[2; 12][..], &[0x88, 0xb5], &self.marks.to_be_bytes()].concat();
        self.call("netdev-dummy/receive", &[&format!("p{from}"), &hex(&mark)]);
        let start = Instant::now();
        while !self.sent(to).contains(&mark) {
            assert!(start.elapsed() < DEADLINE, "the mark did not come through");
            self.call("version", &[]);
        }
        self.call("version", &[]);
        let mut sent = Vec::new();
        for (port, capture) in self.captures.iter_mut().filter(|(port, _)| !MARKS.contains(port)) {
            sent.extend(new_frames(capture).into_iter().map(|frame| (*port, frame)));
        }
        sent
    }

    /// The frames that a port has sent since the last call.
    fn sent(&mut self, port: u16) -> Vec<Vec<u8>> {
        self.captures.get_mut(&port).map(new_frames).unwrap_or_default()
    }
}

/// The frames that were added to a capture.
fn new_frames((capture, bytes): &mut Capture) -> Vec<Vec<u8>> {
    capture.read_to_end(bytes).expect("the capture");
    let (mut frames, mut at) = (Vec::new(), 0);
    while let Some(header) = bytes.get(at..at + FRAME_HEADER) {
        // Captures are written in the machine's byte order.
        let length = u32::from_ne_bytes([header[8], header[9], header[10], header[11]]) as usize;
        let Some(frame) = bytes.get(at + FRAME_HEADER..at + FRAME_HEADER + length) else { break };
        frames.push(frame.to_vec());
        at += FRAME_HEADER + length;
    }
    bytes.drain(..at);
    frames
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}
