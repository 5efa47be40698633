//! Result codes.

/// The result code of a call. The runtime and the driver use the same numbers for codes that both have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Code(pub(crate) u32);

impl Code {
    pub(crate) const SUCCESS: Code = Code(0);
    pub(crate) const INVALID_VALUE: Code = Code(1);
    pub(crate) const OUT_OF_MEMORY: Code = Code(2);
    pub(crate) const INVALID_COPY_DIRECTION: Code = Code(21);
    pub(crate) const INVALID_DEVICE: Code = Code(101);
    pub(crate) const INVALID_HANDLE: Code = Code(400);
    pub(crate) const NOT_FOUND: Code = Code(500);
    pub(crate) const NOT_READY: Code = Code(600);
    pub(crate) const ILLEGAL_ADDRESS: Code = Code(700);
    pub(crate) const PEER_UNSUPPORTED: Code = Code(217);
    pub(crate) const PEER_ALREADY_ENABLED: Code = Code(704);
    pub(crate) const PEER_NOT_ENABLED: Code = Code(705);
    pub(crate) const ALREADY_REGISTERED: Code = Code(712);
    pub(crate) const NOT_REGISTERED: Code = Code(713);
    pub(crate) const MISALIGNED_ADDRESS: Code = Code(716);
    pub(crate) const NOT_SUPPORTED: Code = Code(801);
    pub(crate) const CAPTURE_UNSUPPORTED: Code = Code(900);
    pub(crate) const CAPTURE_INVALIDATED: Code = Code(901);
    pub(crate) const CAPTURE_MERGE: Code = Code(902);
    pub(crate) const CAPTURE_UNMATCHED: Code = Code(903);
    pub(crate) const CAPTURE_UNJOINED: Code = Code(904);
    pub(crate) const CAPTURE_ISOLATION: Code = Code(905);
    pub(crate) const CAPTURE_IMPLICIT: Code = Code(906);
    pub(crate) const CAPTURED_EVENT: Code = Code(907);
    pub(crate) const CAPTURE_WRONG_THREAD: Code = Code(908);
    pub(crate) const UPDATE_FAILURE: Code = Code(910);
}
