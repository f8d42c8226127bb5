// SPDX-License-Identifier: Apache-2.0
'use strict';

// Runs the file given as first argument as the main program. A .js file is an ES module when it
// does not compile as CommonJS for a reason that only a module explains. Node decides the same way
// from 20.19 and 22.7 on; older releases go by the extension alone, so the file gets the one that
// says what it is.

const fs = require('fs');
const Module = require('module');
const path = require('path');
const url = require('url');
const vm = require('vm');

const MODULE_ONLY = /import statement outside a module|Unexpected token 'export'|'import\.meta' outside|await is only valid/;

function isModule(file) {
  const ext = path.extname(file);
  if (ext === '.mjs') return true;
  if (ext === '.cjs') return false;
  const source = fs.readFileSync(file, 'utf8').replace(/^#!.*/, '');
  try {
    vm.compileFunction(source, ['exports', 'require', 'module', '__filename', '__dirname']);
    return false;
  } catch (e) {
    return e instanceof SyntaxError && MODULE_ONLY.test(e.message);
  }
}

function nodeDetectsModules() {
  const [major, minor] = process.versions.node.split('.').map(Number);
  return major > 22 || (major === 22 && minor >= 7) || (major === 20 && minor >= 19);
}

process.argv.splice(1, 1);
let file = process.argv[1];
if (!isModule(file)) {
  Module.runMain();
} else {
  if (!file.endsWith('.mjs') && !nodeDetectsModules()) {
    const renamed = file.replace(/\.js$/, '') + '.mjs';
    fs.renameSync(file, renamed);
    process.argv[1] = file = renamed;
  }
  import(url.pathToFileURL(file).href);
}
