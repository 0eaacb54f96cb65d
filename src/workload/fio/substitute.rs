//! `${VAR}` and fio's keywords, replaced in an option line before it is read.

use super::expression;

/// fio holds an option line in this many bytes.
const LONGEST: usize = 8192;

/// fio works sums out only in lines shorter than this, and values shorter than [`LONGEST_SUM`].
const LONGEST_LINE_WITH_SUM: usize = 128;
const LONGEST_SUM: usize = 100;

/// What fio's keywords stand for. fio asks the host; a simulation must not depend on the host, so these are
/// those of a small POWER guest.
const KEYWORDS: [(&str, &str); 3] = [("$pagesize", "65536"), ("$mb_memory", "4096"), ("$ncpus", "4")];

/// A line with its variables and keywords replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Substituted {
    pub(super) text: String,
    /// Variables that are not set; fio puts nothing in their place.
    pub(super) unset: Vec<String>,
    /// Keywords that occurred.
    pub(super) keywords: Vec<&'static str>,
}

/// Replaces variables, then keywords, then works out a sum if a keyword stood in it.
/// `None` when there was a sum that is none.
pub(super) fn substitute(line: &str, env: &dyn Fn(&str) -> Option<String>) -> Option<Substituted> {
    let (mut text, unset) = variables(line, env);
    let mut keywords = Vec::new();
    for (word, value) in KEYWORDS {
        if text.contains(word) {
            keywords.push(word);
            text = text.replace(word, value);
        }
    }
    if !keywords.is_empty() {
        text = work_out(text)?;
    }
    Some(Substituted { text, unset, keywords })
}

fn variables(line: &str, env: &dyn Fn(&str) -> Option<String>) -> (String, Vec<String>) {
    let mut text = String::with_capacity(line.len());
    let mut unset = Vec::new();
    let mut rest = line;
    while let Some(start) = rest.find("${") {
        let Some(length) = rest[start..].find('}') else { break };
        text.push_str(&rest[..start]);
        let name = &rest[start + 2..start + length];
        match env(name) {
            Some(value) if text.len() + value.len() <= LONGEST => text.push_str(&value),
            Some(_) => {}
            None => unset.push(name.to_owned()),
        }
        rest = &rest[start + length + 1..];
    }
    text.push_str(rest);
    (text, unset)
}

/// fio gives the whole value to `bc` when the line holds an operator anywhere and no quote.
fn work_out(text: String) -> Option<String> {
    let Some((key, value)) = text.split_once('=') else { return Some(text) };
    let has_sum = text.contains(['+', '-', '*', '/']) && !text.contains('\'');
    if !has_sum || text.len() >= LONGEST_LINE_WITH_SUM || value.len() > LONGEST_SUM {
        return Some(text);
    }
    expression::sum(value).map(|value| format!("{key}={value}"))
}
