use super::*;
use crate::flow::{ALL_TABLES, RemovedReason};
use crate::{Actions, FlowEntry, FlowStats, Frame, frame};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|c| !c.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// Checks both conversions between bytes and message, and that every shorter prefix is refused.
fn check(body: Body, text: &str) {
    let message = Message { xid: 7, body };
    let bytes = hex(text);
    assert_eq!(message.encode().unwrap(), bytes, "{message}");
    assert_eq!(frame(&bytes), Ok(Frame::Message(bytes.len())));
    assert_eq!(Message::decode(&bytes), Ok(message));
    for len in 0..bytes.len() {
        assert!(Message::decode(&bytes[..len]).is_err(), "cut to {len}");
    }
}

#[test]
fn session_messages_have_the_bytes_of_the_specification() {
    check(Body::Hello(Hello::new()), "06 00 0010 00000007 0001 0008 00000040");
    check(Body::Hello(Hello::with_versions(0x7e)), "06 00 0008 00000007");
    check(Body::EchoRequest(vec![1, 2, 3]), "06 02 000b 00000007 010203");
    check(Body::FeaturesRequest, "06 05 0008 00000007");
    let features = Features {
        datapath_id: 0x0102_0304_0506_0708,
        n_buffers: 0,
        n_tables: 254,
        auxiliary_id: 0,
        capabilities: Capabilities(0x4f),
    };
    check(
        Body::FeaturesReply(features),
        "06 06 0020 00000007 0102030405060708 00000000 fe 00 0000 0000004f 00000000",
    );
    let config = SwitchConfig { fragments: FragmentHandling::Normal, miss_send_len: 128 };
    check(Body::SetConfig(config), "06 09 000c 00000007 0000 0080");
    let role = RoleRequest { role: Role::Primary, short_id: u32::MAX, generation_id: 5 };
    check(Body::RoleRequest(role), "06 18 0018 00000007 00000002 ffffffff 0000000000000005");
}

#[test]
fn a_flush_of_a_zone_has_the_bytes_of_open_vswitch() {
    check(Body::CtFlushZone(5), "06 04 0018 00000007 00002320 0000001d 000000000000 0005");
}

#[test]
fn flow_messages_have_the_bytes_of_the_specification() {
    let entry: FlowEntry =
        "cookie=5,table=3,priority=9,in_port=2,actions=output:1,goto_table:4".parse().unwrap();
    let flow = Body::FlowMod(FlowMod::add(entry));
    check(
        flow.clone(),
        "06 0e 0060 00000007 0000000000000005 0000000000000000 03 00 0000 0000 0009 ffffffff ffffffff ffffffff
         0000 0000 0001 000c 80000004 00000002 00000000
         0004 0018 00000000 0000 0010 00000001 0000 000000000000 0001 0008 04 000000",
    );
    let all = FlowDescRequest::all();
    assert_eq!(all.table, ALL_TABLES);
    check(
        Body::FlowDescRequest(all),
        "06 12 0038 00000007 0001 0000 00000000 ff 000000 ffffffff ffffffff 00000000
         0000000000000000 0000000000000000 0001 0004 00000000",
    );
    let bundle =
        BundleAdd { bundle_id: 1, flags: BundleFlags(1) | BundleFlags::ORDERED, body: Box::new(flow) };
    let bytes = Message { xid: 7, body: Body::BundleAdd(bundle) }.encode().unwrap();
    assert_eq!(bytes[..16], hex("06 22 0070 00000007 00000001 0000 0003"));
    assert_eq!(bytes[16..24], hex("06 0e 0060 00000007"));
}

#[test]
fn meter_messages_have_the_bytes_of_the_specification() {
    let meter = crate::MeterEntry::packets_per_second(7, 100, 10);
    check(
        Body::MeterMod(crate::MeterMod::add(meter.clone())),
        "06 1d 0020 00000007 0000 000e 00000007 0001 0010 00000064 0000000a 00000000",
    );
    check(Body::MeterMod(crate::MeterMod::delete(7)), "06 1d 0010 00000007 0002 0000 00000007");
    check(
        Body::MeterDescRequest(crate::MeterEntry::ALL),
        "06 12 0018 00000007 000a 0000 00000000 ffffffff 00000000",
    );
    let reply = MeterDescReply { more: false, meters: vec![meter] };
    check(
        Body::MeterDescReply(reply),
        "06 13 0028 00000007 000a 0000 00000000 0018 000e 00000007 0001 0010 00000064 0000000a 00000000",
    );
    let stats = crate::MeterStats {
        id: 7,
        flows: 2,
        packets: 3,
        bytes: 4,
        duration: std::time::Duration::new(5, 6),
        bands: vec![(8, 9)],
    };
    check(
        Body::MeterStatsReply(MeterStatsReply { more: true, meters: vec![stats] }),
        "06 13 0048 00000007 0009 0001 00000000 00000007 0038 000000000000 00000002 0000000000000003
         0000000000000004 00000005 00000006 0000000000000008 0000000000000009",
    );
}

#[test]
fn monitors_of_flows_have_the_bytes_of_the_specification() {
    let flags = FlowMonitorFlags::INITIAL | FlowMonitorFlags::ADD | FlowMonitorFlags::REMOVED;
    let one = FlowMonitor { table: 3, matches: "reg0=5".parse().unwrap(), ..FlowMonitor::all(9, flags) };
    let end = FlowMonitor { command: FlowMonitorCommand::Delete, ..FlowMonitor::all(8, FlowMonitorFlags(0)) };
    check(
        Body::FlowMonitorRequest(FlowMonitorRequest { monitors: vec![one, end] }),
        "06 12 0048 00000007 0010 0000 00000000
         00000009 ffffffff ffffffff 0007 03 00 0001 000c 00010004 00000005 00000000
         00000008 ffffffff ffffffff 0000 ff 02 0001 0004 00000000",
    );
    let entry: FlowEntry = "cookie=5,table=3,priority=9,in_port=2,actions=output:1".parse().unwrap();
    let timed = FlowEntry { idle_timeout: 6, hard_timeout: 7, actions: Actions::drop(), ..entry.clone() };
    let updates = vec![
        FlowUpdate::Flow(FlowEvent::Added, entry),
        FlowUpdate::Flow(FlowEvent::Removed(RemovedReason::Delete), timed),
        FlowUpdate::Own(0x12),
        FlowUpdate::Paused,
        FlowUpdate::Resumed,
    ];
    check(
        Body::FlowMonitorReply(FlowMonitorReply { more: false, updates }),
        "06 13 0090 00000007 0010 0000 00000000
         0040 0001 03 00 0000 0000 0009 00000000 0000000000000005 0001 000c 80000004 00000002 00000000
         0004 0018 00000000 0000 0010 00000001 0000 000000000000
         0028 0002 03 02 0006 0007 0009 00000000 0000000000000005 0001 000c 80000004 00000002 00000000
         0008 0004 00000012 0008 0005 00000000 0008 0006 00000000",
    );
    let bad = hex("06 13 0018 00000007 0010 0000 00000000 0008 0007 00000000");
    assert_eq!(Message::decode(&bad).unwrap_err().fault, Fault::Unknown(7));
}

#[test]
fn packets_have_the_bytes_of_the_specification() {
    let packet = PacketOut::new("output:1".parse().unwrap(), vec![0xab, 0xcd]);
    let text = "06 0d 0032 00000007 ffffffff 0010 0000 0001 000c 80000004 fffffffd 00000000
         0000 0010 00000001 0000 000000000000 abcd";
    check(Body::PacketOut(packet.clone()), text);
    assert_eq!(
        Message { xid: 7, body: Body::PacketOut(packet) }.to_string(),
        "OFPT_PACKET_OUT (OF1.5) (xid=0x7): in_port=CONTROLLER actions=output:1 data_len=2"
    );
}

/// What Open vSwitch 3.1 sends for `controller(id=9,userdata=01.02.ff,pause)`: it has registers 0 and 3 as parts of wide ones, and
/// the properties in this order.
#[test]
fn a_paused_packet_is_read_as_open_vswitch_writes_it() {
    let packet =
        "ffffffffffff 020000000001 8035 0001 0800 06 04 0000 000000000000 00000000 000000000000 00000000";
    let continuation = "8000 0014 f94dbeb52946f6f746b1a7b2fc0f781b 00000000
        8006 0028 00000000 ffff 0010 00002320 000e fff8 03 000000 ffff 0010 00002320 000e fff8 05 000000";
    let received = format!(
        "06 04 00e8 00000000 00002320 0000001e 0000 002e {packet} 0000 0003 0005 00 000000
         0004 0010 00000000 0000000000000011 0005 0005 01 000000
         0006 0034 80000004 fffffffe 80010110 0000000500000000 ffffffff00000000
         80010310 0000000000000006 00000000ffffffff 00000000
         0008 0048 00000000 {continuation} 0007 0007 0102ff 00"
    );
    let read = Message::decode(&hex(&received)).unwrap();
    let metadata = "reg0=5,reg3=6,in_port=LOCAL".parse().unwrap();
    let expected = PacketIn {
        cookie: 0x11,
        userdata: vec![1, 2, 0xff],
        continuation: Some(hex(continuation)),
        ..PacketIn::new(metadata, hex(packet))
    };
    assert_eq!(read, Message { xid: 0, body: Body::PacketIn(expected.clone()) });
    assert_eq!(
        read.to_string(),
        "NXT_PACKET_IN2 (OF1.5) (xid=0x0): cookie=0x11 total_len=42 reg0=0x5,reg3=0x6,in_port=LOCAL (via action) \
         data_len=42 (unbuffered)\n userdata=01.02.ff\n continuation: 64 bytes not interpreted"
    );
    let resume = Body::Resume(PacketIn { userdata: Vec::new(), ..expected });
    let sent = format!(
        "06 04 00c8 00000007 00002320 0000001c 0000 002e {packet} 0000 0003 0005 00 000000
         0004 0010 00000000 0000000000000011 0005 0005 01 000000
         0006 001c 00010004 00000005 00010604 00000006 80000004 fffffffe 00000000
         0008 0048 00000000 {continuation}"
    );
    check(resume, &sent);
}

#[test]
fn packets_for_a_controller_have_the_bytes_of_open_vswitch() {
    let part =
        PacketIn { full_len: 1500, table: 7, ..PacketIn::new("in_port=5".parse().unwrap(), vec![0xab]) };
    check(
        Body::PacketIn(part),
        "06 04 0040 00000007 00002320 0000001e 0000 0005 ab 000000 0001 0008 000005dc 0003 0005 07 000000
         0005 0005 01 000000 0006 000c 80000004 00000005 00000000",
    );
    check(
        Body::SetPacketInFormat(PacketInFormat::Properties),
        "06 04 0014 00000007 00002320 00000010 00000002",
    );
    check(Body::SetControllerId(9), "06 04 0018 00000007 00002320 00000014 000000000000 0009");
    let from_port = PacketOut::from_port(crate::PortNo(5), "TABLE".parse().unwrap(), vec![0xab]);
    check(
        Body::PacketOut(from_port),
        "06 0d 0031 00000007 ffffffff 0010 0000 0001 000c 80000004 00000005 00000000
         0000 0010 fffffff9 0000 000000000000 ab",
    );
    // Properties that are not known are passed over, and what is not said has its default.
    let odd =
        hex("06 04 0028 00000007 00002320 0000001e 0000 0006 abcd 0000 0063 0009 0102030405 00000000000000");
    let Body::PacketIn(read) = Message::decode(&odd).unwrap().body else { panic!("not a packet") };
    let reason = PacketInReason::NO_MATCH;
    assert_eq!(read, PacketIn { reason, ..PacketIn::new(crate::Match::any(), vec![0xab, 0xcd]) });
    for bad in [
        // No packet; one longer than the whole; a format and a padding that nothing has; a property of three bytes.
        "06 04 0018 00000007 00002320 0000001e 0003 0005 07 000000",
        "06 04 0020 00000007 00002320 0000001e 0000 0006 abcd 0000 0001 0008 00000001",
        "06 04 0014 00000007 00002320 00000010 00000003",
        "06 04 0018 00000007 00002320 00000014 000000000001 0009",
        "06 04 0018 00000007 00002320 0000001e 0000 0003 abcd0000",
    ] {
        assert!(Message::decode(&hex(bad)).is_err(), "{bad}");
    }
}

#[test]
fn an_inner_message_must_have_the_outer_xid() {
    let add = BundleAdd {
        bundle_id: 1,
        flags: BundleFlags(3),
        body: Box::new(Body::FlowMod(FlowMod::delete_all())),
    };
    let mut bytes = Message { xid: 7, body: Body::BundleAdd(add) }.encode().unwrap();
    bytes[23] = 8;
    let error = Message::decode(&bytes).unwrap_err();
    assert_eq!((error.offset, error.fault), (16, Fault::Xid { inner: 8, outer: 7 }));
}

#[test]
fn what_is_not_known_is_kept_and_what_is_malformed_is_named() {
    let packet_in = hex("06 0a 000a 00000001 0102");
    let decoded = Message::decode(&packet_in).unwrap();
    assert_eq!(decoded.body, Body::Unknown { kind: 10, data: vec![1, 2] });
    assert_eq!(decoded.encode().unwrap(), packet_in);

    let error = Message::decode(&hex("06 14 0009 00000001 00")).unwrap_err();
    assert_eq!(error.to_string(), "malformed barrier request at byte 8: impossible length 1");
    let error = Message::decode(&hex("04 14 0008 00000001")).unwrap_err();
    assert_eq!(error.fault, Fault::Version(4));
}

#[test]
fn an_entry_of_a_dump_that_cannot_be_read_does_not_hide_the_others() {
    let stats = |text: &str| FlowStats {
        entry: text.parse().unwrap(),
        duration: std::time::Duration::new(1, 20_000_000),
        packets: Some(3),
        bytes: None,
        idle_s: None,
    };
    let flows = vec![stats("cookie=1,priority=1,reg0=1,actions=drop"), stats("priority=2,actions=drop")];
    let reply = FlowDescReply { more: true, flows: flows.clone(), unreadable: Vec::new() };
    let message = Message { xid: 1, body: Body::FlowDescReply(reply) };
    let mut bytes = message.encode().unwrap();
    assert_eq!(Message::decode(&bytes).as_ref(), Ok(&message));
    // The match of the first is reg0; make it field 127 of no known class.
    let reg0 = bytes.windows(4).position(|w| w == [0, 1, 0, 4]).unwrap();
    bytes[reg0] = 0x7f;
    let Body::FlowDescReply(read) = Message::decode(&bytes).unwrap().body else { panic!("not a reply") };
    assert_eq!(read.flows, flows[1..]);
    assert_eq!((read.unreadable[0].priority, read.unreadable[0].cookie), (1, 1));
    assert_eq!(read.unreadable[0].error.offset, reg0);
}

#[test]
fn a_message_too_long_for_its_length_field_is_refused() {
    let mut out = vec![9];
    let echo = Message { xid: 1, body: Body::EchoRequest(vec![0; 65_528]) };
    assert_eq!(echo.encode_into(&mut out), Err(EncodeError::TooLong { len: 65_536 }));
    assert_eq!(out, [9]);
    let echo = Message { xid: 1, body: Body::EchoRequest(vec![0; 65_527]) };
    assert_eq!(echo.encode().map(|bytes| bytes.len()), Ok(65_535));
}

#[test]
fn errors_within_errors_do_not_exhaust_the_stack() {
    let code = ErrorCode::BAD_PREREQ;
    let mut data = Vec::new();
    while data.len() < 60_000 {
        data = Message { xid: 1, body: Body::Error(ErrorMessage { code, data }) }.encode().unwrap();
    }
    let decoded = Message::decode(&data).unwrap();
    assert!(decoded.to_string().starts_with("OFPT_ERROR (OF1.5) (xid=0x1): OFPBMC_BAD_PREREQ\nOFPT_ERROR"));
}

#[test]
fn every_named_error_has_its_own_name() {
    let mut names = std::collections::BTreeSet::new();
    for code in error_names::all() {
        assert!(names.insert(code.name().unwrap()), "{code} twice");
    }
}
