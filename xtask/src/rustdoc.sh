#!/bin/sh
# The rustdoc of the pinned toolchain, with the options of nightly. cargo itself must not see the variable: it would build the dependencies again.
RUSTC_BOOTSTRAP=1 exec rustdoc "$@"
