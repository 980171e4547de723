//! What is read of files and variables, and what is said of faults.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::*;

/// The configuration of a file with this text beside which variables are set.
fn with_variables(text: &str, variables: &[(&str, &str)]) -> Result<Effective, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weft.toml");
    fs::write(&path, text).unwrap();
    let variables = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let loaded = Config::load(&path, variables);
    let here = format!("{}/", folder.path().display());
    loaded.map_err(|error| error.to_string().replace(&here, ""))
}

fn of_text(text: &str) -> Result<Config, String> {
    with_variables(text, &[]).map(|effective| effective.config)
}

#[test]
fn every_key_can_be_left_out() {
    assert_eq!(of_text("").unwrap(), Config::default());
}

#[test]
fn the_documented_defaults_are_the_defaults() {
    let line = |key: &Key| key.default.map(|value| format!("{} = {value}\n", key.name));
    let text: String = KEYS.iter().filter_map(line).collect();
    assert_eq!(
        text.lines().count(),
        KEYS.len() - 11,
        "`listen`, where metrics are served and switches dial in, the files of TLS, that of tokens and the receiver of spans have no fixed default"
    );
    assert_eq!(of_text(&text).unwrap(), Config::default());
}

#[test]
fn faults_come_with_file_line_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weft.toml");
    let cases = [
        ("state = \"s\"\nlissen = \"\"\n", ":2:1: unknown key `lissen`; did you mean `listen`?"),
        ("listen = \"unix:weft.sock\"", ":1:10: \"unix:weft.sock\": the path of a socket must be absolute"),
        ("listen = \"localhost\"", ":1:10: \"localhost\" is not an address to listen on"),
        ("metrics_counters = [\"\"]", ":1:20: a name is empty; `weft get listings` lists"),
        ("metrics_counters = 3", ":1:20: a name is wanted, or a list of names, such as"),
        ("metrics_counters_every = 0", ":1:26: invalid value: integer `0`"),
        ("workers = 0", ":1:11: 0 workers are not possible; use a number from 1 to 256"),
        ("workers = 2000", ":1:11: 2000 workers are not possible; use a number from 1 to 256"),
        ("workers = -1", ":1:11: -1 workers are not possible"),
        ("lost_hosts_max = 101", ":1:18: 101 is no percentage; use a number from 0 to 100"),
        ("socket_mode = \"1000\"", ":1:15: \"1000\" is not a mode"),
        ("log = \"info\"\nlisten = \"0.0.0.0:6657\"", ":2:10: other machines can connect to 0.0.0.0:6657"),
        ("listen = \"[::]:6657\"", ":1:10: other machines can connect to [::]:6657"),
        (
            "tls_key = \"a.key\"",
            ":1:11: `tls_certificate` is missing; a certificate, its key and authorities",
        ),
        ("tls_certificate = \"a\"\ntls_key = \"b\"", ":1:19: `tls_authorities` is missing"),
        ("tls_revoked = \"a\"", ":1:15: `tls_certificate` is missing"),
        ("listen_ovsdb = \"127.0.0.1:6640\"", ":1:16: switches that dial in are known by their certificates"),
        ("listen_openflow = \"6653\"", ":1:19: invalid socket address syntax"),
        ("log = ", ":1:7: "),
        ("rules = []", ":1:9: no rules are given; leave `rules` out for the built-in ones"),
        (
            "otlp_endpoint = \"https://a:4317\"",
            ":1:17: \"https://a:4317\" is no receiver of spans: spans are sent without",
        ),
        ("otlp_endpoint = \"http://a\"", ":1:17: \"http://a\" is no receiver of spans: it has no port"),
        (
            "otlp_endpoint = \"http://a:1/v1\"",
            ":1:17: \"http://a:1/v1\" is no receiver of spans: OTLP over gRPC has no path",
        ),
        ("otlp_endpoint = \"a:4317\"", ":1:17: \"a:4317\" is no receiver of spans: it "),
        ("otlp_endpoint = \"http://[a\"", ":1:17: \"http://[a\" is no receiver of spans: it is no URL"),
        ("otlp_sample = 1.5", ":1:15: 1.5 is no share; use a number from 0 to 1"),
        ("otlp_sample = -1", ":1:15: -1 is no share"),
        ("log_format = \"xml\"", ":1:14: unknown variant `xml`"),
        ("rules = 1", ":1:9: a path is wanted, or a list of paths, such as [\"builtin\", \"quarantine\"]"),
    ];
    for (text, wanted) in cases {
        fs::write(&path, text).unwrap();
        let error = Config::load(&path, []).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
    let error = Config::load(&folder.path().join("none.toml"), []).unwrap_err().to_string();
    assert!(error.starts_with("cannot read the configuration "), "{error}");
}

#[test]
fn a_host_has_as_long_for_its_first_connection_as_for_any() {
    let first = |text: &str| of_text(text).unwrap().patience().first.as_secs();
    assert_eq!([first("host_lost_after = 0"), first(""), first("host_lost_after = 600")], [30, 30, 600]);
}

#[test]
fn other_machines_can_connect_only_with_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weft.toml");
    let tls = "tls_certificate = \"a.pem\"\ntls_key = \"/b.key\"\ntls_authorities = \"ca.pem\"";
    for text in
        [&format!("listen = \"0.0.0.0:6657\"\n{tls}"), "listen = \"127.0.0.1:1\"", "listen = \"[::1]:1\""]
    {
        fs::write(&path, text).unwrap();
        Config::load(&path, []).unwrap();
    }
    for (text, wanted) in [
        (format!("listen_openflow = \"0.0.0.0:6653\"\n{tls}"), ":1:19: 0.0.0.0:6653 is no address that"),
        (
            format!("advertise = \"[fd00::1]\"\n{tls}"),
            ":1:13: \"[fd00::1]\" is neither an address nor a name",
        ),
    ] {
        fs::write(&path, text).unwrap();
        let error = Config::load(&path, []).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
    for listen in
        ["listen_openflow = \"10.0.0.1:6653\"", "listen_ovsdb = \"[::]:6640\"\nadvertise = \"fd00::1\""]
    {
        fs::write(&path, format!("{listen}\n{tls}")).unwrap();
        Config::load(&path, []).unwrap();
    }
    fs::write(&path, tls).unwrap();
    let files = Config::load(&path, []).unwrap().config.certificates().unwrap();
    let own = files.own.unwrap();
    assert_eq!(own.certificate, folder.path().join("a.pem"));
    assert_eq!((own.key, files.revoked), (PathBuf::from("/b.key"), None));
}

#[test]
fn relative_paths_count_from_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weft.toml");
    fs::write(&path, "state = \"state\"\nrules = \"/usr/share/weft/rules\"\n").unwrap();
    let config = Config::load(&path, []).unwrap().config;
    assert_eq!(config.state, folder.path().join("state"));
    assert_eq!(config.rules.paths(), [Path::new("/usr/share/weft/rules")]);
}

#[test]
fn all_faults_are_told_at_once_in_the_order_of_the_file() {
    let text = "state = 1\nworkers = 0\nlissen = \"x\"\nlog = \ntls_key = \"k\"\nsocket_mode = \"9\"\n";
    let faults =
        with_variables(text, &[("WEFT_CONFIG_RULE_ROWS", "none"), ("WEFT_CONFIG_RULES_", "x")]).unwrap_err();
    let places: Vec<&str> = faults.lines().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(
        places,
        [
            "weft.toml:1:9",
            "weft.toml:2:11",
            "weft.toml:3:1",
            "weft.toml:4:7",
            "weft.toml:6:15",
            "WEFT_CONFIG_RULES_",
            "WEFT_CONFIG_RULE_ROWS"
        ],
        "{faults}"
    );
    // Whether values fit together is known only of values that can be read.
    for (log, wanted) in [("warning", "\"warning\" is no level"), ("info,a=", "\"\" is no level")] {
        let fault = of_text(&format!("log = \"{log}\"")).unwrap_err();
        assert!(fault.starts_with(&format!("weft.toml:1:7: {wanted}")), "{fault}");
    }
    for log in ["off", "INFO", "info,ovs_driver=debug", "h2=off, info", "info,ovs_driver[span{a=1}]=trace"] {
        of_text(&format!("log = \"{log}\"")).unwrap();
    }
    let both = "listen = \"0.0.0.0:1\"\nlisten_ovsdb = \"0.0.0.0:2\"\nadvertise = \"a b\"";
    assert_eq!(of_text(both).unwrap_err().lines().count(), 3);
}

#[test]
fn variables_override_the_file_and_need_no_quotes() {
    let variables = [
        ("WEFT_CONFIG_LOG", "debug"),
        ("WEFT_CONFIG_WORKERS", "3"),
        ("WEFT_CONFIG_SOCKET_MODE", "0660"),
        ("WEFT_CONFIG_LISTEN", "127.0.0.1:7"),
        ("WEFT_CONFIG_TAKE_OVER", "true"),
        ("WEFT_CONFIG_TOKENS", "/t.toml"),
        ("WEFT_CONFIG_RULES", "[\"builtin\", \"/q\"]"),
        ("WEFT_CONFIGURATION", "is another one"),
    ];
    let effective = with_variables("log = \"warn\"\nworkers = 2\nhost_lost_after = 5", &variables).unwrap();
    let config = &effective.config;
    assert_eq!((config.log.as_str(), config.workers.get(), config.host_lost_after), ("debug", 3, 5));
    assert_eq!((config.socket_mode, config.take_over), (SocketMode(0o660), true));
    assert_eq!(config.tokens.as_deref(), Some(Path::new("/t.toml")));
    assert_eq!(config.listen, Listen::Tcp(([127, 0, 0, 1], 7).into()));
    assert_eq!(config.rules.paths(), [Path::new("builtin"), Path::new("/q")]);
    // A contradiction names the variable that causes it.
    let open = with_variables("", &[("WEFT_CONFIG_LISTEN", "0.0.0.0:7")]).unwrap_err();
    assert!(open.starts_with("WEFT_CONFIG_LISTEN: other machines can connect"), "{open}");
    let many = with_variables("", &[("WEFT_CONFIG_WORKERS", "many")]).unwrap_err();
    assert!(many.starts_with("WEFT_CONFIG_WORKERS: invalid type: string \"many\""), "{many}");
}

#[test]
fn what_is_printed_says_where_it_comes_from_and_can_be_read_again() {
    let tls = "tls_certificate = \"/c\"\ntls_key = \"/k\"\ntls_authorities = \"/a\"\n";
    let text =
        format!("{tls}\nlisten_ovsdb = \"[::1]:6640\"\nrules = [\"builtin\", \"/q\"]\nlost_hosts_max = 7");
    let effective = with_variables(&text, &[("WEFT_CONFIG_LOG", "debug")]).unwrap();
    let printed = effective.to_string();
    let line = |begin: &str| {
        let line = printed.lines().find(|line| line.starts_with(begin)).unwrap_or_default();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("log "), "log = \"debug\" # WEFT_CONFIG_LOG");
    assert_eq!(line("workers"), "workers = 1 # default");
    assert!(line("lost_hosts_max").ends_with("/weft.toml:7"), "{printed}");
    assert_eq!(line("# tokens"), "# tokens is not set");
    assert_eq!(printed.lines().count(), KEYS.len());
    assert_eq!(of_text(&printed).unwrap(), effective.config);
}

#[test]
fn changes_name_the_key_and_both_values() {
    let [one, other] = ["log = \"warn\"", "log = \"info\"\nworkers = 2\nadvertise = \"a\""]
        .map(|text| with_variables(text, &[]).unwrap());
    let changes = one.changes_to(&other);
    let told: Vec<_> = changes
        .iter()
        .map(|change| (change.key.name, change.key.reloads, change.from.as_str(), change.to.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            ("advertise", false, "not set", "\"a\""),
            ("workers", false, "1", "2"),
            ("log", true, "\"warn\"", "\"info\"")
        ]
    );
    assert_eq!(one.changes_to(&one), []);
}
