//! A start with rules that refuse the journal's state.

use weft_core::core::Core;

use crate::support::*;

#[test]
fn rules_that_refuse_the_journal_s_state_say_every_row_and_the_remedy() {
    let free = rules(&RULES.replace(
        "reserved_tenant(sw) :- logical_switch(sw, \"reserved\");",
        "reserved_tenant(\"-\") :- logical_switch(_, \"-\");",
    ));
    let (mut core, _) = core(&free, &[]);
    let mut text = String::new();
    for number in 0..103 {
        text += &format!("{{kind: switch, id: s{number:03}, tenant: reserved}}\n---\n");
    }
    let records = [apply(&mut core, &text).journalled()];
    let refused = |text: &str| {
        let rules = rules(text);
        let restored = Core::restore(reference(&rules), rules.clone(), history(&rules, &records), now());
        match restored {
            Ok(_) => panic!("the state is accepted"),
            Err(error) => error.to_string().lines().map(str::to_owned).collect::<Vec<_>>(),
        }
    };
    let remedy = "start with the rules that wrote it, or repair them:";

    let lines = refused(RULES);
    let head = "the rules refuse the journal's state: forbidden: Nobody is tenant `reserved`: \
                reserved_tenant(sw: \"s000\") and 102 more rows; ";
    assert_eq!(lines[0], format!("{head}{remedy}"));
    assert_eq!(
        (lines.len(), &*lines[1], &*lines[100]),
        (102, "reserved_tenant(\"s000\")", "reserved_tenant(\"s099\")")
    );
    assert_eq!(lines[101], "3 more rows are not listed");

    let refuse = "forbid table refuse(kind: string, id: string, path: string, text: string);\n\
                  refuse(\"switch\", sw, \"tenant\", \"is reserved; name another\") :- logical_switch(sw, \"reserved\");";
    let lines = refused(&RULES.replace(
        "reserved_tenant(sw) :- logical_switch(sw, \"reserved\");",
        &format!("reserved_tenant(\"-\") :- logical_switch(_, \"-\");\n{refuse}"),
    ));
    assert_eq!(lines[0], format!("the rules refuse the journal's state: they refuse objects; {remedy}"));
    assert_eq!((lines.len(), &*lines[1]), (102, "switch s000: tenant: is reserved; name another"));
    assert_eq!(lines[101], "3 more refusals are not listed; correct those above first");
}
