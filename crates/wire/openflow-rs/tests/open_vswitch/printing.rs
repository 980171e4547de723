//! Every message kind prints as `ovs-ofctl` prints its bytes.

use std::time::Duration;

use openflow_rs::flow::{FlowRemoved, RemovedReason};
use openflow_rs::message::*;
use openflow_rs::meter::{BandKind, MeterBand, MeterFlags};
use openflow_rs::{
    Body, Bucket, Field, FlowEntry, FlowMod, FlowStats, GroupEntry, GroupKind, GroupMod, MacAddr, Match,
    Message, MeterEntry, MeterMod, MeterStats, PortNo, Selection,
};

use ovs_testing::{ofctl, run};

use crate::open_vswitch::ofctl::check_printed;

fn numbered(bodies: impl IntoIterator<Item = Body>) -> Vec<Message> {
    (0x1a..).zip(bodies).map(|(xid, body)| Message { xid, body }).collect()
}

fn port(number: PortNo, name: &str) -> Port {
    Port {
        number,
        mac: MacAddr([2, 0, 0, 0, 0, 0xab]),
        name: name.to_owned(),
        config: PortConfig(0x61),
        state: PortState(5),
        link: [0x840, 0xffff, 0, 1],
        current_kbps: 10_000_000,
        max_kbps: 12_345_678,
    }
}

fn flow(text: &str) -> FlowMod {
    text.parse().expect("a flow")
}

#[test]
fn session_messages() {
    let hellos = [0x40, 0x7e, 0x42, 0x10, 2].map(|versions| Body::Hello(Hello::with_versions(versions)));
    let echoes = [0, 1, 7, 8, 9, 16, 17, 40]
        .map(|len: u8| Body::EchoRequest((0..len).map(|n| 0x1b + n * 5).collect()));
    let features = Features {
        datapath_id: 0x5e42,
        n_buffers: 256,
        n_tables: 254,
        auxiliary_id: 3,
        capabilities: Capabilities(0xffff_ffff),
    };
    let mut bodies = vec![
        Body::EchoReply(b"are you there?".to_vec()),
        Body::FeaturesRequest,
        Body::FeaturesReply(features),
        Body::FeaturesReply(Features { auxiliary_id: 0, capabilities: Capabilities(0x4f), ..features }),
        Body::FeaturesReply(Features { capabilities: Capabilities(0), ..features }),
        Body::GetConfigRequest,
        Body::BarrierRequest,
        Body::BarrierReply,
    ];
    bodies.extend(hellos);
    bodies.extend(echoes);
    for fragments in [FragmentHandling::Normal, FragmentHandling::Drop, FragmentHandling::Reassemble] {
        bodies.push(Body::SetConfig(SwitchConfig { fragments, miss_send_len: 128 }));
        bodies.push(Body::GetConfigReply(SwitchConfig { fragments, miss_send_len: 65535 }));
    }
    for role in [Role::NoChange, Role::Equal, Role::Primary, Role::Secondary] {
        for generation_id in [7, u64::MAX] {
            let request = RoleRequest { role, short_id: u32::MAX, generation_id };
            bodies.push(Body::RoleRequest(request));
            bodies.push(Body::RoleReply(request));
            for reason in [RoleReason::PrimaryRequest, RoleReason::Config, RoleReason::Experimenter] {
                bodies.push(Body::RoleStatus(RoleStatus { role, reason, generation_id }));
            }
        }
    }
    check_printed(&numbered(bodies));
}

#[test]
fn ports() {
    let one = port(PortNo(7), "tap-vm7");
    let local = port(PortNo::LOCAL, "br-int");
    let plain = Port {
        config: PortConfig(0),
        state: PortState(0),
        link: [0; 4],
        current_kbps: 0,
        max_kbps: 0,
        ..port(PortNo(1), "exactly15-bytes")
    };
    let reply = PortDescReply { more: true, ports: vec![local.clone(), one.clone(), plain.clone()] };
    check_printed(&numbered([
        Body::PortStatus(PortStatus { reason: PortReason::Add, port: one }),
        Body::PortStatus(PortStatus { reason: PortReason::Delete, port: local }),
        Body::PortStatus(PortStatus { reason: PortReason::Modify, port: plain }),
        Body::PortDescRequest(PortNo::ANY),
        Body::PortDescRequest(PortNo(3)),
        Body::PortDescReply(reply),
        Body::PortDescReply(PortDescReply { more: false, ports: Vec::new() }),
    ]));
}

#[test]
fn flows_and_bundles() {
    let mods = [
        "add actions=drop",
        "add cookie=0x5,table=3,priority=0,idle_timeout=1,hard_timeout=2,importance=3,send_flow_rem,check_overlap,actions=1",
        "add reset_counts,no_packet_counts,no_byte_counts,ip,actions=resubmit(,3)",
        "modify cookie=1/3,table=3,actions=output:1",
        "modify_strict priority=5,arp,actions=output:1",
        "delete",
        "delete table=0,out_port=3,in_port=LOCAL",
        "delete_strict cookie=1/-1,table=2,priority=5,reg0=1",
    ]
    .map(|text| Body::FlowMod(flow(text)));
    let mut bodies = mods.to_vec();
    for op in [
        BundleOp::OpenRequest,
        BundleOp::OpenReply,
        BundleOp::CloseRequest,
        BundleOp::CloseReply,
        BundleOp::CommitRequest,
        BundleOp::CommitReply,
        BundleOp::DiscardRequest,
        BundleOp::DiscardReply,
    ] {
        for flags in [0, 1, 2, 3, 0x8001] {
            bodies.push(Body::BundleControl(BundleControl {
                bundle_id: 0x1234,
                op,
                flags: BundleFlags(flags),
            }));
        }
    }
    for inner in mods {
        bodies.push(Body::BundleAdd(BundleAdd {
            bundle_id: 1,
            flags: BundleFlags(3),
            body: Box::new(inner),
        }));
    }
    check_printed(&numbered(bodies));
}

#[test]
fn groups() {
    let groups = [
        "group_id=10,type=all",
        "group_id=11,type=all,bucket=bucket_id:1,actions=set_field:0x102->tun_id,output:200,bucket=bucket_id:2,actions=resubmit(,3)",
        "group_id=12,type=select,bucket=bucket_id:1,weight:5,actions=output:2,bucket=bucket_id:3,watch_port:4,actions=drop",
        "group_id=13,type=ff,bucket=bucket_id:0,watch_port:5,actions=output:5,bucket=bucket_id:1,watch_group:11,actions=group:11",
        "group_id=14,type=indirect,bucket=bucket_id:0,actions=set_field:0x1->reg1,group:11",
        "group_id=15,type=select,selection_method=hash,bucket=bucket_id:1,weight:0,actions=output:2",
        "group_id=16,type=select,selection_method=dp_hash,selection_method_param=18446744073709551615",
        "group_id=17,type=select,selection_method=hash,fields=ipv6_dst=ffff::,bucket=bucket_id:1,actions=output:2",
        "group_id=18,type=select,selection_method=hash,selection_method_param=5,fields(tcp_dst=256,ip_src=255.255.255.0,\
         eth_src=ff:ff:ff:00:00:00,nw_proto,reg0=0xff,ct_label=0x7000000000000000f),bucket=bucket_id:7,actions=group:2",
    ]
    .map(|text| text.parse::<GroupEntry>().expect("a group"));
    let mut mods: Vec<GroupMod> = groups
        .iter()
        .flat_map(|group| [GroupMod::add(group.clone()), GroupMod::modify(group.clone())])
        .collect();
    mods.extend([GroupMod::delete(7), GroupMod::delete(GroupEntry::ALL)]);
    mods.extend([7, Bucket::FIRST, Bucket::LAST, Bucket::ALL].map(|bucket| GroupMod::remove(11, bucket)));
    for group in &groups[1..4] {
        mods.push(GroupMod::insert(11, group.kind, group.buckets.clone()));
    }
    mods.push(GroupMod { bucket: 9, ..GroupMod::insert(11, GroupKind::All, groups[1].buckets.clone()) });
    let mut bodies: Vec<Body> = mods.iter().cloned().map(Body::GroupMod).collect();
    bodies.extend(mods.into_iter().map(|group| {
        let body = Box::new(Body::GroupMod(group));
        Body::BundleAdd(BundleAdd { bundle_id: 1, flags: BundleFlags(3), body })
    }));
    bodies.extend([11, GroupEntry::ALL].map(|group| Body::GroupDescRequest(GroupDescRequest { group })));
    let reply = GroupDescReply { more: true, groups: groups.to_vec(), unreadable: Vec::new() };
    bodies.extend([reply, GroupDescReply::default()].map(Body::GroupDescReply));
    check_printed(&numbered(bodies));
}

/// Open vSwitch takes every field as one to hash, and has them in the same order.
#[test]
fn hashed_fields() {
    let hashable: Vec<Field> = Field::all().filter(|field| *field != Field::TunMetadata0).collect();
    let group = |id, fields: &[Field]| {
        let selection = Some(Selection::hash(fields.iter().copied()));
        GroupEntry { selection, ..GroupEntry::new(id, GroupKind::Select, Vec::new()) }
    };
    let mut groups = vec![group(0, &hashable)];
    groups.extend((1..).zip(&hashable).map(|(id, field)| group(id, &[*field])));
    check_printed(&numbered(groups.into_iter().map(|group| Body::GroupMod(GroupMod::add(group)))));
}

#[test]
fn meters() {
    let band = |kind, rate, burst| MeterBand { kind, rate, burst };
    let entry =
        |id, flags, bands: &[MeterBand]| MeterEntry { id, flags: MeterFlags(flags), bands: bands.to_vec() };
    let meters = vec![
        MeterEntry::packets_per_second(7, 100, 10),
        entry(1, 1, &[band(BandKind::Drop, 5000, 0)]),
        entry(2, 13, &[band(BandKind::Drop, 9000, 500), band(BandKind::DscpRemark(2), 5000, 7)]),
        entry(MeterEntry::SLOWPATH, 2, &[band(BandKind::Drop, 1, 0)]),
        entry(MeterEntry::CONTROLLER, 0x12, &[]),
    ];
    let mut bodies: Vec<Body> = meters
        .iter()
        .flat_map(|meter| [MeterMod::add(meter.clone()), MeterMod::modify(meter.clone())])
        .chain([7, MeterEntry::ALL].map(MeterMod::delete))
        .map(Body::MeterMod)
        .collect();
    for id in [7, MeterEntry::ALL, MeterEntry::SLOWPATH] {
        bodies.extend([Body::MeterDescRequest(id), Body::MeterStatsRequest(id)]);
    }
    for (more, meters) in [(true, meters), (false, Vec::new())] {
        bodies.push(Body::MeterDescReply(MeterDescReply { more, meters }));
    }
    let stats = |id, nanos, bands: &[(u64, u64)]| MeterStats {
        id,
        flows: 2,
        packets: 1000,
        bytes: 60_000,
        duration: Duration::new(12, nanos),
        bands: bands.to_vec(),
    };
    let counted =
        vec![stats(7, 0, &[(890, 53_400)]), stats(8, 345_000_000, &[(1, 2), (3, 4)]), stats(9, 1, &[])];
    for (more, meters) in [(true, counted), (false, Vec::new())] {
        bodies.push(Body::MeterStatsReply(MeterStatsReply { more, meters }));
    }
    check_printed(&numbered(bodies));
}

#[test]
fn option_maps() {
    let mappings = vec![
        TlvMapping { class: 0x102, kind: 0x80, len: 4, field: 0 },
        TlvMapping { class: 0xffff, kind: 1, len: 124, field: 63 },
    ];
    let change = |command| Body::TlvTableMod(TlvTableMod { command, mappings: mappings.clone() });
    check_printed(&numbered([
        Body::TlvTableRequest,
        Body::TlvTableReply(TlvTableReply { max_space: 256, max_fields: 64, mappings: mappings.clone() }),
        Body::TlvTableReply(TlvTableReply { max_space: 256, max_fields: 64, mappings: Vec::new() }),
        change(TlvCommand::Add),
        change(TlvCommand::Delete),
        Body::TlvTableMod(TlvTableMod { command: TlvCommand::Clear, mappings: Vec::new() }),
    ]));
}

#[test]
fn flushes_of_zones() {
    check_printed(&numbered([0, 5, u16::MAX].map(Body::CtFlushZone)));
}

#[test]
fn removed_flows() {
    let reasons = [
        RemovedReason::IdleTimeout,
        RemovedReason::HardTimeout,
        RemovedReason::Delete,
        RemovedReason::GroupDelete,
        RemovedReason::MeterDelete,
        RemovedReason::Eviction,
    ];
    let flows =
        ["actions=drop", "cookie=5,table=3,priority=7,idle_timeout=4,hard_timeout=5,tcp,actions=drop"];
    let removed = reasons.into_iter().flat_map(|reason| {
        flows.map(|text| {
            let entry: FlowEntry = text.parse().expect("a flow");
            let duration = Duration::from_millis(1500);
            Body::FlowRemoved(FlowRemoved { entry, reason, duration, packets: Some(3), bytes: None })
        })
    });
    check_printed(&numbered(removed));
}

#[test]
fn flow_dumps() {
    let request = FlowDescRequest::all();
    let stats = |text: &str, nanos, packets: Option<u64>| FlowStats {
        entry: text.parse::<FlowEntry>().expect("a flow"),
        duration: Duration::new(12, nanos),
        packets,
        bytes: packets.map(|n| n * 64),
        idle_s: packets.map(|n| n as u32),
    };
    let flows = vec![
        stats("actions=drop", 0, Some(0)),
        stats("cookie=0xff,table=7,priority=1,tcp,tp_dst=80,actions=resubmit(,8)", 345_000_000, Some(9)),
        stats("priority=0,idle_timeout=3,send_flow_rem,importance=2,actions=NORMAL", 1_500_000, None),
        stats("hard_timeout=3,no_byte_counts,arp,actions=1,goto_table:9", 1, Some(1)),
    ];
    check_printed(&numbered([
        Body::FlowDescRequest(request.clone()),
        Body::FlowDescRequest(FlowDescRequest {
            table: 0,
            out_port: PortNo(5),
            cookie: 1,
            cookie_mask: 3,
            matches: "tcp,reg1=5".parse::<Match>().expect("a match"),
            ..request
        }),
        Body::FlowDescReply(FlowDescReply { more: false, flows: Vec::new(), unreadable: Vec::new() }),
        Body::FlowDescReply(FlowDescReply { more: true, flows: flows.clone(), unreadable: Vec::new() }),
        Body::FlowDescReply(FlowDescReply { more: false, flows, unreadable: Vec::new() }),
    ]));
}

#[test]
fn flow_monitors() {
    let all = FlowMonitor::all(7, FlowMonitorFlags(0x5f));
    let one = FlowMonitor {
        table: 3,
        out_port: PortNo(5),
        out_group: 64,
        matches: "tcp,reg1=5".parse::<Match>().expect("a match"),
        ..FlowMonitor::all(u32::MAX, FlowMonitorFlags::REMOVED)
    };
    let end = FlowMonitor { command: FlowMonitorCommand::Delete, ..all.clone() };
    let requests = [all, one, end].map(|monitor| FlowMonitorRequest { monitors: vec![monitor] });
    let entry = |text: &str| text.parse::<FlowEntry>().expect("a flow");
    let long = entry("cookie=0xff,table=7,idle_timeout=3,hard_timeout=4,tcp,tp_dst=80,actions=resubmit(,8)");
    let updates: Vec<FlowUpdate> = [
        (FlowEvent::Initial, long.clone()),
        (FlowEvent::Added, entry("actions=drop")),
        (FlowEvent::Added, entry("priority=9,actions=output:1")),
        (FlowEvent::Modified, long.clone()),
        (FlowEvent::Removed(RemovedReason::Delete), long),
        (FlowEvent::Removed(RemovedReason::Eviction), entry("arp,actions=drop")),
    ]
    .into_iter()
    .map(|(event, entry)| FlowUpdate::Flow(event, entry))
    .chain([FlowUpdate::Own(0x1234), FlowUpdate::Paused, FlowUpdate::Resumed])
    .collect();
    let reply = |more, updates| Body::FlowMonitorReply(FlowMonitorReply { more, updates });
    let mut bodies: Vec<Body> = requests.map(Body::FlowMonitorRequest).into();
    bodies.extend(updates.iter().map(|update| reply(false, vec![update.clone()])));
    bodies.extend([reply(true, updates), reply(false, Vec::new())]);
    check_printed(&numbered(bodies));
}

#[test]
fn packets() {
    let bodies = ["output:1", "set_field:0x5->reg1,resubmit(,3)", "FLOOD"].map(|actions| {
        let packet = PacketOut::new(actions.parse().expect("actions"), vec![0xff; 60]);
        [Body::PacketOut(packet.clone()), Body::PacketOut(PacketOut { data: Vec::new(), ..packet })]
    });
    for message in numbered(bodies.into_iter().flatten()) {
        let bytes = message.encode().expect("a short message");
        assert_eq!(Message::decode(&bytes).as_ref(), Ok(&message));
        // Open vSwitch goes on with the packet, as it would match it.
        let printed = crate::open_vswitch::ofctl::print_all(&[bytes]);
        assert_eq!(printed[0].lines().next(), Some(message.to_string().as_str()));
    }
    let packet =
        PacketOut { buffer_id: 5, ..PacketOut::new("FLOOD".parse().expect("an action"), Vec::new()) };
    check_printed(&numbered([Body::PacketOut(packet)]));
}

#[test]
fn packets_for_a_controller() {
    let metadata =
        ["in_port=7", "reg0=5,reg1=6,reg4=0x10,metadata=3,tun_id=0x9,in_port=LOCAL", "ct_state=+new+trk"];
    let bodies = metadata.into_iter().flat_map(|metadata| {
        let plain = PacketIn::new(metadata.parse().expect("a match"), vec![0xff; 60]);
        let full = PacketIn {
            full_len: 1500,
            table: 9,
            cookie: 0,
            reason: PacketInReason::NO_MATCH,
            userdata: vec![1, 2, 0xff],
            ..plain.clone()
        };
        let reasons =
            (2..6).map(PacketInReason).map(|reason| PacketIn { reason, cookie: 0x77, ..plain.clone() });
        [plain.clone(), full.clone()].into_iter().chain(reasons).collect::<Vec<_>>()
    });
    let bodies: Vec<Body> =
        bodies.flat_map(|packet| [Body::PacketIn(packet.clone()), Body::Resume(packet)]).collect();
    for message in numbered(bodies) {
        let bytes = message.encode().expect("a short message");
        assert_eq!(Message::decode(&bytes).as_ref(), Ok(&message));
        // Open vSwitch goes on with the packet, as it would match it.
        let printed = crate::open_vswitch::ofctl::print_all(&[bytes]);
        let ours = message.to_string();
        let begun: Vec<&str> = printed[0].lines().take(ours.lines().count()).collect();
        assert_eq!(begun.join("\n"), ours);
    }
    let formats = [PacketInFormat::Standard, PacketInFormat::Fixed, PacketInFormat::Properties];
    let requests = formats.map(Body::SetPacketInFormat).into_iter();
    check_printed(&numbered(requests.chain([0, 7, u16::MAX].map(Body::SetControllerId))));
}

#[test]
fn errors_quote_what_they_refuse() {
    let code = ErrorCode::BAD_PREREQ;
    let refused = Message { xid: 3, body: Body::FlowMod(flow("add table=5,tcp,reg1=7,actions=output:1")) };
    let bytes = refused.encode().expect("a message");
    let add = BundleAdd { bundle_id: 1, flags: BundleFlags(3), body: Box::new(refused.body) };
    let bundled = Message { xid: 3, body: Body::BundleAdd(add) }.encode().expect("a message");
    let echo = Message { xid: 3, body: Body::EchoRequest(vec![1, 2, 3]) }.encode().expect("a message");
    let group_mod = [&[6, 15, 0, 200, 0, 0, 0, 9][..], &[0; 56]].concat();
    let meter_request = [&[6, 18, 0, 200, 0, 0, 0, 9, 0, 9, 0, 0, 0, 0, 0, 0][..], &[0; 48]].concat();
    let data = [
        bytes.clone(),
        bytes[..64].to_vec(),
        bundled[..64].to_vec(),
        bundled,
        bytes[..8].to_vec(),
        bytes[..5].to_vec(),
        Vec::new(),
        echo,
        group_mod,
        meter_request,
        [&bytes[..], &[0]].concat(),
    ];
    let mut bodies: Vec<Body> = data.map(|data| Body::Error(ErrorMessage { code, data })).to_vec();
    let text = b"We support version 0x06, you \"support\" \\ \x01\xff".to_vec();
    bodies.push(Body::Error(ErrorMessage { code: ErrorCode::INCOMPATIBLE, data: text }));
    check_printed(&numbered(bodies));
}

#[test]
fn every_named_error_has_the_name_that_ovs_gives_it() {
    let standard = (0..20).flat_map(|kind| (0..32).map(move |code| ErrorCode::Standard { kind, code }));
    let nicira = (0..64).map(|kind| ErrorCode::Experimenter { experimenter: 0x2320, kind });
    let (named, unnamed): (Vec<_>, Vec<_>) = standard.chain(nicira).partition(|code| code.name().is_some());
    assert!(named.len() > 190, "{}", named.len());
    let bodies = |codes: &[ErrorCode]| {
        numbered(codes.iter().map(|code| Body::Error(ErrorMessage { code: *code, data: Vec::new() })))
    };
    // Without text to quote the first kind prints nothing more, the others "message is empty".
    check_printed(&bodies(&named));
    // Open vSwitch has no name for the rest either.
    let unnamed: Vec<_> = bodies(&unnamed).iter().map(|m| m.encode().expect("a message")).collect();
    for text in crate::open_vswitch::ofctl::print_all(&unnamed) {
        assert!(text.contains("***decode error: OFPBRC_BAD_LEN***"), "{text}");
    }
}

#[test]
fn hello_has_the_bytes_that_ovs_sends() {
    for versions in [0x2_u32, 0x7e, 0x40, 0x42, 0x60, 0x7c] {
        let printed = ofctl(&["encode-hello", &format!("{versions:#x}")]);
        let dump: Vec<&str> = printed.lines().take_while(|line| line.starts_with("0000")).collect();
        let digits = dump.iter().flat_map(|line| line[9..].split([' ', '-'])).filter(|pair| pair.len() == 2);
        let bytes: Vec<u8> = digits.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal")).collect();
        let hello = Message { xid: 1, body: Body::Hello(Hello::with_versions(versions)) };
        assert_eq!(hello.encode().as_ref(), Ok(&bytes), "{versions:#x}");
        assert_eq!(Message::decode(&bytes).as_ref(), Ok(&hello));
    }
}

#[test]
fn one_message_at_a_time_prints_the_same() {
    let message = Message { xid: 3, body: Body::FlowMod(flow("add table=5,tcp,reg1=7,actions=output:1")) };
    let bytes = message.encode().expect("a message");
    let digits = bytes.iter().fold(String::new(), |digits, byte| digits + &format!("{byte:02x}"));
    let output = run("ovs-ofctl", &["ofp-print", &digits]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{message}\n"));
}
