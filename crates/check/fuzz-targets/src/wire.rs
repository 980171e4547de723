//! Packets, captures, certificates, addresses, messages of the API.

use std::sync::LazyLock;

use flow_simulator::{Bridge, Packet};
use frame_builder::captured;
use mutual_tls::{Identity, Role, alternative_names};
use openflow_rs::{FlowEntry, Match, PortNo};
use packet_answers::{Ask, Instruction, Reason, answer_error};
use peer_connection::Endpoint;
use prost::Message;
use serde::Serialize;
use weft_client::message_json::to_json;
use weft_client::pb;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::decode;

/// Flows that change frames in every way that depends on what is in them: tags, addresses, ports, lives, connections, answers.
const FLOWS: [&str; 8] = [
    "table=0, priority=9, arp, actions=move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],load:2->NXM_OF_ARP_OP[],in_port",
    "table=0, priority=8, ip, actions=ct(table=1,zone=7)",
    "table=0, priority=8, ipv6, actions=ct(table=1,zone=7)",
    "table=0, priority=0, actions=push_vlan:0x8100,set_field:4103->vlan_vid,output:2,pop_vlan,output:3",
    "table=1, priority=9, ct_state=+trk+new, ip, actions=ct(commit,zone=7),output:2",
    "table=1, priority=9, ct_state=+trk+new, ipv6, actions=ct(commit,zone=7),dec_ttl,output:2",
    "table=1, priority=8, tcp, actions=dec_ttl,set_field:10.0.0.8->ip_dst,set_field:80->tcp_dst,output:2",
    "table=1, priority=0, actions=set_field:02:00:00:00:00:09->eth_dst,output:2",
];

/// A bridge with [`FLOWS`], which has seen no packet.
static BRIDGE: LazyLock<Bridge> = LazyLock::new(|| {
    let mut bridge = Bridge::new([1, 2, 3].map(PortNo));
    for flow in FLOWS {
        let entry = flow.parse::<FlowEntry>().unwrap_or_else(|error| panic!("{flow}: {error:?}"));
        bridge.add_flow(entry).unwrap_or_else(|refused| panic!("{flow}: {refused:?}"));
    }
    bridge
});

/// Bytes as a frame that enters a switch, as `weft trace` sends one for its user, and whatever becomes of it there.
pub fn frame(bytes: &[u8]) {
    let packet = decode("a frame", bytes.len(), || Packet::new(bytes.to_vec(), PortNo(1)));
    assert_eq!(packet.bytes(), bytes, "a frame is changed before it enters");
    let first = BRIDGE.trace(&packet);
    assert_eq!(first, BRIDGE.trace(&packet), "a frame goes two ways");
    for emitted in first.emitted {
        let _out = Packet::new(emitted.bytes, PortNo(1));
    }
}

/// Bytes as what a flow says of a packet, after their number, and as the packet. An answer is not longer than all networks carry, or than the
/// client says that it takes, and nobody answers it. A packet whose name is looked up stays as it is.
pub fn answer(bytes: &[u8]) {
    /// What any Ethernet carries, which clients of DHCP can ask for.
    const LONGEST_DHCPV4: usize = 1500 + 14;
    /// Of IPv6, with the header of Ethernet.
    const LONGEST: usize = 1280 + 14;
    let Some((length, rest)) = bytes.split_first() else { return };
    let (userdata, frame) = rest.split_at(rest.len().min((*length).into()));
    let Ok(instruction) = decode("an instruction", userdata.len(), || Instruction::decode(userdata)) else {
        return;
    };
    let again = Instruction::decode(&instruction.encode());
    assert_eq!(again.as_ref(), Ok(&instruction), "an instruction is not encoded as it was");
    let _returned = packet_answers::Returned::read(frame);
    let answer = decode("a packet", frame.len(), || instruction.answer(frame, &Match::any()));
    if let Ask::DnsQuestion(_) | Ask::Return = instruction.ask {
        let loads = usize::from(instruction.ask != Ask::Return);
        let answer = answer.expect("every packet goes on");
        assert_eq!((&*answer.frame, answer.loads.len()), (frame, loads), "a packet is changed");
        return;
    }
    let Ok(answer) = answer else { return };
    let longest = if let Ask::Dhcpv4(_) = instruction.ask { LONGEST_DHCPV4 } else { LONGEST };
    assert!(answer.frame.len() <= longest, "an answer of {} bytes", answer.frame.len());
    if let Ask::Error(_) = instruction.ask {
        for destination in [Reason::Closed, Reason::Rejected] {
            assert!(answer_error(&answer.frame, destination, 0, &[]).is_err(), "an answer is answered");
        }
    } else {
        assert!(instruction.answer(&answer.frame, &Match::any()).is_err(), "an answer is answered");
    }
}

/// Bytes as a capture, of which `weft trace --pcap` sends the frames.
pub fn capture(bytes: &[u8]) {
    /// The buffer of the reader.
    const BUFFER: usize = 1 << 20;
    let read = decoder_memory::checked("a capture", bytes.len(), BUFFER, || captured(bytes));
    match read {
        Ok(frames) => {
            let taken: usize = frames.iter().map(Vec::len).sum();
            assert!(taken <= bytes.len(), "{taken} bytes of frames from {} bytes", bytes.len());
        }
        Err(why) => assert!(!why.to_string().is_empty(), "refused without a reason"),
    }
}

/// Reads bytes as a certificate: its owner, role and alternative names.
pub fn certificate(bytes: &[u8]) {
    if let Ok(identity) = decode("a certificate", bytes.len(), || Identity::of_certificate(&bytes.into())) {
        assert!(!identity.to_string().is_empty(), "somebody without a name");
        if let Some(role) = &identity.role {
            assert_eq!(Role::of_organisation(&role.organisation()).as_ref(), Some(role));
        }
        assert!(
            identity.of_switch().is_ok() == matches!(identity.role, None | Some(Role::Node)),
            "{identity} is taken for a switch, or a switch is not"
        );
    }
    if let Ok((_, certificate)) = X509Certificate::from_der(bytes) {
        let _names = alternative_names(&certificate);
    }
}

/// A text as the address of a switch: it is read back as it prints.
pub fn endpoint(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    match decode("an address", text.len(), || text.parse::<Endpoint>()) {
        Ok(endpoint) => assert_eq!(endpoint.to_string().parse().as_ref(), Ok(&endpoint)),
        Err(error) => assert!(!error.to_string().is_empty(), "refused without a reason"),
    }
}

/// Bytes as a message of the API, after one that says of which type: it is encoded again to one that is equal, and prints as JSON.
pub fn message(bytes: &[u8]) {
    let Some((which, bytes)) = bytes.split_first() else { return };
    match which % 16 {
        0 => one::<pb::ApplyRequest>(bytes),
        1 => one::<pb::DeleteRequest>(bytes),
        2 => one::<pb::SetRequest>(bytes),
        3 => one::<pb::HistoryRequest>(bytes),
        4 => one::<pb::RollbackRequest>(bytes),
        5 => one::<pb::GetRequest>(bytes),
        6 => one::<pb::WatchRequest>(bytes),
        7 => one::<pb::ReadListingRequest>(bytes),
        8 => one::<pb::CountFlowsRequest>(bytes),
        9 => one::<pb::LoadRulesRequest>(bytes),
        10 => one::<pb::TraceRequest>(bytes),
        11 => one::<pb::ExplainRequest>(bytes),
        12 => one::<pb::WhyNotRequest>(bytes),
        13 => one::<pb::StatusRequest>(bytes),
        // Answers come to clients from whoever answers.
        14 => one::<pb::ChangeResponse>(bytes),
        _ => one::<pb::TraceResponse>(bytes),
    }
}

fn one<M: Message + Default + Serialize>(bytes: &[u8]) {
    let Ok(message) = decode("a message", bytes.len(), || M::decode(bytes)) else { return };
    let encoded = message.encode_to_vec();
    let again = M::decode(encoded.as_slice()).expect("an encoded message can be decoded");
    // Bytes are compared: a message with a number that is none equals nothing.
    assert_eq!(again.encode_to_vec(), encoded, "a message is not encoded as it was");
    let _json = to_json(&message);
}
