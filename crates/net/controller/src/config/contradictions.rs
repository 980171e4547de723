//! Values that contradict each other.

use std::net::IpAddr;

use tracing_subscriber::EnvFilter;

use super::Config;

/// The levels of the log.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// All contradictions: the key that is at fault, and why.
pub(super) fn contradictions(config: &Config) -> Vec<(&'static str, String)> {
    let tls = of_tls(config).or_else(|| of_listen(config));
    let [ovsdb, openflow] = [("listen_ovsdb", config.listen_ovsdb), ("listen_openflow", config.listen_openflow)]
        .map(|(key, listen)| {
            let listen = listen?;
            if config.tls_certificate.is_none() {
                let message = format!(
                    "switches that dial in are known by their certificates, so `{key}` needs `tls_certificate`, `tls_key` and \
                     `tls_authorities`"
                );
                return Some((key, message));
            }
            let message = format!(
                "{listen} is no address that switches can dial; set `advertise` to the one that they know this machine by"
            );
            (listen.ip().is_unspecified() && config.advertise.is_none()).then_some((key, message))
        });
    let others = [of_metrics(config), of_advertise(config), of_log(config)];
    [tls, ovsdb, openflow].into_iter().chain(others).flatten().collect()
}

/// A certificate, its key and authorities belong together.
fn of_tls(config: &Config) -> Option<(&'static str, String)> {
    let parts = [
        ("tls_certificate", config.tls_certificate.is_some()),
        ("tls_key", config.tls_key.is_some()),
        ("tls_authorities", config.tls_authorities.is_some()),
    ];
    let revoked = ("tls_revoked", config.tls_revoked.is_some());
    let (given, _) = parts.into_iter().chain([revoked]).find(|(_, is_set)| *is_set)?;
    let (missing, _) = parts.into_iter().find(|(_, is_set)| !is_set)?;
    Some((given, format!("`{missing}` is missing; a certificate, its key and authorities belong together")))
}

/// An API that other machines can reach needs a certificate.
fn of_listen(config: &Config) -> Option<(&'static str, String)> {
    let is_open = config.listen.is_open() && config.tls_certificate.is_none();
    is_open.then(|| {
        let message = format!(
            "other machines can connect to {}, without encryption or authentication; set `tls_certificate`, `tls_key` and \
             `tls_authorities`, or listen on a unix socket or on loopback",
            config.listen
        );
        ("listen", message)
    })
}

/// Metrics name switches and rules, so only this machine reads them without a role.
fn of_metrics(config: &Config) -> Option<(&'static str, String)> {
    let listen = config.listen_metrics.filter(|listen| !listen.ip().is_loopback())?;
    let message = format!(
        "other machines could read the metrics at {listen}, without encryption or authentication; use an address of loopback, and let \
         them scrape /metrics of the API over TLS with a token of the role viewer"
    );
    Some(("listen_metrics", message))
}

/// The parts of `log` must be levels, or end with one. A filter itself takes a word that is no level for a module, and logs nothing else.
fn of_log(config: &Config) -> Option<(&'static str, String)> {
    let level = |part: &str| part.rsplit('=').next().unwrap_or_default().trim().to_owned();
    let is_level = |level: &String| LEVELS.iter().any(|known| level.eq_ignore_ascii_case(known));
    let bad = config.log.split(',').map(level).find(|level| !is_level(level));
    let why = match (bad, EnvFilter::try_new(&config.log)) {
        (Some(bad), _) => format!("{bad:?} is no level"),
        (None, Err(error)) => error.to_string(),
        (None, Ok(_)) => return None,
    };
    let message = format!(
        "{why}; use a level ({}) or levels by module, such as info,ovs_driver=debug",
        LEVELS.join(", ")
    );
    Some(("log", message))
}

fn of_advertise(config: &Config) -> Option<(&'static str, String)> {
    let host = config.advertise.as_ref()?;
    let is_name = !host.is_empty()
        && host.chars().all(|letter| letter.is_ascii_alphanumeric() || ".-".contains(letter));
    let is_host = is_name || host.parse::<IpAddr>().is_ok();
    let message = || format!("{host:?} is neither an address nor a name; write it without port and brackets");
    (!is_host).then(|| ("advertise", message()))
}
