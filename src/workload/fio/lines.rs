//! From a file's bytes to sections of option lines: comments, blank space, `include`, over-long lines.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::FioError;

/// fio reads lines in pieces of at most this many bytes; a longer line is several lines.
const LONGEST_LINE: usize = 8191;

/// fio keeps this many bytes of a section's name.
const LONGEST_NAME: usize = 255;

/// One option line, stripped of blank space and comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OptionLine {
    pub(super) file: Arc<Path>,
    pub(super) line: u32,
    pub(super) text: String,
}

/// One section, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RawSection {
    pub(super) name: String,
    pub(super) line: u32,
    pub(super) lines: Vec<OptionLine>,
}

/// Reads a file as text.
pub(super) fn read_text(path: &Path) -> Result<String, FioError> {
    let bytes = std::fs::read(path)
        .map_err(|error| FioError::Unreadable { file: path.to_owned(), reason: error.to_string() })?;
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let newlines = good.iter().filter(|byte| **byte == b'\n').count();
        FioError::NotText { file: path.to_owned(), line: line_number(newlines) }
    })
}

/// Splits a job file into its sections, with included files read in.
pub(super) fn sections(path: &Path, text: &str) -> Result<Vec<RawSection>, FioError> {
    let file: Arc<Path> = Arc::from(path);
    let mut sections: Vec<RawSection> = Vec::new();
    for (line, text) in pieces(text) {
        if is_blank_or_comment(text) {
            continue;
        }
        let text = text.trim_start_matches(is_space);
        if text.starts_with('[') {
            sections.push(RawSection { name: section_name(&file, line, text)?, line, lines: Vec::new() });
            continue;
        }
        let text = strip_end(text);
        let Some(section) = sections.last_mut() else {
            return Err(FioError::Misplaced {
                file: path.to_owned(),
                line,
                text: text.to_owned(),
                problem: "stands before any section",
                right: "start a section with [global] or [name] first".to_owned(),
            });
        };
        let mut including = vec![identity(path)];
        add_line(&mut section.lines, &file, line, text, &mut including)?;
    }
    Ok(sections)
}

/// Adds one option line, or the lines of the file it includes.
fn add_line(
    lines: &mut Vec<OptionLine>,
    file: &Arc<Path>,
    line: u32,
    text: &str,
    including: &mut Vec<PathBuf>,
) -> Result<(), FioError> {
    if !text.starts_with("include") {
        lines.push(OptionLine { file: Arc::clone(file), line, text: text.to_owned() });
        return Ok(());
    }
    let misplaced = |problem, right: &str| FioError::Misplaced {
        file: file.to_path_buf(),
        line,
        text: text.to_owned(),
        problem,
        right: right.to_owned(),
    };
    // fio takes what follows `include` and one more byte, whatever that byte is.
    let Some(name) = text.get("include".len() + 1..).filter(|name| !name.is_empty()) else {
        return Err(misplaced("names no file", "write include FILE"));
    };
    let path = included_path(file, name);
    let path_identity = identity(&path);
    if including.contains(&path_identity) {
        return Err(misplaced("includes a file from within itself", "break the circle of includes"));
    }
    let text_of_file = read_text(&path).map_err(|error| match error {
        FioError::Unreadable { reason, .. } => FioError::Misplaced {
            file: file.to_path_buf(),
            line,
            text: text.to_owned(),
            problem: "includes a file that cannot be read",
            right: format!(
                "{}: {reason}; the name is taken from the working directory, then from the folder of this file",
                path.display()
            ),
        },
        other => other,
    })?;
    including.push(path_identity);
    let included: Arc<Path> = Arc::from(path.as_path());
    if pieces(&text_of_file).all(|(_, text)| is_blank_or_comment(text)) {
        // fio frees its list of options twice here, and aborts.
        return Err(misplaced("includes a file without an option", "leave the include out"));
    }
    for (line, text) in pieces(&text_of_file) {
        if is_blank_or_comment(text) {
            continue;
        }
        let text = strip_end(text.trim_start_matches(is_space));
        if text.starts_with('[') {
            return Err(FioError::Misplaced {
                file: path,
                line,
                text: text.to_owned(),
                problem: "starts a section in an included file",
                right: "an included file holds options only".to_owned(),
            });
        }
        add_line(lines, &included, line, text, including)?;
    }
    including.pop();
    Ok(())
}

/// As fio: the name as it stands if such a file exists, else from the folder of the including file.
fn included_path(including: &Path, name: &str) -> PathBuf {
    let as_given = PathBuf::from(name);
    match including.parent() {
        Some(folder) if !as_given.exists() => folder.join(name),
        _ => as_given,
    }
}

/// One spelling for a file, so that a circle of includes is seen through links and dots.
fn identity(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// The name between the brackets. fio takes the rest of the line without its last byte, whatever that is.
fn section_name(file: &Arc<Path>, line: u32, text: &str) -> Result<String, FioError> {
    let text = strip_end(text);
    let mut name = floor_to(&text[1..], LONGEST_NAME);
    if name.is_empty() {
        return Err(FioError::Misplaced {
            file: file.to_path_buf(),
            line,
            text: text.to_owned(),
            problem: "is no section",
            right: "write [name]".to_owned(),
        });
    }
    if let Some((last, _)) = name.char_indices().next_back() {
        name = &name[..last];
    }
    Ok(name.to_owned())
}

/// The lines with their numbers, cut where fio cuts them.
fn pieces(text: &str) -> impl Iterator<Item = (u32, &str)> {
    text.split('\n').enumerate().flat_map(|(index, line)| {
        let number = line_number(index);
        let mut rest = Some(line);
        std::iter::from_fn(move || {
            let line = rest?;
            let piece = floor_to(line, LONGEST_LINE);
            rest = Some(&line[piece.len()..]).filter(|rest| !rest.is_empty());
            // A C string ends at its first NUL.
            Some((number, piece.split('\0').next().unwrap_or(piece)))
        })
    })
}

fn line_number(index: usize) -> u32 {
    u32::try_from(index + 1).unwrap_or(u32::MAX)
}

/// The longest prefix of at most `bytes` bytes that ends between characters.
fn floor_to(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// What C's `isspace` takes for blank.
pub(super) fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\x0b' | '\x0c' | '\r')
}

fn is_space_or_control(c: char) -> bool {
    is_space(c) || c.is_ascii_control()
}

fn is_blank_or_comment(line: &str) -> bool {
    line.trim_start_matches(is_space_or_control).chars().next().is_none_or(|c| c == ';' || c == '#')
}

/// Cuts a comment and the blank space before it. fio knows no quotes: `;` and `#` always start a comment.
pub(super) fn strip_end(text: &str) -> &str {
    let end = text.find([';', '#']).unwrap_or(text.len());
    text[..end].trim_end_matches(is_space_or_control)
}
