//! OpenFlow actions: for every writable field `set_FIELD(value)` and, if the field takes masks,
//! `set_FIELD_masked(value, mask)`; and the other actions that rules need.
//!
//! A switch accepts an action on a field only in a flow that matches the field's prerequisites: `set_arp_op`
//! needs a match of ARP.

use std::net::IpAddr;
use std::sync::Arc;

use openflow_rs::action::{CtClear, DecTtl, GotoTable, Group, PopVlan, PushVlan, WriteMetadata};
use openflow_rs::{Action, Actions, Field, MacAddr, Packed, PortNo, Subfield};

use packet_answers::Instruction;

use super::define::entry;
use super::openflow_examples::{set_examples, set_masked_examples};
use super::openflow_field::{FieldValue, Form, failure, forms, misfit, names};
use super::{Failure, Function};
use crate::quotation::{cut, quote_text};

fn one(action: impl Into<Action>) -> Actions {
    Actions(vec![action.into()])
}

/// An argument that is a number of a given width.
fn number<T: TryFrom<i64>>(function: &str, what: &str, bits: u32, value: i64) -> Result<T, Failure> {
    T::try_from(value)
        .map_err(|_| Failure::range(format!("{function}: {value} does not fit in a {what} ({bits} bits)")))
}

/// A port that packets can be sent to: an ordinary port, or a reserved port that is a destination.
fn output_port(function: &str, value: i64) -> Result<PortNo, Failure> {
    let port = u16::try_from(value).ok().map(PortNo).filter(|port| {
        let reserved = PortNo::IN_PORT.0..=PortNo::LOCAL.0;
        port.0 < PortNo::MAX || reserved.contains(&port.0) && *port != PortNo::TABLE
    });
    port.ok_or_else(|| {
        Failure::range(format!(
            "{function}: {value} is not a port number: use 0 to {}, or a reserved port such as 65534 (LOCAL)",
            PortNo::MAX - 1
        ))
    })
}

/// A field or some bits of it, as text: `reg12`, `xreg3[0..47]`.
fn bits_of_field(function: &str, text: &str) -> Result<Subfield, Failure> {
    text.parse().map_err(|error| {
        Failure::range(format!("{function}: {} is not a field or bits of a field: {error}", quote_text(text)))
    })
}

fn move_field(from: &str, to: &str) -> Result<Actions, Failure> {
    let (source, destination) = (bits_of_field("move_field", from)?, bits_of_field("move_field", to)?);
    if source.bits() != destination.bits() {
        let (from_bits, to_bits) = (source.bits(), destination.bits());
        return Err(Failure::range(format!(
            "move_field: {from} has {from_bits} bits and {to} has {to_bits}; select the same number of \
            bits, as in xreg3[0..47]"
        )));
    }
    Action::move_bits(source, destination).map(one).map_err(|error| failure("move_field", to, &error))
}

fn set_field<V: FieldValue>(
    function: &str,
    field: Field,
    value: V,
    mask: Option<V>,
) -> Result<Actions, Failure> {
    let field = value.field(field);
    let bits = value.bits(field).ok_or_else(|| misfit(function, field, value))?;
    let action = match mask {
        None => Action::set_field(field, bits),
        Some(mask) => {
            let mask = mask.bits(field).ok_or_else(|| misfit(function, field, mask))?;
            Action::set_field_masked(field, bits, mask)
        }
    };
    action.map(one).map_err(|error| match mask {
        None => failure(function, value, &error),
        Some(mask) => failure(function, format_args!("{value}/{mask}"), &error),
    })
}

/// The name of an instruction, which a flow can have only once.
fn instruction(action: &Action) -> Option<&'static str> {
    match action {
        Action::ClearActions(_) => Some("clear_actions"),
        Action::WriteActions(_) => Some("write_actions"),
        Action::WriteMetadata(_) => Some("write_metadata"),
        Action::GotoTable(_) => Some("goto_table"),
        _ => None,
    }
}

fn then(first: &Actions, second: &Actions) -> Result<Actions, Failure> {
    let mut seen: Vec<&str> = first.0.iter().filter_map(instruction).collect();
    for name in second.0.iter().filter_map(instruction) {
        if seen.contains(&name) {
            let (first, second) = (first.to_string(), second.to_string());
            let message = format!("{} ++ {}: a flow can have {name} only once", cut(&first), cut(&second));
            return Err(Failure::range(message));
        }
        seen.push(name);
    }
    Ok(first.clone().then(second))
}

/// Hands the packet to the responder.
fn respond(meter: i64, kind: &str, settings: &[Arc<str>], into: Actions) -> Result<Actions, Failure> {
    let meter = number("respond", "number of a meter", 32, meter)?;
    let settings = settings.iter().map(|setting| &**setting);
    let instruction = Instruction::from_settings(kind, settings, into)
        .map_err(|error| Failure::range(format!("respond: {error}")))?;
    Ok(one(instruction.action(meter)))
}

pub(super) fn functions() -> Vec<Function> {
    let mut functions = outputs();
    functions.extend(tables());
    functions.extend(changes());
    functions.extend(operators());
    functions
}

/// The functions of every writable field.
pub(super) fn of_fields() -> Vec<Function> {
    let mut functions = Vec::new();
    for field in Field::all().filter(|field| settable(*field)) {
        for name in names(field) {
            for form in forms(field) {
                match form {
                    Form::Int => functions.extend(setters::<i64>(field, name, *form)),
                    Form::Mac => functions.extend(setters::<MacAddr>(field, name, *form)),
                    Form::Ip => functions.extend(setters::<IpAddr>(field, name, *form)),
                }
            }
        }
    }
    functions
}

/// Whether an action on the top level can write the field. Only `ct` can write the connection's mark and
/// label.
pub(super) fn settable(field: Field) -> bool {
    field.info().writable && !matches!(field, Field::InPortOxm | Field::CtMark | Field::CtLabel)
}

/// The functions that write a field, for one type of values.
fn setters<V: FieldValue>(field: Field, name: &str, form: Form) -> Vec<Function> {
    let bits = field.bits();
    let function = format!("set_{name}");
    let exact = entry(&format!("{function}(value) -> actions"), format!("Writes {name} ({bits} bits)."))
        .examples(set_examples(field, form))
        .unary(move |value: V| set_field(&function, field, value, None));
    if !field.info().maskable {
        return vec![exact];
    }
    let function = format!("set_{name}_masked");
    let doc = format!(
        "Writes the bits of the mask in {name} ({bits} bits). Bits of the value outside the \
    mask must be zero."
    );
    let masked = entry(&format!("{function}(value, mask) -> actions"), doc)
        .examples(set_masked_examples(field, form))
        .binary(move |value: V, mask: V| set_field(&function, field, value, Some(mask)));
    vec![exact, masked]
}

fn outputs() -> Vec<Function> {
    vec![
        // The name `output` is a reserved word of the language.
        entry(
            "flow_output_action(port) -> actions",
            "Sends the packet to the port with this number; the name used in the literature.",
        )
        .example("3", r#"actions"output:3""#)
        .example("65534", r#"actions"LOCAL""#)
        .example("65279", r#"actions"output:65279""#)
        .example("65528", r#"actions"IN_PORT""#)
        .example("65280", "error range")
        .example("65529", "error range")
        .example("65535", "error range")
        .example("65536", "error range")
        .example("-1", "error range")
        .unary(|port: i64| output_port("flow_output_action", port).map(|port| one(Action::output(port)))),
        entry("output_in_port() -> actions", "Sends the packet back to its ingress port.")
            .example("", r#"actions"IN_PORT""#)
            .nullary(|| one(Action::output(PortNo::IN_PORT))),
        entry(
            "output_field(field) -> actions",
            "Sends the packet to the port whose number is in the field, or in some of its bits.",
        )
        .example(r#""reg12""#, r#"actions"output:NXM_NX_REG12[]""#)
        .example(r#""reg12[0..15]""#, r#"actions"output:NXM_NX_REG12[0..15]""#)
        .example(r#""reg16""#, "error range")
        .example(r#""xxreg1""#, "error range")
        .example(r#""reg1[5..4]""#, "error range")
        .unary(|field: Arc<str>| {
            let source = bits_of_field("output_field", &field)?;
            Action::output_reg(source).map(one).map_err(|error| failure("output_field", &field, &error))
        }),
        entry("group(id) -> actions", "Sends the packet through the group with this ID.")
            .example("16777216", r#"actions"group:16777216""#)
            .example("4294967295", "error range")
            .example("-1", "error range")
            .unary(|id: i64| match number::<u32>("group", "group id", 32, id)? {
                id if id <= GREATEST_GROUP => Ok(one(Group { id })),
                _ => Err(Failure::range(format!(
                    "group: {id} is not a group ID: the largest is {GREATEST_GROUP}"
                ))),
            }),
        entry(
            "respond(meter, kind, settings, into) -> actions",
            "Hands the packet to the responder of the host, as often as the meter with this number allows; 0 is none. The responder answers with a \
            message of this kind that no action can build, and the answer takes the way that `into` says. The packet itself goes on with the \
            next action. Each of the settings is `NAME=VALUE`; text behind a `.` in the name has no meaning, and only gives several values an \
            order. Every kind can have `keep`, a field whose value the answer gets too. `error`: `question`, a field of 32 bits with the \
            reason from bit 16 on (1 time exceeded, 2 no route, 3 host unreachable, 4 closed, 5 too big, 6 rejected), and below the MTU \
            in bytes of what is too small; `from`, the addresses with prefixes of which one is the source, by default the destination of the \
            packet. `router_advertisement`: `mac`, `mode` (`slaac`, `dhcpv6_stateful` or `dhcpv6_stateless`), `prefix`, `mtu`, `dns`, and \
            `periodic` for one that is sent every few minutes. `dhcpv4`: `address`, `net`, `server`, `server_mac`, `client_mac`, `lease`, \
            `next_server`, and options by name or number. `dhcpv6`: `address`, `server_mac`, `client_mac`, `lease`, `dns`, `domain_search`. \
            `dns_question`: `key`, a field of 64 bits for the `name_key` of the name that the packet asks for, or 0 for a packet that is no query; the \
            answer is the packet itself. `dns_answer`: `name`, a domain name or an address, `ttl`, `address`, `cname`, `pointer`; or without `name`, for \
            names that nobody has, `domain`, which has no others. `return`: the answer is the packet itself, so that its flow counts the responders that work. \
            Flows of five more kinds are for no packet, but for the responder, which reads those of stage 60. `announce`: the responder says that `mac` is here, \
            by gratuitous ARP or an advertisement for each `address`, or by RARP without any; at once, after 1 s, 3 s and 7 s, and again when a port \
            whose number is in `watch` becomes live or ceases to be. `router` is `true` if a router has the addresses. `ready`: the switch has its flows. Until there \
            is such a flow, and while an interface or bridge in `uplink` is down, other switches see its tunnel ports in `hold` as down; `all` is \
            each with a session of BFD. `query`: the responder asks machines every `interval` seconds, by default 125, which multicast groups they \
            listen to: by IGMPv3 from the address `igmp`, and if `mld` is `true` by MLDv2, from `mac`. `solicit`: the responder asks, from `mac` \
            and the address `from`, for the MAC address of `target`, three times in 2 s and then every `interval` seconds, and again when a port \
            in `watch` changes. `probe`: the responder checks the address `to` at `to_mac`, from `from` and `from_mac`, every `interval` seconds, by default 5, \
            and writes the result to `external_ids:weft-probe-ID` of the bridge, with the `id` that is given: `check` is `tcp:PORT`, `icmp` or `http:PORT:PATH`, \
            `timeout` at most the interval, by default 2, and `failures` and `successes` in a row count, by default 3. A flow with `probed` hands over the packets that may be \
            answers to probes.",
        )
        .example(
            r#"80001, "error", ["question=reg4", "from=10.0.1.254/24", "from=fd01::fe/64"], actions"resubmit(,27)""#,
            r#"actions"controller(id=7,userdata=01.01.00.00.01.08.04.04.0f.00.01.08.04.00.0f.01.01.0a.00.01.fe.18.fd.01.00.00.00.00.00.00.00.00.00.00.00.00.00.fe.40.ff.ff.00.10.00.00.23.20.00.0e.ff.f8.1b.00.00.00,meter_id=80001)""#,
        )
        .example(
            r#"0, "dns_question", ["key=xreg4"], actions"resubmit(,27)""#,
            r#"actions"controller(id=7,userdata=01.05.00.80.01.08.08.00.3f.ff.ff.00.10.00.00.23.20.00.0e.ff.f8.1b.00.00.00)""#,
        )
        .example(
            r#"0, "announce", ["mac=02:00:00:00:ff:01", "address=203.0.113.10", "watch=301"], actions"resubmit(,27)""#,
            r#"actions"controller(id=7,userdata=01.08.00.02.00.00.00.ff.01.00.01.00.01.cb.00.71.0a.00.00.01.2d.ff.ff.00.10.00.00.23.20.00.0e.ff.f8.1b.00.00.00)""#,
        )
        .example(
            r#"0, "ready", ["hold=all", "uplink=br-ex"], actions"drop""#,
            r#"actions"controller(id=7,userdata=01.09.00.01.00.01.05.62.72.2d.65.78)""#,
        )
        .example(
            r#"0, "query", ["mac=02:00:00:00:ff:01", "igmp=10.0.0.252", "mld=true"], actions"drop""#,
            r#"actions"controller(id=7,userdata=01.0a.00.02.00.00.00.ff.01.03.00.7d.0a.00.00.fc)""#,
        )
        .example(
            r#"0, "solicit", ["mac=02:00:00:00:ff:01", "from=10.0.0.1", "target=10.0.0.9", "interval=30"], actions"drop""#,
            r#"actions"controller(id=7,userdata=01.0b.00.02.00.00.00.ff.01.00.00.1e.00.0a.00.00.01.0a.00.00.09)""#,
        )
        .example(r#"1, "probed", [], actions"drop""#, r#"actions"controller(id=7,userdata=01.0d.00,meter_id=1)""#)
        .example(r#"1, "dns_answer", ["address=10.0.0.2"], actions"drop""#, "error range")
        .example(r#"1, "error", ["question=reg4[0..15]"], actions"drop""#, "error range")
        .example(r#"1, "error", ["question=nonsense"], actions"drop""#, "error range")
        .example(r#"1, "nonsense", [], actions"drop""#, "error range")
        .quaternary(|meter: i64, kind: Arc<str>, settings: Vec<Arc<str>>, into: Packed<Actions>| {
            respond(meter, &kind, &settings, into.get())
        }),
        entry("drop() -> actions", "Drops the packet.")
            .example("", r#"actions"drop""#)
            .nullary(Actions::drop),
    ]
}

/// `OFPG_MAX`; numbers above it mean no group or all.
const GREATEST_GROUP: u32 = 0xffff_ff00;

/// A table that can contain flows. Number 255 means all tables.
fn table_number(function: &str, table: i64) -> Result<u8, Failure> {
    let number = u8::try_from(table).ok().filter(|table| *table != 255);
    number.ok_or_else(|| Failure::range(format!("{function}: {table} is not a table number: use 0 to 254")))
}

fn tables() -> Vec<Function> {
    vec![
        entry(
            "resubmit(table) -> actions",
            "Looks up the packet in another table, then continues with the \
        next action.",
        )
        .example("4", r#"actions"resubmit(,4)""#)
        .example("255", "error range")
        .example("-1", "error range")
        .unary(|table: i64| Ok(one(Action::resubmit_table(table_number("resubmit", table)?)))),
        entry(
            "goto_table(table) -> actions",
            "Continues in another table, which must come after the table of the flow.",
        )
        .example("4", r#"actions"goto_table:4""#)
        .example("255", "error range")
        .unary(|table: i64| Ok(one(GotoTable { table: table_number("goto_table", table)? }))),
        entry(
            "write_metadata(value, mask) -> actions",
            "Writes the bits of the mask in the metadata, before goto_table.",
        )
        .example("5, 255", r#"actions"write_metadata:0x5/0xff""#)
        .example("256, 255", "error range")
        .example("-1, 255", "error range")
        .binary(|value: i64, mask: i64| {
            let function = "write_metadata";
            let bits = u64::try_from(value).map_err(|_| misfit(function, Field::Metadata, value))?;
            let mask_bits = u64::try_from(mask).map_err(|_| misfit(function, Field::Metadata, mask))?;
            if bits & !mask_bits != 0 {
                return Err(Failure::range(format!("{function}: {value} has bits outside the mask {mask}")));
            }
            Ok(one(WriteMetadata { value: bits, mask: mask_bits }))
        }),
    ]
}

fn changes() -> Vec<Function> {
    vec![
        entry(
            "move_field(from, to) -> actions",
            "Copies a field, or some of its bits, to another of the same width. Both are given by name.",
        )
        .example(r#""reg4", "arp_spa""#, r#"actions"move:NXM_NX_REG4[]->NXM_OF_ARP_SPA[]""#)
        .example(r#""xreg3[0..47]", "eth_src""#, r#"actions"move:OXM_OF_PKT_REG3[0..47]->NXM_OF_ETH_SRC[]""#)
        .example(r#""reg1", "tun_id""#, "error range")
        .example(r#""reg1", "eth_type""#, "error range")
        .example(r#""nonsense", "reg1""#, "error range")
        .binary(|from: Arc<str>, to: Arc<str>| move_field(&from, &to)),
        entry("dec_ttl() -> actions", "Decrements the IP TTL; processing of a packet with TTL 1 or 0 ends.")
            .example("", r#"actions"dec_ttl""#)
            .nullary(|| one(DecTtl)),
        entry("ct_clear() -> actions", "Clears the connection tracking state of the packet.")
            .example("", r#"actions"ct_clear""#)
            .nullary(|| one(CtClear)),
        entry("pop_vlan() -> actions", "Pops the outer VLAN tag.")
            .example("", r#"actions"pop_vlan""#)
            .nullary(|| one(PopVlan)),
        entry("push_vlan(vlan) -> actions", "Pushes a VLAN tag (0x8100) with this VLAN ID.")
            .example("100", r#"actions"push_vlan:0x8100,set_field:4196->vlan_vid""#)
            .example("4096", "error range")
            .example("-1", "error range")
            .unary(|vlan: i64| match u128::try_from(vlan) {
                Ok(id @ 0..4096) => {
                    let set = Action::set_field(Field::VlanVid, 0x1000 | id);
                    let set = set.map_err(|error| failure("push_vlan", vlan, &error))?;
                    Ok(Actions(vec![PushVlan { eth_type: 0x8100 }.into(), set]))
                }
                _ => Err(Failure::range(format!("push_vlan: {vlan} does not fit in a VLAN ID (12 bits)"))),
            }),
    ]
}

fn operators() -> Vec<Function> {
    type A = Packed<Actions>;
    vec![
        entry(
            "++(a, b) -> actions",
            "Executes the actions of both lists in order. Instructions (write_metadata, goto_table …) \
            follow all actions, each at most once.",
        )
        .example(
            r#"actions"set_field:0x5->reg0", actions"resubmit(,4)""#,
            r#"actions"set_field:0x5->reg0,resubmit(,4)""#,
        )
        .example(r#"actions"goto_table:4", actions"output:3""#, r#"actions"output:3,goto_table:4""#)
        .example(r#"actions"drop", actions"drop""#, r#"actions"drop""#)
        .example(r#"actions"goto_table:4", actions"goto_table:5""#, "error range")
        .binary(|a: A, b: A| match a.then(&b) {
            Some(joined) => Ok(joined),
            None => then(&a.get(), &b.get()).map(|joined| Packed::new(&joined)),
        }),
        entry("to_string(actions) -> text", "The actions as Open vSwitch prints them.")
            .example(r#"actions"load:5->NXM_NX_REG0[]""#, r#""set_field:0x5->reg0""#)
            .example(r#"actions"drop""#, r#""drop""#)
            .unary(|value: A| value.text().into_owned()),
    ]
}
