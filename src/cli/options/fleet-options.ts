/**
 * Options that all processes of a fleet share: where they meet, and what guards the connections between them.
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
      'shared secret of the fleet: frontends and workers that do not know it are turned away (better in BATON_WIRE_SECRET than as a flag, which others on the machine can see)',
    ),
    isSecret: true,
  },
  spec(
    'security',
    'tlsCert',
    '<path>',
    text,
    null,
    "PEM certificate of this process for TLS between the fleet's processes; with --tls-key and --tls-ca",
  ),
  spec('security', 'tlsKey', '<path>', text, null, 'PEM private key of --tls-cert'),
  spec(
    'security',
    'tlsCa',
    '<path>',
    text,
    null,
    "PEM certificate of the fleet's own authority, which has signed the certificates of all its processes",
  ),
]
