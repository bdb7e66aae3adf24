/**
 * Loaded first in every `baton` that a test starts: a process that lives for a second must not spend it on being fast for hours.
 *
 * V8 compiles a function again, optimised, once it has run through so many bytes of bytecode: a sixth of the CPU of a start.
 * Here it waits seven times as long, and gives new objects more room before the first collections. Nothing else is changed,
 * and programs other than `baton` are left alone.
 */
const { setFlagsFromString } = require('node:v8')

if (/[\\/]dist[\\/]bin[\\/]baton\.js$/.test(process.argv[1] ?? '')) {
  // The flag is gone from Node 24's V8, which counts calls.
  if (Number.parseInt(process.versions.v8, 10) < 13) setFlagsFromString('--interrupt-budget=500000')
  setFlagsFromString('--semi-space-growth-factor=8')
}
