//! Relations between functions that hold for all arguments, beyond their examples.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use nlog_data::function::lookup;
use nlog_data::{FailureCode, InterfaceAddress, Results, Type, Value};
use openflow_rs::MacAddr;
use proptest::collection::vec;
use proptest::prelude::*;

/// The outcome of a call; `None` if there is no result.
type Given = Result<Option<Value>, FailureCode>;

/// The type of a value, as far as needed to choose a function; `of` is the element type of
/// sequences.
fn type_of(value: &Value, of: &Type) -> Type {
    match value {
        Value::Bool(_) => Type::Bool,
        Value::Int(_) => Type::Int,
        Value::String(_) => Type::String,
        Value::Mac(_) => Type::Mac,
        Value::Ip(_) => Type::Ip,
        Value::Net(_) => Type::Net,
        Value::InterfaceAddress(_) => Type::InterfaceAddress,
        Value::Set(_) => Type::set(of.clone()),
        Value::List(_) => Type::list(of.clone()),
        other => panic!("{other} is in no property"),
    }
}

/// Calls the function of this name that takes these arguments; `of` is the element type of
/// sequences.
fn call_of(of: &Type, name: &str, arguments: &[Value]) -> Given {
    let types: Vec<Type> = arguments.iter().map(|value| type_of(value, of)).collect();
    let mut fitting = lookup(name).iter().filter(|function| function.result_types(&types).is_some());
    let function = fitting.next().unwrap_or_else(|| panic!("no {name} takes {types:?}"));
    assert!(fitting.next().is_none(), "two {name} take {types:?}");
    match (function.evaluate)(arguments) {
        Ok(Results::One(value)) => Ok(Some(value)),
        Ok(Results::None) => Ok(None),
        Ok(Results::Many(_)) => panic!("{name} gives several results"),
        Err(failure) => Err(failure.code),
    }
}

/// Calls a function over integers, texts, addresses, and sequences of integers.
fn call(name: &str, arguments: &[Value]) -> Given {
    call_of(&Type::Int, name, arguments)
}

fn gives(name: &str, arguments: &[Value]) -> Value {
    let given = call(name, arguments);
    given.ok().flatten().unwrap_or_else(|| panic!("{name} of {arguments:?} gives nothing"))
}

fn holds(name: &str, arguments: &[Value]) -> bool {
    gives(name, arguments) == Value::Bool(true)
}

fn int_set(of: &BTreeSet<i64>) -> Value {
    Value::set(of.iter().copied().map(Value::from))
}

fn int_list(of: &[i64]) -> Value {
    Value::list(of.iter().copied().map(Value::from))
}

/// Few integers, so that sets meet.
fn ints() -> impl Strategy<Value = Vec<i64>> {
    vec(prop_oneof![-3_i64..8, Just(i64::MAX), Just(i64::MIN)], 0..8)
}

fn int_sets() -> impl Strategy<Value = BTreeSet<i64>> {
    ints().prop_map(|integers| integers.into_iter().collect())
}

/// Text of a few different characters of one to four bytes, so that substrings occur.
fn texts() -> impl Strategy<Value = String> {
    vec(prop::sample::select(vec!['a', 'b', ',', ' ', 'ö', '→', '𝄞']), 0..8).prop_map(String::from_iter)
}

fn ips() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<u32>().prop_map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits))),
        any::<u128>().prop_map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits))),
    ]
}

fn nets() -> impl Strategy<Value = IpNet> {
    (ips(), any::<prop::sample::Index>()).prop_map(|(ip, length)| {
        let most = if ip.is_ipv4() { 32 } else { 128 };
        IpNet::new(ip, length.index(most + 1) as u8).expect("a prefix").trunc()
    })
}

fn macs() -> impl Strategy<Value = MacAddr> {
    any::<[u8; 6]>().prop_map(MacAddr)
}

fn bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => ip.to_bits().into(),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

proptest! {
    #[test]
    fn set_functions_agree_with_ordered_sets(a in int_sets(), b in int_sets(), x in -3_i64..8) {
        let (set_a, set_b) = (int_set(&a), int_set(&b));
        let of = |name: &str| gives(name, &[set_a.clone(), set_b.clone()]);
        prop_assert_eq!(of("union"), int_set(&(&a | &b)));
        prop_assert_eq!(of("intersection"), int_set(&(&a & &b)));
        prop_assert_eq!(of("difference"), int_set(&(&a - &b)));
        prop_assert_eq!(of("is_subset"), Value::Bool(a.is_subset(&b)));
        let one = BTreeSet::from([x]);
        prop_assert_eq!(gives("with", &[set_a.clone(), x.into()]), int_set(&(&a | &one)));
        prop_assert_eq!(gives("without", &[set_a.clone(), x.into()]), int_set(&(&a - &one)));
        prop_assert_eq!(call("min_of", std::slice::from_ref(&set_a)), Ok(a.first().copied().map(Value::from)));
        prop_assert_eq!(call("max_of", &[set_a]), Ok(a.last().copied().map(Value::from)));
    }

    #[test]
    fn the_laws_of_set_algebra_hold(a in int_sets(), b in int_sets(), c in int_sets()) {
        let (a, b, c) = (int_set(&a), int_set(&b), int_set(&c));
        let or = |a: &Value, b: &Value| gives("union", &[a.clone(), b.clone()]);
        let and = |a: &Value, b: &Value| gives("intersection", &[a.clone(), b.clone()]);
        let less = |a: &Value, b: &Value| gives("difference", &[a.clone(), b.clone()]);
        prop_assert_eq!(or(&a, &b), or(&b, &a));
        prop_assert_eq!(and(&a, &or(&b, &c)), or(&and(&a, &b), &and(&a, &c)));
        prop_assert_eq!(less(&a, &or(&b, &c)), and(&less(&a, &b), &less(&a, &c)));
        prop_assert_eq!(or(&less(&a, &b), &and(&a, &b)), a);
    }

    #[test]
    fn list_functions_agree_with_vectors(integers in ints(), from in -1_i64..10, to in -1_i64..10, x in -3_i64..8) {
        let list = int_list(&integers);
        let of = |name: &str| call(name, std::slice::from_ref(&list));
        let some = |value: Option<&i64>| Ok(value.copied().map(Value::from));
        prop_assert_eq!(of("first"), some(integers.first()));
        prop_assert_eq!(of("last"), some(integers.last()));
        prop_assert_eq!(of("min_of"), some(integers.iter().min()));
        prop_assert_eq!(of("max_of"), some(integers.iter().max()));
        let place = |n: i64| usize::try_from(n).ok();
        prop_assert_eq!(
            call("at", &[list.clone(), from.into()]),
            some(place(from).and_then(|from| integers.get(from)))
        );
        let part = place(from).zip(place(to)).and_then(|(from, to)| integers.get(from..to));
        prop_assert_eq!(call("slice", &[list.clone(), from.into(), to.into()]), Ok(part.map(int_list)));
        let rank = integers.iter().position(|y| *y == x).map(|rank| Value::Int(rank as i64));
        prop_assert_eq!(call("index_of", &[list.clone(), x.into()]), Ok(rank));
        let mut sorted = integers.clone();
        sorted.sort_unstable();
        prop_assert_eq!(of("sort"), Ok(Some(int_list(&sorted))));
        let reversed: Vec<i64> = integers.iter().rev().copied().collect();
        prop_assert_eq!(of("reverse"), Ok(Some(int_list(&reversed))));
    }

    #[test]
    fn distinct_keeps_the_set_and_the_order(integers in ints()) {
        let list = int_list(&integers);
        let once = gives("distinct", std::slice::from_ref(&list));
        prop_assert_eq!(gives("to_set", std::slice::from_ref(&once)), gives("to_set", std::slice::from_ref(&list)));
        let Value::List(elements) = &once else { panic!("{once} is no list") };
        let rank = |x: &Value| gives("index_of", &[list.clone(), x.clone()]);
        prop_assert!(elements.windows(2).all(|pair| rank(&pair[0]) < rank(&pair[1])));
    }

    #[test]
    fn sums_are_exact_or_overflow(integers in ints()) {
        let exact = |total: i128| i64::try_from(total).map_err(|_| FailureCode::Overflow).map(|n| Some(n.into()));
        let total = integers.iter().copied().map(i128::from).sum();
        prop_assert_eq!(call("sum_of", &[int_list(&integers)]), exact(total));
        let set: BTreeSet<i64> = integers.into_iter().collect();
        let total = set.iter().copied().map(i128::from).sum();
        prop_assert_eq!(call("sum_of", &[int_set(&set)]), exact(total));
    }

    #[test]
    fn what_is_split_joins_again(text in texts(), separator in texts()) {
        let parts = gives("split", &[text.as_str().into(), separator.as_str().into()]);
        let joined = call_of(&Type::String, "join", &[parts, separator.into()]);
        prop_assert_eq!(joined, Ok(Some(text.into())));
    }

    #[test]
    fn positions_in_text_count_characters(text in texts(), part in texts(), width in 0_i64..12) {
        let characters = |text: &str| text.chars().count() as i64;
        let given = call("index_of", &[text.as_str().into(), part.as_str().into()]);
        let has = holds("contains", &[text.as_str().into(), part.as_str().into()]);
        prop_assert_eq!(has, matches!(given, Ok(Some(_))));
        if let Ok(Some(Value::Int(at))) = given {
            let end = at + characters(&part);
            let found = gives("substring", &[text.as_str().into(), at.into(), end.into()]);
            prop_assert_eq!(found, Value::from(part.as_str()));
            let before = gives("substring", &[text.as_str().into(), 0.into(), (end - 1).max(0).into()]);
            prop_assert!(part.is_empty() || !holds("contains", &[before, part.into()]));
        }
        let padded = gives("pad_left", &[text.as_str().into(), width.into(), "→".into()]);
        prop_assert_eq!(gives("length", std::slice::from_ref(&padded)), characters(&text).max(width).into());
        prop_assert!(holds("ends_with", &[padded, text.into()]));
    }

    #[test]
    fn replacing_is_splitting_and_joining(text in texts(), part in "[ab,]{1,2}", by in texts()) {
        let parts = gives("split", &[text.as_str().into(), part.as_str().into()]);
        let joined = call_of(&Type::String, "join", &[parts, by.as_str().into()]);
        prop_assert_eq!(joined, Ok(Some(gives("replace", &[text.into(), part.into(), by.into()]))));
    }

    #[test]
    fn texts_of_values_are_parsed_again(n in any::<i64>(), ip in ips(), net in nets(), mac in macs()) {
        for (value, parse) in [
            (Value::Int(n), "parse_int"),
            (ip.into(), "parse_ip"),
            (net.into(), "parse_net"),
            (mac.into(), "parse_mac"),
        ] {
            let text = gives("to_string", std::slice::from_ref(&value));
            prop_assert_eq!(gives(parse, &[text]), value);
        }
        if let Ok(Some(text)) = call("to_hex", &[n.into()]) {
            prop_assert_eq!(gives("parse_hex", &[text]), n.into());
        }
    }

    #[test]
    fn a_host_has_its_number(net in nets(), n in prop_oneof![0_i64..70000, any::<i64>()]) {
        let free = u32::from(net.max_prefix_len() - net.prefix_len());
        let exists = n >= 0 && (free >= 63 || n < 1 << free);
        match call("host", &[net.into(), n.into()]) {
            Ok(Some(ip)) => {
                prop_assert!(exists);
                prop_assert!(holds("in_net", &[ip.clone(), net.into()]));
                prop_assert_eq!(gives("host_number", &[net.into(), ip]), n.into());
            }
            given => {
                prop_assert_eq!(given, Err(FailureCode::Range));
                prop_assert!(!exists);
            }
        }
    }

    #[test]
    fn the_number_of_an_address_leads_back_to_it(ip in ips(), length in 0_i64..=128, other in ips()) {
        let Ok(Some(net)) = call("net_of", &[ip.into(), length.into()]) else {
            prop_assert!(ip.is_ipv4() && length > 32);
            return Ok(());
        };
        prop_assert!(holds("in_net", &[ip.into(), net.clone()]));
        match call("host_number", &[net.clone(), ip.into()]) {
            Ok(number) => {
                let number = number.expect("the address is in the prefix");
                prop_assert_eq!(gives("host", &[net.clone(), number]), ip.into());
            }
            Err(code) => prop_assert!(code == FailureCode::Range && ip.is_ipv6() && length <= 64),
        }
        let inside = holds("in_net", &[other.into(), net.clone()]);
        prop_assert_eq!(call("host_number", &[net, other.into()]) == Ok(None), !inside);
    }

    #[test]
    fn a_prefix_lies_between_its_first_and_last_address(net in nets(), ip in ips()) {
        let (first, last) = (gives("network_of", &[net.into()]), gives("last_address", &[net.into()]));
        let between = first <= ip.into() && Value::from(ip) <= last;
        prop_assert_eq!(holds("in_net", &[ip.into(), net.into()]), between);
        let Value::Ip(mask) = gives("netmask", &[net.into()]) else { panic!("no mask") };
        prop_assert_eq!(i64::from(bits(mask).count_ones()), i64::from(net.prefix_len()));
        prop_assert_eq!(bits(mask) & bits(net.network()), bits(net.network()));
    }

    #[test]
    fn the_address_of_an_interface_has_two_parts_and_one_text(net in nets(), ip in ips()) {
        let length = if ip.is_ipv4() { net.prefix_len() % 33 } else { net.prefix_len() };
        let address: Value = InterfaceAddress::new(ip, length).expect("a length that fits").into();
        let parts = ["interface_ip", "interface_net"].map(|name| gives(name, std::slice::from_ref(&address)));
        prop_assert_eq!(&parts[0], &ip.into());
        prop_assert!(holds("in_net", &parts));
        prop_assert_eq!(gives("prefix_length", &parts[1..]), i64::from(length).into());
        let text = gives("to_string", std::slice::from_ref(&address));
        prop_assert_eq!(gives("parse_interface_address", &[text]), address);
    }

    #[test]
    fn a_subnet_is_the_one_in_its_place(net in nets(), longer in 0_u8..=12, n in -1_i64..5000) {
        let length = net.prefix_len() + longer;
        let given = call("subnet", &[net.into(), i64::from(length).into(), n.into()]);
        if length > net.max_prefix_len() {
            prop_assert_eq!(given, Err(FailureCode::Range));
            return Ok(());
        }
        let mut all = net.subnets(length).expect("a longer prefix");
        let wanted = usize::try_from(n).ok().and_then(|n| all.nth(n));
        prop_assert_eq!(given, wanted.map(|net| Some(net.into())).ok_or(FailureCode::Range));
        if let Some(part) = wanted {
            prop_assert!(holds("is_subnet", &[part.into(), net.into()]));
            prop_assert_eq!(holds("is_subnet", &[net.into(), part.into()]), longer == 0);
        }
    }

    #[test]
    fn prefixes_overlap_or_are_apart(a in nets(), other in nets(), kin in any::<bool>()) {
        // Two random prefixes seldom overlap.
        let above = IpNet::new(a.network(), other.prefix_len().min(a.prefix_len())).expect("a prefix").trunc();
        let b = if kin { above } else { other };
        let (value_a, value_b) = (Value::from(a), Value::from(b));
        let pair = [value_a.clone(), value_b.clone()];
        let within = |x: &Value, y: &Value| holds("is_subnet", &[x.clone(), y.clone()]);
        prop_assert_eq!(holds("overlaps", &pair), within(&value_a, &value_b) || within(&value_b, &value_a));
        let (ends_a, ends_b) = ((a.network(), a.broadcast()), (b.network(), b.broadcast()));
        let same = a.network().is_ipv4() == b.network().is_ipv4();
        prop_assert_eq!(holds("overlaps", &pair), same && ends_a.0 <= ends_b.1 && ends_b.0 <= ends_a.1);
    }

    #[test]
    fn offsets_are_arithmetic_within_the_addresses(ip in ips(), mac in macs(), n in any::<i64>()) {
        let place = match ip {
            IpAddr::V4(ip) => u32::try_from(i128::from(ip.to_bits()) + i128::from(n)).ok().map(u128::from),
            IpAddr::V6(ip) => ip.to_bits().checked_add_signed(n.into()),
        };
        match call("offset", &[ip.into(), n.into()]) {
            Ok(Some(Value::Ip(other))) => {
                prop_assert_eq!((Some(bits(other)), other.is_ipv4()), (place, ip.is_ipv4()));
            }
            given => prop_assert_eq!((given, place), (Err(FailureCode::Range), None)),
        }
        let number = i128::from(mac.to_u64()) + i128::from(n);
        let wanted = u64::try_from(number).ok().filter(|number| number >> 48 == 0).map(MacAddr::from_u64);
        prop_assert_eq!(
            call("offset", &[mac.into(), n.into()]),
            wanted.map(|mac| Some(mac.into())).ok_or(FailureCode::Range)
        );
    }

    #[test]
    fn ethernet_addresses_stay_in_what_is_made_of_them(mac in macs(), ip in ips()) {
        let link: IpNet = "fe80::/64".parse().expect("a prefix");
        let address = gives("link_local", &[mac.into()]);
        prop_assert_eq!(&gives("eui64", &[link.into(), mac.into()]), &address);
        prop_assert!(holds("is_link_local", std::slice::from_ref(&address)));
        let Value::Ip(address) = address else { panic!("no address") };
        // Undone by hand: without ff:fe in the middle, and with the U/L bit inverted.
        let [.., a, b, c, 0xff, 0xfe, d, e, f] = bits(address).to_be_bytes() else { panic!("{address}") };
        prop_assert_eq!(MacAddr([a ^ 2, b, c, d, e, f]), mac);
        if let Ok(Some(group)) = call("solicited_node", &[ip.into()]) {
            prop_assert!(holds("is_multicast", std::slice::from_ref(&group)));
            let group_mac = gives("multicast_mac", &[group]);
            prop_assert!(holds("is_multicast", std::slice::from_ref(&group_mac)));
            let Value::Mac(group_mac) = group_mac else { panic!("no Ethernet address") };
            prop_assert_eq!(u128::from(group_mac.to_u64()), 0x3333_ff00_0000 | bits(ip) & 0xff_ffff);
        } else {
            prop_assert!(ip.is_ipv4());
        }
        prop_assert_eq!(
            call("multicast_mac", &[ip.into()]).map(|mac| mac.is_some()),
            Ok(holds("is_multicast", &[ip.into()]))
        );
    }

    #[test]
    fn bits_are_those_of_shifts(n in any::<i64>(), position in -2_i64..70) {
        let wanted = (0..64).contains(&position).then(|| Value::Bool(n >> position & 1 == 1));
        prop_assert_eq!(call("bit", &[n.into(), position.into()]), wanted.map(Some).ok_or(FailureCode::Range));
    }
}

#[test]
fn optional_values_are_had_or_replaced() {
    let of = |name: &str, arguments: &[Value]| {
        let function = lookup(name).first().unwrap_or_else(|| panic!("no {name}"));
        (function.evaluate)(arguments)
    };
    let types = |name: &str, arguments: &[Type]| {
        lookup(name).first().and_then(|function| function.result_types(arguments))
    };
    let opt = Type::opt(Type::Ip);
    assert_eq!(types("some", &[Type::Ip]), Some(vec![opt.clone()]));
    assert_eq!(types("value", std::slice::from_ref(&opt)), Some(vec![Type::Ip]));
    assert_eq!(types("or_else", &[opt.clone(), Type::Ip]), Some(vec![Type::Ip]));
    assert_eq!(types("or_else", &[opt, Type::Int]), None);
    assert_eq!(types("value", &[Type::Ip]), None);
    assert_eq!(of("none", &[]), Ok(Results::One(Value::None)));
    assert_eq!(of("value", &[Value::None]), Ok(Results::None));
    assert_eq!(of("value", &[Value::Int(0)]), Ok(Results::One(Value::Int(0))));
    assert_eq!(of("is_none", &[Value::Bool(false)]), Ok(Results::One(Value::Bool(false))));
}
