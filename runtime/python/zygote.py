# SPDX-License-Identifier: Apache-2.0
"""Runs one Python program as the interpreter would, and reports value, outputs and error.

    zygote.py run R SCRIPT [ARG ...]        a program of its own; R is the report channel or -1
    zygote.py serve LIB SOCK [MODULE ...]   an idle interpreter that LIB forks into boxes

A report is a frame on a stream socket: four bytes of length, little-endian, then one JSON object.
"""
import builtins
import sys

# The program is __main__, also for whoever looks at the frames below it. This is not.
is_started, __name__ = __name__ == "__main__", "brig_runner"

# The program may replace or delete any builtin. The functions below look up names in this copy.
__builtins__ = dict(vars(builtins))

# `run` has to start fast: what stands here is built in, or was loaded by the interpreter itself.
import _ast
import _imp
import _signal
import _thread
import atexit
import gc
import io
import os
import select

try:
    from _json import encode_basestring as quote
except ImportError:
    from json.encoder import encode_basestring as quote

# Loaded once in the zygote, shared by all boxes until they write. Each page costs every box a bit
# of fork and exit, so that only what many programs use is here: asyncio, with the ssl and logging
# it needs, is not. It doubles the memory of an idle box.
PRELOAD = (
    "abc", "argparse", "ast", "base64", "binascii", "bisect", "calendar", "collections.abc",
    "contextlib", "copy", "csv", "dataclasses", "datetime", "decimal", "enum", "fractions",
    "functools", "glob", "hashlib", "heapq", "inspect", "itertools", "json", "linecache", "math",
    "mmap", "operator", "pathlib", "pickle", "pprint", "queue", "random", "re", "resource",
    "secrets", "select", "shutil", "signal", "statistics", "string", "struct", "subprocess",
    "tempfile", "textwrap", "threading", "time", "traceback", "types", "typing", "unicodedata",
    "uuid", "zlib",
)
# Libraries for arithmetic start threads when they are loaded; a process with threads cannot be
# forked into a box.
FOR_PRELOAD = {name + "_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR")}
# matplotlib wants a folder that it can write to; the boxes' /tmp is not there yet.
FOR_PRELOAD["MPLCONFIGDIR"] = "/tmp"

MESSAGE_BYTES = 4 << 20
TEXT_BYTES = 64 << 10
TRACEBACK_BYTES = 1 << 20
ENTRY_BYTES = 8 << 20
OUTPUT_COUNT = 1000
OUTPUT_BYTES = 64 << 20
CO_COROUTINE = 0x80
EPIPE = 32
STAY_MS = 200
REHEARSAL_PATH = b"/dev/null"
BUFFERED = (io.BufferedWriter, io.BufferedRandom, io.TextIOWrapper)
STREAMS = ("stdin", "stdout", "stderr")
SourceFileLoader = sys.modules["_frozen_importlib_external"].SourceFileLoader
PLAIN_TYPES = {dict, list, tuple, set, frozenset, type(sys), type(len), type(lambda: None),
               type((lambda cell: lambda: cell)(0).__closure__[0]), SourceFileLoader}
NO_BEGINNING = (b"", b"\n", b" ", b"\t", b"\f", b"#", b")", b"]", b"}", b"\\")
CLAUSES = (b"else:", b"else ", b"elif ", b"elif(", b"except:", b"except ", b"except(", b"except*",
           b"finally:", b"finally ")
STATEMENTS = (b"for ", b"while ", b"if ", b"def ", b"class ", b"with ", b"try:", b"async ",
              b"import ", b"from ", b"raise ", b"assert ", b"del ")

# A bit of what most programs do; its pages are then copied before anybody waits. Prints nothing.
COMMON_USES = b"""\
import collections, json
from functools import reduce
class Item:
    kind = 'a'
    def __init__(self, size, *more, **named):
        self.size = size
    def __repr__(self):
        return f'{self.kind}: {self.size!r:>4}'
def group(words, least=1):
    by = collections.defaultdict(list)
    for place, word in enumerate(words):
        if len(word) >= least and not word.isdigit():
            by[len(word)].append(word.upper())
    return {size: sorted(found, key=lambda w: (w[::-1], w)) for size, found in by.items()}
try:
    found = group('the quick 1 brown fox'.split(), least=2)
    text = ', '.join([str(Item(size)) for size in found] + ['%d %.2f' % (7 // 2, 1 / 3)])
    total = reduce(lambda a, b: a + b, [x * x for x in range(9) if x % 2], 0)
    json.loads(json.dumps({'a': [1, 2.5, None, True], 'b': text, 'c': total}))
    low, *rest = sorted({1, 2, total})
    while low:
        low -= 1
    max(zip(rest, map(str, rest)))
    raise KeyError(total)
except (KeyError, ValueError) as error:
    text.replace('a', 'b').strip().find(str(error))
print(end='')
"""
# What programs do first with a module that was loaded for them.
FIRST_USES = (
    ("numpy", b"import numpy\nint(numpy.arange(4).sum())\nnumpy.zeros((2, 2)) + 1.5\n"),
    ("pandas", b"import pandas\nint(pandas.Series([1, 2]).sum())\n"
               b"repr(pandas.DataFrame({'a': [1, 2], 'b': ['x', 'y']}))\n"),
)

REPRS = (
    ("text/html", "_repr_html_"), ("image/png", "_repr_png_"), ("image/jpeg", "_repr_jpeg_"),
    ("image/svg+xml", "_repr_svg_"), ("text/markdown", "_repr_markdown_"),
    ("text/latex", "_repr_latex_"), ("application/json", "_repr_json_"),
)

# Bound here, since the program may replace them where they come from.
modules = sys.modules
show_error = sys.__excepthook__
type_name = type.__dict__["__name__"].__get__
os_read, os_write, os_close, os_exit, getpid, fstat = (
    os.read, os.write, os.close, os._exit, os.getpid, os.fstat)
poll, POLLIN = select.poll, select.POLLIN
call_exit_functions = atexit._run_exitfuncs
collect, objects = gc.collect, gc.get_objects
set_trace, set_profile = sys.settrace, sys.setprofile
block_signals, SIG_BLOCK, ALL_SIGNALS, NO_SIGNALS = (
    _signal.pthread_sigmask, _signal.SIG_BLOCK, _signal.valid_signals(), ())


# Text and JSON


def cut(text, limit):
    """At most `limit` bytes as UTF-8; the end of what was longer says so."""
    data = str.encode(text, "utf-8", "replace")
    if len(data) <= limit:
        return data.decode()
    return data[:limit - 3].decode("utf-8", "ignore") + "\u2026"


def encode(value):
    """JSON without the json module, which a short program need not wait for."""
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return float.__repr__(value) if value - value == 0 else "null"
    if isinstance(value, (list, tuple)):
        return "[%s]" % ",".join([encode(item) for item in value])
    if isinstance(value, dict):
        return "{%s}" % ",".join([
            "%s:%s" % (quote(key if isinstance(key, str) else encode(key)), encode(item))
            for key, item in value.items()])
    raise TypeError("not JSON: " + type_name(type(value)))


class Report:
    """The channel to brig. A program may close it or use its number for something else."""

    def __init__(self):
        self.lock = _thread.RLock()
        self.open(-1)

    def open(self, fd):
        self.fd = fd
        self.count = self.size = 0
        self.pending = b""
        if fd >= 0:
            os.set_inheritable(fd, False)
            self.identity = self.look()

    def adopt(self, fd, device, inode):
        """The same for a socket of which all that is known already."""
        self.fd = fd
        self.identity = device, inode, getpid()

    def look(self):
        stat = fstat(self.fd)
        return stat.st_dev, stat.st_ino, getpid()

    def is_ours(self):
        """False in a forked child, and when the descriptor is no longer what was opened."""
        try:
            return self.fd >= 0 and self.look() == self.identity
        except OSError:
            return False

    def send(self, data):
        if self.fd < 0:
            return
        with self.lock:
            if not self.is_ours():
                return
            # A signal handler that raises may end a write half way: the rest goes out first.
            self.pending += len(data).to_bytes(4, "little") + data
            try:
                while self.pending:
                    self.pending = self.pending[os_write(self.fd, self.pending):]
            except OSError:
                self.fd = -1

    def output(self, entries):
        """One output; `entries` maps MIME types to JSON, both as bytes."""
        body = b",".join([b"%s:%s" % entry for entry in entries.items()])
        if self.count >= OUTPUT_COUNT or self.size + len(body) > OUTPUT_BYTES:
            if self.size <= OUTPUT_BYTES:
                self.size = OUTPUT_BYTES + 1
                self.send(b'{"output":{"text/plain":"[further outputs are left out]"}}')
            return
        self.count += 1
        self.size += len(body)
        self.send(b'{"output":{%s}}' % body)

    def done(self, status, value, error):
        data = b'{"done":{"exit":%d,"value":null,"error":null}}' % status
        if value is not None or error is not None:
            try:
                text = encode({"done": {"exit": status, "value": value, "error": error}})
                data = text.encode("utf-8", "replace")
            except MemoryError:
                pass
        self.send(data)

    def forget(self):
        """In a forked child: the program's children have nothing to report."""
        fd, self.fd = self.fd, -1
        try:
            if fd >= 0 and (fstat(fd).st_dev, fstat(fd).st_ino) == self.identity[:2]:
                os_close(fd)
        except OSError:
            pass

    def wait_for_end(self):
        """brig ends the box at once; leaving earlier would only be in its way.

        If it does not, the program has written to the channel, and the status has to tell.
        """
        if self.is_ours():
            end = poll()
            end.register(self.fd, POLLIN)
            end.poll(STAY_MS)


report = Report()


# Outputs


def plain(obj):
    """repr(), whatever happens in it: showing a value must not fail a program."""
    if type(obj) in (str, bytes, list, tuple) and len(obj) > TEXT_BYTES:
        obj = obj[:TEXT_BYTES]  # the rest would be cut off from the text anyway
    try:
        return cut(repr(obj), TEXT_BYTES)
    except BaseException:
        return "<%s object, repr() failed>" % type_name(type(obj))


def png(figure):
    image = io.BytesIO()
    figure.savefig(image, format="png", bbox_inches="tight")
    figure._brig_shown = True
    return image.getvalue()


def is_figure(obj):
    return isinstance(obj, getattr(modules.get("matplotlib.figure"), "Figure", ()))


def representations(obj):
    """Pairs of MIME type and data, from what the type of the object offers."""
    kind = type(obj)
    if is_figure(obj):
        yield "image/png", png(obj)
    method = getattr(kind, "_repr_mimebundle_", None)
    if method is not None:
        try:
            data = method(obj, include=None, exclude=None)
            yield from (data[0] if isinstance(data, tuple) else data or {}).items()
        except Exception:
            pass
    for mime, name in REPRS:
        method = getattr(kind, name, None)
        if method is None:
            continue
        try:
            data = method(obj)
        except Exception:
            continue
        data = data[0] if isinstance(data, tuple) and data else data
        if data is not None:
            yield mime, data


def encode_entry(mime, data):
    if isinstance(data, (bytes, bytearray, memoryview)):
        import binascii
        data = binascii.b2a_base64(data, newline=False).decode()
    if mime == "application/json" or mime.endswith("+json"):
        return encode(data).encode("utf-8", "replace")
    if not isinstance(data, str):
        raise TypeError("not text: " + mime)
    return quote(data).encode("utf-8", "replace")


def bundle(obj, text):
    """MIME types to JSON. The first to offer a type wins; what cannot be sent is left out."""
    entries, notes = {}, []
    for mime, data in representations(obj):
        try:
            name, entry = encode_entry("text/plain", mime), encode_entry(mime, data)
        except Exception:
            continue
        if len(entry) > ENTRY_BYTES:
            notes.append("\n[%s is left out: %d bytes]" % (mime, len(entry)))
        else:
            entries.setdefault(name, entry)
    text = entries.setdefault(b'"text/plain"', encode_entry("text/plain", text))
    if notes:
        entries[b'"text/plain"'] = text[:-1] + encode_entry("text/plain", "".join(notes))[1:]
    return entries


def display(*objs):
    """Shows objects as rich outputs of the run."""
    for obj in objs:
        show_value(obj, plain(obj))


def show_value(value, text):
    report.output(bundle(value, text))


def show_figures(close):
    """Every open figure of pyplot; at the end, when they stay, those that nobody has shown."""
    pyplot = modules.get("matplotlib.pyplot")
    for number in pyplot.get_fignums() if pyplot else ():
        figure = pyplot.figure(number)
        if close or not getattr(figure, "_brig_shown", False):
            display(figure)
        if close:
            pyplot.close(figure)


class Finder:
    """Waits for the import of a module; `execute` runs it and does what there is to do about it."""

    def __init__(self, name, execute):
        self.name, self.execute = name, execute

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = modules["_frozen_importlib_external"].PathFinder.find_spec(name, path, target)
        if spec is not None:
            run, execute = spec.loader.exec_module, self.execute
            spec.loader.exec_module = lambda module: execute(module, run)
        return spec


def execute_pyplot(module, run):
    run(module)
    take_over(module)


def take_over(pyplot):
    """Its show() has no screen here, but has outputs."""
    def show(*_args, **_options):
        show_figures(close=True)
    pyplot.show = show


# The program


def future_flags(body):
    """The statements are compiled in two parts; what the first one imports counts for both."""
    flags = 0
    for node in body:
        if isinstance(node, _ast.ImportFrom) and node.module == "__future__":
            import __future__
            for alias in node.names:
                flags |= getattr(__future__, alias.name).compiler_flag
    return flags


def find_last_statement(source):
    """Where it begins, if lines in the first column begin one unless they end or go on with it."""
    end = len(source.rstrip())
    while end > 0:
        start = source.rfind(b"\n", 0, end) + 1
        if source[start:start + 1] not in NO_BEGINNING and not source.startswith(CLAUSES, start):
            return start
        end = start - 1
    return 0


def compile_lines(source, path):
    """The parts of a program, by lines; None when that cannot be told for sure.

    Each part is compiled from text, which takes a fifth of the way through a tree of objects. What
    stands before the last statement must be complete, or else that would be a piece of something.
    """
    if b"\r" in source or b"coding" in source or b"__future__" in source:
        return None
    start, flags = find_last_statement(source), _ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    head, last = source[:start], source[start:].rstrip()
    before = head.rstrip()
    # The last is about what stands before it, or a part of it.
    if b"global" in last or before.endswith(b"\\") or before.startswith(b"@", before.rfind(b"\n") + 1):
        return None
    lines = b"\n" * head.count(b"\n") + last
    single = b";" not in last and last[:1] != b"*"  # else it may end in an expression, or be one
    mode = "exec" if single and last.startswith(STATEMENTS) else "eval"
    try:
        try:
            tail = compile(lines, path, mode, flags, True)
        except SyntaxError:
            if not single or b"\\" in last:
                return None
            tail = compile(lines, path, "exec", flags, True)
        return [compile(head, path, "exec", flags, True), tail] if head.strip() else [tail]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # the other way tells what is wrong, if anything is


def compile_parts(source, path):
    """All statements; when the last one is an expression it is a part of its own."""
    parts = compile_lines(source, path)
    if parts is not None:
        return parts
    flags = _ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        tree = compile(source, path, "exec", flags | _ast.PyCF_ONLY_AST, True)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], _ast.Expr) else None
        parts = [compile(tree, path, "exec", flags, True)] if tree.body or not last else []
        if last:
            flags |= future_flags(tree.body)
            parts.append(compile(_ast.Expression(last.value), path, "eval", flags, True))
        return parts
    except RecursionError:  # too deep for a tree of objects, perhaps not for the compiler
        return [compile(source, path, "exec", flags, True)]


async def run_async(parts, namespace):
    value = None
    for code in parts:
        value = eval(code, namespace)
        if code.co_flags & CO_COROUTINE:
            value = await value
    return value


def run_parts(parts, namespace):
    if any([code.co_flags & CO_COROUTINE for code in parts]):
        import asyncio
        return asyncio.run(run_async(parts, namespace))
    value = None
    for code in parts:
        value = eval(code, namespace)
    return value


def make_main():
    """What the interpreter makes for a script; nothing of the runner's own module.

    In the box, not before, and not frozen: what is frozen is never collected, and a program's
    globals are part of every cycle that has to be broken at its end.
    """
    main = type(sys)("__main__")
    main.__dict__.update(
        __annotations__={}, __builtins__=builtins, __cached__=None, __file__="", __package__=None,
        __loader__=SourceFileLoader("__main__", ""))
    return main


waiting_main = []
before_preload = set()  # what every interpreter has, and a file cannot hide


def new_main(path):
    main = modules["__main__"] = waiting_main.pop() if waiting_main else make_main()
    names = main.__dict__
    names["__file__"] = names["__loader__"].path = path
    return names


def write_error(text):
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except BaseException:  # None, closed, replaced, broken: the interpreter is silent, too
        pass


def format_error(error, trace):
    """The text that the interpreter prints, by the interpreter."""
    stderr = getattr(sys, "stderr", None)
    sys.stderr = text = io.StringIO()
    try:
        show_error(type(error), BaseException.with_traceback(error, trace), trace)
    except BaseException:
        text.write("%s\n" % type_name(type(error)))
    finally:
        sys.stderr = stderr
    return text.getvalue()


def user_frames(trace, namespace):
    while trace is not None and trace.tb_frame.f_globals is not namespace:
        trace = trace.tb_next
    return trace


def error_line(error, trace, path):
    """The innermost line of the script that took part."""
    if isinstance(error, SyntaxError) and error.filename == path:
        return error.lineno if isinstance(error.lineno, int) else None
    line = None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def message_of(error):
    try:
        return cut(str(error), TEXT_BYTES)
    except BaseException:
        return "<exception str() failed>"


def exit_status(request):
    """Of a SystemExit."""
    code = getattr(request, "code", None)
    if code is None:
        return 0
    if isinstance(code, int):
        return int.__and__(code, 0xff) if -1 << 63 <= int(code) < 1 << 63 else 255
    try:
        write_error(str(code) + "\n")
    except BaseException:
        pass
    return 1


def print_error(error, trace, text):
    """Gives an exit status when the program's own hook asks for one."""
    hook = getattr(sys, "excepthook", show_error)
    if hook is show_error:
        return write_error(text)
    try:
        hook(type(error), error, trace)
    except SystemExit as request:
        return exit_status(request)
    except BaseException as second:
        again = format_error(second, second.__traceback__ and second.__traceback__.tb_next)
        write_error("Error in sys.excepthook:\n%s\nOriginal exception was:\n%s" % (again, text))
    return None


def failed(error, namespace, path):
    """Prints an uncaught exception; gives the exit status and the report of it."""
    trace = user_frames(error.__traceback__, namespace)
    text = format_error(error, trace)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
    sys.last_exc = error
    status = print_error(error, trace, text)
    if status is None:
        status = 130 if isinstance(error, KeyboardInterrupt) else 1
    return status, {"type": type_name(type(error)), "message": message_of(error),
                    "traceback": cut(text, TRACEBACK_BYTES),
                    "line": error_line(error, trace, path)}


def run_main(path, source):
    """The program from its first to its last statement: exit status, value, error."""
    status, value, error, caught = 0, None, None, None
    namespace = new_main(path)
    try:
        value = run_parts(compile_parts(source, path), namespace)
    except SystemExit as request:
        status = exit_status(request)
    except BaseException as uncaught:
        caught = uncaught
    set_trace(None)
    set_profile(None)
    if caught is not None:  # no longer handled, so that a hook's own error has no context
        status, error = failed(caught, namespace, path)
    if "matplotlib.pyplot" in modules:
        attempt(show_figures, False)
    text = None if value is None else plain(value)
    if text is not None:
        attempt(show_value, value, text)
    return status, text, error


# The end of the program


def join_threads():
    threading = modules.get("threading")
    if threading is not None and _thread._count():
        threading._shutdown()


def run_exit_functions():
    try:
        call_exit_functions()
    except BaseException:
        pass  # up to 3.9 the last error comes out; all of them were printed


def flush_files():
    """In a cycle a descriptor may be closed before what is buffered above it is written."""
    for item in objects():
        if type(item) in BUFFERED:
            try:
                item.flush()
            except Exception:
                pass


def drop_program():
    """Frees what the program holds, so that finalizers run and open files are written."""
    sys.last_type = sys.last_value = sys.last_traceback = sys.last_exc = None
    modules.pop("__main__", None)
    # Where there are only these, nobody notices whether they are freed.
    if not {type(item) for item in objects()} <= PLAIN_TYPES:
        flush_files()
        # What has not grown old is collected faster: no cache of the interpreter is thrown away.
        collect(2 if objects(2) else 1)


def flush(name):
    stream = getattr(sys, name, None)
    if stream is not None and not getattr(stream, "closed", False):
        stream.flush()


def attempt(step, *args):
    """False when it failed, which is told and no reason to stop."""
    try:
        step(*args)
        return True
    except BaseException as error:
        write_error("Exception ignored at the end of the program:\n%s" % format_error(
            error, error.__traceback__ and error.__traceback__.tb_next))
        return False


def finish(steps):
    """Does what the interpreter does at its end. False when output was lost."""
    for step in steps:
        attempt(step)
    kept = attempt(flush, "stdout")
    attempt(drop_program)
    kept = attempt(flush, "stdout") and kept
    return attempt(flush, "stderr") and kept


def execute(path, source, steps):
    status, value, error = run_main(path, source)
    return status if finish(steps) else 120, value, error


def load(path):
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    parts = [os_read(fd, fstat(fd).st_size + 1)]
    while parts[-1]:
        parts.append(os_read(fd, 4096))
    os_close(fd)
    return b"".join(parts)


def enter_script(path, arguments):
    sys.argv = [path] + arguments
    sys.orig_argv = [sys.executable] + sys.argv
    sys.path.insert(0, path.rpartition("/")[0])


def execute_safely(path, source, steps, signals):
    """A signal handler of the program may raise anywhere, also between two of the last steps."""
    caught = None
    try:
        outcome = execute(path, source, steps)
    except BaseException as error:
        caught = error
    try:
        # Called without a function around it, which could be left before it has begun.
        block_signals(SIG_BLOCK, signals)
    except BaseException:
        pass  # by the last handler that ran
    if caught is not None:
        status, description = failed(caught, None, path)
        outcome = status, None, description
    return outcome


LAST_STEPS = join_threads, run_exit_functions
# Frames from run_script() to run_parts(). Up to 3.11 a call of eval() counts, too; in 3.11 not the
# one in run_parts(), which was rehearsed.
RUN_DEPTH = 6 + (sys.version_info < (3, 12)) + (sys.version_info < (3, 11))


def make_room():
    """The program can be as deep as if there were no frames below its own."""
    frame, depth = sys._getframe(1), RUN_DEPTH
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    sys.setrecursionlimit(sys.getrecursionlimit() + depth)


def run_and_report(path, arguments, source, steps, signals):
    """The exit status. A source that was not given is in the file."""
    enter_script(path, arguments)
    outcome = execute_safely(path, source or load(path), steps, signals)
    report.done(*outcome)
    return outcome[0]


def run_script(path, arguments, source=b""):
    """Never returns."""
    status = 1
    try:
        status = run_and_report(path, arguments, source, LAST_STEPS, ALL_SIGNALS)
        report.wait_for_end()
    finally:
        os_exit(status)


# The zygote


def may_write(path, mode, access=os.access, **options):
    """Of a box's /tmp, although it is not there yet."""
    return path == FOR_PRELOAD["MPLCONFIGDIR"] or access(path, mode, **options)


def open_or_lose(path, mode="r", **options):
    """Nothing can be written yet."""
    return open(os.devnull if "w" in mode else path, mode, **options)


def execute_font_manager(module, run):
    """It asks fontconfig for all fonts and keeps the list: in memory, that is enough here."""
    cbook, error, null = modules["matplotlib.cbook"], os.dup(2), os.open(os.devnull, os.O_WRONLY)
    lock, cbook._lock_path = cbook._lock_path, modules["contextlib"].nullcontext
    module.open = open_or_lose
    os.dup2(null, 2)  # fontconfig has no place for its own list, either
    try:
        run(module)
    finally:
        os.dup2(error, 2)
        os_close(error)
        os_close(null)
        cbook._lock_path = lock
        del module.open


def preload(names):
    """Imports all, or leaves: a box must not differ from what was asked for."""
    finder = Finder("matplotlib.font_manager", execute_font_manager)
    sys.meta_path.insert(0, finder)
    os.environ.pop("LD_BIND_NOW", None)  # meant for the dynamic linker, which has seen it
    added = {name: value for name, value in FOR_PRELOAD.items() if name not in os.environ}
    os.environ.update(added)
    access, os.access = os.access, may_write
    for name in names:
        try:
            __import__(name)
        except BaseException as error:
            write_error("brig: cannot preload %s\n%s" % (name, format_error(error, None)))
            os_exit(3)
    os.access = access
    if finder in sys.meta_path:
        sys.meta_path.remove(finder)
    for name in added:
        del os.environ[name]
    if os.path.exists("/proc/self/task") and len(os.listdir("/proc/self/task")) != 1:
        write_error("brig: a preloaded module has started a thread\n")
        os_exit(3)
    if "matplotlib.pyplot" in modules:
        take_over(modules["matplotlib.pyplot"])


def swap_stdio():
    """Puts a pipe in the place of the standard descriptors; restore_stdio() undoes it."""
    ends = os.pipe()
    saved = [os.dup(fd) for fd in (0, 1, 2)]
    for fd in (0, 1, 2):
        os.dup2(ends[fd > 0], fd)
    return saved + list(ends)


def restore_stdio(kept):
    for fd in (0, 1, 2):
        os.dup2(kept[fd], fd)
    for fd in kept:
        os_close(fd)


def rehearse(pages, source):
    """Runs a program with all that belongs to it, and keeps nothing of it.

    In the zygote this fills caches; in a box it writes to the pages that the real program will
    write to, so that they are copied before anybody waits.
    """
    ends = os.pipe()
    stat = fstat(ends[1])
    message = b"%s\0%s\x000\x00%d" % (REHEARSAL_PATH, source, stat.st_ino)
    pages[:len(message)] = message
    program = take_message(pages, len(message) | ends[1] << 40, stat.st_dev)
    # Functions to be called at exit can be called only once: not here.
    steps = (join_threads,) if atexit._ncallbacks() else LAST_STEPS
    run_and_report(*program, steps, NO_SIGNALS)
    report.open(-1)
    os_close(ends[0])
    os_close(ends[1])
    del sys.path[0]


def shares_state():
    """Must a box forget something before it can run a program?"""
    return any(name in modules for name in (
        "numpy.random", "ssl", "multiprocessing.process", "logging"))


def forget_shared_state():
    """What the fork copied and no two boxes may share. CPython itself reseeds `random`."""
    numpy = modules.get("numpy.random")
    if numpy is not None:
        numpy.seed()
    if "ssl" in modules:
        modules["ssl"].RAND_add(os.urandom(64), 64.0)
    if "multiprocessing.process" in modules:
        modules["multiprocessing.process"].current_process().authkey = os.urandom(32)
    if "logging" in modules:
        logging, time = modules["logging"], modules["time"]
        start = logging._startTime
        logging._startTime = time.time_ns() if isinstance(start, int) else time.time()


def take_message(pages, word, device):
    """Path, arguments and source of the program, from the run's message; the report is open then.

    The message is path, source, number of arguments (with a plus when there are other files beside
    the script), arguments, environment, and at last what the report is, as bytes with NUL between
    them; the word that comes with it is told in zygote.c.
    """
    message = pages[:word & 0xffffffff].split(b"\0")
    report.adopt(word >> 40, device, int(message.pop()))
    open_files(word >> 32 & 7)
    path = message[0].decode("utf-8", "surrogateescape")
    if len(message) == 3 and message[2] == b"0":
        return path, [], message[1]
    if message[2].endswith(b"+"):
        forget_hidden(path.rpartition("/")[0])
    return path, take_texts(message), message[1]


def take_texts(message):
    """The program's arguments; its environment is set. Both may be any bytes."""
    texts = [item.decode("utf-8", "surrogateescape") for item in message[2:]]
    count = int(texts[0].rstrip("+"))
    for entry in texts[1 + count:]:
        name, _, value = entry.partition("=")
        os.environ[name] = value
        if name == "TZ":
            modules["time"].tzset()
    return texts[1:1 + count]


def forget_hidden(folder):
    """A module beside the script hides one of the same name, also one that is loaded already."""
    for entry in os.listdir(folder):
        name, dot, ending = entry.partition(".")
        if name not in modules or name in before_preload or _imp.is_frozen(name):
            continue
        if ending == "py" or ending.endswith("so") or (
                not dot and os.path.exists("%s/%s/__init__.py" % (folder, name))):
            for loaded in [known for known in modules if (known + ".").startswith(name + ".")]:
                del modules[loaded]


def open_files(numbers):
    """brig gives pipes, as the streams of the zygote were; a file can seek. A bit for each."""
    for fd, name in enumerate(STREAMS):
        if numbers & 1 << fd:
            open_stream(name, fd)


def open_stream(name, fd):
    """A stream remembers whether it can seek, so it is made anew when that changes."""
    old = getattr(sys, name)
    raw = io.FileIO(fd, "wb" if fd else "rb", closefd=False)
    raw.name = old.name
    stream = io.TextIOWrapper(raw if fd else io.BufferedReader(raw), old.encoding, old.errors,
                              write_through=old.write_through)
    stream.mode = old.mode
    setattr(sys, name, stream)
    setattr(sys, "__%s__" % name, stream)


def first_uses():
    return b"".join([source for name, source in FIRST_USES if name in modules])


def prepare(pages):
    """All that a box will need is made and used before the first one exists."""
    kept = swap_stdio()
    for fd, name in enumerate(STREAMS):
        open_stream(name, fd)
    # From 3.11 on an interpreter adapts its code while it runs: what it finds out here, and where it
    # notes that, no box has to write again.
    for _ in range(8):
        rehearse(pages, COMMON_USES)
        rehearse(pages, first_uses() + b"print(1)\n[1]\n")
        rehearse(pages, b"def f(): return 1 / 0\nf()\n")
    restore_stdio(kept)
    modules["linecache"].clearcache()
    modules["tempfile"]._name_sequence = None
    gc.collect()
    gc.freeze()


def idle_method(cell):
    """Like a method that calls super(), which has one cell; it does nothing."""
    return lambda self, a=None, version=2: None if self else cell


class Library:
    """The functions of zygote.c, and where the run's message goes.

    It is never freed: in a box that would write to the pages of many other objects. It is frozen
    with all else that the zygote has, and so not among the objects that gc shows.
    """

    def __init__(self, path, pages):
        import ctypes
        library, api = ctypes.PyDLL(path), ctypes.pythonapi
        number, place, size, word = ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_longlong

        def address(thing):
            return ctypes.cast(thing, place).value

        def function(name, *types):
            return ctypes.PYFUNCTYPE(*types)(address(getattr(library, name)))

        self.place = ctypes.addressof(ctypes.c_char.from_buffer(pages)), len(pages)
        self.hooks = [address(hook) for hook in (
            api.PyOS_BeforeFork, api.PyOS_AfterFork_Parent, api.PyOS_AfterFork_Child)]
        self.serve = function("brig_serve", word, number, place, place, place, number, place, size)
        self.hurry = function("brig_hurry", number)
        self.wait = function("brig_wait", word, place, size)
        api.Py_IncRef(ctypes.py_object(self))


def fork_boxes(library, sock, at_once):
    """Returns in a box; the zygote itself leaves here when there is nothing more to fork.

    What it gives is the word that came with the run's message (see zygote.c), or 0 when the box
    still has to wait for it.
    """
    # What these do after a fork costs a box a third of it. The locks of threading are free, and its
    # only thread stays; random is seeded below, in one step. The programs' own forks do it again.
    random = modules["random"]
    seed = super(random.Random, random._inst).seed
    set_thread_id = modules["threading"].main_thread()._set_native_id
    hook, other = modules["threading"]._after_fork, random.Random.seed
    code, hook.__code__ = hook.__code__, (lambda: None).__code__
    other_code, other.__code__ = other.__code__, idle_method(None).__code__
    gc.freeze()
    word = library.serve(sock, *library.hooks, at_once, *library.place)
    if word < 0:
        os_exit(0 if word == -EPIPE else 4)
    seed()
    set_thread_id()
    hook.__code__, other.__code__ = code, other_code
    return word


def wait_for_run(library, pages, small):
    """The word that comes with the run's message."""
    forget_shared_state()
    if not library.hurry():
        rehearse(pages, small)
        # What only a real run uses; to use it writes to its pages.
        [run_script, run_script.__code__, LAST_STEPS, ALL_SIGNALS]
    gc.freeze()
    waiting_main.append(make_main())
    return library.wait(*library.place)


def serve(path, sock, names):
    before_preload.update(modules, sys.builtin_module_names)
    preload(PRELOAD + names)
    make_room()
    import mmap
    # Pages of an anonymous mapping that are not touched cost nothing.
    pages = mmap.mmap(-1, MESSAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    library = Library(path, pages)
    device = fstat(sock).st_dev
    # Goes all the way, and writes no byte.
    small = first_uses() + COMMON_USES
    prepare(pages)
    word = fork_boxes(library, sock, not shares_state())
    if word == 0:
        word = wait_for_run(library, pages, small)
    if word <= 0:
        os_exit(1)  # nothing was run: not as if it had ended well
    program = take_message(pages, word, device)
    # Nothing that leads to the zygote is left for the program. The pages stay: to unmap them takes
    # longer than a small program.
    del mmap, library, path, sock, names, small
    run_script(*program)


def main():
    os.register_at_fork(after_in_child=report.forget)
    sys.meta_path.insert(0, Finder("matplotlib.pyplot", execute_pyplot))
    builtins.display = display
    if sys.argv[1] == "serve":
        serve(sys.argv[2], int(sys.argv[3]), tuple(sys.argv[4:]))
    report.open(int(sys.argv[2]))
    make_room()
    gc.freeze()
    run_script(sys.argv[3], sys.argv[4:])


if is_started:
    # Up to 3.9 a frame takes the builtins of its caller when both have the same globals.
    eval("main()", {"main": main, "__builtins__": __builtins__})
