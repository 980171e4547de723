//! What a switch has beside what it should have.

use faults::flows::compare;
use weft_client::{Flows, pb};

const DUMP: &str = "\
NXST_FLOW reply (xid=0x4):
 cookie=0x1f, table=3, priority=100,ip,reg1=0x2,nw_dst=10.0.0.0/24 actions=set_field:0x5->reg0,resubmit(,4)
 cookie=0x0, send_flow_rem priority=7,in_port=1 actions=group:9
 table=60, actions=drop
";
const GROUPS: &str = "\
NXST_GROUP_DESC reply (xid=0x2):
 group_id=9,type=all,bucket=bucket_id:1,actions=output:3,bucket=bucket_id:2,actions=output:4
";

fn flow(table_id: u32, priority: u32, matches: &str, cookie: u64, actions: &str) -> pb::Flow {
    pb::Flow {
        table_id,
        priority,
        r#match: matches.to_owned(),
        actions: actions.to_owned(),
        cookie,
        ..Default::default()
    }
}

fn wanted() -> Flows {
    let bucket = |bucket| pb::Bucket { group: 9, bucket, ..Default::default() };
    Flows {
        flows: vec![
            flow(3, 100, "ip,reg1=0x2,nw_dst=10.0.0.0/24", 0x1f, "set_field:0x5->reg0,resubmit(,4)"),
            flow(0, 7, "in_port=1", 0, "group:9"),
            flow(60, 32768, "", 0, "drop"),
        ],
        buckets: vec![bucket(1), bucket(2)],
        ..Default::default()
    }
}

#[test]
fn equal_flows_and_groups_are_equal() {
    let comparison = compare(DUMP, GROUPS, &wanted()).unwrap();
    assert_eq!(comparison.different, Vec::<String>::new());
    assert_eq!(comparison.compared, 4);
}

#[test]
fn each_difference_is_noticed() {
    type Change = fn(&mut Flows);
    let changes: [(&str, Change); 6] = [
        ("is missing", |wanted| wanted.flows.push(flow(1, 1, "tcp", 0, "drop"))),
        ("nobody wants it", |wanted| drop(wanted.flows.pop())),
        ("should be", |wanted| wanted.flows[1].actions = "group:8".to_owned()),
        ("should be", |wanted| wanted.flows[0].cookie = 7),
        ("the groups", |wanted| wanted.buckets.clear()),
        ("the groups", |wanted| wanted.buckets[1].group = 8),
    ];
    for (text, change) in changes {
        let mut wanted = wanted();
        change(&mut wanted);
        let different = compare(DUMP, GROUPS, &wanted).unwrap().different;
        assert!(different.len() == 1 && different[0].contains(text), "{different:?}");
    }
    assert!(compare("cookie=0xzz, table=3 actions=drop", GROUPS, &wanted()).is_err());
}
