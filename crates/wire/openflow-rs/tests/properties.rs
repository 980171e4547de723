//! Properties that need no switch: written values read back, and no bytes make the reader panic.

use openflow_rs::message::{
    BundleControl, BundleFlags, BundleOp, Capabilities, ErrorCode, ErrorMessage, Features, FlowDescReply,
    FlowEvent, FlowMonitorReply, FlowUpdate, GroupDescReply, Hello, MeterDescReply, MeterStatsReply,
    PacketIn, PacketInFormat, PacketInReason, PacketOut, TlvMapping, TlvTableReply,
};
use openflow_rs::meter::{BandKind, MeterBand, MeterFlags};
use openflow_rs::{
    Action, Actions, Body, Bucket, Field, FlowEntry, FlowFlags, FlowMod, FlowStats, Frame, GroupEntry,
    GroupKind, GroupMod, Match, Message, MeterEntry, MeterMod, MeterStats, Packed, Selection, frame,
};
use proptest::prelude::*;

fn config() -> ProptestConfig {
    ProptestConfig { cases: 256, ..ProptestConfig::default() }
}

fn group() -> impl Strategy<Value = GroupEntry> {
    let is_action = |action: &Action| {
        let instructions = ["clear_actions", "write_actions", "write_metadata", "goto_table", "meter"];
        !instructions.iter().any(|name| action.to_string().starts_with(name))
    };
    let bucket = (any::<u32>(), any::<u16>(), crate::strategies::actions(&Match::any())).prop_map(
        move |(id, weight, actions)| {
            let actions = actions.0.into_iter().filter(is_action).collect();
            Bucket { weight, ..Bucket::new(id, actions) }
        },
    );
    let kinds = [GroupKind::All, GroupKind::Select, GroupKind::Indirect, GroupKind::FastFailover];
    let kind = proptest::sample::select(kinds.to_vec());
    let buckets = prop::collection::vec(bucket, 0..4);
    let group = (any::<u32>(), kind, buckets).prop_map(|(id, kind, mut buckets)| {
        if kind != GroupKind::Select {
            for bucket in &mut buckets {
                bucket.weight = 0;
            }
        }
        GroupEntry::new(id, kind, buckets)
    });
    (group, selection()).prop_map(|(group, selection)| {
        let selection = selection.filter(|_| group.kind == GroupKind::Select);
        GroupEntry { selection, ..group }
    })
}

fn selection() -> impl Strategy<Value = Option<Selection>> {
    let masked = |field: Field| {
        let mask =
            if field.info().maskable { 1..=field.max_value() } else { field.max_value()..=field.max_value() };
        mask.prop_map(move |mask| (field, mask))
    };
    let fields: Vec<Field> = Field::all().filter(|field| *field != Field::TunMetadata0).collect();
    let fields = prop::collection::vec(proptest::sample::select(fields).prop_flat_map(masked), 0..4);
    let hash =
        (fields, any::<u64>()).prop_map(|(fields, param)| Selection::hash_masked(fields).with_param(param));
    let datapath = any::<u64>().prop_map(|param| Selection::dp_hash().with_param(param));
    prop::option::of(prop_oneof![hash, datapath])
}

fn meter() -> impl Strategy<Value = MeterEntry> {
    let kind =
        prop::option::of(any::<u8>()).prop_map(|level| level.map_or(BandKind::Drop, BandKind::DscpRemark));
    let band =
        (kind, any::<u32>(), any::<u32>()).prop_map(|(kind, rate, burst)| MeterBand { kind, rate, burst });
    (any::<u32>(), any::<u16>(), prop::collection::vec(band, 0..4))
        .prop_map(|(id, flags, bands)| MeterEntry { id, flags: MeterFlags(flags), bands })
}

fn meter_stats() -> impl Strategy<Value = MeterStats> {
    let bands = prop::collection::vec(any::<(u64, u64)>(), 0..3);
    (any::<[u32; 3]>(), 0_u32..1_000_000_000, any::<[u64; 2]>(), bands).prop_map(
        |([id, flows, seconds], nanos, [packets, bytes], bands)| {
            let duration = std::time::Duration::new(seconds.into(), nanos);
            MeterStats { id, flows, packets, bytes, duration, bands }
        },
    )
}

fn packet_in() -> impl Strategy<Value = PacketIn> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..40);
    let packet = prop::collection::vec(any::<u8>(), 1..100);
    let numbers = (any::<u8>(), any::<u64>(), any::<u8>(), any::<u16>());
    (packet, numbers, crate::strategies::matches(), bytes(), prop::option::of(bytes())).prop_map(
        |(packet, (table, cookie, reason, left_out), metadata, userdata, continuation)| {
            let plain = PacketIn::new(metadata, packet);
            let full_len = plain.full_len + u32::from(left_out);
            let reason = PacketInReason(reason);
            PacketIn { full_len, table, cookie, reason, userdata, continuation, ..plain }
        },
    )
}

/// Every kind of message, with random content.
fn message() -> impl Strategy<Value = Message> {
    let stats = (crate::strategies::entry(), any::<u32>(), 0_u32..1_000_000_000, any::<Option<u32>>())
        .prop_map(|(entry, seconds, nanos, idle_s)| FlowStats {
            entry,
            duration: std::time::Duration::new(seconds.into(), nanos),
            packets: Some(1),
            bytes: idle_s.map(u64::from),
            idle_s,
        });
    let bytes = prop::collection::vec(any::<u8>(), 0..100);
    let body = prop_oneof![
        any::<u32>().prop_map(|v| Body::Hello(Hello::with_versions(v | 2))),
        bytes.clone().prop_map(Body::EchoRequest),
        (0_u16..18, 0_u16..20, bytes.clone()).prop_map(|(kind, code, data)| {
            Body::Error(ErrorMessage { code: ErrorCode::Standard { kind, code }, data })
        }),
        (any::<u64>(), any::<u8>(), any::<u32>()).prop_map(|(datapath_id, n_tables, bits)| {
            let capabilities = Capabilities(bits);
            Body::FeaturesReply(Features {
                datapath_id,
                n_buffers: 0,
                n_tables,
                auxiliary_id: 0,
                capabilities,
            })
        }),
        (any::<bool>(), prop::collection::vec(stats, 0..4)).prop_map(|(more, flows)| Body::FlowDescReply(
            FlowDescReply { more, flows, unreadable: Vec::new() }
        )),
        (any::<u32>(), any::<u16>()).prop_map(|(bundle_id, flags)| {
            let flags = BundleFlags(flags);
            Body::BundleControl(BundleControl { bundle_id, op: BundleOp::CommitRequest, flags })
        }),
        group().prop_map(|group| Body::GroupMod(GroupMod::add(group))),
        (any::<bool>(), prop::collection::vec(crate::strategies::entry(), 0..4), any::<u32>()).prop_map(
            |(more, entries, xid)| {
                let flow = |entry: FlowEntry| {
                    // A report has neither.
                    let (flags, importance) = (FlowFlags(0), 0);
                    FlowUpdate::Flow(FlowEvent::Added, FlowEntry { flags, importance, ..entry })
                };
                let updates = entries.into_iter().map(flow).chain([FlowUpdate::Own(xid)]).collect();
                Body::FlowMonitorReply(FlowMonitorReply { more, updates })
            }
        ),
        bytes.clone().prop_map(|data| {
            let actions = "set_field:0x5->reg1,resubmit(,3)".parse().expect("actions");
            Body::PacketOut(PacketOut::new(actions, data))
        }),
        (any::<bool>(), prop::collection::vec(group(), 0..3)).prop_map(|(more, groups)| {
            Body::GroupDescReply(GroupDescReply { more, groups, unreadable: Vec::new() })
        }),
        meter().prop_map(|meter| Body::MeterMod(MeterMod::add(meter))),
        (any::<bool>(), prop::collection::vec(meter(), 0..3))
            .prop_map(|(more, meters)| Body::MeterDescReply(MeterDescReply { more, meters })),
        (any::<bool>(), prop::collection::vec(meter_stats(), 0..3))
            .prop_map(|(more, meters)| Body::MeterStatsReply(MeterStatsReply { more, meters })),
        any::<u32>().prop_map(Body::MeterDescRequest),
        any::<u32>().prop_map(Body::MeterStatsRequest),
        any::<u16>().prop_map(Body::CtFlushZone),
        packet_in().prop_map(Body::PacketIn),
        packet_in().prop_map(Body::Resume),
        any::<u16>().prop_map(Body::SetControllerId),
        Just(Body::SetPacketInFormat(PacketInFormat::Properties)),
        (any::<u32>(), any::<[u16; 4]>()).prop_map(|(max_space, [class, field, kind, len])| {
            let mapping = TlvMapping { class, kind: kind as u8, len: len as u8, field };
            Body::TlvTableReply(TlvTableReply { max_space, max_fields: field, mappings: vec![mapping] })
        }),
        (35_u8..=255, bytes).prop_map(|(kind, data)| Body::Unknown { kind, data }),
        Just(Body::BarrierRequest),
    ];
    prop_oneof![
        (any::<u32>(), body).prop_map(|(xid, body)| Message { xid, body }),
        crate::strategies::flow_message()
    ]
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn matches_read_back_from_text(m in crate::strategies::matches()) {
        prop_assert_eq!(m.validate(), Ok(()));
        prop_assert_eq!(m.to_string().parse::<Match>(), Ok(m));
    }

    #[test]
    fn what_is_packed_is_read_back(flow in crate::strategies::flow_mod()) {
        let FlowEntry { matches, actions, .. } = flow.entry;
        prop_assert_eq!(Packed::new(&matches).get(), matches.clone());
        prop_assert_eq!(Packed::new(&actions).get(), actions.clone());
        let again: Match = matches.to_string().parse().unwrap();
        prop_assert_eq!(Packed::new(&again), Packed::new(&matches));
    }

    #[test]
    fn matches_and_actions_have_the_bytes_that_they_have_in_a_flow_mod(flow in crate::strategies::flow_mod()) {
        // After the fixed part of a flow-mod (section 7.3.4.2).
        const MATCH_AT: usize = 48;
        let FlowEntry { matches, actions, .. } = flow.entry.clone();
        let flow_mod = FlowMod::add(FlowEntry { matches: matches.clone(), actions: actions.clone().canonical(), ..flow.entry });
        let message = Message { xid: 0, body: Body::FlowMod(flow_mod) }.encode().unwrap();
        prop_assert_eq!(&message[MATCH_AT..], &[matches.to_wire(), actions.to_wire()].concat()[..]);
        let (packed, wire) = (Packed::new(&actions), actions.to_wire());
        prop_assert_eq!(packed.instructions(), Some(&*wire));
    }

    #[test]
    fn packed_matches_are_joined_as_matches_are(a in crate::strategies::matches(), b in crate::strategies::matches()) {
        let packed = |m: &Match| Packed::new(m);
        prop_assert_eq!(packed(&a).and(&packed(&b)), a.and(&b).map(|both| packed(&both)), "{} & {}", a, b);
        // Few random matches agree on a field: parts of one match do.
        let parts: Vec<_> = a.iter().collect();
        let of = |keep: fn(usize) -> bool| {
            let kept = parts.iter().enumerate().filter(|(at, _)| keep(*at));
            kept.fold(Match::any(), |m, (_, part)| m.with_masked(part.field, part.value, part.mask).unwrap())
        };
        for (one, other) in [(of(|at| at % 2 == 0), of(|at| at % 2 == 1)), (of(|at| at % 3 > 0), of(|at| at % 3 < 2))] {
            prop_assert_eq!(packed(&one).and(&packed(&other)), Ok(packed(&a)));
        }
    }

    #[test]
    fn a_field_is_added_to_a_packed_match_as_to_a_match(m in crate::strategies::matches(), values in any::<[u128; 3]>()) {
        let [value, mask, narrow] = values;
        for field in openflow_rs::Field::all() {
            let own = m.get(field).unwrap_or((value, mask)).0;
            let max = field.max_value();
            let masks = [0, max, mask & max, narrow & max & 0xff, 0x1000 & max, 0xe000 & max, mask];
            let masks = masks.into_iter().chain((0..field.bits()).step_by(5).map(|bit| 1_u128 << bit));
            for (value, mask) in masks.flat_map(|mask| [(value & max, mask), (own, mask), (value & mask & 0xffff, mask)]) {
                for base in [&m, &Match::any()] {
                    let wanted = base.clone().with_masked(field, value, mask).map(|m| Packed::new(&m));
                    prop_assert_eq!(Packed::new(base).with_masked(field, value, mask), wanted, "{} {}/{}", field, value, mask);
                }
            }
        }
    }

    #[test]
    fn parts_of_a_match_join_to_the_whole_in_any_order(m in crate::strategies::matches(), seed in any::<usize>()) {
        let mut demands: Vec<_> = m.iter().collect();
        let n = demands.len().max(1);
        demands.rotate_left(seed % n);
        let mut joined = Match::any();
        for demand in demands {
            let part = Match::any().with_masked(demand.field, demand.value, demand.mask).unwrap();
            // A part alone prints so that it reads back, prerequisites or not.
            prop_assert_eq!(part.to_string().parse::<Match>(), Ok(part.clone()));
            joined = joined.and(&part).unwrap();
        }
        prop_assert_eq!(joined, m);
    }

    #[test]
    fn entries_and_changes_read_back_from_text(flow in crate::strategies::flow_mod()) {
        let actions = &flow.entry.actions;
        prop_assert_eq!(&actions.to_string().parse::<Actions>().unwrap(), actions);
        prop_assert_eq!(actions.clone().canonical(), actions.clone());
        prop_assert_eq!(&flow.entry.to_string().parse::<FlowEntry>().unwrap(), &flow.entry);
        prop_assert_eq!(flow.to_string().parse::<FlowMod>(), Ok(flow));
    }

    #[test]
    fn messages_read_back_from_bytes(message in message()) {
        let bytes = message.encode().unwrap();
        prop_assert_eq!(frame(&bytes), Ok(Frame::Message(bytes.len())));
        let decoded = Message::decode(&bytes).unwrap();
        prop_assert_eq!(&decoded, &message);
        prop_assert_eq!(decoded.encode().unwrap(), bytes);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0_u8..36) {
        let _ = frame(&bytes);
        let _ = Message::decode(&bytes).map(|message| message.to_string());
        // With a plausible header the body is reached.
        let mut framed = vec![6, kind, 0, bytes.len() as u8 + 8, 0, 0, 0, 1];
        framed[2] = ((bytes.len() + 8) >> 8) as u8;
        framed.extend(bytes);
        let _ = Message::decode(&framed).map(|message| (message.to_string(), message.encode()));
    }

    #[test]
    fn mutated_messages_never_panic(
        message in message(),
        changes in prop::collection::vec((any::<usize>(), any::<u8>()), 1..6),
        cut in any::<usize>(),
    ) {
        let mut bytes = message.encode().unwrap();
        for (place, byte) in changes {
            let place = place % bytes.len();
            bytes[place] = byte;
        }
        let read = |bytes: &[u8]| {
            if let Ok(message) = Message::decode(bytes) {
                let _ = message.to_string();
                // A message that was read can be written and reads the same; unreadable flows are
                // lost.
                if matches!(&message.body, Body::FlowDescReply(reply) if !reply.unreadable.is_empty()) {
                    return;
                }
                if matches!(&message.body, Body::GroupDescReply(reply) if !reply.unreadable.is_empty()) {
                    return;
                }
                let again = message.encode().unwrap();
                assert_eq!(Message::decode(&again).as_ref(), Ok(&message));
            }
        };
        read(&bytes);
        read(&bytes[..cut % bytes.len()]);
    }

    #[test]
    fn arbitrary_text_never_panics(text in r"[a-z0-9_=:,/()>.\[\]+\-| ]{0,60}") {
        let _ = text.parse::<Match>();
        let _ = text.parse::<Actions>();
        let _ = text.parse::<FlowMod>();
        let _ = format!("actions={text}").parse::<FlowEntry>();
    }

    #[test]
    fn arbitrary_unicode_never_panics(text in r"\PC{0,40}") {
        let _ = text.parse::<Match>();
        let _ = text.parse::<Actions>();
        let _ = text.parse::<FlowMod>();
    }
}
