; SPDX-License-Identifier: Apache-2.0
;
; Risk rules for JavaScript and TypeScript. A rule names nodes both grammars have: TypeScript's own
; are reached through wildcards. Hiding must not pay: what is loaded or called by a name that
; cannot be told is rated like the worst it may stand for.

; ---- text becomes code ------------------------------------------------------------------------

; The bare name is enough: eval has no use but to be called, now or by somebody else.
([(identifier) (shorthand_property_identifier)] @hit
 (#eq? @hit "eval")
 (#rule! "js.code.eval" critical "code-execution" "eval turns text into code"))

([(call_expression function: (_) @x)
  (call_expression function: (subscript_expression) @this)
  (arguments (_) @x)
  (variable_declarator value: (_) @x)
  (pair value: (_) @x)
  (array (_) @x)]
 (#name? @x "eval" "execScript" "*.contentWindow.eval" "*.defaultView.eval")
 (#name? @this "this.eval" "top.eval" "parent.eval")
 (#not-eq? @x "eval")
 (#rule! "js.code.eval-hidden" critical "code-execution" "uses eval under another name"))

([(call_expression function: (_) @callee) (new_expression constructor: (_) @callee)] @hit
 (#name? @callee "Function" "AsyncFunction" "GeneratorFunction" "AsyncGeneratorFunction"
   "Object.constructor" "Array.constructor" "String.constructor"
   "Number.constructor" "Boolean.constructor" "Symbol.constructor" "Date.constructor"
   "RegExp.constructor" "Promise.constructor" "Map.constructor" "Set.constructor"
   "Proxy.constructor" "Error.constructor" "Buffer.constructor" "URL.constructor"
   "parseInt.constructor" "parseFloat.constructor" "isNaN.constructor" "isFinite.constructor"
   "setTimeout.constructor" "setInterval.constructor" "queueMicrotask.constructor"
   "require.constructor" "fetch.constructor" "atob.constructor" "btoa.constructor"
   "structuredClone.constructor" "console.log.constructor" "Math.max.constructor"
   "Math.min.constructor" "Math.abs.constructor" "Math.floor.constructor" "JSON.parse.constructor"
   "JSON.stringify.constructor" "Object.keys.constructor" "Array.from.constructor"
   "Array.isArray.constructor" "Promise.resolve.constructor")
 (#not-match? @callee "^Function([.]prototype)?[.](call|apply)[.]bind$")
 (#rule! "js.code.function" critical "code-execution" "the Function constructor turns text into code"))

; Not after instanceof, where the name is harmless, nor in { type: Function }, a declaration.
([(arguments (_) @hit)
  (variable_declarator value: (_) @hit)
  (assignment_expression right: (_) @hit)
  (assignment_pattern right: (_) @hit)
  (class_heritage (_) @hit)
  (class_heritage (_ value: (_) @hit))
  (return_statement (_) @hit)
  (arrow_function body: (_) @hit)
  (array (_) @hit) @list
  (pair key: (_) @key value: (_) @hit)
  (class_body (_ value: (_) @hit))
  (throw_statement (_) @hit)
  (yield_expression (_) @hit)
  (shorthand_property_identifier) @hit]
 (#name? @hit "Function")
 (#not-eq? @key "type")
 (#not-in? @list "pair")
 (#rule! "js.code.function-reference" critical "code-execution" "takes hold of the Function constructor"))

; The constructor of any function or class is Function (or its async and generator kin).
([(member_expression
    object: (parenthesized_expression [(arrow_function) (function_expression) (generator_function) (class)])
    property: (_) @p)
  (class_heritage) @heritage
  (member_expression
    object: (call_expression function: (_) @proto arguments: (arguments . [(arrow_function) (function_expression) (generator_function)]))
    property: (_) @p)
  (subscript_expression
    object: (parenthesized_expression [(arrow_function) (function_expression) (generator_function)]))]
 (#eq? @p "constructor")
 (#match? @heritage "([.]|\\[[\"'`])constructor[\"'`)\\]]*\\s*$")
 (#name? @proto "Object.getPrototypeOf" "Reflect.getPrototypeOf")
 (#rule! "js.code.constructor" critical "code-execution" "reaches Function by way of a function's constructor"))

; Without new, nobody means anything but Function by it.
([(call_expression function: (_) @callee)
  (new_expression constructor: (_) @class) @new
  (call_expression function: (_) @reflect arguments: (arguments . (_) @class))]
 (#name? @callee "*.constructor")
 (#not-match? @callee "^(this|super)\\b")
 (#name? @class "*.constructor")
 (#not-match? @class "^(this|super)\\b")
 (#arg? @new "*" "(?s)[a-z]")
 (#name? @reflect "Reflect" "Reflect.apply" "Reflect.construct")
 (#rule! "js.code.constructor-call" critical "code-execution" "gives text to a constructor reached as a property"))

([(pair_pattern key: (_) @k value: (_) @v)
  (call_expression function: (_) @get) @call
  (call_expression function: (_) @proto arguments: (arguments . [(arrow_function) (function_expression) (generator_function)]))]
 (#match? @k "^[\"'\\[(]*constructor\\b")
 (#not-match? @v "^[{]\\s*name\\b")
 (#name? @get "Object.getOwnPropertyDescriptor" "Reflect.getOwnPropertyDescriptor" "Reflect.get")
 (#arg? @call "1" "^constructor$")
 (#name? @proto "Object.getPrototypeOf" "Reflect.getPrototypeOf" "Object.getOwnPropertyNames"
   "Reflect.ownKeys")
 (#rule! "js.code.constructor-taken" high "code-execution" "takes a constructor out of an object, perhaps Function"))

; As a path to walk: asking whether a list has the word is harmless.
([(call_expression function: (_) @f arguments: (arguments (_) @word))
  (member_expression object: (array (_) @word) property: (_) @walk)
  (string) @path]
 (#not-match? @f "(^|[.])(includes|indexOf|has|hasOwn|hasOwnProperty|add|delete|startsWith|endsWith|log|describe|it|test|suite|context)$")
 (#any-of? @walk "reduce" "reduceRight" "map" "forEach" "join")
 (#string? @word "constructor")
 (#match? @path "constructor[.]constructor")
 (#rule! "js.code.constructor-text" medium "code-execution" "names a constructor in text, perhaps to reach Function"))

([(member_expression object: (_) @o property: (_) @p) @hit
  (subscript_expression object: (_) @o index: (_) @p) @hit]
 (#match? @p "^[\"'`]?constructor[\"'`]?$")
 (#match? @o "([.]|\\[[\"'`])constructor([\"'`]\\])?$")
 (#rule! "js.code.constructor-chain" critical "code-execution" "constructor of a constructor: this is Function"))

((call_expression function: (_) @callee arguments: (arguments . [(string) (template_string) (binary_expression)] @text)) @hit
 (#name? @callee "setTimeout" "setInterval" "setImmediate")
 (#embedded! @text "javascript")
 (#rule! "js.code.timer-text" critical "code-execution" "a timer given text runs it as code"))

((call_expression function: (_) @callee) @hit
 (#name? @callee "setTimeout" "setInterval" "setImmediate")
 (#arg? @hit "0" "[^0-9.]")
 (#not-match? @hit "(?s)^[^(]*\\(\\s*[\"'`]")
 (#rule! "js.code.timer-value" critical "code-execution" "a timer given a text value runs it as code"))

([(string) (template_string) (binary_expression)] @hit
 (#string-match? @hit "(?i)^\\s*data:(text|application)/(x-)?(java|ecma)script")
 (#rule! "js.code.data-url" critical "code-execution" "a data: URL that carries code"))

([(call_expression) @load
  (import_statement source: (_) @m)
  (export_statement source: (_) @m)
  (import_statement (_ (_) @m))]
 (#name? @load "vm" "vm2" "isolated-vm" "repl" "safe-eval" "notevil" "static-eval" "eval5" "sval")
 (#string-match? @m "^(node:)?(vm|vm2|isolated-vm|repl|safe-eval|notevil|static-eval|eval5|sval)$")
 (#rule! "js.code.vm" critical "code-execution" "loads a module that runs text as code"))

((call_expression function: (_) @callee arguments: (arguments . (_) @text)) @hit
 (#name? @callee "vm.runInThisContext" "vm.runInNewContext" "vm.runInContext" "vm.compileFunction")
 (#embedded! @text "javascript")
 (#rule! "js.code.vm-run" critical "code-execution" "runs text as code in another context"))

([(call_expression) @load
  (import_statement source: (_) @m)
  (export_statement source: (_) @m)
  (import_statement (_ (_) @m))]
 (#name? @load "inspector" "inspector/promises")
 (#string-match? @m "^(node:)?(inspector|inspector/promises)$")
 (#rule! "js.code.inspector" critical "code-execution" "loads the debugger, which can run any code"))

([(call_expression) @load
  (import_statement source: (_) @m)
  (export_statement source: (_) @m)
  (import_statement (_ (_) @m))]
 (#name? @load "node-serialize" "serialize-to-js" "funcster" "cryo")
 (#string-match? @m "^(node:)?(node-serialize|serialize-to-js|funcster|cryo)$")
 (#rule! "js.code.unserialize" critical "code-execution" "a format that carries functions: reading it runs them"))

((new_expression constructor: (_) @callee arguments: (arguments . (_) @text (object (pair key: (_) @k value: (true))))) @hit
 (#name? @callee "worker_threads.Worker" "Worker" "*.Worker")
 (#match? @k "^[\"']?eval[\"']?$")
 (#embedded! @text "javascript")
 (#rule! "js.code.worker-eval" critical "code-execution" "a worker made from text"))

; ---- programs ---------------------------------------------------------------------------------

([(call_expression) @load
  (import_statement source: (_) @m)
  (export_statement source: (_) @m)
  (import_statement (_ (_) @m))]
 (#name? @load "child_process")
 (#string-match? @m "^(node:)?(child_process)$")
 (#rule! "js.process.module" critical "process" "loads child_process, which starts programs"))

; Any mention: the name alone has no innocent use in a program of this size.
([(string) (template_string) (binary_expression) (call_expression) (regex)] @hit
 (#string-match? @hit "^(node:)?child_process$")
 (#rule! "js.process.mention" critical "process" "names child_process, which starts programs"))

((call_expression function: (_) @callee arguments: (arguments . (_) @command)) @hit
 (#name? @callee "child_process.exec" "child_process.execSync" "*.execSync")
 (#embedded! @command "shell")
 (#rule! "js.process.shell" critical "process" "runs a shell command"))

((call_expression function: (_) @callee) @hit
 (#name? @callee "child_process.*" "*.execSync" "*.execFileSync" "*.spawnSync" "*.execFile")
 (#not-name? @callee "child_process.exec" "child_process.execSync" "*.execSync" "RegExp.*")
 (#rule! "js.process.call" critical "process" "starts a program"))

([(call_expression) @load
  (import_statement source: (_) @m)
  (export_statement source: (_) @m)
  (import_statement (_ (_) @m))]
 (#name? @load "execa" "shelljs" "shelljs/global" "zx" "zx/globals" "cross-spawn" "node-pty"
   "sudo-prompt" "child-process-promise" "node-cmd" "foreground-child" "npm-run" "open" "pm2"
   "simple-git")
 (#string-match? @m "^(node:)?(execa|shelljs|shelljs/global|zx|zx/globals|cross-spawn|node-pty|sudo-prompt|child-process-promise|node-cmd|foreground-child|npm-run|open|pm2|simple-git)$")
 (#rule! "js.process.package" critical "process" "loads a package that starts programs"))

([(call_expression) @load
  (import_statement source: (_) @m)
  (export_statement source: (_) @m)
  (import_statement (_ (_) @m))]
 (#name? @load "cluster" "worker_threads" "threads" "piscina" "workerpool")
 (#string-match? @m "^(node:)?(cluster|worker_threads|threads|piscina|workerpool)$")
 (#rule! "js.process.workers" high "process" "loads a module that starts processes or threads"))

([(new_expression constructor: (_) @class) (call_expression function: (_) @callee)]
 (#name? @class "Worker" "SharedWorker" "worker_threads.Worker")
 (#name? @callee "*.serviceWorker.register" "*.audioWorklet.addModule" "importScripts")
 (#rule! "js.process.worker" high "process" "starts a worker from other code"))

; ---- modules by other ways ------------------------------------------------------------------------

; Whatever the name adds up to, a plain literal would have done.
([(call_expression function: (_) @callee arguments: (arguments . (_) @name))
  (call_expression function: (import) arguments: (arguments . (_) @name))]
 (#name? @callee "require" "process.getBuiltinModule")
 (#not-match? @name "^(\"[^\"\\\\]*\"|'[^'\\\\]*'|`[^`$\\\\]*`)$")
 (#rule! "js.module.dynamic" critical "module" "loads a module without plainly writing its name"))

; The parent tells: neither called, nor asked for a property, nor declared.
([(_ (identifier) @hit) @parent
  (shorthand_property_identifier) @hit
  (member_expression object: (identifier) @hit property: (_) @p)]
 (#eq? @hit "require")
 (#not-match? @parent "^(require\\s*[(.?:\\[]|typeof\\b)")
 (#any-of? @p "call" "apply" "bind")
 (#rule! "js.module.require-reference" high "module" "hands require on to other code"))

; In a CommonJS file they are the loader's: exports, require, module.
([(program (expression_statement (call_expression function: (subscript_expression object: (_) @a))))
  (program (expression_statement (call_expression function: (member_expression object: (call_expression function: (subscript_expression object: (_) @a))))))
  (program (_ (variable_declarator value: (subscript_expression object: (_) @a))))
  (program (_ (variable_declarator value: (call_expression function: (subscript_expression object: (_) @a)))))
  (program (_ (variable_declarator name: (array_pattern) value: (_) @a)))
  (program (_ (variable_declarator value: (array (spread_element (_) @a)))))
  (call_expression function: (subscript_expression object: (_) @a index: (_) @second))
  (call_expression function: (parenthesized_expression (sequence_expression (_) (subscript_expression object: (_) @a index: (_) @second))))]
 (#match? @second "^(1|0[xXbBoO]?0*1|[+!~(]+.*)$")
 (#eq? @a "arguments")
 (#rule! "js.module.wrapper-arguments" high "module" "may take require out of the arguments"))

([(member_expression object: (_) @o property: (_) @p)
  (subscript_expression object: (_) @o index: (_) @k)
  (member_expression) @x
  (subscript_expression) @x]
 (#not-eq? @o "this")
 (#any-of? @p "_load" "_compile" "_resolveFilename" "_extensions" "_findPath" "_nodeModulePaths"
   "_preloadModules")
 (#string? @k "_load" "_compile" "_resolveFilename" "_extensions" "_findPath" "_nodeModulePaths"
   "_preloadModules")
 (#name? @x "module.register" "module.registerHooks" "module.wrap" "module.prototype"
   "module.constructor" "module.Module" "module._cache" "module.__proto__")
 (#rule! "js.module.hooks" critical "module" "reaches into the module loader"))

([(call_expression) @load
  (import_statement source: (_) @m)
  (export_statement source: (_) @m)
  (import_statement (_ (_) @m))]
 (#name? @load "module")
 (#string-match? @m "^(node:)?(module)$")
 (#rule! "js.module.builtin" high "module" "loads the module loader"))

([(member_expression) (subscript_expression)] @hit
 (#name? @hit "require.cache" "require.extensions" "require.main.require" "module.children"
   "module.parent" "module.paths" "module.require" "process.mainModule" "process.getBuiltinModule"
   "process.moduleLoadList" "process.stdin.constructor" "process.stdout.constructor" "process.stderr.constructor" "*._handle" "*._stdout" "*._stderr")
 (#rule! "js.module.internals" high "module" "reaches modules past the usual require"))

([(call_expression function: (_) @load arguments: (arguments . (_) @m))
  (call_expression function: (import) arguments: (arguments . (_) @m))
  (import_statement source: (_) @m)
  (export_statement source: (_) @m)
  (import_statement (_ (_) @m))]
 (#name? @load "require")
 (#string-match? @m "^(https?|blob|ftp|wss?):")
 (#rule! "js.module.remote" high "module" "runs code fetched from an address"))

([(call_expression function: (_) @load arguments: (arguments . (_) @m))
  (call_expression function: (import) arguments: (arguments . (_) @m))
  (import_statement source: (_) @m)
  (export_statement source: (_) @m)
  (import_statement (_ (_) @m))]
 (#name? @load "require")
 (#string-match? @m "^([.]{1,2}(/|$)|/|file:).*(?<![.]node)$")
 (#rule! "js.module.local" medium "module" "runs another file"))

((meta_property) @hit
 (#eq? @hit "import.meta")
 (#rule! "js.module.meta" medium "module" "asks where the program lies"))

; Anything not known here may do anything. The lists: addresses, harmless modules and packages,
; modules of node that have their own rules.
([(call_expression function: (_) @load arguments: (arguments . (_) @m))
  (call_expression function: (import) arguments: (arguments . (_) @m))
  (import_statement source: (_) @m) @statement
  (export_statement source: (_) @m) @statement
  (import_statement (_ (_) @m))]
 (#name? @load "require")
 (#not-match? @statement "^(import|export)\\s+type\\b")
 (#string-match? @m "^[^./]")
 (#not-match? @m "^(bun|node:sqlite)")
 (#not-string-match? @m "^(https?|blob|data|file|ftp|wss?):")
 (#not-string-match? @m "^(node:)?(assert|assert/strict|async_hooks|buffer|console|constants|crypto|diagnostics_channel|events|path|path/posix|path/win32|perf_hooks|process|punycode|querystring|readline|readline/promises|stream|stream/promises|stream/web|string_decoder|timers|timers/promises|url|util|util/types|zlib)$")
 (#not-string-match? @m "^(lodash|lodash-es|underscore|ramda|mathjs|numeric|d3|d3-[a-z]+|plotly[.]js|vega-lite|chart[.]js|dayjs|date-fns|moment|luxon|uuid|nanoid|immutable|immer|rxjs|zod|yup|joi|validator|bignumber[.]js|decimal[.]js|big[.]js|bn[.]js|fraction[.]js|simple-statistics|jstat|ml-[a-z-]+|papaparse|csv-parse|csv-parse/sync|csv-stringify|chalk|kleur|colors|color|tinycolor2|marked|markdown-it|he|slugify|classnames|react|react-dom|vue|preact|tslib|fast-check|seedrandom|string-width|lodash[./][a-z./]+|three|p5|gl-matrix|fp-ts|effect|xstate|redux|@reduxjs/toolkit|mobx|svelte|solid-js|lit|katex|prismjs|highlight[.]js|diff|fuse[.]js|natural|compromise|@turf/[a-z-]+|graphology|graphlib|cytoscape|heap-js|tinyqueue|mnemonist|minimist|yargs-parser|ms|bytes|pluralize|change-case|humanize-duration|pretty-bytes|cli-table3|asciichart|text-table|vitest|jest|@jest/globals|chai|prop-types|clsx|rrule|cron-parser|chrono-node|qs|query-string|semver|crypto-js|js-sha256|tweetnacl|bs58|long|random-js|chance|@faker-js/faker|jsbi|complex[.]js|ndarray)(/.*)?$")
 (#not-string-match? @m "^(node:)?(child_process|cluster|dgram|dns|dns/promises|fs|fs/promises|http|http2|https|inspector|inspector/promises|module|net|os|repl|tls|trace_events|v8|vm|wasi|worker_threads)$")
 (#rule! "js.module.unknown" medium "module" "loads a package not known to be harmless"))

; ---- files --------------------------------------------------------------------------------------

([(call_expression) @load
  (import_statement source: (_) @m)
  (export_statement source: (_) @m)
  (import_statement (_ (_) @m))]
 (#name? @load "fs" "fs/promises")
 (#string-match? @m "^(node:)?(fs|fs/promises)$")
 (#rule! "js.fs.module" high "filesystem" "loads the file system module"))

((call_expression function: (_) @callee) @hit
 (#name? @callee "*.writeFile" "*.writeFileSync" "*.appendFile" "*.appendFileSync"
   "*.createWriteStream" "*.copyFile" "*.copyFileSync" "*.renameSync" "*.mkdirSync" "*.mkdtempSync"
   "*.symlink" "*.symlinkSync" "*.linkSync" "*.chmodSync" "*.chownSync" "*.truncateSync"
   "*.utimesSync" "fs.writeSync" "fs.openSync" "fs.rename" "fs.mkdir" "fs/promises.mkdir"
   "fs/promises.rename" "fs.chmod" "fs.cpSync" "v8.writeHeapSnapshot" "process.report.writeReport")
 (#rule! "js.fs.write" high "filesystem" "writes or changes files"))

((call_expression function: (_) @callee) @hit
 (#name? @callee "*.unlinkSync" "*.rmSync" "*.rmdirSync" "*.rmdir" "fs.rm" "fs.unlink"
   "fs/promises.rm" "fs/promises.unlink" "fs.promises.rm" "fs.promises.unlink")
 (#rule! "js.fs.delete" high "filesystem" "deletes files"))

((call_expression function: (_) @callee) @hit
 (#name? @callee "*.rmSync" "*.rmdirSync" "*.rmdir" "fs.rm" "fs/promises.rm" "fs.promises.rm"
   "Deno.remove" "Deno.removeSync" "fs-extra.*")
 (#arg? @hit "0" "^(/|~|[.]|[.][.]|/(etc|usr|var|home|root|boot|bin|lib|opt|srv)/?)([*]*)$")
 (#rule! "js.fs.destroy" critical "filesystem" "deletes a whole tree of the system"))

([(call_expression) @load
  (import_statement source: (_) @m)
  (export_statement source: (_) @m)
  (import_statement (_ (_) @m))]
 (#name? @load "fs-extra" "graceful-fs" "rimraf" "del" "mkdirp" "glob" "globby" "fast-glob"
   "chokidar" "tmp" "tempy" "make-dir" "cpy" "write-file-atomic" "jsonfile" "archiver" "adm-zip"
   "tar" "decompress" "extract-zip" "multer" "node-stream-zip" "conf" "configstore")
 (#string-match? @m "^(node:)?(fs-extra|graceful-fs|rimraf|del|mkdirp|glob|globby|fast-glob|chokidar|tmp|tempy|make-dir|cpy|write-file-atomic|jsonfile|archiver|adm-zip|tar|decompress|extract-zip|multer|node-stream-zip|conf|configstore)$")
 (#rule! "js.fs.package" high "filesystem" "loads a package that works on files"))

([(string) (template_string) (binary_expression)] @hit
 (#match? @hit "/etc/(passwd|shadow|sudoers|ssh)|/[.](ssh|aws|kube|netrc)\\b|/proc/(self|[0-9]+)/|/docker[.]sock|169[.]254[.]169[.]254|/var/run/secrets")
 (#rule! "js.secret.place" medium "secrets" "names a place where secrets are kept"))

; ---- network ------------------------------------------------------------------------------------

([(call_expression) @load
  (import_statement source: (_) @m)
  (export_statement source: (_) @m)
  (import_statement (_ (_) @m))]
 (#name? @load "http" "https" "http2" "net" "dgram" "tls" "dns" "dns/promises" "_http_client"
   "_http_server" "_tls_wrap")
 (#string-match? @m "^(node:)?(http|https|http2|net|dgram|tls|dns|dns/promises|_http_client|_http_server|_tls_wrap)$")
 (#rule! "js.net.module" high "network" "loads a network module"))

((call_expression function: (_) @callee) @hit
 (#name? @callee "fetch" "d3.csv" "d3.tsv" "d3.dsv" "d3.json" "d3.text" "d3.xml" "d3.html" "d3.svg"
   "d3.image" "d3.blob" "d3.buffer" "d3-fetch.*")
 (#rule! "js.net.fetch" high "network" "opens a connection to fetch something"))

([(arguments [(identifier) (member_expression) (subscript_expression)] @hit)
  (variable_declarator value: [(identifier) (member_expression) (subscript_expression)] @hit)
  (pair value: [(identifier) (member_expression) (subscript_expression)] @hit)
  (array [(identifier) (member_expression) (subscript_expression)] @hit)
  (return_statement [(identifier) (member_expression) (subscript_expression)] @hit)
  (arrow_function body: [(identifier) (member_expression) (subscript_expression)] @hit)
  (_ value: (identifier) @hit)
  (class_heritage (_) @hit)
  (class_heritage (_ value: (_) @hit))
  (throw_statement [(identifier) (member_expression) (subscript_expression)] @hit)
  (yield_expression [(identifier) (member_expression) (subscript_expression)] @hit)
  (spread_element [(identifier) (member_expression) (subscript_expression)] @hit)
  (assignment_expression right: [(identifier) (member_expression) (subscript_expression)] @hit)
  (class_body (_ value: [(member_expression) (subscript_expression)] @hit))
  (shorthand_property_identifier) @hit]
 (#name? @hit "fetch" "XMLHttpRequest" "WebSocket" "WebSocketStream" "EventSource"
   "RTCPeerConnection" "WebTransport" "navigator.sendBeacon" "Worker" "SharedWorker"
   "importScripts" "WebAssembly")
 (#rule! "js.net.reference" high "network" "hands a way to the network or to other code on"))

([(new_expression constructor: (_) @callee) (call_expression function: (_) @callee)] @hit
 (#name? @callee "XMLHttpRequest" "WebSocket" "WebSocketStream" "EventSource" "RTCPeerConnection"
   "webkitRTCPeerConnection" "WebTransport" "navigator.sendBeacon" "*.sendBeacon"
   "BroadcastChannel" "ActiveXObject")
 (#rule! "js.net.browser" high "network" "opens a connection"))

([(call_expression) @load
  (import_statement source: (_) @m)
  (export_statement source: (_) @m)
  (import_statement (_ (_) @m))]
 (#name? @load "axios" "got" "node-fetch" "undici" "superagent" "request" "request-promise"
   "needle" "ky" "cross-fetch" "isomorphic-fetch" "ws" "socket.io" "socket.io-client"
   "sockjs-client" "express" "fastify" "koa" "@hapi/hapi" "connect" "nodemailer" "ssh2" "node-ssh"
   "ftp" "basic-ftp" "mqtt" "amqplib" "kafkajs" "puppeteer" "puppeteer-core" "playwright"
   "selenium-webdriver" "jsdom" "localtunnel" "ngrok" "http-proxy" "openai" "discord.js" "telegraf"
   "twilio" "stripe" "simple-get" "bent" "follow-redirects" "http-server" "next" "webtorrent")
 (#string-match? @m "^(node:)?(axios|got|node-fetch|undici|superagent|request|request-promise|needle|ky|cross-fetch|isomorphic-fetch|ws|socket[.]io|socket[.]io-client|sockjs-client|express|fastify|koa|@hapi/hapi|connect|nodemailer|ssh2|node-ssh|ftp|basic-ftp|mqtt|amqplib|kafkajs|puppeteer|puppeteer-core|playwright|selenium-webdriver|jsdom|localtunnel|ngrok|http-proxy|openai|discord[.]js|telegraf|twilio|stripe|simple-get|bent|follow-redirects|http-server|next|webtorrent)$")
 (#rule! "js.net.package" high "network" "loads a package that uses the network"))

([(call_expression function: (_) @load arguments: (arguments . (_) @m))
  (call_expression function: (import) arguments: (arguments . (_) @m))
  (import_statement source: (_) @m)
  (export_statement source: (_) @m)
  (import_statement (_ (_) @m))]
 (#name? @load "require")
 (#string-match? @m "^(pg|pg-promise|mysql2?|mariadb|mongodb|mongoose|redis|ioredis|memcached|sqlite3|better-sqlite3|node:sqlite|sequelize|typeorm|knex|@prisma/client|tedious|oracledb|cassandra-driver|neo4j-driver|nano|level|lmdb|@elastic/elasticsearch|firebase(-admin)?|@google-cloud/.*|@azure/.*|aws-sdk|@aws-sdk/.*|googleapis|@octokit/.*|minio)(/.*)?$")
 (#rule! "js.net.database" high "network" "a client of a database or cloud service"))

; ---- the process and the machine ------------------------------------------------------------------

([(member_expression) @x
  (subscript_expression) @x
  (member_expression object: (identifier) @e)
  (subscript_expression object: (identifier) @e)
  (arguments (identifier) @e)
  (variable_declarator name: (object_pattern (_) @k) value: (_) @process)
  (import_statement (import_clause (named_imports (import_specifier name: (_) @k))) source: (_) @module)]
 (#name? @x "process.env" "Deno.env" "Deno.cwd" "Bun.env")
 (#name? @e "process.env")
 (#match? @k "^[\"']?env\\b")
 (#name? @process "process")
 (#string-match? @module "^(node:)?process$")
 (#rule! "js.env.read" medium "environment" "reads the environment"))

([(call_expression function: (_) @load arguments: (arguments . (_) @m))
  (call_expression function: (import) arguments: (arguments . (_) @m))
  (import_statement source: (_) @m)
  (export_statement source: (_) @m)
  (import_statement (_ (_) @m))]
 (#name? @load "require")
 (#string-match? @m "^(dotenv|dotenv/config|dotenv-expand|config|env-var|envalid|rc|keytar)$")
 (#rule! "js.env.module" medium "environment" "a package that reads settings and secrets"))

([(call_expression) @load
  (import_statement source: (_) @m)
  (export_statement source: (_) @m)
  (import_statement (_ (_) @m))]
 (#name? @load "os" "systeminformation" "v8" "trace_events")
 (#string-match? @m "^(node:)?(os|systeminformation|v8|trace_events)$")
 (#rule! "js.system.module" medium "system" "loads a module that tells about the machine"))

; Only what the object really has: a variable of that name has other properties.
([(member_expression object: (_) @o property: (_) @p)
  (subscript_expression object: (_) @o index: (_) @k)
  (variable_declarator name: (object_pattern (_) @d) value: (_) @o)
  (import_statement (import_clause (named_imports (import_specifier name: (_) @d))) source: (_) @module)]
 (#name? @o "process")
 (#any-of? @p "exit" "on" "once" "off" "emit" "addListener" "prependListener" "removeListener"
   "removeAllListeners" "listeners" "cwd" "execPath" "execArgv" "title" "config" "getuid" "geteuid"
   "getgid" "getegid" "getgroups" "umask" "report" "resourceUsage" "constrainedMemory"
   "availableMemory" "allowedNodeEnvironmentFlags" "disconnect" "send" "channel" "connected"
   "domain" "openStdin" "loadEnvFile" "permission" "constructor" "moduleLoadList" "debugPort"
   "assert" "noDeprecation" "throwDeprecation" "traceDeprecation" "setSourceMapsEnabled"
   "getActiveResourcesInfo" "_getActiveHandles" "_getActiveRequests" "_events" "_tickCallback"
   "_rawDebug" "_preload_modules" "_exiting" "hasUncaughtExceptionCaptureCallback" "finalization"
   "ref" "unref" "sourceMapsEnabled")
 (#string? @k "exit" "on" "once" "off" "emit" "addListener" "prependListener" "removeListener"
   "removeAllListeners" "listeners" "cwd" "execPath" "execArgv" "title" "config" "getuid" "geteuid"
   "getgid" "getegid" "getgroups" "umask" "report" "resourceUsage" "constrainedMemory"
   "availableMemory" "allowedNodeEnvironmentFlags" "disconnect" "send" "channel" "connected"
   "domain" "openStdin" "loadEnvFile" "permission" "constructor" "moduleLoadList" "debugPort"
   "assert" "noDeprecation" "throwDeprecation" "traceDeprecation" "setSourceMapsEnabled"
   "getActiveResourcesInfo" "_getActiveHandles" "_getActiveRequests" "_events" "_tickCallback"
   "_rawDebug" "_preload_modules" "_exiting" "hasUncaughtExceptionCaptureCallback" "finalization"
   "ref" "unref" "sourceMapsEnabled")
 (#match? @d "^[\"']?(exit|on|once|emit|cwd|execPath|execArgv|title|getuid|umask|report|config|channel|send)\\b")
 (#string-match? @module "^(node:)?process$")
 (#rule! "js.system.process" medium "process" "uses the process object beyond input and output"))

([(arguments [(identifier) (member_expression) (subscript_expression)] @hit)
  (return_statement [(identifier) (member_expression) (subscript_expression)] @hit)
  (arrow_function body: [(identifier) (member_expression) (subscript_expression)] @hit)
  (throw_statement [(identifier) (member_expression) (subscript_expression)] @hit)
  (yield_expression [(identifier) (member_expression) (subscript_expression)] @hit)
  (array [(identifier) (member_expression) (subscript_expression)] @hit)
  (pair value: [(identifier) (member_expression) (subscript_expression)] @hit)
  (formal_parameters (_ value: (identifier) @hit))
  (spread_element [(identifier) (member_expression) (subscript_expression)] @hit)
  (class_body (_ value: [(identifier) (member_expression) (subscript_expression)] @hit))
  (shorthand_property_identifier) @hit
  (call_expression function: (_) @reduce arguments: (arguments (_) (this)))]
 (#name? @hit "process" "globalThis" "global" "module" "Deno" "Bun")
 (#name? @reduce "*.reduce" "*.reduceRight")
 (#rule! "js.system.reference" high "process" "hands a way to everything on to other code"))

([(member_expression) @x
  (subscript_expression) @x
  (variable_declarator name: (object_pattern (_) @k) value: (_) @process)
  (import_statement (import_clause (named_imports (import_specifier name: (_) @k))) source: (_) @module)]
 (#name? @x "process.kill" "process._kill" "process.abort" "process.reallyExit" "process.chdir"
   "process._debugProcess" "process.setuid" "process.setgid" "process.seteuid" "process.setegid"
   "process.setgroups" "process.initgroups" "process.setUncaughtExceptionCaptureCallback"
   "process.execve")
 (#match? @k "^[\"']?(_?kill|abort|reallyExit|chdir|set(e?[ug]id|groups)|execve)\\b")
 (#name? @process "process")
 (#string-match? @module "^(node:)?process$")
 (#rule! "js.control.process" high "process" "controls processes or changes identity"))

((assignment_expression left: (_) @hit)
 (#name? @hit "process.env" "process.env.*" "process.title" "process.exit" "process.on"
   "process.once" "process.emit" "process.nextTick" "process.argv" "process.argv.*" "process.argv0"
   "process.execPath" "process.execArgv" "process.stdout" "process.stdout.*" "process.stderr"
   "process.stderr.*" "process.stdin" "process.stdin.*" "process.mainModule" "process.versions.*"
   "process.version" "process.platform" "process.binding" "process.kill" "process.cwd"
   "process.chdir" "process.hrtime" "process.debugPort")
 (#rule! "js.control.assign" medium "process" "changes the process object"))

; ---- native code ----------------------------------------------------------------------------------

([(member_expression) @x
  (subscript_expression) @x
  (call_expression function: (_) @load arguments: (arguments . (_) @m))
  (import_statement source: (_) @m)]
 (#name? @x "WebAssembly.*")
 (#name? @load "require" "import")
 (#string-match? @m "^((node:)?wasi|wasmer|@wasmer/.*|wabt)$")
 (#rule! "js.native.wasm" high "native-code" "compiles or runs WebAssembly"))

([(member_expression) @x
  (subscript_expression) @x
  (variable_declarator name: (object_pattern (_) @k) value: (_) @process)
  (import_statement (import_clause (named_imports (import_specifier name: (_) @k))) source: (_) @module)]
 (#string-match? @module "^(node:)?process$")
 (#name? @x "process.binding" "*.dlopen" "*._linkedBinding" "*.internalBinding")
 (#match? @k "^[\"']?(dlopen|binding|_linkedBinding|mainModule|getBuiltinModule)\\b")
 (#name? @process "process")
 (#rule! "js.native.binding" critical "native-code" "reaches native code below the modules"))

([(call_expression function: (_) @load arguments: (arguments . (_) @m))
  (call_expression function: (import) arguments: (arguments . (_) @m))
  (import_statement source: (_) @m)
  (export_statement source: (_) @m)
  (import_statement (_ (_) @m))]
 (#name? @load "require")
 (#string-match? @m "([.]node|^(ffi|ffi-napi|ffi-rs|ref-napi|koffi|node-gyp-build|bindings|napi-macros|bun:ffi|bun:jsc|frida|robotjs|internal/.*))$")
 (#rule! "js.native.load" critical "native-code" "loads native code"))

((call_expression function: (_) @callee) @hit
 (#name? @callee "crypto.setEngine" "v8.setFlagsFromString" "Java.type" "Packages.*" "java.lang.*"
   "WScript.*" "v8.startupSnapshot.*")
 (#rule! "js.native.host" high "native-code" "changes the engine or calls into its host"))

; ---- breaking out of the language ------------------------------------------------------------------

([(member_expression property: (_) @p)
  (subscript_expression index: (_) @k)
  (member_expression object: (member_expression property: (_) @c) property: (_) @q)]
 (#any-of? @p "__proto__" "__defineGetter__" "__defineSetter__" "__lookupGetter__"
   "__lookupSetter__")
 (#string-match? @k "^__(proto__|defineGetter__|defineSetter__|lookupGetter__|lookupSetter__)$")
 (#eq? @c "constructor")
 (#eq? @q "prototype")
 (#rule! "js.escape.prototype" high "escape" "reaches an object's prototype by the back door"))

([(string) (template_string)] @hit
 (#match? @hit "__proto__|constructor[\"']?\\s*:\\s*[{]\\s*[\"']?prototype")
 (#rule! "js.escape.prototype-text" medium "escape" "text that names the prototype, used to poison objects"))

; New methods on a shared prototype are bad taste; replacing what others rely on is the risk.
([(assignment_expression left: (_) @o)
  (assignment_expression left: (member_expression object: (call_expression function: (_) @proto)))
  (assignment_expression left: (_) @n)
  (call_expression function: (_) @define arguments: (arguments . (_) @target))
  (call_expression function: (_) @replace arguments: (arguments . (_) @shared))]
 (#match? @o "^((globalThis|window|global)[.])?((Array|Function|String|Number|Promise|RegExp|Map|Set|Date)[.]prototype[.](at|apply|bind|call|catch|concat|constructor|entries|every|exec|filter|find|flat|flatMap|forEach|get|has|includes|indexOf|join|keys|map|match|pop|push|reduce|replace|set|shift|slice|some|sort|splice|split|substring|test|then|toString|trim|valueOf|values)$|JSON[.](parse|stringify)$|Object[.]\\w+$|Reflect[.]|Promise[.]\\w+$)")
 (#name? @n "Object.prototype.*")
 (#name? @proto "Object.getPrototypeOf" "Reflect.getPrototypeOf")
 (#name? @define "Object.defineProperty" "Object.defineProperties" "Reflect.defineProperty"
   "Object.assign" "Object.setPrototypeOf" "Reflect.setPrototypeOf" "Reflect.set")
 (#match? @target "(^(globalThis|global|window|self|process|module|require)$|^(Object|Function|Promise|Reflect|JSON)$|^(Object|Function|Promise)[.]prototype$|getPrototypeOf)")
 (#name? @replace "Object.setPrototypeOf" "Reflect.setPrototypeOf" "Object.freeze")
 (#match? @shared "^(Object|Array|Function|String|Number|Boolean|Promise|RegExp|Map|Set|Date|Error|Symbol)[.]prototype$")
 (#rule! "js.escape.builtins" medium "escape" "changes what all code of the program shares"))

((with_statement) @hit
 (#rule! "js.escape.with" high "escape" "with hides where a name comes from"))

([(member_expression property: (_) @p)
  (subscript_expression index: (_) @k)]
 (#any-of? @p "prepareStackTrace" "getThis" "getFunction")
 (#string? @k "prepareStackTrace" "getThis" "getFunction")
 (#rule! "js.escape.stack" high "escape" "takes objects out of other functions' stack frames"))

((member_expression object: (member_expression property: (_) @c) property: (_) @p) @hit
 (#any-of? @c "caller" "callee")
 (#any-of? @p "arguments" "caller" "constructor")
 (#rule! "js.escape.caller" medium "escape" "looks into the calling function"))

; ---- hiding ---------------------------------------------------------------------------------------

; An ASCII letter written as an escape in a name serves nobody but a hider.
([(identifier) (property_identifier) (shorthand_property_identifier)] @hit
 (#match? @hit "\\\\u(00[2-7][0-9A-Fa-f]|[{]0*[2-7][0-9A-Fa-f][}])")
 (#rule! "js.hide.escaped-name" critical "obfuscation" "a name written in escapes, to hide it"))

([(call_expression function: (subscript_expression object: (_) @o index: (_) @k))
  (new_expression constructor: (subscript_expression object: (_) @o index: (_) @k))]
 (#name? @o "globalThis" "global" "window" "module" "require" "Reflect" "Deno" "Bun" "document"
   "navigator")
 (#not-match? @k "^(\"[^\"\\\\]*\"|'[^'\\\\]*'|`[^`$\\\\]*`)$")
 (#rule! "js.hide.global-call" critical "obfuscation" "calls a global without plainly writing its name"))

([(variable_declarator value: (subscript_expression object: (_) @o index: (_) @k) @hit)
  (arrow_function body: (subscript_expression object: (_) @o index: (_) @k) @hit)
  (return_statement (subscript_expression object: (_) @o index: (_) @k) @hit)
  (arguments (subscript_expression object: (_) @o index: (_) @k) @hit)
  (pair value: (subscript_expression object: (_) @o index: (_) @k) @hit)
  (subscript_expression object: (_) @process index: (_) @k) @hit]
 (#name? @process "process")
 (#name? @o "globalThis" "global" "window" "module" "require")
 (#not-match? @k "^(\"[^\"\\\\]*\"|'[^'\\\\]*'|`[^`$\\\\]*`)$")
 (#rule! "js.hide.global-key" high "obfuscation" "takes a global or a part of process without plainly writing its name"))

; A plain function that gives back its this gives back the global object.
([(call_expression function: (parenthesized_expression (function_expression body: (statement_block (return_statement (this))))))
  (call_expression function: (function_expression body: (statement_block (return_statement (this)))))
  (function_declaration body: (statement_block . (return_statement (this)) .))]
 (#rule! "js.hide.global-this" critical "obfuscation" "takes the global object out of a plain function"))

((call_expression function: (_) @callee arguments: (arguments . (_) @o)) @hit
 (#name? @callee "Object.getOwnPropertyNames" "Object.keys" "Object.values" "Object.entries"
   "Object.getOwnPropertyDescriptors" "Object.getOwnPropertyDescriptor" "Reflect.ownKeys"
   "Reflect.get" "Reflect.getOwnPropertyDescriptor")
 (#name? @o "globalThis" "global" "window" "self" "process" "module" "require")
 (#rule! "js.hide.global-scan" medium "obfuscation" "searches the globals"))

; The marks of obfuscators: names out of single letters, letters out of empty arrays, _0x1a2b names,
; plain letters in escapes, property names in pieces.
([(call_expression function: (subscript_expression index: (binary_expression) @letters))
  (binary_expression operator: "+" right: (array) @empty)
  (variable_declarator name: (identifier) @name)
  (function_declaration name: (identifier) @name)
  (string) @escaped
  (subscript_expression index: (binary_expression right: (string)) @pieces)]
 (#dynamic? @letters)
 (#match? @letters "\\]\\s*[+][^+]*\\]\\s*[+]")
 (#match? @empty "^\\[\\s*\\]$")
 (#match? @name "^_0x[0-9a-f]{4,}$")
 (#match? @escaped "(\\\\x[2-7][0-9A-Fa-f]|\\\\u00[2-7][0-9A-Fa-f]|\\\\u[{]0*[2-7][0-9A-Fa-f][}]){2}")
 (#string-match? @pieces "(?s).")
 (#rule! "js.hide.obfuscated" medium "obfuscation" "written so that nobody can read it"))

((call_expression function: (call_expression function: (subscript_expression index: (_) @k) arguments: (arguments . [(string) (template_string)]))) @hit
 (#dynamic? @k)
 (#rule! "js.hide.called-result" medium "obfuscation" "gives text to a hidden function and calls what it makes"))

([(call_expression) (template_string) (binary_expression)] @hit
 (#string-match? @hit "(\\brequire\\s*\\(|\\bimport\\s*\\(|\\bprocess\\s*[.\\[]|\\beval\\s*\\(|\\bFunction\\s*\\(|globalThis)")
 (#not-match? @hit "require|import|process|eval|Function|globalThis")
 (#rule! "js.hide.decoded" high "obfuscation" "hidden text that is code"))

([(string) (template_string)] @hit
 (#match? @hit "^.\\s*return\\s+(this|process|globalThis|global|window|require|import|eval)\\b")
 (#rule! "js.hide.code-text" medium "obfuscation" "text that is code reaching for the globals"))

; ---- browsers ---------------------------------------------------------------------------------------

([(member_expression) (subscript_expression)] @hit
 (#name? @hit "document.cookie" "document.domain" "navigator.credentials" "navigator.clipboard"
   "navigator.geolocation" "navigator.mediaDevices" "navigator.usb" "navigator.serial")
 (#rule! "js.browser.private" medium "browser" "reads private data of the page's user"))

([(new_expression constructor: (_) @c) (arguments . (_) @c)]
 (#name? @c "Image")
 (#rule! "js.browser.leak" medium "browser" "an image's address can carry data out"))

([(member_expression object: (_) @o) @hit (subscript_expression object: (_) @o) @hit]
 (#name? @o "localStorage" "sessionStorage" "indexedDB" "caches" "cookieStore")
 (#rule! "js.browser.storage" medium "browser" "reads or writes the browser's storage"))

([(assignment_expression left: [(member_expression property: (_) @p) (subscript_expression index: (_) @p)])
  (call_expression function: (_) @callee)]
 (#match? @p "^[\"'`]?(innerHTML|outerHTML|srcdoc)[\"'`]?$")
 (#name? @callee "document.write" "document.writeln" "*.insertAdjacentHTML"
   "*.createContextualFragment" "*.setHTMLUnsafe")
 (#rule! "js.browser.markup" medium "browser" "puts text into the page as markup"))

([(assignment_expression left: (member_expression property: (_) @p) right: (_) @address)
  (assignment_expression left: (subscript_expression index: (_) @k) right: (_) @address)]
 (#any-of? @p "src" "href" "action" "formAction" "background" "cssText")
 (#string? @k "src" "href" "action" "formAction" "background" "cssText")
 (#match? @address "^[\"'`]?((https?|wss?):)?//|url[(]")
 (#rule! "js.browser.address" medium "browser" "makes the page load an address"))

([(call_expression function: (_) @make) @call
  (call_expression function: (_) @set) @handler]
 (#name? @make "*.createElement" "*.createElementNS")
 (#arg? @call "*" "(?i)^(script|iframe|object|embed|frame|portal)$")
 (#name? @set "*.setAttribute")
 (#arg? @handler "0" "(?i)^(on[a-z]+|srcdoc)$")
 (#rule! "js.browser.script" high "browser" "adds code or a frame to the page"))

([(string) (template_string) (binary_expression)] @hit
 (#string-match? @hit "(?i)^\\s*(javascript|vbscript):")
 (#rule! "js.browser.script-url" high "browser" "an address that is code"))

([(assignment_expression left: (_) @place)
  (assignment_expression left: (_) @window)
  (call_expression function: (_) @place)
  (call_expression function: (_) @window)]
 (#name? @place "location.href" "document.location" "document.location.href" "location.assign"
   "location.replace" "top.location" "parent.location" "top.location.href" "parent.location.href")
 (#match? @window "^(window|self|globalThis)[.](location|open)$")
 (#rule! "js.browser.navigate" medium "browser" "leads the page to another address"))

; ---- Deno and Bun -----------------------------------------------------------------------------------

([(member_expression) (subscript_expression)] @hit
 (#name? @hit "Deno.Command" "Deno.run" "Deno.dlopen" "Deno.kill" "Deno.UnsafePointer"
   "Deno.UnsafeFnPointer")
 (#rule! "js.deno.run" critical "process" "starts programs or native code with Deno"))

([(member_expression) (subscript_expression)] @hit
 (#name? @hit "Deno.*")
 (#not-name? @hit "Deno.Command" "Deno.run" "Deno.dlopen" "Deno.kill" "Deno.UnsafePointer"
   "Deno.env" "Deno.env.*" "Deno.cwd" "Deno.args" "Deno.version" "Deno.version.*" "Deno.build"
   "Deno.build.*" "Deno.inspect" "Deno.test" "Deno.bench")
 (#rule! "js.deno.file" high "filesystem" "reaches files or the network with Deno"))

([(member_expression) @x
  (subscript_expression) @x
  (variable_declarator name: (object_pattern) value: (_) @o)
  (call_expression) @load
  (import_statement source: (_) @m)]
 (#name? @x "Bun.spawn" "Bun.spawnSync" "Bun.$" "Bun.plugin" "Bun.Transpiler")
 (#name? @o "Bun" "Deno")
 (#name? @load "bun" "bun:sqlite")
 (#string-match? @m "^bun(:(?!test|ffi|jsc).*)?$")
 (#rule! "js.bun.run" critical "process" "starts programs or loads code with Bun or Deno"))

([(member_expression) (subscript_expression)] @hit
 (#name? @hit "Bun.*")
 (#not-name? @hit "Bun.spawn" "Bun.spawnSync" "Bun.$" "Bun.plugin" "Bun.Transpiler" "Bun.version"
   "Bun.nanoseconds" "Bun.hash" "Bun.inspect" "Bun.deepEquals" "Bun.sleep" "Bun.sleepSync")
 (#rule! "js.bun.file" high "filesystem" "reaches files or the network with Bun"))

; ---- things worth a note ------------------------------------------------------------------------------

([(call_expression function: (_) @load arguments: (arguments . (_) @m))
  (call_expression function: (import) arguments: (arguments . (_) @m))
  (import_statement source: (_) @m)
  (export_statement source: (_) @m)
  (import_statement (_ (_) @m))]
 (#name? @load "require")
 (#string-match? @m "^(js-yaml|yaml|xml2js|fast-xml-parser|@xmldom/xmldom|xmldom|libxmljs2?|sax|cheerio|plist|bson|msgpackr?|protobufjs|xlsx|exceljs|pdf-parse|pdf-lib|sharp|jimp|canvas|ejs|pug|handlebars|nunjucks|mustache|dot|eta)(/.*)?$")
 (#rule! "js.parse.untrusted" medium "parser" "parses a complex format or compiles templates"))

((call_expression function: (_) @callee) @hit
 (#name? @callee "v8.deserialize" "lodash.template" "underscore.template" "_.template"
   "*.unserialize")
 (#rule! "js.parse.objects" high "parser" "makes objects or code out of data"))

; A body that is one plain expression cannot leave the loop.
([(while_statement condition: (parenthesized_expression [(true) (number) (unary_expression) @not])
    body: (expression_statement [(call_expression) (update_expression) (assignment_expression)]))
  (while_statement condition: (parenthesized_expression [(true) (number) (unary_expression) @not]) body: (empty_statement))
  (for_statement condition: (empty_statement)
    body: (expression_statement [(call_expression) (assignment_expression)]))
  (for_statement condition: (empty_statement) body: (empty_statement))] @hit
 (#match? @not "^!\\s*(0|!\\s*(1|\\[\\]))$")
 (#rule! "js.resource.endless" medium "resources" "a loop that never ends"))

([(call_expression function: (_) @callee) (new_expression constructor: (_) @callee)] @hit
 (#name? @callee "Date" "Date.now" "Math.random" "performance.now" "crypto.randomUUID"
   "crypto.getRandomValues")
 (#rule! "js.state.time" low "state" "uses time or chance"))

([(member_expression) (subscript_expression)] @hit
 (#name? @hit "process.argv" "process.argv0" "process.stdout" "process.stderr" "process.stdin"
   "process.uptime" "process.memoryUsage" "process.version" "process.versions" "process.platform"
   "process.arch" "process.hrtime" "process.nextTick" "process.exitCode" "process.cpuUsage" "process.pid" "process.ppid" "process.release" "process.features")
 (#rule! "js.state.process" low "state" "reads arguments, input or figures of its own process"))

([(call_expression function: (_) @load arguments: (arguments . (_) @m))
  (call_expression function: (import) arguments: (arguments . (_) @m))
  (import_statement source: (_) @m)
  (export_statement source: (_) @m)
  (import_statement (_ (_) @m))]
 (#name? @load "require")
 (#string-match? @m "^(node:)?(crypto|path|path/posix|path/win32|perf_hooks|process|readline|readline/promises|stream|stream/promises|url|zlib|async_hooks)$")
 (#rule! "js.lib.plain" low "library" "uses a library without effects of its own"))
