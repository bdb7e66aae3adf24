/** Options of the HTTP port of a frontend, and of the state that it keeps. */
import { spec } from './option-spec.ts'
import { amount, byteSize, count, flag, text, textOrObject } from './option-values.ts'
import { STATE_OPTIONS } from './state-options.ts'

export const HTTP_OPTIONS = [
  spec(
    'http',
    'host',
    '<address>',
    text,
    '127.0.0.1',
    'address on which the HTTP frontend listens',
  ),
  spec(
    'http',
    'port',
    '<n>',
    count(0, 65_535),
    8000,
    'port of the HTTP frontend; 0 takes a free one',
  ),
  {
    ...spec(
      'http',
      'keys',
      '<where>',
      textOrObject,
      null,
      "API keys that callers need: a file ('baton keys add' makes it), its JSON, nats://<host>:4222 (a bucket there), or nats (the fleet's own server); changes need no restart",
    ),
    // An address of NATS may contain a password.
    isSecret: true,
  },
  spec(
    'http',
    'httpTlsCert',
    '<path>',
    text,
    null,
    'PEM certificate chain of the HTTP port, with --http-tls-key; reloaded when it changes',
  ),
  spec('http', 'httpTlsKey', '<path>', text, null, 'PEM private key of --http-tls-cert'),
  spec(
    'http',
    'corsOrigin',
    '<list>',
    text,
    null,
    'origins of web pages that may call, separated by commas, or *; pages of this machine may always call',
  ),
  ...STATE_OPTIONS,
  spec(
    'http',
    'insecureOpen',
    '',
    flag,
    false,
    'listen for other machines although no key is required',
  ),
  spec(
    'http',
    'bodyLimit',
    '<size>',
    byteSize,
    45 * 1024 ** 2,
    'largest request body that is accepted',
  ),
  spec(
    'http',
    'unsentLimit',
    '<size>',
    byteSize,
    256 * 1024 ** 2,
    'bytes buffered for all slow clients together; when exceeded, the slowest are disconnected',
  ),
  spec(
    'http',
    'connectionsPerAddress',
    '<n>',
    count(0, 1_000_000),
    2_048,
    'most HTTP connections of one client address; this machine is not limited (0: no limit)',
  ),
  spec(
    'http',
    'modelForgetSeconds',
    '<s>',
    amount(0, 86_400 * 365),
    60,
    'how long requests for a model get 503 after its last worker left; after that the model is unknown (404); also how long other workers that differ must be more than those that serve before they replace them',
  ),
  spec(
    'http',
    'modelCache',
    '<folder>',
    text,
    null,
    "folder for tokenizers and templates that workers send, by hash (default: baton in the user's cache folder, $XDG_CACHE_HOME or ~/.cache)",
  ),
  spec(
    'http',
    'frontends',
    '<n>',
    count(1, 256),
    1,
    'number of frontend processes behind the port; each uses one core',
  ),
]
