//! Entries of small programs.

use nlog::{Sources, compile};
use pipeline::Pipeline;

/// The tables of flows that the programs share.
const TABLES: &str = "
    input table managed(hv: string) key(hv);
    input table port(port: string, switch: string) key(port);
    input table label(port: string, label: int) key(port);
    input table address(port: string, ip: ip, mac: mac) key(port, ip);
    output table of_flow(hv: string, table_id: int, priority: int, match: match, actions: actions)
        key(hv, table_id, priority, match);
";

/// The pipeline of these tables and rules.
#[track_caller]
fn pipeline(rules: &str) -> Pipeline {
    let compilation = compile(&Sources::from_texts([("p.nlog", format!("{TABLES}{rules}"))]));
    let program = compilation.program.unwrap_or_else(|| panic!("{:?}", compilation.diagnostics));
    Pipeline::new(&program)
}

/// Its entries: stage, priority, match, and the actions of each outcome.
#[track_caller]
fn entries(rules: &str) -> Vec<String> {
    let pipeline = pipeline(rules);
    let mut found = Vec::new();
    for stage in &pipeline.stages {
        for priority in &stage.priorities {
            for entry in &priority.entries {
                let actions =
                    entry.outcomes.iter().map(|outcome| outcome.actions.as_str()).collect::<Vec<_>>();
                let (stage, priority) = (stage.number, priority.first);
                found.push(format!("{stage} {priority} {} -> {}", entry.matching, actions.join(" / ")));
            }
        }
    }
    found
}

#[test]
fn constants_fold_and_values_of_rows_stay() {
    let rules = "
        const STEP = 3;
        of_flow(hv, 2 + STEP, 10, match{reg0: label, arp, arp_op: 1}, actions[set(reg1, label), resubmit(STEP)]) :-
            managed(hv), label(_, label);
    ";
    assert_eq!(
        entries(rules),
        ["5 10 reg0=<label of port>, arp, arp_op=1 -> set(reg1, <label of port>), resubmit(3)"]
    );
}

#[test]
fn matches_come_from_the_rules_of_other_tables() {
    let rules = "
        table from_port(port: string, match: match) key(port);
        from_port(port, match{reg0: label}) :- label(port, label);
        of_flow(hv, 1, 1, from & match{ip_src: ip}, actions[]) :- managed(hv), from_port(port, from), address(port, ip, _);
    ";
    // Each IP version has a field of its own.
    assert_eq!(
        entries(rules),
        [
            "1 1 reg0=<label of port>, ip, ip_src=<ip> -> drop",
            "1 1 reg0=<label of port>, ipv6, ipv6_src=<ip> -> drop"
        ]
    );
    let rules = rules.replace("address(port, ip, _)", "address(port, ip, _), is_ipv4(ip)");
    assert_eq!(entries(&rules), ["1 1 reg0=<label of port>, ip, ip_src=<ip> -> drop"]);
}

#[test]
fn several_facts_are_one_of_several_values() {
    let rules = "
        table message(icmpv6_type: int);
        message(135);
        message(136);
        # weft: allow(cartesian-product): each message
        of_flow(hv, 1, 1, match{icmp6, icmpv6_type: type}, actions[]) :- managed(hv), message(type);
    ";
    assert_eq!(entries(rules), ["1 1 icmp6, icmpv6_type=135|136 -> drop"]);
}

#[test]
fn branches_on_one_condition_are_taken_together() {
    let rules = "
        input table tag(port: string, tag: int) key(port);
        function frames(tag: int) -> match = if tag == 0 then match{untagged} else match{dl_vlan: tag};
        function strip(tag: int) -> actions = if tag == 0 then actions[] else actions[pop_vlan];
        of_flow(hv, 0, 1, frames(tag), strip(tag) ++ actions[resubmit(1)]) :- managed(hv), tag(_, tag);
    ";
    assert_eq!(
        entries(rules),
        ["0 1 dl_vlan=<tag of port> -> pop_vlan, resubmit(1)", "0 1 untagged -> resubmit(1)"]
    );
}

/// Tables of which each adds bits to the matches of the one before, or does not.
fn tables_of_choices(count: usize) -> String {
    let mut rules = "
        table choice_0(port: string, match: match) key(port);
        choice_0(port, match{metadata: 1}) :- port(port, _);
    "
    .to_owned();
    for table in 1..=count {
        rules += &format!(
            "
            input table tag_{table}(port: string, tag: int) key(port);
            table choice_{table}(port: string, match: match) key(port);
            choice_{table}(port, match & (if tag == 0 then match{{}} else match{{reg{table}: 1}})) :-
                choice_{}(port, match), tag_{table}(port, tag);
            ",
            table - 1
        );
    }
    rules + &format!("of_flow(hv, 1, 1, match, actions[]) :- managed(hv), choice_{count}(_, match);")
}

#[test]
fn bits_that_only_some_matches_have_are_not_combined() {
    // One entry, and not one for each of the combinations, of which there are 1,024.
    let bits: Vec<String> = (1..=10).map(|register| format!("[reg{register}=1]")).collect();
    assert_eq!(entries(&tables_of_choices(10)), [format!("1 1 {}, metadata=1 -> drop", bits.join(", "))]);
    let pipeline = pipeline(&tables_of_choices(2));
    let covered = |matching: &str| {
        let (matching, actions) = (matching.parse().unwrap(), "drop".parse().unwrap());
        pipeline.entries_of(1, 1, &matching, &actions).len()
    };
    assert_eq!(covered("metadata=1"), 1);
    assert_eq!(covered("metadata=1,reg2=1"), 1);
    assert_eq!(covered("metadata=1,reg1=1,reg2=1"), 1);
    assert_eq!(covered("reg1=1"), 0, "what is not optional is missing");
    assert_eq!(covered("metadata=1,reg1=2"), 0, "another constant");
    assert_eq!(covered("metadata=1,reg1=1/1"), 0, "only part of the bits");
    assert_eq!(covered("metadata=1,reg3=1"), 0, "a field more");
}

#[test]
fn choices_about_the_same_bits_decide_each_other() {
    let rules = "
        input table tags(port: string, one: bool, two: bool) key(port);
        table ones(port: string, match: match) key(port);
        ones(port, if one then match{reg1: 1} else match{}) :- tags(port, one, _);
        table twos(port: string, match: match) key(port);
        twos(port, if two then match{reg1: 2} else match{}) :- tags(port, _, two);
        of_flow(hv, 1, 1, match{arp} & ones & twos, actions[]) :- managed(hv), ones(port, ones), twos(port, twos);
    ";
    // No packet has both.
    assert_eq!(entries(rules), ["1 1 [reg1=1|2], arp -> drop"]);
}

#[test]
fn protocols_that_are_one_of_several_are_words() {
    let rules = "
        input table old(port: string, old: bool) key(port);
        of_flow(hv, 1, 1, match{reg0: 1} & (if old then match{ip} else match{ipv6}), actions[]) :- managed(hv), old(_, old);
        of_flow(hv, 1, 2, match{reg0: 1} & (if old then match{ip} else match{}), actions[]) :- managed(hv), old(_, old);
    ";
    assert_eq!(entries(rules), ["1 2 reg0=1, [ip] -> drop", "1 1 reg0=1, ip|ipv6 -> drop"]);
}

/// What ports ask for, and more actions for some ports by a default.
const WORDS: &str = "
    type word = enum {drop, refuse, pass, allow};
    input table asks(port: string, rank: int, word: word) key(port, rank);
    table more(port: string, actions: actions) key(port);
    default more(port, actions[]) :- port(port, _);
    more(port, actions[clone(set(reg4, label), resubmit(9))]) :- label(port, label);
    function judged(word: word) -> actions =
        if word == \"pass\" then actions[resubmit(2)]
        else (if (word == \"drop\") | (word == \"refuse\") then actions[] else actions[resubmit(3)]);
    function strict(word: word) -> int =
        if word == \"drop\" then 3 else (if word == \"refuse\" then 2 else (if word == \"pass\" then 1 else 0));
    table judgement(port: string, rank: int, strict: int, actions: actions);
    judgement(port, rank, strict(word), judged(word) ++ more) :- asks(port, rank, word), more(port, more);
    of_flow(hv, 1, 10 + strict, match{reg0: label}, arg_min(rank, actions)) :-
        managed(hv), judgement(port, rank, strict, actions), label(port, label);
";

#[test]
fn actions_are_those_of_one_of_the_rows_with_their_case() {
    let pipeline = pipeline(WORDS);
    let found: Vec<String> = pipeline.stages[0]
        .priorities
        .iter()
        .flat_map(|priority| priority.entries.iter().map(move |entry| (priority.first, entry)))
        .flat_map(|(first, entry)| entry.outcomes.iter().map(move |outcome| (first, outcome)))
        .map(|(first, outcome)| format!("{first} {} {}", outcome.actions, outcome.case))
        .collect();
    // The strictness decides the actions, and no word is two words.
    let logs = "clone(set(reg4, <label of port>), resubmit(9))";
    assert_eq!(
        found,
        [
            "13 drop ".to_owned(),
            format!("13 {logs} "),
            "12 drop ".to_owned(),
            format!("12 {logs} "),
            "11 resubmit(2) ".to_owned(),
            format!("11 resubmit(2), {logs} "),
            "10 resubmit(3) ".to_owned(),
            format!("10 resubmit(3), {logs} "),
        ]
    );
}

#[test]
fn cases_about_one_value_read_as_one() {
    let rules =
        WORDS.replace("10 + strict, match", "10, match{reg1: strict} & match").replace("reg1: strict", "arp");
    let pipeline = pipeline(&rules);
    let outcomes = &pipeline.stages[0].priorities[0].entries[0].outcomes;
    let cases: Vec<(&str, &str)> = outcomes
        .iter()
        .filter(|outcome| !outcome.actions.contains("clone"))
        .map(|outcome| (outcome.actions.as_str(), outcome.case.as_str()))
        .collect();
    assert_eq!(
        cases,
        [
            ("drop", "If `word == drop|refuse`."),
            ("resubmit(2)", "If `word == pass`."),
            ("resubmit(3)", "If `word == allow`."),
        ]
    );
}

#[test]
fn what_no_row_can_be_is_left_out() {
    let rules = "
        table secured(port: string, secured: bool) key(port);
        default secured(port, false) :- port(port, _);
        secured(port, true) :- address(port, _, _);
        table here(port: string, secured: bool, actions: actions) key(port);
        here(port, true, actions[resubmit(7)]) :- secured(port, true);
        here(port, false, actions[resubmit(8)]) :- secured(port, false);
        of_flow(hv, 1, 1, match{reg0: label}, actions) :- managed(hv), here(port, false, actions), label(port, label);
    ";
    assert_eq!(entries(rules), ["1 1 reg0=<label of port> -> resubmit(8)"]);
}

#[test]
fn flows_without_a_host_are_placed_and_keep_their_rule_and_sentence() {
    let rules = "
        ## Each row: every host has this flow.
        table common_flow(table_id: int, priority: int, match: match, actions: actions) key(table_id, priority, match);
        ## Each row: `match` goes to `port`, wherever it is.
        table delivery(port: string, table_id: int, priority: int, match: match) key(port, table_id, priority, match);
        ## ARP goes on.
        common_flow(1, 9, match{arp}, actions[resubmit(2)]);
        ## Frames to the port's address.
        delivery(port, 1, 5, match{eth_dst: mac}) :- address(port, _, mac);
        table place(hv: string, port: string, actions: actions) key(hv, port);
        input table at(hv: string, port: string) key(hv, port);
        ## The port is here.
        place(hv, port, actions[set(reg1, label), resubmit(4)]) :- at(hv, port), label(port, label);
        ## The port is elsewhere.
        place(hv, port, actions[resubmit(5)]) :- managed(hv), at(other, port), hv != other;
        # weft: allow(cartesian-product): every host
        of_flow(hv, id, priority, match, actions) :- managed(hv), common_flow(id, priority, match, actions);
        of_flow(hv, id, priority, match{metadata: label} & match, actions) :-
            delivery(port, id, priority, match), place(hv, port, actions), label(port, label);
    ";
    let pipeline = pipeline(rules);
    let forms: Vec<(&str, &str)> =
        pipeline.forms.iter().map(|form| (form.table.as_str(), form.doc.as_str())).collect();
    assert_eq!(
        forms,
        [
            ("common_flow", "Each row: every host has this flow."),
            ("delivery", "Each row: `match` goes to `port`, wherever it is.")
        ]
    );
    let [common, delivery] = &pipeline.stages[0].priorities[..] else { panic!("{pipeline}") };
    let rule = &common.entries[0].rules[0];
    assert_eq!((rule.form.as_deref(), &*rule.doc), (Some("common_flow"), "ARP goes on."));
    let entry = &delivery.entries[0];
    assert_eq!(entry.matching, "metadata=<label of port>, eth_dst=<mac>");
    assert_eq!(entry.rules[0].doc, "Frames to the port's address.");
    let outcomes: Vec<(&str, &str)> =
        entry.outcomes.iter().map(|outcome| (outcome.actions.as_str(), outcome.case.as_str())).collect();
    assert_eq!(
        outcomes,
        [
            ("set(reg1, <label of port>), resubmit(4)", "The port is here."),
            ("resubmit(5)", "The port is elsewhere.")
        ]
    );
}

#[test]
fn rules_with_the_same_match_and_actions_are_one_entry() {
    let rules = "
        input table localnet(port: string, tag: int) key(port);
        function tagged(tag: int) -> actions = if tag == 0 then actions[] else actions[push_vlan(0x8100)];
        of_flow(hv, 1, 1, match{reg0: label}, actions[resubmit(2)]) :- managed(hv), label(_, label);
        of_flow(hv, 1, 1, match{reg0: number}, tagged(tag) ++ actions[resubmit(2)]) :-
            managed(hv), localnet(port, tag), label(port, number);
        of_flow(hv, 1, 1, match{reg0: number}, actions[resubmit(3)]) :- managed(hv), port(port, _), label(port, number);
    ";
    // Actions that no other rule gives this match leave an entry of its own.
    assert_eq!(
        entries(rules),
        [
            "1 1 reg0=<label of port> -> resubmit(2) / push_vlan(0x8100), resubmit(2)",
            "1 1 reg0=<number of port> -> resubmit(3)"
        ]
    );
    assert_eq!(pipeline(rules).stages[0].priorities[0].entries[0].rules.len(), 2);
}

#[test]
fn named_fields_stages_and_priorities_are_used() {
    let rules = "
        ## The sender.
        field inport = reg0;
        ## A reply of the pipeline.
        field own_answer = reg2[5];
        ## Where it is sent.
        field address = xxreg2;
        ## The first stage.
        stage FIRST = 0;
        ## The second stage.
        stage SECOND = 4;
        ## All frames.
        priority ALL of FIRST = 7;
        of_flow(hv, FIRST, ALL, match{inport: label, own_answer: 1, address: ip}, actions[set(own_answer, 0), resubmit(SECOND)]) :-
            managed(hv), label(port, label), address(port, ip, _), is_ipv6(ip);
    ";
    assert_eq!(
        entries(rules),
        ["0 7 inport=<label of port>, own_answer=1, address=<ip> -> set(own_answer, 0), resubmit(SECOND)"]
    );
    let pipeline = pipeline(rules);
    assert_eq!(pipeline.stages[0].name.as_deref(), Some("FIRST"));
    assert_eq!(pipeline.stages[0].priorities[0].doc, "All frames.");
    assert_eq!(
        (pipeline.stages[1].number, pipeline.stages[1].priorities.len()),
        (4, 0),
        "also a stage without flows"
    );
    let fields: Vec<&str> = pipeline.fields.iter().map(|field| field.bits.as_str()).collect();
    assert_eq!(fields, ["xxreg2", "reg0", "reg2[5]"]);
}

#[test]
fn a_flow_falls_under_the_entries_of_its_shape_alone() {
    let pipeline = pipeline(
        "
        of_flow(hv, 1, 1, match{reg0: label, arp}, actions[set(reg1, label), resubmit(3)]) :- managed(hv), label(_, label);
        ",
    );
    let covered = |table, priority, matching: &str, actions: &str| {
        let (matching, actions) = (matching.parse().unwrap(), actions.parse().unwrap());
        pipeline.entries_of(table, priority, &matching, &actions).len()
    };
    let actions = "set_field:0x5->reg1,resubmit(,3)";
    assert_eq!(covered(1, 1, "reg0=5,arp", actions), 1);
    assert_eq!(covered(2, 1, "reg0=5,arp", actions), 0);
    assert_eq!(covered(1, 2, "reg0=5,arp", actions), 0);
    assert_eq!(covered(1, 1, "reg0=5,ip", actions), 0, "another constant");
    assert_eq!(covered(1, 1, "reg0=5", actions), 0, "a field less");
    assert_eq!(covered(1, 1, "reg0=5/0xff,arp", actions), 0, "other bits");
    assert_eq!(covered(1, 1, "reg0=5,arp,arp_op=1", actions), 0, "a field more");
    assert_eq!(covered(1, 1, "reg0=5,arp", "resubmit(,3)"), 0);
    assert_eq!(covered(1, 1, "reg0=5,arp", "set_field:0x5->reg2,resubmit(,3)"), 0);
    assert_eq!(covered(1, 1, "reg0=5,arp", "set_field:0x5->reg1,resubmit(,4)"), 0);
}

#[test]
fn a_special_case_with_an_entry_of_its_own_is_no_general_one() {
    let pipeline = pipeline(
        "
        of_flow(hv, 1, 1, match{arp, arp_spa: ip}, actions[resubmit(3)]) :- managed(hv), address(_, ip, _), is_ipv4(ip);
        of_flow(hv, 1, 1, match{arp, arp_spa: \"0.0.0.0\"}, actions[resubmit(3)]) :- managed(hv);
        ",
    );
    let of = |address: &str| {
        let (matching, actions) =
            (format!("arp,arp_spa={address}").parse().unwrap(), "resubmit(,3)".parse().unwrap());
        let entries = pipeline.entries_of(1, 1, &matching, &actions);
        entries.iter().map(|entry| entry.matching.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(of("10.0.0.1"), ["arp, arp_spa=<ip>"]);
    assert_eq!(of("0.0.0.0"), ["arp, arp_spa=0.0.0.0"]);
}

#[test]
fn buckets_of_groups_are_shown() {
    let pipeline = pipeline(
        "
        const LOCAL_GROUP = 0x1000000;
        output table of_bucket(hv: string, group: int, bucket: int, actions: actions) key(hv, group, bucket);
        # weft: allow(key-clash): labels are unique
        of_bucket(hv, LOCAL_GROUP + label, 0, actions[group(label)]) :- managed(hv), label(_, label);
        of_flow(hv, 1, 1, match{}, actions[]) :- managed(hv);
        ",
    );
    let group = &pipeline.groups[0];
    assert_eq!((&*group.group, &*group.bucket), ("<LOCAL_GROUP + label of port>", "0"));
    assert_eq!(group.outcomes[0].actions, "group(<label of port>)");
}
