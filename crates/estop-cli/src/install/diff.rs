//! The difference of two texts as `diff -u` shows it.

/// Equal lines around a change.
const CONTEXT: usize = 3;
/// Beyond this many pairs of lines the middle is shown as replaced whole: settings files are far smaller.
const PAIRS_MAX: usize = 4_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line<'a> {
    Same(&'a str),
    Out(&'a str),
    In(&'a str),
}

/// The unified difference; empty if there is none.
pub(super) fn unified(name: &str, before: &str, after: &str) -> String {
    if before == after {
        return String::new();
    }
    let (old, new): (Vec<&str>, Vec<&str>) = (lines(before), lines(after));
    let script = script(&old, &new);
    let mut out = format!("--- {name}\n+++ {name}\n");
    let mut from = 0;
    while let Some((start, end)) = hunk(&script, from) {
        let (old_at, new_at) = place(&script[..start]);
        let (old_lines, new_lines) = place(&script[start..end]);
        out.push_str(&format!("@@ -{} +{} @@\n", range(old_at, old_lines), range(new_at, new_lines)));
        for line in &script[start..end] {
            let (sign, text) = match line {
                Line::Same(text) => (' ', text),
                Line::Out(text) => ('-', text),
                Line::In(text) => ('+', text),
            };
            out.push(sign);
            out.push_str(text.strip_suffix('\n').unwrap_or(text));
            out.push('\n');
            if !text.ends_with('\n') {
                out.push_str("\\ No newline at end of file\n");
            }
        }
        from = end;
    }
    out
}

fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// `start,lines`, from 1; an empty range names the line before it.
fn range(before: usize, lines: usize) -> String {
    match lines {
        0 => format!("{before},0"),
        1 => (before + 1).to_string(),
        _ => format!("{},{lines}", before + 1),
    }
}

/// How many lines of the old and of the new text.
fn place(script: &[Line<'_>]) -> (usize, usize) {
    let old = script.iter().filter(|line| !matches!(line, Line::In(_))).count();
    let new = script.iter().filter(|line| !matches!(line, Line::Out(_))).count();
    (old, new)
}

/// The next changes that belong together, with the lines around them.
fn hunk(script: &[Line<'_>], from: usize) -> Option<(usize, usize)> {
    let is_change = |at: &usize| !matches!(script[*at], Line::Same(_));
    let first = (from..script.len()).find(is_change)?;
    let mut last = first;
    while let Some(next) = (last + 1..script.len().min(last + 2 + 2 * CONTEXT)).find(is_change) {
        last = next;
    }
    Some((first.saturating_sub(CONTEXT).max(from), script.len().min(last + 1 + CONTEXT)))
}

/// Which lines stay, go and come.
fn script<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (&old[head..], &new[head..]);
    let tail = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old_mid, new_mid) = (&old_rest[..old_rest.len() - tail], &new_rest[..new_rest.len() - tail]);
    let mut out: Vec<Line<'a>> = old[..head].iter().map(|line| Line::Same(line)).collect();
    middle(old_mid, new_mid, &mut out);
    out.extend(old[old.len() - tail..].iter().map(|line| Line::Same(line)));
    out
}

/// By the longest common subsequence.
fn middle<'a>(old: &[&'a str], new: &[&'a str], out: &mut Vec<Line<'a>>) {
    if old.len().saturating_mul(new.len()) > PAIRS_MAX {
        out.extend(old.iter().map(|line| Line::Out(line)));
        out.extend(new.iter().map(|line| Line::In(line)));
        return;
    }
    // Common lines of what begins at (i, j).
    let mut common = vec![vec![0_usize; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = if old[i] == new[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            out.push(Line::Same(old[i]));
            (i, j) = (i + 1, j + 1);
        } else if i < old.len() && (j == new.len() || common[i + 1][j] >= common[i][j + 1]) {
            out.push(Line::Out(old[i]));
            i += 1;
        } else {
            out.push(Line::In(new[j]));
            j += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tl_1_a_difference_is_what_diff_u_shows() {
        assert_eq!(unified("f", "a\n", "a\n"), "");
        assert_eq!(unified("f", "", "a\n"), "--- f\n+++ f\n@@ -0,0 +1 @@\n+a\n");
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let new = "1\n2\n3\n4\nfive\n6\n7\n8\n9";
        let expected = "--- f\n+++ f\n@@ -2,8 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n-9\n+9\n\
                        \\ No newline at end of file\n";
        assert_eq!(unified("f", old, new), expected);
    }

    #[test]
    fn tl_1_changes_far_apart_stand_in_parts_of_their_own() {
        let old: String = (1..=30).map(|n| format!("{n}\n")).collect();
        let new = old.replace("2\n3\n", "2\nx\n3\n").replacen("28\n", "", 1);
        let shown = unified("f", &old, &new);
        assert_eq!(shown.matches("@@ -").count(), 2, "{shown}");
        assert!(shown.contains("@@ -25,6 +26,5 @@"), "{shown}");
    }
}
