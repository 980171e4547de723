//! A bridge of dummy devices. Frames go in through the daemon's control socket, and each port writes the frames that it
//! sends to a capture file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;

use frame_builder::{Encapsulation, GENEVE_OPTION, Mac, Wrapped, wrap};
use serde_json::{Value, json};

use crate::tools::DEADLINE;
use crate::{OpenVswitch, wait_until};

/// Bytes of a capture file's header, and of the header of each frame.
const CAPTURE_HEADER: usize = 24;
const FRAME_HEADER: usize = 16;

/// MAC addresses on the underlay: of the switch, and of all its peers.
const OWN_MAC: Mac = [2, 0xaa, 0, 0, 0, 1];
const PEER_MAC: Mac = [2, 0xaa, 0, 0, 0, 2];

/// An Open vSwitch with bridge `br0`.
pub struct DummySwitch {
    ovs: OpenVswitch,
    control: UnixStream,
    calls: u64,
    /// The capture of each port that frames enter or leave by, and of the two ports that marks pass through.
    captures: BTreeMap<u16, Capture>,
    marks: u64,
    /// The capture of the port to the underlay.
    uplink: Option<Capture>,
}

/// A capture file, read up to its current end, and the bytes read of an incomplete frame.
type Capture = (File, Vec<u8>);

/// The ingress port and the egress port of marks.
const MARKS: [u16; 2] = [0xfe00, 0xfe01];

impl DummySwitch {
    /// Starts a switch with these ports; their numbers are below 0xfe00.
    pub fn start(ports: impl IntoIterator<Item = u16>) -> DummySwitch {
        let ovs = OpenVswitch::start();
        let ports: Vec<u16> = ports.into_iter().chain(MARKS).collect();
        let mut words = "add-br br0 -- set bridge br0 datapath_type=dummy fail_mode=secure".to_owned();
        for port in &ports {
            let capture = ovs.path(&format!("p{port}.pcap"));
            words += &format!(
                " -- add-port br0 p{port} -- set interface p{port} type=dummy ofport_request={port} \
                 options:tx_pcap={}",
                capture.display()
            );
        }
        ovs.vsctl(&words.split(' ').collect::<Vec<_>>());
        let control = UnixStream::connect(ovs.path("vs.ctl")).expect("the control socket");
        control.set_read_timeout(Some(DEADLINE)).expect("a timeout");
        let captures = ports.into_iter().map(|port| (port, capture(&ovs, &format!("p{port}")))).collect();
        DummySwitch { ovs, control, calls: 0, captures, marks: 0, uplink: None }
    }

    /// Adds tunnel ports (number, encapsulation, `remote_ip`) and the bridge that carries tunnels between this address and
    /// the peers. Geneve's option of 4 bytes becomes `tun_metadata0`.
    pub fn add_tunnels(&mut self, own: IpAddr, peers: &[IpAddr], ports: &[(u16, Encapsulation, String)]) {
        let mac = |mac: [u8; 6]| mac.map(|byte| format!("{byte:02x}")).join(":");
        let uplink = self.ovs.path("up.pcap");
        let mut words = format!(
            "add-br br-phy -- set bridge br-phy datapath_type=dummy other-config:hwaddr=\"{}\" -- add-port br-phy up -- \
             set interface up type=dummy options:tx_pcap={}",
            mac(OWN_MAC),
            uplink.display()
        );
        for (port, encapsulation, remote) in ports {
            words += &format!(
                " -- add-port br0 t{port} -- set interface t{port} type={encapsulation} options:remote_ip={remote} \
                 options:key=flow ofport_request={port}"
            );
        }
        self.ovs.vsctl(&words.split(' ').collect::<Vec<_>>());
        let (command, prefix) =
            if own.is_ipv4() { ("netdev-dummy/ip4addr", 16) } else { ("netdev-dummy/ip6addr", 64) };
        self.call(command, &["br-phy", &format!("{own}/{prefix}")]);
        self.call("ovs/route/add", &[&format!("{own}/{prefix}"), "br-phy"]);
        for peer in peers {
            self.call("tnl/neigh/set", &["br-phy", &peer.to_string(), &mac(PEER_MAC)]);
        }
        let (class, kind) = GENEVE_OPTION;
        let map = format!("{{class={class},type={kind},len=4}}->tun_metadata0");
        self.ovs
            .try_ofctl(&["add-tlv-map", &self.ovs.bridge("br0"), &map])
            .expect("the switch maps the option");
        self.uplink = Some(capture(&self.ovs, "up"));
    }

    /// Sets `other_config:vlan-limit`, the number of VLAN tags that the switch reads of a frame.
    pub fn set_vlan_limit(&mut self, setting: u8) {
        self.ovs.vsctl(&["set", "Open_vSwitch", ".", &format!("other_config:vlan-limit={setting}")]);
    }

    /// Makes ports live or not, by their carrier, and waits until the switch chooses buckets accordingly. A port that is
    /// not live still sends and receives.
    pub fn set_live(&mut self, ports: impl IntoIterator<Item = u16>, live: bool) {
        let ports: Vec<u16> = ports.into_iter().collect();
        for port in &ports {
            let state = if live { "up" } else { "down" };
            self.call("netdev-dummy/set-admin-state", &[&format!("p{port}"), state]);
        }
        for port in &ports {
            let words = ["dump-ports-desc", &self.ovs.bridge("br0"), &port.to_string()];
            wait_until("the switch knows which ports are live", || {
                self.ovs.try_ofctl(&words).is_ok_and(|text| text.contains("LIVE") == live)
            });
        }
        // The translation of packets follows in the next round of the main loop, which a second call outlasts.
        self.call("version", &[]);
        self.call("version", &[]);
    }

    /// Calls a command of `ovs-appctl`, which must succeed, and returns its output.
    pub fn call(&mut self, method: &str, params: &[&str]) -> String {
        self.calls += 1;
        let request = json!({ "id": self.calls, "method": method, "params": params }).to_string();
        let stream = &mut self.control;
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
    /// The error output of `ovs-ofctl`, and the line that it refers to.
    pub fn load(&mut self, groups: &[String], flows: &[String]) -> Result<(), String> {
        let [from, to] = MARKS;
        let mut lines = vec!["flow delete".to_owned(), "group delete group_id=all".to_owned()];
        lines.extend(groups.iter().map(|group| format!("group add {group}")));
        lines.push(format!("flow add table=0,in_port={from} actions=output:{to}"));
        lines.extend(flows.iter().map(|flow| format!("flow add {flow}")));
        self.bundle(&lines).map_err(|errors| {
            let number = errors.split("bundle:").nth(1).and_then(|rest| rest.split(':').next()?.parse().ok());
            let line = number.and_then(|number: usize| lines.get(number.checked_sub(1)?)).cloned();
            errors + &line.unwrap_or_default()
        })
    }

    /// Adds a meter that lets through whatever a test sends.
    pub fn add_meter(&mut self, id: u32) {
        let meter = format!("meter={id},pktps,bands=type=drop,rate=1000000");
        let arguments = ["add-meter", &self.ovs.bridge("br0"), &meter];
        self.ovs.try_ofctl(&arguments).unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
    }

    /// Executes a line of a flow file.
    ///
    /// # Errors
    /// The error output of `ovs-ofctl`.
    pub fn change(&mut self, line: &str) -> Result<(), String> {
        self.bundle(&[format!("flow {line}")])
    }

    fn bundle(&mut self, lines: &[String]) -> Result<(), String> {
        let file = self.ovs.path("bundle").display().to_string();
        std::fs::write(&file, lines.join("\n")).expect("the bundle's file is written");
        self.ovs.try_ofctl(&["bundle", &self.ovs.bridge("br0"), &file]).map(drop)
    }

    /// Waits until the revalidators have processed all timeouts: flows that are due are gone.
    pub fn settle(&mut self) {
        self.call("revalidator/wait", &[]);
    }

    /// The flows of a table as `ovs-ofctl` prints them, in its order.
    pub fn flows(&mut self, table: u8) -> Vec<String> {
        let table = format!("table={table}");
        let words = ["--no-stats", "dump-flows", &self.ovs.bridge("br0"), &table];
        let text = self.ovs.try_ofctl(&words).expect("the switch dumps its flows");
        text.lines().map(|line| line.trim().to_owned()).collect()
    }

    /// The output of `ofproto/trace` for a frame.
    pub fn trace(&mut self, in_port: u16, frame: &[u8]) -> String {
        let said = self.call("ofproto/trace", &["br0", &format!("in_port={in_port}"), &hex(frame)]);
        // `ofproto/trace` executes all actions except outputs, but does not look for outputs within comparisons of a
        // length: these really send the frame, at once.
        self.captures.values_mut().for_each(|capture| drop(new_frames(capture)));
        said
    }

    /// Lets a port receive a frame, and returns the frames that the switch then sends, with their egress ports, by port.
    pub fn receive(&mut self, in_port: u16, frame: &[u8]) -> Vec<(u16, Vec<u8>)> {
        self.receive_by(&format!("p{in_port}"), frame)
    }

    /// As [`DummySwitch::receive`], but what the datapath has cached for earlier frames stays in use until the switch itself looks at
    /// it again, as it does with real traffic.
    pub fn receive_cached(&mut self, in_port: u16, frame: &[u8]) -> Vec<(u16, Vec<u8>)> {
        self.pass(&format!("p{in_port}"), frame)
    }

    /// The same for a frame that a peer sends through a tunnel.
    pub fn receive_from_peer(&mut self, wrapped: &Wrapped) -> Vec<(u16, Vec<u8>)> {
        self.receive_by("up", &wrap(OWN_MAC, PEER_MAC, wrapped))
    }

    /// As [`DummySwitch::receive_from_peer`], but what the datapath has cached stays in use.
    pub fn receive_cached_from_peer(&mut self, wrapped: &Wrapped) -> Vec<(u16, Vec<u8>)> {
        self.pass("up", &wrap(OWN_MAC, PEER_MAC, wrapped))
    }

    /// The frames sent to the underlay since the last call.
    pub fn sent_up(&mut self) -> Vec<Vec<u8>> {
        self.uplink.as_mut().map(new_frames).unwrap_or_default()
    }

    fn receive_by(&mut self, port: &str, frame: &[u8]) -> Vec<(u16, Vec<u8>)> {
        // A datapath flow of earlier tables would stay in use for a while. Also, a datapath flow made for a malformed
        // frame would handle intact frames, without the changes to headers that the malformed frame lacked.
        // The command flushes with the revalidators stopped, and otherwise changes nothing, since megaflows are enabled
        // already; `revalidator/purge` skips flows that are being revalidated.
        self.call("upcall/enable-megaflows", &[]);
        self.pass(port, frame)
    }

    fn pass(&mut self, port: &str, frame: &[u8]) -> Vec<(u16, Vec<u8>)> {
        self.call("netdev-dummy/receive", &[port, &hex(frame)]);
        // A mark sent after the frame leaves no earlier than in the round of the main loop that handles the frame; the
        // daemon answers the next call after that round.
        self.marks += 1;
        let [from, to] = MARKS;
        let mark = [&[2; 12][..], &[0x88, 0xb5], &self.marks.to_be_bytes()].concat();
        self.call("netdev-dummy/receive", &[&format!("p{from}"), &hex(&mark)]);
        wait_until("the mark leaves the switch", || {
            self.call("version", &[]);
            self.sent(to).contains(&mark)
        });
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

fn capture(ovs: &OpenVswitch, port: &str) -> Capture {
    let mut capture = File::open(ovs.path(&format!("{port}.pcap"))).expect("a capture");
    capture.read_exact(&mut [0; CAPTURE_HEADER]).expect("its header");
    (capture, Vec::new())
}

/// The frames added to a capture since the last call.
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
