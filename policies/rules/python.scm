; Rules for Python. See docs/internals/risk.md for the language of this file.
;
; A level says what the code could do where nothing held it back: medium reads, high changes or
; reaches out, critical starts programs, turns text into code or leaves the language.
; Names are resolved: aliases, getattr() and importlib lead to the same name as a plain import.
; "f()" is what f gives back; "*.x" is x of anything, also of what is not known.

; ---- text becomes code ----

([(call function: (_) @callee arguments: [(argument_list . (_) @source) (_)]) (exec_statement)] @hit
 (#name? @callee "eval" "exec" "compile" "eval.__call__" "exec.__call__" "compile.__call__"
  "*.__self__.eval" "*.__self__.exec" "*.builtins.eval" "*.builtins.exec" "*.bltns.eval"
  "*.bltns.exec" "*.__builtins__.eval" "*.__builtins__.exec" "*.f_builtins.eval"
  "*.f_builtins.exec")
 (#embedded! @source "python")
 (#rule! "py.exec.eval" critical "code-execution" "turns text into code"))

; eval on its way to somewhere: map(eval, …), {"calc": eval}, handler=eval, x | eval
((identifier) @hit
 (#any-of? @hit "eval" "exec" "compile" "__import__")
 (#read? @hit)
 (#name? @hit "eval" "exec" "compile" "__import__")
 (#rule! "py.exec.reference" critical "code-execution" "passes on what runs text as code"))

((call function: (_) @callee) @hit
 (#name? @callee "__import__" "__import__.__call__" "*.__import__" "importlib.__import__"
  "importlib.import_module" "importlib.reload" "importlib.util.*" "importlib.machinery.*"
  "importlib.abc.*" "importlib._bootstrap.*" "importlib._bootstrap_external.*" "imp.load_source"
  "imp.load_module" "zipimport.*" "_frozen_importlib.*" "_imp.*" "*.exec_module" "*.load_module"
  "*.import_module")
 (#rule! "py.exec.importlib" critical "code-execution" "loads a module by a name in a text"))

([(import_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement module_name: (dotted_name) @module)]
 (#name? @module "importlib" "importlib.*" "imp" "imp.*" "zipimport" "zipimport.*" "_imp"
  "_frozen_importlib" "_frozen_importlib_external" "pkgutil" "pkgutil.*" "runpy" "runpy.*"
  "modulefinder" "modulefinder.*")
 (#not-name? @module "importlib.metadata" "importlib.metadata.*" "importlib.resources"
  "importlib.resources.*")
 (#rule! "py.exec.import-tools" high "code-execution" "can load modules past the import statement"))

([(import_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement module_name: (dotted_name) @module)]
 (#name? @module "doctest")
 (#rule! "py.exec.doctest" medium "code-execution" "runs the examples in texts as code"))

; Names of modules and functions for the test loader to import and call
([(call function: (_) @main) @first
  (call function: (_) @main) @module
  (call function: (_) @main) @default
  (call function: (_) @main arguments: (argument_list
    (keyword_argument name: (identifier) @key value: (list . (_) (_) @test))))]
 (#name? @main "unittest.main" "unittest.TestProgram" "unittest.main.*")
 (#arg? @first "0" "^(?!__main__$|None$)")
 (#arg? @module "k=module" "^(?!__main__$|None$)")
 (#arg? @default "k=defaultTest" "[.]")
 (#eq? @key "argv")
 (#string-match? @test "^[^-].*[.]")
 (#rule! "py.exec.unittest" medium "code-execution" "has tests found by a name in a text"))

; Functions that find a function by its name in a text
([(call function: (_) @callee) @hit
  (call function: (_) @patch arguments: (argument_list . (_) @target)) @hit]
 (#name? @callee "*.loadTestsFromName" "*.loadTestsFromNames" "doctest.DocTestSuite"
  "pkgutil.resolve_name" "pkgutil.get_loader" "pkgutil.find_loader" "pydoc.locate" "pydoc.resolve"
  "pydoc.safeimport" "pydoc.importfile" "unittest.mock._get_target" "unittest.mock._importer"
  "logging.config._resolve" "logging.config.BaseConfigurator().resolve"
  "logging.config.DictConfigurator().resolve" "xmlrpc.server.resolve_dotted_attribute")
 (#name? @patch "unittest.mock.patch" "mock.patch")
 (#string-match? @target "^(os|posix|sys|subprocess|builtins|shutil|socket|importlib)\\b")
 (#rule! "py.exec.resolve" critical "code-execution" "finds a function by a name in a text"))

((call function: (_) @callee) @hit
 (#name? @callee "breakpoint" "pdb.*" "bdb.*" "IPython.embed" "ipdb.*" "pudb.*" "debugpy.*"
  "sys.breakpointhook" "sys.settrace" "sys.setprofile" "threading.settrace")
 (#rule! "py.exec.debugger" critical "code-execution" "starts a debugger, which runs any code"))

((call function: (_) @callee) @hit
 (#name? @callee "code.interact" "code.InteractiveConsole" "code.InteractiveInterpreter"
  "code.compile_command" "codeop.*" "types.FunctionType" "types.CodeType" "types.LambdaType"
  "*.__code__.replace" "*.CodeType" "_xxsubinterpreters.*" "_interpreters.*")
 (#rule! "py.exec.code-objects" critical "code-execution" "makes functions out of data"))

; A constant statement is assessed as code of its own; one that is not known could be anything.
((call function: (_) @callee arguments: [
   (argument_list . (_) @first)
   (argument_list . (_) . (_) @second)
   (argument_list (keyword_argument name: (identifier) @stmt value: (_) @third))
   (argument_list (keyword_argument name: (identifier) @setup value: (_) @fourth))]) @hit
 (#name? @callee "timeit.timeit" "timeit.repeat" "timeit.Timer")
 (#eq? @stmt "stmt")
 (#eq? @setup "setup")
 (#embedded! @first "python")
 (#embedded! @second "python")
 (#embedded! @third "python")
 (#embedded! @fourth "python")
 (#rule! "py.exec.timeit" low "code-execution" "times a statement"))

((call function: (_) @callee arguments: [
   (argument_list [(string) (concatenated_string) (binary_operator) (call) (subscript)] @text)
   (argument_list (keyword_argument name: (identifier) @key
     value: [(string) (concatenated_string) (binary_operator) (call) (subscript)] @text))]) @hit
 (#name? @callee "timeit.timeit" "timeit.repeat" "timeit.Timer" "timeit.main")
 (#any-of? @key "stmt" "setup")
 (#dynamic? @text)
 (#rule! "py.exec.timeit-text" medium "code-execution" "runs a text as code that is not known"))

((call function: (_) @callee arguments: [(argument_list . (_) @source) (_)]) @hit
 (#name? @callee "cProfile.run" "cProfile.runctx" "profile.run" "profile.runctx"
  "cProfile.Profile().run" "cProfile.Profile().runctx" "profile.Profile().run" "trace.Trace().run"
  "trace.Trace().runctx" "doctest.run_docstring_examples" "doctest.debug" "doctest.debug_src"
  "doctest.DocTestRunner" "doctest.DocTestParser" "doctest.testfile" "doctest.DocFileSuite"
  "runpy.*" "py_compile.*" "compileall.*" "zipapp.*")
 (#embedded! @source "python")
 (#rule! "py.exec.runner" critical "code-execution" "runs a text or a file as code"))

((call function: (identifier) @callee) @hit
 (#name? @callee "help")
 (#no-arg? @hit "*")
 (#rule! "py.exec.help" medium "process" "opens the interactive help, which can start a pager"))

((call function: (_) @callee) @hit
 (#name? @callee "get_ipython" "get_ipython().*" "IPython.get_ipython" "IPython.get_ipython().*"
  "IPython.start_ipython")
 (#rule! "py.exec.ipython" critical "code-execution" "hands text to the notebook's shell"))

; Libraries that evaluate expressions or templates; harmless with harmless texts.
((call function: (_) @callee) @hit
 (#name? @callee "sympy.sympify" "sympy.parse_expr" "sympy.parsing.sympy_parser.parse_expr"
  "numexpr.NumExpr" "pandas.eval" "jinja2.Template" "jinja2.Environment().from_string"
  "asteval.Interpreter" "simpleeval.simple_eval" "typing.ForwardRef" "tkinter.Tk().eval"
  "tkinter.Tk().tk.eval" "*.tk.eval")
 (#rule! "py.exec.library" medium "code-execution" "a library evaluates a text"))

((call function: (_) @callee) @hit
 (#name? @callee "mako.template.Template" "dataclasses._create_fn" "collections._eval"
  "typing.ForwardRef()._evaluate" "tkinter.Tcl" "tkinter.Tcl().eval" "_tkinter.*"
  "numexpr.evaluate")
 (#rule! "py.exec.library-unsafe" high "code-execution" "a library runs a text as code"))

; df.query("@pd.io…"): the expression reaches attributes of local variables
((call function: (attribute attribute: (identifier) @method)
  arguments: (argument_list . (_) @text)) @hit
 (#any-of? @method "query" "eval")
 (#string-match? @text "@\\w+\\.|__")
 (#rule! "py.exec.query" medium "code-execution" "an expression in a text reaches attributes"))

; def f(x: "…()"): an annotation that something will evaluate
((type (string) @hit)
 (#match? @hit "[\\w\\])]\\s*\\(")
 (#rule! "py.exec.annotation" medium "code-execution" "an annotation holds a call in a text"))

([(pair key: (_) @text)
  (identifier) @hit
  (call function: (_) @signature) @call]
 (#eq? @hit "__annotations__")
 (#not-in? @hit "attribute")
 (#string? @text "__annotations__")
 (#name? @signature "inspect.signature" "inspect.get_annotations" "inspect.Signature.from_callable"
  "annotationlib.*")
 (#not-no-arg? @call "k=eval_str")
 (#rule! "py.exec.annotation-read" medium "code-execution" "makes annotations that run as code, or runs their texts"))

; Code that waits in a text. Docstrings and comments are not looked at.
([(argument_list [(string) (concatenated_string)] @hit)
  (keyword_argument value: [(string) (concatenated_string)] @hit)
  (assignment right: [(string) (concatenated_string)] @hit)
  (default_parameter value: [(string) (concatenated_string)] @hit)
  (list [(string) (concatenated_string)] @hit)
  (tuple [(string) (concatenated_string)] @hit)
  (pair value: [(string) (concatenated_string)] @hit)
  (return_statement [(string) (concatenated_string)] @hit)
  (lambda body: [(string) (concatenated_string)] @hit)
  (binary_operator [(string) (concatenated_string)] @hit)
  (comparison_operator [(string) (concatenated_string)] @hit)
  (subscript subscript: [(string) (concatenated_string)] @hit)
  (attribute object: [(string) (concatenated_string)] @hit)]
 (#string-match? @hit "__(import|builtins|globals|subclasses|loader|code|reduce)__|\\b(os|posix)\\.(system|popen|exec[lv]\\w*)\\s*\\(|\\bsubprocess\\.\\w+\\(|\\{[^{}]*\\.__\\w|python/object|py/(reduce|object|function)|^c(os|posix|subprocess)\\n")
 (#rule! "py.exec.code-in-text" high "code-execution" "a text holds code that reaches the system"))

; The name of an inner attribute in a text: something will look it up.
([(call function: (_) @callee
    arguments: (argument_list [(string) (concatenated_string) (binary_operator)] @hit))
  (keyword_argument value: [(string) (concatenated_string)] @hit)
  (assignment right: [(string) (concatenated_string)] @hit)
  (list [(string) (concatenated_string)] @hit)
  (tuple [(string) (concatenated_string)] @hit)
  (set [(string) (concatenated_string)] @hit)
  (pair value: [(string) (concatenated_string)] @hit)
  (default_parameter value: [(string) (concatenated_string)] @hit)
  (return_statement [(string) (concatenated_string)] @hit)
  (yield [(string) (concatenated_string)] @hit)
  (lambda body: [(string) (concatenated_string)] @hit)]
 (#not-name? @callee "hasattr" "print")
 (#string-match? @hit "^__(self|class|dict|mro|bases?|spec|init|call|func|wrapped|getattribute|closure|file|path|reduce_ex)__(\\.|$)")
 (#rule! "py.reflect.dunder-text" medium "reflection" "names an inner attribute in a text"))

; ---- behind the language ----

((identifier) @hit
 (#any-of? @hit "__builtins__" "__loader__" "__spec__")
 (#rule! "py.reflect.builtins" critical "reflection" "reaches the builtins or the loader"))

([(import_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement module_name: (dotted_name) @module)]
 (#name? @module "builtins" "builtins.*" "__builtin__" "__builtin__.*")
 (#rule! "py.reflect.builtins-module" high "reflection" "imports the builtins as a module"))

([(call function: (_) @callee arguments: (argument_list (_)
    . [(string) (concatenated_string) (binary_operator) (call)] @name))
  (call function: (_) @callee) @built]
 (#name? @callee "getattr" "setattr" "delattr" "object.__getattribute__" "type.__getattribute__"
  "inspect.getattr_static" "*.__getattribute__")
 (#match? @name "[\"']__|__[\"']")
 (#arg? @built "1" "^__|^_(os|sys)$")
 (#rule! "py.reflect.getattr-dunder" critical "reflection" "reaches an inner attribute by name"))

((call function: (_) @callee arguments: (argument_list . (_) @object . (_) @name)) @hit
 (#name? @callee "getattr" "object.__getattribute__" "inspect.getattr_static")
 (#name? @object "os" "sys" "posix" "nt" "builtins" "subprocess" "shutil" "socket" "ctypes" "pty"
  "importlib" "sys.modules" "*.os" "*._os")
 (#dynamic? @name)
 (#rule! "py.reflect.getattr-module" critical "reflection" "picks a system function at run time"))

((identifier) @hit
 (#any-of? @hit "getattr" "globals" "breakpoint")
 (#read? @hit)
 (#name? @hit "getattr" "globals" "breakpoint")
 (#rule! "py.reflect.getattr-value" medium "reflection" "passes on what reaches inner state"))

; A name that is put together is put together for a reason; "visit_" + kind is a good one. And who
; asks a plain value or a function for attributes?
([(call function: (_) @callee arguments: (argument_list . (_)
    . [(binary_operator) (call) (subscript)] @built))
  (call function: (_) @callee arguments: (argument_list
    . [(lambda) (tuple) (list) (dictionary) (string) (integer) (set) (parenthesized_expression)]
    . (_) @name))]
 (#name? @callee "getattr" "object.__getattribute__")
 (#dynamic? @built)
 (#not-match? @built "^[fF]?[\"'][A-Za-z]")
 (#match? @built "[+*%]|join|decode|chr|replace|revers|fromhex|next|pop|::|\\[")
 (#dynamic? @name)
 (#rule! "py.reflect.getattr-dynamic" medium "reflection" "reaches an attribute by a built name"))

; vars(logging), random.__dict__, getattr(inspect, name): what a module imported is in there
([(call function: (identifier) @function arguments: (argument_list . (_) @any .)) @hit
  (call function: (identifier) @getter arguments: (argument_list . (_) @module . (_) @name)) @hit
  (attribute object: (_) @any attribute: (identifier) @table) @hit]
 (#eq? @function "vars")
 (#eq? @getter "getattr")
 (#dynamic? @name)
 (#eq? @table "__dict__")
 (#module? @any)
 (#name? @module "abc" "argparse" "ast" "asyncio" "asyncio.*" "base64" "calendar" "codecs"
  "collections" "collections.abc" "concurrent.futures" "contextlib" "copy" "csv" "ctypes"
  "dataclasses" "datetime" "decimal" "difflib" "dis" "doctest" "enum" "fractions" "functools"
  "glob" "graphlib" "gzip" "hashlib" "heapq" "html" "http" "importlib" "inspect" "io" "json"
  "json.decoder" "json.encoder" "linecache" "locale" "logging" "logging.*" "os" "pathlib" "pickle"
  "platform" "pprint" "queue" "random" "re" "secrets" "shlex" "shutil" "sqlite3" "statistics"
  "string" "struct" "subprocess" "sys" "tempfile" "textwrap" "threading" "timeit" "tokenize"
  "traceback" "types" "typing" "unittest" "uuid" "warnings" "weakref" "zipfile" "builtins" "numpy"
  "pandas" "matplotlib" "scipy" "sympy" "torch" "print.__self__")
 (#rule! "py.reflect.module" medium "reflection" "looks through the inside of a module"))

((call function: (_) @callee) @hit
 (#name? @callee "operator.attrgetter" "operator.methodcaller")
 (#dynamic-arg? @hit "0")
 (#rule! "py.reflect.attrgetter" medium "reflection" "reaches an attribute only known at run time"))

; class A: __match_args__ = ("__globals__",): case A(g) reads it
((assignment left: (identifier) @name right: (_) @value) @hit
 (#eq? @name "__match_args__")
 (#not-match? @value "^[(\\[]?(?:\\s*[\"'](?!(?:f|gi|cr|ag|tb|co)_)[A-Za-z]\\w*[\"']\\s*,?)*\\s*[)\\]]?$")
 (#rule! "py.reflect.match-args" high "reflection" "a match pattern may reach inner attributes"))

((call function: (_) @callee) @hit
 (#name? @callee "operator.attrgetter" "operator.methodcaller" "operator.itemgetter" "*.get_field")
 (#arg? @hit "*" "__|^(system|popen|eval|exec|fork|spawn\\w*|exec[lv]\\w*)$")
 (#rule! "py.reflect.operator" critical "reflection" "builds an access to an inner attribute"))

((attribute attribute: (identifier) @hit)
 (#any-of? @hit "__self__" "__spec__" "co_code" "co_consts" "gi_code" "cr_code" "__globals__"
  "__code__" "__subclasses__" "__builtins__" "__import__" "__loader__" "f_globals" "f_locals"
  "f_builtins" "f_back" "gi_frame" "cr_frame" "ag_frame" "tb_frame" "_getframe" "load_module"
  "exec_module" "find_spec" "create_module" "meta_path" "path_hooks")
 (#rule! "py.reflect.dunder" critical "reflection" "reaches inside functions, frames, classes"))

((attribute attribute: (identifier) @hit)
 (#any-of? @hit "__closure__" "cell_contents" "__getattribute__" "__func__" "__reduce__"
  "__reduce_ex__" "__wrapped__" "_Printer__filenames" "_Printer__lines" "_Printer__setup"
  "__base__")
 (#rule! "py.reflect.inner" medium "reflection" "reaches an inner attribute"))

([(subscript subscript: (_) @hit)
  (dict_pattern key: (_) @hit)
  (call function: (attribute attribute: (identifier) @method)
    arguments: (argument_list . (_) @hit))]
 (#any-of? @method "get" "pop" "setdefault" "__getitem__")
 (#string-match? @hit "^__(builtins|import|globals|subclasses|code|class|base|bases|mro|loader|spec|self|dict|getattribute)__$")
 (#rule! "py.reflect.item" critical "reflection" "looks up an inner name in a table"))

; globals() itself is harmless as timeit(…, globals=globals())
([(call function: (_) @callee) @call
  (call function: (_) @outer arguments: (argument_list (keyword_argument
    value: (call function: (_) @callee) @given)))]
 (#name? @callee "globals" "locals" "vars")
 (#not-in? @call "keyword_argument")
 (#no-arg? @call "0")
 (#no-arg? @given "0")
 (#not-name? @outer "timeit.timeit" "timeit.repeat" "timeit.Timer")
 (#rule! "py.reflect.globals" medium "reflection" "reads the table of all variables"))

((call function: (_) @callee) @hit
 (#name? @callee "sys._getframe" "sys._current_frames" "inspect.currentframe" "inspect.stack"
  "inspect.trace" "inspect.getouterframes" "inspect.getinnerframes" "gc.get_objects"
  "gc.get_referrers" "gc.get_referents")
 (#rule! "py.reflect.frames" critical "reflection" "looks into the memory of the interpreter"))

; The obj of a failed attribute access is an object that was not to be had by name.
([(call function: (_) @callee)
  (attribute) @error]
 (#name? @callee "inspect.getmembers" "inspect.getmembers_static" "inspect.getattr_static"
  "inspect.getclosurevars" "inspect.getsource" "inspect.getsourcelines" "inspect.getsourcefile")
 (#name? @error "AttributeError.obj" "NameError.obj" "Exception.obj" "BaseException.obj")
 (#rule! "py.reflect.inspect" medium "reflection" "takes objects out of others or out of errors"))

; "{0.__class__}".format(x), and "{0." + name + "}" put together at run time
([(call function: (attribute object: (_) @text attribute: (identifier) @method))
  (call function: (attribute object: (_) @built attribute: (identifier) @method))]
 (#any-of? @method "format" "format_map")
 (#string-match? @text "\\{[^{}]*(\\.|\\[)_")
 (#dynamic? @built)
 (#match? @built "\\{\\w*[.\\[]")
 (#rule! "py.reflect.format" high "reflection" "a format text reaches inner attributes"))

([(assignment left: (attribute attribute: (identifier) @name)) @hit
  (assignment left: (subscript value: (attribute attribute: (identifier) @name))) @hit]
 (#any-of? @name "__annotations__" "__class__" "__bases__" "__code__" "__builtins__")
 (#rule! "py.reflect.assign" medium "reflection" "changes the inside of an object or function"))

; case object(__globals__=g): a pattern reads attributes too
((keyword_pattern . (identifier) @hit)
 (#match? @hit "^__|^(gi|cr|tb|ag|f)_")
 (#rule! "py.reflect.match" critical "reflection" "a match pattern reaches inner attributes"))

; ---- programs and processes ----

((call function: (_) @callee arguments: [(argument_list . (_) @command) (_)]) @hit
 (#name? @callee "os.system" "os.popen" "posix.system" "nt.system" "*.os.system" "*._os.system"
  "*.os.popen" "*._os.popen" "platform.popen" "platform._syscmd_file" "uuid._get_command_stdout"
  "uuid._popen" "_osx_support._read_output" "subprocess.getoutput" "subprocess.getstatusoutput"
  "commands.getoutput" "commands.getstatusoutput" "*.posix.system")
 (#embedded! @command "shell")
 (#rule! "py.proc.shell" critical "process" "runs a shell command"))

((call function: (_) @callee) @hit
 (#name? @callee "os.execl" "os.execle" "os.execlp" "os.execlpe" "os.execv" "os.execve" "os.execvp"
  "os.execvpe" "os.spawnl" "os.spawnle" "os.spawnlp" "os.spawnlpe" "os.spawnv" "os.spawnve"
  "os.spawnvp" "os.spawnvpe" "os.posix_spawn" "os.posix_spawnp" "os.fork" "os.forkpty"
  "os.startfile" "posix.execv" "posix.execve" "posix.posix_spawn" "posix.posix_spawnp" "posix.fork"
  "posix.forkpty" "nt.execv" "nt.execve" "nt.spawnv" "nt.spawnve" "nt.startfile" "*.fork_exec"
  "*.os.fork" "*.os.execv" "*.os.execve" "*.os.execvp" "*.os.spawnv" "*.spawnv_passfds"
  "pydoc.pipepager" "pydoc.tempfilepager" "pydoc.pager" "pydoc.getpager" "pydoc.browse" "popen"
  "*.popen" "Popen" "*.Popen" "popen2" "popen3" "*.popen2" "*.popen3" "*.create_subprocess_exec"
  "*.create_subprocess_shell" "*.subprocess_exec" "*.subprocess_shell" "asyncio.subprocess.*"
  "anyio.run_process" "anyio.open_process" "trio.run_process")
 (#rule! "py.proc.start" critical "process" "starts a program or another process"))

((attribute) @hit
 (#name? @hit "subprocess.*" "_posixsubprocess.*" "_winapi.*" "*.subprocess.*")
 (#rule! "py.proc.subprocess" critical "process" "starts a program"))

([(import_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement module_name: (dotted_name) @module)]
 (#name? @module "subprocess" "subprocess.*" "_posixsubprocess" "_posixsubprocess.*" "_winapi"
  "asyncio.subprocess" "asyncio.subprocess.*" "popen2" "commands" "commands.*"
  "asyncio.create_subprocess_exec" "asyncio.create_subprocess_shell" "os.system" "os.popen")
 (#rule! "py.proc.subprocess-import" critical "process" "imports what starts programs"))

([(import_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement module_name: (dotted_name) @module)
  (attribute) @module]
 (#name? @module "*.ProcessPoolExecutor" "multiprocessing" "multiprocessing.*" "multiprocess" "multiprocess.*"
  "concurrent.futures.ProcessPoolExecutor" "concurrent.futures.process" "billiard" "billiard.*"
  "_multiprocessing" "celery" "celery.*" "ray" "ray.*" "dask.distributed" "dask.distributed.*")
 (#rule! "py.proc.multiprocessing" high "process" "starts more processes of Python"))

([(import_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement module_name: (dotted_name) @module)]
 (#name? @module "pty" "pty.*" "tty" "tty.*" "pipes" "pipes.*" "mailcap" "mailcap.*"
  "_bootsubprocess" "_bootsubprocess.*" "_osx_support" "_osx_support.*" "_aix_support"
  "_aix_support.*" "idlelib" "idlelib.*" "pexpect" "pexpect.*" "ptyprocess" "ptyprocess.*" "sh"
  "sh.*" "plumbum" "plumbum.*" "invoke" "invoke.*" "delegator" "envoy" "xonsh" "xonsh.*" "sarge"
  "sarge.*" "pip" "pip.*" "ensurepip" "ensurepip.*" "distutils" "distutils.*" "setuptools"
  "setuptools.*" "test.support" "test.support.*" "wmi" "win32com" "win32com.*" "win32api"
  "win32process" "winpty" "executor" "executor.*" "cython" "cython.*" "Cython" "Cython.*" "weave"
  "scipy.weave")
 (#rule! "py.proc.library" critical "process" "imports a library that starts programs"))

((call function: (_) @callee) @hit
 (#name? @callee "os.kill" "os.killpg" "os.abort" "os._exit" "signal.pthread_kill"
  "signal.raise_signal" "posix.kill" "posix.killpg" "posix._exit" "*.send_signal" "*.os.kill"
  "psutil.Process().kill" "psutil.Process().terminate")
 (#rule! "py.proc.kill" high "process" "sends signals to processes"))

; ---- files ----

; open(x, "w"), open(x, mode="w"), path.open("w")
([(call function: (_) @callee) @second
  (call function: (_) @any) @keyword
  (call function: (attribute attribute: (identifier) @method)) @first]
 (#name? @callee "open" "io.open" "_io.open" "codecs.open" "os.fdopen" "gzip.open" "bz2.open"
  "lzma.open" "tarfile.open" "zipfile.ZipFile" "tarfile.TarFile" "wave.open" "aiofiles.open"
  "gzip.GzipFile" "bz2.BZ2File" "lzma.LZMAFile" "h5py.File" "*.codecs.open" "*.io.open"
  "*.builtins.open" "_pyio.open")
 (#arg? @second "1" "^[rbtU]*[wax+n]")
 (#name? @any "open" "*.open" "*.ZipFile" "*.TarFile" "*.GzipFile" "*.BZ2File" "*.LZMAFile"
  "h5py.File" "*.memmap")
 (#arg? @keyword "k=mode" "^[rbtU]*[wax+]")
 (#eq? @method "open")
 (#arg? @first "0" "^[rbt]*[wax+][rbt+]*$")
 (#rule! "py.file.open-write" high "files" "opens a file for writing"))

((call function: (_) @callee) @hit
 (#name? @callee "open" "io.open" "_io.open" "codecs.open")
 (#dynamic-arg? @hit "1")
 (#rule! "py.file.open-unknown" high "files" "opens a file in a way that is not known"))

([(call function: (_) @callee)
  (call function: (attribute attribute: (identifier) @method)) @call]
 (#name? @callee "open" "io.open" "_io.open" "codecs.open" "gzip.open" "bz2.open" "lzma.open"
  "gzip.GzipFile" "bz2.BZ2File" "lzma.LZMAFile" "io.open_code" "os.fdopen" "argparse.FileType"
  "argparse.FileType()" "tokenize.open" "*.linecache.getline" "*.linecache.getlines"
  "aiofiles.open" "h5py.File" "wave.open" "*.codecs.open" "*.io.open" "_pyio.open"
  "*.builtins.open" "PIL.Image.open" "pathlib.Path().open" "netCDF4.Dataset")
 (#eq? @method "open")
 (#arg? @call "0" "[./~]")
 (#rule! "py.file.open-read" medium "files" "opens a file"))

; A file that a program has no business with, whatever is done to it.
([(argument_list [(string) (concatenated_string)] @hit)
  (keyword_argument value: [(string) (concatenated_string)] @hit)
  (assignment right: [(string) (concatenated_string)] @hit)
  (list [(string) (concatenated_string)] @hit)
  (tuple [(string) (concatenated_string)] @hit)
  (binary_operator [(string) (concatenated_string)] @hit)]
 (#string-match? @hit "^(file://)?/(etc|proc|root|sys|dev|boot)(/|$)|\\.ssh/|\\.aws/|\\bid_(rsa|ed25519)\\b|/\\.env$|^~/")
 (#rule! "py.file.sensitive" medium "files" "names a file of the system or of its user"))

; to_csv(path_or_buf="…"), savefig(fname="…")
((keyword_argument name: (identifier) @name value: (_) @value) @hit
 (#any-of? @name "path_or_buf" "filepath_or_buffer" "fname" "excel_writer" "filename" "filepath"
  "file_path" "save_path" "output_path" "out_file" "outfile" "output_file" "fp" "log_file"
  "logfile")
 (#string-match? @value "^[^\\n]{1,255}$")
 (#rule! "py.file.named" medium "files" "names a file to read or write"))

((identifier) @hit
 (#eq? @hit "open")
 (#read? @hit)
 (#name? @hit "open")
 (#rule! "py.file.open-value" medium "files" "passes on the function that opens files"))

((call function: (attribute object: (_) @object attribute: (identifier) @method) @callee) @hit
 (#any-of? @method "write" "writelines")
 (#not-name? @object "io.StringIO()" "io.BytesIO()" "StringIO()")
 (#not-own? @callee)
 (#rule! "py.file.write-method" high "files" "writes to a file or stream"))

((call function: (attribute object: (_) @object attribute: (identifier) @method) @callee) @hit
 (#not-name? @object "io.StringIO()" "io.BytesIO()" "StringIO()")
 (#not-own? @callee)
 (#any-of? @method "read" "readline" "readlines" "readinto" "read_until")
 (#rule! "py.file.read-method" medium "files" "reads from a file or stream"))

; (folder / "name").mkdir() is a path, whatever folder is
([(call function: (_) @callee)
  (call function: (attribute
    object: (parenthesized_expression (binary_operator)) attribute: (identifier) @method))]
 (#name? @callee "*.extractall" "zipfile.ZipFile().extract" "tarfile.open().extract" "*.write_text"
  "*.write_bytes" "*.unlink" "pathlib.Path().rmdir" "pathlib.Path().mkdir"
  "*.symlink_to" "*.hardlink_to" "*.link_to" "*.lchmod" "*.rmtree" "pathlib.Path().touch"
  "pathlib.PosixPath().touch" "pathlib.WindowsPath().touch" "pathlib.Path().rename"
  "pathlib.Path().replace" "pathlib.Path().chmod")
 (#not-match? @callee "^(self|cls)\\.\\w+$")
 (#any-of? @method "mkdir" "rmdir" "touch" "unlink" "chmod" "symlink_to")
 (#rule! "py.file.path-write" high "files" "changes files or folders"))

((call function: (_) @callee) @hit
 (#name? @callee "*.read_text" "*.read_bytes" "*.iterdir" "*.rglob" "pathlib.Path().glob"
  "pathlib.Path().stat" "pathlib.Path().exists" "pathlib.Path().is_file" "pathlib.Path().is_dir"
  "pathlib.Path().resolve" "pathlib.Path().owner" "pathlib.Path.home" "pathlib.Path.cwd"
  "pathlib.Path().expanduser" "pathlib.Path().samefile" "pathlib.Path().walk")
 (#rule! "py.file.path-read" medium "files" "reads files or folders"))

([(import_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement module_name: (dotted_name) @module)]
 (#name? @module "pathlib" "pathlib.Path" "pathlib.PosixPath" "pathlib.WindowsPath" "glob" "glob.*"
  "imghdr" "imghdr.*" "sndhdr" "sndhdr.*" "aifc" "aifc.*" "sunau" "sunau.*" "pyclbr" "pyclbr.*"
  "tabnanny" "tabnanny.*" "fileinput" "fileinput.*" "linecache" "linecache.*" "filecmp" "filecmp.*"
  "mailbox" "mailbox.*" "netrc" "netrc.*" "zipfile" "zipfile.*" "tarfile" "tarfile.*" "genericpath"
  "genericpath.*" "posixpath" "posixpath.*" "ntpath" "ntpath.*" "wave" "wave.*" "fsspec" "fsspec.*"
  "aiofiles" "aiofiles.*" "watchdog" "watchdog.*" "importlib.metadata" "importlib.resources" "h5py"
  "h5py.*" "openpyxl" "openpyxl.*" "xlrd" "docx" "PyPDF2" "pypdf")
 (#rule! "py.file.list" medium "files" "imports a module that looks at files"))

([(import_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement module_name: (dotted_name) @module)]
 (#name? @module "tempfile" "tempfile.*" "uu" "uu.*" "lib2to3" "lib2to3.*" "dbm" "dbm.*" "venv"
  "venv.*" "zipapp" "py_compile" "py_compile.*" "compileall" "compileall.*" "readline" "readline.*"
  "git" "git.*" "crontab" "crontab.*" "_gdbm" "_dbm" "pyminizip")
 (#rule! "py.file.temp" high "files" "imports a module that makes files"))

((call function: (_) @callee) @hit
 (#name? @callee "io.FileIO" "_io.FileIO" "_pyio.FileIO" "io.open_code" "_io.open_code"
  "_pyio.open_code" "*.FileIO" "os.remove" "os.unlink" "os.rmdir" "os.removedirs" "os.rename"
  "os.renames" "os.replace" "os.mkdir" "os.makedirs" "os.chmod" "os.chown" "os.lchown" "os.link"
  "os.symlink" "os.truncate" "os.ftruncate" "os.write" "os.open" "os.mkfifo" "os.mknod"
  "os.sendfile" "os.copy_file_range" "os.utime" "os.setxattr" "os.removexattr" "posix.open"
  "posix.write" "posix.unlink" "posix.remove" "posix.rename" "posix.mkdir" "posix.rmdir"
  "*.os.remove" "*.os.unlink" "*.os.open" "*.os.rename" "*.os.makedirs" "*.os.write")
 (#rule! "py.file.os-write" high "files" "opens or changes files below the usual functions"))

([(call function: (_) @callee)
  (call function: (_) @basic) @call]
 (#name? @callee "logging.FileHandler" "logging.handlers.*" "logging.config.dictConfig"
  "logging.config.fileConfig" "logging.config.listen" "faulthandler.enable" "faulthandler.register"
  "faulthandler.dump_traceback_later")
 (#name? @basic "logging.basicConfig")
 (#not-no-arg? @call "k=filename")
 (#rule! "py.file.logging" high "files" "sends the log to a file or over the network"))

; ---- data in files ----

((call function: (_) @callee arguments: (argument_list . (_) @from)) @hit
 (#name? @callee "*.read_csv" "*.read_table" "*.read_fwf" "*.read_excel" "*.read_json" "*.read_html"
  "*.read_xml" "*.read_parquet" "*.read_feather" "*.read_orc" "*.read_sas" "*.read_spss"
  "*.read_stata" "*.read_sql" "*.read_sql_query" "*.read_sql_table" "*.read_hdf" "*.read_gbq"
  "*.read_clipboard" "*.scan_csv" "*.scan_parquet" "*.read_ipc" "*.read_avro" "*.loadtxt"
  "*.genfromtxt" "*.fromfile" "*.memmap" "*.imread" "*.loadmat" "*.VideoCapture" "*.load_workbook"
  "*.load_dataset" "*.from_pretrained" "*.fetch_openml" "*.fetch_california_housing"
  "*.fetch_20newsgroups" "*.fetch_olivetti_faces" "*.fetch_lfw_people" "*.fetch_covtype"
  "nltk.download" "tensorflow.keras.datasets.*" "keras.datasets.*" "torchvision.datasets.*"
  "numpy.load" "PIL.Image.open" "soundfile.read" "librosa.load" "scipy.io.wavfile.read")
 (#not-name? @from "io.StringIO()" "io.BytesIO()" "StringIO()")
 (#rule! "py.data.read" medium "files" "reads data from a file or an address"))

; to_csv() without a target gives a text back
([(call function: (_) @callee arguments: (argument_list
    . [(string) (concatenated_string) (identifier) (attribute) (call) (binary_operator)
       (subscript)] @to))
  (call function: (attribute attribute: (identifier) @method)
    arguments: (argument_list . (_) @file))]
 (#name? @callee "*.to_csv" "*.to_json" "*.to_excel" "*.to_parquet" "*.to_feather" "*.to_hdf"
  "*.to_stata" "*.to_pickle" "*.to_sql" "*.to_html" "*.to_latex" "*.to_xml" "*.to_orc"
  "*.write_csv" "*.write_parquet" "*.write_json" "*.write_excel" "*.write_ipc" "*.write_html"
  "*.write_image" "*.savefig" "*.imsave" "*.imwrite" "*.tofile" "*.savemat" "*.to_file"
  "*.save_pretrained" "*.save_model" "*.write_gexf" "*.write_graphml" "*.write_videofile"
  "numpy.save" "numpy.savez" "numpy.savez_compressed" "*.savetxt" "*.dump_stats" "torch.save"
  "joblib.dump" "pickle.dump" "cv2.VideoWriter" "soundfile.write" "*.mimsave"
  "scipy.io.wavfile.write" "xlsxwriter.Workbook" "pandas.ExcelWriter" "pandas.HDFStore")
 (#not-name? @to "io.StringIO()" "io.BytesIO()" "StringIO()")
 (#any-of? @method "save" "export" "save_to_file")
 (#string-match? @file ".")
 (#rule! "py.data.write" high "files" "writes data to a file"))

((call function: (_) @callee arguments: (argument_list . (_) @to)) @hit
 (#name? @callee "sqlite3.connect" "sqlite3.Connection" "sqlite3.dbapi2.connect" "sqlite3.dbapi2.Connection"
  "_sqlite3.connect" "_sqlite3.Connection" "duckdb.connect"
  "apsw.Connection" "aiosqlite.connect")
 (#not-string? @to ":memory:")
 (#rule! "py.data.database" high "files" "opens a database file"))

((call function: (attribute attribute: (identifier) @method)) @hit
 (#any-of? @method "execute" "executescript" "executemany" "sql")
 (#arg? @hit "0" "(?i)(?:^|;|\\*/|\\n)\\s*attach\\b|\\bload_extension\\s*\\(|\\bvacuum\\s+into\\b|\\bcopy\\s.*\\bto\\b")
 (#rule! "py.data.attach" high "files" "a statement makes the database write a file"))

; ---- network ----

([(import_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement module_name: (dotted_name) @module)
  (import_statement name: [(dotted_name) (aliased_import)] @top)]
 (#name? @top "urllib")
 (#not-name? @module "urllib.parse" "urllib.parse.*")
 (#name? @module "requests" "requests.*" "urllib.*" "six.moves.urllib" "six.moves.urllib.*"
  "httpx" "httpx.*" "aiohttp" "aiohttp.*" "urllib3" "urllib3.*" "urllib2" "urllib2.*" "httplib"
  "httplib2" "httplib2.*" "pycurl" "pycurl.*" "wget" "wget.*" "treq" "grequests" "requests_html"
  "requests_toolbelt" "feedparser" "feedparser.*" "niquests" "niquests.*" "curl_cffi" "curl_cffi.*"
  "cloudscraper" "yfinance" "yfinance.*" "scrapy" "scrapy.*" "pandas_datareader" "wikipedia"
  "geopy.geocoders" "gdown" "gdown.*" "youtube_dl" "yt_dlp" "yt_dlp.*")
 (#rule! "py.net.http-client" high "network" "talks HTTP"))

([(import_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement module_name: (dotted_name) @module)]
 (#name? @module "socket" "socket.*" "_socket" "_socket.*" "ssl" "ssl.*" "_ssl" "_ssl.*"
  "socketserver" "socketserver.*" "*.socket.socket" "*.socket.create_connection" "select.epoll"
  "selectors" "selectors.*" "zmq" "zmq.*" "scapy" "scapy.*" "dns" "dns.*" "dpkt" "pcap")
 (#rule! "py.net.socket" high "network" "opens network connections"))

([(import_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement module_name: (dotted_name) @module)]
 (#name? @module "http.client" "http.client.*" "http.cookiejar" "http.cookiejar.*" "ftplib"
  "ftplib.*" "smtplib" "smtplib.*" "poplib" "poplib.*" "imaplib" "imaplib.*" "nntplib" "nntplib.*"
  "telnetlib" "telnetlib.*" "xmlrpc" "xmlrpc.*" "asyncore" "asyncore.*" "asynchat" "asynchat.*"
  "smtpd" "smtpd.*" "webbrowser" "webbrowser.*" "antigravity" "logging.handlers.*" "websocket"
  "websocket.*" "websockets" "websockets.*" "socketio" "socketio.*" "grpc" "grpc.*" "paho" "paho.*"
  "pika" "pika.*" "kafka" "kafka.*" "nats" "telegram" "telegram.*" "discord" "discord.*"
  "slack_sdk" "slack_sdk.*" "twilio" "twilio.*" "tweepy" "tweepy.*" "yagmail" "aiosmtplib"
  "turtledemo")
 (#not-name? @module "logging.handlers.QueueHandler" "logging.handlers.MemoryHandler")
 (#rule! "py.net.stdlib" high "network" "talks to other machines"))

([(import_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement module_name: (dotted_name) @module)]
 (#name? @module "http.server" "http.server.*" "wsgiref" "wsgiref.*" "flask" "flask.*" "fastapi"
  "fastapi.*" "uvicorn" "uvicorn.*" "django" "django.*" "tornado" "tornado.*" "bottle" "bottle.*"
  "sanic" "sanic.*" "starlette" "starlette.*" "gunicorn" "gunicorn.*" "waitress" "quart" "cherrypy"
  "twisted" "twisted.*" "hypercorn" "dash" "dash.*" "streamlit" "streamlit.*" "gradio" "gradio.*"
  "pyramid" "pyramid.*" "falcon" "falcon.*" "werkzeug" "werkzeug.*" "aiohttp.web")
 (#rule! "py.net.server" high "network" "serves on the network"))

((call function: (_) @callee) @hit
 (#name? @callee "asyncio.open_connection" "asyncio.start_server" "asyncio.open_unix_connection"
  "asyncio.start_unix_server" "*.open_connection" "*.create_connection" "*.create_server"
  "*.create_unix_connection" "*.create_unix_server" "*.create_datagram_endpoint" "*.start_server"
  "*.sock_connect" "anyio.connect_tcp" "trio.open_tcp_stream")
 (#rule! "py.net.asyncio" high "network" "opens network connections"))

([(import_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement module_name: (dotted_name) @module)]
 (#name? @module "paramiko" "paramiko.*" "fabric" "fabric.*" "asyncssh" "asyncssh.*" "netmiko"
  "netmiko.*" "docker" "docker.*" "kubernetes" "kubernetes.*" "ansible" "ansible.*" "pyssh"
  "impacket" "impacket.*" "ldap3" "ldap3.*" "smb" "smb.*" "pysftp" "selenium" "selenium.*"
  "playwright" "playwright.*" "pyppeteer" "pyppeteer.*" "mechanize" "helium" "nmap" "shodan" "pwn"
  "pwn.*" "libvirt" "pyvirtualdisplay")
 (#rule! "py.net.remote" high "network" "controls other machines or a browser"))

([(import_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement module_name: (dotted_name) @module)]
 (#name? @module "boto3" "boto3.*" "botocore" "botocore.*" "google.cloud" "google.cloud.*"
  "googleapiclient" "googleapiclient.*" "google.generativeai" "google.oauth2.*" "azure" "azure.*"
  "openai" "openai.*" "anthropic" "anthropic.*" "huggingface_hub" "huggingface_hub.*" "minio"
  "minio.*" "s3fs" "gcsfs" "dropbox" "dropbox.*" "github" "github.*" "gitlab" "stripe" "stripe.*"
  "cohere" "replicate" "langchain" "langchain.*" "langchain_openai" "sendgrid" "sendgrid.*" "wandb"
  "wandb.*" "mlflow" "mlflow.*" "kaggle" "gspread" "gspread.*")
 (#rule! "py.net.cloud" high "network" "talks to a cloud service"))

([(import_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement module_name: (dotted_name) @module)]
 (#name? @module "psycopg2" "psycopg2.*" "psycopg" "psycopg.*" "asyncpg" "asyncpg.*" "pymysql"
  "pymysql.*" "MySQLdb" "MySQLdb.*" "mysql" "mysql.*" "aiomysql" "pymongo" "pymongo.*" "motor"
  "motor.*" "redis" "redis.*" "aioredis" "cx_Oracle" "oracledb" "pyodbc" "pymssql" "sqlalchemy"
  "sqlalchemy.*" "elasticsearch" "elasticsearch.*" "cassandra" "cassandra.*" "neo4j" "neo4j.*"
  "influxdb" "influxdb_client" "clickhouse_driver" "snowflake" "snowflake.*" "peewee" "peewee.*"
  "tortoise" "tortoise.*" "pymemcache" "sqlmodel" "sqlmodel.*")
 (#rule! "py.net.database" high "network" "talks to a database"))

; ---- data that becomes objects ----

([(import_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement module_name: (dotted_name) @module)]
 (#name? @module "pickle" "pickle.*" "_pickle" "_pickle.*" "cPickle" "cPickle.*" "marshal"
  "marshal.*" "shelve" "shelve.*" "dill" "dill.*" "cloudpickle" "cloudpickle.*" "jsonpickle"
  "jsonpickle.*" "pickletools" "pickletools.*" "copyreg" "copyreg.*" "joblib" "joblib.*" "hickle"
  "pyarrow.serialize")
 (#not-name? @module "joblib.Parallel" "joblib.delayed" "joblib.hash")
 (#rule! "py.deserialize.import" high "deserialization" "can turn data into running code"))

((call function: (_) @callee) @hit
 (#name? @callee "pickle.load" "pickle.loads" "pickle.Unpickler" "_pickle.load" "_pickle.loads"
  "_pickle.Unpickler" "cPickle.load" "cPickle.loads" "dill.load" "dill.loads" "cloudpickle.load"
  "cloudpickle.loads" "jsonpickle.decode" "jsonpickle.loads" "marshal.load" "marshal.loads"
  "pstats.Stats" "tracemalloc.Snapshot.load" "shelve.open" "pandas.read_pickle" "joblib.load"
  "*.read_pickle" "*.pickle.loads")
 (#rule! "py.deserialize.pickle" critical "deserialization" "turns data into running code"))

; Models may carry code; data files may when they are told to.
([(call function: (_) @callee)
  (call function: (_) @loader) @call]
 (#name? @callee "torch.load" "torch.hub.load" "torch.jit.load" "*.models.load_model"
  "tensorflow.saved_model.load" "mlflow.pyfunc.load_model" "*.load_model"
  "*.load_state_dict_from_url")
 (#name? @loader "numpy.load" "*.from_pretrained" "*.load_dataset")
 (#arg? @call "*" "^True$")
 (#rule! "py.deserialize.model" high "deserialization" "loads a model or data that may carry code"))

((call function: (_) @callee arguments: (argument_list) @all) @hit
 (#name? @callee "yaml.load" "yaml.load_all" "yaml.unsafe_load" "yaml.unsafe_load_all"
  "yaml.full_load" "yaml.full_load_all" "ruamel.yaml.load" "yaml.UnsafeLoader" "yaml.FullLoader")
 (#not-match? @all "\\bC?SafeLoader\\b")
 (#rule! "py.deserialize.yaml" high "deserialization" "YAML may name objects to make"))

((function_definition name: (identifier) @hit)
 (#any-of? @hit "__reduce__" "__reduce_ex__" "__setstate__" "__getnewargs_ex__")
 (#rule! "py.deserialize.reduce" medium "deserialization" "says what happens when it is unpickled"))

; ---- formats from outside ----

([(call function: (_) @name) @hit
  (import_from_statement name: [(dotted_name) (aliased_import)] @name) @hit]
 (#name? @name "json.load" "json.loads" "json.JSONDecoder" "simplejson.load" "simplejson.loads"
  "ujson.load" "ujson.loads" "orjson.loads" "rapidjson.loads" "demjson3.decode")
 (#rule! "py.parse.json" medium "parsing" "parses JSON"))

((call function: (_) @callee) @hit
 (#name? @callee "yaml.safe_load" "yaml.safe_load_all" "yaml.load" "tomllib.load" "tomllib.loads"
  "tomli.loads" "toml.loads" "toml.load" "configparser.ConfigParser" "configparser.RawConfigParser"
  "plistlib.load" "plistlib.loads" "xml.etree.ElementTree.parse" "xml.etree.ElementTree.iterparse"
  "xml.etree.ElementTree.fromstring" "xml.etree.ElementTree.XML" "xml.dom.minidom.parse"
  "xml.dom.minidom.parseString" "xml.dom.pulldom.parse" "xml.sax.parse" "xml.sax.parseString"
  "xml.sax.make_parser" "lxml.etree.parse" "lxml.etree.fromstring" "lxml.etree.XML"
  "lxml.html.parse" "lxml.html.fromstring" "xmltodict.parse" "defusedxml.*" "msgpack.unpackb"
  "cbor2.loads" "bson.loads" "email.message_from_file" "email.message_from_binary_file"
  "hcl2.loads" "json5.loads" "xml.parsers.expat.ParserCreate")
 (#rule! "py.parse.format" medium "parsing" "parses a format from outside"))

((call function: (_) @callee) @hit
 (#name? @callee "*.setFeature" "lxml.etree.XMLParser" "*.XMLParser")
 (#arg? @hit "*" "external-.*-entities|^True$")
 (#rule! "py.parse.xml-entities" high "parsing" "XML may include other files"))

; ---- environment and system ----

([(attribute) @hit
  (import_from_statement name: [(dotted_name) (aliased_import)] @hit)]
 (#name? @hit "os.environ" "os.environb" "os.getenv" "os.getenvb" "posix.environ" "*.os.environ"
  "*._os.environ" "*.os.getenv")
 (#rule! "py.env.read" medium "environment" "reads the environment"))

([(assignment left: (subscript value: (_) @table))
  (delete_statement (subscript value: (_) @table))
  (augmented_assignment left: (subscript value: (_) @table))
  (assignment left: (attribute object: (_) @module))
  (delete_statement (attribute object: (_) @module))
  (delete_statement (expression_list (attribute object: (_) @module)))
  (call function: (identifier) @function arguments: (argument_list . (_) @module))]
 (#name? @table "os.environ" "os.environb" "sys.modules" "sys.path" "sys.path_hooks")
 (#name? @module "__main__" "builtins" "sys" "os")
 (#any-of? @function "setattr" "delattr")
 (#rule! "py.env.write" high "environment" "changes the environment or a system module"))

([(import_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement module_name: (dotted_name) @module)]
 (#name? @module "platform" "platform.*" "pdb" "pdb.*" "code" "code.*" "codeop" "codeop.*"
  "rlcompleter" "rlcompleter.*" "getpass" "getpass.*" "dotenv" "dotenv.*" "decouple" "environs"
  "sysconfig" "sysconfig.*" "signal" "signal.*" "faulthandler" "faulthandler.*" "tkinter"
  "tkinter.*" "pyperclip" "pyperclip.*" "keyring" "keyring.*" "locale.*" "zoneinfo._tzpath" "trace"
  "trace.*" "pydoc" "pydoc.*" "bdb" "bdb.*" "distro" "cpuinfo" "GPUtil")
 (#rule! "py.env.import" medium "environment" "imports what tells about user, machine or session"))

([(import_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement module_name: (dotted_name) @module)]
 (#name? @module "os" "os.*" "sys" "sys.*" "posix" "posix.*" "nt" "nt.*" "_os" "psutil" "psutil.*"
  "pynvml" "pynvml.*" "shutil" "shutil.*" "send2trash" "_posixshmem" "_overlapped" "_curses"
  "_scproxy" "mmap" "mmap.*" "fcntl" "fcntl.*" "resource" "resource.*" "pwd" "pwd.*" "grp" "grp.*"
  "spwd" "spwd.*" "crypt" "syslog" "syslog.*" "termios" "termios.*" "curses" "curses.*" "winreg"
  "winreg.*" "_winreg" "msvcrt" "msvcrt.*" "site" "site.*" "usercustomize" "sitecustomize"
  "_thread" "_io" "_io.*" "_pyio" "_pyio.*" "_signal" "_sqlite3" "nis" "ossaudiodev" "systemd"
  "systemd.*" "dbus" "dbus.*" "serial" "serial.*" "usb" "usb.*" "RPi" "RPi.*" "pyudev" "_tkinter"
  "select" "select.*")
 (#rule! "py.system.import" high "system" "imports a module that reaches the operating system"))

; The modules themselves, however they were reached.
((attribute) @hit
 (#name? @hit "shutil.*" "requests.get" "requests.post" "requests.put" "requests.patch"
  "requests.delete" "requests.head" "requests.options" "requests.request" "requests.Session"
  "requests.session" "requests.Session().*" "urllib.*" "socket.socket" "socket.socket().*"
  "socket.create_connection" "socket.create_server" "socket.gethostbyname" "socket.gethostname"
  "socket.getaddrinfo" "socket.socketpair" "socket.fromfd" "socket.AF_INET" "socket.SOCK_STREAM"
  "_socket.*" "http.client.*" "*.socket.socket" "*.socket.create_connection")
 (#not-name? @hit "urllib.parse" "urllib.parse.*")
 (#rule! "py.system.use" high "system" "uses a module that changes files or talks to the network"))

; What is not in this list of harmless modules, and those that other rules name, could be anything.
([(import_statement name: (dotted_name . (identifier) @first))
  (import_statement name: (aliased_import name: (dotted_name . (identifier) @first)))
  (import_from_statement module_name: (dotted_name . (identifier) @first))
  (import_from_statement module_name: (relative_import))] @hit
 (#not-any-of? @first "Bio" "Crypto" "IPython" "Levenshtein" "PIL" "__future__" "__main__"
  "_collections_abc" "abc" "aifc" "altair" "antigravity" "anyio" "argparse" "array" "arrow" "arviz"
  "ast" "astropy" "asynchat" "asyncio" "asyncore" "atexit" "attr" "attrs" "audioop" "babel"
  "base64" "bcrypt" "bdb" "binascii" "bisect" "bitarray" "bokeh" "bs4" "builtins" "bz2" "cProfile"
  "cachetools" "calendar" "catboost" "cgi" "cgitb" "chunk" "click" "cmath" "cmd" "code" "codecs"
  "codeop" "collections" "colorama" "colorsys" "compileall" "concurrent" "configparser"
  "contextlib" "contextvars" "copy" "copyreg" "crypt" "cryptography" "csv" "ctypes" "curses" "cv2"
  "cvxpy" "dask" "dataclasses" "datasets" "datetime" "dateutil" "dbm" "deap" "decimal" "difflib"
  "dis" "distutils" "doctest" "einops" "email" "emoji" "encodings" "ensurepip" "enum" "errno"
  "faker" "faulthandler" "fcntl" "filecmp" "fileinput" "flax" "fnmatch" "fractions" "ftplib"
  "functools" "gc" "genericpath" "gensim" "geopandas" "getopt" "getpass" "gettext" "glob" "gmpy2"
  "graphlib" "grp" "gym" "gymnasium" "gzip" "h5py" "hashlib" "heapq" "hmac" "holidays" "html"
  "html5lib" "http" "humanize" "hypothesis" "idlelib" "igraph" "imageio" "imaplib" "imblearn"
  "imghdr" "imp" "importlib" "inflect" "inspect" "io" "ipaddress" "ipywidgets" "itertools" "jax"
  "jellyfish" "jinja2" "joblib" "json" "jwt" "keras" "keyword" "lark" "lib2to3" "librosa"
  "lifelines" "lightgbm" "linecache" "locale" "logging" "loguru" "lxml" "lz4" "lzma" "mailbox"
  "mailcap" "markdown" "marshal" "marshmallow" "math" "matplotlib" "mimetypes" "mlxtend" "mmap"
  "mock" "modulefinder" "more_itertools" "mpl_toolkits" "mpmath" "msgpack" "msilib" "msvcrt"
  "multiprocessing" "nacl" "netrc" "networkx" "nis" "nltk" "nntplib" "nt" "ntpath" "nturl2path"
  "num2words" "numba" "numbers" "numexpr" "numpy" "opcode" "openpyxl" "operator" "optax" "optparse"
  "optuna" "orjson" "ortools" "os" "ossaudiodev" "pandas" "pathlib" "pdb" "pendulum" "pickle"
  "pickletools" "pint" "pipes" "pkgutil" "platform" "plistlib" "plotly" "polars" "poplib" "posix"
  "posixpath" "pprint" "prettytable" "profile" "prophet" "pstats" "pty" "pulp" "pwd" "py_compile"
  "pyarrow" "pyclbr" "pydantic" "pydoc" "pydoc_data" "pyexpat" "pyfiglet" "pygame" "pymc" "pyomo"
  "pyparsing" "pyproj" "pytest" "pytz" "pywt" "qiskit" "queue" "quopri" "random" "rapidfuzz"
  "rdkit" "re" "readline" "regex" "reprlib" "resource" "rich" "rlcompleter" "runpy" "sched" "scipy"
  "seaborn" "secrets" "select" "selectors" "shap" "shapely" "shelve" "shlex" "shutil" "signal"
  "simplejson" "simpy" "site" "six" "skimage" "sklearn" "sktime" "smtpd" "smtplib" "sndhdr"
  "socket" "socketserver" "sortedcontainers" "soundfile" "spacy" "spwd" "sqlite3" "sqlparse"
  "sre_compile" "sre_constants" "sre_parse" "ssl" "stat" "statistics" "statsmodels" "string"
  "stringprep" "struct" "subprocess" "sunau" "sympy" "symtable" "sys" "sysconfig" "syslog"
  "tabnanny" "tabulate" "tarfile" "telnetlib" "tempfile" "tenacity" "tensorflow" "termcolor"
  "termios" "textblob" "textwrap" "this" "threading" "time" "timeit" "tkinter" "token" "tokenize"
  "tokenizers" "toml" "tomli" "tomllib" "toolz" "torch" "torchaudio" "torchvision" "tqdm" "trace"
  "traceback" "tracemalloc" "transformers" "trio" "tty" "turtle" "turtledemo" "typer" "types"
  "typing" "typing_extensions" "ujson" "umap" "uncertainties" "unicodedata" "unidecode" "unittest"
  "urllib" "uu" "uuid" "venv" "warnings" "wave" "weakref" "webbrowser" "winreg" "winsound"
  "wordcloud" "wsgiref" "xarray" "xdrlib" "xgboost" "xml" "xmlrpc" "yaml" "zipapp" "zipfile"
  "zipimport" "zlib" "zoneinfo" "zstandard")
 (#rule! "py.system.unknown" medium "system" "imports a module that is not known"))

; logging.os, random._os, from contextlib import os: system modules by a side door
([(attribute) @module
  (import_from_statement name: [(dotted_name) (aliased_import)] @module)
  (call function: (_) @callee)]
 (#name? @module "*._os" "*._sys" "*.sys.modules" "*.sys._getframe" "*.os.system"
  "*._posixsubprocess" "*.bltns" "*._io" "*._builtins" "*._bootstrap" "*._bootstrap_external"
  "*._imp" "*._winapi" "*._thread")
 (#name? @callee "*.sys.modules.*" "*._sys.modules.*" "sys.modules.*" "sys.addaudithook"
  "sys.setdlopenflags" "sys.modules.get" "*.meta_path.*")
 (#rule! "py.system.via-private" critical "system" "takes a system module out of another one"))

([(attribute object: (_) @owner attribute: (identifier) @inner) @hit
  (import_from_statement name: [(dotted_name) (aliased_import)] @taken) @hit]
 (#any-of? @inner "os" "sys" "subprocess" "builtins" "posix" "shutil" "socket" "importlib" "ctypes"
  "tempfile" "linecache" "pickle" "signal" "fcntl" "mmap" "runpy" "pty" "select" "urllib")
 (#module? @owner)
 (#not-name? @hit "numpy.select" "polars.select" "sqlalchemy.select" "scipy.signal" "torch.signal"
  "tensorflow.signal" "jax.numpy.select" "jax.scipy.signal")
 (#name? @taken "*.os" "*.sys" "*.subprocess" "*.builtins" "*.posix" "*.shutil" "*.socket"
  "*.importlib" "*.ctypes" "*.tempfile" "*.linecache" "*.pickle" "*.fcntl" "*.mmap" "*.pty")
 (#rule! "py.system.via-module" high "system" "reaches a system module through another module"))

((call function: (_) @callee) @hit
 (#name? @callee "os.setuid" "os.setgid" "os.seteuid" "os.setegid" "os.setreuid" "os.setresuid"
  "os.setresgid" "os.setgroups" "os.chroot" "os.unshare" "os.setns" "os.setsid" "os.nice"
  "os.sched_setaffinity" "os.initgroups" "resource.setrlimit" "resource.prlimit" "posix.setuid"
  "posix.chroot")
 (#rule! "py.system.privilege" critical "system" "changes user, namespace or limits"))

([(import_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement module_name: (dotted_name) @module)]
 (#name? @module "pyautogui" "pyautogui.*" "pynput" "pynput.*" "keyboard" "keyboard.*" "mouse"
  "mouse.*" "mss" "mss.*" "PIL.ImageGrab" "PIL.ImageGrab.*" "Xlib" "Xlib.*" "evdev" "evdev.*"
  "sounddevice" "sounddevice.*" "pyaudio" "pyaudio.*" "uiautomation" "pywinauto" "pywinauto.*"
  "pyscreenshot" "plyer" "plyer.*")
 (#rule! "py.system.desktop" high "system" "watches or drives screen, keyboard or microphone"))

; ---- native code ----

([(import_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement name: [(dotted_name) (aliased_import)] @module)
  (import_from_statement module_name: (dotted_name) @module)]
 (#name? @module "ctypes" "ctypes.*" "_ctypes" "_ctypes.*" "cffi" "cffi.*" "_cffi_backend"
  "numpy.ctypeslib" "numpy.ctypeslib.*" "numpy.f2py" "numpy.f2py.*" "torch.utils.cpp_extension"
  "torch.utils.cpp_extension.*" "_testcapi" "_testcapi.*" "_xxsubinterpreters" "_interpreters"
  "llvmlite" "llvmlite.*" "pwnlib" "pwnlib.*" "keystone" "unicorn" "pymem" "frida" "frida.*")
 (#rule! "py.native.import" high "native" "can call native code and touch memory"))

((call function: (_) @callee) @hit
 (#name? @callee "ctypes.*" "_ctypes.*" "cffi.*" "_cffi_backend.*" "numpy.ctypeslib.*" "_testcapi.*"
  "torch.utils.cpp_extension.*" "numpy.f2py.*" "*.ctypes.CDLL" "*.pythonapi.*" "cython.inline"
  "pyximport.install" "*.load_library" "*.enable_load_extension" "*.load_extension")
 (#rule! "py.native.ctypes" critical "native" "calls or loads native code, or touches memory"))

; ---- the text itself ----

; A carriage return ends a line for Python, also in a comment; some encodings make code of comments.
((comment) @hit
 (#match? @hit "\\r(?!\\n|$)|coding[:=][ \\t]*(?!utf-?8|UTF-?8|ascii|us-ascii|latin-?1|iso-8859-1|cp1252)[\\w-]")
 (#rule! "py.source.hidden" high "hidden-text" "a comment may hold code that Python sees"))

; Letters that Python folds to plain ones: full width, mathematical, raised, lowered, ligatures.
((identifier) @hit
 (#folded? @hit)
 (#rule! "py.source.confusable" medium "hidden-text" "a name in letters of another kind"))

; ---- harmless state ----

((call function: (_) @callee) @hit
 (#name? @callee "time.*" "datetime.datetime.now" "datetime.datetime.today" "datetime.date.today"
  "datetime.datetime.utcnow" "random.*" "secrets.*" "uuid.uuid4" "uuid.uuid1" "input"
  "numpy.random.*" "threading.Thread" "threading.Timer" "locals" "vars"
  "concurrent.futures.ThreadPoolExecutor" "asyncio.run")
 (#rule! "py.state.read" low "state" "reads clock, chance or input, or runs threads"))

