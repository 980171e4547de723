//! What rules say of an answer, as text.

use openflow_rs::Actions;
use packet_answers::{Advertisement, Ask, BadSetting, Dhcpv4Offer, Dhcpv6Offer, Instruction, Operand};

fn read(kind: &str, settings: &[&str]) -> Result<Ask, BadSetting> {
    let instruction = Instruction::from_settings(kind, settings.iter().copied(), Actions::drop())?;
    assert_eq!(Instruction::decode(&instruction.encode()).unwrap(), instruction, "the format has all of it");
    Ok(instruction.ask)
}

fn refusal(kind: &str, settings: &[&str]) -> String {
    read(kind, settings).unwrap_err().to_string()
}

#[test]
fn an_error_has_its_question_in_a_field_and_its_sources_in_order() {
    let Ok(Ask::Error(ask)) = read(
        "error",
        &["question=reg4", "from.000=10.0.1.254/24", "from.001=10.0.0.254/16", "from.002=fd01::fe/64"],
    ) else {
        panic!("an error")
    };
    assert_eq!(ask.reason, Operand::Field("reg4[16..31]".parse().unwrap()));
    assert_eq!(ask.mtu, Operand::Field("reg4[0..15]".parse().unwrap()));
    let addresses: Vec<String> =
        ask.addresses.iter().map(|own| format!("{}/{}", own.address, own.prefix)).collect();
    assert_eq!(addresses, ["10.0.1.254/24", "10.0.0.254/16", "fd01::fe/64"]);
}

#[test]
fn any_answer_may_keep_fields_of_the_packet() {
    let settings = ["question=reg4", "keep=metadata", "keep=reg0[0..15]"];
    let instruction = Instruction::from_settings("error", settings, Actions::drop()).unwrap();
    let kept: Vec<String> = instruction.kept.iter().map(ToString::to_string).collect();
    assert_eq!(kept.len(), 2, "{kept:?}");
    assert!(refusal("error", &["question=reg4", "keep=nothing"]).starts_with("keep=nothing: give a field"));
    assert!(
        refusal("error", &["question=reg4", "keep=xxreg0"])
            .starts_with("keep=xxreg0: give a field of up to 64")
    );
}

#[test]
fn the_mode_of_a_router_says_where_addresses_come_from() {
    for (mode, managed, other, autonomous) in [
        ("slaac", false, false, true),
        ("dhcpv6_stateful", true, false, false),
        ("dhcpv6_stateless", false, true, true),
    ] {
        let mode = format!("mode={mode}");
        let settings = [
            "mac=02:00:00:00:ff:01",
            &mode,
            "prefix=fd00::/64",
            "dns.0=fd00::53",
            "dns.1=fd00::52",
            "mtu=1442",
        ];
        let Ok(Ask::Advertisement(said)) = read("router_advertisement", &settings) else {
            panic!("an advertisement")
        };
        assert_eq!((said.managed, said.other, said.autonomous), (managed, other, autonomous), "{mode}");
        let Advertisement { mtu, prefixes, dns, lifetime, periodic, .. } = said;
        assert_eq!((mtu, lifetime, periodic), (1442, 1800, false));
        assert_eq!(prefixes, [("fd00::".parse().unwrap(), 64)]);
        assert_eq!(dns.iter().map(ToString::to_string).collect::<Vec<_>>(), ["fd00::53", "fd00::52"]);
    }
    assert!(refusal("router_advertisement", &["mac=02:00:00:00:ff:01", "mode=other"]).contains("use slaac"));
    assert!(refusal("router_advertisement", &["mac=x", "mode=slaac"]).contains("give a MAC address"));
}

const SERVER: [&str; 5] = [
    "net=10.0.0.0/24",
    "server=10.0.0.253",
    "server_mac=02:00:00:00:ff:fd",
    "client_mac=02:00:00:00:00:01",
    "lease=3600",
];

#[test]
fn a_server_offers_an_address_and_options_by_name_or_number() {
    let own =
        ["address=10.0.0.1", "dns.000=10.0.0.53", "dns.001=10.0.0.52", "128=0aff", "next_server=10.0.0.7"];
    let Ok(Ask::Dhcpv4(offer)) = read("dhcpv4", &[&SERVER[..], &own].concat()) else { panic!("an offer") };
    let Dhcpv4Offer { address, prefix, lease, next_server, mut options, .. } = offer;
    assert_eq!((address.to_string().as_str(), prefix, lease), ("10.0.0.1", 24, 3600));
    assert_eq!(next_server.to_string(), "10.0.0.7");
    options.sort();
    assert_eq!(options, [(6, vec![10, 0, 0, 53, 10, 0, 0, 52]), (128, vec![0x0a, 0xff])]);
    assert_eq!(refusal("dhcpv4", &SERVER), "dhcpv4 needs the setting address");
    let twice = [&SERVER[..], &["address=10.0.0.1", "address=10.0.0.2"]].concat();
    assert_eq!(refusal("dhcpv4", &twice), "address has several values, but can have one");
    let unknown = [&SERVER[..], &["address=10.0.0.1", "colour=blue"]].concat();
    assert!(
        refusal("dhcpv4", &unknown).contains("no option has this name"),
        "{}",
        refusal("dhcpv4", &unknown)
    );
}

#[test]
fn a_server_of_dhcpv6_offers_all_addresses() {
    let own = [
        "address.000=fd00::1",
        "address.001=fd00::2",
        "domain_search.000=a.example",
        "domain_search.001=b.example",
    ];
    let Ok(Ask::Dhcpv6(offer)) = read("dhcpv6", &[&SERVER[..], &own].concat()) else { panic!("an offer") };
    let Dhcpv6Offer { addresses, preferred, valid, domain_search, .. } = offer;
    assert_eq!(addresses.iter().map(ToString::to_string).collect::<Vec<_>>(), ["fd00::1", "fd00::2"]);
    assert_eq!((preferred, valid), (3600, 3600));
    assert_eq!(domain_search, b"\x01a\x07example\0\x01b\x07example\0");
    assert_eq!(refusal("dhcpv6", &[&SERVER[..], &["ntp=fd00::9"]].concat()), "dhcpv6 has no setting ntp");
}

#[test]
fn a_question_of_dns_needs_a_field_for_its_key() {
    let Ok(Ask::DnsQuestion(question)) = read("dns_question", &["key=xreg4", "keep=metadata", "keep=reg0"])
    else {
        panic!("a question")
    };
    assert_eq!(question.key, "xreg4".parse().unwrap());
    assert_eq!(refusal("dns_question", &[]), "dns_question needs the setting key");
    for field in ["reg4", "xxreg1", "xxreg1[0..62]", "nothing"] {
        let why = format!("key={field}: give a field of 64 bits that an action can set, as in xreg4");
        assert_eq!(refusal("dns_question", &[&format!("key={field}")]), why);
    }
}

#[test]
fn an_answer_of_dns_has_records_if_it_has_a_name() {
    let settings = [
        "name=DB.blue.example.",
        "ttl=60",
        "address.0=fd00::2",
        "address.1=10.0.0.3",
        "address.2=10.0.0.2",
        "cname=a.example",
        "pointer=b.example",
    ];
    let Ok(Ask::DnsAnswer(answer)) = read("dns_answer", &settings) else { panic!("an answer") };
    assert_eq!(answer.name.unwrap().to_string(), "DB.blue.example");
    assert_eq!((answer.ttl, answer.cname.unwrap().to_string().as_str()), (60, "a.example"));
    assert_eq!(answer.ipv4.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.0.0.3", "10.0.0.2"]);
    assert_eq!(answer.ipv6.iter().map(ToString::to_string).collect::<Vec<_>>(), ["fd00::2"]);
    let Ok(Ask::DnsAnswer(answer)) =
        read("dns_answer", &["name=10.0.0.2", "ttl=5", "pointer=db.blue.example"])
    else {
        panic!("an answer")
    };
    assert_eq!(answer.name.unwrap().to_string(), "2.0.0.10.in-addr.arpa");
    let Ok(Ask::DnsAnswer(answer)) =
        read("dns_answer", &["domain.0=blue.example", "domain.1=10.in-addr.arpa"])
    else {
        panic!("an answer")
    };
    assert_eq!((answer.name, answer.ttl, answer.domains.len()), (None, 0, 2));
    let said = |setting: &str| refusal("dns_answer", &["name=a", "ttl=60", setting]);
    assert_eq!(refusal("dns_answer", &["address=10.0.0.2"]), "dns_answer needs the setting name");
    assert_eq!(refusal("dns_answer", &["name=a"]), "dns_answer needs the setting ttl");
    assert_eq!(refusal("dns_answer", &["name=a b"]), "name=a b: give a domain name or an address");
    assert_eq!(said("address=10.0.0"), "address=10.0.0: give an IP address");
    assert_eq!(said("cname=10.0.0.2"), "cname=10.0.0.2: give a domain name, as in db.blue.example");
    assert_eq!(said("name=b"), "name has several values, but can have one");
}

#[test]
fn text_that_is_no_setting_is_refused_with_the_remedy() {
    assert_eq!(
        refusal("smtp", &[]),
        r#"there are no answers of kind "smtp": use one of error, router_advertisement, dhcpv4, dhcpv6, dns_question, dns_answer, return, announce, ready, query, solicit, probe, probed, resolve"#
    );
    assert_eq!(refusal("error", &["question"]), r#""question" is no setting: write NAME=VALUE"#);
    assert_eq!(refusal("error", &[]), "error needs the setting question");
    assert_eq!(refusal("error", &["question=reg4", "colour=blue"]), "error has no setting colour");
    assert!(refusal("error", &["question=reg4[0..15]"]).contains("give a field of 32 bits"));
}
