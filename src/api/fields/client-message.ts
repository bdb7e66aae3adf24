/**
 * What a client may read of an error's message: no stack, no path of this machine, and no address of the fleet.
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
/** IPv4, IPv6 in brackets or before a port as the operating system writes it, `localhost:4711`; with their ports. */
const ADDRESS =
  /(?<![\w.:/@-])(?:\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?|\[[\da-fA-F:.%\w]*:[\da-fA-F:.%\w]*\](?::\d{1,5})?|(?:[\da-fA-F]{1,4}(?::[\da-fA-F]{1,4}){0,6})?::[\da-fA-F]{1,5}(?::[\da-fA-F]{1,5}){0,7}|(?:[\da-fA-F]{1,4}:){7,8}\d{1,5}|localhost:\d{1,5})(?![\w.]*\w)/g
/** What the operating system was asked to reach by name. */
const HOST_NAME = /\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|connection to) [\w.-]+(?::\d{1,5})?/g

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
    .replace(ADDRESS, HIDDEN)
    .replace(HOST_NAME, `$1 ${HIDDEN}`)
}
