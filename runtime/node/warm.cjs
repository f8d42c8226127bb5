// SPDX-License-Identifier: Apache-2.0
'use strict';

// Waits in a finished box for one program and runs it: `node warm.cjs R`. R is the descriptor of a
// blocking stream socket. Frames on it are a length of 4 bytes, little endian, and one JSON object:
// {"ready"} from here, the run message from brig, then {"output"} ... and {"done"} from here.
//
// Whatever is needed after the program has begun is bound before, since the program may replace any
// global, method or prototype. Text is built by hand because toJSON can be planted on prototypes.

const fs = require('fs');
const url = require('url');
const util = require('util');
const vm = require('vm');
const run = require('./run.cjs');

const { apply, ownKeys, defineProperty } = Reflect;
const { keys } = Object;
const { isArrayBufferView, isNativeError } = util.types;
const { stringify, parse } = JSON;
const { inspect } = util;
const { readSync, writeSync } = fs;
const { from: bufferFrom } = Buffer;
const { base64Slice } = Buffer.prototype;
const { set } = Uint8Array.prototype;
const Bytes = Uint8Array;
const encode = TextEncoder.prototype.encode.bind(new TextEncoder());
const decode = TextDecoder.prototype.decode.bind(new TextDecoder('utf-8', { ignoreBOM: true }));
const { slice, indexOf, startsWith, split } = String.prototype;
const { exec } = RegExp.prototype;
const node = process;
const { emit, on, listenerCount, listeners } = node;
const { then } = Promise.prototype;
const resolve = Promise.resolve.bind(Promise);
const displaySymbol = Symbol.for('Jupyter.display');
const { wait } = Atomics;
const { max } = Math;
const toText = String;
const reallyExit = process.reallyExit;
const hasCapture = process.hasUncaughtExceptionCaptureCallback;

const VALUE_MAX = 64 << 10;
const ENTRY_MAX = 8 << 20;
const TOTAL_MAX = 60 << 20; // all outputs together; a frame of brig's is at most 64 MiB
const OUTPUTS_MAX = 1000;
const FRAME_MAX = 64 << 20;
const STAY_MS = 200;
const showing = { __proto__: null, maxStringLength: VALUE_MAX };

const cell = new Int32Array(new SharedArrayBuffer(4));
const program = { file: __filename, url: '', lines: [] };
const sent = { outputs: 0, bytes: 0, full: false };
// R, and how to leave. During the rehearsal it is nowhere.
const channel = { fd: -1, stay: 0, leave() {} };
// The program's last value comes in through hasInstance, see catchValue() in run.cjs; `error` is
// for fatalPlace() below. The name is a random one in V8's global scope, and not a property of the
// global object, so that no program meets it.
const holder = {
  __proto__: null,
  name: `_${Math.random().toString(36).slice(2)}`,
  full: false,
  value: undefined,
  error: undefined,
  [Symbol.hasInstance](value) {
    holder.full = true;
    holder.value = value;
    return false;
  },
};
const state = { exiting: false, ending: false, fatal: undefined };

// Descriptors

function retry(call) {
  for (;;) {
    try {
      return call();
    } catch (e) {
      // Somebody has made the descriptor non-blocking.
      if (e.code !== 'EAGAIN') throw e;
      wait(cell, 0, 0, 1);
    }
  }
}

function writeAll(fd, bytes) {
  for (let at = 0; at < bytes.length;) {
    at += retry(() => writeSync(fd, bytes, at, bytes.length - at));
  }
}

function readExactly(length) {
  const bytes = new Bytes(length);
  for (let at = 0; at < length;) {
    const n = retry(() => readSync(channel.fd, bytes, at, length - at));
    if (n === 0) return null;
    at += n;
  }
  return bytes;
}

function send(text) {
  const body = encode(text);
  const n = body.length;
  const frame = new Bytes(4 + n);
  for (let i = 0; i < 4; i++) frame[i] = n >>> (8 * i);
  apply(set, frame, [body, 4]);
  writeAll(channel.fd, frame);
}

function receive() {
  const head = readExactly(4);
  let length = 0;
  for (let i = 3; head !== null && i >= 0; i--) length = length * 256 + head[i];
  const body = length > 0 && length <= FRAME_MAX ? readExactly(length) : null;
  return body === null ? null : parse(decode(body));
}

// Outputs

// A JSON string without lone surrogates, which are not UTF-8.
function quote(text) {
  return stringify(decode(encode(text)));
}

function bounded(text, limit) {
  return text.length <= limit ? text : `${apply(slice, text, [0, limit])}…`;
}

function tryText(make) {
  try {
    return toText(make());
  } catch {
    return '[cannot be shown]';
  }
}

function isJsonType(type) {
  return apply(exec, /^application\/(?:json|.*\+json)$/, [type]) !== null;
}

function encodeEntry(type, data) {
  if (isJsonType(type)) return stringify(data);
  if (typeof data === 'string') return quote(data);
  if (!isArrayBufferView(data)) return quote(toText(data));
  const bytes = bufferFrom(data.buffer, data.byteOffset, data.byteLength);
  return quote(apply(base64Slice, bytes, [0, data.byteLength]));
}

// A bundle as JSON. An entry that is too large or cannot be encoded is named in text/plain.
function encodeBundle(bundle) {
  const types = keys(bundle);
  let body = '';
  let note = '';
  for (let i = 0; i < types.length; i++) {
    const type = types[i];
    let data;
    try {
      data = encodeEntry(type, bundle[type]);
    } catch {
      data = undefined;
    }
    if (data === undefined || data.length > ENTRY_MAX) note += `[${type} dropped]`;
    else body += `${body && ','}${quote(type)}:${data}`;
  }
  if (note && apply(indexOf, body, ['"text/plain":']) < 0) {
    body += `${body && ','}"text/plain":${quote(note)}`;
  }
  return `{${body}}`;
}

function emitBundle(bundle) {
  let text = `{"output":${encodeBundle(bundle)}}`;
  if (sent.outputs >= OUTPUTS_MAX || sent.bytes + text.length > TOTAL_MAX) {
    if (sent.full) return;
    sent.full = true; // one more than brig keeps: it says so
    text = '{"output":{"text/plain":"[further outputs are left out]"}}';
  }
  sent.outputs++;
  sent.bytes += text.length;
  try {
    send(text);
  } catch {
    // The program has closed or broken R, and goes on.
  }
}

function isObject(value) {
  return value !== null && typeof value === 'object';
}

function hasProperties(value) {
  return isObject(value) || typeof value === 'function';
}

function isBundle(object) {
  const types = isObject(object) ? keys(object) : [];
  for (let i = 0; i < types.length; i++) {
    if (apply(exec, /^[\w.+-]+\/[\w.+-]+$/, [types[i]]) === null) return false;
  }
  return types.length > 0;
}

// What an object says about itself, or a promise of that. Undefined when it says nothing. Throws
// what the program's code throws.
function ownBundle(object) {
  if (!hasProperties(object)) return undefined;
  const make = object[displaySymbol] ?? object.toMimeBundle;
  const bundle = typeof make === 'function' ? apply(make, object, []) : undefined;
  if (isObject(bundle)) return bundle;
  return isBundle(object) ? object : undefined;
}

function plain(value) {
  return bounded(tryText(() => inspect(value, showing)), VALUE_MAX);
}

function emitPlain(object) {
  emitBundle({ __proto__: null, 'text/plain': plain(object) });
}

// What is no bundle, or fails when it is looked at, is shown as text.
function emitOwn(object, bundle) {
  try {
    if (isObject(bundle)) return emitBundle(bundle);
  } catch {
    // So is this.
  }
  return emitPlain(object);
}

function displayOne(object) {
  let bundle;
  try {
    bundle = ownBundle(object);
    if (typeof bundle?.then === 'function') {
      apply(then, resolve(bundle), [(late) => emitOwn(object, late), () => emitPlain(object)]);
      return;
    }
  } catch {
    bundle = undefined;
  }
  emitOwn(object, bundle);
}

function display(...objects) {
  for (let i = 0; i < objects.length; i++) displayOne(objects[i]);
}

// The end

function takeValue() {
  const { value } = holder;
  if (!holder.full || value === undefined) return 'null';
  const text = plain(value);
  let bundle;
  try {
    bundle = { ...ownBundle(value), __proto__: null };
    bundle['text/plain'] ??= text;
  } catch {
    bundle = undefined;
  }
  emitOwn(value, bundle);
  return quote(text);
}

// Says `done` and stays, since brig ends the box at once. If it does not, the program has written
// to R and brig cannot read `done`: then the status tells. Never returns.
function finish(code, error) {
  const status = code & 255;
  try {
    // Showing the value can run the program's code, which may leave: then there is no value.
    const again = state.ending;
    state.ending = true;
    const value = error === undefined && !again ? takeValue() : 'null';
    send(`{"done":{"exit":${status},"value":${value},"error":${error ?? 'null'}}}`);
    wait(cell, 0, 0, channel.stay);
  } catch {
    // The program has closed or broken R: the status is all that can be told.
  }
  channel.leave(status);
}

// Node writes about an uncaught exception after the last JavaScript has run, so `done` would come
// before the text. The text is written here instead, the way node does it. What node alone knows is
// where the exception was thrown. It puts that into a private field of the error and then asks for
// `stack`: at this moment fatalPlace() gets it out by throwing the error through vm, which prepends
// the field to the stack.

const thrower = new vm.Script(`throw ${holder.name}.error`, { filename: holder.name });

function fatalPlace(error) {
  defineProperty(error, 'stack', { __proto__: null, value: '', writable: true, configurable: true });
  holder.error = error;
  try {
    thrower.runInThisContext({ displayErrors: true });
  } catch {
    // It is the error itself.
  }
  const text = error.stack;
  return apply(startsWith, text, [holder.name]) ? '' : originalLine(text);
}

// The line as the program has it, without the change for its value.
function originalLine(text) {
  const lines = apply(split, text, ['\n']);
  const found = apply(exec, /^(.*):(\d+)$/, [lines[0]]);
  if (found === null || (found[1] !== program.file && found[1] !== program.url)) return text;
  const rest = apply(slice, text, [lines[0].length + 1 + lines[1].length]);
  return `${lines[0]}\n${program.lines[found[2] - 1] ?? lines[1]}${rest}`;
}

function lineOf(text) {
  for (let at = 0; at >= 0;) {
    at = apply(indexOf, text, [program.file, at]);
    if (at < 0) break;
    at += program.file.length;
    const found = apply(exec, /^:(\d+)/, [apply(slice, text, [at, at + 12])]);
    if (found !== null) return found[1];
  }
  return 'null';
}

function typeOf(error) {
  if (!isObject(error)) return typeof error;
  const { name } = error;
  const given = typeof name === 'string' && name !== '' && name !== 'Error';
  return given ? name : error.constructor?.name || 'Error';
}

// Errors of other kinds are known by their stack: a DOMException, a proxy, classes made by hand.
function isError(error) {
  return isNativeError(error) || (isObject(error) && typeof error.stack === 'string' &&
    typeof error.message === 'string');
}

function describe(error) {
  const type = tryText(() => typeOf(error));
  const message = tryText(() => (isError(error) ? error.message : inspect(error)));
  return `"type":${quote(bounded(type, 256))},"message":${quote(bounded(message, VALUE_MAX))}`;
}

function withTrace(told, traceback) {
  return `{${told},"traceback":${quote(bounded(traceback, VALUE_MAX))},"line":${lineOf(traceback)}}`;
}

function report(error, told, traceback) {
  const hint = hasProperties(error)
    ? '' : '\n(Use `node --trace-uncaught ...` to show where the exception was thrown)';
  try {
    writeAll(2, encode(`${traceback}${hint}\n\nNode.js ${node.version}\n`));
  } catch {
    // Closed by the program; node would not be heard either.
  }
  finish(node.exitCode ?? 1, withTrace(told, traceback));
}

// Errors of node itself can have more to say, e.g. where an 'error' event was emitted.
function enhance(error) {
  const own = ownKeys(error);
  for (let i = 0; i < own.length; i++) {
    if (own[i].description !== 'kEnhanceStackBeforeInspector') continue;
    const more = error[own[i]]();
    defineProperty(error, own[i], { __proto__: null, value: undefined });
    error.stack = more;
  }
}

function fatalText(error) {
  if (!hasProperties(error)) return tryText(() => error);
  try {
    enhance(error);
    const depth = max(inspect.defaultOptions.depth, 5);
    return inspect(error, { __proto__: null, customInspect: false, depth });
  } catch {
    return tryText(() => error.stack);
  }
}

// All that looks at the error is done before `stack` is a getter: it would look at that, too.
function armFatal(error) {
  const text = fatalText(error);
  const told = describe(error);
  const get = () => {
    const place = isNativeError(error) ? fatalPlace(error) : '';
    return report(error, told, place + text);
  };
  const armed = hasProperties(error) &&
    tryDefine(error, { __proto__: null, get, configurable: true });
  if (!armed) report(error, told, text);
}

function tryDefine(error, descriptor) {
  try {
    return defineProperty(error, 'stack', descriptor);
  } catch {
    return false; // a proxy
  }
}

function onUncaught(error) {
  const handled = apply(hasCapture, node, []) ||
    apply(listenerCount, node, ['uncaughtException']) > 0;
  if (handled) return;
  if (node._exiting) armFatal(error);
  else state.fatal = { error };
}

function onExit() {
  if (state.fatal !== undefined) armFatal(state.fatal.error);
  else finish(node.exitCode ?? 0);
}

// Node calls `listener.apply`, which the program may have replaced for all functions but these.
for (const listener of [onUncaught, onExit]) listener.apply = listener.apply;

function isListening(name, listener) {
  const found = apply(listeners, node, [name]);
  for (let i = 0; i < found.length; i++) {
    if (found[i] === listener) return true;
  }
  return false;
}

// Node looks `emit` up for every event, also for those that it sends itself. That is the moment to
// see that the listeners are there, that of 'exit' as the last one, whatever the program has
// removed; and they are in no stack trace of the program's own listeners.
function hookEvents() {
  let current = emit;
  let busy = false; // adding a listener is an event too, but nobody's business
  const nothing = () => false;
  const get = () => {
    if (busy) return nothing;
    busy = true;
    if (!isListening('uncaughtExceptionMonitor', onUncaught)) {
      apply(on, node, ['uncaughtExceptionMonitor', onUncaught]);
    }
    if (node._exiting && !state.exiting) {
      state.exiting = true;
      apply(on, node, ['exit', onExit]);
    }
    busy = false;
    return current;
  };
  const set = (value) => { current = value; };
  defineProperty(node, 'emit', { get, set, configurable: true, enumerable: false });
  node.reallyExit = function (code) { finish(code); };
}

// The start

// Node reads the program's file itself; here it gets the source in which the value is caught.
function giveSource(object, method, file, answer) {
  const original = object[method];
  object[method] = function (asked, ...rest) {
    object[method] = original;
    const name = asked instanceof URL ? url.fileURLToPath(asked) : asked;
    return name === file ? answer : apply(original, this, [asked, ...rest]);
  };
}

function applyMessage(message) {
  for (const text of message.env ?? []) {
    const cut = text.indexOf('=');
    process.env[text.slice(0, cut)] = text.slice(cut + 1);
  }
  process.argv = [process.execPath, message.path, ...(message.argv ?? [])];
}

function prepare(path) {
  const source = fs.readFileSync(path, 'utf8');
  const module = run.isModule(path, source);
  const file = run.nameForNode(path, module);
  const caught = run.catchValue(source, module, holder.name);
  program.file = file;
  program.url = url.pathToFileURL(file).href;
  program.lines = source.split('\n');
  if (caught !== null && module) {
    giveSource(fs.promises, 'readFile', file, Promise.resolve(Buffer.from(caught)));
  } else if (caught !== null) {
    giveSource(fs, 'readFileSync', file, caught);
  }
  return file;
}

// What a program does first takes milliseconds when it is the first time. So everything is done
// here, with the null device in place of R: more than once, because V8 makes machine code of a
// regular expression when it is used again, and on little text, because V8 would find the tokenizer
// worth optimizing, which takes longer than any program and is waited for at its end.

const SAMPLES = [
  'console.log(1)\n', '// x\nconst a = [1, "b"];\nfunction f(x) { return x / 2; }\n\nf(a[0]) ? 1 : 2;\n',
  'import "fs";\n', 'await 1;\n`${1}`;\n', 'for (const a of []) { }\nconst o = { a: /x/g };\no.a\n',
];

function rehearsePrint(stream, print) {
  stream.write = () => true;
  print('%s', 1, 'x');
  print({ a: [1] });
  delete stream.write;
  // A pipe's writes would not be over when the program leaves: process.exit() loses them.
  stream._handle?.setBlocking?.(true);
  stream.write(''); // all the way to the system call, and no byte
}

// Node runs this file again, with other words in it.
function rehearseStart() {
  run.forget();
  giveSource(fs, 'readFileSync', __filename, 'require("fs");\n');
  run.start(prepare(__filename));
  return new Promise((resolve) => { setTimeout(resolve, 1); });
}

function rehearseRun(source) {
  const module = run.isModule('/x.js', source);
  holder.full = run.catchValue(source, module, holder.name) !== null;
  holder.value = source;
  try {
    throw new Error('x');
  } catch (error) {
    withTrace(describe(error), fatalPlace(error) + fatalText(error));
  }
  display({ 'text/plain': 'x' }, 1);
  finish(0);
}

async function rehearse() {
  channel.fd = fs.openSync('/dev/null', 'r+');
  rehearsePrint(process.stdout, console.log);
  rehearsePrint(process.stderr, console.error);
  for (const source of [...SAMPLES, ...SAMPLES]) rehearseRun(source);
  applyMessage({ path: __filename, env: [], argv: [] });
  process.emit('beforeExit', 0);
  await rehearseStart();
  await rehearseStart();
  await import('data:text/javascript,await 1');
  fs.closeSync(channel.fd);
}

function reset() {
  sent.outputs = sent.bytes = 0;
  sent.full = false;
  holder.full = false;
  holder.value = holder.error = undefined;
  state.ending = false;
  run.forget();
}

function serve() {
  reset();
  channel.stay = STAY_MS;
  channel.leave = (status) => apply(reallyExit, node, [status]);
  send('{"ready":true}');
  const message = receive();
  if (message === null) channel.leave(0);
  applyMessage(message);
  run.start(prepare(message.path));
}

const R = Number(process.argv[2]);
vm.runInThisContext(`let ${holder.name}; (v) => { ${holder.name} = v; }`)(holder);
hookEvents();
rehearse().then(() => {
  channel.fd = R;
  defineProperty(globalThis, 'display', { value: display, writable: true, configurable: true });
  setImmediate(serve);
});
