//! The errors of calls that must fail.

/// The text of an error, which must match the pattern and contain the texts: `fails!(buffer.try_host(), Error::Busy { .. })`.
#[macro_export]
macro_rules! fails {
    ($result:expr, $pattern:pat $(if $guard:expr)? $(, $says:expr)* $(,)?) => {{
        let error = $result.map(drop).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, $pattern $(if $guard)?), "{text}");
        $(assert!(text.contains($says), "{text}");)*
        text
    }};
}
