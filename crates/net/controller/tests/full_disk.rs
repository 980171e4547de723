//! A controller whose journal finds no room on the disk.

use std::process::Command;

use weft_client::{ClientError, pb};

use crate::support::running::{apply, start, status_when};
use crate::support::*;

/// Set only for the helper process.
const HELPER: &str = "WEFT_TEST_FULL_DISK";

/// A limit on the size of files stands in for the full disk. It applies to a whole process, so the test starts one. The
/// shell that begins it ignores the signal that would otherwise kill it at the limit.
#[test]
fn a_report_that_a_full_disk_did_not_take_is_tried_again() {
    let path = concat!(module_path!(), "::with_a_limit_on_the_size_of_files");
    // The first part is the binary's own name, which the test harness leaves out.
    let (_, path) = path.split_once("::").expect("a path within the test binary");
    let script = format!("trap '' XFSZ; exec \"$0\" --exact {path} --ignored --nocapture");
    let this = std::env::current_exe().expect("a test has a file");
    let mut command = Command::new("sh");
    let output = command.args(["-c", &script]).arg(this).env(HELPER, "1").output().expect("there is a shell");
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{text}{errors}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a helper process, started by a_report_that_a_full_disk_did_not_take_is_tried_again"]
async fn with_a_limit_on_the_size_of_files() {
    std::env::var(HELPER).expect("started by a test, whose shell ignores SIGXFSZ");
    let limit = |bytes: &str| {
        let (pid, limit) = (std::process::id().to_string(), format!("--fsize={bytes}:"));
        let set = Command::new("prlimit").args(["--pid", &pid, &limit]).status().unwrap();
        assert!(set.success(), "prlimit {limit}");
    };
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut client = running.client().await;
    apply(&mut client, NETWORK).await.unwrap();
    let journal = folder.path().join("state/journal.jsonl");
    let before = std::fs::read(&journal).unwrap();

    limit(&(before.len() + 20).to_string());
    running.switches.connect("hv1", report(&[("blue-1", 5)], &[])).await;
    let kept_out = |status: &pb::StatusResponse| status.switches[0].last_error.contains("journal: ");
    let status = status_when(&mut client, kept_out).await;
    assert_eq!((status.last_txn, status.switches[0].vifs), (1, 0));
    let ClientError::Refused(refusal) = apply(&mut client, "{kind: switch, id: green}").await.unwrap_err()
    else {
        panic!("not refused")
    };
    assert_eq!(refusal.code, "journal");
    assert_eq!(std::fs::read(&journal).unwrap(), before);
    let ready = running.web().await.ask("GET", "/readyz", &[], "").await;
    assert_eq!(ready.status.as_u16(), 503);
    assert!(
        ready.text.starts_with("the disk refuses the journal, so changes are refused;"),
        "{}",
        ready.text
    );
    assert!(running.switches.look("hv1", |switch| switch.pushed.is_empty()), "nothing reached a switch");

    // Nobody asks for anything: the report is tried again of itself.
    limit("unlimited");
    let there = |status: &pb::StatusResponse| status.switches[0].vifs == 1 && !kept_out(status);
    assert_eq!(status_when(&mut client, there).await.last_txn, 2);
    assert_eq!(running.switches.look("hv1", |switch| switch.pushed.clone()), [2]);
    let ready = running.web().await.ask("GET", "/readyz", &[], "").await;
    assert_eq!((ready.status.as_u16(), ready.text.as_str()), (200, "ok\n"));
    running.stop().await;
}
