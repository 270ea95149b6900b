"""A streaming parser of multipart forms: files are hashed and written to disk, fields stay in memory."""

import hashlib
import re
import threading
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BufferedWriter
from pathlib import Path

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from service.errors import InvalidRequest, TooLarge
from service.ingest.filenames import display_name
from service.units import MB

MAX_HEADER_BYTES = 64 * 1024  # enough for a file name of 4 000 escaped characters


EXTENDED_NAME = re.compile(rb";\s*filename\*\s*=\s*([\w-]*)'[\w-]*'([^;\s]*)", re.IGNORECASE)  # RFC 8187
# An unterminated quote extends to the end: a failed match, retried at each inner quote, would take quadratic time.
QUOTED = re.compile(rb'"(?:\\.|[^"\\])*(?:"|\\?\Z)', re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class FormLimits:
    """Limits of a form. A file over `max_file_bytes` is dropped and marked; beyond the other limits the form is
    refused."""

    max_file_bytes: int
    max_body_bytes: int
    max_files: int
    max_field_bytes: int = 4 * MB
    max_fields: int = 100


@dataclass(kw_only=True)
class UploadedFile:
    """A file of a form, complete on disk unless `problem` says why not. `filename` is whatever the client sent.

    `raw_name` is the name before browsers' escapes such as %22 are decoded, since a file's name may contain a literal
    %22.
    """

    field: str
    filename: str
    raw_name: str
    path: Path
    sha256: str = ""
    size: int = 0
    problem: str | None = None


@dataclass(frozen=True)
class MultipartForm:
    """Files and fields of a form. The files exist as long as the block of `receive_form`."""

    files: list[UploadedFile] = field(default_factory=list)
    fields: dict[str, str] = field(default_factory=dict)

    def require_file(self, name: str) -> None:
        """Raise InvalidRequest where the file field `name` holds text, such as a path sent in place of a file."""
        if name in self.fields:
            raise InvalidRequest.field(name, f"is text where files belong; curl sends a file by -F {name}=@PATH")


def parse_boundary(content_type: str) -> bytes:
    """The boundary in a Content-Type header; InvalidRequest where it is not that of a form."""
    kind, options = parse_options_header(content_type)
    if kind != b"multipart/form-data" or not options.get(b"boundary"):
        raise InvalidRequest.field("body", "must be multipart/form-data; curl sends a file NAME by -F NAME=@PATH")
    return options[b"boundary"]


def _unescape(filename: str) -> str:
    """The file name as on the client: browsers send quotes and control characters as %22, %0D and so on."""
    return re.sub(r"%(22|[01][0-9A-Fa-f])", lambda match: chr(int(match[1], 16)), filename)


def escaped(filename: str) -> str:
    """The file name as browsers send it. One that is escaped already stays as it is."""
    return re.sub(r'["\x00-\x1f]', lambda match: f"%{ord(match[0]):02X}", filename)


def _filename(disposition: bytes, options: Mapping[bytes, bytes]) -> tuple[str, str] | None:
    """The file name of a part, and its form before browsers' escapes were decoded; None where the part is no file."""
    # Quoted text is no parameter, whatever it looks like.
    match = EXTENDED_NAME.search(QUOTED.sub(b'""', disposition))
    if match is None:
        raw_name = options[b"filename"].decode("utf-8", "replace") if b"filename" in options else None
        return None if raw_name is None else (_unescape(raw_name), raw_name)
    # The extended form of the name takes precedence (RFC 6266, 4.3).
    charset = "latin-1" if match[1].lower() == b"iso-8859-1" else "utf-8"
    filename = urllib.parse.unquote_to_bytes(match[2]).decode(charset, "replace")
    return filename, filename


class MultipartReader:
    """Writes a form into a folder; blocking, for one thread at a time. Leaving the block closes the open file."""

    def __init__(self, boundary: bytes, folder: Path, limits: FormLimits) -> None:
        self._folder, self._limits = folder, limits
        self._form = MultipartForm()
        self._busy = threading.Lock()  # a cancelled request leaves its thread running
        self._complete = self._closed = False
        self._field_bytes = self._num_fields = 0
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin,
                    "on_header_field": self._header_name,
                    "on_header_value": self._header_value,
                    "on_header_end": self._header_end,
                    "on_headers_finished": self._open,
                    "on_part_data": self._data,
                    "on_part_end": self._end,
                    "on_end": self._finish,
                },
                max_header_size=MAX_HEADER_BYTES,
            )
        except FormParserError as error:
            raise InvalidRequest.field("body", f"cannot be read as a form: {error}") from None
        self._begin()

    def __enter__(self) -> "MultipartReader":
        return self

    def __exit__(self, *_: object) -> None:
        """Close the open file, once a call of `feed` in another thread has returned."""
        with self._busy:
            self._closed = True
            if self._writer is not None:
                self._writer.close()

    def feed(self, content: bytes) -> None:
        """Parse the next bytes of the body. Raises InvalidRequest where they are malformed, TooLarge beyond a limit."""
        with self._busy:
            if self._closed:
                return
            try:
                self._parser.write(content)
            except FormParserError as error:
                raise InvalidRequest.field("body", f"cannot be read as a form: {error}") from None

    def result(self) -> MultipartForm:
        """The whole form; InvalidRequest when the body ended before the form did."""
        if not self._complete:
            raise InvalidRequest.field("body", "ends in the middle: the upload was cut; send it again")
        return self._form

    # -- callbacks of the parser for a part, in order

    def _begin(self) -> None:
        self._disposition = b""
        self._header: tuple[bytes, bytes] = (b"", b"")
        self._file: UploadedFile | None = None
        self._writer: BufferedWriter | None = None
        self._name = ""
        self._text = bytearray()

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._header = (self._header[0] + data[start:end], self._header[1])

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._header = (self._header[0], self._header[1] + data[start:end])

    def _header_end(self) -> None:
        name, value = self._header
        if name.lower() == b"content-disposition":
            self._disposition = value
        self._header = (b"", b"")

    def _open(self) -> None:
        _, options = parse_options_header(self._disposition)
        self._name = options.get(b"name", b"").decode("utf-8", "replace")
        names = _filename(self._disposition, options)
        if names is None:
            self._num_fields += 1
            if self._num_fields > self._limits.max_fields:
                raise TooLarge(f"A form may hold {self._limits.max_fields} fields beside the files.")
            return
        if len(self._form.files) == self._limits.max_files:
            several = f"A request may hold {self._limits.max_files} files; send them in several requests."
            raise TooLarge("This request takes one file." if self._limits.max_files == 1 else several)
        self._file = UploadedFile(
            field=self._name,
            filename=names[0],
            raw_name=names[1],
            path=self._folder / str(len(self._form.files)),
        )
        self._form.files.append(self._file)
        self._hash = hashlib.sha256()
        self._writer = self._file.path.open("xb")

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._file is None:
            self._field_bytes += end - start
            if self._field_bytes > self._limits.max_field_bytes:
                limit = self._limits.max_field_bytes / MB
                raise TooLarge(
                    f"The fields beside the files may hold {limit:g} MB; `{display_name(self._name)}` is longer."
                )
            self._text += data[start:end]
            return
        self._file.size += end - start
        if self._writer is None:
            return
        if self._file.size > self._limits.max_file_bytes:
            # The rest of it is read and dropped, so that the following files are still received.
            self._writer.close()
            self._writer = None
            self._file.path.unlink()
            return
        piece = memoryview(data)[start:end]
        self._hash.update(piece)
        self._writer.write(piece)

    def _end(self) -> None:
        if self._file is None:
            self._end_field()
        elif self._writer is not None:
            self._writer.close()
            self._writer = None
            self._file.sha256 = self._hash.hexdigest()
        else:
            limit, size = self._limits.max_file_bytes / MB, self._file.size / MB
            self._file.problem = f"The file has {size:.1f} MB, over the limit of {limit:g} MB; upload a smaller one."

    def _end_field(self) -> None:
        if self._name in self._form.fields:
            raise InvalidRequest.field(display_name(self._name), "is given twice; give it once")
        try:
            self._form.fields[self._name] = self._text.decode("utf-8")
        except UnicodeDecodeError:
            raise InvalidRequest.field(display_name(self._name), "is not UTF-8 text; a file needs a filename") from None

    def _finish(self) -> None:
        self._complete = True
