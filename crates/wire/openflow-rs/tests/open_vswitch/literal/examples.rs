//! The table of actions keeps what it promises.

use openflow_rs::Actions;
use openflow_rs::literal::{self, Accepts, ActionInfo, Context};

use super::read;
use ovs_testing::run;

/// The actions as `ovs-ofctl` prints them in a flow whose match suits them; `None` if it accepts them in no
/// flow.
pub(crate) fn printed_by_ofctl(actions: &str) -> Option<String> {
    ["", "ip,", "tcp,", "arp,", "dl_vlan=5,", "ct_state=+est+trk,ip,", "ipv6,"].iter().find_map(|packets| {
        let flow = format!("{packets}actions={actions}");
        let output = run("ovs-ofctl", &["-O", "OpenFlow15", "--no-names", "parse-flow", &flow]);
        let printed = String::from_utf8(output.stdout).expect("UTF-8");
        let line = printed.lines().find(|line| line.starts_with("OFPT_FLOW_MOD"))?;
        line.split_once("actions=").map(|(_, actions)| actions.to_owned())
    })
}

#[test]
fn every_example_is_built_as_open_vswitch_prints_it() {
    for info in ActionInfo::all() {
        assert!(!info.examples.is_empty(), "{} has no example", info.name);
        for (text, printed) in info.examples {
            let terms = read::actions(text);
            let template = literal::actions(&terms).unwrap_or_else(|errors| panic!("{text}: {errors:?}"));
            assert!(template.is_constant());
            let built = template.fill(&[]).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(built.to_string(), *printed, "{text}");
            assert_eq!(printed.parse::<Actions>().as_ref(), Ok(&built), "{printed}");
            assert_eq!(printed_by_ofctl(printed).as_deref(), Some(*printed), "{text}");
        }
    }
}

#[test]
fn values_that_come_later_make_the_same_actions() {
    for info in ActionInfo::all() {
        for (text, printed) in info.examples {
            let mut values = Vec::new();
            let terms: Vec<_> =
                read::actions(text).iter().map(|term| read::hollow_action(term, &mut values)).collect();
            // The match of a learned flow decides which other fields it can name.
            if text.contains("eth_type") {
                continue;
            }
            let template = literal::actions(&terms).unwrap_or_else(|errors| panic!("{text}: {errors:?}"));
            assert_eq!(template.is_constant(), values.is_empty());
            assert_eq!(template.fill(&values).unwrap().to_string(), *printed, "{text}");
            // A hole without a value is an error, not a panic.
            assert_eq!(template.fill(&[]).is_ok(), values.is_empty(), "{text}");
        }
    }
}

#[test]
fn every_parameter_is_used_by_an_example_and_described() {
    for info in ActionInfo::all() {
        assert!(info.doc.ends_with('.'), "{}", info.name);
        for parameter in info.parameters {
            assert!(parameter.doc.ends_with('.'), "{} of {}", parameter.name, info.name);
            let given = info.examples.iter().any(|(text, _)| match parameter.accepts {
                Accepts::Flag => text.contains(parameter.name),
                _ if !parameter.positional => text.contains(&format!("{}:", parameter.name)),
                _ => true,
            });
            assert!(given, "{} of {}", parameter.name, info.name);
        }
    }
}

#[test]
fn names_are_unique_in_each_place() {
    for context in
        [Context::Flow, Context::Clone, Context::ActionSet, Context::Ct, Context::Exec, Context::Learn]
    {
        let mut names: Vec<_> =
            ActionInfo::all().filter(|info| info.contexts.contains(&context)).map(|info| info.name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "{context:?}");
        assert!(all > 0);
    }
}

/// Open vSwitch accepts every action that the table allows within `clone` and `write_actions`.
#[test]
fn nested_actions_are_those_that_open_vswitch_takes() {
    for (context, outer) in [(Context::Clone, "clone"), (Context::ActionSet, "write_actions")] {
        for info in ActionInfo::all().filter(|info| info.contexts.contains(&Context::Flow)) {
            let allowed = info.contexts.contains(&context);
            for (text, _) in info.examples {
                let text = format!("{outer}({text})");
                let built = literal::actions(&read::actions(&text));
                assert_eq!(built.is_ok(), allowed, "{text}");
                if let Ok(template) = built {
                    let printed = template.fill(&[]).unwrap().to_string();
                    assert_eq!(printed_by_ofctl(&printed), Some(printed));
                }
            }
        }
    }
}
