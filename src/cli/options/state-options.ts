/** What a frontend keeps between calls: stored responses, files, batches. */
import { spec } from './option-spec.ts'
import { amount, byteSize, count, text } from './option-values.ts'

export const STATE_OPTIONS = [
  spec(
    'http',
    'state',
    '<where>',
    text,
    null,
    'where stored responses and conversations are kept: memory (64 MiB, lost at the end), sqlite:<file> (Node 22.5 or later; survives, shared by frontends of a machine) or off; unset: memory for baton serve with one frontend, else off',
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
    'folder for files and batches (/v1/files, /v1/batches), which survive a restart in it; frontends may share it; unset: both are refused',
  ),
  spec(
    'http',
    'filesLimit',
    '<size>',
    byteSize,
    10 * 1024 ** 3,
    'bytes that all files in --files-dir may take, those that batches write included',
  ),
  spec('http', 'fileLimit', '<size>', byteSize, 200 * 1024 ** 2, 'largest file of an upload'),
  spec(
    'http',
    'filesTtlSeconds',
    '<s>',
    amount(60, 86_400 * 365),
    86_400 * 30,
    'files and batches are forgotten after so long',
  ),
  spec(
    'http',
    'batchRequests',
    '<n>',
    count(1, 4096),
    64,
    'requests of batches that one frontend runs at a time; fewer while others need the workers',
  ),
]
