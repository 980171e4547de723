//! What many hosts in one process are.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use sim_switches::faults::{Faults, Kind};

use crate::start;

/// Hello of OpenFlow 1.5, and a request for features.
const HELLO: [u8; 16] = [6, 0, 0, 8, 0, 0, 0, 1, 6, 5, 0, 8, 0, 0, 0, 2];
/// `OFPT_FEATURES_REPLY`, and where it has the datapath id.
const FEATURES_REPLY: u8 = 6;
const DATAPATH_ID_AT: usize = 8;

/// The datapath id that the switch at an endpoint says.
fn datapath_id(endpoint: &str) -> u64 {
    let mut stream = TcpStream::connect(endpoint.strip_prefix("tcp:").unwrap()).unwrap();
    stream.write_all(&HELLO).unwrap();
    loop {
        let mut header = [0; 8];
        stream.read_exact(&mut header).unwrap();
        let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let mut body = vec![0; length - header.len()];
        stream.read_exact(&mut body).unwrap();
        if header[1] == FEATURES_REPLY {
            let id = &body[DATAPATH_ID_AT - header.len()..][..8];
            return u64::from_be_bytes(id.try_into().unwrap());
        }
    }
}

#[test]
fn the_address_that_is_dialled_says_which_host_it_is() {
    let (_runtime, fleet) = start(300);
    let mut ids = BTreeSet::new();
    for (number, host) in fleet.hosts().iter().enumerate() {
        let (_, openflow) = fleet.layout().endpoints(number).unwrap();
        let id = datapath_id(&openflow);
        let bridges = host.database().bridges();
        assert_eq!(bridges["br-int"].datapath_id.as_deref(), Some(format!("{id:016x}").as_str()), "{number}");
        ids.insert(id);
    }
    assert_eq!(ids.len(), 300);
}

#[test]
fn an_address_without_a_host_is_closed() {
    let (_runtime, fleet) = start(2);
    let beyond = fleet.layout().address(2).unwrap();
    let mut stream = TcpStream::connect((beyond, fleet.layout().openflow_port)).unwrap();
    // Closed, in order or by a reset.
    assert!(matches!(stream.read(&mut [0; 8]), Ok(0) | Err(_)));
}

#[test]
fn more_hosts_than_addresses_or_files_are_refused_with_a_remedy() {
    let (_runtime, _) = start(1);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _in_it = runtime.enter();
    let layout = |hosts, first: [u8; 4]| sim_switches::Layout {
        hosts,
        first: first.into(),
        ovsdb_port: 0,
        openflow_port: 0,
        ..sim_switches::Layout::default()
    };
    let refused = |layout| sim_switches::Fleet::start(&layout).unwrap_err().to_string();
    let error = refused(layout(2, [127, 255, 255, 255]));
    assert_eq!(error, "2 hosts from 127.255.255.255 are not all in 127.0.0.0/8");
    let error = refused(layout(1 << 40, [127, 64, 0, 1]));
    assert!(error.contains("open files") && error.contains("ulimit"), "{error}");
}

#[test]
fn ports_are_plugged_in_and_out_and_have_numbers() {
    let (runtime, fleet) = start(1);
    let _in_it = runtime.enter();
    let host = fleet.host(0).unwrap();
    let mac = Some("02:00:00:00:00:01".to_owned());
    host.plug(&BTreeMap::from([("a".to_owned(), mac), ("b".to_owned(), None)])).unwrap();
    let numbers = || -> BTreeSet<Option<i64>> {
        let of = |name: &str| host.database().interfaces()[name].ofport;
        ["tap-a", "tap-b"].map(of).into()
    };
    let before = numbers();
    assert!(before.len() == 2 && !before.contains(&None), "{before:?}");
    host.database().renumber();
    assert!(numbers().is_disjoint(&before) && !numbers().contains(&None), "{:?}", numbers());
    assert!(host.unplug("a").unwrap());
    assert!(!host.unplug("a").unwrap());
}

#[test]
fn a_seed_has_the_same_faults_and_all_kinds_come() {
    let (runtime, fleet) = start(10);
    let _in_it = runtime.enter();
    let runs = [7, 7, 8].map(|seed| {
        let mut faults = Faults::new(seed);
        let happened: Vec<_> = (0..400).map(|_| faults.next(fleet.hosts()).unwrap()).collect();
        faults.finish(fleet.hosts());
        assert_eq!(faults.counted().len(), Kind::ALL.len());
        happened
    });
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[1], runs[2]);
}
