/** Options of the state that a frontend keeps between calls: stored responses, files, batches. */
import { spec } from './option-spec.ts'
import { amount, byteSize, count, text } from './option-values.ts'

export const STATE_OPTIONS = [
  spec(
    'http',
    'state',
    '<where>',
    text,
    null,
    'where stored responses and conversations are kept: memory (64 MiB, lost on exit), sqlite:<file> (Node 22.5 or later; survives a restart, shared by the frontends of a machine) or off; default: memory for baton serve with one frontend, otherwise off',
  ),
  spec(
    'http',
    'stateTtlSeconds',
    '<s>',
    amount(1, 86_400 * 365),
    86_400,
    'how long a stored response or conversation is kept',
  ),
  spec(
    'http',
    'filesDir',
    '<folder>',
    text,
    null,
    'folder for files and batches (/v1/files, /v1/batches), which survive a restart; frontends may share it; default: both APIs are refused',
  ),
  spec(
    'http',
    'filesLimit',
    '<size>',
    byteSize,
    10 * 1024 ** 3,
    'most bytes of all files in --files-dir, including the output of batches',
  ),
  spec(
    'http',
    'fileLimit',
    '<size>',
    byteSize,
    200 * 1024 ** 2,
    'largest file that can be uploaded',
  ),
  spec(
    'http',
    'filesTtlSeconds',
    '<s>',
    amount(60, 86_400 * 365),
    86_400 * 30,
    'files and batches are deleted after this time',
  ),
  spec(
    'http',
    'batchRequests',
    '<n>',
    count(1, 4096),
    64,
    'most batch requests that one frontend runs at a time; fewer while other requests need the workers',
  ),
]
