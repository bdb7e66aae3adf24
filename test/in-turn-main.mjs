/**
 * Runs `baton` commands one after the other in this process, each with its own arguments, variables, folder and exit code.
 *
 * The program ends by setting an exit code, so importing its module again runs it again; the modules that it imports stay
 * loaded.
 */
import { pathToFileURL } from 'node:url'

const [main] = process.argv.slice(2)
const environment = { ...process.env }
let count = 0

/**
 * Passes everything written to the stream to `take`; returns a function that restores the stream, and removes the
 * listeners that a command, which has a process of its own otherwise, leaves on it.
 */
function divert(stream, take) {
  const { write } = stream
  const listeners = stream.listeners('error')
  stream.write = (bytes, encoding, done) => {
    take(typeof bytes === 'string' ? bytes : Buffer.from(bytes).toString())
    const told = typeof encoding === 'function' ? encoding : done
    if (told !== undefined) queueMicrotask(told)
    return true
  }
  return () => {
    stream.write = write
    for (const listener of stream.listeners('error')) {
      if (!listeners.includes(listener)) stream.off('error', listener)
    }
  }
}

async function run({ args, variables, folder }) {
  process.argv = [process.execPath, main, ...args]
  process.env = { ...environment, ...variables }
  process.chdir(folder)
  process.exitCode = undefined
  let [printed, stdout, stderr] = ['', '', '']
  const ends = [
    divert(process.stdout, (text) => {
      printed += text
      stdout += text
    }),
    divert(process.stderr, (text) => {
      printed += text
      stderr += text
    }),
  ]
  count += 1
  await import(`${pathToFileURL(main).href}?${count}`)
  for (const end of ends) end()
  const ended = { exitCode: process.exitCode ?? 0, printed, stdout, stderr }
  process.exitCode = undefined
  process.send(ended)
}

process.on('message', (command) => void run(command))
