/**
 * Removes from an error message what a client must not see: stack traces, paths of this machine, addresses of the
 * fleet.
 *
 * A message about the request (`request.*`) concerns only what the client has sent and is unchanged. All others may
 * contain texts of an engine, a library or the operating system. The log has the full message.
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
/** IPv4; IPv6 in brackets or followed by a port; `localhost:4711`; with their ports. */
const ADDRESS =
  /(?<![\w.:/@-])(?:\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?|\[[\da-fA-F:.%\w]*:[\da-fA-F:.%\w]*\](?::\d{1,5})?|(?:[\da-fA-F]{1,4}(?::[\da-fA-F]{1,4}){0,6})?::[\da-fA-F]{1,5}(?::[\da-fA-F]{1,5}){0,7}|(?:[\da-fA-F]{1,4}:){7,8}\d{1,5}|localhost:\d{1,5})(?![\w.]*\w)/g
/** Host names in error messages of the operating system; `connection to worker 7` names none. */
const HOST_NAME =
  /\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|connection to) (?!workers? \d)[\w.-]+(?::\d{1,5})?/g

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
