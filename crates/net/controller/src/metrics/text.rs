//! The plain text format of Prometheus, for readers that do not ask for ``OpenMetrics``.
//!
//! Both formats have the same samples. They differ in the names of families of counters and informations, in exemplars, units and the end
//! mark: <https://prometheus.io/docs/instrumenting/exposition_formats/>.

/// The types of content.
pub(crate) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
pub(crate) const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Whether a reader that accepts these types gets ``OpenMetrics``.
pub(crate) fn wants_open_metrics(accept: Option<&str>) -> bool {
    accept.is_some_and(|accept| accept.contains("application/openmetrics-text"))
}

/// ``OpenMetrics`` as plain text.
pub(crate) fn plain(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    // A family says what it is after what it means.
    let mut help = None;
    for line in open_metrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
            continue;
        }
        let Some(rest) = line.strip_prefix("# TYPE ") else {
            if !line.starts_with('#') {
                text.push_str(without_exemplar(line));
                text.push('\n');
            }
            continue;
        };
        let (family, kind) = rest.split_once(' ').unwrap_or((rest, "untyped"));
        let (suffix, kind) = match kind {
            "counter" => ("_total", kind),
            "info" => ("_info", "gauge"),
            "unknown" => ("", "untyped"),
            _ => ("", kind),
        };
        if let Some((_, meaning)) = help.take().filter(|(of, _)| *of == family) {
            text.push_str(&format!("# HELP {family}{suffix} {meaning}\n"));
        }
        text.push_str(&format!("# TYPE {family}{suffix} {kind}\n"));
    }
    text
}

/// A sample without its exemplar. The values of labels may have any character.
fn without_exemplar(line: &str) -> &str {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let exemplar = line.char_indices().find(|(_, character)| {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            '#' => return !is_quoted,
            _ => {}
        }
        false
    });
    exemplar.map_or(line, |(at, _)| line[..at].trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_get_the_names_of_their_samples() {
        let open = "# HELP a_seconds Time.\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\na_seconds_total{x=\"1\"} 2.5 # {trace_id=\"ab\"} 1.0\n\
                    # HELP b What runs.\n# TYPE b info\nb_info{v=\"\\\" # 1\"} 1\n# TYPE c gauge\nc 3\n# EOF\n";
        let text = "# HELP a_seconds_total Time.\n# TYPE a_seconds_total counter\na_seconds_total{x=\"1\"} 2.5\n\
                    # HELP b_info What runs.\n# TYPE b_info gauge\nb_info{v=\"\\\" # 1\"} 1\n# TYPE c gauge\nc 3\n";
        assert_eq!(plain(open), text);
    }
}
