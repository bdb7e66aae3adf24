/**
 * Options that all processes of a fleet share: discovery, and the security of the connections between them.
 */
import { spec } from './option-spec.ts'
import { text } from './option-values.ts'

export const FLEET_OPTIONS = [
  spec(
    'fleet',
    'discovery',
    '<where>',
    text,
    null,
    'where workers register and frontends find them: file:<folder> (one machine), nats://<host>:4222[,…] (many), or memory (--in-process); docs/discovery.md lists all forms',
  ),
  spec('fleet', 'discoveryDir', '<folder>', text, null, 'the same as --discovery file:<folder>'),
  {
    ...spec(
      'security',
      'wireSecret',
      '<text>',
      text,
      null,
      'shared secret of the fleet; connections without it are refused (prefer the variable BATON_WIRE_SECRET, because other users of the machine can see flags)',
    ),
    isSecret: true,
  },
  spec(
    'security',
    'tlsCert',
    '<path>',
    text,
    null,
    'PEM certificate of this process for TLS between the processes of the fleet; needs --tls-key and --tls-ca; the three files are reloaded when they change',
  ),
  spec('security', 'tlsKey', '<path>', text, null, 'PEM private key of --tls-cert'),
  spec(
    'security',
    'tlsCa',
    '<path>',
    text,
    null,
    "PEM certificate of the fleet's certificate authority, which signed the certificates of all processes",
  ),
]
