//! Names for several controllers: `weft context`, `--context` and the file of contexts.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::routes::Controller;
use crate::support::{Folder, Outcome};

/// The file of contexts that [`Folder`] gives to its commands.
const FILE: &str = "contexts.toml";

/// Controllers `lab` and `prod`, each with a switch of its name, and a file with their contexts.
fn controllers() -> (Folder, [Controller; 2]) {
    let both = ["lab", "prod"].map(|name| {
        let controller = Controller::start();
        controller.folder.write("net.yaml", format!("{{kind: switch, id: of-{name}}}"));
        let file = controller.folder.path("net.yaml");
        controller.weft(&["apply", "-f", file.to_str().unwrap()]).has_status(0);
        controller
    });
    let folder = Folder::new();
    let [lab, prod] = [0, 1].map(|at: usize| both[at].address());
    let text = format!(
        "# Networks of the institute.\ncurrent = \"lab\" # for now\n\n[contexts.prod]\naddress = \"{prod}\"\n\n\
         [contexts.lab]\naddress = \"{lab}\"\n"
    );
    folder.write(FILE, text);
    (folder, both)
}

/// Runs a command with these variables.
fn with(folder: &Folder, variables: &[(&str, &str)], arguments: &[&str]) -> Outcome {
    let mut command = folder.command(arguments);
    command.envs(variables.iter().copied());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    crate::support::finish(command.spawn().unwrap())
}

/// Variables, options, and the controller that is asked.
type Case<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str], &'a str);

#[test]
fn a_command_asks_the_controller_that_is_named_nearest() {
    let (folder, [lab, prod]) = controllers();
    let (lab, prod) = (lab.address(), prod.address());
    let get = ["get", "switch", "-o", "name"];
    // Each line is overruled by those before it.
    let cases: [Case; 7] = [
        (&[("WEFT_CONTROLLER", &lab)], &["--controller", &prod], "prod"),
        (&[("WEFT_CONTROLLER", &prod), ("WEFT_CONTEXT", "lab")], &[], "prod"),
        (&[("WEFT_CONTROLLER", &prod)], &["--context", "lab"], "prod"),
        (&[("WEFT_CONTEXT", "lab")], &["--context", "prod"], "prod"),
        (&[("WEFT_CONTEXT", "prod")], &[], "prod"),
        (&[("WEFT_CONTEXT", "")], &[], "lab"),
        (&[], &[], "lab"),
    ];
    for (variables, options, wanted) in cases {
        let outcome = with(&folder, variables, &[&get, options].concat());
        assert_eq!(
            outcome.has_status(0).stdout,
            format!("switch/of-{wanted}\n"),
            "{variables:?} {options:?}"
        );
        let has_no_effect = outcome.stderr.contains("warning: --context lab has no effect: WEFT_CONTROLLER");
        assert_eq!(has_no_effect, options.contains(&"lab"), "{}", outcome.stderr);
    }
    // The name may come before the command as well, and the nearer one counts.
    for (words, wanted) in [
        (&["--context", "prod", "get", "switch", "-o", "name"][..], "prod"),
        (&["--context=prod", "get", "switch", "--context", "lab", "-o", "name"], "lab"),
        (&["--context", "prod", "context", "show"], "prod"),
    ] {
        let outcome = with(&folder, &[("WEFT_CONTEXT", "lab")], words);
        assert!(outcome.has_status(0).stdout.contains(wanted), "{words:?}: {}", outcome.stdout);
    }
    let refused = folder.weft(&["--context", "prod", "check", "builtin"]);
    assert!(refused.has_status(2).stderr.contains("this one asks none"), "{}", refused.stderr);
}

#[test]
fn contexts_are_listed_chosen_and_shown() {
    let (folder, [lab, prod]) = controllers();
    let (lab, prod) = (lab.address(), prod.address());
    let list = folder.weft(&["context", "list"]);
    assert_eq!(list.has_status(0).stdout, format!("* lab   {lab}\n  prod  {prod}\n"));
    let shown = folder.weft(&["context", "show"]);
    let file = folder.path(FILE);
    assert_eq!(shown.has_status(0).stdout, format!("lab: {lab} (current in {})\n", file.display()));

    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let before = fs::read_to_string(&file).unwrap();
    let chosen = folder.weft(&["context", "use", "prod"]);
    assert_eq!(chosen.has_status(0).stderr, format!("commands now ask prod, at {prod}\n"));
    let wanted = before.replace("current = \"lab\"", "current = \"prod\"");
    assert_eq!(fs::read_to_string(&file).unwrap(), wanted, "all else stays");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(folder.weft(&["get", "switch", "-o", "name"]).has_status(0).stdout, "switch/of-prod\n");

    let chosen = with(&folder, &[("WEFT_CONTEXT", "prod")], &["context", "use", "lab"]);
    let told = format!("warning: but WEFT_CONTEXT is set, so they ask {prod}\n");
    assert!(chosen.has_status(0).stderr.ends_with(&told), "{}", chosen.stderr);
    let json = folder.weft(&["context", "list", "--json"]);
    let lines: Vec<serde_json::Value> =
        json.lines().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0], serde_json::json!({"name": "lab", "address": lab, "current": true}));
    let json = folder.weft(&["context", "show", "--json", "--controller", &prod]);
    let json: serde_json::Value = serde_json::from_str(&json.has_status(0).stdout).unwrap();
    assert_eq!(json, serde_json::json!({"context": null, "address": prod, "by": "--controller"}));
}

#[test]
fn the_file_is_where_other_programs_have_theirs() {
    let folder = Folder::new();
    folder.write("home/.config/weft/config.toml", "[contexts.a]\naddress = \"10.0.0.7:6657\"\n");
    folder.write("xdg/weft/config.toml", "[contexts.b]\naddress = \"10.0.0.8:6657\"\n");
    let [home, xdg] = ["home", "xdg"].map(|name| folder.path(name).display().to_string());
    let list = |variables: &[(&str, &str)]| {
        let outcome = with(
            &folder,
            &[&[("WEFT_CONFIG", ""), ("HOME", &home)], variables].concat(),
            &["context", "list"],
        );
        outcome.has_status(0).stdout.clone()
    };
    assert_eq!(list(&[("XDG_CONFIG_HOME", "")]), "  a  10.0.0.7:6657\n");
    assert_eq!(
        list(&[("XDG_CONFIG_HOME", "xdg")]),
        "  a  10.0.0.7:6657\n",
        "a relative folder does not count"
    );
    assert_eq!(list(&[("XDG_CONFIG_HOME", &xdg)]), "  b  10.0.0.8:6657\n");
    let none = folder.weft(&["context", "list"]);
    assert_eq!(none.has_status(0).stdout, "");
    assert!(
        none.stderr.contains("contexts.toml has no contexts; `weft context --help` shows"),
        "{}",
        none.stderr
    );
}

#[test]
fn a_wrong_file_is_refused_with_place_cause_and_remedy() {
    let folder = Folder::new();
    let good = "[contexts.prod]\naddress = \"10.0.0.7:6657\"\n";
    for (text, told) in [
        (
            "currant = \"a\"\n".to_owned(),
            ":1:1: unknown field `currant`, expected `current` or `contexts`; `weft context --help`",
        ),
        (
            format!("{good}adress = \"x\"\n"),
            ":3:1: unknown field `adress`, expected one of `address`, `certificate`, `key`, `authorities`, `token_file`",
        ),
        (
            format!("{good}key = \"a.key\"\n"),
            ":2:11: `certificate`, `key` and `authorities` belong together; name all three",
        ),
        (
            format!("{good}authorities = \"ca.pem\"\n"),
            ":2:11: `authorities` needs `certificate` and `key`, or `token_file`",
        ),
        ("[contexts.prod]\n".to_owned(), ":1:1: missing field `address`"),
        ("current = \n".to_owned(), ":1:11: "),
        (
            "[contexts.prod]\naddress = \"unix:weft.sock\"\n".to_owned(),
            ":2:11: \"unix:weft.sock\" is not the address of a controller; use unix:/PATH, https://HOST:PORT, or ADDRESS:PORT",
        ),
        (
            format!("current = \"prd\"\n{good}"),
            ":1:11: there is no context \"prd\"; did you mean `prod`? There are prod; `weft context use NAME`",
        ),
    ] {
        folder.write(FILE, &text);
        let outcome = folder.weft(&["get", "status"]);
        let wanted = format!("error: {}{told}", folder.path(FILE).display());
        assert!(outcome.has_status(1).stderr.starts_with(&wanted), "{wanted}\n{}", outcome.stderr);
    }
    // A wrong current context can be put right.
    folder.weft(&["context", "use", "prod"]).has_status(0);
    for words in [&["context", "use", "stage"][..], &["get", "status", "--context", "stage"]] {
        let outcome = folder.weft(words);
        assert!(
            outcome.has_status(1).stderr.contains("no context \"stage\"; there are prod"),
            "{}",
            outcome.stderr
        );
    }
    assert_eq!(fs::read_to_string(folder.path(FILE)).unwrap(), format!("current = \"prod\"\n{good}"));
}

#[test]
fn a_shell_completes_contexts_and_asks_the_one_that_is_named() {
    let (folder, _controllers) = controllers();
    let offered = |words: &[&str]| {
        let outcome = folder.weft(&[&["complete", "--"], words].concat());
        let value = |line: &str| line.split('\t').next().unwrap_or_default().to_owned();
        outcome.has_status(0).lines().into_iter().map(value).collect::<Vec<_>>().join(" ")
    };
    for (words, wanted) in [
        (&["context", "use", ""][..], "lab prod"),
        (&["--context", "p"], "prod"),
        (&["get", "--context=l"], "--context=lab"),
        (&["get", "switch", ""], "of-lab"),
        (&["--context", "prod", "get", "switch", ""], "of-prod"),
        (&["get", "--context", "prod", "switch", ""], "of-prod"),
        (&["get", "--context", "stage", "switch", ""], ""),
        (&["--cont"], "--context"),
    ] {
        assert_eq!(offered(words), wanted, "{words:?}");
    }
}
