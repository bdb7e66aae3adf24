/**
 * What a client may read of an error's message: no stack, and no path of this machine.
 *
 * A message about the request speaks of what the client itself has sent and stays as it is. Everything else may hold
 * the words of an engine, of a library or of the operating system. The log has the whole message.
 */
import type { BatonError } from '../../base/index.ts'

const HIDDEN = '…'
const STACK = /\n[ \t]+at [^]*$/
const QUOTED_PATH = /(['"`])(?:file:\/\/)?(?:\/|[A-Za-z]:\\)[^'"`\n]*\1/g
const FILE_URL = /file:\/\/[^\s'"`)]+/g
const WINDOWS_PATH = /(?<!\w)[A-Za-z]:\\[^\s'"`)]+/g
const ABSOLUTE_PATH = /(?<![\w.@+~%/:-])(?:\/[\w.@+~%-]+){2,}\/?(?::\d+)*/g
const FILE_IN_FOLDER =
  /(?<![\w.@+~%/:-])(?:[\w.@+~%-]*\/)+[\w@+~%-][\w.@+~%-]*\.(?:gguf|json|jinja|[cm]?[jt]s|node|so)(?::\d+)*\b/g

export function clientMessage(error: BatonError): string {
  const { code, message } = error
  if (code.startsWith('request.')) return message
  return message
    .replace(STACK, '')
    .replace(QUOTED_PATH, HIDDEN)
    .replace(FILE_URL, HIDDEN)
    .replace(WINDOWS_PATH, HIDDEN)
    .replace(FILE_IN_FOLDER, HIDDEN)
    .replace(ABSOLUTE_PATH, HIDDEN)
}
