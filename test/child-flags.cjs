/**
 * V8 flags for every `baton` process that a test starts; loaded first. Such a process lives for about a second, so code
 * optimised for hours of running does not pay.
 *
 * V8 optimises a function once it has executed a number of bytes of bytecode, which is a sixth of the CPU time of a start.
 * Here this number is seven times as large, and new objects get more space before the first garbage collections. Nothing
 * else changes, and other programs are not affected.
 */
const { setFlagsFromString } = require('node:v8')

if (/[\\/]dist[\\/]bin[\\/]baton\.js$/.test(process.argv[1] ?? '')) {
  // V8 of Node 24 counts calls instead and does not have this flag.
  if (Number.parseInt(process.versions.v8, 10) < 13) setFlagsFromString('--interrupt-budget=500000')
  setFlagsFromString('--semi-space-growth-factor=8')
}
