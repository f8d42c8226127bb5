// SPDX-License-Identifier: Apache-2.0
'use strict';

// Runs the file given as first argument as the main program; warm.cjs shares what is below.
//
// A .js file is an ES module when it does not compile as CommonJS for a reason that only a module
// explains. Node decides the same way from 20.19 and 22.7 on; older releases go by the extension
// alone, so the file gets the one that says what it is.

const fs = require('fs');
const Module = require('module');
const path = require('path');
const vm = require('vm');

const MODULE_ONLY = /import statement outside a module|Unexpected token 'export'|'import\.meta' outside|await is only valid/;
const PARAMETERS = ['exports', 'require', 'module', '__filename', '__dirname'];
const AsyncFunction = (async () => {}).constructor;

function compile(source) {
  return vm.compileFunction(source, PARAMETERS);
}

function isModule(file, source) {
  const ext = path.extname(file);
  if (ext === '.mjs') return true;
  if (ext === '.cjs') return false;
  try {
    compile(source.replace(/^#!.*/, ''));
    return false;
  } catch (e) {
    return e instanceof SyntaxError && MODULE_ONLY.test(e.message);
  }
}

function nodeDetectsModules() {
  const [major, minor] = process.versions.node.split('.').map(Number);
  return major > 22 || (major === 22 && minor >= 7) || (major === 20 && minor >= 19);
}

// Gives the file the name by which node takes it for what it is.
function nameForNode(file, module) {
  if (!module || file.endsWith('.mjs') || nodeDetectsModules()) return file;
  const renamed = file.replace(/\.js$/, '') + '.mjs';
  fs.renameSync(file, renamed);
  return renamed;
}

// The program finds no module of a runner loaded.
function forget() {
  for (const key of Object.keys(Module._pathCache)) delete Module._pathCache[key];
  for (const key of Object.keys(require.cache)) delete require.cache[key];
  process.mainModule = undefined;
}

// Starts the program as soon as the caller has returned: node calls runMain itself then, and no
// frame of a runner is below the program's own.
function start(file) {
  process.argv[1] = file;
  process.nextTick(Module.runMain.bind(Module), file);
}

// The value of a program is that of its last statement, when this is an expression. It is caught
// without a change of meaning: `f(x);` becomes `f(x) instanceof NAME;`, and NAME's hasInstance gets
// the value after the expression was evaluated in its own place. An expression with an operator
// that binds less is put in parentheses; only then an error in it is told one column too far.
//
// Where the last statement begins is found with a tokenizer, and V8's own parser is asked whether
// what is before it is complete. In doubt there is no value and the program stays as it is. So it
// is for a module with import or export declarations, which only the module loader can parse.

const TOKEN = new RegExp([
  /[\s\ufeff]+|\/\/.*|\/\*[^]*?\*\//, // 0: blank
  /("(?:[^"\\\n]|\\[^])*"|'(?:[^'\\\n]|\\[^])*'|\.?\d[\w.]*)/, // 1: value
  /((?:[\p{ID_Continue}$_#\u200c\u200d]|\\u\{\w+\}|\\u\w{4})+)/, // 2: word
  /(\+\+|--(?!>)|=>|\?\.(?!\d)|[^])/, // 3: mark
].map((r) => r.source).join('|'), 'uy');
const REGEX = /\/(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/\w*/y;
const TEMPLATE = /(?:[^`\\$]|\\[^]|\$(?!\{))*(`|\$\{)/y;
const BEFORE_REGEX = /^(?:return|typeof|case|do|else|in|instanceof|new|void|delete|throw)$/;
const EITHER_WAY = /^(?:await|yield|of|\})$/; // a division or a regular expression may follow
const NO_START = /^(?:[^\w$\\#("'`[{+\-!~/\p{ID_Start}]|=>|in|instanceof|else|catch|finally)$/u;
const DECLARATION = /^(?:function\b|class\b|async[^\S\n]+function\b|\{)/;
const BINDS_LESS = /^(?:[=?:,&|^]|=>|yield)$/;
const SOURCE_MAX = 1 << 18;
const TRIES_MAX = 16;

class Tokenizer {
  constructor(source, at) {
    this.source = source;
    this.at = at;
    this.open = []; // of each bracket: the mark, and whether a condition is in it
    this.last = { text: '', end: at };
  }

  match(regex) {
    regex.lastIndex = this.at;
    const found = regex.exec(this.source);
    if (found === null) throw new SyntaxError('not understood');
    this.at = regex.lastIndex;
    return found;
  }

  regexMayFollow() {
    const { text, kind, condition, member } = this.last;
    if (EITHER_WAY.test(text)) throw new SyntaxError('division or regular expression');
    if (kind === 'value') return false;
    if (kind === 'word') return !member && BEFORE_REGEX.test(text);
    return text === ')' ? condition : !/^(?:\]|\+\+|--)$/.test(text);
  }

  bracket(token) {
    const { last, open } = this;
    const { text } = token;
    if (text === '(' || text === '[' || text === '{') {
      open.push({ text, condition: !last.member && /^(?:if|while|for|with)$/.test(last.text) });
    } else if (text === ')' || text === ']' || text === '}') {
      const opener = open.pop();
      if (opener === undefined) throw new SyntaxError('nothing to close');
      token.condition = opener.condition;
      if (opener.text === '${') this.template(token);
    } else if (text === '`') {
      this.template(token);
    }
  }

  template(token) {
    if (this.match(TEMPLATE)[1] === '${') this.open.push({ text: '${' });
    token.kind = 'value';
    token.end = this.at;
  }

  // The next token that is not blank; undefined at the end.
  next() {
    let newline = false;
    while (this.at < this.source.length) {
      const start = this.at;
      const depth = this.open.length;
      const [text, value, word, mark] = this.match(TOKEN);
      if (value === undefined && word === undefined && mark === undefined) {
        newline = newline || /[\n\r\u2028\u2029]/.test(text);
        continue;
      }
      const previous = { text: this.last.text, end: this.last.end };
      const token = { text, start, end: this.at, depth, newline, previous };
      token.kind = word !== undefined ? 'word' : value !== undefined ? 'value' : 'mark';
      token.member = previous.text === '.' || previous.text === '?.';
      if (text === '/' && this.regexMayFollow()) {
        this.at = start;
        token.text = this.match(REGEX)[0];
        token.kind = 'value';
        token.end = this.at;
      }
      this.bracket(token);
      this.last = token;
      return token;
    }
    return undefined;
  }
}

// Tokens that may begin a statement, in order; the end of the last statement; and where the last
// operator is that binds less than instanceof.
function places(source, begin) {
  const tokens = new Tokenizer(source, begin);
  const starts = [];
  let end = begin;
  let less = -1;
  for (let token = tokens.next(); token !== undefined; token = tokens.next()) {
    const { previous } = token;
    if (token.text === ';' && token.depth === 0) continue;
    end = token.end;
    if (token.depth === 0 && BINDS_LESS.test(token.text)) less = token.start;
    if (token.depth === 0 && (token.newline || /^[;}]?$/.test(previous.text))) starts.push(token);
  }
  // HTML-like comments are comments in scripts only; nobody writes them on purpose.
  return { starts: /<!--|-->/.test(source) ? [] : starts, end, less };
}

function parser(module) {
  return (text) => {
    if (text === '') return true;
    try {
      if (module) new AsyncFunction(`"use strict";${text}`);
      else compile(text);
      return true;
    } catch {
      return false;
    }
  };
}

// Whether a statement begins with this token, when the text before it is taken as it stands.
function begins(token, before, parses) {
  const { text, previous } = token;
  if (NO_START.test(text) || previous.text === 'let' || !parses(before)) return false;
  if (/^[;]?$/.test(previous.text)) return true;
  if (/^[([`]/.test(text)) return !parses(`${before}\n.x`);
  if (/^(?:[+-]$|\/)/.test(text)) return !parses(`${before}\n*1`);
  return true;
}

function wrap(source, token, end, less, name) {
  const { start, previous } = token;
  const [before, gap] = [source.slice(0, previous.end), source.slice(previous.end, start)];
  const [expression, after] = [source.slice(start, end), source.slice(end)];
  if (less < start) return `${before}${gap}${expression} instanceof ${name}${after}`;
  return `${before}${token.newline ? ';' : ''}${gap}(${expression})instanceof ${name}${after}`;
}

// The source with its last expression given to `name`; null when there is none.
function catchValue(source, module, name) {
  const begin = /^\ufeff?(?:#!.*)?/.exec(source)[0].length;
  const text = (from, to) => source.slice(Math.max(from, begin), to);
  const parses = parser(module);
  if (source.length > SOURCE_MAX) return null;
  try {
    const { starts, end, less } = places(source, begin);
    for (const token of starts.slice(-TRIES_MAX).reverse()) {
      if (token.start >= end || !begins(token, text(begin, token.start), parses)) continue;
      const expression = text(token.start, end);
      if (DECLARATION.test(expression) || !parses(`(${expression}\n)`)) return null;
      const wrapped = wrap(source, token, end, less, name);
      return token.start === begin || parses(wrapped.slice(begin)) ? wrapped : null;
    }
  } catch (e) {
    if (!(e instanceof SyntaxError)) throw e;
  }
  return null;
}

if (require.main === module) {
  process.argv.splice(1, 1);
  const file = path.resolve(process.argv[1]);
  forget();
  start(nameForNode(file, isModule(file, fs.readFileSync(file, 'utf8'))));
} else {
  module.exports = { isModule, nameForNode, forget, start, catchValue };
}
