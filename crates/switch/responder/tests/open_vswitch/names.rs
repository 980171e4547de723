//! DNS whose database is the flow table.

use std::net::{SocketAddr, UdpSocket};

use packet_answers::name_key;

use super::*;

/// Asks a router for an address of a name from machine `a`, over its kernel. The code of the answer and its last bytes.
fn looked_up(routed: &Routed, name: &str, router: &str) -> (u8, Vec<u8>) {
    let router: SocketAddr = router.parse().unwrap();
    let mut query = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        query.push(label.len() as u8);
        query.extend_from_slice(label.as_bytes());
    }
    query.extend_from_slice(&[0, 0, 1, 0, 1]);
    let asked = routed.lab.inside("a", || {
        let socket = UdpSocket::bind(if router.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
        socket.connect(router)?;
        socket.set_read_timeout(Some(DEADLINE))?;
        socket.send(&query)?;
        let mut answer = vec![0; 2000];
        let length = socket.recv(&mut answer)?;
        answer.truncate(length);
        Ok::<_, std::io::Error>(answer)
    });
    let answer = asked.unwrap().unwrap_or_else(|error| panic!("{name}: {error}; {}", routed.counts));
    assert_eq!(answer[..2], query[..2], "the answer to the query");
    assert_eq!(answer[12..query.len()], query[12..], "with its case");
    (answer[3], answer[query.len()..].to_vec())
}

#[test]
fn machines_look_up_names_that_flows_have() {
    let respond = |kind: &str, settings: &[&str], into: &str| {
        let into: Actions = into.parse().unwrap();
        Instruction::from_settings(kind, settings.iter().copied(), into).unwrap().action(0).to_string()
    };
    let question = respond("dns_question", &["key=xreg4", "keep=metadata"], "resubmit(,50)");
    let back = "set_field:0->in_port,output:1";
    let db = respond("dns_answer", &["name=db.blue.example", "ttl=60", "address=10.0.2.1"], back);
    let nobody = respond("dns_answer", &["domain=blue.example"], back);
    let key = name_key("db.blue.example");
    let flows = format!(
        "table=0,priority=40000,udp,tp_dst=53 actions={question}
table=0,priority=40000,udp6,tp_dst=53 actions={question}
table=50,priority=100,xreg4={key:#x} actions={db}
table=50,priority=0 actions={nobody}
"
    );
    let mut routed = Routed::start("respnames");
    routed.answer();
    routed.host().add_flows("br-int", &flows).unwrap();
    for router in ["10.0.1.254:53", "[fd01::fe]:53"] {
        let (code, records) = looked_up(&routed, "DB.blue.example", router);
        assert_eq!((code, &records[10..]), (0, &[0, 4, 10, 0, 2, 1][..]), "{records:02x?}");
        assert_eq!(looked_up(&routed, "x.blue.example", router), (3, vec![]), "no such name");
        assert_eq!(looked_up(&routed, "example", router), (5, vec![]), "refused");
    }
    // More than the ten a second that a receiver gets of errors.
    for _ in 0..50 {
        looked_up(&routed, "db.blue.example", "10.0.1.254:53");
    }
    assert_eq!((routed.count("dns_looked_up"), routed.count("dns"), routed.count("limited")), (56, 56, 0));
}
