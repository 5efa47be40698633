"""The exceptions of cuda_um. Each message names the value, what is allowed, and what to do."""


class Error(Exception):
    """Every error of cuda_um."""


class OutOfMemoryError(Error, MemoryError):
    """Not enough memory on the device or in the machine. The message has the requested and the free bytes."""


class ArgumentError(Error, ValueError):
    """An argument that is not allowed: a shape, a dtype, a device, a stream."""


class InUseError(Error, RuntimeError):
    """In use by a ``numpy()`` block: the array, by one of the same thread, or a GPU without concurrent managed access, by one of any unified
    array. Also a profile within a profile.
    """


class DLPackError(Error, BufferError):
    """A tensor that cannot be imported or exported through DLPack."""


class DeviceError(Error, RuntimeError):
    """An error of CUDA or of the device, also of earlier work."""


class FileError(Error, OSError):
    """A file that cannot be opened or read, or that changed while it was read. The message has the file, the tensor and the byte; ``errno`` and
    ``filename`` are set if the system refused the file.
    """


class MissingFileError(FileError, FileNotFoundError):
    """A file that is not there."""


class FilePermissionError(FileError, PermissionError):
    """A file that may not be read."""


class FolderError(FileError, IsADirectoryError):
    """A folder where a file is expected."""
