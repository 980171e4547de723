//! Random flow tables. Matches are made from the fields of the frames that will be sent, so that many match.

use flow_simulator::{FlowKey, Packet};
use openflow_rs::action::{
    CheckPktLarger, CloneActions, DecTtl, Exit, Group as ToGroup, MoveBits, Note, Output, Pop, PopVlan, Push,
    PushVlan, Resubmit, Sample, SetField, SetTtl,
};
use openflow_rs::field::Format;
use openflow_rs::{
    Action, Actions, Bucket, Field, FlowEntry, GroupEntry, GroupKind, Match, PortNo, Prerequisite, Selection,
    Subfield,
};
use test_random::Random;

use crate::open_vswitch::frames::frame;

/// The register that distinguishes cases loaded together: no flow writes it.
pub(crate) const CASE: Field = Field::Reg15;
/// Tables of a case; table 0 leads to the first of them.
const TABLES: std::ops::RangeInclusive<u8> = 1..=5;

/// A group that is not there.
const NO_GROUP: u32 = 77_777;

/// Flow tables, and frames to send through them.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// The ingress port, and the number of the case.
    pub(crate) port: u16,
    pub(crate) flows: Vec<FlowEntry>,
    /// In an order in which each refers only to earlier ones.
    pub(crate) groups: Vec<GroupEntry>,
    pub(crate) frames: Vec<Vec<u8>>,
}

/// A random case with this ingress port.
pub(crate) fn case(random: &mut Random, port: u16) -> Case {
    let frames: Vec<_> = (0..8).map(|_| frame(random)).collect();
    let keys: Vec<FlowKey> =
        frames.iter().map(|frame| Packet::new(frame.clone(), PortNo(port)).key().clone()).collect();
    let lengths = frames.iter().map(Vec::len).collect();
    let mut maker = Maker { random, keys, lengths, port, groups: Vec::new() };
    for number in 0..maker.random.below(4) as u32 {
        let group = maker.group(u32::from(port) * 100 + number);
        maker.groups.push(group);
    }
    let dispatch = Actions(vec![
        Action::set_field(CASE, port.into()).expect("a register"),
        Action::resubmit_table(*TABLES.start()),
    ]);
    let from_port = Match::any().with(Field::InPort, port.into()).expect("a port");
    let mut flows = vec![FlowEntry::new(0, 1, from_port, dispatch)];
    for table in TABLES {
        for _ in 0..=maker.random.below(6) {
            let flow = maker.flow(table);
            let same = |other: &FlowEntry| (other.table, other.priority) == (table, flow.priority);
            // If two flows of one priority overlap, either may win.
            if !flows.iter().any(same) {
                flows.push(flow);
            }
        }
        // Few frames would come far without.
        if maker.random.chance(70) {
            let anything = Match::any().with(CASE, port.into()).expect("a register");
            let place = Place { matches: &anything, tagged: false, tags: 0, table };
            let actions = maker.actions(5, place, true);
            flows.push(FlowEntry::new(table, 0, anything.clone(), actions));
        }
    }
    let groups = maker.groups;
    Case { port, flows, groups, frames }
}

/// A case whose frames all go to each of several groups, of which each bucket leaves its mark.
pub(crate) fn case_of_groups(random: &mut Random, port: u16) -> Case {
    let frames: Vec<_> = (0..8).map(|_| frame(random)).collect();
    let keys = frames.iter().map(|frame| Packet::new(frame.clone(), PortNo(port)).key().clone()).collect();
    let lengths = frames.iter().map(Vec::len).collect();
    let mut maker = Maker { random, keys, lengths, port, groups: Vec::new() };
    let mut actions = Vec::new();
    for register in [Field::Reg0, Field::Reg5, Field::Metadata] {
        let value = maker.random.below(1 << 20).into();
        actions.push(Action::set_field(register, value).expect("a register"));
    }
    for number in 0..6 {
        let mut group = maker.group(u32::from(port) * 100 + number);
        for bucket in &mut group.buckets {
            let mark = u128::from(group.id << 8 | bucket.id);
            let egress = 1 + maker.random.below(3) as u16;
            let mut marked = vec![Action::set_field(Field::EthSrc, mark).expect("an address")];
            marked.extend(maker.random.chance(20).then_some(DecTtl.into()));
            marked.push(Action::output(PortNo(if egress == port { 4 } else { egress })));
            bucket.actions = Actions(marked);
        }
        actions.push(ToGroup { id: group.id }.into());
        maker.groups.push(group);
    }
    let from_port = Match::any().with(Field::InPort, port.into()).expect("a port");
    let flows = vec![FlowEntry::new(0, 1, from_port, Actions(actions))];
    Case { port, flows, groups: maker.groups, frames }
}

struct Maker<'a> {
    random: &'a mut Random,
    keys: Vec<FlowKey>,
    lengths: Vec<usize>,
    port: u16,
    groups: Vec<GroupEntry>,
}

/// Facts that are certain at the position of an action.
struct Place<'m> {
    matches: &'m Match,
    /// Whether there is certainly a tag.
    tagged: bool,
    /// The maximum number of tags: a switch refuses a third.
    tags: u8,
    table: u8,
}

impl Place<'_> {
    fn meets(&self, field: Field) -> bool {
        match field.info().prerequisite {
            _ if field == Field::VlanVid => self.tagged,
            Prerequisite::Vlan => self.tagged,
            // Setting it where none was parsed crashes ovs-vswitchd 3.1 (`directed.rs`).
            _ if field == Field::ArpOp => self.matches.get(field).is_some_and(|(value, _)| value != 0),
            needs => self.matches.meets(needs),
        }
    }
}

/// Whether neither frames nor flows have the field here.
fn is_left_out(field: Field) -> bool {
    let tracked = (Field::CtState..=Field::CtTpDst).contains(&field);
    let named = [
        Field::DpHash,
        Field::ConjId,
        Field::ActsetOutput,
        Field::PacketType,
        Field::InPortOxm,
        Field::TunGbpId,
        Field::TunGbpFlags,
        Field::TunFlags,
        Field::TunMetadata0,
    ];
    tracked || named.contains(&field) || field.info().prerequisite == Prerequisite::Mpls
}

fn holds_case(field: Field) -> bool {
    [Field::Reg15, Field::Xreg7, Field::Xxreg3].contains(&field)
}

impl Maker<'_> {
    fn key(&mut self) -> FlowKey {
        self.random.pick(&self.keys).clone()
    }

    fn flow(&mut self, table: u8) -> FlowEntry {
        let matches = self.matches();
        let tagged = matches.meets(Prerequisite::Vlan);
        let place = Place { matches: &matches, tagged, tags: u8::from(tagged), table };
        let count = 1 + self.random.below(5);
        let mut actions = self.actions(count, place, true);
        if table < *TABLES.end() && self.random.chance(20) {
            let later = table + 1 + self.random.below(u64::from(TABLES.end() - table)) as u8;
            if self.random.chance(50) {
                actions.0.push(Action::write_metadata(5, 7));
            }
            actions.0.push(Action::goto_table(later));
        }
        let priority = 1 + self.random.below(1000) as u16;
        FlowEntry::new(table, priority, matches, actions)
    }

    fn matches(&mut self) -> Match {
        let key = self.key();
        let fields: Vec<Field> = Field::all()
            .filter(|field| {
                !is_left_out(*field) && !holds_case(*field) && key.meets(field.info().prerequisite)
            })
            .collect();
        let mut matches = Match::any().with(CASE, self.port.into()).expect("a register");
        for _ in 0..self.random.below(4) {
            let field = *self.random.pick(&fields);
            let mut with = matches.clone();
            for (field, value, mask) in demands(field.info().prerequisite, &key) {
                with = with.clone().with_masked(field, value, mask).unwrap_or(with);
            }
            let mut value = key.get(field);
            if self.random.chance(15) {
                value ^= 1;
            }
            let mask = if field.info().maskable { self.mask(field) } else { field.max_value() };
            with = with.clone().with_masked(field, value & field.max_value(), mask).unwrap_or(with);
            if with.validate().is_ok() {
                matches = with;
            }
        }
        matches
    }

    fn mask(&mut self, field: Field) -> u128 {
        let max = field.max_value();
        let low = u128::from(self.random.below(u64::MAX));
        match self.random.below(5) {
            // `ovs-ofctl` reads an IPv6 mask that begins with digits as a prefix length.
            0 if field.info().format == Format::Ipv6 => (max << 125) | (low << 64) & max,
            0 if field != Field::VlanTci && field != Field::IpFrag => (low << 64 | low.rotate_left(9)) & max,
            1 if field != Field::VlanTci && field != Field::IpFrag => max & !0xff,
            _ => max,
        }
    }

    fn actions(&mut self, count: u64, mut place: Place<'_>, nested: bool) -> Actions {
        let mut actions = Vec::new();
        for _ in 0..count {
            let action = match self.random.below(30) {
                0..=5 => self.output(),
                6..=11 => self.set_field(&place),
                12..=14 => self.move_bits(&place),
                15..=18 => Some(self.resubmit(place.table)),
                19 if place.tags < 2 => {
                    Some(Action::from(PushVlan { eth_type: *self.random.pick(&[0x8100, 0x88a8]) }))
                }
                20 => place.tagged.then_some(Action::from(PopVlan)),
                21 if place.matches.meets(Prerequisite::Ip) => Some(self.ttl()),
                22 if nested => {
                    let count = 1 + self.random.below(3);
                    let inner = Place { ..place };
                    Some(CloneActions { actions: self.actions(count, inner, false) }.into())
                }
                23 => self.groups.last().map(|_| {
                    let id = self.random.pick(&self.groups).id;
                    Action::from(ToGroup { id })
                }),
                24 | 25 => self.stack(&place),
                26 if self.random.chance(50) => Sample::new(65535, 1, 2, 3).map(Action::from),
                26 => Some(Note::new(&[1, 2]).into()),
                27 if self.random.chance(30) => Some(Exit.into()),
                28 | 29 => {
                    let (check, shown) = self.check_length();
                    actions.push(check);
                    shown
                }
                _ => None,
            };
            match action {
                Some(Action::PushVlan(_)) => (place.tagged, place.tags) = (true, place.tags + 1),
                Some(Action::PopVlan(_)) => (place.tagged, place.tags) = (false, place.tags - 1),
                // The switch continues with the tags as the clone left them.
                Some(Action::CloneActions(_)) => (place.tagged, place.tags) = (false, 2),
                Some(Action::SetField(set)) if set.field() == Field::VlanTci => {
                    (place.tagged, place.tags) = (false, 2);
                }
                _ => {}
            }
            actions.extend(action);
        }
        Actions(actions)
    }

    fn port(&mut self) -> PortNo {
        let own = self.port;
        *self.random.pick(&[PortNo(1), PortNo(2), PortNo(3), PortNo(own), PortNo(9000), PortNo::LOCAL])
    }

    fn output(&mut self) -> Option<Action> {
        Some(match self.random.below(12) {
            0 => Action::output(PortNo::IN_PORT),
            1 => Action::output(*self.random.pick(&[PortNo::ALL, PortNo::FLOOD])),
            2 => {
                return Action::output_reg(
                    Subfield::new(Field::Reg1, 0, *self.random.pick(&[2, 16, 32])).ok()?,
                )
                .ok();
            }
            _ => Action::output(self.port()),
        })
    }

    fn ttl(&mut self) -> Action {
        if self.random.chance(70) { DecTtl.into() } else { SetTtl { ttl: self.random.below(3) as u8 }.into() }
    }

    /// Compares the length with one near that of a frame, with or without padding and tags, and mostly writes the result
    /// where it is seen.
    fn check_length(&mut self) -> (Action, Option<Action>) {
        let near = *self.random.pick(&self.lengths) + *self.random.pick(&[0, 0, 0, 1, 2, 4, 5, 30]);
        let limit = near.saturating_sub(*self.random.pick(&[0, 0, 1, 1, 4, 8, 20]));
        let register = *self.random.pick(&[Field::Reg1, Field::Xreg2, Field::Metadata]);
        let bit = |field: Field, at: u16| Subfield::new(field, at, 1).expect("a bit");
        let result = bit(register, self.random.below(2) as u16);
        let check = CheckPktLarger::new(limit as u16, result).expect("a bit that can be written");
        let shown =
            MoveBits::new(result, bit(Field::EthSrc, self.random.below(8) as u16)).expect("a bit to another");
        (check.into(), self.random.chance(80).then_some(shown.into()))
    }

    /// A resubmit, mostly to a later table; sometimes to any table, where limits end the loops.
    fn resubmit(&mut self, from: u8) -> Action {
        let table = match self.random.below(60) {
            0 => 255,
            1 => TABLES.start() + self.random.below(TABLES.count() as u64) as u8,
            _ => from + 1 + self.random.below(3) as u8,
        };
        // `ovs-ofctl` wants one of the two.
        let in_port = if table == 255 || self.random.chance(15) { self.port() } else { PortNo::IN_PORT };
        Resubmit { in_port, table, ct: false }.into()
    }

    fn writable(&mut self, place: &Place<'_>) -> Field {
        let fields: Vec<Field> = Field::all()
            .filter(|field| field.info().writable && !is_left_out(*field) && !holds_case(*field))
            .filter(|field| place.meets(*field))
            .collect();
        // There are few fields of the packet compared with registers.
        let of_packet: Vec<Field> =
            fields.iter().copied().filter(|field| *field > Field::InPortOxm).collect();
        *if self.random.chance(70) { self.random.pick(&of_packet) } else { self.random.pick(&fields) }
    }

    fn set_field(&mut self, place: &Place<'_>) -> Option<Action> {
        let field = self.writable(place);
        let mut value = self.key().get(field);
        if self.random.chance(50) {
            value = u128::from(self.random.below(300));
        }
        let mask = if field.info().maskable && self.random.chance(30) {
            self.mask(field)
        } else {
            field.max_value()
        };
        if field == Field::VlanVid {
            value |= 0x1000;
        }
        if field == Field::InPort {
            value = self.random.pick(&[0, 1, 2, self.port]).to_owned().into();
        }
        SetField::new(field, value & mask & field.max_value(), mask).ok().map(Action::from)
    }

    /// Copies some bits of one field to another, or to a register.
    fn move_bits(&mut self, place: &Place<'_>) -> Option<Action> {
        let to = self.writable(place);
        let from: Vec<Field> =
            Field::all().filter(|field| !is_left_out(*field) && place.meets(*field)).collect();
        let from = *self.random.pick(&from);
        let whole = |field: Field| field.info().maskable && !matches!(field.info().format, Format::Frag);
        let most = from.bits().min(to.bits());
        let bits = if whole(to) { 1 + self.random.below(u64::from(most)) as u16 } else { to.bits() };
        let start =
            |random: &mut Random, field: Field| random.below(u64::from(field.bits() - bits) + 1) as u16;
        if bits > from.bits() || [to, from].contains(&Field::InPort) || [to, from].contains(&Field::VlanVid) {
            return None;
        }
        let source = Subfield::new(from, start(self.random, from), bits).ok()?;
        let destination = Subfield::new(to, start(self.random, to), bits).ok()?;
        MoveBits::new(source, destination).ok().map(Action::from)
    }

    fn stack(&mut self, place: &Place<'_>) -> Option<Action> {
        let field = self.writable(place);
        if !field.info().maskable || field == Field::VlanVid {
            return None;
        }
        let bits = 1 + self.random.below(u64::from(field.bits())) as u16;
        let some = Subfield::new(field, 0, bits).ok()?;
        if self.random.chance(60) {
            Some(Push::new(some).into())
        } else {
            Pop::new(some).ok().map(Action::from)
        }
    }

    /// A group whose buckets have actions that are allowed in an action set, in any order.
    fn group(&mut self, id: u32) -> GroupEntry {
        let count = self.random.below(5) as u32;
        let kind = match self.random.below(6) {
            0 if count == 1 => GroupKind::Indirect,
            0 | 1 => GroupKind::All,
            2 | 3 => GroupKind::Select,
            _ => GroupKind::FastFailover,
        };
        let mut buckets = Vec::new();
        let unused = kind == GroupKind::Select && self.random.chance(15);
        for number in 0..count {
            let count = 1 + self.random.below(4);
            let actions = (0..count).filter_map(|_| self.in_bucket()).collect();
            // The order of the numbers is not that of the buckets.
            let bucket = Bucket::new((number * 7 + 3) % 10, Actions(actions));
            let bucket = self.watching(kind, bucket);
            buckets.push(Bucket { weight: if unused { 0 } else { bucket.weight }, ..bucket });
        }
        let selection = (kind == GroupKind::Select).then(|| self.selection());
        GroupEntry { selection, ..GroupEntry::new(id, kind, buckets) }
    }

    fn in_bucket(&mut self) -> Option<Action> {
        let anything = Match::any();
        let place = Place { matches: &anything, tagged: false, tags: 0, table: 0 };
        match self.random.below(10) {
            0 | 1 => Some(Output { port: self.port(), max_len: 0 }.into()),
            2 => Some(self.resubmit(*TABLES.start())),
            3 => self.set_field(&place),
            4 => self.move_bits(&place),
            5 => Some(PushVlan { eth_type: 0x8100 }.into()),
            6 | 7 => Some(self.ttl()),
            8 => Action::set_field(Field::IpTtl, self.random.below(3).into()).ok(),
            _ => self.groups.last().map(|group| ToGroup { id: group.id }.into()),
        }
    }

    /// The bucket with a weight, and with a port, a group, or both to watch, as its group's type allows.
    fn watching(&mut self, kind: GroupKind, mut bucket: Bucket) -> Bucket {
        if kind == GroupKind::Select {
            bucket.weight = *self.random.pick(&[0, 1, 1, 1, 2, 5, 65535]);
        }
        let (must, may) = (kind == GroupKind::FastFailover, kind == GroupKind::Select);
        let group = if may || must { self.groups.last().map(|group| group.id) } else { None };
        let watches_group = (may || must) && self.random.chance(25);
        if watches_group {
            bucket.watch_group = group.unwrap_or(NO_GROUP);
        }
        if may && self.random.chance(40) || must && (!watches_group || self.random.chance(30)) {
            bucket.watch_port = PortNo(*self.random.pick(&[1, 1, 2, 2, 3, 3, 9000]));
        }
        bucket
    }

    /// Fields to hash, whether packets have them or not.
    fn selection(&mut self) -> Selection {
        let fields: Vec<Field> =
            Field::all().filter(|field| !is_left_out(*field) && *field != Field::InPort).collect();
        let mut hashed = Vec::new();
        for _ in 0..=self.random.below(6) {
            let field =
                if self.random.chance(60) { self.field_of_packet() } else { *self.random.pick(&fields) };
            let mask = if field.info().maskable { self.mask(field) } else { field.max_value() };
            hashed.push((field, if mask == 0 { field.max_value() } else { mask }));
        }
        let param = if self.random.chance(30) { self.random.below(u64::MAX) } else { 0 };
        Selection::hash_masked(hashed).with_param(param)
    }

    /// A field that one of the packets has, beside registers and metadata.
    fn field_of_packet(&mut self) -> Field {
        let key = self.key();
        let has = |field: &Field| {
            *field > Field::InPortOxm && !is_left_out(*field) && key.meets(field.info().prerequisite)
        };
        let fields: Vec<Field> = Field::all().filter(has).collect();
        *self.random.pick(&fields)
    }
}

/// The prerequisites of a field that this packet has, as demands.
fn demands(needs: Prerequisite, key: &FlowKey) -> Vec<(Field, u128, u128)> {
    let exact = |field: Field| (field, key.get(field), field.max_value());
    let kind = exact(Field::EthType);
    let proto = exact(Field::IpProto);
    match needs {
        Prerequisite::None | Prerequisite::Mpls | Prerequisite::Ct | Prerequisite::CtAddress => vec![],
        Prerequisite::Vlan => vec![(Field::VlanTci, 0x1000, 0x1000)],
        Prerequisite::Ipv4 | Prerequisite::Ipv6 | Prerequisite::Ip | Prerequisite::Arp => vec![kind],
        Prerequisite::Tcp
        | Prerequisite::Udp
        | Prerequisite::Sctp
        | Prerequisite::Icmp
        | Prerequisite::Icmp6 => {
            vec![kind, proto]
        }
        Prerequisite::Nd | Prerequisite::NdSolicit | Prerequisite::NdAdvert => {
            vec![kind, proto, exact(Field::Icmpv6Type), exact(Field::Icmpv6Code)]
        }
    }
}
