//! The difference of two texts as `diff -u` shows it.

use diffy::DiffOptions;

/// The unified difference; empty if there is none.
pub(super) fn unified(name: &str, before: &str, after: &str) -> String {
    if before == after {
        return String::new();
    }
    let mut options = DiffOptions::new();
    options.set_original_filename(name.to_owned()).set_modified_filename(name.to_owned());
    options.create_patch(before, after).to_string()
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
