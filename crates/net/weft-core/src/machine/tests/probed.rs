//! What probes have found, from reports to rules.

use switch_model::ProbeFound;

use super::*;

#[test]
fn results_of_probes_are_kept_while_nobody_reports_and_say_since_when() {
    let mut world = World::new(Patience::default());
    let found = |up, cause: &str| ProbeFound { up, cause: cause.to_owned() };
    let report = |results: &[(&str, ProbeFound)]| {
        let probes = results.iter().map(|(probe, found)| ((*probe).to_owned(), found.clone())).collect();
        SwitchEvent::Report(Report { probes, ..Report::default() })
    };
    // Each result as the rules see it.
    let results = |world: &mut World| -> Vec<String> {
        let told = |now: &Ongoing| format!("{} {}", now.problem.code, now.problem.text);
        world.status().problems.iter().map(told).collect()
    };
    world.event("hv1", report(&[("web", found(false, "refused")), ("db", found(true, ""))]));
    let first = results(&mut world);
    assert_eq!(first.len(), 2, "{first:?}");
    assert!(first[0].starts_with("db true  ") && first[1].starts_with("web false refused "), "{first:?}");
    world.event("hv1", report(&[("web", found(false, "timeout")), ("db", found(true, ""))]));
    let second = results(&mut world);
    assert_eq!(second[1], first[1].replace("refused", "timeout"), "it is down since the same time");
    world.start();
    assert_eq!(results(&mut world), second, "the journal has them");
    world.event("hv1", report(&[("web", found(true, "")), ("db", found(true, ""))]));
    let third = results(&mut world);
    assert_eq!(third[0], second[0]);
    let since = |text: &str| text.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
    assert!(third[1].starts_with("web true  ") && since(&third[1]) > since(&second[1]), "{third:?}");
    world.event("hv1", report(&[]));
    assert_eq!(results(&mut world), [""; 0]);
}
