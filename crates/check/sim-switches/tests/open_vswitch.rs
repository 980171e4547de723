//! The tools of Open vSwitch get the same answers from a simulated host as from real Open vSwitch.

use std::fmt::Write as _;
use std::process::Command;

use ovs_testing::OpenVswitch;

use crate::start;

/// The longest that a tool may take, in seconds.
const ANSWER_MAX_S: &str = "60";

/// The two connections of a host.
struct Host {
    database: String,
    switch: String,
}

impl Host {
    /// What a tool says, on both outputs, and whether it succeeds. The connections are in the words `DB` and `SWITCH`.
    fn says(&self, command: &str) -> (bool, String) {
        let words = words(command)
            .into_iter()
            .map(|word| word.replace("DB", &self.database).replace("SWITCH", &self.switch));
        // A tool that is not answered waits for ever.
        let output = Command::new("timeout").arg(ANSWER_MAX_S).args(words).output().unwrap();
        let text =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        (output.status.success(), told(&text))
    }
}

/// The words of a command; those in quotes may have blanks.
fn words(command: &str) -> Vec<String> {
    let parts = command.split('\'').enumerate();
    let words = parts.flat_map(|(number, part)| {
        if number % 2 == 1 {
            vec![part.to_owned()]
        } else {
            part.split_whitespace().map(str::to_owned).collect()
        }
    });
    words.collect()
}

/// An answer without what two runs of one switch differ in, transaction ids, times and the reason of a broken connection (which of the two
/// sides closed it first), and without the message that an error quotes, which a simulated switch does not keep.
fn told(text: &str) -> String {
    let mut told: Vec<String> = Vec::new();
    for line in text.lines() {
        let is_kept = |word: &&str| !word.starts_with("(xid=0x") && !word.starts_with("duration=");
        let line = line.split(' ').filter(is_kept).collect::<Vec<_>>().join(" ");
        let line = line.split(" for: ").next().unwrap_or_default().trim_end();
        let line = match line.split_once("failed to connect to socket (") {
            Some((before, _reason)) => format!("{before}failed to connect to socket"),
            None => line.to_owned(),
        };
        let is_error = line.contains("OFPT_ERROR") || line.starts_with("Error ");
        told.push(line);
        if is_error {
            break;
        }
    }
    // A switch reports the flows of a table in any order.
    told.sort();
    told.join("\n")
}

/// In this order, on a host with an empty bridge br-int.
const COMMANDS: &[&str] = &[
    "ovs-vsctl --db=DB list-br",
    "ovs-vsctl --db=DB list-ports br-int",
    "ovs-vsctl --db=DB add-port br-int p1 -- set interface p1 type=internal external_ids:iface-id=a ofport_request=7",
    "ovs-vsctl --db=DB add-port br-int p1",
    "ovs-vsctl --db=DB --may-exist add-port br-int p1",
    "ovs-vsctl --db=DB list-ports br-int",
    "ovs-vsctl --db=DB get interface p1 external_ids ofport",
    "ovs-vsctl --db=DB --columns=name,external_ids find interface external_ids:iface-id=a",
    "ovs-vsctl --db=DB port-to-br p1",
    "ovs-vsctl --db=DB set bridge br-int external_ids:owner=somebody",
    "ovs-vsctl --db=DB br-get-external-id br-int",
    "ovs-vsctl --db=DB remove bridge br-int external_ids owner",
    "ovs-vsctl --db=DB get bridge br-int external_ids",
    "ovs-vsctl --db=DB get bridge br-int nonsense",
    "ovsdb-client dump DB Open_vSwitch Interface name external_ids",
    "ovsdb-client transact DB '[\"Open_vSwitch\",{\"op\":\"select\",\"table\":\"Interface\",\"where\":[[\"name\",\"==\",\"p1\"]],\"columns\":[\"name\",\"ofport\"]}]'",
    "ovs-vsctl --db=DB del-port p1",
    "ovs-vsctl --db=DB del-port p1",
    "ovs-ofctl -O OpenFlow15 dump-flows --no-stats SWITCH",
    "ovs-ofctl -O OpenFlow15 add-flow SWITCH table=1,priority=5,ip,nw_dst=10.0.0.1,actions=drop",
    "ovs-ofctl -O OpenFlow15 add-flow SWITCH cookie=0x7,table=1,priority=6,tcp,tp_dst=80,actions=set_field:1->reg0,resubmit(,2)",
    "ovs-ofctl -O OpenFlow15 --bundle add-flow SWITCH table=2,priority=1,in_port=3,actions=output:4",
    "ovs-ofctl -O OpenFlow15 dump-flows --no-stats SWITCH",
    "ovs-ofctl -O OpenFlow15 dump-flows --no-stats SWITCH table=2",
    "ovs-ofctl -O OpenFlow15 add-group SWITCH group_id=1,type=all,bucket=bucket_id:1,actions=output:1,bucket=bucket_id:2,actions=output:2",
    "ovs-ofctl -O OpenFlow15 add-group SWITCH group_id=1,type=all",
    "ovs-ofctl -O OpenFlow15 insert-buckets SWITCH group_id=1,command_bucket_id=last,bucket=bucket_id:3,actions=output:3",
    "ovs-ofctl -O OpenFlow15 dump-groups SWITCH",
    "ovs-ofctl -O OpenFlow15 add-flow SWITCH table=3,actions=group:1",
    "ovs-ofctl -O OpenFlow15 --bundle add-flow SWITCH table=3,priority=9,actions=group:2",
    "ovs-ofctl -O OpenFlow15 add-meter SWITCH meter=1,pktps,band=type=drop,rate=100",
    "ovs-ofctl -O OpenFlow15 dump-meters SWITCH",
    "ovs-ofctl -O OpenFlow15 mod-flows SWITCH ip,actions=output:9",
    "ovs-ofctl -O OpenFlow15 --strict mod-flows SWITCH table=2,priority=1,in_port=3,actions=output:5",
    "ovs-ofctl -O OpenFlow15 dump-flows --no-stats SWITCH",
    "ovs-ofctl -O OpenFlow15 --strict del-flows SWITCH table=1,priority=4,ip,nw_dst=10.0.0.1",
    "ovs-ofctl -O OpenFlow15 --strict del-flows SWITCH table=1,priority=5,ip,nw_dst=10.0.0.1",
    "ovs-ofctl -O OpenFlow15 del-flows SWITCH cookie=0x7/-1",
    "ovs-ofctl -O OpenFlow15 del-groups SWITCH group_id=1",
    "ovs-ofctl -O OpenFlow15 dump-flows --no-stats SWITCH",
    "ovs-ofctl -O OpenFlow15 del-meters SWITCH",
    "ovs-ofctl -O OpenFlow15 del-flows SWITCH",
    "ovs-ofctl -O OpenFlow15 dump-flows --no-stats SWITCH",
    "ovs-ofctl -O OpenFlow13 dump-flows SWITCH",
];

#[test]
fn tools_get_the_answers_of_a_real_switch() {
    let (_runtime, fleet) = start(1);
    let (database, switch) = fleet.layout().endpoints(0).unwrap();
    let simulated = Host { database, switch };
    let real = OpenVswitch::start();
    real.vsctl(&[
        "add-br",
        "br-int",
        "--",
        "set",
        "bridge",
        "br-int",
        "datapath_type=dummy",
        "fail_mode=secure",
        "protocols=OpenFlow15",
    ]);
    let real = Host { database: real.database(), switch: real.bridge("br-int") };
    let answer = |host: &Host, command: &str| {
        let (done, text) = host.says(command);
        (done, text.replace(&host.database, "DB").replace(&host.switch, "SWITCH"))
    };
    let mut differences = String::new();
    for command in COMMANDS {
        let (is, should) = (answer(&simulated, command), answer(&real, command));
        if is != should {
            writeln!(differences, "{command}\n  simulated: {is:?}\n  real:      {should:?}").unwrap();
        }
    }
    assert!(differences.is_empty(), "{differences}");
}
