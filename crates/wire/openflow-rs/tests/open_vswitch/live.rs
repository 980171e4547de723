//! A conversation with a running switch.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use openflow_rs::flow::{FlowRemoved, RemovedReason};
use openflow_rs::message::*;
use openflow_rs::{
    Action, Actions, Body, Bucket, Field, FlowEntry, FlowFlags, FlowMod, FlowStats, Frame, GroupEntry,
    GroupKind, GroupMod, Message, MeterEntry, MeterMod, PortNo, frame,
};
use ovs_testing::{OpenVswitch, ofctl, run};

use crate::open_vswitch::random::{runner, sample};

const DEADLINE: Duration = Duration::from_secs(20);

/// A switch with one bridge.
struct Switch(OpenVswitch);

impl Switch {
    fn start() -> Switch {
        let ovs = OpenVswitch::start();
        let add = "add-br br0 -- set bridge br0 datapath_type=dummy fail_mode=secure";
        ovs.vsctl(&add.split(' ').collect::<Vec<_>>());
        Switch(ovs)
    }

    fn stream(&self) -> UnixStream {
        let stream = UnixStream::connect(self.0.path("br0.mgmt")).expect("connected");
        stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
        stream
    }

    fn connect(&self) -> Connection {
        let mut connection =
            Connection { stream: self.stream(), received: Vec::new(), removed: Vec::new(), xid: 0 };
        connection.send(Body::Hello(Hello::new()));
        let Body::Hello(hello) = connection.receive().body else { panic!("no hello") };
        assert!(hello.speaks(VERSION));
        connection
    }

    fn dump(&self) -> Vec<String> {
        let printed = ofctl(&["--no-stats", "dump-flows", &self.0.bridge("br0")]);
        printed.lines().map(|line| line.trim().to_owned()).collect()
    }
}

struct Connection {
    stream: UnixStream,
    received: Vec<u8>,
    removed: Vec<FlowRemoved>,
    xid: u32,
}

impl Connection {
    fn send(&mut self, body: Body) -> u32 {
        self.xid += 1;
        let message = Message { xid: self.xid, body };
        self.stream.write_all(&message.encode().expect("a message")).expect("sent");
        self.xid
    }

    /// The next message that answers one of ours; asynchronous messages are kept separately.
    fn receive(&mut self) -> Message {
        loop {
            let message = self.receive_any();
            match message.body {
                Body::FlowRemoved(removed) => self.removed.push(removed),
                _ => return message,
            }
        }
    }

    /// The next message. Its text is also compared with that of `ovs-ofctl`.
    fn receive_any(&mut self) -> Message {
        loop {
            match frame(&self.received).expect("a header") {
                Frame::Message(len) => {
                    let bytes: Vec<u8> = self.received.drain(..len).collect();
                    let message =
                        Message::decode(&bytes).unwrap_or_else(|error| panic!("{error}: {bytes:02x?}"));
                    let printed = crate::open_vswitch::ofctl::print_all(std::slice::from_ref(&bytes));
                    // It prints what is in the packet and in the continuation, too.
                    if let Body::PacketIn(packet) = &message.body {
                        let known = PacketIn { continuation: None, ..packet.clone() };
                        let known = Message { body: Body::PacketIn(known), ..message.clone() }.to_string();
                        assert!(printed[0].starts_with(&known), "{known}\n{}", printed[0]);
                        return message;
                    }
                    // Open vSwitch does not print refused flows that it cannot read itself.
                    if !printed[0].contains("***decode error") {
                        crate::open_vswitch::ofctl::check_lines(&message.to_string(), &printed[0]);
                    }
                    return message;
                }
                Frame::Incomplete(more) => {
                    let mut bytes = vec![0; more];
                    self.stream.read_exact(&mut bytes).expect("more bytes");
                    self.received.append(&mut bytes);
                }
            }
        }
    }

    fn request(&mut self, body: Body) -> Body {
        let xid = self.send(body);
        let reply = self.receive();
        assert_eq!(reply.xid, xid, "{reply}");
        reply.body
    }

    fn bundle(&mut self, op: BundleOp) -> Body {
        self.request(control(op))
    }

    fn add(&mut self, flow: FlowMod) {
        let body = Box::new(Body::FlowMod(flow));
        self.send(Body::BundleAdd(BundleAdd { bundle_id: 1, flags: FLAGS, body }));
    }

    fn dump(&mut self) -> Vec<FlowStats> {
        let xid = self.send(Body::FlowDescRequest(FlowDescRequest::all()));
        let mut flows = Vec::new();
        loop {
            let reply = self.receive();
            let Body::FlowDescReply(mut part) = reply.body else { panic!("no dump: {reply}") };
            assert_eq!((reply.xid, part.unreadable), (xid, Vec::new()));
            flows.append(&mut part.flows);
            if !part.more {
                return flows;
            }
        }
    }
}

const FLAGS: BundleFlags = BundleFlags(3);

fn control(op: BundleOp) -> Body {
    Body::BundleControl(BundleControl { bundle_id: 1, op, flags: FLAGS })
}

fn reply(op: BundleOp) -> Body {
    Body::BundleControl(BundleControl { bundle_id: 1, op, flags: BundleFlags(0) })
}

/// Whether an action needs no group or meter. Removes such actions within others, and `delete_learned`, which would
/// delete any flow with that table and cookie, learned or not.
fn is_present(action: &mut Action) -> bool {
    if let Action::Learn(learn) = action {
        learn.delete_learned = false;
    }
    if let Action::CloneActions(copy) = action {
        copy.actions.0.retain_mut(is_present);
    }
    !matches!(action, Action::Group(_) | Action::Meter(_))
}

/// Random entries that differ in table, priority or match, and need no group or meter.
fn entries(seed: u64) -> Vec<FlowEntry> {
    let mut seen = std::collections::BTreeSet::new();
    sample(&crate::strategies::entry(), &mut runner(seed), 400)
        .into_iter()
        .map(|mut entry| {
            entry.actions.0.retain_mut(is_present);
            entry.idle_timeout = 0;
            entry.hard_timeout = 0;
            entry.flags.0 &= !2;
            // Open vSwitch 3.1 aborts when it reports the removal of such a flow.
            if entry.matches.get(Field::TunMetadata0).is_some() {
                entry.flags.0 &= !FlowFlags::SEND_FLOW_REM.0;
            }
            entry
        })
        // Only the switch itself may match on the datapath's hash.
        .filter(|entry| entry.matches.get(Field::DpHash).is_none())
        .filter(|entry| seen.insert((entry.table, entry.priority, entry.matches.clone())))
        .collect()
}

#[test]
fn flows_sent_in_a_bundle_come_back_in_the_dump() {
    for seed in test_random::seeds!("flows_sent_in_a_bundle_come_back_in_the_dump", 1) {
        check_bundle_and_dump(entries(seed));
    }
}

/// Sends flows to a switch, reads them back, and changes and deletes them by our own text.
fn check_bundle_and_dump(mut sent: Vec<FlowEntry>) {
    let switch = Switch::start();
    let target = switch.0.bridge("br0");
    ofctl(&["add-tlv-map", &target, "{class=0x102,type=0x80,len=4}->tun_metadata0"]);
    let mut connection = switch.connect();
    let Body::FeaturesReply(features) = connection.request(Body::FeaturesRequest) else {
        panic!("no features")
    };
    assert_eq!(features.n_tables, 254);
    assert!(
        matches!(connection.request(Body::EchoRequest(vec![1, 2])), Body::EchoReply(data) if data == [1, 2])
    );
    let role = RoleRequest { role: Role::Primary, short_id: u32::MAX, generation_id: 1 };
    assert!(
        matches!(connection.request(Body::RoleRequest(role)), Body::RoleReply(got) if got.role == Role::Primary)
    );
    connection
        .send(Body::SetConfig(SwitchConfig { fragments: FragmentHandling::Normal, miss_send_len: 128 }));
    assert!(
        matches!(connection.request(Body::GetConfigRequest), Body::GetConfigReply(c) if c.miss_send_len == 128)
    );
    let Body::PortDescReply(ports) = connection.request(Body::PortDescRequest(PortNo::ANY)) else {
        panic!("no ports")
    };
    assert_eq!(
        ports.ports.iter().map(|port| (port.number, port.name.as_str())).collect::<Vec<_>>(),
        [(PortNo::LOCAL, "br0")]
    );

    assert_eq!(connection.bundle(BundleOp::OpenRequest), reply(BundleOp::OpenReply));
    connection.add(FlowMod::delete_all());
    for entry in &sent {
        connection.add(FlowMod::add(entry.clone()));
    }
    assert_eq!(connection.request(Body::BarrierRequest), Body::BarrierReply);
    assert_eq!(connection.bundle(BundleOp::CommitRequest), reply(BundleOp::CommitReply));

    let mut dumped: Vec<FlowEntry> = connection.dump().into_iter().map(|flow| flow.entry).collect();
    sent.sort();
    dumped.sort();
    assert_eq!(sent.len(), dumped.len());
    for (sent, dumped) in sent.iter().zip(&dumped) {
        assert_eq!(sent, dumped, "sent {sent}, came back {dumped}");
    }

    let mut ours: Vec<String> = sent.iter().map(ToString::to_string).collect();
    let mut theirs = switch.dump();
    ours.sort();
    theirs.sort();
    assert_eq!(ours, theirs);
    for line in theirs {
        assert_eq!(line.parse::<FlowEntry>().map(|entry| entry.to_string()), Ok(line));
    }

    // Modifying and deleting by our own text affects the same entries.
    let changed = FlowEntry { actions: "output:9".parse().expect("an action"), ..sent[0].clone() };
    connection.send(Body::FlowMod(FlowMod::modify_strict(changed.clone())));
    for entry in &sent[1..] {
        connection.send(Body::FlowMod(FlowMod::delete_strict(entry.clone())));
    }
    assert_eq!(connection.request(Body::BarrierRequest), Body::BarrierReply);
    let left: Vec<FlowEntry> = connection.dump().into_iter().map(|flow| flow.entry).collect();
    assert_eq!(left.iter().map(|entry| &entry.actions).collect::<Vec<_>>(), [&changed.actions]);

    // The switch reports the removal of the entries that asked for it, and the reason.
    let told: std::collections::BTreeSet<_> = connection
        .removed
        .iter()
        .map(|gone| (gone.entry.table, gone.entry.priority, &gone.entry.matches))
        .collect();
    let wanted = sent[1..].iter().filter(|entry| entry.flags.contains(FlowFlags::SEND_FLOW_REM));
    assert_eq!(told, wanted.map(|entry| (entry.table, entry.priority, &entry.matches)).collect());
    assert!(connection.removed.iter().all(|gone| gone.reason == RemovedReason::Delete));
}

#[test]
fn a_monitor_reports_what_a_packet_makes_the_switch_learn() {
    let switch = Switch::start();
    let mut connection = switch.connect();
    let learner = "table=0,actions=learn(table=9,cookie=0x77,delete_learned,NXM_OF_IN_PORT[]),output:LOCAL";
    let learner: FlowEntry = learner.parse().expect("a flow");
    let known: FlowEntry = "cookie=5,table=9,priority=3,arp,actions=drop".parse().expect("a flow");
    for entry in [&learner, &known] {
        connection.send(Body::FlowMod(FlowMod::add(entry.clone())));
    }
    assert_eq!(connection.request(Body::BarrierRequest), Body::BarrierReply);

    let flags = FlowMonitorFlags::INITIAL
        | FlowMonitorFlags::ADD
        | FlowMonitorFlags::REMOVED
        | FlowMonitorFlags::MODIFY
        | FlowMonitorFlags::INSTRUCTIONS;
    let monitors = vec![FlowMonitor { table: 9, ..FlowMonitor::all(1, flags) }];
    let reply = connection.request(Body::FlowMonitorRequest(FlowMonitorRequest { monitors }));
    let there = |update| Body::FlowMonitorReply(FlowMonitorReply { more: false, updates: vec![update] });
    let reported = FlowEntry { actions: Actions::drop(), ..known };
    assert_eq!(reply, there(FlowUpdate::Flow(FlowEvent::Initial, reported)));

    let announcement = "in_port=LOCAL,dl_src=02:00:00:00:00:01,dl_dst=ff:ff:ff:ff:ff:ff,dl_type=0x8035";
    switch.0.appctl(&["ofproto/trace", "br0", announcement, "-generate"]);
    let learned = connection.receive();
    let entry = "cookie=0x77,table=9,in_port=LOCAL,actions=drop".parse::<FlowEntry>().expect("a flow");
    assert_eq!(learned.body, there(FlowUpdate::Flow(FlowEvent::Added, entry.clone())), "{learned}");
    assert_eq!(learned.xid, 0);

    // Deleting what has learned deletes what was learned, which is no change of the connection's own.
    connection.send(Body::FlowMod(FlowMod::delete_strict(learner)));
    let gone = connection.receive().body;
    assert_eq!(gone, there(FlowUpdate::Flow(FlowEvent::Removed(RemovedReason::Delete), entry)));
}

#[test]
fn a_packet_of_the_controller_passes_the_flows() {
    let switch = Switch::start();
    let mut connection = switch.connect();
    let entry: FlowEntry = "table=0,dl_type=0x8035,in_port=CONTROLLER,actions=drop".parse().expect("a flow");
    connection.send(Body::FlowMod(FlowMod::add(entry)));
    let mut frame = [[0xff; 6], [2, 0, 0, 0, 0, 1]].concat();
    frame.extend([0x80, 0x35]);
    frame.resize(60, 0);
    let packet = PacketOut::new("TABLE".parse().expect("an action"), frame);
    connection.send(Body::PacketOut(packet.clone()));
    assert_eq!(connection.request(Body::BarrierRequest), Body::BarrierReply);
    let counted = connection.dump().iter().map(|flow| flow.packets.zip(flow.bytes)).collect::<Vec<_>>();
    assert_eq!(counted, [Some((1, 60))]);
    // A packet must come from somewhere.
    let nowhere = PacketOut { metadata: openflow_rs::Match::any(), ..packet };
    let Body::Error(error) = connection.request(Body::PacketOut(nowhere)) else { panic!("it was accepted") };
    assert_eq!(error.code.name(), Some("OFPBRC_BAD_PORT"));
}

/// A connection to which the switch sends packets.
fn receiver(switch: &Switch, id: u16) -> Connection {
    let mut connection = switch.connect();
    let config = SwitchConfig { fragments: FragmentHandling::Normal, miss_send_len: u16::MAX };
    connection.send(Body::SetConfig(config));
    connection.send(Body::SetPacketInFormat(PacketInFormat::Properties));
    connection.send(Body::SetControllerId(id));
    connection
}

#[test]
fn a_paused_packet_goes_on_where_it_was() {
    let switch = Switch::start();
    let mut connection = receiver(&switch, 9);
    let mut other = receiver(&switch, 8);
    let flows = [
        "cookie=0x11,table=0,in_port=LOCAL,actions=set_field:0x5->reg0,set_field:0x6->reg3,resubmit(,2),resubmit(,5)",
        "cookie=0x77,table=2,actions=controller(id=9,max_len=20,reason=no_match),controller(id=9,userdata=01.02.ff,pause),resubmit(,3)",
        "table=3,reg0=0x5,dl_src=02:00:00:00:00:02,actions=drop",
        "table=5,reg3=0x6,actions=drop",
    ];
    for text in flows {
        connection.send(Body::FlowMod(FlowMod::add(text.parse().expect("a flow"))));
    }
    assert_eq!(connection.request(Body::BarrierRequest), Body::BarrierReply);
    assert_eq!(other.request(Body::BarrierRequest), Body::BarrierReply);
    let packet = "in_port=LOCAL,dl_src=02:00:00:00:00:01,dl_dst=ff:ff:ff:ff:ff:ff,dl_type=0x8035";
    switch.0.appctl(&["ofproto/trace", "br0", packet, "-generate"]);
    let Body::PacketIn(copy) = connection.receive().body else { panic!("no packet") };
    assert_eq!((copy.table, copy.cookie, copy.reason), (2, 0x77, PacketInReason::NO_MATCH));
    // More than the action asks for.
    assert!(copy.packet.len() == copy.full_len as usize && copy.full_len > 20, "{copy:?}");
    assert_eq!((copy.userdata, copy.continuation), (Vec::new(), None));
    let Body::PacketIn(mut got) = connection.receive().body else { panic!("no packet") };
    assert_eq!(got.packet[..12], [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1]);
    assert_eq!((got.table, got.cookie, got.reason), (0, 0x11, PacketInReason::ACTION));
    assert_eq!(got.full_len as usize, got.packet.len());
    assert_eq!(got.userdata, [1, 2, 0xff]);
    assert_eq!(got.metadata, "reg0=5,reg3=6,in_port=LOCAL".parse().expect("a match"));
    assert!(got.continuation.is_some());

    // It goes on as what its receiver made of it, first where it was paused and then where that returns to.
    got.packet[11] = 2;
    connection.send(Body::Resume(got));
    assert_eq!(connection.request(Body::BarrierRequest), Body::BarrierReply);
    let passed: Vec<_> = connection.dump().iter().map(|flow| (flow.entry.table, flow.packets)).collect();
    let last = passed.iter().filter(|(table, _)| *table > 2);
    assert!(last.clone().count() == 2 && last.clone().all(|(_, packets)| *packets == Some(1)), "{passed:?}");
    // The other number got nothing.
    assert_eq!(other.request(Body::BarrierRequest), Body::BarrierReply);
}

/// `ovs-ofctl` prints what it sends for a file of flow changes; this crate reads the same file.
#[test]
fn commands_read_alike() {
    let switch = Switch::start();
    let spellings = [
        "add table=3,priority=7,arp,actions=drop",
        "cookie=5,actions=drop",
        "modify table=3,cookie=0x10/0xf0,actions=output:1",
        "modify actions=output:1",
        "modify_strict table=3,priority=7,arp,actions=output:2",
        "delete",
        "delete table=0,cookie=5/-1",
        "delete in_port=LOCAL,out_port=3,table=7",
        "delete_strict table=3,priority=7,arp",
        "delete_strict priority=9,tcp,tp_dst=80",
    ];
    let flows: Vec<FlowMod> = spellings.iter().map(|text| text.parse().expect("a flow")).collect();
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    for (text, flow) in spellings.iter().zip(&flows) {
        writeln!(file, "flow {text}\nflow {flow}").expect("written");
    }
    let path = file.path().to_str().expect("an ASCII path");
    let target = switch.0.bridge("br0");
    let output = run("ovs-ofctl", &["-O", "OpenFlow15", "-vvconn:console:dbg", "bundle", &target, path]);
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    let sent: Vec<&str> = log.lines().filter_map(|line| line.strip_prefix("OFPT_FLOW_MOD")).collect();
    assert_eq!(sent.len(), 2 * flows.len(), "{log}");
    for (pair, flow) in sent.chunks(2).zip(flows) {
        let ours = Message { xid: 0, body: Body::FlowMod(flow) }.to_string();
        let (_, ours) = ours.split_once("): ").expect("a header");
        for sent in pair {
            assert_eq!(sent.split_once("): ").map(|(_, text)| text), Some(ours));
        }
    }
}

#[test]
fn a_switch_describes_and_counts_the_meters_that_it_was_told() {
    let switch = Switch::start();
    let mut connection = switch.connect();
    let meters = [MeterEntry::packets_per_second(1, 100, 10), MeterEntry::packets_per_second(200_000, 7, 1)];
    for meter in &meters {
        connection.send(Body::MeterMod(MeterMod::add(meter.clone())));
    }
    let described = |connection: &mut Connection| {
        let reply = connection.request(Body::MeterDescRequest(MeterEntry::ALL));
        let Body::MeterDescReply(mut reply) = reply else { panic!("no description: {reply:?}") };
        assert!(!reply.more);
        reply.meters.sort_by_key(|meter| meter.id);
        reply.meters
    };
    assert_eq!(described(&mut connection), meters);
    let Body::Error(error) = connection.request(Body::MeterMod(MeterMod::add(meters[0].clone()))) else {
        panic!("added twice")
    };
    assert_eq!(error.code.name(), Some("OFPMMFC_METER_EXISTS"));
    let changed = MeterEntry::packets_per_second(1, 200, 20);
    connection.send(Body::MeterMod(MeterMod::modify(changed.clone())));
    assert_eq!(described(&mut connection), [changed, meters[1].clone()]);
    let unknown = MeterMod::modify(MeterEntry::packets_per_second(9, 1, 1));
    let Body::Error(error) = connection.request(Body::MeterMod(unknown)) else { panic!("changed nothing") };
    assert_eq!(error.code.name(), Some("OFPMMFC_UNKNOWN_METER"));

    // A flow that uses a meter is counted, and goes with it. Deleting a meter that is not there is no error.
    let flow: FlowEntry = "reg0=1 actions=meter:1,set_field:0x5->reg1,resubmit(,3)".parse().expect("a flow");
    connection.send(Body::FlowMod(FlowMod::add(flow.clone())));
    assert_eq!(connection.dump().into_iter().map(|flow| flow.entry).collect::<Vec<_>>(), [flow]);
    let Body::MeterStatsReply(counted) = connection.request(Body::MeterStatsRequest(1)) else {
        panic!("no counters")
    };
    let [stats] = &counted.meters[..] else { panic!("not one meter: {counted:?}") };
    assert_eq!((stats.id, stats.flows, stats.packets, &stats.bands[..]), (1, 1, 0, &[(0, 0)][..]));
    connection.send(Body::MeterMod(MeterMod::delete(1)));
    assert_eq!(connection.dump(), Vec::new());
    connection.send(Body::MeterMod(MeterMod::delete(1)));
    assert_eq!(connection.request(Body::BarrierRequest), Body::BarrierReply);
    assert_eq!(described(&mut connection), &meters[1..]);

    // Not inside a bundle.
    assert_eq!(connection.bundle(BundleOp::OpenRequest), reply(BundleOp::OpenReply));
    let body = Box::new(Body::MeterMod(MeterMod::add(meters[0].clone())));
    let add = Body::BundleAdd(BundleAdd { bundle_id: 1, flags: FLAGS, body });
    let Body::Error(error) = connection.request(add) else { panic!("taken in a bundle") };
    assert_eq!(error.code.name(), Some("OFPBFC_MSG_UNSUP"));
}

#[test]
fn groups_of_all_types_are_taken_and_described() {
    let switch = Switch::start();
    let mut connection = switch.connect();
    let groups = [
        "group_id=1,type=all,bucket=bucket_id:1,actions=output:2,bucket=bucket_id:2,actions=resubmit(,3)",
        "group_id=2,type=select,bucket=bucket_id:1,weight:5,actions=output:2,bucket=bucket_id:3,watch_port:4,actions=drop",
        "group_id=3,type=ff,bucket=bucket_id:0,watch_port:5,actions=output:5,bucket=bucket_id:1,watch_group:1,actions=group:1",
        "group_id=4,type=indirect,bucket=bucket_id:0,actions=group:1",
        "group_id=5,type=select,selection_method=hash,bucket=bucket_id:1,weight:0,actions=output:2",
        "group_id=6,type=select,selection_method=dp_hash,selection_method_param=7,bucket=bucket_id:1,actions=output:2",
        "group_id=7,type=select,selection_method=hash,selection_method_param=5,fields(ip_src=255.255.255.0,ip_dst,nw_proto,tcp_src,\
         udp_src),bucket=bucket_id:7,weight:2,watch_port:2,actions=output:2,bucket=bucket_id:3,actions=output:3",
    ]
    .map(|text| text.parse::<GroupEntry>().expect("a group"));
    let described = |connection: &mut Connection| {
        let reply = connection.request(Body::GroupDescRequest(GroupDescRequest { group: GroupEntry::ALL }));
        let Body::GroupDescReply(mut reply) = reply else { panic!("no groups") };
        assert_eq!((reply.more, &reply.unreadable[..]), (false, &[][..]));
        reply.groups.sort_by_key(|group| group.id);
        reply.groups
    };
    for group in &groups {
        connection.send(Body::GroupMod(GroupMod::add(group.clone())));
    }
    assert_eq!(described(&mut connection), groups);

    // A new bucket is read as one of the type in the message.
    let new = |id, weight, port| Bucket {
        weight,
        watch_port: PortNo(port),
        ..Bucket::new(id, "output:9".parse().expect("an action"))
    };
    let (select, failover) = (new(9, 4, 3), new(9, 0, 3));
    let insert = |id, kind, bucket: &Bucket| GroupMod::insert(id, kind, vec![bucket.clone()]);
    connection.send(Body::GroupMod(insert(7, GroupKind::Select, &select)));
    let first = GroupMod { bucket: Bucket::FIRST, ..insert(3, GroupKind::FastFailover, &failover) };
    connection.send(Body::GroupMod(first));
    connection.send(Body::GroupMod(GroupMod::modify(GroupEntry { id: 5, ..groups[5].clone() })));
    let mut changed = groups.to_vec();
    changed[6].buckets.push(select);
    changed[2].buckets.insert(0, failover.clone());
    changed[4] = GroupEntry { id: 5, ..groups[5].clone() };
    assert_eq!(described(&mut connection), changed);

    let Body::Error(error) = connection.request(Body::GroupMod(insert(3, GroupKind::All, &failover))) else {
        panic!("a watched port is taken for a group of type all")
    };
    assert_eq!(error.code.name(), Some("OFPGMFC_WATCH_UNSUPPORTED"));
}

#[test]
fn refusals_name_what_is_wrong() {
    let switch = Switch::start();
    let mut connection = switch.connect();
    let flow = |text: &str| Body::FlowMod(text.parse().expect("a flow"));
    for (text, expected) in [
        ("add tcp_dst=80,actions=drop", "OFPBMC_BAD_PREREQ"),
        ("add ip,ct_state=+trk,actions=group:77", "OFPBAC_BAD_OUT_GROUP"),
        ("add actions=meter:77", "OFPMMFC_INVALID_METER"),
        ("add table=5,actions=goto_table:5", "OFPBIC_BAD_TABLE_ID"),
        ("add actions=set_field:1.2.3.4->ip_src", "OFPBAC_MATCH_INCONSISTENT"),
        ("modify table=255,actions=drop", "OFPFMFC_BAD_TABLE_ID"),
    ] {
        let Body::Error(error) = connection.request(flow(text)) else { panic!("{text} was not refused") };
        assert_eq!(error.code.name(), Some(expected), "{text}");
        assert_eq!(error.data[1], 14, "the refused flow-mod is quoted");
    }
    let lone = "tcp_dst=80".parse::<openflow_rs::Match>().expect("a match");
    assert!(lone.validate().is_err());

    // An error when a message is added does not fail the commit: the rest is applied.
    assert_eq!(connection.bundle(BundleOp::OpenRequest), reply(BundleOp::OpenReply));
    connection.add("add tcp_dst=80,actions=drop".parse().expect("a flow"));
    assert!(matches!(connection.receive().body, Body::Error(error) if error.code == ErrorCode::BAD_PREREQ));
    connection.add(FlowMod::add(FlowEntry::new(0, 1, openflow_rs::Match::any(), Actions::drop())));
    assert_eq!(connection.bundle(BundleOp::DiscardRequest), reply(BundleOp::DiscardReply));
    assert_eq!(connection.dump(), Vec::new());

    // At commit, an error about the message is followed by one about the bundle.
    assert_eq!(connection.bundle(BundleOp::OpenRequest), reply(BundleOp::OpenReply));
    connection.add("add actions=group:77".parse().expect("a flow"));
    let add = connection.xid;
    let commit = connection.send(control(BundleOp::CommitRequest));
    for (xid, expected) in [(add, "OFPBAC_BAD_OUT_GROUP"), (commit, "OFPBFC_MSG_FAILED")] {
        let message = connection.receive();
        let Body::Error(error) = message.body else { panic!("committed") };
        assert_eq!((message.xid, error.code.name()), (xid, Some(expected)));
    }
}

#[test]
fn another_version_is_refused_in_words() {
    let switch = Switch::start();
    let mut stream = switch.stream();
    // Version 0x3f.
    stream.write_all(&[0x3f, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, 8, 0x80, 0, 0, 0]).expect("sent");
    let mut received = Vec::new();
    let _ = stream.read_to_end(&mut received);
    let Ok(Frame::Message(len)) = frame(&received) else { panic!("no hello: {received:02x?}") };
    assert!(matches!(Message::decode(&received[..len]).expect("a hello").body, Body::Hello(_)));
    let Ok(Frame::Message(end)) = frame(&received[len..]) else { panic!("no error: {received:02x?}") };
    let error = Message::decode(&received[len..len + end]).expect("an error");
    assert!(error.to_string().contains("OFPHFC_INCOMPATIBLE"), "{error}");
}
