//! Reads a shell script the way a shell does, as far as it takes to see which programs it invokes.

use std::iter::Peekable;
use std::str::Chars;

use crate::steps::{self, Counted};

/// Bytes of a command that are read; the rest is ignored. Chosen: far above any command seen.
const COMMAND_BYTES_MAX: usize = 256 * 1024;
/// Simple commands of one script that are looked at. Keeps a hostile `a;a;a;…` cheap.
const COMMANDS_MAX: usize = 1_000;
/// Substitutions and subshells inside one another; deeper ones are read as text.
const NESTING_MAX: usize = 32;

/// The simple commands of a shell script, each as its words: quotes removed, redirections, comments and
/// here-documents dropped, commands inside `$( )` and backticks listed on their own.
pub(super) fn simple_commands(script: &str) -> Vec<Vec<String>> {
    let script = &script[..script.floor_char_boundary(COMMAND_BYTES_MAX)];
    let mut lexer = Lexer {
        chars: Counted(script.chars()).peekable(),
        current: Partial::default(),
        outer: Vec::new(),
        here_documents: Vec::new(),
        commands: Vec::new(),
    };
    lexer.read();
    lexer.commands
}

/// Reads a script once, from left to right. It is lenient: what a shell would refuse is read somehow.
struct Lexer<'a> {
    chars: Peekable<Counted<Chars<'a>>>,
    current: Partial,
    /// What was interrupted by each `(` or backtick that is still open. At most [`NESTING_MAX`].
    outer: Vec<(Nesting, Partial)>,
    /// Here-documents announced on this line.
    here_documents: Vec<HereDocument>,
    /// At most [`COMMANDS_MAX`].
    commands: Vec<Vec<String>>,
}

/// A command that is being read.
#[derive(Default)]
struct Partial {
    words: Vec<String>,
    word: Option<String>,
    /// The next word is the file of a redirection.
    redirecting: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Nesting {
    /// `( … )`: commands of their own.
    Subshell,
    /// `$( … )`, `<( … )`: commands that make a word of another.
    Parentheses,
    /// The same inside double quotes, which go on after it.
    QuotedParentheses,
    Backticks,
    QuotedBackticks,
    /// `NAME=( … )`: words, not commands.
    Array,
}

struct HereDocument {
    delimiter: String,
    strip_tabs: bool,
}

impl Lexer<'_> {
    fn read(&mut self) {
        while let Some(c) = self.chars.next() {
            match c {
                '\\' => self.escape(),
                '\'' => self.single_quotes(),
                '"' => self.double_quotes(),
                '$' => self.dollar(),
                '`' => self.backtick(),
                '#' if self.current.word.is_none() => self.comment(),
                '\n' => {
                    self.end_command();
                    self.skip_here_documents();
                }
                ';' | '|' => self.end_command(),
                '&' if self.chars.peek() == Some(&'>') => self.end_word(),
                '&' => self.end_command(),
                '<' | '>' => self.redirection(c),
                '(' => self.open_parenthesis(),
                ')' => self.close_parenthesis(),
                c if c.is_whitespace() => self.end_word(),
                c => self.add(c),
            }
        }
        self.end_command();
        while let Some((_, outer)) = self.outer.pop() {
            self.current = outer;
            self.end_command();
        }
    }

    fn add(&mut self, c: char) {
        self.current.word.get_or_insert_default().push(c);
    }

    fn end_word(&mut self) {
        let Some(word) = self.current.word.take() else { return };
        if !std::mem::take(&mut self.current.redirecting) {
            self.current.words.push(word);
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        let words = std::mem::take(&mut self.current).words;
        let in_array = matches!(self.outer.last(), Some((Nesting::Array, _)));
        if !words.is_empty() && !in_array && self.commands.len() < COMMANDS_MAX {
            self.commands.push(words);
        }
    }

    /// A backslash before a letter is kept, for Windows paths; no program is spelled with one.
    fn escape(&mut self) {
        match self.chars.next() {
            Some('\n') | None => {}
            Some(c) if c.is_ascii_alphanumeric() || c == '.' || c == '_' => {
                self.add('\\');
                self.add(c);
            }
            Some(c) => self.add(c),
        }
    }

    fn single_quotes(&mut self) {
        self.current.word.get_or_insert_default();
        while let Some(c) = self.chars.next().filter(|c| *c != '\'') {
            self.add(c);
        }
    }

    /// Up to the closing quote, or up to a substitution; [`Lexer::leave`] comes back for the rest.
    fn double_quotes(&mut self) {
        self.current.word.get_or_insert_default();
        while let Some(c) = self.chars.next().filter(|c| *c != '"') {
            match c {
                '\\' => match self.chars.next() {
                    Some('\n') | None => {}
                    Some(c) if "\"\\$`".contains(c) => self.add(c),
                    Some(c) => {
                        self.add('\\');
                        self.add(c);
                    }
                },
                '$' if self.chars.peek() == Some(&'(') && self.enter(Nesting::QuotedParentheses) => {
                    self.chars.next();
                    return;
                }

                '`' if self.enter(Nesting::QuotedBackticks) => return,
                c => self.add(c),
            }
        }
    }

    fn dollar(&mut self) {
        match self.chars.peek().copied() {
            Some('(') if self.enter(Nesting::Parentheses) => {
                self.chars.next();
            }
            Some('{') => {
                self.add('$');
                while let Some(c) = self.chars.next() {
                    self.add(c);
                    if c == '}' {
                        return;
                    }
                }
            }
            Some('\'') => {
                self.chars.next();
                self.current.word.get_or_insert_default();
                while let Some(c) = self.chars.next().filter(|c| *c != '\'') {
                    self.add(c);
                    if c == '\\' {
                        self.chars.next();
                    }
                }
            }
            _ => self.add('$'),
        }
    }

    fn backtick(&mut self) {
        let open = self.outer.last().map(|(nesting, _)| *nesting);
        if matches!(open, Some(Nesting::Backticks | Nesting::QuotedBackticks)) {
            self.end_command();
            self.leave();
        } else {
            self.enter(Nesting::Backticks);
        }
    }

    fn comment(&mut self) {
        while self.chars.next_if(|c| *c != '\n').is_some() {}
    }

    fn redirection(&mut self, c: char) {
        // The `2` of `2>` is no argument. A word is looked at once: it ends here.
        steps::add(self.current.word.as_ref().map_or(0, String::len));
        if self.current.word.as_ref().is_some_and(|word| word.bytes().all(|b| b.is_ascii_digit())) {
            self.current.word = None;
        }
        self.end_word();
        if self.chars.peek() == Some(&'(') && self.enter(Nesting::Parentheses) {
            self.chars.next();
            return;
        }
        if c == '<' && self.chars.next_if_eq(&'<').is_some() && self.chars.next_if_eq(&'<').is_none() {
            return self.here_document();
        }
        while self.chars.next_if(|c| matches!(c, '>' | '&' | '|')).is_some() {}
        self.current.redirecting = true;
    }

    fn here_document(&mut self) {
        let strip_tabs = self.chars.next_if_eq(&'-').is_some();
        while self.chars.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
        let mut delimiter = String::new();
        while let Some(c) = self.chars.next_if(|c| !c.is_whitespace() && !";|&<>()".contains(*c)) {
            if !matches!(c, '\'' | '"' | '\\') {
                delimiter.push(c);
            }
        }
        // `$((1 << 8))` is a shift.
        if delimiter.starts_with(|c: char| !c.is_ascii_digit()) {
            self.here_documents.push(HereDocument { delimiter, strip_tabs });
        }
    }

    fn skip_here_documents(&mut self) {
        for HereDocument { delimiter, strip_tabs } in std::mem::take(&mut self.here_documents) {
            while self.chars.peek().is_some() {
                let line: String = self.chars.by_ref().take_while(|c| *c != '\n').collect();
                steps::add(2 * line.len());
                let line = if strip_tabs { line.trim_start_matches('\t') } else { &line };
                if line.trim_end_matches('\r') == delimiter {
                    break;
                }
            }
        }
    }

    fn open_parenthesis(&mut self) {
        let is_array = self.current.word.as_ref().is_some_and(|word| word.ends_with('='));
        if is_array {
            self.enter(Nesting::Array);
        } else {
            self.end_command();
            self.enter(Nesting::Subshell);
        }
    }

    fn close_parenthesis(&mut self) {
        self.end_command();
        let open = self.outer.last().map(|(nesting, _)| *nesting);
        if !matches!(open, Some(Nesting::Backticks | Nesting::QuotedBackticks)) {
            self.leave();
        }
    }

    /// Sets the current command aside to read one inside it. False when nested too deep.
    fn enter(&mut self, nesting: Nesting) -> bool {
        if self.outer.len() >= NESTING_MAX {
            return false;
        }
        let mut interrupted = std::mem::take(&mut self.current);
        if nesting != Nesting::Subshell {
            interrupted.word.get_or_insert_default();
        }
        self.outer.push((nesting, interrupted));
        true
    }

    fn leave(&mut self) {
        let Some((nesting, interrupted)) = self.outer.pop() else { return };
        self.current = interrupted;
        if matches!(nesting, Nesting::QuotedParentheses | Nesting::QuotedBackticks) {
            self.double_quotes();
        }
    }
}
