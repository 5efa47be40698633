//! Finds the paths in the tokens of a macro, because the parser does not parse them.

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};

/// The segments of a path as written, such as `crate`, `device`, `Device`.
pub type Segments = Vec<String>;

/// All paths of a token stream; paths in `a::{b, c}` are complete.
pub fn of_tokens(tokens: TokenStream) -> Vec<Segments> {
    let mut mentions = Mentions(Vec::new());
    mentions.scan(tokens, &[]);
    mentions.0
}

struct Mentions(Vec<Segments>);

impl Mentions {
    fn scan(&mut self, tokens: TokenStream, prefix: &[String]) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                // After a dot there is a field or a method, after `>::` an associated item, after `$` a variable of the macro.
                TokenTree::Ident(ident) if is_start(ident, &tokens[..at]) => {
                    at = self.path(&tokens, at, prefix);
                }
                TokenTree::Group(group) => {
                    self.scan(group.stream(), &[]);
                    at += 1;
                }
                _ => at += 1,
            }
        }
    }

    /// The path that begins at `at`; returns its end.
    fn path(&mut self, tokens: &[TokenTree], mut at: usize, prefix: &[String]) -> usize {
        let mut path = prefix.to_vec();
        while let Some(TokenTree::Ident(ident)) = tokens.get(at) {
            path.push(ident.to_string());
            at += 1;
            if !is_colon(tokens.get(at)) || !is_colon(tokens.get(at + 1)) {
                break;
            }
            at += 2;
            if let Some(TokenTree::Group(group)) = tokens.get(at)
                && group.delimiter() == Delimiter::Brace
            {
                self.scan(group.stream(), &path);
                return at + 1;
            }
        }
        self.0.push(path);
        at
    }
}

fn is_start(ident: &Ident, before: &[TokenTree]) -> bool {
    match before {
        [.., TokenTree::Punct(punct)] => match punct.as_char() {
            // `..` is a range.
            '.' => matches!(before, [.., TokenTree::Punct(first), _] if first.as_char() == '.'),
            '$' => ident == "crate",
            ':' => !matches!(before, [.., TokenTree::Punct(first), _] if first.as_char() == ':'),
            '\'' => false,
            _ => true,
        },
        _ => true,
    }
}

fn is_colon(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == ':')
}
